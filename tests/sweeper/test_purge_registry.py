"""Entries of the registry with nothing behind them leave by purge; those that anybody uses, serves or just made never do."""
import json

import pytest

from harness import queue, wait_for
from harness.queues import Queue, incarnation, written

PROOF_S = 30            # who serves such a queue has shown it by then


def names(c):
    return {n.decode() for n in c.zrange("quredis:queues", 0, -1)}


def fill(c):
    """(queues with nothing behind them, queues of which there is something)"""
    for name in ("old", "older"):
        Queue(c, name)
    c.hset("quredis:of:ingress:old:stats", "done", 7)
    Queue(c, "own", ingress="in", transit="tr", escape="es")
    c.zadd("quredis:queues", {"bare": 1})                       # a name alone
    used = {name: Queue(c, name) for name in ("waits", "delays", "fails", "works", "records", "paused", "done", "named", "bared")}
    c.lpush("ingress:waits", b"m")
    c.zadd("quredis:of:ingress:delays:delayed", {b"m": 9e12})
    used["fails"].dead_letters(b"m", record=False)
    used["records"].record(b"m")
    used["works"].worker(incarnation(1))
    c.set("quredis:of:ingress:paused:paused", "me")
    c.xadd("quredis:of:ingress:done:done", {"id": "1"})
    c.set("quredis:queue:named", "{")                           # whose lists nobody can tell
    c.lpush("transit:bared", b"m")
    return {"old", "older", "own", "bare"}, set(used)


@pytest.fixture
def hosts(redis, quredisd, handler):
    """A supervisor elsewhere that serves `idle` without workers, and one here that purges."""
    def start(**purge):
        quredisd(queues=[queue("idle", handler("cat"), workers=0)], supervisor={"node": "far"})
        return quredisd(queues=[queue("mail", handler("cat"), workers=0), queue("other", handler("cat"), workers=0, transit="tr2")],
                        purge={"enabled": True, "interval": "1h", "max_orphaned_age": "1s", **purge})
    return start


def test_a_dry_run_names_them_and_writes_nothing(redis, hosts):
    c = redis.client()
    vacant, used = fill(c)
    d = hosts(dry_run=True)
    wait_for(lambda: {"mail", "idle"} <= names(c))
    for name in ("mail", "other"):
        d.wait_event("lead_taken", queue=name)
    before = {k: v for k, v in written(c).items() if k != b"quredis:queues"}
    wait_for(lambda: len(d.events("registration_would_be_removed")) == len(vacant), PROOF_S + 30)
    assert {e["queue"] for e in d.events("registration_would_be_removed")} == vacant
    assert all(int(e["age_ms"]) >= PROOF_S * 1000 for e in d.events("registration_would_be_removed"))
    assert {k: v for k, v in written(c).items() if k != b"quredis:queues"} == before
    assert names(c) == vacant | used | {"mail", "other", "idle"}
    assert all(c.zscore("quredis:queues", name) == 1 for name in vacant)
    assert d.stop() == 0


def test_they_leave_and_no_other(redis, hosts):
    """Nor one that is registered again while it grows old, with the same lists."""
    c = redis.client()
    vacant, used = fill(c)
    Queue(c, "again")
    d = hosts()
    wait_for(lambda: {"mail", "idle"} <= names(c))
    shown = c.zscore("quredis:queues", "idle")
    wait_for(lambda: c.zscore("quredis:queues", "idle") > shown, 30)
    c.zadd("quredis:queues", {"again": c.time()[0]})
    wait_for(lambda: not vacant & names(c), PROOF_S + 30)
    assert names(c) == used | {"mail", "other", "idle", "again"}
    assert {e["queue"] for e in d.events("registration_removed")} == vacant
    assert not any(c.exists(f"quredis:queue:{name}") for name in vacant) and not c.exists("quredis:of:ingress:old:stats")
    assert all(c.exists(f"quredis:queue:{name}") for name in used | {"mail", "other", "idle", "again"})
    assert d.stop() == 0


def test_the_registry_comes_back_when_redis_has_forgotten(redis, quredisd, handler):
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler("cat")), queue("news", handler("cat"), workers=0)])
    for name in ("mail", "news"):
        d.wait_event("queue_recovered", queue=name)
    c.flushall()
    wait_for(lambda: names(c) == {"mail", "news"} and c.exists("quredis:queue:mail", "quredis:queue:news") == 2, 25)
    assert json.loads(c.get("quredis:queue:mail"))["ingress"] == "ingress:mail"
    assert d.stop() == 0
