"""quredis dlq export and stats: what the operator takes away, and what he sees of it."""
import base64
import json
import os

import pytest

from harness.queues import FIELDS, Queue, dumps, sha1


def lines(result):
    assert result.code == 0, result.err
    return [json.loads(line) for line in result.out.split("\n")[:-1]]


def message_of(line):
    return base64.b64decode(line["message_base64"]) if "message_base64" in line else line["message"].encode()


def test_export_is_all_of_it_oldest_first(quredis, redis):
    c = redis.client()
    q = Queue(c)
    messages = [b"plain", "ü\n\0\u2028".encode(), b"\xff\0", b"", os.urandom(200000), b"plain"] + [b"%d" % i for i in range(100)]
    ids = [q.dead_letters(m, exit_code="" if i == 2 else "3", signal="SIGSEGV" if i == 2 else "", stderr=b"tail \xfe")[0] for i, m in enumerate(messages)]
    before = dumps(c)
    got = lines(quredis("dlq", "export", "mail"))
    assert [g["record"] for g in got] == ids and [message_of(g) for g in got] == messages and dumps(c) == before
    assert all(set(FIELDS) - {"message", "stderr"} <= set(g) for g in got)
    assert got[0]["exit_code"] == 3 and got[0]["signal"] is None and got[0]["size"] == 5 and got[0]["sha1"] == sha1(b"plain")
    assert got[2]["exit_code"] is None and got[2]["signal"] == "SIGSEGV" and base64.b64decode(got[2]["stderr_base64"]) == b"tail \xfe"
    assert not {"archived_at", "batch", "reason", "orphan"} & set(got[0])
    assert [g["record"] for g in lines(quredis("dlq", "export", "mail", "-n", "3"))] == ids[:3]
    assert quredis("dlq", "export", "mail", "-n", "0").out == ""


def test_export_of_some_and_of_what_is_gone(quredis, redis):
    c = redis.client()
    q = Queue(c)
    q.dead_letters(b"a", error_class="HandlerTimeout")
    q.dead_letters(b"b" * 100, payload_max=10)
    c.lpop(q.escape)
    c.xadd(q.log, {"id": "odd", "record": "mine", b"\xff": "x", "size": "many"})
    assert [g["id"] for g in lines(quredis("dlq", "export", "mail", "--class", "HandlerTimeout"))] == [f"sha1:{sha1(b'a')}"]
    r = quredis("dlq", "export", "mail")
    got = lines(r)
    assert got[1]["message"] is None and got[2]["size"] == "many" and got[2]["record"] != "mine"
    assert "2 messages were too large for their record, and are no longer in escape:mail" in r.err
    c.delete(q.log)
    c.set(q.log, "x")
    assert quredis("dlq", "export", "mail").code == 78


def test_stats(quredis, redis):
    c = redis.client()
    q = Queue(c)
    for i in range(30):
        q.dead_letters(b"%d" % i, error_message=f"exit status 3: user {i * 17} not found in 0x{i + 10 ** 9:x}", error_class="HandlerExit")
    q.dead_letters(b"s", b"t", error_message="signal SIGSEGV", error_class="HandlerSignal", exit_code="", signal="SIGSEGV")
    c.xadd(q.log, {"error_class": "TTLExpired", "error_message": "waited 3s, limit 2s\nmore"}, id="9000000000000-1")
    before = dumps(c)
    got = json.loads(quredis("dlq", "stats", "mail", "--json").out)
    assert [(g["key"], g["count"]) for g in got if g["by"] == "class"] == [("HandlerExit", 30), ("HandlerSignal", 2), ("TTLExpired", 1)]
    assert [(g["key"], g["count"]) for g in got if g["by"] == "cause"] == [
        ("HandlerExit exit 3: exit status #: user # not found in #x#", 30), ("HandlerSignal SIGSEGV: signal SIGSEGV", 2), ("TTLExpired: waited #s, limit #s", 1)]
    hours = [g for g in got if g["by"] == "hour"]
    assert hours[0]["key"] == "2255-03-14T16:00Z" and hours[0]["newest"] == "2255-03-14T16:00:00.000Z"
    assert sum(h["count"] for h in hours) == 33 and all(h["oldest"][:13] == h["newest"][:13] == h["key"][:13] for h in hours)
    r = quredis("dlq", "stats", "mail", "-n", "1")
    assert r.code == 0 and len(r.out.splitlines()) == 4 and "2 more by class" in r.err and dumps(c) == before
    assert quredis("dlq", "stats", "nowhere").code == 66


def test_stats_of_none(quredis, redis):
    Queue(redis.client())
    assert json.loads(quredis("dlq", "stats", "mail", "--json").out) == []


@pytest.mark.parametrize("n", [250])
def test_stats_of_many_pages(quredis, redis, n):
    c = redis.client()
    Queue(c).dead_letters(*[b"%d" % i for i in range(n)])
    got = json.loads(quredis("dlq", "stats", "mail", "--json").out)
    assert [g["count"] for g in got if g["by"] == "class"] == [n]
