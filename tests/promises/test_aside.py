"""A message that Redis refuses to move is set aside. It does not hold up other messages, is shown with its reason, and returns when the cause is
corrected."""
import json
import signal

import pytest

from harness import queue, wait_for
from harness.control import status
from harness.messages import anywhere, stray_keys, unwrap

QUICK = {"base": "1ms", "cap": "5ms", "jitter": 0.0}
RUN = """
read -r m
echo "ran $m $QUREDIS_ATTEMPT $QUREDIS_REDELIVERED" >>@LEDGER@
case $m in fails*) exit 65;; again*) [ "$QUREDIS_REDELIVERED" = 1 ] || exit 75;; esac
"""
WHERE = {"escape": ("escape:mail", "fails"), "retry": ("quredis:of:ingress:mail:delayed", "again")}


def aside(c):
    return [unwrap(m)[1].decode() for m in c.lrange("transit:mail:aside", 0, -1)]


@pytest.mark.limit(200)
@pytest.mark.parametrize("move", WHERE)
def test_a_message_that_cannot_be_moved(redis, quredisd, handler, ledger, move):
    """One worker. Of the messages after it, those that Redis refuses as well are set aside at once, and the others are done."""
    c, (key, name) = redis.client(), WHERE[move]
    d = quredisd(queues=[queue("mail", handler(RUN), backoff=QUICK)], health={"enabled": True, "interval": "1s"})
    d.wait_event("queue_recovered", queue="mail")
    c.set(key, "of another type")
    c.lpush("ingress:mail", name + "1", "good1")
    wait_for(lambda: ledger.count("ran good1 1 0"), 60, "what came behind it")
    wait_for(lambda: aside(c) == [name + "1"], 20)
    told = d.events("message_set_aside", queue="mail")[0]
    assert told["size"] == "6" and told["at"] == move and "WRONGTYPE" in told["error"]
    c.lpush("ingress:mail", name + "2", "good2")
    wait_for(lambda: ledger.count("ran good2 1 0") and len(aside(c)) == 2, 60)
    ran = ledger.lines()
    assert len(ran) == 4, "a handler ran again"

    shown = wait_for(lambda: status(d, "mail")["aside"], 60, "status to show it")
    assert (shown["size"], "wrong type" in shown["reason"]) == (6, True) and shown["messages"] in (1, 2)
    wait_for(lambda: ("wrong type" if move in ("escape", "retry") else "set aside") in (status(d, "mail")["reason"] or ""), 20)
    reasons = wait_for(lambda: {r["code"]: r for r in json.loads(c.hget("quredis:health", "mail") or "{}").get("reasons", [])}.get("aside"),
                       60, "its health to show it")
    assert "WRONGTYPE" in reasons["text"] and "6 bytes" in reasons["text"]
    wait_for(lambda: stray_keys(c, "mail") == [])

    # nothing is lost by a restart; when the cause is gone they come back, and are told
    c.delete(key)
    assert d.stop() == 0 and len(aside(c)) == 2
    d.start()
    wait_for(lambda: not anywhere(c, "mail"), 60, "all to be settled")
    attempt = 2 if move == "retry" else 1       # the failed one counts where another was to follow
    assert sorted(ledger.lines()[4:]) == [f"ran {name}1 {attempt} 1", f"ran {name}2 {attempt} 1"]
    assert sorted(c.lrange("escape:mail", 0, -1)) == ([b"fails1", b"fails2"] if move == "escape" else [])
    wait_for(lambda: status(d, "mail")["aside"] is None, 60)
    assert status(d, "mail")["reason"] is None and not c.keys("transit:mail:aside*")


@pytest.mark.limit(200)
def test_what_is_too_large_and_cannot_escape(redis, quredisd, quredis, handler, ledger):
    c, large = redis.client(), b"x" * 100_000
    d = quredisd(queues=[queue("mail", handler(RUN), message_max="64K")], supervisor={"lease": "2s"})
    d.wait_event("queue_recovered", queue="mail")
    c.set("escape:mail", "no list")
    c.lpush("ingress:mail", large, "good")
    wait_for(lambda: ledger.count("ran good 1 0"), 100, "what came behind it")
    wait_for(lambda: c.lrange("transit:mail:aside", 0, -1) == [large], 100, "it is set aside")
    c.delete("escape:mail")
    assert quredis("retry", "mail", "transit").code == 0
    wait_for(lambda: c.lrange("escape:mail", 0, -1) == [large] and not anywhere(c, "mail"), 60)


@pytest.mark.limit(120)
def test_a_stop_where_nothing_can_be_moved(redis, quredisd, handler):
    """Redis refuses to add the message to escape, aside and ingress: the worker retries with a back-off, and the message stays where the next
    start finds it."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler(RUN))])
    d.wait_event("queue_recovered", queue="mail")
    for key in ("escape:mail", "transit:mail:aside"):
        c.set(key, "no list")
    c.lpush("ingress:mail", "fails")
    d.wait_event("message_set_aside", timeout=60)
    c.set("ingress:mail", "no list")
    d.stop(signal.SIGQUIT)
    assert len(d.events("message_set_aside")) < 50 and b"fails" in [unwrap(m)[1] for k in c.keys("transit:mail:*") if c.type(k) == b"list" for m in c.lrange(k, 0, -1)]


def test_a_redis_that_takes_no_writes_is_no_message_s_fault(redis, quredisd, handler, ledger):
    """The worker holds the move until Redis accepts writes again, however long that takes."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler(RUN.replace("echo", "sleep 1; echo")))])
    d.wait_event("queue_recovered", queue="mail")
    c.lpush("ingress:mail", "fails")
    wait_for(lambda: c.llen("ingress:mail") == 0)
    c.config_set("min-replicas-to-write", 1)
    wait_for(lambda: ledger.count("ran fails 1 0") and d.events("redis_error", queue="mail", at="settle"), 30)
    c.config_set("min-replicas-to-write", 0)
    wait_for(lambda: c.lrange("escape:mail", 0, -1) == [b"fails"], 60)
    assert not d.events("message_set_aside") and not c.exists("transit:mail:aside") and len(ledger.lines()) == 1


def test_records_of_another_type(redis, quredisd, quredis, handler, ledger):
    """The records only hold reasons: the messages are counted and return. The key, which may belong to another program, stays and is reported."""
    c = redis.client()
    c.set("transit:mail:aside:log", "another program's")
    c.lpush("transit:mail:aside", "a", "b")
    d = quredisd(queues=[queue("mail", handler(RUN)), queue("other", handler(RUN))])
    told = d.wait_event("queue_error", queue="mail", at="aside")
    assert told["error"].startswith("transit:mail:aside:log: WRONGTYPE")
    wait_for(lambda: status(d, "mail")["reason"] .startswith("one of its keys has the wrong type"), 30)
    assert status(d, "other")["reason"] is None
    wait_for(lambda: sorted(ledger.lines()) == ["ran a 1 1", "ran b 1 1"], 30)
    c.set("escape:mail", "no list")             # the next one cannot be moved, and its record cannot be written
    c.lpush("ingress:mail", "fails")
    wait_for(lambda: aside(c) == ["fails"], 60)
    wait_for(lambda: (status(d, "mail")["aside"] or {}).get("messages") == 1, 30)
    c.lpush("ingress:mail", "good")
    c.lpush("ingress:other", "good")
    wait_for(lambda: ledger.count("ran good 1 0") == 2, 30)
    c.delete("escape:mail")
    assert quredis("retry", "mail", "transit").code == 0
    wait_for(lambda: c.lrange("escape:mail", 0, -1) == [b"fails"], 30)
    assert c.get("transit:mail:aside:log") == b"another program's"
    c.delete("transit:mail:aside:log")
    d.wait_event("queue_error_cleared", 30, queue="mail")
    wait_for(lambda: status(d, "mail")["reason"] is None)
    assert d.stop() == 0


@pytest.mark.limit(200)
def test_a_failed_attempt_counts_although_its_retry_was_refused(redis, quredisd, quredis, handler, ledger):
    """The right to write delayed is revoked, and granted again later."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler('read -r m; echo "$m $QUREDIS_ATTEMPT $QUREDIS_REDELIVERED" >>@LEDGER@; exit 1'),
                               max_attempts=3, backoff=QUICK)])
    d.wait_event("queue_recovered", queue="mail")
    c.execute_command("ACL", "SETUSER", "default", "-zadd")
    c.lpush("ingress:mail", "m")
    wait_for(lambda: aside(c) == ["m"], 60)
    assert d.wait_event("message_set_aside", queue="mail")["at"] == "retry"
    c.execute_command("ACL", "SETUSER", "default", "+zadd")
    assert quredis("retry", "mail", "transit").code == 0
    wait_for(lambda: c.lrange("escape:mail", 0, -1) == [b"m"] and not anywhere(c, "mail"), 60)
    assert ledger.lines() == ["m 1 0", "m 2 1", "m 3 1"]
    assert d.stop() == 0
