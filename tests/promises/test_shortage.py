"""The host has no process for a handler: the queue is held and says why, nobody is charged, and it goes on by itself."""
import os
import subprocess

import pytest

from harness import queue, wait_for
from harness.control import status
from harness.messages import anywhere, unwrap

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, whose processes no limit counts")

BODY = 'read -r m; echo "$m $QUREDIS_ATTEMPT $QUREDIS_REDELIVERED" >>@LEDGER@'
NO_PROCESS = "its handler cannot be started: its user (limits.processes, LimitNPROC=) or the service (TasksMax=) may have no more processes: "


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


def test_no_process_for_the_workers_themselves(redis, quredisd, handler, ledger):
    """fork fails. The limit is lifted, and set again."""
    user = "list"
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
