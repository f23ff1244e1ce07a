"""Dead letters: the message as it was, and a record that says everything."""
import hashlib
import re
import time
from datetime import datetime

import pytest

from harness import queue, wait_for
from harness.control import by_class
from harness.messages import record

FIELDS = ("id queue queue_from error_class error_message failed_at retry_count attempts crashes exit_code signal stderr "
          "duration_ms node worker handler first_failed_at request_id sha1 size message").split()
QUICK = {"base": "1ms", "cap": "2ms", "jitter": 0.0}


def seconds(rfc3339):
    assert re.fullmatch(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", rfc3339), rfc3339
    return datetime.fromisoformat(rfc3339.decode().replace("Z", "+00:00")).timestamp()


def escaped(redis, n=1):
    c = redis.client()
    wait_for(lambda: c.llen("escape:mail") == n, 40, f"{n} in escape")
    return record(c, "mail")


def test_stderr_and_exit_3(redis, quredisd, handler, tag):
    message = b"to: a\0b\n\n%n body"
    fail = handler("cat >/dev/null; echo looking up >&2; echo spam; echo no such user: joe >&2; exit 3")
    before = time.time()
    d = quredisd(queues=[queue("mail", fail)])
    redis.client().lpush("ingress:mail", message)
    r = escaped(redis)
    after = time.time()

    assert redis.cli("LRANGE", "escape:mail", 0, -1) == message + b"\n"      # exactly the message
    assert redis.client().lrange("escape:mail", 0, -1) == [message]
    assert set(r) == {*FIELDS, "stream_id"}
    sha1 = hashlib.sha1(message).hexdigest().encode()
    same = {"id": b"sha1:" + sha1, "queue": b"mail", "queue_from": b"transit", "error_class": b"HandlerExit",
            "retry_count": b"0", "attempts": b"1", "crashes": b"0", "exit_code": b"3", "signal": b"",
            "stderr": b"looking up\nno such user: joe\n", "node": tag.encode(), "handler": fail.encode(),
            "request_id": b"", "sha1": sha1, "size": b"%d" % len(message), "message": message}
    assert {k: r[k] for k in same} == same
    assert b"exit status 3" in r["error_message"] and b"no such user: joe" in r["error_message"]
    assert re.fullmatch(tag.encode() + rb"\.[0-9a-f]{16}\.\d+\.\d+", r["worker"])
    assert before - 0.01 <= seconds(r["failed_at"]) <= after + 0.01 and r["first_failed_at"] == r["failed_at"]
    assert abs(int(r["stream_id"].split("-")[0]) / 1000 - seconds(r["failed_at"])) < 10    # the id is the failure time
    assert 0 <= int(r["duration_ms"]) <= (after - before) * 1000 + 1
    line = d.wait_event("message_escaped", queue="mail")
    assert (line["class"], line["exit"], line["attempt"], line["id"]) == ("HandlerExit", "3", "1", "sha1:" + sha1.decode())
    assert line["worker"] == "mail/0" and "no such user: joe" in line["error"]


def test_header_fields_are_in_the_record(redis, quredisd, handler):
    quredisd(queues=[queue("mail", handler("exit 1"))])
    message = b"quredis/1 id=order-17 request_id=req:9+z\nbody"
    redis.client().lpush("ingress:mail", message)
    r = escaped(redis)
    assert (r["id"], r["request_id"], r["message"]) == (b"order-17", b"req:9+z", message)
    assert r["sha1"] == hashlib.sha1(message).hexdigest().encode() and int(r["size"]) == len(message)


@pytest.mark.parametrize("body, keys, class_, code, signal, words", [
    ("cat >/dev/null; kill -SEGV $$", {}, b"HandlerSignal", b"", b"SIGSEGV", b"SIGSEGV"),
    ("exit 65", {"max_attempts": 5}, b"Rejected", b"65", b"", b"65"),
    ("exit 126", {}, b"HandlerExit", b"126", b"", b"126"),
    ("exit 127", {}, b"HandlerExit", b"127", b"", b"127"),
    ("exec sleep 600", {"timeout": "100ms"}, b"HandlerTimeout", b"", b"SIGTERM", b"timed out"),
    ("trap '' TERM; while :; do sleep 0.05; done", {"timeout": "1s", "kill_grace": "100ms"}, b"HandlerTimeout", b"",
     b"SIGKILL", b"timed out"),
    ("trap 'exit 9' TERM; while :; do sleep 0.05; done", {"timeout": "1s"}, b"HandlerTimeout", b"9", b"", b"timed out"),
    ("exit 0", {"input": "argv"}, b"Unrepresentable", b"", b"", b"NUL"),
])
def test_classes(redis, quredisd, handler, body, keys, class_, code, signal, words):
    d = quredisd(queues=[queue("mail", handler(body), **keys)])
    redis.client().lpush("ingress:mail", b"a\0b")
    r = escaped(redis)
    assert (r["error_class"], r["exit_code"], r["signal"]) == (class_, code, signal)
    line = d.wait_event("message_escaped", queue="mail")
    assert (line.get("exit", ""), line.get("signal", "")) == ("" if signal else code.decode(), signal.decode())
    assert words in r["error_message"]
    assert redis.client().lrange("escape:mail", 0, -1) == [b"a\0b"]
    wait_for(lambda: by_class(d, "mail") == {class_.decode(): 1}, 20)


def test_the_last_8_kib_of_stderr_are_kept(redis, quredisd, handler):
    loud = handler("import os, sys\nos.write(2, b''.join(b'%06d\\n' % i for i in range(100000)))\nsys.exit(1)", "python")
    quredisd(queues=[queue("mail", loud)])
    redis.client().lpush("ingress:mail", "x")
    whole = b"".join(b"%06d\n" % i for i in range(100000))
    assert escaped(redis)["stderr"] == whole[-8192:]


def test_a_large_message_is_found_by_its_sha1(redis, quredisd, handler):
    quredisd(queues=[queue("mail", handler("exit 1"))])
    at_limit, above = b"l" * 65536, b"m" * 65537
    redis.client().lpush("ingress:mail", at_limit)
    assert escaped(redis)["message"] == at_limit
    redis.client().lpush("ingress:mail", above)
    r = escaped(redis, 2)
    assert (r["message"], r["size"], r["sha1"]) == (b"", b"65537", hashlib.sha1(above).hexdigest().encode())
    assert redis.client().lindex("escape:mail", 0) == above


def test_attempts_are_counted_over_retries(redis, quredisd, handler):
    quredisd(queues=[queue("mail", handler("exit 4"), max_attempts=3, backoff={**QUICK, "base": "30ms", "cap": "30ms"})])
    redis.client().lpush("ingress:mail", "x")
    r = escaped(redis)
    assert (r["attempts"], r["retry_count"], r["message"]) == (b"3", b"2", b"x")
    assert 0.055 < seconds(r["failed_at"]) - seconds(r["first_failed_at"]) < 30


def test_records_can_be_off(redis, quredisd, handler):
    quredisd(queues=[queue("mail", handler("exit 1"))], dead_letter={"enabled": False})
    redis.client().lpush("ingress:mail", "x")
    wait_for(lambda: redis.client().lrange("escape:mail", 0, -1) == [b"x"])
    assert redis.client().exists("escape:mail:log") == 0


def test_equal_messages_have_a_record_each(redis, quredisd, handler):
    quredisd(queues=[queue("mail", handler("exit 1"), workers=3)])
    redis.client().lpush("ingress:mail", *["twin"] * 12)
    escaped(redis, 12)
    assert redis.client().xlen("escape:mail:log") == 12
