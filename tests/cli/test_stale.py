"""quredis stale: what the rules of purge{} would take, without taking it. What a live run takes is sweeper/test_purge_dry.py's."""
import json
import os
import random
import signal
import subprocess

import pytest

from harness import QUREDIS, queue, render, wait_for
from harness.messages import sealed
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


def sealed_line(c, **keys):
    return sealed(c, line(**keys))


def counts(said):
    return {(q["name"], r["list"], r["rule"]): r["count"] for q in json.loads(said.out)["queues"] for r in q["rules"]}


def waiting(said):
    """(by max_ingress_age, by max_message_age)"""
    return tuple(counts(said)["mail", "ingress", rule] for rule in ("max_ingress_age", "max_message_age"))


# ---- ingress, against a rule told in another way ----

def rule_of(entry, now):
    """The rule that takes an entry {enqueued, first_failed, own}."""
    if "own" in entry and now - entry["own"] >= 2 * HOUR:
        return "ingress"
    return "message" if entry and now - min(entry.values()) >= 3 * HOUR else None


def entry_of(rnd, now):
    e = {}
    for key, often in (("enqueued", 0.3), ("own", 0.3), ("first_failed", 0.1)):
        if rnd.random() < often:
            e[key] = now - rnd.choice([1, 15, 27, 33, 40]) * HOUR // 10
    return e


def raw(c, i, e):
    wrapper = sealed_line(c, w=f"{i:016x}", first_failed=e.get("first_failed"), own=e.get("own"))
    header = line(id=f"m{i}", enqueued=e["enqueued"]) if "enqueued" in e else b""
    return (wrapper if set(e) - {"enqueued"} else b"") + header + b"payload %d" % i


@pytest.mark.parametrize("seed", range(12))
def test_times_of_messages(redis, quredis, conf, seed):
    c, rnd = redis.client(), random.Random(seed)
    now = server_ms(c) + 60000          # the looks come within a minute: none of the ages is near a limit
    entries = [entry_of(rnd, now) for _ in range(rnd.choice([0, 1, 20, 90, 700]))]
    for i in reversed(range(len(entries))):
        c.lpush("ingress:mail", raw(c, i, entries[i]))
    rules = [rule_of(e, now) for e in entries]
    assert waiting(quredis("stale", "mail", "--json", conf=conf())) == (rules.count("ingress"), rules.count("message"))


def test_a_time_speaks_for_its_message_alone(redis, quredis, conf):
    c = redis.client()
    now = server_ms(c)
    old = sealed_line(c, w="00000000000000aa", own=now - 150 * 60000)
    c.lpush("ingress:mail", *[old + b"old %d" % i for i in range(5000)], *[b"young %d" % i for i in range(3000)],
            sealed_line(c, w="00000000000000ac", own=now - 5 * HOUR) + b"moved by hand", b"raw")
    said = quredis("stale", "--json", conf=conf())
    assert waiting(said) == (5001, 0)
    [row] = [r for r in json.loads(said.out)["queues"][0]["rules"] if r["rule"] == "max_ingress_age"]
    assert row["limit_ms"] == 2 * HOUR and 5 * HOUR <= row["oldest_ms"] < 6 * HOUR
    assert waiting(quredis("stale", "--json", conf=conf(purge={"max_ingress_age": "7d", "max_message_age": "2h"}))) == (0, 5001)


def test_as_the_leader_knows_the_clock(redis, quredis, quredisd, conf, handler):
    """A time from before the supervisor began to watch the clock of Redis counts from that beginning. So no message is too old yet, and the
    command names the leader that knows this."""
    c = redis.client()
    c.lpush("ingress:mail", b"raw", sealed_line(c, w="00000000000000aa", own=server_ms(c) - 5 * HOUR) + b"stamped")
    said = quredis("stale", "--json", conf=conf())
    assert waiting(said) == (1, 0) and json.loads(said.out)["queues"][0]["leader"] is None
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
    c.zadd(q.delayed, {sealed_line(c, w="00000000000000aa", first_failed=now - 4 * HOUR) + b"x": now + HOUR, sealed_line(c, w="00000000000000ab") + b"x": now + HOUR})
    for i in range(1200):
        c.xadd(f"{q.own}:done", {"id": f"h{i}"}, id=f"{1000 + i}-1")
    c.xadd(f"{q.own}:done", {"id": "young"})
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
    assert "purge.enabled = false: none of it is taken" in said.err and "1 of 1 queue has no supervisor" in said.err
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


def test_a_dead_letter_that_is_too_long_is_not_read(redis, quredis, conf):
    c = redis.client()
    q = fill(c)
    c.rpush(q.escape, b"x" * (100 << 20))
    peak = c.info("memory")["used_memory_peak"]
    said = quredis("stale", "--json", conf=conf())
    assert named(said, "mail") == {**ALL, ("records", "max_orphaned_age"): 0}
    assert "mail: the oldest dead letter is too long to be read" in said.err
    assert c.info("memory")["used_memory_peak"] - peak < 50 << 20 and c.llen(q.escape) == 1


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
    """The command is interrupted in the middle of a long list: Redis is stopped while the signal arrives."""
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
    assert p.returncode == -signal.SIGINT and "the numbers are lower bounds" in err
