"""What waits for longer than it may escapes: never early, and soon after."""
import pytest

from harness import queue, wait_for
from harness.control import status
from harness.messages import anywhere, record, stray_keys, unwrap

LATE_MS = 10000     # two sweeps are 2000; the machine may be loaded


def server_ms(c):
    seconds, micros = c.time()
    return seconds * 1000 + micros // 1000


def expired_at(c, name="mail"):
    """Message -> when its record says it escaped, by the server's clock."""
    found = {}
    for stream_id, fields in c.xrange(f"escape:{name}:log"):
        assert fields[b"error_class"] == b"TTLExpired", fields
        found[fields[b"message"]] = int(stream_id.split(b"-")[0])
    return found


def test_a_thousand_without_workers(redis, quredisd, handler):
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler("cat"), workers=0, ttl="2s")])
    pushed, answered = {}, {}
    for i in range(1000):
        m = b"raw %d\0\xff" % i if i % 3 else b"quredis/1 w=zz\nm%d" % i
        before = server_ms(c)
        c.lpush("ingress:mail", m)
        pushed[m], answered[m] = before, server_ms(c)
    wait_for(lambda: c.llen("escape:mail") == 1000, 60)
    at = expired_at(c)
    assert set(at) == set(pushed) == set(c.lrange("escape:mail", 0, -1))
    early = {m: at[m] - pushed[m] for m in at if at[m] - pushed[m] < 2000}
    assert not early, early
    assert max(at[m] - answered[m] for m in at) < 2000 + LATE_MS
    assert c.llen("ingress:mail") == 0 and not stray_keys(c, "mail")
    r = record(c, "mail")
    assert r["queue"] == b"mail" and r["queue_from"] == b"ingress" and r["attempts"] == b"0" and r["exit_code"] == b""
    assert r["error_message"].startswith(b"Worker queue TTL expired: waited ") and r["error_message"].endswith(b", limit 2s")
    wait_for(lambda: status(d, "mail")["counters"]["expired"] == 1000)
    assert status(d, "mail")["counters"]["escaped"] == 1000
    assert d.stop() == 0


def header(**keys):
    return ("quredis/1 " + " ".join(f"{k}={v}" for k, v in keys.items()) + "\n").encode()


def wrapped(nonce=1, **keys):
    return header(w=f"{nonce:016x}", **keys)


STAYS = """import sys
with open("@LEDGER@", "ab", 0) as out:
    while head := sys.stdin.buffer.readline():
        _, serial, _, size = head.split()[:4]
        out.write(sys.stdin.buffer.read(int(size) + 1))
        print("OK", int(serial), flush=True)
"""
MODES = {"exec": {}, "persistent": {"mode": "persistent", "window": 8}}


@pytest.mark.parametrize("mode", MODES)
def test_what_is_fetched_too_late_is_not_handled(redis, quredisd, handler, ledger, mode):
    """By times of the message itself; also on a queue without a ttl, which the sweeper does not look at."""
    run = handler(STAYS, "python") if mode == "persistent" else handler("cat >>@LEDGER@; echo >>@LEDGER@")
    c = redis.client()
    now = server_ms(c)
    old, soon = now - 60000, now + 3600000
    late = [header(ttl="30s", enqueued=old) + b"a", header(ttl="0s", enqueued=old) + b"b",
            wrapped(2, own=old) + header(ttl="59s", enqueued=old - 1) + b"c",
            # its own time counts from when the clock was first looked at
            wrapped(3, own=old) + header(ttl="1ms") + b"d", wrapped(4, mark=old) + header(ttl="1ms") + b"e",
            wrapped(5, own=old, mark=soon) + header(id="x", ttl="1ms") + b"f"]
    good = [b"g", header(ttl="2h", enqueued=now) + b"h", header(enqueued=old) + b"i", wrapped(6, own=now) + b"j",
            header(ttl="1ms", enqueued=soon) + b"k", header(ttl="1ms") + b"l", wrapped(7, own=old) + b"o",
            wrapped(8, own=now) + header(ttl="10m", enqueued=1) + b"m", b"quredis/1 ttl=1s enqueued=1 ttl=1s\nn"]
    d = quredisd(queues=[queue("free", run, **MODES[mode])])
    for _ in range(3):                             # so that they come in batches, too
        c.lpush("ingress:free", *late[:3], *good, *late[3:])
    wait_for(lambda: not anywhere(c, "free"), 60)
    assert sorted(c.lrange("escape:free", 0, -1)) == sorted(3 * [unwrap(m)[1] for m in late])
    handled = "".join(sorted(line[-1] for line in ledger.lines() if not line.startswith("quredis/1")))
    assert handled == "".join(sorted(3 * "ghijklmno"))
    r = record(c, "free")
    assert r["error_class"] == b"TTLExpired" and r["queue_from"] == b"ingress" and r["attempts"] == b"0"
    assert b"limit " in r["error_message"]
    counted = status(d, "free")["counters"]
    assert counted["expired"] == counted["escaped"] == 18 and counted["done"] == 27
    assert d.stop() == 0
