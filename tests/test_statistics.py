"""What was done with a queue by all hosts: totals and each minute's, in Redis, without a command a message."""
import os
import signal

from harness import queue, wait_for
from harness.control import status
from harness.messages import anywhere

FAILS = 'read -r m; case $m in bad*) exit 3;; esac'
MINUTES = 72 * 60


def figures(c, key):
    return {k.decode(): int(v) for k, v in c.hgetall(key).items()}


def totals(c, name="mail"):
    return figures(c, f"ingress:{name}:stats")


def rates(c, name="mail"):
    """The sum over all minutes."""
    found = {}
    for key in c.keys(f"ingress:{name}:rate:*"):
        for k, v in figures(c, key).items():
            found[k] = found.get(k, 0) + v
    return found


def settled(c, name="mail"):
    return not anywhere(c, name) and not c.exists(f"ingress:{name}:delayed")


def test_totals_and_minutes(redis, quredisd, handler):
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler(FAILS), workers=2)])
    c.lpush("ingress:mail", *[f"m{i}" for i in range(40)], *[f"bad{i}" for i in range(7)])
    wait_for(lambda: c.llen("escape:mail") == 7 and settled(c))
    wait_for(lambda: totals(c).get("done") == 40 and totals(c).get("escaped") == 7, 30, "the sweeper writes them down")
    assert d.stop() == 0
    found = totals(c)
    assert (found["done"], found["failed"], found["escaped"]) == (40, 7, 7)
    assert sum(n for k, n in found.items() if k.startswith("below_") or k == "longer") == 47
    assert rates(c) == found
    minute = int(c.time()[0]) // 60
    for key in c.keys("ingress:mail:rate:*"):
        assert minute - 2 <= int(key.rsplit(b":", 1)[1]) <= minute
        assert MINUTES - 2 < c.ttl(key) / 60 <= MINUTES


def test_what_was_done_last_is_written_at_a_stop_and_adds_up_over_restarts(redis, quredisd, handler, tmp):
    c = redis.client()
    for n in range(1, 4):
        d = quredisd(queues=[queue("mail", handler(FAILS), workers=2)])
        c.lpush("ingress:mail", *[f"m{n}-{i}" for i in range(20)])
        wait_for(lambda: settled(c))
        assert d.stop() == 0
        assert totals(c)["done"] == 20 * n


def test_a_worker_or_sweeper_that_is_killed_takes_no_figures_along(redis, quredisd, handler):
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler(FAILS))])
    for n in range(1, 4):
        c.lpush("ingress:mail", *[f"m{n}-{i}" for i in range(10)])
        wait_for(lambda: settled(c))
        wait_for(lambda: status(d, "mail")["counters"]["done"] == 10 * n)
        before = d.wait_workers("mail", 1)
        os.kill(before["mail/0"], signal.SIGKILL)
        if n == 2:
            os.kill(d.sweeper(), signal.SIGKILL)
        wait_for(lambda: d.wait_workers("mail", 1) != before)
    wait_for(lambda: totals(c).get("done", 0) >= 30, 30)
    assert d.stop() == 0
    assert totals(c)["done"] == 30


def test_a_reload_neither_loses_nor_doubles(redis, quredisd, handler):
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler(FAILS), workers=2)])
    for n in range(1, 5):
        c.lpush("ingress:mail", *[f"m{n}-{i}" for i in range(10)])
        d.reload(queues=[queue("mail", handler(FAILS), workers=2, timeout=f"{n}m")])
        wait_for(lambda: settled(c))
    assert d.stop() == 0
    assert totals(c)["done"] == 40


def test_a_wrong_type_is_that_queues_trouble_alone(redis, quredisd, handler):
    c = redis.client()
    c.set("ingress:mail:stats", "not a hash")
    d = quredisd(queues=[queue("mail", handler(FAILS)), queue("news", handler(FAILS))])
    c.lpush("ingress:mail", "a")
    c.lpush("ingress:news", "b")
    wait_for(lambda: totals(c, "news").get("done") == 1, 30)
    d.wait_event("queue_trouble", queue="mail", at="tally")
    c.delete("ingress:mail:stats")
    wait_for(lambda: totals(c).get("done") == 1, 60, "nothing that was refused is forgotten")
    assert d.stop() == 0
