"""A handler that cannot run costs time, not messages; a worker that cannot live costs a spawn now and then."""
import collections
import os
import signal
import threading
import time

import pytest

from harness import queue, wait_for
from harness.messages import anywhere, unwrap

GOOD = 'read -r m; echo "$m" >>@LEDGER@'


def put(path, text, mode=0o755):
    """Replaces it in one step, as a deploy does."""
    with open(path + ".new", "w") as f:
        f.write(text)
    os.chmod(path + ".new", mode)
    os.rename(path + ".new", path)


def state(d, name):
    done = d.quredis("status", "--json")
    assert done.code == 0, done.err
    return done.out


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
    assert line["handler"] == path and line["at"] == "execve" and line["error"]
    since = time.monotonic()
    c.lpush("ingress:news", "other")
    wait_for(lambda: ledger.count("other"))
    wait_for(lambda: time.monotonic() - since > 2)          # probes go on
    assert c.llen("escape:mail") <= 5
    assert len(anywhere(c, "mail")) == n - c.llen("escape:mail")
    assert {unwrap(m)[0].get("attempts", 0) for m in anywhere(c, "mail")} == {0}
    assert "breaker" in state(d, "mail")
    assert len(d.events("breaker_opened", queue="mail")) == 1         # not a line a probe
    put(path, good)
    wait_for(lambda: len(ledger.lines()) == n + 1 and not anywhere(c, "mail"), 100, "it heals")
    d.wait_event("breaker_closed", queue="mail")
    assert c.llen("escape:mail") == 0 and collections.Counter(ledger.lines()) == collections.Counter(names + ["other"])
    assert d.workers() == workers


def test_failures_in_a_row_open_it_when_asked_to(redis, quredisd, handler, ledger):
    path = handler("exit 1", name="deployed")
    names = [f"m{i}" for i in range(200)]
    c = redis.client()
    d = quredisd(queues=[queue("mail", path, workers=2, breaker={"failures": 5})])
    c.lpush("ingress:mail", *names)
    d.wait_event("breaker_opened", 30, queue="mail")
    since = time.monotonic()
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
