"""A bad queue never slows the others: figures from one run with and without it."""
import os
import time

import pytest

from harness import queue, wait_for

N = 300
RATIO = 5


def measure(client, ledger, name):
    """Seconds for N messages of the healthy queue."""
    done = len([x for x in ledger.lines() if x == "ok"])
    since = time.monotonic()
    client.lpush(f"ingress:{name}", *["x"] * N)
    wait_for(lambda: len([x for x in ledger.lines() if x == "ok"]) == done + N, 100, f"{N} messages of {name}")
    return time.monotonic() - since


def healthy(handler):
    return queue("well", handler("echo ok >>@LEDGER@"), workers=2)


@pytest.mark.parametrize("what", ["wrong-types", "always-fails", "cannot-run", "dying-workers"])
@pytest.mark.limit(180)
def test_beside_a_sick_queue(redis, quredisd, handler, ledger, what):
    c = redis.client()
    body = {"dying-workers": "kill -9 $PPID; sleep 1"}.get(what, "exit 1")
    path = handler(body, name="sick")
    sick = queue("sick", path, workers=2, max_attempts=1000000, recovery_attempts=1000,
                 backoff={"base": "1s", "cap": "1s"})
    d = quredisd(queues=[healthy(handler)], log={"level": "info"})
    alone = [measure(c, ledger, "well") for _ in range(2)]
    workers = d.workers("well")
    if what == "wrong-types":
        for key in ("ingress:sick", "escape:sick", "transit:sick", "transit:sick:workers", "quredis:of:ingress:sick:delayed"):
            c.set(key, "not a list")
    else:
        c.lpush("ingress:sick", *["poison"] * 500)
    d.reload(queues=[healthy(handler) | {"handler": d.sections["queues"][0]["handler"]}, sick])
    d.wait_event("reload_done")
    if what == "cannot-run":
        os.unlink(path)
    d.wait_event({"wrong-types": "queue_error", "always-fails": "message_retried", "cannot-run": "breaker_opened",
                  "dying-workers": "worker_died"}[what], 30)
    beside = [measure(c, ledger, "well") for _ in range(2)]
    print(f"\n{what}: {N} messages alone {min(alone):.2f} s, beside it {min(beside):.2f} s, "
          f"ratio {min(beside) / min(alone):.2f}")
    assert min(beside) <= RATIO * min(alone) + 0.5
    assert d.workers("well") == workers


def test_a_sick_queue_does_not_hold_up_the_start(redis, quredisd, handler, ledger):
    """Recovery is per queue: one that cannot be recovered keeps nobody waiting."""
    c = redis.client()
    c.set("transit:sick:workers", "not a hash")
    c.set("transit:sick", "not a list")
    c.lpush("ingress:well", "x")
    quredisd(queues=[queue("sick", handler("exit 0")), healthy(handler)], wait=False)
    wait_for(lambda: ledger.lines() == ["ok"], 30)


def test_many_sick_queues(redis, quredisd, handler, ledger):
    c = redis.client()
    for i in range(20):
        c.set(f"ingress:sick{i}", "not a list")
    fail = handler("exit 1")
    d = quredisd(queues=[queue(f"sick{i}", fail) for i in range(20)] + [healthy(handler)], log={"level": "info"}, wait=False)
    took = measure(c, ledger, "well")
    lines = len(d.lines)
    print(f"\n{N} messages beside 20 sick queues: {took:.2f} s; {lines} lines of log")
    assert took < 60 and lines < 2000
