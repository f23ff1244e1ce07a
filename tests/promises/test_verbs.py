"""What a handler replies, and what follows: quredis-handler(7)."""
import json
import re

import pytest

from harness import queue, wait_for
from harness.control import by_class, status
from harness.messages import record

# A persistent handler that answers each message with the message, after its verb.
ECHO = """import sys
while head := sys.stdin.buffer.readline().split():
    serial, size = head[1], int(head[3])
    message = sys.stdin.buffer.read(size + 1)[:-1]
    open("@LEDGER@", "a").write(f"start {message.decode()}\\n")
    verb, _, rest = message.decode().partition(" ")
    print(verb, serial.decode(), rest, flush=True)
"""
BACKOFF = {"base": "10ms", "cap": "10ms", "jitter": 0.0}


def classes_of(d):
    return json.loads(d.quredis("--json", "stats", "mail").out)["classes"]


@pytest.fixture(params=["persistent"])
def serve(request, handler, quredisd):
    """Starts quredisd with a handler that replies as each message says."""
    def serve(metrics={}, **keys):
        return quredisd(queues=[queue("mail", handler(ECHO, "python"), mode=request.param, **{"max_attempts": 3, "backoff": BACKOFF, **keys})],
                        metrics=metrics)
    return serve


def test_a_rejected_message_is_not_retried(redis, serve, ledger):
    c = redis.client()
    d = serve()
    c.lpush("ingress:mail", b"REJECT no mail: \xc3\xa9")
    wait_for(lambda: c.llen("escape:mail") == 1)
    r = record(c, "mail")
    assert (r["error_class"], r["error_message"], r["attempts"]) == (b"Rejected", b"REJECT: no mail: \xc3\xa9", b"1")
    assert ledger.count("start REJECT no mail: é") == 1
    assert by_class(d, "mail") == {"Rejected": 1} and status(d, "mail")["counters"]["retried"] == 0


def test_a_failure_without_attempts_left(redis, serve, ledger):
    c = redis.client()
    d = serve()
    c.lpush("ingress:mail", b"FAIL no such user")
    wait_for(lambda: c.llen("escape:mail") == 1)
    r = record(c, "mail")
    assert (r["error_class"], r["error_message"], r["attempts"]) == (b"HandlerFail", b"FAIL: no such user", b"3")
    assert ledger.count("start FAIL no such user") == 3
    assert by_class(d, "mail") == {"HandlerFail": 1}


def test_a_class_that_the_handler_names(redis, serve, tmp):
    """It is in the record, in filters, counters, metrics and statistics."""
    c, page = redis.client(), tmp / "textfile/quredis.prom"
    page.parent.mkdir()
    d = serve(max_attempts=1, metrics={"textfile": str(page), "interval": "1s"})
    c.lpush("ingress:mail", "FAIL class=SMTPServerDisconnected away", "REJECT class=bad.json at byte 7", "FAIL class=SMTPServerDisconnected again",
            "FAIL class=a/b no class")
    wait_for(lambda: c.llen("escape:mail") == 4)
    named = {"SMTPServerDisconnected": 2, "bad.json": 1}
    assert by_class(d, "mail") == {**named, "HandlerFail": 1}
    wait_for(lambda: classes_of(d) == named, 30)
    listed = json.loads(d.quredis("--json", "dlq", "ls", "mail", "-C", "SMTPServerDisconnected").out)
    assert [r["error_message"] for r in listed] == ["FAIL: again", "FAIL: away"]
    causes = json.loads(d.quredis("--json", "dlq", "stats", "mail").out)
    assert {g["key"]: g["count"] for g in causes if g["by"] == "class"} == {**named, "HandlerFail": 1}
    wait_for(lambda: page.exists() and dict(re.findall(r'quredis_escaped_by_class_total\{queue="mail",class="([^"]+)"\} (\d+)', page.read_text())) ==
             {k: str(n) for k, n in named.items()}, 30, "the metric")
    assert {r[b"error_message"] for _, r in c.xrange("escape:mail:log") if r[b"error_class"] == b"HandlerFail"} == {b"FAIL: class=a/b no class"}


def test_too_many_classes_are_counted_as_one(redis, serve):
    """A handler puts a number into its class: the records have it, the counters stay few, also in Redis and after a restart."""
    c = redis.client()
    d = serve(max_attempts=1)
    for start in (0, 100):
        c.lpush("ingress:mail", *[f"FAIL class=user{i} x" for i in range(start, start + 40)])
        wait_for(lambda n=(start // 100 + 1) * 40: c.llen("escape:mail") == n, 40)
        assert status(d, "mail")["classes"]["other"] == 8 and len(status(d, "mail")["classes"]) == 33
        assert d.stop() == 0        # a sweeper writes the last figures
        d.start()
    assert classes_of(d)["other"] == 48 and len(classes_of(d)) == 33
    assert sum(classes_of(d).values()) == 80
