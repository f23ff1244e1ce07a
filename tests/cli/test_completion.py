"""quredis completion: what a shell offers at the Tab key."""
import os
import shutil
import signal
import subprocess

import pytest

from harness import QUREDIS, render
from harness.queues import Queue


@pytest.fixture
def offers(quredis, tmp):
    """Offered for the last of these words."""
    def ask(*words, conf=None):
        before = ["-c", str(conf)] if conf else []
        r = quredis("completion", "words", "--", *before, *words)
        assert (r.code, r.err) == (0, "")
        return [line.split("\t")[0] for line in r.out.splitlines()]
    return ask


@pytest.fixture
def conf(redis, tmp, handler):
    path = tmp / "quredis.conf"
    path.write_text(render({"redis": {"url": redis.url}, "queues": [{"name": "mail", "handler": [handler("exit 0")]}]}))
    Queue(redis.client(), "news")
    return path


def test_commands_and_options(offers):
    assert "dlq" in offers("") and offers("").count("dlq") == 1 and "dlq ls" not in offers("")
    assert offers("pu") == ["purge", "push"]
    assert set(offers("dlq", "")) == {"export", "import", "ls", "retry", "rm", "show", "stats"}
    assert "--json" in offers("-") and "--lines" not in offers("--") and "--lines" in offers("push", "mail", "--l")
    assert offers("help", "sto") == ["stop"] and offers("nothing", "like", "") == []


def test_operands(offers, conf):
    assert offers("peek", "", conf=conf) == ["mail", "news"] and offers("peek", "n", conf=conf) == ["news"]
    assert offers("stats", "mail", "news", "", conf=conf) == ["mail", "news"]
    assert offers("peek", "mail", "", conf=conf) == ["ingress", "transit", "escape", "delayed"]
    assert offers("dlq", "show", "no such", "", conf=conf) == []
    assert offers("ls", "", conf=conf) == ["mail", "news"] and offers("nodes", "", conf=conf) == []


def test_values_of_options(offers):
    assert offers("dlq", "ls", "mail", "-C", "Handler") == ["HandlerExit", "HandlerFail", "HandlerSignal", "HandlerTimeout"]
    assert offers("run", "mail", "--from", "") == ["ingress", "escape", "delayed"]
    assert offers("push", "mail", "--id", "") == []
    assert offers("top", "--sort", "") == ["health", "name", "ingress", "oldest", "transit", "delayed", "escape", "failed"]
    assert offers("--color", "") == ["auto", "always", "never"] and offers("ls", "--color", "n") == ["never"]
    assert offers("-c", "") == [":files"] and offers("push", "mail", "--delay", "") == []


def test_redis_that_does_not_answer_keeps_nobody_waiting(quredis, conf, redis):
    redis.signal(signal.SIGSTOP)
    try:
        done = subprocess.run([QUREDIS, "completion", "words", "--", "-c", conf, "peek", ""], capture_output=True, text=True, timeout=20)
    finally:
        redis.signal(signal.SIGCONT)
    assert done.stdout == "mail\n"
    redis.stop()
    done = subprocess.run([QUREDIS, "completion", "words", "--", "-c", conf, "peek", ""], capture_output=True, text=True, timeout=20)
    assert (done.stdout, done.stderr) == ("mail\n", "")


@pytest.mark.parametrize("words, reply", [(["quredis", "pu"], "purge push"),
                                          (["quredis", "dlq", "ls", "mail", "-C", "Handler"], "HandlerExit HandlerFail HandlerSignal HandlerTimeout")])
def test_bash(words, reply):
    script = """eval "$(quredis completion bash)"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _quredis; echo "${COMPREPLY[*]}"; complete -p quredis"""
    done = subprocess.run(["bash", "-c", script, "bash", *words], capture_output=True, text=True,
                          env={**os.environ, "PATH": f"{QUREDIS.parent}:{os.environ['PATH']}"})
    assert done.stdout == reply + "\ncomplete -F _quredis quredis\n" and done.stderr == ""


@pytest.mark.parametrize("shell", ["bash", "fish", "zsh"])
def test_scripts_have_no_mistake_of_syntax(quredis, tmp, shell):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    (tmp / "script").write_text(quredis("completion", shell).out)
    done = subprocess.run([shell, "-n", tmp / "script"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_another_shell(quredis):
    r = quredis("completion", "tcsh")
    assert r.code == 64 and "bash, fish or zsh" in r.err
