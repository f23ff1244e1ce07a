"""What was done with a queue by all hosts: totals and each minute's, in Redis, without a command a message."""
import datetime
import json
import os
import re
import signal

import pytest

from harness import queue, wait_for
from harness.control import status
from harness.messages import anywhere
from harness.queues import Queue

FAILS = 'read -r m; case $m in bad*) exit 3;; esac'
MINUTES = 72 * 60


def figures(c, key):
    return {k.decode(): int(v) for k, v in c.hgetall(key).items() if k != b"failed_latest"}


def totals(c, name="mail"):
    return figures(c, f"quredis:of:ingress:{name}:stats")


def rates(c, name="mail"):
    """The sum over all minutes."""
    found = {}
    for key in c.keys(f"quredis:of:ingress:{name}:rate:*"):
        for k, v in figures(c, key).items():
            if not k.startswith("failed_batch:"):       # the id of a batch
                found[k] = found.get(k, 0) + v
    return found


def settled(c, name="mail"):
    return not anywhere(c, name) and not c.exists(f"quredis:of:ingress:{name}:delayed")


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
    for key in c.keys("quredis:of:ingress:mail:rate:*"):
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
    c.set("quredis:of:ingress:mail:stats", "not a hash")
    d = quredisd(queues=[queue("mail", handler(FAILS)), queue("news", handler(FAILS))])
    c.lpush("ingress:mail", "a")
    c.lpush("ingress:news", "b")
    wait_for(lambda: totals(c, "news").get("done") == 1, 30)
    d.wait_event("queue_error", queue="mail", at="tally")
    c.delete("quredis:of:ingress:mail:stats")
    wait_for(lambda: totals(c).get("done") == 1, 60, "nothing that was refused is forgotten")
    assert d.stop() == 0


@pytest.mark.parametrize("field, value", [("classes", "abc"), ("classes", "nan"), ("failed", "abc"), ("failed", str(2 ** 63 - 1))])
def test_a_value_of_another_program_begins_anew(redis, quredisd, handler, field, value):
    """No other figure is counted twice because of it."""
    c = redis.client()
    c.hset("quredis:of:ingress:mail:stats", field, value)
    d = quredisd(queues=[queue("mail", handler("cat >/dev/null; echo REJECT class=json no mail >&3"), reply_fd=3)])
    for n in (1, 2):
        c.lpush("ingress:mail", "m")
        wait_for(lambda: c.hget("quredis:of:ingress:mail:stats", "class:json") == b"%d" % n, 30)
    assert d.stop() == 0 and not d.events("queue_error")
    assert {k: totals(c)[k] for k in ("fetched", "failed", "escaped", "classes", "class:json")} == \
        {"fetched": 2, "failed": 2, "escaped": 2, "classes": 1, "class:json": 2}
    assert rates(c)["failed"] == 2


def test_nothing_is_counted_twice_while_a_minute_has_the_wrong_type(redis, quredisd, handler):
    c = redis.client()
    now = int(c.time()[0]) // 60
    wrong = [f"quredis:of:ingress:mail:rate:{minute}" for minute in range(now, now + 10)]
    c.mset({key: "not a hash" for key in wrong})
    d = quredisd(queues=[queue("mail", handler(FAILS))])
    c.lpush("ingress:mail", "a")
    d.wait_event("queue_error", queue="mail", at="tally")
    assert not c.exists("quredis:of:ingress:mail:stats")
    c.delete(*wrong)
    wait_for(lambda: totals(c).get("done") == 1, 60)
    assert totals(c)["fetched"] == 1 and d.stop() == 0


def test_stats(redis, quredisd, handler, quredis):
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler(FAILS), workers=2), queue("idle", handler("cat"))])
    c.lpush("ingress:mail", "a", "b", "c", "bad")
    wait_for(lambda: totals(c).get("done") == 3 and totals(c).get("escaped") == 1, 30)
    every = json.loads(d.quredis("stats", "--json").out)
    assert [s["name"] for s in every] == ["mail", "idle"]
    mail = every[0]
    written = {k: v for k, v in totals(c).items() if not k.startswith(("failed:", "failed_latest"))}
    assert {k: v for k, v in mail["counters"].items() if v} == {k: v for k, v in written.items() if "below" not in k and k not in ("longer", "duration_ms")}
    assert "would_purge" not in mail["counters"] and "would_purge" not in d.quredis("stats", "mail").out
    assert mail["duration_ms"] == written["duration_ms"] > 0 and mail["lag"]["below_ms"]["p99"] is None
    assert sum(b["count"] for b in mail["durations"]) == 4 and every[1]["below_ms"] == {"p50": None, "p90": None, "p99": None}
    assert json.loads(d.quredis("stats", "mail", "--json").out) == mail and "minutes" not in mail
    last = json.loads(d.quredis("stats", "mail", "--since", "10m", "--json").out)
    assert last["counters"] == mail["counters"] and sum(m["counters"].get("done", 0) for m in last["minutes"]) == 3
    table = d.quredis("stats").out.splitlines()
    assert table[0].split()[:6] == ["Queue", "Fetched", "Done", "Failed", "Retried", "Escaped"]
    assert table[1].split()[:6] == ["mail", "4", "3", "1", "0", "1"] and table[2].split() == ["idle"] + 9 * ["0"] + 4 * ["-"]
    assert any(line.split() == ["done", "3"] for line in d.quredis("stats", "mail").out.splitlines())
    assert d.stop() == 0
    assert json.loads(quredis("stats", "mail", "--json").out)["counters"]["done"] == 3      # nobody runs any more


def test_how_late_what_was_due_and_expired_is(redis, quredisd, handler):
    """A host is away: what became due meanwhile is late by that, and what is on time is not."""
    c = redis.client()
    now = c.time()[0] * 1000
    c.zadd("quredis:of:ingress:mail:delayed", {b"one": now - 40000, b"two": now - 41000})
    c.lpush("ingress:mail", f"quredis/1 ttl=10s enqueued={now - 100000}\nx")
    d = quredisd(queues=[queue("mail", handler("cat"), workers=0, ttl="1h")])
    wait_for(lambda: totals(c).get("due") == 2 and totals(c).get("expired") == 1, 40)
    lag = json.loads(d.quredis("stats", "mail", "--json").out)["lag"]
    assert sum(b["count"] for b in lag["durations"]) == 3 and 171000 <= lag["duration_ms"] < 400000
    assert lag["below_ms"]["p50"] == 65536 and lag["below_ms"]["p99"] in (131072, 262144)
    assert re.search(r"^ *99 % of lags +<[0-9ms]+$", d.quredis("stats", "mail").out, re.M)
    assert d.stop() == 0


def backlogs(c, name="mail"):
    """Minute since 1970 -> the backlog that was noted."""
    return {int(key.rsplit(b":", 1)[1]) * 60 + int(minute): int(n)
            for key in c.keys(f"quredis:of:ingress:{name}:backlog:*") for minute, n in c.hgetall(key).items()}


def trend(run, *words):
    return json.loads(run("trend", "mail", *words, "--json").out)


def test_backlog_of_each_minute(redis, quredisd):
    """Two hosts look at the same list. The most that was seen stays, whoever saw it; it has an end."""
    c = redis.client()
    c.lpush("ingress:mail", *"abcde")
    hosts = [quredisd(queues=[queue("mail", "/bin/true", workers=0)], supervisor={"node": f"n{i}"}) for i in range(2)]
    wait_for(lambda: 5 in backlogs(c).values(), 40)
    c.ltrim("ingress:mail", 0, 1)
    minute, now = max(backlogs(c)), int(c.time()[0]) // 60
    assert now - 1 <= minute <= now
    wait_for(lambda: max(backlogs(c)) > minute, 90, "the next minute")
    assert backlogs(c)[minute] == 5
    wait_for(lambda: backlogs(c)[max(backlogs(c))] == 2, 90)
    for key in c.keys("quredis:of:ingress:mail:backlog:*"):
        assert MINUTES - 3 < c.ttl(key) / 60 <= MINUTES
    rows = trend(hosts[0].quredis)
    assert [r["backlog"] for r in rows if r["minutes"] > 0][0] == 5 and rows[0]["backlog"] is None
    for d in hosts:
        assert d.stop() == 0


def test_no_backlog_is_noted_for_a_wrong_type(redis, quredisd, handler):
    c = redis.client()
    c.set("quredis:of:ingress:mail:backlog:%d" % (int(c.time()[0]) // 3600), "no hash")
    d = quredisd(queues=[queue("mail", handler("cat")), queue("news", handler("cat"))])
    d.wait_event("queue_error", queue="mail", at="backlog")
    wait_for(lambda: backlogs(c, "news"), 40)
    c.lpush("ingress:mail", "x")
    wait_for(lambda: totals(c).get("done") == 1, 30)
    assert d.stop() == 0


def test_trend_of_three_days(redis, quredis):
    """Points are sums of done and failed, the most of backlogs, and unknown where no supervisor saw anything."""
    c = redis.client()
    Queue(c)
    while int(c.time()[0]) % 60 > 50:
        wait_for(lambda: int(c.time()[0]) % 60 < 50, 30, "a minute in which this test ends")
    now = int(c.time()[0]) // 60

    def note(ago, backlog, done=0, failed=0):
        minute = now - ago
        if backlog is not None:
            c.hset(f"quredis:of:ingress:mail:backlog:{minute // 60}", minute % 60, backlog)
        if done + failed > 0:
            c.hset(f"quredis:of:ingress:mail:rate:{minute}", mapping={"done": done, "failed": failed})

    note(0, 7, 1)
    note(1, 3)
    note(2, None, 5, 2)
    note(4, "x")
    for ago in range(30, 40):
        note(ago, 0)
    note(MINUTES - 1, 900, 11)
    note(MINUTES + 1, 1000, 1000)
    rows = trend(quredis)
    assert len(rows) == 61 and [(r["minutes"], r["backlog"], r["done"], r["failed"]) for r in rows[-5:]] == \
        [(1, 0, 0, 0), (0, None, None, None), (1, None, 5, 2), (1, 3, 0, 0), (1, 7, 1, 0)]
    assert [r["backlog"] for r in rows[-41:-29]] == [None] + 10 * [0] + [None]
    assert rows[0]["until"] == rows[1]["from"] and rows[-1]["until"] > rows[-1]["from"]
    whole = trend(quredis, "--since", "72h")
    assert len(whole) in (72, 73) and [r["backlog"] for r in whole if r["minutes"]] == [900, 7] or len([r for r in whole if r["minutes"]]) == 3
    stats = json.loads(quredis("stats", "mail", "--since", "72h", "--json").out)["counters"]
    assert (stats["done"], stats["failed"]) == (17, 2) == tuple(sum(r[k] or 0 for r in whole) for k in ("done", "failed"))
    assert whole == trend(quredis, "--since", "3650d")
    assert len(trend(quredis, "--since", "6h")) in (73, 74) and len(trend(quredis, "--since", "24h")) in (97, 98)
    table = quredis("trend", "mail").out.splitlines()
    assert table[0].split() == "From Waiting at most Done Failed Wait p50 < p99 <".split()
    assert table[-1].split()[1:] == ["7", "1", "0", "-", "-"] and table[-4].split()[1:] == ["-"] * 5
    assert quredis("trend", "mial").code == 66 and quredis("trend", "mail", "--since", "x").code == 64
    c.set(f"quredis:of:ingress:mail:rate:{now - 3}", "x")
    for words in (["trend", "mail"], ["stats", "mail", "--since", "1h"]):
        r = quredis(*words)
        assert (r.code, r.out) == (78, "") and r.err.startswith(f"quredis: quredis:of:ingress:mail:rate:{now - 3} has the wrong type")
    c.delete(f"quredis:of:ingress:mail:rate:{now - 3}")
    c.delete(f"quredis:of:ingress:mail:backlog:{now // 60}")
    c.set(f"quredis:of:ingress:mail:backlog:{now // 60}", "x")
    r = quredis("trend", "mail")
    assert (r.code, r.out) == (78, "") and r.err.startswith(f"quredis: quredis:of:ingress:mail:backlog:{now // 60} has the wrong type")


def test_figures_that_cannot_be(redis, quredis):
    """Another program wrote them: no sum of them is below 0."""
    c = redis.client()
    Queue(c)
    now = int(c.time()[0]) // 60
    for minute in range(now - 30, now + 1):
        c.hset(f"quredis:of:ingress:mail:rate:{minute}", mapping={"done": 2 ** 63 - 1, "failed": -7, "class:json": 2 ** 63 - 1, "fetched": 2 ** 63 - 1})
    points = [r for r in trend(quredis, "--since", "72h") if r["minutes"] > 0]
    assert points and all(r["done"] >= 10 ** 15 and r["failed"] == 0 for r in points)
    stats = json.loads(quredis("stats", "mail", "--since", "2h", "--json").out)
    assert stats["counters"]["done"] == stats["classes"]["json"] == 31 * 10 ** 15 and stats["counters"]["failed"] == 0


def waits(rows, now):
    """Minutes: (p50, p99) of each row until the minute `now`, since the next one may have begun; None: not known."""
    begun = [r for r in rows if datetime.datetime.fromisoformat(r["from"]).timestamp() < 60 * (now + 1)]
    return [tuple(r[k] and r[k] // 60000 for k in ("wait_p50_below_ms", "wait_p99_below_ms")) for r in begun]


def test_waiting_times_of_a_trend(redis, quredis):
    """Messages that leave within the last hour came hours before: the hours before are read, too, as far as they are needed."""
    c = redis.client()
    Queue(c)
    now = int(c.time()[0]) // 60

    def note(ago, backlog, **figures):
        c.hset(f"quredis:of:ingress:mail:backlog:{(now - ago) // 60}", (now - ago) % 60, backlog)
        if figures:
            c.hset(f"quredis:of:ingress:mail:rate:{now - ago}", mapping=figures)

    for ago in range(300, 310):
        note(ago, 0, fetched=10, done=10)
    for ago in range(20, 300):
        note(ago, 600)
    for ago in range(5, 20):
        note(ago, 40 * (ago - 4), fetched=50, handed_back=10, done=40)
    for ago in range(1, 5):
        note(ago, 0, fetched=40, expired_waiting=5, done=40)
    found = waits(trend(quredis), now)
    assert found[-21] == (None, None)
    assert all(279 <= p50 <= p99 <= 300 for p50, p99 in found[-20:-5]), found
    assert [p99 for _, p99 in found[-4:-1]] == [1, 1, 1]
    day = waits(trend(quredis, "--since", "24h"), now)
    assert max(p99 for p50, p99 in day if p99) in range(279, 301) and (1, 1) in day
    text = quredis("trend", "mail", "--since", "40m").out.splitlines()
    assert text[0].split()[-5:] == ["Wait", "p50", "<", "p99", "<"] and re.search(r" 4h\d+m +4h\d+m$", text[-12])
    # Nobody knows when those came that waited before anything was noted: they count from then, an hour that began 181 to 240 minutes ago.
    for hour in range((now - 310) // 60, (now - 240) // 60 + 1):
        c.delete(f"quredis:of:ingress:mail:backlog:{hour}")
    assert all(161 <= p50 <= p99 <= 241 for p50, p99 in waits(trend(quredis), now)[-20:-5])


def test_stats_of_three_days(redis, quredis):
    """Minutes are added up as far as they were asked for; percentiles are those of the histogram."""
    c, now = redis.client(), int(redis.client().time()[0]) // 60
    for name in ("mail", "news"):
        Queue(c, name)
    c.hset("quredis:of:ingress:mail:stats", mapping={"done": 10 ** 12, "below_8": 50, "below_64": 40, "below_1024": 9, "longer": 1, "odd": 3, "failed": "x"})
    for ago in (0, 1, 30, 59, 61, 1000, MINUTES - 2, MINUTES + 2):
        c.hset(f"quredis:of:ingress:mail:rate:{now - ago}", mapping={"done": ago + 1, "below_2": 1})

    def stats(*words):
        return json.loads(quredis("stats", *words, "--json").out)

    whole = stats("mail")
    assert whole["counters"]["done"] == 10 ** 12 and whole["counters"]["failed"] == 0
    assert whole["below_ms"] == {"p50": 8, "p90": 64, "p99": 1024}
    hour = stats("mail", "--since", "60m")
    assert hour["counters"]["done"] in (1 + 2 + 31 + 60, 1 + 2 + 31 + 60 + 62)                # a minute may have begun since
    assert [m["counters"]["done"] for m in hour["minutes"]][-3:] == [31, 2, 1] and hour["since_ms"] == 3600000
    assert hour["below_ms"]["p99"] == 2
    everything = 1 + 2 + 31 + 60 + 62 + 1001 + MINUTES - 1
    assert stats("mail", "--since", "72h")["counters"]["done"] == stats("mail", "--since", "3650d")["counters"]["done"] == everything
    assert [s["name"] for s in stats("news", "mail", "--since", "1m")] == ["news", "mail"]
    row = quredis("stats").out.splitlines()[1].split()
    assert row[0] == "mail" and row[-4:] == ["<8ms", "<64ms", "<1.0s", "-"]
    assert quredis("stats", "mial").code == 66 and quredis("stats", "mail", "--since", "x").code == 64
    c.set("quredis:of:ingress:news:stats", "x")
    r = quredis("stats")
    assert r.code == 78 and "quredis:of:ingress:news:stats" in r.err
    c.set("quredis:queue:odd", "{")
    c.zadd("quredis:queues", {"odd": 1})
    c.delete("quredis:of:ingress:news:stats")
    r = quredis("stats")
    assert r.code == 78 and {line.split()[0] for line in r.out.splitlines()} == {"Queue", "mail", "news"}
