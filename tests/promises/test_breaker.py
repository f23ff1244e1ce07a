"""A handler that cannot run costs time, not messages; a worker that cannot live costs a spawn now and then."""
import collections
import json
import os
import re
import shutil
import signal
import sys
import threading
import time

import pytest

from harness import queue, wait_for
from harness.control import status
from harness.messages import anywhere, unwrap

GOOD = 'read -r m; echo "$m" >>@LEDGER@'


POISONED = {
    "exec": ("sh", 'read -r m; case $m in poison*) exit 1;; esac; echo "$m" >>@LEDGER@', {}),
    "persistent": ("python", r'''
import os, sys
fd = os.open("@LEDGER@", os.O_WRONLY | os.O_APPEND)
jobs = sys.stdin.buffer
while head := jobs.readline().split():
    message = jobs.read(int(head[3]) + 1)
    if message.startswith(b"poison"):
        os._exit(1)
    os.write(fd, message)
    print("OK", head[1].decode(), flush=True)
''', {"mode": "persistent", "window": 4}),
}
ENDS_WITHOUT_READING = "#!/bin/sh\nexit 1\n"
READS_AND_ENDS = "#!/bin/sh\nread -r head; exit 1\n"


def put(path, text, mode=0o755):
    """Replaces the handler in one step, as a deploy does."""
    with open(path + ".new", "w") as f:
        f.write(text)
    os.chmod(path + ".new", mode)
    os.rename(path + ".new", path)


def state(d, name):
    done = d.quredis("status", "--json")
    assert done.code == 0, done.err
    return done.out


@pytest.mark.parametrize("first_line", ["#!/usr/bin/env pyhton3", "#!/usr/bin/env sh\r"])
def test_env_that_does_not_find_the_interpreter(redis, quredisd, handler, ledger, first_line):
    """env ends with status 127, as any handler may; the files say that no message is the cause."""
    path = handler(GOOD, name="deployed")
    good = open(path).read()
    put(path, f"{first_line}\n")
    d = quredisd(queues=[queue("mail", path)])
    redis.client().lpush("ingress:mail", *"abc")
    wait_for(lambda: status(d, "mail")["state"] == "breaker")
    reason = status(d, "mail")["reason"]
    assert "exit status 127" in reason and path in reason and ("asks env for pyhton3" in reason or "CR LF" in reason), reason
    put(path, good)
    wait_for(lambda: sorted(ledger.lines()) == ["a", "b", "c"])
    wait_for(lambda: status(d, "mail")["state"] == "running")
    counters = status(d, "mail")["counters"]
    assert counters["failed"] == 0 and redis.client().llen("escape:mail") == 0, counters


def test_a_status_of_env_that_a_message_causes(redis, quredisd, handler):
    d = quredisd(queues=[queue("mail", handler('read -r m; exit "$m"'))])
    redis.client().lpush("ingress:mail", "126", "127")
    wait_for(lambda: redis.client().llen("escape:mail") == 2)
    assert status(d, "mail")["state"] == "running"


def test_a_judge_of_files_that_errs_stops_no_queue(redis, quredisd, handler, ledger):
    """The kernel looks for this interpreter from the root, where the handler runs. quredisd takes it for no interpreter."""
    path = handler('read -r m; [ "$m" = bad ] && exit 127; echo "$m" >>@LEDGER@', name="deployed")
    put(path, open(path).read().replace("#!/bin/sh", "#!bin/sh"))
    d = quredisd(queues=[queue("mail", path, max_attempts=1, run_as={"directory": "/"})])
    names = [f"m{i}" for i in range(20)]
    redis.client().lpush("ingress:mail", "first")
    wait_for(lambda: ledger.lines() == ["first"])
    redis.client().lpush("ingress:mail", "bad", *names)
    wait_for(lambda: sorted(ledger.lines()) == sorted(["first", *names]))
    wait_for(lambda: redis.client().lrange("escape:mail", 0, -1) == [b"bad"])
    wait_for(lambda: status(d, "mail")["state"] == "running")


@pytest.mark.limit(180)
@pytest.mark.parametrize("how", ["not-executable", "no-interpreter", "gone", "garbage"])
def test_a_deploy_that_cannot_be_executed(redis, quredisd, handler, ledger, how):
    n = 1000 if how == "no-interpreter" else 100
    names = [f"m{i}" for i in range(n)]
    path = handler(GOOD, name="deployed")
    good = open(path).read()
    c = redis.client()
    d = quredisd(queues=[queue("mail", path, workers=4), queue("news", handler(GOOD))])
    d.wait_workers("mail", 4)
    d.wait_workers("news", 1)
    workers = d.workers()
    if how == "not-executable":
        put(path, good, 0o644)
    elif how == "no-interpreter":
        put(path, "#!/nonexistent/sh\n")
    elif how == "gone":
        os.unlink(path)
    else:
        put(path, "\x7fELF nonsense")
    c.lpush("ingress:mail", *names)
    line = d.wait_event("breaker_opened", 30, queue="mail")
    at, file = ("interpreter", "/nonexistent/sh") if how == "no-interpreter" else ("execve", path)
    assert line["handler"] == path and line["at"] == at and line["file"] == file and line["error"]
    since = time.monotonic()
    c.lpush("ingress:news", "other")
    wait_for(lambda: ledger.count("other"))
    wait_for(lambda: time.monotonic() - since > 2)          # probes go on
    assert c.llen("escape:mail") == 0 and len(anywhere(c, "mail")) == n
    assert {unwrap(m)[0].get("attempts", 0) for m in anywhere(c, "mail")} == {0}
    assert "breaker" in state(d, "mail")
    assert len(d.events("breaker_opened", queue="mail")) == 1         # not a line a probe
    put(path, good)
    wait_for(lambda: len(ledger.lines()) == n + 1 and not anywhere(c, "mail"), 100, "it heals")
    d.wait_event("breaker_closed", queue="mail")
    assert c.llen("escape:mail") == 0 and collections.Counter(ledger.lines()) == collections.Counter(names + ["other"])
    assert d.workers() == workers


@pytest.mark.parametrize("how", ["gone", "gone-at-start", "unreadable", "too-large", "gone-behind-env", "gone-behind-env-split"])
@pytest.mark.parametrize("mode", POISONED)
def test_an_interpreter_that_cannot_run_its_script(redis, quredisd, handler, ledger, mode, how):
    """The program can be executed, but it has nothing to run: its exit would look like an answer of the handler, also with one attempt left."""
    lang, body, keys = POISONED[mode]
    path = handler(body, lang, name="deployed")
    good, names = open(path).read(), [f"m{i}" for i in range(20)]
    c = redis.client()
    interpreter = {"sh": "/bin/sh", "python": sys.executable}[lang]
    if how == "unreadable":
        keys = {**keys, "run_as": {"user": "nobody"}}
        os.chmod(os.path.dirname(path), 0o755)
        os.chmod(ledger.path, 0o666)
    command = {"gone-behind-env": ["/usr/bin/env", "A=/b", interpreter, path],
               "gone-behind-env-split": ["/usr/bin/env", "-S", f"{interpreter} {path}"]}.get(how, [interpreter, path])
    d = quredisd(queues=[queue("mail", command, workers=2, max_attempts=1, env=["BIG=" + "x" * (150000 if how == "too-large" else 1)], **keys)])
    if how == "gone-at-start":
        os.unlink(path)
    elif how != "too-large":
        c.lpush("ingress:mail", "before")
        wait_for(lambda: ledger.count("before") and not anywhere(c, "mail"))
        os.chmod(path, 0o600) if how == "unreadable" else os.unlink(path)
        for pid in d.handlers():
            os.kill(pid, signal.SIGKILL)
    c.lpush("ingress:mail", *names)
    line = d.wait_event("breaker_opened", 30, queue="mail")
    wait_for(lambda: json.loads(d.quredis("stats", "mail", "--json").out)["counters"]["unrunnable"] >= 3, 30, "probes go on")
    assert c.llen("escape:mail") == 0 and {unwrap(m)[0].get("attempts", 0) for m in anywhere(c, "mail")} == {0}
    if how == "too-large":
        return
    assert line["at"] == "script" and line["file"] == path and line["handler"] == command[0]
    assert f"its handler cannot be executed: script {path}: " in state(d, "mail")
    put(path, good)
    wait_for(lambda: len(set(ledger.lines()) - {"before"}) == 20 and not anywhere(c, "mail"), 100, "it heals")
    assert c.llen("escape:mail") == 0


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to run a handler as somebody who may not read")
@pytest.mark.parametrize("mode", POISONED)
def test_a_script_that_may_be_executed_and_not_read(redis, quredisd, handler, ledger, mode):
    """The kernel runs the interpreter of its first line, which cannot open it: its exit would look like an answer. A binary need not be readable."""
    lang, body, keys = POISONED[mode]
    path, names = handler(body, lang, name="deployed"), [f"m{i}" for i in range(20)]
    binary = os.path.join(os.path.dirname(path), "binary")
    shutil.copy("/bin/true", binary)
    os.chmod(binary, 0o711)
    os.chmod(os.path.dirname(path), 0o755)
    os.chmod(ledger.path, 0o666)
    os.chmod(path, 0o711)
    c = redis.client()
    run_as = {"user": "nobody"}
    d = quredisd(queues=[queue("mail", path, workers=2, max_attempts=1, run_as=run_as, **keys), queue("binary", binary, run_as=run_as)])
    c.lpush("ingress:mail", *names)
    c.lpush("ingress:binary", "x")
    line = d.wait_event("breaker_opened", 30, queue="mail")
    wait_for(lambda: json.loads(d.quredis("stats", "mail", "--json").out)["counters"]["unrunnable"] >= 3, 30, "probes go on")
    wait_for(lambda: not anywhere(c, "binary"))
    assert (line["at"], line["file"], line["error"]) == ("script", path, "Permission denied")
    assert f"its handler cannot be executed: script {path}: Permission denied" in state(d, "mail")
    assert c.llen("escape:mail") == 0 and {unwrap(m)[0].get("attempts", 0) for m in anywhere(c, "mail")} == {0}
    os.chmod(path, 0o755)
    wait_for(lambda: len(set(ledger.lines())) == 20 and not anywhere(c, "mail"), 100, "it heals")
    assert c.llen("escape:mail") == 0


def test_failures_in_a_row_open_it_when_asked_to(redis, quredisd, handler, ledger):
    path = handler("echo unable to open database file >&2; exit 1", name="deployed")
    names = [f"m{i}" for i in range(200)]
    c = redis.client()
    d = quredisd(queues=[queue("mail", path, workers=2, breaker={"failures": 5})])
    c.lpush("ingress:mail", *names)
    d.wait_event("breaker_opened", 30, queue="mail")
    since = time.monotonic()
    reason = status(d, "mail")["reason"]
    assert re.search("messages failed in a row, the last one with exit status 1: unable to open database file(;|$)", reason), reason
    wait_for(lambda: time.monotonic() - since > 2)
    lost = c.llen("escape:mail")
    print(f"\n{lost} of {len(names)} escaped before and during the breaker")
    assert 5 <= lost <= 5 + 2 + 6                 # the row, what ran meanwhile, a few probes
    put(path, "#!/bin/sh\n" + GOOD.replace("@LEDGER@", str(ledger.path)) + "\n")
    wait_for(lambda: not anywhere(c, "mail"), 100)
    assert len(ledger.lines()) == len(names) - c.llen("escape:mail")
    assert c.llen("escape:mail") <= lost + 2


def test_the_same_message_failing_again_is_no_row(redis, quredisd, handler):
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler("exit 1"), breaker={"failures": 3}, max_attempts=8,
                               backoff={"base": "1ms", "cap": "2ms"})])
    c.lpush("ingress:mail", "poison")
    wait_for(lambda: c.llen("escape:mail") == 1)
    assert d.events("breaker_opened") == []


@pytest.mark.limit(180)
@pytest.mark.parametrize("n", [5, 10])
@pytest.mark.parametrize("mode", POISONED)
def test_poison_among_good_messages_does_not_stop_the_queue(redis, quredisd, handler, ledger, mode, n):
    """The breaker stays closed when the poison arrives, and when all of it returns at one time with no good message between."""
    lang, body, keys = POISONED[mode]
    names = []
    for i in range(n):
        names += [f"poison{i}", *(f"m{i}.{k}" for k in range(4))]
    good = [m for m in names if not m.startswith("poison")]
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler(body, lang), workers=2, breaker={"failures": 4}, max_attempts=3,
                               backoff={"base": "500ms", "factor": 1.0, "jitter": 0.0}, **keys)])
    c.lpush("ingress:mail", "first")        # from its answer on the handler is known to work
    wait_for(lambda: ledger.count("first") and not anywhere(c, "mail"))
    c.lpush("ingress:mail", *names)
    wait_for(lambda: len(ledger.lines()) > len(good) and c.llen("escape:mail") == n, 120)
    assert sorted(set(ledger.lines())) == sorted(["first", *good])
    assert d.events("breaker_opened") == []
    c.lpush("ingress:mail", "last")
    wait_for(lambda: ledger.count("last"))


def deploy(d, c, path, text, how):
    put(path, text)
    if how == "restart":
        assert d.quredis("restart", "mail").code == 0
    else:
        for pid in d.handlers():
            os.kill(pid, signal.SIGKILL)
    c.lpush("ingress:mail", *[f"m{i}" for i in range(200)])


@pytest.mark.limit(180)
@pytest.mark.parametrize("bad, how, most", [
    (ENDS_WITHOUT_READING, "start", 0), (ENDS_WITHOUT_READING, "in-place", 0), (ENDS_WITHOUT_READING, "restart", 0),
    (READS_AND_ENDS, "start", 0), (READS_AND_ENDS, "restart", 0), (READS_AND_ENDS, "in-place", 16),
], ids=["unread-start", "unread-in-place", "unread-restart", "read-start", "read-restart", "read-in-place"])
def test_a_bad_deploy_of_a_persistent_handler(redis, quredisd, handler, ledger, bad, how, most):
    lang, body, keys = POISONED["persistent"]
    path = handler(body, lang, name="deployed")
    good = open(path).read()
    c = redis.client()
    if how == "start":
        put(path, bad)
    d = quredisd(queues=[queue("mail", path, **keys)])
    if how == "start":
        deploy(d, c, path, bad, how)
    else:
        c.lpush("ingress:mail", "before")
        wait_for(lambda: ledger.count("before") and not anywhere(c, "mail"))
        deploy(d, c, path, bad, how)
    line = d.wait_event("breaker_opened", 60, queue="mail")
    assert line["handler"] == path
    wait_for(lambda: "breaker" in state(d, "mail"))
    since = time.monotonic()
    wait_for(lambda: time.monotonic() - since > 2)          # probes go on
    lost = c.llen("escape:mail")
    assert len(d.events("breaker_closed")) == 0
    assert lost <= most
    put(path, good)
    wait_for(lambda: not anywhere(c, "mail") or len(anywhere(c, "mail")) == c.llen("escape:mail"), 100, "it heals")
    d.wait_event("breaker_closed", queue="mail")
    assert c.llen("escape:mail") <= lost + 2
    assert len(set(ledger.lines()) - {"before"}) == 200 - c.llen("escape:mail")


def test_a_worker_that_dies_at_once_costs_little(redis, quredisd, handler):
    """Each is killed as soon as it is there."""
    d = quredisd(queues=[queue("mail", handler("exit 0"), workers=2), queue("news", handler("exit 0"))])
    d.wait_workers("mail", 2)
    others, stop, killed = d.workers("news"), threading.Event(), set()

    def reaper():
        while not stop.wait(0.005):
            for pid in d.workers("mail").values():
                try:
                    os.kill(pid, signal.SIGKILL)
                    killed.add(pid)
                except ProcessLookupError:
                    pass
    t = threading.Thread(target=reaper, daemon=True)
    since = time.monotonic()
    t.start()
    try:
        wait_for(lambda: time.monotonic() - since > 12, 30)
    finally:
        stop.set()
        t.join(10)
    elapsed = time.monotonic() - since
    print(f"\n{len(killed)} workers spawned in {elapsed:.0f} s")
    assert 4 <= len(killed) <= 2 + elapsed
    assert d.workers("news") == others
    assert "backoff" in state(d, "mail") or "quarantine" in state(d, "mail")
    wait_for(lambda: len(d.workers("mail")) >= 1, 100, "it is never given up")
