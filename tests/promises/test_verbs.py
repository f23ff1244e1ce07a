"""What a handler replies, and what follows: quredis-handler(7)."""
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


@pytest.fixture(params=["persistent"])
def serve(request, handler, quredisd):
    """Starts quredisd with a handler that replies as each message says."""
    def serve(**keys):
        return quredisd(queues=[queue("mail", handler(ECHO, "python"), mode=request.param, max_attempts=3, backoff=BACKOFF, **keys)])
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
