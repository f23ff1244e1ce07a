"""Large messages: over a slow link, in every mode, and their payload crosses the network once for each run."""
import hashlib
import json
import signal

import pytest

from harness import queue, reach, wait_for
from harness.control import by_class
from harness.messages import anywhere, sealed, stray_keys, unwrap
from harness.slow_link import SlowLink

SIZE = 1 << 20
RATE = 250_000      # bytes a second: a message takes four seconds, twice the lease
EXEC = 'sha1sum >>@LEDGER@; '
STAYS = """
import hashlib, os, sys
jobs = sys.stdin.buffer
while head := jobs.readline().split():
    body = jobs.read(int(head[3]) + 1)[:-1]
    with open("@LEDGER@", "a") as f:
        f.write(hashlib.sha1(body).hexdigest() + "  -\\n")
    serial = int(head[1])
    print(f"FAIL {serial} no" if head[2] == b"1" else f"OK {serial}", flush=True)
"""
QUICK = {"base": "1ms", "cap": "5ms", "jitter": 0.0}


@pytest.fixture
def slow_link(tmp, redis):
    link = SlowLink(tmp, redis, RATE)
    reach.register_proxy(link)
    yield link
    link.close()


@pytest.mark.parametrize("mode", ["exec", "persistent"])
def test_a_message_that_takes_longer_than_a_lease_to_arrive(redis, slow_link, quredisd, handler, ledger, mode):
    """It fails, is retried, and is done: two runs, so it comes twice, and is never sent back."""
    c, payload = redis.client(), b"x" * SIZE
    run = handler(EXEC + '[ "$QUREDIS_ATTEMPT" = 2 ]') if mode == "exec" else handler(STAYS, "python")
    d = quredisd(redis=slow_link, supervisor={"lease": "2s"},
                 queues=[queue("mail", run, mode=mode, max_attempts=2, backoff=QUICK, timeout="60s")])
    d.wait_event("queue_recovered", queue="mail")
    slow_link.down = slow_link.up = 0
    c.lpush("ingress:mail", payload)
    wait_for(lambda: len(ledger.lines()) == 2 and not anywhere(c, "mail"), 100)
    assert ledger.lines() == [f"{hashlib.sha1(payload).hexdigest()}  -"] * 2
    assert not d.events("incarnation_renewed") and not d.events("redis_error", queue="mail")
    assert 2 * SIZE < slow_link.down < 2.5 * SIZE and slow_link.up < SIZE / 4
    assert c.llen("escape:mail") == 0 and stray_keys(c, "mail") == []


def test_one_that_is_handed_back_and_one_that_fails(redis, slow_link, quredisd, handler, ledger):
    """A stop hands it back, flagged; the next start runs it again, and it escapes as it was pushed."""
    c, payload = redis.client(), bytes(range(256)) * (SIZE // 512)      # the scripts, too, go over that link
    d = quredisd(redis=slow_link, supervisor={"lease": "2s"}, queues=[
        queue("mail", handler('sha1sum >>@LEDGER@; echo "$QUREDIS_REDELIVERED" >>@LEDGER@; [ "$QUREDIS_REDELIVERED" = 1 ] || sleep 600; exit 65'),
              timeout="60s")])
    d.wait_event("queue_recovered", queue="mail")
    c.lpush("ingress:mail", payload)
    wait_for(lambda: ledger.count("0"), 60)
    slow_link.up = 0
    assert d.stop(signal.SIGINT) == 0       # at once: the handler is ended
    assert slow_link.up < len(payload) / 4 and c.llen("ingress:mail") == 1
    d.start()
    wait_for(lambda: c.llen("escape:mail") == 1 and not anywhere(c, "mail"), 60)
    assert c.lrange("escape:mail", 0, -1) == [payload]
    digest = f"{hashlib.sha1(payload).hexdigest()}  -"
    assert ledger.lines() == [digest, "0", digest, "1"]
    assert slow_link.up < len(payload) / 2


@pytest.mark.parametrize("keys", [{}, {"mode": "persistent", "window": 8}], ids=["exec", "persistent"])
def test_one_that_is_too_large_escapes_unread(redis, slow_link, quredisd, handler, ledger, keys):
    """Alone, it is fetched by a blocking command; among others, in a batch. The others are handled, each once."""
    c, large = redis.client(), bytes(range(256)) * (SIZE // 256)
    run = handler(STAYS.replace("b'1'", "b'9'").replace('b"1"', 'b"9"'), "python") if keys else handler("sha1sum >>@LEDGER@")
    slow_link.rate = None
    d = quredisd(redis=slow_link, queues=[queue("mail", run, message_max="64K", **keys)])
    d.wait_event("queue_recovered", queue="mail")
    others = [b"%d" % i for i in range(300)]
    c.lpush("ingress:mail", large)
    wait_for(lambda: c.llen("escape:mail") == 1, 30)
    c.lpush("ingress:mail", *others[:150], large, *others[150:])
    wait_for(lambda: len(ledger.lines()) == len(others) and not anywhere(c, "mail"), 60)
    assert c.lrange("escape:mail", 0, -1) == [large, large]
    assert sorted(ledger.lines()) == sorted(f"{hashlib.sha1(m).hexdigest()}  -" for m in others)
    for r in (fields for _, fields in c.xrange("escape:mail:log")):
        assert r[b"error_class"] == b"TooLarge" and int(r[b"size"]) == SIZE and r[b"sha1"].decode() == hashlib.sha1(large).hexdigest()
        assert r[b"error_message"].decode() == f"{SIZE} bytes; message_max is 65536"
    wait_for(lambda: by_class(d, "mail") == {"TooLarge": 2}, 20)
    assert slow_link.down < SIZE, "the payload crossed the network"


@pytest.mark.parametrize("size", [100_000, 17 << 20])
def test_one_that_is_too_large_has_no_record(redis, quredisd, handler, size):
    """It escapes, and the log says that the record could not be written. One of 17 MiB is not even read by Redis."""
    c, large = redis.client(), b"x" * size
    d = quredisd(queues=[queue("mail", handler("exit 1"), message_max="64K")])
    d.wait_event("queue_recovered", queue="mail")
    c.set("escape:mail:log", "no stream")
    c.lpush("ingress:mail", large)
    told = d.wait_event("record_failed", queue="mail")
    assert "mail" in told["worker"] and "the stream of records could not be written" in told["error"]
    assert d.wait_event("message_escaped", queue="mail", error=f"{size} bytes; message_max is 65536")["class"] == "TooLarge"
    assert c.lrange("escape:mail", 0, -1) == [large] and c.get("escape:mail:log") == b"no stream"


def test_many_too_large_ones_in_a_batch(redis, quredisd, handler, ledger):
    """One reopening of the connection is enough for all of them, and it waits for nothing."""
    c, large = redis.client(), b"x" * 100_000
    c.lpush("ingress:mail", *[b"%d" % i for i in range(40)], *[large] * 20, *[b"%d" % i for i in range(40, 90)])
    d = quredisd(queues=[queue("mail", handler('echo "$(cat)" >>@LEDGER@'), message_max="64K", batch={"max": 64, "time": "60s"})])
    wait_for(lambda: len(ledger.lines()) == 90 and not anywhere(c, "mail"), 60)
    assert c.lrange("escape:mail", 0, -1) == [large] * 20
    assert sorted(ledger.lines(), key=int) == [str(i) for i in range(90)]
    assert len(d.events("message_too_large")) <= 2          # the batch that brings them holds 32
    assert not d.events("redis_error", queue="mail")


def test_no_line_of_ours_gets_into_escape_unread(redis, quredisd, handler):
    """A too large message that was wrapped escapes as it was pushed; what only looks like a wrapper is payload."""
    c, large = redis.client(), bytes(range(256)) * 300
    forged = b"quredis/1 w=0123456789abcdef attempts=1 mac=0123456789abcdef0123456789abcdef\n" + large
    quredisd(queues=[queue("mail", handler("exit 1"), message_max="64K")])
    c.lpush("ingress:mail", sealed(c, b"quredis/1 w=0123456789abcdef attempts=1\n" + large), forged)
    wait_for(lambda: c.llen("escape:mail") == 2 and not anywhere(c, "mail"), 30)
    assert c.lrange("escape:mail", 0, -1) == [forged, large]
    assert [(int(f[b"size"]), f[b"sha1"].decode()) for _, f in c.xrange("escape:mail:log")] == \
        [(len(m), hashlib.sha1(m).hexdigest()) for m in (large, forged)]


@pytest.mark.parametrize("above", [1, 1024])
def test_the_limit_is_exact_for_what_is_not_read(redis, slow_link, quredisd, handler, above):
    """Nothing above it crosses the network, though a message with a wrapper may be longer by a line."""
    c, payload = redis.client(), b"x" * (SIZE + above)
    slow_link.rate = None
    quredisd(redis=slow_link, queues=[queue("mail", handler("exit 1"), message_max=str(SIZE))])
    c.lpush("ingress:mail", payload)
    wait_for(lambda: c.llen("escape:mail") == 1 and not anywhere(c, "mail"), 30)
    assert c.lrange("escape:mail", 0, -1) == [payload] and slow_link.down < SIZE / 2


def test_the_limit_is_exact(redis, quredisd, handler, ledger):
    """One byte decides, also of a message that came in one piece, or that has a line of ours before it."""
    c = redis.client()
    quredisd(queues=[queue("mail", handler('wc -c >>@LEDGER@; [ "$QUREDIS_ATTEMPT" = 2 ]'), message_max="1K", max_attempts=2, backoff=QUICK)])
    c.lpush("ingress:mail", b"x" * 1024, b"y" * 1025)
    wait_for(lambda: len(ledger.lines()) == 2 and not anywhere(c, "mail"))
    assert ledger.lines() == ["1024", "1024"] and c.lrange("escape:mail", 0, -1) == [b"y" * 1025]
    assert [f[b"error_class"] for _, f in c.xrange("escape:mail:log")] == [b"TooLarge"]


def test_a_large_retry_is_one_message_to_everybody(redis, quredisd, handler, quredis):
    """While it is delayed its payload is stored apart. It can be shown, run, counted, taken back and purged like any other."""
    c, payload = redis.client(), b"first" + bytes(SIZE) + b"last"
    d = quredisd(queues=[queue("mail", handler('[ "$(head -c 5)" != first ]'), max_attempts=9, backoff={"base": "1h", "cap": "1h"})])

    def delayed():
        c.lpush("ingress:mail", payload)
        wait_for(lambda: c.zcard("quredis:of:ingress:mail:delayed") == 1)
        assert [c.type(k) for k in c.keys("quredis:of:ingress:mail:delayed:apart:*")] == [b"list"] and stray_keys(c, "mail") == []
        assert c.memory_usage("quredis:of:ingress:mail:delayed") < 4096

    def run(*words):
        return quredis("-c", d.conf, *words)

    delayed()
    shown, = json.loads(run("peek", "mail", "delayed", "--json").out)
    assert shown["size"] == len(payload) and shown["attempts"] == 1
    assert run("run", "mail", "--from", "delayed").code == 1
    assert run("retry", "mail", "delayed").code == 0
    wait_for(lambda: c.zcard("quredis:of:ingress:mail:delayed") == 1 and unwrap(c.zrange("quredis:of:ingress:mail:delayed", 0, 0)[0])[0]["attempts"] == 2)
    assert unwrap(anywhere(c, "mail")[0])[1] == payload
    assert run("--yes", "purge", "mail", "delayed").code == 0
    wait_for(lambda: not c.keys("quredis:of:ingress:mail:delayed*"))
    delayed()
    assert run("--yes", "destroy", "mail", "--force").code == 0
    assert not c.keys("quredis:of:ingress:mail:delayed*")


def test_a_large_retry_whose_payload_was_deleted(redis, quredisd, handler, ledger):
    """It does not run empty."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler("wc -c >>@LEDGER@; exit 1"), max_attempts=9, backoff={"base": "3s", "cap": "3s", "jitter": 0.0})])
    c.lpush("ingress:mail", bytes(SIZE))
    wait_for(lambda: c.keys("quredis:of:ingress:mail:delayed:apart:*"))
    assert c.delete(*c.keys("quredis:of:ingress:mail:delayed:apart:*")) == 1
    assert d.wait_event("delayed_payload_lost", queue="mail")["messages"] == "1"
    assert ledger.lines() == [str(SIZE)] and not c.keys("quredis:of:ingress:mail:delayed*") and c.llen("ingress:mail") == 0


def test_many_large_ones_are_due_at_once(redis, quredisd, ledger, handler):
    """They leave in steps that hold up nobody, and one step follows the other: not one each second, when delayed messages are looked for."""
    c, n = redis.client(), 40
    for i in range(n):
        c.zadd("quredis:of:ingress:mail:delayed", {b"%02d" % i + bytes(SIZE): 1})
    d = quredisd(queues=[queue("mail", handler("head -c 2 >>@LEDGER@; echo >>@LEDGER@"))])
    wait_for(lambda: len(ledger.lines()) == n, 20)
    assert sorted(ledger.lines()) == [f"{i:02}" for i in range(n)]
    assert d.stop() == 0


SHORT = "head -c 9 >>@LEDGER@; echo >>@LEDGER@"


def in_trays(c):
    """How many messages; no answer with a payload reaches this client, either."""
    return sum(c.llen(k) for k in c.keys("transit:mail:*:[012]"))


def test_a_message_that_redis_does_not_deliver(redis, quredisd, handler, ledger):
    """
    Redis closes each connection on which it should send a longer answer than client-output-buffer-limit allows. Such a message escapes unread, with its
    bytes and the limit in its error; status says what happens meanwhile. All others run once, also one that is just deliverable.
    """
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler(SHORT), workers=1)])
    d.wait_event("queue_recovered", queue="mail")
    c.config_set("client-output-buffer-limit", "normal 1048576 0 0")
    culprits = [b"B" * 3_000_000, b"quredis/1 id=named\n" + b"C" * 2_000_000]
    c.lpush("ingress:mail", "small0", culprits[0], "D" * 900_000, "small1", culprits[1], "small2")
    wait_for(lambda: "client-output-buffer-limit" in d.quredis("status").out, 60, "the reason in status")
    wait_for(lambda: sorted(ledger.lines()) == sorted(["small0", "small1", "small2", "D" * 9]) and in_trays(c) == 0, 90, "all others")
    c.config_set("client-output-buffer-limit", "normal 0 0 0")
    assert c.lrange("escape:mail", 0, -1) == culprits[::-1]
    records = [r for _, r in c.xrange("escape:mail:log")]
    assert [r[b"error_class"] for r in records] == [b"Undeliverable"] * 2
    assert b"3000000 bytes" in records[0][b"error_message"] and b"is 1048576" in records[0][b"error_message"]
    assert [r[b"id"] for r in records] == [f"sha1:{hashlib.sha1(culprits[0]).hexdigest()}".encode(), b"named"]
    assert not anywhere(c, "mail")
