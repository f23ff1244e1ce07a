"""quredis stale: what the rules of purge{} would take, without taking it. What a live run takes is test_purge_dry.py's."""
import json
import os
import random
import signal
import subprocess

import pytest

from harness import QUREDIS, queue, render, wait_for
from harness.queues import Queue, dumps

HOUR = 3600 * 1000
LIMITS = {"max_ingress_age": "2h", "max_message_age": "3h", "max_done_age": "1h", "max_orphaned_age": "1h"}


@pytest.fixture
def conf(tmp, redis, handler):
    """Writes a configuration; returns its path."""
    def write(*names, purge=None, server=redis, **keys):
        path = tmp / "stale.conf"
        path.write_text(render({"redis": {"url": server.url}, "purge": {**LIMITS, **(purge or {})},
                                "queues": [queue(name, handler("cat"), **keys) for name in names or ("mail",)]}))
        path.chmod(0o644)
        return path
    return write


def server_ms(c):
    seconds, micros = c.time()
    return seconds * 1000 + micros // 1000


def line(**keys):
    return ("quredis/1 " + " ".join(f"{k}={v}" for k, v in keys.items() if v is not None) + "\n").encode()


def counts(said):
    return {(q["name"], r["list"], r["rule"]): r["count"] for q in json.loads(said.out)["queues"] for r in q["rules"]}


def waiting(said):
    """(by max_ingress_age, by max_message_age)"""
    return tuple(counts(said)["mail", "ingress", rule] for rule in ("max_ingress_age", "max_message_age"))


# ---- ingress, against a rule told in another way ----

def rule_of(entry, mark, now):
    """The rule that takes an entry {enqueued, first_failed, own, mark}, if the mark (or None) is to the left of it."""
    waits = [t for t in (entry.get("own"), entry.get("mark"), mark) if t is not None]
    exists = waits + [t for t in (entry.get("enqueued"), entry.get("first_failed")) if t is not None]
    if waits and now - min(waits) >= 2 * HOUR:
        return "ingress"
    return "message" if exists and now - min(exists) >= 3 * HOUR else None


def expected(entries, now):
    """Of entries, newest first. From the old end the first mark that is not old enough is the last that counts."""
    old = [i for i, e in enumerate(entries) if "mark" in e]
    young = max([i for i in old if rule_of({}, entries[i]["mark"], now) is None], default=-1)
    found = []
    for i, e in enumerate(entries):
        left = [entries[j]["mark"] for j in old if young < j <= i]
        found.append(rule_of(e, left[-1] if left else None, now))
    return found.count("ingress"), found.count("message")


def entry_of(rnd, now):
    e = {}
    for key, often in (("enqueued", 0.3), ("own", 0.2), ("mark", 0.15), ("first_failed", 0.1)):
        if rnd.random() < often:
            e[key] = now - rnd.choice([1, 15, 27, 33, 40]) * HOUR // 10
    return e


def raw(i, e):
    wrapper = line(w=f"{i:016x}", own=e.get("own"), mark=e.get("mark"), first_failed=e.get("first_failed"))
    header = line(id=f"m{i}", enqueued=e["enqueued"]) if "enqueued" in e else b""
    return (wrapper if set(e) - {"enqueued"} else b"") + header + b"payload %d" % i


@pytest.mark.parametrize("seed", range(12))
def test_marks_and_times_of_messages(redis, quredis, conf, seed):
    c, rnd = redis.client(), random.Random(seed)
    now = server_ms(c) + 60000          # the looks come within a minute: none of the ages is near a limit
    entries = [entry_of(rnd, now) for _ in range(rnd.choice([0, 1, 20, 90, 700]))]
    for i in reversed(range(len(entries))):
        c.lpush("ingress:mail", raw(i, entries[i]))
    assert waiting(quredis("stale", "mail", "--json", conf=conf())) == expected(entries, now)


def test_a_mark_speaks_for_all_before_it(redis, quredis, conf):
    c = redis.client()
    now = server_ms(c)
    c.lpush("ingress:mail", *[b"old %d" % i for i in range(5000)], line(w="00000000000000aa", mark=now - 150 * 60000) + b"marked",
            *[b"young %d" % i for i in range(3000)], line(w="00000000000000ab", mark=now - 60000) + b"marked",
            line(w="00000000000000ac", mark=now - 5 * HOUR) + b"hand-written", b"raw")
    said = quredis("stale", "--json", conf=conf())
    # Of the hand-written one its own mark is believed; what is before it lies behind a young mark.
    assert waiting(said) == (5002, 0)
    [row] = [r for r in json.loads(said.out)["queues"][0]["rules"] if r["rule"] == "max_ingress_age"]
    assert row["limit_ms"] == 2 * HOUR and 5 * HOUR <= row["oldest_ms"] < 6 * HOUR
    assert waiting(quredis("stale", "--json", conf=conf(purge={"max_ingress_age": "7d", "max_message_age": "2h"}))) == (0, 5002)


def test_as_the_leader_knows_the_clock(redis, quredis, quredisd, conf, handler):
    """A mark from before he came counts from then: he takes nothing yet, and it is said so."""
    c = redis.client()
    c.lpush("ingress:mail", b"raw", line(w="00000000000000aa", mark=server_ms(c) - 5 * HOUR) + b"marked")
    said = quredis("stale", "--json", conf=conf())
    assert waiting(said) == (2, 0) and json.loads(said.out)["queues"][0]["leader"] is None
    d = quredisd(queues=[queue("mail", handler("cat"), workers=0)], purge={"enabled": True, "dry_run": True, **LIMITS},
                 supervisor={"node": "host.a"})
    d.wait_event("purge_dry_run", queue="mail", messages="0")
    wait_for(lambda: c.exists("quredis:node:host.a"))
    said = d.quredis("stale", "--json")
    assert waiting(said) == (0, 0) and json.loads(said.out)["queues"][0]["leader"] == "host.a"
    report = json.loads(c.get("quredis:node:host.a"))
    assert 0 <= report["at_ms"] - report["clock"]["since_ms"] + 1000 < 120000 and report["clock"]["stepped_ms"] == 0
    assert "supervisors name each" in d.quredis("stale").err
    assert d.stop() == 0


# ---- what else there is, and what is not looked at ----

def fill(c, name="mail"):
    now = server_ms(c)
    q = Queue(c, name, register=False)
    c.lpush(q.ingress, line(enqueued=now - 4 * HOUR) + b"x")
    c.zadd(q.delayed, {line(w="00000000000000aa", first_failed=now - 4 * HOUR) + b"x": now + HOUR, line(w="00000000000000ab") + b"x": now + HOUR})
    for i in range(1200):
        c.xadd(f"{q.ingress}:done", {"id": f"h{i}"}, id=f"{1000 + i}-1")
    c.xadd(f"{q.ingress}:done", {"id": "young"})
    for i in range(250):
        c.xadd(q.log, {"id": f"r{i}", "sha1": "0" * 40}, id=f"{1000 + i}-1")
    return q


ALL = {("ingress", "max_ingress_age"): 0, ("ingress", "max_message_age"): 1, ("delayed", "max_message_age"): 1, ("done", "max_done_age"): 1200,
       ("records", "max_orphaned_age"): 250}


def named(said, name):
    return {k[1:]: n for k, n in counts(said).items() if k[0] == name}


def test_each_kind_and_nothing_is_written(redis, quredis, conf):
    c = redis.client()
    fill(c)
    before = dumps(c)
    said = quredis("stale", conf=conf())
    rows = [r.split() for r in said.out.splitlines()[1:] if not r.startswith("-")]
    assert {(r[1], r[2]): int(r[4]) for r in rows if r[0] == "mail"} == ALL and said.code == 0
    assert "purge.enabled = false: none of it is taken" in said.err and "1 of 1 queues" in said.err
    assert named(quredis("stale", "mail", "--json", conf=conf()), "mail") == ALL
    assert dumps(c) == before


@pytest.mark.parametrize("keys, lacks", [
    ({"shared": True}, {"ingress", "delayed"}), ({"dead_letter": {"archive": "/var/tmp/never.ndjson"}}, {"records"}),
    ({"done": {"keep": 10, "max_age": "30m"}}, {"done"}), ({"done": {"keep": 10, "max_age": "2h"}}, set()),
])
def test_only_what_purge_looks_at(redis, quredis, conf, keys, lacks):
    fill(redis.client())
    said = quredis("stale", "--json", conf=conf(**keys))
    assert named(said, "mail") == {k: n for k, n in ALL.items() if k[0] not in lacks}, said.err


def test_records_that_are_still_to_be_forwarded_stay(redis, quredis, conf):
    c = redis.client()
    q = fill(c)
    path = conf("mail", "letters")
    path.write_text(path.read_text().replace('name = "mail"', 'name = "mail"; dead_letter = { forward_to = "letters"; }', 1))
    assert counts(quredis("stale", "--json", conf=path))["mail", "records", "max_orphaned_age"] == 0
    c.set(f"{q.escape}:forwarded", "1099-1")
    assert counts(quredis("stale", "--json", conf=path))["mail", "records", "max_orphaned_age"] == 100


def test_a_key_of_another_type_hides_only_itself(redis, quredis, conf):
    c = redis.client()
    fill(c)
    fill(c, "bad")
    c.delete("ingress:bad")
    c.set("ingress:bad", "no list")
    said = quredis("stale", "--json", conf=conf("bad", "mail"))
    assert named(said, "mail") == ALL and said.code != 0 and "ingress:bad" in said.err
    [bad] = [q for q in json.loads(said.out)["queues"] if q["name"] == "bad"]
    assert "ingress:bad" in bad["error"] and named(said, "bad")["done", "max_done_age"] == 1200


def test_which_queue(redis, quredis, conf):
    c = redis.client()
    fill(c)
    Queue(c, "foreign")
    said = quredis("stale", "foreign", conf=conf())
    assert said.code == 66 and "no rule of purge is known for it" in said.err
    said = quredis("stale", "mial", conf=conf())
    assert said.code == 66 and "mail" in said.err
    assert counts(quredis("stale", "--json", "mail", conf=conf("mail", "other"))).keys() == {("mail", *k) for k in ALL}
    assert quredis("stale", "--json", url=redis.url).code == 0        # no configuration, no queue


def test_interrupted_it_says_at_least_so_many(redis, conf):
    """Stopped in the middle of a long list: Redis holds still while the signal comes."""
    c = redis.client()
    now = server_ms(c)
    old = line(enqueued=now - 4 * HOUR) + b"x" * 100
    for _ in range(200):
        c.lpush("ingress:mail", *[old] * 1000)

    def calls():
        return sum(s["calls"] for name, s in c.info("commandstats").items() if name in ("cmdstat_evalsha", "cmdstat_eval"))

    begun = calls()
    p = subprocess.Popen([QUREDIS, "-c", conf(), "stale", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: calls() > begun + 5)
    redis.signal(signal.SIGSTOP)
    try:
        os.kill(p.pid, signal.SIGINT)
    finally:
        redis.signal(signal.SIGCONT)
    out, err = p.communicate(timeout=60)
    answer = json.loads(out)
    assert answer["interrupted"] is True and 0 < answer["queues"][0]["rules"][1]["count"] < 200000
    assert p.returncode == -signal.SIGINT and "at least so many" in err
