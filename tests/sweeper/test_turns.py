"""The sweeper within the daemon: retries, pauses, leases, evicting servers, and what it costs."""
import json
import time

from harness import queue, wait_for
from harness.messages import sealed, unwrap


def test_a_retry_comes_when_it_is_due(redis, quredisd, handler, ledger):
    fails_once = handler('read -r m; echo "$m $QUREDIS_ATTEMPT" >>@LEDGER@; [ "$QUREDIS_ATTEMPT" = 2 ]')
    d = quredisd(queues=[queue("mail", fails_once, max_attempts=2, backoff={"base": "300ms", "cap": "300ms", "jitter": 0.0})])
    redis.client().lpush("ingress:mail", "m")
    wait_for(lambda: ledger.lines() == ["m 1", "m 2"])
    wait_for(lambda: redis.client().keys("transit:mail:*:[0-2]") == [])
    assert redis.client().zcard("quredis:of:ingress:mail:delayed") == 0 and redis.client().llen("escape:mail") == 0
    assert d.stop() == 0


def test_what_is_delayed_moves_when_it_is_due(redis, quredisd, handler):
    """One by one, and not with the next look of each second. The lag is measured by Redis; half of it may be that of a slow machine."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler("cat"), workers=0)])
    now = c.time()[0]
    c.zadd("delayed:mail", {f"push {i}": now + 6 + i / 10 for i in range(20)})
    c.zadd("quredis:of:ingress:mail:delayed", {f"retry {i}": (now + 6) * 1000 + i * 100 for i in range(20)})
    wait_for(lambda: c.llen("ingress:mail") == 40, 40)
    wait_for(lambda: json.loads(d.quredis("stats", "mail", "--json").out)["counters"]["due"] == 40, 20)
    lag = json.loads(d.quredis("stats", "mail", "--json").out)["lag"]
    assert lag["below_ms"]["p50"] <= 256, lag
    assert d.stop() == 0


def test_a_paused_queue_rests_and_its_retries_gather(redis, quredisd, handler, ledger):
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler("cat >>@LEDGER@; echo >>@LEDGER@"))])
    c.set("quredis:of:ingress:mail:paused", "1")
    d.wait_event("queue_paused", queue="mail")
    c.lpush("ingress:mail", "now")
    c.zadd("quredis:of:ingress:mail:delayed", {sealed(c, b"quredis/1 w=0000000000000001\nlater"): 1})
    wait_for(lambda: c.zcard("quredis:of:ingress:mail:delayed") == 0)
    # one fetch may have been under way when the gate shut; nothing comes after it
    waiting = {unwrap(m)[1] for m in c.lrange("ingress:mail", 0, -1)}
    assert b"later" in waiting
    c.delete("quredis:of:ingress:mail:paused")
    wait_for(lambda: set(ledger.lines()) == {"now", "later"})
    assert d.events("queue_resumed", queue="mail")
    assert d.stop() == 0


def test_messages_of_a_host_that_vanished(redis, quredisd, handler, ledger):
    """No lease, no lock of ours: dead after two looks a lease apart, and not before."""
    c = redis.client()
    lost, living = "far.0123456789abcdef.3.1", "near.0123456789abcdef.3.1"
    for owner in (lost, living):
        c.hset("transit:mail:workers", owner, json.dumps({"lock": "elsewhere:1:1", "node": "x", "pid": 1, "since": 1}))
        c.lpush(f"transit:mail:{owner}:1", owner)
    c.set(f"transit:mail:lease:{living}", "1")
    since = time.monotonic()
    d = quredisd(queues=[queue("mail", handler('cat >>@LEDGER@; echo " $QUREDIS_REDELIVERED" >>@LEDGER@'))],
                 supervisor={"lease": "4s"})
    wait_for(lambda: ledger.lines() == [f"{lost} 1"], 40)
    assert time.monotonic() - since >= 4
    assert d.events("owner_lost", incarnation=lost)
    assert c.lrange(f"transit:mail:{living}:1", 0, -1) == [living.encode()]
    assert b"died_at" in c.hget("transit:mail:workers", lost)
    assert d.stop() == 0


def test_a_short_lead_is_kept(redis, quredisd, handler):
    """It is renewed before it runs out; a machine that stands still may lose it now and then."""
    since = time.monotonic()
    d = quredisd(queues=[queue("mail", handler("cat"), ttl="1h")], supervisor={"lease": "1s"})
    wait_for(lambda: time.monotonic() - since > 8)
    assert 1 <= len(d.events("lead_taken")) <= 3
    assert d.stop() == 0


def test_an_evicting_server_is_refused_by_name(redis, quredisd, handler, ledger):
    c = redis.client()
    redis.config_set("maxmemory-policy", "allkeys-lru")
    c.lpush("ingress:mail", "m")
    d = quredisd(queues=[queue("mail", handler("cat >>@LEDGER@; echo >>@LEDGER@"))], wait=False)
    told = d.wait_event("redis_evicts")
    assert told["policy"] == "allkeys-lru" and "noeviction" in told["advice"] and "allow_eviction" in told["advice"]
    redis.config_set("maxmemory-policy", "noeviction")
    wait_for(lambda: ledger.lines() == ["m"])
    assert len(d.events("redis_evicts")) == 1
    assert d.stop() == 0


def test_a_server_without_the_old_fetch_commands(redis_server, quredisd, handler, ledger):
    """BRPOPLPUSH and RPOPLPUSH are deprecated: that they are gone is no missing right."""
    redis = redis_server(config={"rename-command BRPOPLPUSH": "", "rename-command RPOPLPUSH": ""})
    d = quredisd(redis=redis, queues=[queue("mail", handler("cat >>@LEDGER@; echo >>@LEDGER@"))])
    redis.client().lpush("ingress:mail", "m")
    wait_for(lambda: ledger.lines() == ["m"])
    assert not d.events("queue_error")
    assert not redis.client().keys("*scratch*")
    assert d.stop() == 0


def test_after_a_failover_a_worker_tries_the_old_fetch_commands_again(redis_server, redis_proxy, quredisd, handler, ledger):
    """It learnt that one server has only the new ones; the next one, of an older release, has only the old ones."""
    new = redis_server(config={"rename-command BRPOPLPUSH": "", "rename-command RPOPLPUSH": ""})
    old = redis_server(config={"rename-command BLMOVE": "", "rename-command LMOVE": ""})
    proxy = redis_proxy(new)
    d = quredisd(redis=proxy, queues=[queue("mail", handler("cat >>@LEDGER@; echo >>@LEDGER@"))])
    new.client().lpush("ingress:mail", "m")
    wait_for(lambda: ledger.lines() == ["m"])
    proxy.forward_to(old)
    old.client().lpush("ingress:mail", "n")
    wait_for(lambda: ledger.lines() == ["m", "n"], 30)
    assert not d.events("queue_error") and not d.events("redis_error", at="fetch")
    assert d.stop() == 0
