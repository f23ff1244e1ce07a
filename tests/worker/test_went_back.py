"""Redis returns to an earlier state: quredis does not act on what it remembers of the later one."""
import json

import pytest

from harness import queue, wait_for
from harness.queues import Queue, sha1


def idle(handler, name="mail", **keys):
    return queue(name, handler("cat >/dev/null"), workers=0, **keys)


@pytest.fixture
def archive(tmp):
    path = tmp / "archive"
    path.mkdir()
    return path


def lines(archive):
    return [json.loads(line) for p in archive.iterdir() for line in p.read_bytes().splitlines()]


@pytest.mark.parametrize("then", ["old", "new"])
def test_an_id_that_was_given_again(redis, quredisd, handler, archive, then):
    """The archive has a letter of that id; in Redis it is another one by now, even an equal message."""
    c = redis.client()
    q = Queue(c, register=False)
    ids = q.dead_letters(b"new", b"last")
    line = {"record": ids[0], "message": then, "sha1": sha1(then.encode()), "batch": ids[0], "digest": sha1(b"what it said of itself")}
    (archive / "mail@node-a.ndjson").write_text(json.dumps(line) + "\n")
    d = quredisd(queues=[idle(handler, dead_letter={"max_entries": 1, "archive": archive})], supervisor={"node": "node-a"})
    wait_for(lambda: c.llen(q.escape) == c.xlen(q.log) == 1, 60)
    found = lines(archive)
    assert [(a["record"], a["message"]) for a in found] == [(ids[0], then), (ids[0], "new")]
    assert found[0]["digest"] != found[1]["digest"] and d.stop() == 0


def test_redis_goes_back_behind_what_was_archived(redis_server, quredisd, handler, archive):
    """The sweeper is killed when a batch is written; Redis goes back, and gives its ids to other letters."""
    redis = redis_server(config={"save": "", "dbfilename": "dump.rdb"})
    c = redis.client()
    q = Queue(c, register=False)
    c.save()
    ids = q.dead_letters(*[b"undone %d" % i for i in range(5)])
    d = quredisd(redis=redis, queues=[idle(handler, dead_letter={"max_entries": 1, "archive": archive})], supervisor={"node": "node-a"})
    wait_for(lambda: len(lines(archive)) == 4 and c.llen(q.escape) == 1, 60)
    last = lines(archive)[-1]
    redis.kill9()
    redis.start()
    assert not c.exists(q.escape, q.log)
    for i, record in enumerate(ids):
        message = b"again %d" % i
        c.xadd(q.log, {"sha1": sha1(message), "size": len(message), "error_class": "HandlerExit"}, id=record)
        c.lpush(q.escape, message)
    assert last["record"] in ids
    d.restart()
    wait_for(lambda: c.llen(q.escape) == c.xlen(q.log) == 1, 60)
    assert sorted(a["message"] for a in lines(archive)) == sorted([f"undone {i}" for i in range(4)] + [f"again {i}" for i in range(4)])
    assert c.lrange(q.escape, 0, -1) == [b"again 4"] and d.stop() == 0


def test_bounds_leave_what_a_new_log_has_not_forwarded(redis, quredisd, handler):
    """`forwarded` is ahead of the log, which was made anew: none of it is forwarded, whatever the ids say."""
    c = redis.client()
    q = Queue(c, register=False)
    c.set("escape:mail:forwarded", "99999999999999-0")
    q.dead_letters(*[b"%d" % i for i in range(5)])
    c.set("ingress:after", "no list")
    d = quredisd(queues=[idle(handler, dead_letter={"max_entries": 1, "discard": True, "forward_to": "after"}), idle(handler, "after")], wait=False)
    d.wait_event("queue_error", queue="mail", at="forward")
    before = c.info("commandstats")["cmdstat_evalsha"]["calls"]
    wait_for(lambda: c.info("commandstats")["cmdstat_evalsha"]["calls"] > before + 20, 60)      # looks at the bounds among them
    assert c.llen(q.escape) == 5
    c.delete("ingress:after")
    wait_for(lambda: c.llen(q.escape) == 1 and c.llen("ingress:after") == 5, 60)
    assert d.stop() == 0


def test_the_bare_list_is_back(redis_server, quredisd, handler, ledger):
    """It was returned at the start of the supervisor; Redis returns to a time before that."""
    redis = redis_server()
    c = redis.client()
    c.lpush("transit:mail", "a", "b")
    c.save()
    d = quredisd(redis=redis, queues=[queue("mail", handler('read -r m; echo "$m $QUREDIS_REDELIVERED" >>@LEDGER@'))])
    wait_for(lambda: sorted(ledger.lines()) == ["a 1", "b 1"])
    redis.kill9()
    redis.start()
    wait_for(lambda: sorted(ledger.lines()) == ["a 1", "a 1", "b 1", "b 1"], 60)
    assert d.wait_event("redis_changed") and not c.exists("transit:mail") and d.stop() == 0


def test_a_verdict_of_another_server(redis_server, redis_proxy, quredisd, handler):
    """The owner is dead by its lease on one server, and not rescued yet; on the next server it lives."""
    lost = "far.0123456789abcdef.3.1"
    servers = [redis_server(), redis_server()]
    clients = [s.client() for s in servers]
    for c in clients:
        c.hset("transit:mail:workers", lost, json.dumps({"lock": "elsewhere:1:1", "node": "far", "pid": 1, "since": 1}))
        c.lpush(f"transit:mail:{lost}:1", "m")
    clients[1].set(f"transit:mail:lease:{lost}", "1")
    proxy = redis_proxy(servers[0])
    d = quredisd(redis={"url": proxy.url}, queues=[idle(handler)], supervisor={"lease": "1s"})
    d.wait_event("queue_recovered", queue="mail")
    clients[0].set("ingress:mail", "no list")
    d.wait_event("queue_error", queue="mail", at="rescue")
    assert d.events("owner_lost", incarnation=lost)
    proxy.forward_to(servers[1])
    d.wait_event("rescue_called_off", 60, queue="mail", incarnation=lost)
    assert clients[1].lrange(f"transit:mail:{lost}:1", 0, -1) == [b"m"] and not clients[1].exists("ingress:mail")
    assert clients[1].exists(f"transit:mail:lease:{lost}")
    clients[0].delete("ingress:mail")
    proxy.forward_to(servers[0])
    wait_for(lambda: clients[0].llen("ingress:mail") == 1, 60)
    assert d.stop() == 0


def test_the_lead_is_asked_for_on_each_server(redis_server, redis_proxy, quredisd, handler):
    """The sweeper has the lead on one server, another host on the next: there the sweeper leaves the work to that host."""
    servers = [redis_server(), redis_server()]
    q = Queue(servers[1].client(), register=False)
    q.dead_letters(*[b"%d" % i for i in range(20)])
    servers[1].client().set("quredis:of:ingress:mail:sweeper", "other.0123456789abcdef")
    proxy = redis_proxy(servers[0])
    d = quredisd(redis={"url": proxy.url}, queues=[idle(handler, dead_letter={"max_entries": 1, "discard": True})], supervisor={"lease": "10m"})
    d.wait_event("lead_taken", queue="mail")
    proxy.forward_to(servers[1])
    d.wait_event("lead_lost", 60, queue="mail")
    assert servers[1].client().llen(q.escape) == 20
    servers[1].client().delete("quredis:of:ingress:mail:sweeper")
    proxy.cut()                                     # then it is asked for again at once
    wait_for(lambda: servers[1].client().llen(q.escape) == 1, 60)
    assert d.stop() == 0
