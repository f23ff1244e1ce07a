"""health: figures equal those of an independent calculation, the status does not flap, and every report arrives."""
import datetime
import json
import re
import threading

import pytest

from harness import Tap, queue, sources, wait_for
from harness.queues import Queue, wrapper

RATES = [f["key"] for f in sources.facts() if f.get("object") == "rates" and f["key"] != "enqueued"]       # they have the names of counters


def server_ms(c):
    seconds, micros = c.time()
    return seconds * 1000 + micros // 1000


def report(c, name="mail"):
    text = c.hget("quredis:health", name)
    return json.loads(text) if text else None


def next_report(c, name="mail", after=None, n=1):
    """The n-th report of a look that began after now, by the clock of Redis."""
    for _ in range(n):
        after = server_ms(c) if after is None else after
        found = wait_for(lambda: (r := report(c, name)) and r["at_ms"] > after and r, 30, f"a report of {name}")
        after = found["at_ms"]
    return found


def health(interval="1s", **thresholds):
    return {"enabled": True, "interval": interval, "thresholds": thresholds}


# ---- figures ----

def header(message):
    """The pairs of the producer's header behind a wrapper."""
    if message.startswith(b"quredis/1 w="):
        message = message.split(b"\n", 1)[1]
    if not message.startswith(b"quredis/1 "):
        return {}
    return dict(p.split("=", 1) for p in message.split(b"\n", 1)[0].decode().split(" ")[1:])


def ages(messages, now):
    """Of each message, newest first: seconds, or None. By its own time, or its producer's."""
    found = []
    for m in messages:
        w, h = wrapper(m), header(m)
        times = [int(x[k]) for x, k in ((w, "own"), (h, "enqueued")) if k in x and int(x[k]) <= now]
        found.append((now - min(times)) / 1000 if times else None)
    return found


def of_list(messages, now, stuck_s):
    known = [a for a in ages(messages, now) if a is not None]
    return {"size": len(messages), **({"oldest_age": max(known), "avg_age": sum(known) / len(known)} if known else {}),
            "stuck_count": sum(a >= stuck_s for a in known)}


def rfc3339(ms):
    return datetime.datetime.fromtimestamp(ms / 1000, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def expected(c, name, doc, stuck_s):
    """The report as somebody who knows Redis, and only what docs/design.md says, would write it."""
    now = doc["at_ms"]
    failed = [now - int(i.split(b"-")[0]) for i, _ in c.xrange(f"escape:{name}:log")]
    alive, active, lost, held, orphans = 0, 0, 0, 0, 0
    for inc in c.hkeys(f"transit:{name}:workers"):
        inc = inc.decode()
        n = sum(c.llen(f"transit:{name}:{inc}:{t}") for t in ("0", "1", "2", "rescue"))
        held += n
        if c.exists(f"transit:{name}:lease:{inc}"):
            alive, active = alive + 1, active + (n > 0)
        else:
            lost, orphans = lost + 1, orphans + n
    bare = c.llen(f"transit:{name}") + c.llen(f"transit:{name}:rescue")
    rates = c.hgetall(f"quredis:of:ingress:{name}:rate:{now // 60000 - 1}")
    return {
        "ingress": of_list(c.lrange(f"ingress:{name}", 0, -1), now, stuck_s),
        "transit": {"size": held + bare},
        "escape": {"size": c.llen(f"escape:{name}"), **({"oldest_age": max(failed) / 1000, "avg_age": sum(failed) / len(failed) / 1000}
                                                        if failed else {})},
        "delayed": {"size": c.zcard(f"quredis:of:ingress:{name}:delayed")},
        "workers": {"alive": alive, "active": active, "waiting": alive - active},
        "rates": {"minute": rfc3339(now // 60000 * 60000 - 60000), **{k: int(rates.get(k.encode(), 0)) for k in RATES}},
        "orphans": {"registrations": lost, "messages": orphans + bare},
        "paused": bool(c.exists(f"quredis:of:ingress:{name}:paused")),
    }


def assert_same(doc, wanted):
    for key, value in wanted.items():
        if not isinstance(value, dict):
            assert doc[key] == value, key
            continue
        got = {k: v for k, v in doc[key].items() if key != "transit" or k in value}
        assert got.keys() == value.keys(), (key, got, value)
        for k, v in value.items():
            assert got[k] == (v if isinstance(v, str) else pytest.approx(v, abs=0.0015)), (key, k, got, value)


@pytest.mark.limit(600)
def test_how_many_come_a_minute(redis, quredisd, handler):
    """Whatever becomes of them: done, tried again, expired, purged, or they wait. A minute lies between the looks that are compared."""
    c = redis.client()
    again = handler('[ "$QUREDIS_ATTEMPT" -ge 2 ] || exit 1; cat >/dev/null')
    queues = [queue("done", handler("cat"), workers=2), queue("again", again, workers=2, max_attempts=5, backoff={"base": "100ms", "cap": "200ms"}),
              queue("late", handler("cat"), workers=0, ttl="1s"), queue("old", handler("cat"), workers=0), queue("stay", handler("cat"), workers=0)]
    sizes = {"done": 300, "again": 30, "late": 40, "old": 50, "stay": 25}
    begun = server_ms(c)
    d = quredisd(queues=queues, health=health(growth_max="1m"), purge={"enabled": True, "interval": "1s", "max_message_age": "1h"})
    assert not any("enqueued" in next_report(c, q)["rates"] for q in sizes)      # looks at rest, of which the first is compared with
    for q, n in sizes.items():
        c.lpush(f"ingress:{q}", *[(f"quredis/1 enqueued=1000\n{i}" if q == "old" else str(i)) for i in range(n)])

    def told():
        docs = {q: json.loads(c.hget("quredis:health", q)) for q in sizes}
        return all("enqueued" in doc["rates"] for doc in docs.values()) and docs
    second = wait_for(told, 100)
    for q, n in sizes.items():
        elapsed = second[q]["at_ms"] - begun
        assert elapsed > 60000 and int(n * 60000 / elapsed) <= second[q]["rates"]["enqueued"] <= n, q
    for q in sizes:
        left = 0 if q == "stay" else sizes[q]
        wanted = left * 60 / second[q]["growth"]["window"]
        assert second[q]["growth"]["completions"] == pytest.approx(wanted, abs=0.0015), q      # in thousandths
        assert int(second[q]["growth"]["arrivals"]) == second[q]["rates"]["enqueued"], q
    text = wait_for(lambda: reason(c, "growth", "stay"), 20)["text"]         # nothing fetches them
    assert re.fullmatch(r"will not catch up: 2\d\.\d arrivals a minute, 0\.0 completions; 25 messages wait; "
                        r"the backlog has grown for 1m\d\ds, the limit is 1m", text), text
    assert not any(reason(c, "growth", q) for q in sizes if q != "stay")
    assert c.hget("quredis:of:ingress:again:stats", "due") == b"30"
    assert c.llen("ingress:stay") == 25 and c.llen("escape:old") == 50 and c.llen("escape:late") == 40
    assert d.stop() == 0


def test_figures_are_those_of_an_independent_look(redis, quredisd, handler):
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler("cat"), workers=0), queue("empty", handler("cat"), workers=0)],
                 health=health(stuck_age="1h", oldest_age_warning="1d", oldest_age_critical="1d"))
    d.wait_event("lead_taken", queue="mail")
    now, q = server_ms(c), Queue(c, "mail")
    for i in range(15):                                 # oldest first; now and then one gets a time
        c.lpush(q.ingress, *[f"raw {i} {n}" for n in range(i)], f"quredis/1 enqueued={now - 1000 * 900 * i}\nknown {i}")
        if i % 5 == 4:
            wait_for(lambda: b" own=" in c.lindex(q.ingress, 0), 20)
    q.dead_letters(*[b"dead %d" % i for i in range(9)])
    c.zadd(q.delayed, {"a": now + 10 ** 7, "b": now + 10 ** 7})
    q.worker("other.00000000000000aa.1.1", t0=["x", "y"], t1=["z"])
    q.worker("other.00000000000000aa.2.1")
    q.worker("other.00000000000000aa.3.1", alive=False, t0=["lost"])
    c.rpush("transit:mail", "somebody else's")
    for minute in range(now // 60000 - 2, now // 60000 + 3):
        c.hset(f"quredis:of:ingress:mail:rate:{minute}", mapping={"done": 7 + minute % 5, "escaped": 2, "fetched": 9, "below_64": 3})
    wait_for(lambda: b" own=" in c.lindex(q.ingress, 0), 20)
    doc = next_report(c, n=2)
    wanted = expected(c, "mail", doc, 3600)
    assert wanted["ingress"]["size"] == 120 and wanted["ingress"]["stuck_count"] > 5 and wanted["ingress"]["avg_age"] > 60
    assert wanted["workers"] == {"alive": 2, "active": 1, "waiting": 1} and wanted["orphans"] == {"registrations": 1, "messages": 2}
    assert_same(doc, wanted)
    assert doc["status"] == "degraded" and {r["code"] for r in doc["reasons"]} == {"stuck", "orphans"}
    c.set("quredis:of:ingress:mail:paused", json.dumps({"since": "2026-01-01T00:00:00.000Z"}))
    doc = next_report(c)
    assert_same(doc, expected(c, "mail", doc, 3600))
    assert "paused" in {r["code"] for r in doc["reasons"]}
    empty = report(c, "empty")
    assert_same(empty, expected(c, "empty", empty, 3600))
    assert empty["status"] == "healthy" and empty["reasons"] == [] and empty["node"] == d.sections["supervisor"]["node"]
    assert 0 < c.pttl("quredis:health") <= 3000
    assert d.stop() == 0


def test_a_supervisor_that_cannot_tell_is_not_healthy(redis, quredisd, handler, terminal):
    """Its report is valid for 15 minutes. No reader believes it: not that a queue is healthy, and not that it is only degraded."""
    c = redis.client()
    c.lpush("escape:news", *range(30))
    queues = [queue(name, handler("cat"), workers=2) for name in ("mail", "news")]
    d = quredisd(queues=queues, health=health("5m", dlq_max_warning=20), supervisor={"node": "a"})

    def exits():
        return {d.quredis("health", *more).code for more in ((), ("--nagios",), ("--json",))}

    def last_line():
        t = terminal("-c", str(other.conf), "status", columns=200, env={"NO_COLOR": "1"})
        t.end()
        return t.text.strip().splitlines()[-1]

    def found():
        return {row["where"]: row for row in json.loads(d.quredis("doctor", "--json").out) if row["check"] == "health" and row["severity"] != "ok"}
    wait_for(lambda: exits() == {1}, 30)
    other = quredisd(queues=queues, supervisor={"node": "b"})
    wait_for(lambda: last_line() == "1 of 2 queues is degraded or unhealthy: quredis health shows which, and why", 30)     # it has connected to Redis
    assert set(found()) == {"news"}
    d.kill9()
    wait_for(lambda: exits() == {3}, 60)
    assert "does not report any more" in d.quredis("health", "--nagios").out
    assert set(c.hkeys("quredis:health")) == {b"mail", b"news"}
    assert last_line() == "the health of 2 of 2 queues is not known: quredis health shows which, and why"
    rows = found()
    assert all(rows[q]["what"].startswith("unknown: the supervisor that judged it does not report any more") and rows[q]["severity"] == "warning" and
               rows[q]["advice"].startswith("start quredisd") for q in ("mail", "news")), rows
    c.hset("quredis:health", "mail", json.dumps({**report(c), "status": "unhealthy"}))
    assert last_line() == "1 of 2 queues is degraded or unhealthy, and the health of 1 more is not known: quredis health shows which, and why"


def test_a_long_list_is_sampled(redis, quredisd, handler):
    """Ages are never too high, and those at the pop end are seen."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler("cat"), workers=0)], health=health(stuck_age="1h", ingress_max=10000, oldest_age_warning="1d"))
    d.wait_event("lead_taken", queue="mail")
    old = server_ms(c) - 7200000
    c.lpush("ingress:mail", *[f"quredis/1 enqueued={old + i}\nold {i}" for i in range(30)])
    for i in range(0, 60000, 10000):
        c.lpush("ingress:mail", *[f"raw {i + n}" for n in range(10000)])
    c.lpush("ingress:mail", *[b"\0" * 100000] * 3)
    wait_for(lambda: b" own=" in c.lindex("ingress:mail", 0), 20)
    doc = next_report(c, n=2)
    i = doc["ingress"]
    assert i["size"] == 60033 and i["stuck_count"] >= 30
    assert i["oldest_age"] == pytest.approx((doc["at_ms"] - old) / 1000, abs=0.0015)
    assert 0 <= i["avg_age"] < 7200 and doc["status"] == "degraded"
    assert {r["code"] for r in doc["reasons"]} == {"ingress", "stuck"}
    assert d.stop() == 0


def test_what_is_in_work_for_long_is_stuck(redis, quredisd, handler, tmp):
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler("cat >/dev/null; while [ ! -e @TMP@/go ]; do sleep 0.1; done"), workers=2, timeout="60s")],
                 health=health(stuck_age="2s", stuck_max_warning=0, stuck_max_critical=5))
    first = next_report(c)
    assert first["transit"]["stuck_count"] == 0 and first["status"] == "healthy"
    c.lpush("ingress:mail", "a", "b")
    pushed = server_ms(c)
    doc = wait_for(lambda: (r := report(c)) and r["transit"].get("stuck_count") == 2 and r, 30)
    assert 2 <= doc["transit"]["oldest_age"] <= (doc["at_ms"] - pushed) / 1000 + 1 and doc["transit"]["size"] == 2
    assert doc["workers"] == {"alive": 2, "active": 2, "waiting": 0}
    assert doc["status"] == "degraded" and [r["code"] for r in doc["reasons"]] == ["stuck"]
    (tmp / "go").touch()
    wait_for(lambda: report(c)["status"] == "healthy", 30)
    assert d.stop() == 0


def test_what_another_host_has_in_work_is_known_from_its_report(redis, quredisd, handler, tmp):
    c = redis.client()
    slow = handler("cat >/dev/null; while [ ! -e @TMP@/go ]; do sleep 0.1; done")
    here = quredisd(queues=[queue("mail", slow, workers=0)], supervisor={"node": "here"}, health=health(stuck_age="3s", stuck_max_warning=1))
    here.wait_event("lead_taken", queue="mail")
    there = quredisd(queues=[queue("mail", slow, workers=2, timeout="60s")], supervisor={"node": "there"})
    c.lpush("ingress:mail", "a", "b")
    pushed = server_ms(c)
    doc = wait_for(lambda: (r := report(c)) and r["transit"].get("stuck_count") == 2 and r, 40)
    assert doc["node"] == "here" and 3 <= doc["transit"]["oldest_age"] <= (doc["at_ms"] - pushed) / 1000 + 1
    assert doc["status"] == "degraded" and doc["workers"] == {"alive": 2, "active": 2, "waiting": 0}
    c.set("quredis:node:there", json.dumps({"at_ms": 1, "running": [{"incarnation": 1}, 7, {"running_ms": -1}]}))
    doc = next_report(c)
    assert "oldest_age" not in doc["transit"] or doc["transit"]["oldest_age"] > 0
    (tmp / "go").touch()
    wait_for(lambda: report(c)["status"] == "healthy", 40)
    assert there.stop() == 0 and here.stop() == 0


# ---- status ----

def test_status_walks_without_flapping(redis, quredisd, handler, quredis):
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler("cat"), workers=0), queue("news", handler("cat"), workers=0)],
                 health=health(dlq_max_warning=10, dlq_max_critical=20))

    def dead(n):
        with c.pipeline() as p:
            p.delete("escape:mail")
            if n:
                p.lpush("escape:mail", *range(n))
            p.execute()
        return next_report(c)["status"]

    def asked(*words):
        r = quredis("health", *words)
        return r.code, r.out

    next_report(c)
    assert asked() [0] == 0
    assert dead(10) == "healthy"
    assert dead(11) == "degraded"
    assert asked("--nagios") == (1, "QUREDIS WARNING - mail: 11 dead letters, the limit is 10 | 'mail ingress'=0 'mail transit'=0 "
                                 "'mail escape'=11 'news ingress'=0 'news transit'=0 'news escape'=0\n")
    assert asked("news")[0] == 0
    assert [dead(n) for n in (10, 11, 10, 12, 9, 10)] == ["degraded"] * 6          # 9 is nine tenths: once is not enough
    assert dead(21) == "unhealthy"
    code, out = asked("--json")
    document = json.loads(out)
    assert code == 2 and document["status"] == "unhealthy" and [q["queue"] for q in document["queues"]] == ["mail", "news"]
    (reason,) = document["queues"][0]["reasons"]
    assert reason == {"code": "dead_letters", "status": "unhealthy", "recovering": False, "value": 21, "limit": 20, "text": "21 dead letters, the limit is 20"}
    assert [dead(n) for n in (20, 21, 19, 21, 20)] == ["unhealthy"] * 5
    kept = "recovering: 20 dead letters, the limit is 20; it must fall to nine tenths of the limit at 2 looks"
    assert re.match(rf"QUREDIS CRITICAL - mail: {kept}; next look in [\d.]+m?s ", asked("--nagios")[1])
    dead(0)
    next_report(c)
    assert report(c)["status"] == "healthy" and report(c)["reasons"] == []
    table = asked()[1]
    assert asked()[0] == 0 and [line.split()[:2] for line in table.splitlines()] == [["Queue", "Status"], ["mail", "healthy"], ["news", "healthy"]]
    walked = [(e["before"], e["status"]) for e in d.events("health_changed")]
    assert walked == [("healthy", "degraded"), ("degraded", "unhealthy"), ("unhealthy", "healthy")]
    assert [e["level"] for e in d.events("health_changed")] == ["warning", "error", "info"]
    summary = wait_for(lambda: d.events("health") and d.events("health")[-1])
    assert int(summary["healthy"]) + int(summary["degraded"]) + int(summary["unhealthy"]) == 2
    assert d.stop() == 0


def test_an_outage_that_is_over_alarms_nobody(redis_server, quredisd, handler):
    """The sweeper reconnects before some workers, whose back-offs are longer."""
    server = redis_server(aof="always")
    d = quredisd(redis=server, queues=[queue("mail", handler("cat"), workers=8)], health=health())
    for outage in range(3):
        server.kill9()
        wait_for(lambda: len(d.events("redis_error", at="connection")) >= 8 * (outage + 1), 60)
        server.start()
        wait_for(lambda: len(d.events("redis_up")) > outage, 60)
        wait_for(lambda: len(d.events("redis_error_cleared")) >= 8 * (outage + 1), 60)
    next_report(server.client())
    assert d.events("health_changed", status="unhealthy") == []


def test_an_error_that_lasts_is_unhealthy(redis, quredisd, handler):
    """What may pass by itself counts after ten seconds."""
    d = quredisd(queues=[queue("mail", handler("cat"))], health=health())
    next_report(redis.client())
    redis.client().config_set("maxmemory", 1)
    assert "Redis refuses commands for now" in d.wait_event("health_changed", status="unhealthy", timeout=60)["reason"]


def test_wrong_types(redis, quredisd, handler, quredis):
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler("cat"), workers=0), queue("news", handler("cat"), workers=0)], health=health())
    next_report(c)
    for key in ("escape:mail", "quredis:of:ingress:mail:delayed", "quredis:of:ingress:mail:paused", "escape:mail:log"):
        getattr(c, "lpush" if key.endswith("paused") else "set")(key, "x")
    c.set("transit:mail", "x")
    wait_for(lambda: (r := report(c)) and r["status"] == "unhealthy" and r["workers"], 30)
    doc = next_report(c)
    assert [r["code"] for r in doc["reasons"]] == ["error"] and "size" not in doc["escape"] and doc["delayed"] == {}
    assert doc["ingress"]["size"] == 0 and "size" not in doc["transit"]
    assert next_report(c, "news")["status"] == "healthy"
    assert quredis("health").code == 2 and quredis("health", "news").code == 0
    c.delete("escape:mail", "quredis:of:ingress:mail:delayed", "quredis:of:ingress:mail:paused", "escape:mail:log", "transit:mail")
    wait_for(lambda: report(c)["status"] == "healthy", 60)
    c.delete("quredis:health")
    c.set("quredis:health", "x")
    assert "WRONGTYPE" in d.wait_event("queue_error", queue="news", at="health")["error"]
    assert quredis("health").code == 78
    c.delete("quredis:health")
    d.wait_event("queue_error_cleared", queue="news")
    wait_for(lambda: report(c, "news"), 30)
    assert d.stop() == 0


# ---- who reports, and whom ----

def test_each_threshold_counts_for_what_it_is_called(redis, quredisd, handler):
    """With one a step below what is there, and all others far above."""
    c = redis.client()
    idle = queue("mail", handler("cat"), workers=0)
    far = dict.fromkeys(("ingress_max", "transit_max", "dlq_max_warning", "dlq_max_critical", "stuck_max_warning", "stuck_max_critical", "delayed_max"), 1000)
    far.update(oldest_age_warning="1d", oldest_age_critical="2d")
    d = quredisd(queues=[idle], health=health(**far))
    q, now = Queue(c, "mail", register=False), server_ms(c)
    c.lpush(q.ingress, *[f"quredis/1 enqueued={now - 10 ** 7}\n{i}" for i in range(8)], *[f"raw {i}" for i in range(4)])
    q.worker("other.00000000000000aa.1.1", t0=["a", "b", "c"], t1=["d", "e", "f"])
    q.dead_letters(*[b"%d" % i for i in range(10)])
    c.zadd(q.delayed, {f"d{i}": now + 10 ** 8 for i in range(5)})
    for name, there, code, status in (("ingress_max", 12, "ingress", "degraded"), ("transit_max", 6, "transit", "degraded"),
                                      ("dlq_max_warning", 10, "dead_letters", "degraded"), ("dlq_max_critical", 10, "dead_letters", "unhealthy"),
                                      ("delayed_max", 5, "delayed", "degraded"),
                                      ("stuck_max_warning", 8, "stuck", "degraded"), ("stuck_max_critical", 8, "stuck", "unhealthy")):
        d.reload(health=health(**{**far, name: there - 1}))
        wanted = [{"code": code, "status": status, "value": there, "limit": there - 1}]
        wait_for(lambda: (r := report(c)) and r["status"] == status and [{k: x[k] for k in wanted[0]} for x in r["reasons"]] == wanted, 30, name)
        d.reload(health=health(**{**far, name: 1000}))
        wait_for(lambda: report(c)["status"] == "healthy", 30, f"healthy after {name}")
    assert d.stop() == 0


# ---- failures ----

FAR = {"dlq_max_warning": 10 ** 6, "dlq_max_critical": 10 ** 6, "ingress_max": 10 ** 6}
SOME_FAIL = "case $(cat) in bad*) exit 1;; esac"


def reason(c, code, name="mail"):
    """The reason with this code of the last report; None: it has none."""
    return next((r for r in (report(c, name) or {"reasons": []})["reasons"] if r["code"] == code), None)


def test_half_of_the_messages_fail(redis, quredisd, handler):
    """744 done and 736 failed: judged soon, although the next look is in an hour."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler(SOME_FAIL), workers=4), queue("news", handler(SOME_FAIL), workers=1)], health=health("1h", **FAR))
    wait_for(lambda: report(c) and report(c, "news"), 30)
    c.lpush("ingress:mail", *[f"good {i}" if i % 2 or i >= 1472 else f"bad {i}" for i in range(1480)])
    c.lpush("ingress:news", *[f"good {i}" for i in range(30)])
    found = wait_for(lambda: reason(c, "failures"), 90)
    assert found["status"] == "degraded" and found["limit"] == 30 and report(c)["status"] == "degraded"
    wait_for(lambda: c.hget("quredis:of:ingress:mail:stats", "done") == b"744" and c.hget("quredis:of:ingress:mail:stats", "failed") == b"736", 90)
    d.reload(health=health("1s", **FAR))            # a look now, which counts them all
    found = wait_for(lambda: (r := reason(c, "failures")) and "1480" in r["text"] and r, 30)
    assert found == {"code": "failures", "status": "degraded", "recovering": False, "value": 50, "limit": 30,
                     "text": "736 of 1480 attempts failed in the last 10m: 49.7 %, the limit is 30 %; 736 HandlerExit: exit status 1"}
    failures = next_report(c)["failures"]
    assert failures.pop("latest")["error"] == "exit status 1"
    assert failures == {"attempts": 1480, "failed": 736, "window": 600, "classes": {"HandlerExit": 736}, "text": "736 HandlerExit: exit status 1"}
    assert report(c, "news")["status"] == "healthy" and report(c, "news")["failures"]["attempts"] == 30
    assert d.stop() == 0


def minute_now(c):
    return server_ms(c) // 60000


def test_the_rate_of_failures_is_that_of_all_hosts_and_of_the_window(redis, quredisd, handler, tmp):
    """The counters of each minute: another host wrote them, before this supervisor started."""
    c = redis.client()

    def minutes(**ago):                       # m2=(done, failed): two minutes ago
        now = minute_now(c)
        for key in c.keys("quredis:of:ingress:mail:rate:*"):
            c.delete(key)
        for k, (done, failed) in ago.items():
            c.hset(f"quredis:of:ingress:mail:rate:{now - int(k[1:])}", mapping={"done": done, "failed": failed})

    def judged(**ago):
        minutes(**ago)
        next_report(c)
        doc = wait_for(lambda: "attempts" in (r := next_report(c))["failures"] and r, 30)     # a look that Redis answered too late has no figures
        return doc["status"], doc["failures"]["attempts"], doc["failures"]["failed"]
    minutes(m2=(30, 70))
    d = quredisd(queues=[queue("mail", handler("cat"), workers=0)], health=health("1s", failure_window="5m", failure_min=8),
                 metrics={"textfile": str(tmp / "q.prom"), "interval": "1s"})
    assert wait_for(lambda: report(c), 30)["status"] == "degraded"         # 70 % is not above the limit
    assert judged(m2=(29, 71)) == ("unhealthy", 100, 71)
    wait_for(lambda: 'quredis_health_reason{queue="mail",code="failures"} 2\n' in (tmp / "q.prom").read_text(), 30)
    assert judged(m2=(30, 67)) == ("unhealthy", 97, 67)             # more than nine tenths of the limit
    assert judged(m1=(40, 30), m2=(40, 30)) == ("degraded", 140, 60)
    assert judged(m7=(0, 100)) == ("healthy", 0, 0)                 # before the window
    assert judged(m1=(0, 7)) == ("healthy", 7, 7)                   # too few
    assert judged(m1=(0, 8)) == ("unhealthy", 8, 8)
    minutes()                                                       # Redis went back in time
    wait_for(lambda: report(c)["status"] == "healthy", 30)
    c.hset(f"quredis:of:ingress:mail:rate:{minute_now(c)}", mapping={"done": "x", "failed": -5})
    wait_for(lambda: next_report(c)["failures"] == {"attempts": 0, "failed": 0, "window": 300}, 30)
    assert d.stop() == 0


# ---- time ----

def test_a_queue_is_paused_for_too_long(redis, quredisd, handler):
    """19 minutes, and 340 messages wait. The next look would be in an hour."""
    c = redis.client()
    d = quredisd(queues=[queue(n, handler("cat")) for n in ("mail", "empty", "soon")], health=health("1h"))
    wait_for(lambda: all(report(c, n) for n in ("mail", "empty", "soon")), 30)
    ago = (datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(minutes=19)).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    for name in ("mail", "empty"):
        c.set(f"quredis:of:ingress:{name}:paused", json.dumps({"since": ago}))
        d.wait_event("queue_paused", queue=name)
    c.lpush("ingress:mail", *range(340))
    d.reload(health=health("1h", ingress_max=1000), queues=[queue(n, handler("cat")) for n in ("mail", "empty")] +
             [queue("soon", handler("cat"), health={"thresholds": {"paused_max": "3s"}})])
    found = wait_for(lambda: reason(c, "paused"), 30)
    assert re.fullmatch(r"paused for 19m\d\ds, the limit is 10m; 340 messages wait", found["text"]), found
    assert found["limit"] == 600000 and report(c)["status"] == "degraded"
    wait_for(lambda: report(c, "empty")["paused"], 30)
    assert report(c, "empty")["status"] == "healthy"                # nothing waits: stuck_age counts
    c.set("quredis:of:ingress:soon:paused", json.dumps({"since": "no time"}))
    wait_for(lambda: report(c, "soon")["paused"], 30)
    c.lpush("ingress:soon", "x")
    found = wait_for(lambda: reason(c, "paused", "soon"), 30)
    assert re.fullmatch(r"paused for [3-9]\.\ds, the limit is 3s; 1 message waits", found["text"]), found
    c.delete("quredis:of:ingress:soon:paused")
    wait_for(lambda: not report(c, "soon")["paused"], 30)
    assert d.stop() == 0


def test_a_report_says_at_once_why_a_queue_does_not_fetch(redis, quredisd, handler, tmp):
    """And that is a reason once it lasts for longer than a pause may. The next look would be in an hour."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler("cat")), queue("news", handler("cat"))], health=health("1h", paused_max="3s"),
                 metrics={"textfile": str(tmp / "q.prom"), "interval": "1s"})
    wait_for(lambda: all(report(c, n) and report(c, n)["state"] == "running" for n in ("mail", "news")), 30)
    assert "reason" not in report(c)
    d.quredis("quiet", "mail")
    quiet = wait_for(lambda: (r := report(c))["state"] == "quiet" and r, 30)
    assert quiet["reason"] == "an operator stopped its fetches"
    assert quiet["status"] == "healthy" and quiet["reasons"] == []
    assert "quiet: an operator stopped its fetches" in d.quredis("health", "mail").out
    wait_for(lambda: 'quredis_queue_state{queue="mail",state="quiet"} 1\n' in (tmp / "q.prom").read_text(), 30)
    found = wait_for(lambda: reason(c, "quiet"), 30)
    assert found["text"] == "an operator stopped its fetches" and report(c)["status"] == "degraded"
    d.quredis("quiet", "mail", "--off")
    wait_for(lambda: (r := report(c))["state"] == "running" and "reason" not in r, 30)
    assert report(c, "news")["status"] == "healthy"
    assert d.stop() == 0


def test_one_message_that_waits_for_long(redis, quredisd, handler):
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler("cat"), workers=0)], health=health(oldest_age_warning="2s", oldest_age_critical="6s"))
    assert next_report(c)["status"] == "healthy"
    c.lpush("ingress:mail", "x")
    found = wait_for(lambda: reason(c, "oldest_age"), 30)
    assert re.fullmatch(r"the oldest message has waited for [2-6]\.\ds, the limit is 2s", found["text"]), found
    assert wait_for(lambda: report(c)["status"] == "unhealthy" and reason(c, "oldest_age"), 30)["limit"] == 6000
    c.delete("ingress:mail")
    wait_for(lambda: report(c)["status"] == "healthy", 30)
    assert d.stop() == 0


def test_too_many_retries(redis, quredisd, handler):
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler("exit 75"), backoff={"base": "1h", "cap": "1h"})], health=health(delayed_max=3, failure_min=100))
    c.lpush("ingress:mail", *range(5))
    found = wait_for(lambda: (r := reason(c, "delayed")) and r["value"] == 5 and r, 30)
    assert re.fullmatch(r"5 messages are delayed, the limit is 3; \d retries in the last whole minute", found["text"]), found
    assert report(c)["status"] == "degraded" and len(report(c)["reasons"]) == 1
    assert d.stop() == 0


def test_a_queue_has_limits_of_its_own(redis, quredisd, handler):
    """Each key that it does not set is the global one; also how old a stuck message is."""
    c = redis.client()
    own = {"health": {"thresholds": {"ingress_max": 3, "stuck_age": "1s", "stuck_max_warning": 1}}}
    d = quredisd(queues=[queue("mail", handler("cat"), workers=0), queue("news", handler("cat"), workers=0, **own)],
                 health=health(ingress_max=10, dlq_max_warning=4, dlq_max_critical=8, stuck_age="1h"))
    d.wait_event("lead_taken", queue="news")
    for name in ("mail", "news"):
        c.lpush(f"ingress:{name}", *[f"quredis/1 enqueued={server_ms(c) - 60000}\n{i}" for i in range(8)])
        c.lpush(f"escape:{name}", *range(9))
    reasons = {name: {r["code"]: (r["value"], r["limit"]) for r in next_report(c, name, n=2)["reasons"]} for name in ("mail", "news")}
    assert reasons == {"mail": {"dead_letters": (9, 8)}, "news": {"dead_letters": (9, 8), "ingress": (8, 3), "stuck": (8, 1)}}
    d.reload(queues=[queue("mail", handler("cat"), workers=0, health={"thresholds": {"dlq_max_critical": 100}}), queue("news", handler("cat"), workers=0)])
    wait_for(lambda: [(r["status"], r["limit"]) for r in report(c)["reasons"]] == [("degraded", 4)] and
             [r["code"] for r in report(c, "news")["reasons"]] == ["dead_letters"], 30)
    assert d.stop() == 0


def test_it_looks_as_often_as_it_is_told(redis, quredisd, handler, tmp):
    """The interval holds although other tasks take the same figures more often."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler("cat"), workers=0)], health=health("1h"), metrics={"textfile": str(tmp / "q.prom"), "interval": "1s"})
    first = wait_for(lambda: report(c), 30)
    d.wait_event("health")
    start = server_ms(c)
    wait_for(lambda: server_ms(c) > start + 3500)
    assert report(c) == first and len(d.events("health")) == 1
    d.reload(health=health("2s"))
    second = next_report(c)
    third = next_report(c, after=second["at_ms"])
    assert third["at_ms"] - second["at_ms"] >= 1900
    assert d.stop() == 0


def test_off_leaves_nothing_behind(redis, quredisd, handler, quredis):
    """All that is done without what can be switched on, and each key that it leaves."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler("read -r m; case $m in bad*) exit 65;; again*) exit 75;; esac"), backoff={"base": "1h", "cap": "1h"})])
    c.lpush("ingress:mail", "a", "bad", "again")
    wait_for(lambda: [c.hget("quredis:of:ingress:mail:stats", k) for k in ("done", "escaped", "retried")] == [b"1"] * 3, 30)
    names = {re.sub(r"(lease|rate|backlog|node):.*", r"\1", k.decode()) for k in c.keys()}
    assert names == {"quredis:queues", "quredis:secret", "quredis:schema", "quredis:queue:mail", "quredis:node", "quredis:of:ingress:mail:delayed",
                     "quredis:of:ingress:mail:stats", "quredis:of:ingress:mail:rate", "quredis:of:ingress:mail:backlog", "escape:mail",
                     "escape:mail:log", "transit:mail:workers",
                     "transit:mail:lease"}
    c.set("quredis:of:ingress:mail:paused", "x")
    c.lpush("ingress:mail", "stays as it is")
    d.wait_event("queue_paused")
    start = server_ms(c)
    wait_for(lambda: server_ms(c) > start + 2500)       # the newest would get a time once a second
    assert c.lrange("ingress:mail", 0, -1) == [b"stays as it is"]
    r = quredis("health")
    assert r.code == 3 and "health.enabled" in r.err and r.out == ""
    assert json.loads(quredis("health", "--json").out) == {"status": "unknown", "queues": []}
    assert d.stop() == 0
    redis.stop()
    r = quredis("health", "--nagios")
    assert r.code == 3 and r.out.startswith("QUREDIS UNKNOWN - Redis: ")
    assert quredis("health").code == 69


def test_a_breaker_is_told_of_at_once(redis, quredisd, handler, tmp):
    """A breaker that opens, and a pause, are reported at once, not at the next interval."""
    c = redis.client()
    run = handler("cat >/dev/null; [ -e @TMP@/good ]")
    d = quredisd(queues=[queue("mail", run, breaker={"failures": 2}), queue("fax", run)],
                 health={**health(), "interval": "1h", "thresholds": {"dlq_max_warning": 1000, "dlq_max_critical": 2000}})
    wait_for(lambda: report(c) and report(c)["status"] == "healthy" and report(c, "fax"), 30)
    c.lpush("ingress:mail", *[f"m{i}" for i in range(20)])
    wait_for(lambda: [x["code"] for x in report(c)["reasons"]] == ["breaker"], 20)
    assert report(c)["status"] == "degraded" and d.wait_event("health_changed", queue="mail", status="degraded")
    c.set("quredis:of:ingress:mail:paused", "me")
    shut = wait_for(lambda: (t := reason(c, "breaker")["text"]) and "workers test the handler" not in t and t, 60)
    assert "paused" not in shut, "each hold has a reason of its own"
    c.delete("quredis:of:ingress:mail:paused")
    before = report(c)["at_ms"]
    (tmp / "good").touch()
    wait_for(lambda: report(c)["at_ms"] > before and not c.llen("ingress:mail"), 60)
    before = report(c, "fax")["at_ms"]
    c.set("quredis:of:ingress:fax:paused", "me")
    wait_for(lambda: report(c, "fax")["at_ms"] > before, 20)
    assert d.stop() == 0


@pytest.mark.limit(200)
def test_a_queue_that_recovers_says_so_and_is_healthy_soon(redis, quredisd, handler, quredis, tmp):
    """The interval is an hour, but a queue that is not healthy is judged every 30 s. Text, JSON and metrics agree."""
    c = redis.client()
    c.lpush("escape:mail", *range(21))
    d = quredisd(queues=[queue("mail", handler("cat >/dev/null; [ -e @TMP@/good ]"), breaker={"failures": 2}, max_attempts=1)],
                 health=health("1h", failure_min=100, dlq_max_warning=20), metrics={"textfile": str(tmp / "q.prom"), "interval": "1s"})
    first = wait_for(lambda: report(c), 30)
    assert first["status"] == "degraded" and first["next_at_ms"] - first["at_ms"] == 30000
    c.lpush("ingress:mail", *[f"m{i}" for i in range(9)])
    wait_for(lambda: reason(c, "breaker"), 30)
    c.delete("escape:mail")
    (tmp / "good").touch()
    found = wait_for(lambda: (r := reason(c, "breaker")) and r["recovering"] and r, 90)
    assert found["text"] == "recovering: the breaker is closed; good at 1 of 2 looks" and (found["status"], found["value"]) == ("degraded", 0)
    r = quredis("health", "--nagios", conf=d.conf)
    assert r.code == 1 and re.search(r"recovering: the breaker is closed; good at 1 of 2 looks.*; next look in [\d.]+s", r.out), r.out
    sample = 'quredis_health_recovering{queue="mail",code="breaker"} 1\n'
    wait_for(lambda: sample in (tmp / "q.prom").read_text(), 25)
    wait_for(lambda: report(c)["status"] == "healthy", 90)
    assert report(c)["next_at_ms"] - report(c)["at_ms"] == 3600000
    wait_for(lambda: "quredis_health_recovering{" not in (tmp / "q.prom").read_text(), 25)
    assert d.stop() == 0


def test_a_supervisor_that_was_killed_judges_at_once_when_it_is_back(redis, quredisd, handler):
    """Its lead would last for a lease. The lock proves that its holder is dead."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler("cat"))], health=health(), supervisor={"lease": "10m"})
    next_report(c, "mail")
    d.kill9()
    c.delete("quredis:health")
    d.start()
    next_report(c, "mail")
    assert d.quredis("health", "mail").code == 0 and c.pttl("quredis:of:ingress:mail:sweeper") > 0
    assert d.stop() == 0


def test_a_queue_that_a_living_supervisor_has_not_judged_yet_is_told_from_a_dead_host(redis, quredisd):
    c = redis.client()
    d = quredisd(start=False, queues=[queue("mail", "/bin/cat")], health=health())
    r = d.quredis("health", "mail")
    assert r.code == 3 and "no supervisor reports: is one with health.enabled running?" in r.err, r
    c.set(f"quredis:node:{d.tag}", json.dumps({"node": d.tag, "at_ms": server_ms(c), "queues": []}))
    r = d.quredis("health", "mail")
    assert r.code == 3 and "no report yet: a supervisor that has just started, or just got a queue, judges it within some seconds" in r.err, r


def test_a_queue_that_nobody_looks_at_is_not_well(redis, quredisd, handler, quredis):
    c = redis.client()
    cat = handler("cat")
    both = quredisd(queues=[queue("mail", cat), queue("fax", cat)], health=health(dlq_max_warning=0, dlq_max_critical=0), supervisor={"lease": "2s"})
    other = quredisd(queues=[queue("mail", cat)], health=health(), supervisor={"node": "other", "lease": "2s"})
    next_report(c, "fax")
    wait_for(lambda: quredis("health", conf=both.conf).code == 0, 30)
    both.kill_tree()
    # other hosts report their queues, and fax does not vanish from what is judged
    def unknown():
        r = quredis("health", "--json", conf=both.conf)
        found = json.loads(r.out)
        return r.code == 3 and len(found["queues"]) == 2 and report(c)["node"] == "other" and found["queues"][1]["status"] == "healthy" and found
    found = wait_for(unknown, 90)       # the other host reports the registration of the dead worker of mail until it has rescued it
    assert found["status"] == "unknown"
    fax, mail = found["queues"]
    assert (fax["queue"], fax["status"], [x["code"] for x in fax["reasons"]]) == ("fax", "unknown", ["unreported"])
    assert mail["queue"] == "mail"
    r = quredis("health", "--nagios", conf=both.conf)
    assert r.code == 3 and r.out.startswith("QUREDIS UNKNOWN - fax: no supervisor reports"), r.out
    assert "fax" in quredis("health", conf=both.conf).out
    # what is known to be bad is worse
    report_of_mail = {**report(c), "status": "unhealthy", "at_ms": server_ms(c), "interval_ms": 600000}
    c.hset("quredis:health", "tube", json.dumps({**report_of_mail, "queue": "tube"}))
    assert quredis("health", conf=both.conf).code == 2
    # a host that does not have fax knows of it by its workers, who did not leave in an orderly way
    c.hdel("quredis:health", "tube")
    r = quredis("health", "--nagios", conf=other.conf)
    assert r.code == 3 and "fax: no supervisor reports" in r.out
    c.delete("transit:fax:workers")
    wait_for(lambda: quredis("health", conf=other.conf).code == 0, 30)
    assert other.stop() == 0


def test_a_queue_that_does_not_exist(redis, quredisd, handler, quredis):
    quredisd(queues=[queue("mail", handler("cat"))], health=health())
    next_report(redis.client())
    r = quredis("health", "mial")
    assert r.code == 66 and "did you mean mail?" in r.err
    r = quredis("health", "mial", "--nagios")
    assert r.code == 3 and r.out.startswith("QUREDIS UNKNOWN - no queue mial")


def test_another_host_goes_on(redis, quredisd, handler, quredis):
    c = redis.client()
    hosts = {f"host{i}": quredisd(queues=[queue("mail", handler("cat"), workers=0)], health=health(),
                                  supervisor={"node": f"host{i}", "lease": "2s"}) for i in range(2)}
    first = next_report(c)["node"]
    assert next_report(c)["node"] == first
    hosts[first].kill_tree()
    wait_for(lambda: (r := report(c)) and r["node"] != first, 30)
    (other,) = hosts.keys() - {first}
    c.hset("quredis:health", mapping={"gone": json.dumps({**report(c), "queue": "gone", "at_ms": server_ms(c) - 3001, "status": "unhealthy"}),
                                      "odd": "no report", "list": "[1]", "\xff": "{}"})
    assert quredis("health").code == 0
    wait_for(lambda: c.hkeys("quredis:health") == [b"mail"], 30)
    assert hosts[other].stop() == 0
    reported = server_ms(c)
    wait_for(lambda: server_ms(c) > reported + 3200)
    assert quredis("health").code == 3 and not c.exists("quredis:health")


def test_a_reload_and_another_host_go_on_from_the_last_report(redis, quredisd, handler):
    """The next leader continues from the last report: status and time stay, and no change is reported twice."""
    c = redis.client()
    c.lpush("escape:mail", *range(30))
    d = quredisd(queues=[queue("mail", handler("cat"), workers=0)], health=health(dlq_max_warning=20), supervisor={"node": "a", "lease": "2s"})
    first = next_report(c)
    assert first["status"] == "degraded"
    sweeper = d.sweeper()
    d.reload(log={"level": "info"})
    wait_for(lambda: d.sweeper() not in (None, sweeper))
    assert next_report(c, n=2)["since"] == first["since"]
    other = quredisd(queues=[queue("mail", handler("cat"), workers=0)], health=health(dlq_max_warning=20),
                     supervisor={"node": "b", "lease": "2s"})
    c.lpop("escape:mail", 11)                     # 19: better, but not well enough
    d.kill_tree()
    wait_for(lambda: (r := report(c)) and r["node"] == "b", 30)
    assert next_report(c, n=3)["since"] == first["since"] and report(c)["status"] == "degraded"
    assert [e["before"] for e in d.events("health_changed")] == ["healthy"] and other.events("health_changed") == []


def test_a_hundred_queues_while_redis_comes_and_goes(redis, quredisd, handler):
    c = redis.client()
    names = [f"q-{i}.x_y" for i in range(100)]
    d = quredisd(queues=[queue(n, handler("cat"), workers=0) for n in names], health=health())
    wait_for(lambda: c.hlen("quredis:health") == 100, 60)
    redis.restart()
    wait_for(lambda: len(redis.client().hkeys("quredis:health")) == 100, 60)
    assert {k.decode() for k in redis.client().hkeys("quredis:health")} == set(names)
    assert not d.events("health_changed")
    assert d.stop() == 0


def test_a_report_of_the_future_is_not_believed(redis_server, quredisd, handler):
    """The clock of Redis was set back. A living supervisor reports again; that of a dead one does not stay healthy until the clock is there again."""
    server = redis_server(clock=True)
    c = server.client()
    server.set_clock(3600)
    d = quredisd(redis=server, queues=[queue("mail", handler("cat"))], supervisor={"lease": "1s"}, health=health())
    ahead = next_report(c)["at_ms"]
    server.set_clock(0)
    wait_for(lambda: (r := report(c)) and r["at_ms"] < ahead, 30, "a report by the clock as it is now")
    wait_for(lambda: d.quredis("health").code == 0, 20)
    server.set_clock(3600)
    wait_for(lambda: (r := report(c)) and r["at_ms"] > ahead, 30)
    d.kill_tree()
    server.set_clock(0)
    r = d.quredis("health")
    assert r.code == 3 and "the last report is too old" in r.err


class Held(Tap):
    """Holds the answers of one look at a queue, once it is armed."""

    def __init__(self):
        self.armed, self.held = threading.Event(), threading.Event()

    def request(self, pair, words):
        if b"sweeper" in pair.name and words[:2] == [b"LLEN", b"escape:mail"] and self.armed.is_set():
            self.armed.clear()
            self.held.set()
            return 3
        return None


def test_news_during_a_look_are_judged_by_the_next_one(redis, redis_proxy, quredisd, handler, tmp):
    """Health was not due when the look began, so the look did not ask how many attempts failed."""
    c, tap = redis.client(), Held()
    proxy = redis_proxy(redis, tap)
    d = quredisd(redis=proxy, queues=[queue("mail", handler("exit 1"), workers=1, max_attempts=1, breaker={"failures": 2})], health=health("1h"),
                 metrics={"textfile": str(tmp / "q.prom"), "interval": "1s"})
    wait_for(lambda: report(c), 30)
    tap.armed.set()
    assert tap.held.wait(30)
    c.lpush("ingress:mail", *range(4))
    found = wait_for(lambda: (r := report(c)) and "breaker" in [x["code"] for x in r["reasons"]] and r, 60)
    assert "failed" in found["failures"], found          # 0: the sweeper has not written them to Redis yet
    assert d.stop() == 0


def test_a_queue_that_is_scaled_to_no_workers_says_so(redis, quredisd):
    d = quredisd(queues=[queue("mail", "/bin/cat")], health={"enabled": True, "interval": "1h"})
    c = redis.client()
    text = "scaled to no workers, until a reload"
    wait_for(lambda: c.hexists("quredis:health", "mail"))
    d.quredis("scale", "mail", "0")
    wait_for(lambda: json.loads(c.hget("quredis:health", "mail")).get("reason") == text, 30)
    assert text in d.quredis("health").out and text in d.quredis("ls").out
    wait_for(lambda: text in d.quredis("nodes", "--json").out, 30)
    d.quredis("scale", "mail", "1")
    wait_for(lambda: "reason" not in json.loads(c.hget("quredis:health", "mail")), 30)


def test_messages_of_a_queue_that_is_scaled_to_no_workers_are_not_well(redis, quredisd):
    d = quredisd(queues=[queue("mail", "/bin/cat")], health=health("1s"))
    c = redis.client()
    next_report(c)
    d.quredis("scale", "mail", "0")
    wait_for(lambda: (r := report(c)) and r["workers"]["alive"] == 0, 30)
    assert d.quredis("health").code == 0        # nothing waits for a worker
    c.lpush("ingress:mail", "m")
    found = wait_for(lambda: (r := report(c)) and r["status"] == "degraded" and r, 30)
    assert [(x["code"], x["text"]) for x in found["reasons"]] == [
        ("scaled", "1 message waits, and the queue is scaled to no workers: quredis scale mail N, or quredis reload")]
    d.quredis("scale", "mail", "1")
    wait_for(lambda: "reason" not in (r := report(c)) and r["status"] == "healthy", 60)
    assert d.stop() == 0


def test_the_sum_counts_what_nodes_confirm(redis, quredisd, handler):
    """A report is valid for hours: its supervisor may be dead, or have no such queue any more."""
    c = redis.client()

    def write(name, status, node):
        c.hset("quredis:health", name, json.dumps({"queue": name, "status": status, "at_ms": server_ms(c) - 60000, "interval_ms": 3600000, "node": node,
                                                   "ingress": {"stuck_count": 5}}))
    d = quredisd(queues=[queue("mail", handler("cat"), workers=0)], health=health("1s"), supervisor={"node": "here"})
    d.wait_event("health", healthy="1", unknown="0", stuck="0")
    for name, status in (("silent", "healthy"), ("dead", "unhealthy")):
        write(name, status, "far")
    d.wait_event("health", healthy="1", unhealthy="1", unknown="1", stuck="10")
    wait_for(lambda: c.exists("quredis:node:here"))
    write("left", "unhealthy", "here")
    write("left too", "healthy", "here")
    c.hset("quredis:health", "fence", "no report")                  # the next sum drops it
    wait_for(lambda: not c.hexists("quredis:health", "fence"), 30)
    d.wait_event("health", healthy="1", unhealthy="1", unknown="1", stuck="10")
    assert not any(e["unhealthy"] == "2" or e["healthy"] == "2" for e in d.events("health"))
    assert d.stop() == 0
