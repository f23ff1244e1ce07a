"""The host has no process for a handler: the queue is held and says why, nobody is charged, and it goes on by itself."""
import collections
import contextlib
import os
import pwd
import socket
import subprocess

import pytest

from harness import queue, wait_for
from harness.control import status
from harness.messages import anywhere, unwrap

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, whose processes no limit counts")

BODY = 'read -r m; echo "$m $QUREDIS_ATTEMPT $QUREDIS_REDELIVERED" >>@LEDGER@'
NO_PROCESS = "its handler cannot be started: its user (limits.processes, LimitNPROC=) or the service (TasksMax=) may have no more processes: "


@pytest.fixture
def user():
    """Of the test alone, since the kernel counts the user's processes: nobody has one, and no other test has bound its name."""
    for name in ("uucp", "news", "list", "irc", "backup", "lp", "man", "proxy"):
        with socket.socket(socket.AF_UNIX) as mine, contextlib.suppress(OSError, KeyError):
            uid = pwd.getpwnam(name).pw_uid
            mine.bind(f"\0quredis-test-user-{name}")
            if not any(p.isdigit() and os.path.exists(f"/proc/{p}") and os.stat(f"/proc/{p}").st_uid == uid for p in os.listdir("/proc")):
                yield name
                return
    pytest.skip("each user has processes")


@contextlib.contextmanager
def processes_of(user, n):
    taken = [subprocess.Popen(["/bin/sleep", "600"], user=user, group=user, extra_groups=[], stdin=subprocess.DEVNULL) for _ in range(n)]
    try:
        yield
    finally:
        for p in taken:
            p.kill()
            p.wait()


def limit_processes(user, pid, n):
    """As the user itself, whom the kernel lets change the limits of its processes. A worker becomes that user a moment after it has its title."""
    wait_for(lambda: subprocess.run(["prlimit", f"--pid={pid}", f"--nproc={n}:10000"], user=user, group=user, extra_groups=[],
                                    stderr=subprocess.DEVNULL).returncode == 0)


def said(d):
    q = status(d, "mail")
    return q["state"], q["reason"]


def is_held(d):
    state, reason = said(d)
    return state == "no process" and reason.startswith(NO_PROCESS) and "(Resource temporarily unavailable); next attempt " in reason


def assert_uncharged(c, ledger, names):
    """Each ran once, in its first attempt, and none was marked or escaped."""
    wait_for(lambda: len(ledger.lines()) == len(names) and not anywhere(c, "mail"), 60)
    assert sorted(ledger.lines()) == sorted(f"{n} 1 0" for n in names) and c.llen("escape:mail") == 0


@pytest.mark.parametrize("mode", ["exec", "persistent"])
def test_no_process_for_the_user_of_the_handler(redis, quredisd, handler, ledger, user, mode):
    """The kernel refuses in execve the process after the one above the limit. It is no evidence against the handler, so no breaker opens."""
    body = BODY if mode == "exec" else """while read -r _ serial _; do
        read -r m
        echo "$m 1 0" >>@LEDGER@
        echo "OK $serial"
    done"""
    c, names = redis.client(), [f"m{i}" for i in range(20)]
    ledger.path.touch()
    ledger.path.chmod(0o666)
    neighbour = queue("other", handler("read -r m; echo other >>@TMP@/other", name="other"), mode="exec")
    d = quredisd(queues=[queue("mail", handler(body), workers=3, mode=mode, max_attempts=1, limits={"processes": 2}, run_as={"user": user}), neighbour])
    with processes_of(user, 3):
        c.lpush("ingress:mail", *names)
        wait_for(lambda: is_held(d), 30)
        d.wait_event("queue_state", queue="mail", state="no process")
        d.quredis("pause", "mail")
        wait_for(lambda: c.llen("ingress:mail") == 20, 30, "all messages are back")
        assert is_held(d), "the worse one of two holds"
        d.quredis("resume", "mail")
        c.lpush("ingress:other", "x")
        wait_for(lambda: not anywhere(c, "other") and os.path.exists(ledger.path.parent / "other"), 30, "a neighbour goes on")
        d.reload()
        wait_for(lambda: is_held(d), 30, "also after a reload")
        assert status(d, "other")["state"] == "running"
        assert {unwrap(m)[0].get("attempts", 0) for m in anywhere(c, "mail")} == {0}
    assert_uncharged(c, ledger, names)
    wait_for(lambda: said(d)[0] == "running", 30)
    assert not d.events("breaker_opened")


def test_workers_that_can_start_handlers_go_on(redis, quredisd, handler, ledger, user):
    """Two of three get a process: the queue runs, says what the third lacks, and no breaker takes one message at a time."""
    c, names = redis.client(), [f"m{i}" for i in range(6)]
    ledger.path.touch()
    ledger.path.chmod(0o666)
    (ledger.path.parent / "go").touch()
    slow = handler("import os, sys, time\nm = sys.stdin.read()\nwhile os.path.exists('@TMP@/go'):\n    time.sleep(0.05)\n"
                   "open('@LEDGER@', 'a').write(m + '\\n')", "python")
    d = quredisd(queues=[queue("mail", slow, workers=3, limits={"processes": 1}, run_as={"user": user})])
    c.lpush("ingress:mail", *names)
    d.wait_event("handler_not_started", queue="mail")
    wait_for(lambda: said(d)[0] == "running" and (said(d)[1] or "").startswith(NO_PROCESS), 30)
    (ledger.path.parent / "go").unlink()
    wait_for(lambda: collections.Counter(ledger.lines()) == collections.Counter(names) and not anywhere(c, "mail"), 60)
    assert not d.events("breaker_opened") and not d.events("queue_state", state="no process")


def test_no_process_for_the_workers_themselves(redis, quredisd, handler, ledger, user):
    """fork fails. The limit is lifted, and set again."""
    c = redis.client()
    ledger.path.touch()
    ledger.path.chmod(0o666)
    d = quredisd(queues=[queue("mail", handler(BODY), workers=3, max_attempts=1)], supervisor={"user": user})
    workers = d.wait_workers("mail", 3)
    for name in ("a", "b"):
        for pid in workers.values():
            limit_processes(user, pid, 1)
        c.lpush("ingress:mail", name)
        wait_for(lambda: is_held(d), 30)
        assert [unwrap(m)[0].get("attempts", 0) for m in anywhere(c, "mail")] == [0]
        for pid in workers.values():
            limit_processes(user, pid, 9000)
        wait_for(lambda: ledger.count(f"{name} 1 0") and said(d)[0] == "running", 60)
    assert_uncharged(c, ledger, ["a", "b"])
    assert d.workers("mail") == workers
