"""Messages that are moved by hand, or put to the pop end: each one's time is its own, wherever it comes to lie."""
import os
import random
import signal

import pytest

from harness import queue, wait_for
from harness.messages import sealed, stray_keys, unwrap

LIMITS = {"ttl": {"ttl": "6s"}, "purge": {"purge": {"max_ingress_age": "6s"}}}


def server_ms(c):
    seconds, micros = c.time()
    return seconds * 1000 + micros // 1000


def begins_like_ours(c, at=0):
    return (c.lindex("ingress:mail", at) or b"").startswith(b"quredis/1 w=")


def escaped_at(c):
    """Message -> when its record says it escaped, by the server's clock."""
    return {f[b"message"]: int(stream_id.split(b"-")[0]) for stream_id, f in c.xrange("escape:mail:log")}


def rotate(c):
    """As an operator does it: all of it aside, and back."""
    while c.rpoplpush("ingress:mail", "aside"):
        pass
    while c.lmove("aside", "ingress:mail", "LEFT", "LEFT"):
        pass


def one_aside(c):
    c.rpoplpush("ingress:mail", "aside")
    c.rpoplpush("aside", "ingress:mail")


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("how", ["one-aside-and-back", "the-other-way-round", "an-urgent-one"])
def test_what_was_moved_by_hand_is_as_old_as_it_is(redis, quredisd, handler, how, limit):
    """No time from before the sweeper knows the clock counts: so one message first grows too old."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler("cat"), workers=0, **LIMITS[limit])], purge={"enabled": limit == "purge", "interval": "1s"})
    c.lpush("ingress:mail", b"first")
    wait_for(lambda: c.llen("escape:mail") == 1, 60)
    c.lpush("ingress:mail", b"old")
    pushed = {b"old": server_ms(c)}
    wait_for(lambda: begins_like_ours(c), 20)
    wait_for(lambda: server_ms(c) >= pushed[b"old"] + 4000)
    pushed[b"fresh"] = server_ms(c)
    (c.rpush if how == "an-urgent-one" else c.lpush)("ingress:mail", b"fresh")
    if how == "one-aside-and-back":
        one_aside(c)
    elif how == "the-other-way-round":
        rotate(c)
    wait_for(lambda: c.llen("escape:mail") == 3, 60)
    at = escaped_at(c)
    early = {m: at[m] - pushed[m] for m in pushed if at[m] - pushed[m] < 6000}
    assert not early, early
    assert d.stop() == 0 and not stray_keys(c, "mail")


# ---- who gets a time ----

def untimed(c):
    return [m[:60] for m in c.lrange("ingress:mail", 0, -1) if b" own=" not in m.split(b" mac=")[0] or not m.startswith(b"quredis/1 w=")]


def idle(handler):
    return [queue("mail", handler("cat"), workers=0, ttl="1h")]


def test_a_burst_of_every_kind(redis, quredisd, handler):
    """Also what only looks like a wrapper, in the middle of it; nothing but a line comes before any of them."""
    c, rnd = redis.client(), random.Random(1)
    d = quredisd(queues=idle(handler))
    d.wait_event("lead_taken", queue="mail")
    pushed = []                                     # (as it is, what its wrapper says, what is behind that)
    for i in range(10000):
        kind, body = rnd.random(), b"equal" if i % 3 else b"%d\0\n" % i
        if kind < 0.02:
            body = b"quredis/1 w=0123456789abcdef own=1 mac=" + b"0" * 32 + b"\n" + body
        elif kind < 0.04:
            body = b"quredis/1 w=0123456789abcdef own=%d" % i
        if 0.04 < kind < 0.06:
            pushed.append((sealed(c, b"quredis/1 w=%016x attempts=%d\n" % (i, i % 5 + 1)) + body, {"attempts": i % 5 + 1}, body))
        else:
            pushed.append((body, {}, body))
    pushed.insert(5000, (b"x" * (3 << 20), {}, b"x" * (3 << 20)))
    for i in range(0, len(pushed), 500):
        c.lpush("ingress:mail", *(raw for raw, _, _ in pushed[i:i + 500]))
    wait_for(lambda: not untimed(c), 60, "each of them to have a time", interval=0.5)
    now = server_ms(c)
    for (_, says, body), raw in zip(pushed, reversed(c.lrange("ingress:mail", 0, -1))):
        said, rest = unwrap(raw)
        own = said.pop("own")
        assert rest == body and said == says and now - 60000 < own <= now
    assert c.llen("ingress:mail") == len(pushed) and not d.events("queue_error")
    assert d.stop() == 0


def test_gaps_get_their_time(redis, quredisd, handler):
    """As a killed sweeper leaves them, behind more that have their time than a round looks at; and what came to the pop end."""
    c = redis.client()
    now = server_ms(c)
    raw = [b"raw %d" % i for i in range(300)]
    timed = [sealed(c, b"quredis/1 w=%016x own=%d\n" % (i, now)) + b"timed" for i in range(400)]
    c.lpush("ingress:mail", *timed[:200], *raw, *timed[200:])
    c.rpush("ingress:mail", b"urgent")
    d = quredisd(queues=idle(handler))
    wait_for(lambda: not untimed(c), 30)
    after = [unwrap(m) for m in c.lrange("ingress:mail", 0, -1)]
    assert [rest for _, rest in after] == [b"timed"] * 200 + raw[::-1] + [b"timed"] * 200 + [b"urgent"]
    assert all(said["own"] == now for said, rest in after if rest == b"timed")
    assert d.stop() == 0


@pytest.mark.limit(180)
def test_a_sweeper_killed_in_the_middle(redis, quredisd, handler):
    c = redis.client()
    d = quredisd(queues=idle(handler))
    d.wait_event("lead_taken", queue="mail")
    pushed = []
    for n in range(4):
        some = [b"%d.%d" % (n, i) for i in range(20000)]
        for i in range(0, len(some), 5000):
            c.lpush("ingress:mail", *some[i:i + 5000])
        pushed += some
        pid = d.sweeper()
        wait_for(lambda: begins_like_ours(c), 40, interval=0.001)
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda pid=pid: d.sweeper() not in (None, pid), 40)
    wait_for(lambda: not untimed(c), 120, interval=0.5)
    assert [unwrap(m)[1] for m in reversed(c.lrange("ingress:mail", 0, -1))] == pushed
    d.stop()
