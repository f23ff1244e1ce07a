"""What producers delayed (ZADD delayed:QUEUE) is a part of delayed for each command of an operator."""
import hashlib
import json

import pytest

from harness.queues import Queue

SEALED = b"quredis/1 w=00000000000000aa apart=1\n"       # looks as if its payload were stored apart


def delays(c, n=3):
    """The queue with n messages of quredis push and four of producers."""
    q = Queue(c)
    now = c.time()[0]
    q.pushed = "delayed:mail"
    c.zadd(q.delayed, {f"own {i}": (now + 500 + i) * 1000 for i in range(n)})
    c.zadd(q.pushed, {b"a\x00\xff": now + 1000.5, b"quredis/1 id=x\nbody": now + 2000, SEALED: now + 3000, b"never": float("inf")})
    return q


def rows(r):
    assert r.code == 0, r
    return json.loads(r.out)


def test_ls_and_peek_show_it(quredis, redis):
    c = redis.client()
    q = delays(c)
    assert rows(quredis("ls", "--json"))[0]["delayed_size"] == 7
    shown = rows(quredis("peek", "mail", "delayed", "--json"))
    assert [row["id"] for row in shown if row["id"] == "x"] == ["x"] and len(shown) == 7
    assert [row["message"] for row in shown if "message" in row][:3] == ["own 0", "own 1", "own 2"]
    dues = [row["due"] for row in shown]
    assert dues[:6] == sorted(dues[:6]) and dues[3][:4] == dues[0][:4]       # seconds, not ms
    assert "7 shown of 7 messages" in quredis("peek", "mail", "delayed").err
    assert "3 shown of 7 messages" in quredis("peek", "mail", "delayed", "-n", "3").err
    assert c.zcard(q.pushed) == 4


def test_one_is_retried_or_deleted(quredis, redis):
    c = redis.client()
    q = delays(c)
    assert quredis("retry", "mail", "delayed", "x").code == 0 and c.lrange(q.ingress, 0, -1) == [b"quredis/1 id=x\nbody"]
    sha1 = "sha1:" + hashlib.sha1(b"a\x00\xff").hexdigest()
    assert quredis("rm", "mail", "delayed", "-y", sha1).code == 0 and c.zrange(q.pushed, 0, -1) == [SEALED, b"never"]
    assert quredis("rm", "mail", "delayed", "-y", "x").code == 66 and c.zcard(q.delayed) == 3


@pytest.mark.parametrize("command", ["retry", "rm"])
def test_a_line_of_a_stranger_takes_no_payload(quredis, redis, command):
    """A producer's line names the payload of a retry: it is bytes, and the payload stays."""
    c = redis.client()
    q = delays(c)
    payload = f"{q.delayed}:apart:00000000000000aa"
    c.rpush(payload, "big payload", "0", "11", "big", "load")
    c.hset(f"{q.delayed}:apart", "00000000000000aa", "11")
    sha1 = "sha1:" + hashlib.sha1(SEALED).hexdigest()
    r = quredis(command, "mail", "delayed", "-y", sha1) if command == "rm" else quredis(command, "mail", "delayed", sha1)
    assert r.code == 0 and c.llen(payload) == 5 and c.zscore(q.pushed, SEALED) is None, r
    assert c.lrange(q.ingress, 0, -1) == ([SEALED] if command == "retry" else [])


def test_all_are_moved_or_purged(quredis, redis):
    c = redis.client()
    q = delays(c)
    assert quredis("retry", "mail", "delayed", "-y", "--dry-run").out == "would move back to ingress: 7 messages of delayed\n"
    c.lpush(q.ingress, *(f"w{i}" for i in range(300)))       # an ingress that is full for the sweeper
    assert quredis("retry", "mail", "delayed", "-y").out == "moved back to ingress: 7 messages of delayed\n"
    assert c.exists(q.delayed, q.pushed) == 0
    assert c.lrange(q.ingress, 0, 3)[::-1] == [b"a\x00\xff", b"quredis/1 id=x\nbody", SEALED, b"never"]
    q = delays(c)
    assert quredis("purge", "mail", "delayed", "-y").out == "purged 7 messages of delayed\n"
    assert c.exists(q.delayed, q.pushed) == 0 and c.llen(q.ingress) == 307


def test_another_type_hides_no_retry(quredis, redis):
    c = redis.client()
    q = delays(c)
    c.delete(q.pushed)
    c.lpush(q.pushed, "x")
    assert rows(quredis("ls", "--json"))[0]["delayed_size"] == len(rows(quredis("peek", "mail", "delayed", "--json"))) == 3
    assert quredis("purge", "mail", "delayed", "-y").out == "purged 3 messages of delayed\n" and c.type(q.pushed) == b"list"
