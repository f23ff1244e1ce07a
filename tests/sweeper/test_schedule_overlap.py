"""Schedules with `overlap = false`: a tick is skipped while an earlier message of its schedule is anywhere but done or escaped."""
import json

import pytest

from harness import queue, wait_for
from harness.messages import sealed, unwrap

KEY = "quredis:of:ingress:db:schedules"
# says when it begins and ends; waits until the test gives it a verdict
WAITS = 'echo begin >>@LEDGER@; while ! mv @GO@ @GO@.taken 2>/dev/null; do sleep 0.05; done; echo end >>@LEDGER@; exit $(cat @GO@.taken)'


def often(**keys):
    return {"name": "often", "queue": "db", "message": "go", "every": "1s", "overlap": False, **keys}


def record(c, name="often"):
    """(last, pushed, missed, skipped, skipped at)"""
    found = c.hget(KEY, name)
    return found and [int(n) for n in found.split()[1:]]


def skips(c, n=3):
    """Waits until so many more ticks were skipped, and none pushed."""
    before = record(c)
    wait_for(lambda: record(c)[3] >= before[3] + n, 60)
    assert record(c)[1] == before[1] and record(c)[2] == before[2] and before[4] < record(c)[4] <= record(c)[0]


@pytest.fixture
def go(tmp, handler):
    """The handler, and a function that gives it a verdict."""
    path = tmp / "go"

    def give(status):
        (tmp / "new").write_text(f"{status}\n")
        (tmp / "new").rename(path)
    return handler(WAITS.replace("@GO@", str(path))), give


def test_a_tick_is_skipped_while_the_message_waits_runs_and_is_to_be_retried(redis, quredisd, go, ledger):
    c, (handler, give) = redis.client(), go
    d = quredisd(queues=[queue("db", handler, workers=3, max_attempts=2, backoff={"base": "1h", "cap": "1h"})], schedules=[often()])
    wait_for(lambda: ledger.lines() == ["begin"], 30)
    skips(c)
    told = d.wait_event("schedule_skipped", queue="db", schedule="often")
    assert told["reason"] == "an earlier message is in the queue"
    give(75)
    wait_for(lambda: c.zcard("quredis:of:ingress:db:delayed") == 1, 30)
    skips(c)
    assert d.quredis("retry", "db", "delayed", "--yes").code == 0
    wait_for(lambda: ledger.lines() == ["begin", "end", "begin"], 30)
    skips(c)
    pushed = record(c)[1]
    give(0)
    wait_for(lambda: record(c)[1] > pushed and len(ledger.lines()) == 5, 30)
    give(75)
    wait_for(lambda: c.zcard("quredis:of:ingress:db:delayed") == 1, 30)
    assert d.quredis("purge", "db", "delayed", "--yes").code == 0
    wait_for(lambda: ledger.lines()[-3:] == ["begin", "end", "begin"] and len(ledger.lines()) == 7, 30)
    give(0)
    assert d.stop() == 0


def test_a_dead_letter_does_not_count_nor_its_retry(redis, quredisd, go, ledger):
    c, (handler, give) = redis.client(), go
    d = quredisd(queues=[queue("db", handler, workers=1, max_attempts=1)], schedules=[often()])
    wait_for(lambda: ledger.lines() == ["begin"], 30)
    give(1)
    wait_for(lambda: c.llen("escape:db") == 1 and ledger.lines() == ["begin", "end", "begin"], 30)
    assert d.quredis("dlq", "retry", "db", "--all", "--yes").code == 0
    wait_for(lambda: c.llen("ingress:db") == 1, 30)
    pushed = record(c)[1]
    give(0)
    wait_for(lambda: record(c)[1] > pushed, 30)
    give(0)
    assert d.stop() == 0


def test_a_message_of_a_dead_host_counts_until_another_one_has_done_it(redis, quredisd, go, ledger):
    """While nobody has rescued it, and after that: the workers change, and the new leader does not know the names of their trays."""
    c, (handler, give) = redis.client(), go
    keys = {"queues": [queue("db", handler)], "schedules": [often()]}
    first = quredisd(**keys, supervisor={"node": "a", "lease": "5s"})
    wait_for(lambda: ledger.lines() == ["begin"], 30)
    second = quredisd(queues=[queue("db", handler, workers=0)], schedules=[often()], supervisor={"node": "b", "lease": "5s"})
    first.kill_tree()
    wait_for(lambda: c.llen("ingress:db") == 1, 60, "the message that the second host has rescued")
    assert unwrap(c.lindex("ingress:db", 0))[0]["schedule"] == "often"
    skips(c)
    first.start()
    wait_for(lambda: ledger.lines()[1:] == ["begin"], 60)
    skips(c)
    give(0)
    wait_for(lambda: ledger.lines()[1:] == ["begin", "end", "begin"], 60)
    assert second.stop() == 0
    give(0)
    assert first.stop() == 0


def planted(c, schedule="often"):
    return sealed(c, f"quredis/1 w=0123456789abcdef schedule={schedule} scheduled=1000\ngo", "ingress:db")


@pytest.mark.parametrize("place", ["ingress:db", "quredis:of:ingress:db:delayed", "transit:db:aside"])
def test_each_place_is_looked_at(redis, quredisd, handler, place):
    """A purge or an operator takes the message away, and the next tick is pushed."""
    c = redis.client()
    message = planted(c)
    if place.endswith("delayed"):
        c.zadd(place, {message: 4e12})
    else:
        c.lpush(place, message)
        c.lpush(place, "another")
    d = quredisd(queues=[queue("db", handler("cat"), workers=0)], schedules=[often()])
    wait_for(lambda: record(c) and record(c)[3], 30)
    skips(c)
    assert record(c)[1] == 0
    c.delete(place, "ingress:db")      # where the sweeper returns what was set aside
    wait_for(lambda: record(c)[1], 30)
    assert d.stop() == 0


def test_ticks_are_counted(redis, quredisd, handler):
    """The figures of all faces are those of the records: pushed once, then skipped, and missed with catch_up = "none"."""
    c = redis.client()
    late = {"name": "late", "queue": "db", "message": "m", "every": "1h", "catch_up": "none"}
    d = quredisd(queues=[queue("db", handler("cat"), workers=0)], schedules=[often(), late])
    wait_for(lambda: record(c) and record(c, "late") and record(c)[3] >= 2, 30)
    definition, last = c.hget(KEY, "late").split()[0].decode(), record(c, "late")[0]
    c.hset(KEY, "late", f"{definition} {last - 10 * 3600000 - 1} 0 0 0 0")     # as if no supervisor had run for ten hours
    d.restart()
    wait_for(lambda: record(c, "late")[2] >= 9, 30)

    def counted():
        n = json.loads(d.quredis("--json", "stats", "db").out)["counters"]
        return [n["ticks_pushed"], n["ticks_skipped"], n["ticks_missed"]]
    wait_for(lambda: counted() == [1, record(c)[3], record(c, "late")[2] + record(c)[2]], 60)
    assert d.stop() == 0


def test_other_messages_do_not_count(redis, quredisd, handler):
    c = redis.client()
    others = [planted(c, "oftener"), planted(c, "ofte"), b"go", b"schedule=often scheduled=1000 \ngo", b"quredis/1 id=a\nw= schedule=often scheduled=1 \n"]
    c.lpush("ingress:db", *others)
    c.zadd("quredis:of:ingress:db:delayed", {others[0]: 4e12})
    d = quredisd(queues=[queue("db", handler("cat"), workers=0)], schedules=[often()])
    wait_for(lambda: record(c) and record(c)[1], 30)
    assert record(c)[3] == 0 and c.llen("ingress:db") == len(others) + 1
    skips(c)        # of its own
    c.delete("ingress:db")
    pushed = record(c)[1]
    wait_for(lambda: record(c)[1] > pushed, 30)
    assert d.stop() == 0


def test_large_messages_behind_small_ones_are_read_a_few_at_once(redis, quredisd, handler):
    """30 small ones make nothing sure about those behind them."""
    c = redis.client()
    for size in [1 << 20] * 70 + [1] * 30:
        c.lpush("ingress:db", "x" * size)
    d = quredisd(queues=[queue("db", handler("cat"), workers=0)], schedules=[often()])
    assert d.wait_event("schedule_skipped", queue="db", schedule="often")["reason"] == "the queue is too long to tell"
    assert c.info("memory")["used_memory_peak"] < c.info("memory")["used_memory"] + (24 << 20)
    assert d.stop() == 0


@pytest.mark.parametrize("n, size", [(10001, 10), (1, 5 << 20)], ids=["many", "large"])
def test_a_queue_that_is_too_long_to_tell_skips_until_it_is_shorter(redis, quredisd, handler, n, size):
    c = redis.client()
    for _ in range(0, n, 10001):
        c.lpush("ingress:db", *["x" * size] * n)
    d = quredisd(queues=[queue("db", handler("cat"), workers=0)], schedules=[often()])
    told = d.wait_event("schedule_skipped", queue="db", schedule="often")
    assert told["reason"] == "the queue is too long to tell"
    skips(c)
    c.ltrim("ingress:db", 0, -2 if n > 1 else -100)
    if n == 1:
        c.delete("ingress:db")
    wait_for(lambda: record(c)[1], 30)
    assert d.stop() == 0


def test_several_hosts_that_die_never_run_two_at_once(redis, quredisd, handler, ledger):
    """The message is rescued, and comes back to another host. The cleanup of a killed host ends its handler before, so begin and end alternate."""
    c = redis.client()
    h = handler('echo "begin $$" >>@LEDGER@; sleep 0.3; echo "end $$" >>@LEDGER@')
    hosts = {n: quredisd(queues=[queue("db", h, workers=2)], schedules=[often()], supervisor={"node": n, "lease": "1s"}) for n in "ab"}
    for name in "abab":
        wait_for(lambda: ledger.lines()[-1:] and ledger.lines()[-1].startswith("begin"), 60)
        hosts[name].kill_tree()
        seen = len(ledger.lines())
        wait_for(lambda: len(ledger.lines()) > seen + 2, 60)
        hosts[name].start()
    for h in hosts.values():
        assert h.stop() == 0
    running = None
    for line in ledger.lines():
        what, who = line.split()
        assert what == "begin" or who == running, ledger.lines()
        running = who if what == "begin" else None
    assert record(c)[3] >= 1 or len(ledger.lines()) > 8


def test_the_look_costs_a_bounded_time(redis, quredisd, handler):
    """9900 messages of others: Redis is busy for less than 0.1 s for a tick."""
    c = redis.client()
    c.lpush("ingress:db", *["x" * 100] * 9900)
    c.config_set("slowlog-log-slower-than", 500)
    d = quredisd(queues=[queue("db", handler("cat"), workers=0)], schedules=[often()])
    wait_for(lambda: record(c) and record(c)[1], 30)
    ticks = [e["duration"] for e in c.slowlog_get(1000) if b" often " in e["command"]]
    assert ticks and max(ticks) < 100000
    assert d.stop() == 0
