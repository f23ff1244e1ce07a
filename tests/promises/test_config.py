"""Configurations that cannot work: told at once and clearly, and a running supervisor keeps what it has."""
import os
import shutil
import subprocess

import pytest

from harness import QUREDISD, queue, wait_for

EX_CONFIG = 78
NOBODY = 65534


def refused(d, *words, args=("-t",)):
    done = d.check(*args)
    text = done.stdout + done.stderr
    assert done.returncode == EX_CONFIG, (done.returncode, text)
    for word in words:
        assert str(word) in text, (word, text)
    return text


def test_an_absent_file(redis, quredisd):
    d = quredisd(start=False)
    d.conf.unlink()
    refused(d, d.conf)
    refused(d, d.conf, args=())


def test_a_directory_instead(redis, quredisd):
    d = quredisd(start=False)
    d.conf.unlink()
    d.conf.mkdir()
    refused(d, d.conf)


def test_a_fifo_does_not_hang(redis, quredisd):
    d = quredisd(start=False)
    d.conf.unlink()
    os.mkfifo(d.conf)
    refused(d, d.conf)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to become somebody who may not read")
def test_an_unreadable_file(redis, quredisd, handler, tmp):
    d = quredisd(start=False, queues=[queue("mail", handler("exit 0"))])
    d.conf.chmod(0o600)
    program = shutil.copy(QUREDISD, tmp / "quredisd")         # nobody reads below /root
    done = subprocess.run([program, "-t", "-c", d.conf], capture_output=True, text=True, user=NOBODY, group=NOBODY, extra_groups=[],
                          env=d.environment(), timeout=30)
    assert done.returncode == EX_CONFIG and str(d.conf) in done.stderr + done.stdout
    assert "ermission" in done.stderr + done.stdout


@pytest.mark.parametrize("path, words", [
    ("/nonexistent/handler", ["queue held: ", "/nonexistent/handler: it does not exist"]),
    ("@plain", ["handler"]), ("@dir", ["handler"]), ("relative", ["relative", "absolute"]),
])
def test_handler_paths(redis, quredisd, tmp, path, words):
    (tmp / "plain").write_text("#!/bin/sh\n")
    (tmp / "dir").mkdir()
    d = quredisd(start=False, queues=[queue("mail", path.replace("@", f"{tmp}/"))])
    refused(d, d.conf, *words)


@pytest.mark.parametrize("command", [["/bin/sh", "-eu"], ["/usr/bin/env", "A=/b", "python3"], ["/usr/bin/env"], ["/usr/bin/env", "-S", "python3 -u"]])
def test_a_missing_script(redis, quredisd, tmp, command):
    """quredisd -t reports it as a missing program. Where an argument may be another thing than a script, it is not looked for."""
    d = quredisd(start=False, queues=[queue("mail", [*command, f"{tmp}/gone.x"])])
    line = next(i for i, text in enumerate(d.conf.read_text().split("\n"), 1) if "gone.x" in text)
    refused(d, f"queue held: {d.conf}:{line}: handler: ", f"{tmp}/gone.x", " does not exist: ")
    quredisd(queues=[queue("mail", ["/bin/sh", "-c", f"{tmp}/gone.x"])])


def test_a_missing_script_counts_from_the_directory_of_the_handler(redis, quredisd, tmp):
    (tmp / "there.sh").write_text("")
    d = quredisd(start=False, queues=[queue("mail", ["/bin/sh", "./gone.sh"], run_as={"directory": str(tmp)})])
    refused(d, f"{tmp}/./gone.sh: it does not exist")
    quredisd(queues=[queue("mail", ["/bin/sh", "./there.sh"], run_as={"directory": str(tmp)})])


def test_line_numbers_and_nearest_names(redis, quredisd, handler):
    d = quredisd(start=False, queues=[queue("mail", handler("exit 0"), timeuot="5s", max_attempts="many")])
    lines = d.conf.read_text().split("\n")
    at = {word: next(i for i, line in enumerate(lines, 1) if word in line) for word in ("timeuot", "max_attempts")}
    refused(d, f"{d.conf}:{at['timeuot']}", "timeout", f"{d.conf}:{at['max_attempts']}")


def test_a_password_file_that_others_read(redis_server, quredisd, handler, tmp):
    server = redis_server(config={"requirepass": "secret"})
    path = tmp / "pass"
    path.write_text("secret")
    path.chmod(0o644)
    d = quredisd(redis={"url": server.url, "password_file": path}, start=False, queues=[queue("mail", handler("exit 0"))])
    refused(d, path)
    path.unlink()
    refused(d, path)


BROKEN = [("queues = (", "syntax"),
          ("nonsense = 1;\n", "nonsense"), ("supervisor : { drain_timeout = 3; };\n", "drain_timeout"),
          ('queues = ( { name = "mail"; handler = ["relative"]; } );\n', "relative"), (None, "")]


def test_a_broken_configuration_keeps_the_old_one(redis, quredisd, handler, ledger):
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler('read -r m; echo "$m" >>@LEDGER@'), workers=2)])
    workers = d.wait_workers("mail", 2)
    good = d.conf.read_text()
    for n, (text, word) in enumerate(BROKEN):
        mark = d.mark()
        if text is None:
            d.conf.unlink()
        else:
            d.conf.write_text(text)
        d.signal(1)
        line = d.wait_event("reload_failed", 20, since=mark)
        assert line["level"] in ("warning", "error")
        problems = [e["reason"] for e in d.events("config_problem", since=mark, level="error")]
        assert any(str(d.conf) in reason and word in reason for reason in problems), problems
        c.lpush("ingress:mail", f"m{n}")
        wait_for(lambda: ledger.count(f"m{n}") == 1)
    assert d.workers("mail") == workers
    d.conf.write_text(good)
    mark = d.mark()
    d.signal(1)
    d.wait_event("reload_done", 20, since=mark)
    assert d.workers("mail") == workers
