"""Messages are bytes: what a producer pushed is what its handler reads, and what escapes."""
import collections
import hashlib
import random

from harness import queue, wait_for
from harness.control import by_class
from harness.messages import in_transit, stray_keys

MIB = 1 << 20

# noclobber: a name that was used before would make the handler fail, and the message escape
KEEP = 'set -C; cat >@TMP@/out/$$'

RAW_LIKE_HEADERS = [
    b"quredis/1", b"quredis/1 ", b"quredis/1\n", b"quredis/1 \nx", b"quredis/1 id\nx", b"quredis/1 id=\nx",
    b"quredis/1 id=a id=b\nx", b"quredis/1 id=a  ttl=5s\nx", b"quredis/1 Id=a\nx", b"quredis/1 id=a b\nx",
    b"quredis/1 id=\0\nx", b"quredis/1 id=a\rx\n", b"quredis/1 id=a no newline", b"quredis/1 ttl=fast\nx",
    b"quredis/1 timeout=-1\nx", b"quredis/1 max_attempts=0\nx", b"quredis/1 w=12 attempts=1\nx",
    b"quredis/1 w=0123456789ABCDEF\nx", b"quredis/1 w=0123456789abcdef attempts=-1\nx", b"quredis/x id=a\nx",
    b"quredis/ 1\nx", b"Quredis/1 id=a\nx", b" quredis/1 id=a\nx", b"quredis/2", b"quredis/2\nx",
    b"quredis/1 w=0123456789abcdef\nx", b"quredis/1 w=0123456789abcdef own=1\nx", b"quredis/1 w=0123456789abcdef attempts=7\nquredis/1 id=a\nx",
    b"quredis/1 id=" + b"a" * 129 + b"\nx", b"quredis/1 id=" + b"a" * 1100 + b"\nx",
]
WITH_HEADER = {b"quredis/1 id=a\n" + p: p for p in (
    b"body", b"quredis/1 id=b\nbody", b"\0\n%n", b"\n", b"quredis/2 x=1\nbody", b"", b"quredis/1 w=0123456789abcdef\nbody")}
UNKNOWN = [b"quredis/2 x=1\n", b"quredis/2 x=1\nbody", b"quredis/10 \nbody", b"quredis/3 !?\n\0"]


def random_bytes(rng, size):
    kind = rng.randrange(4)
    if kind == 0:
        return rng.randbytes(size)
    if kind == 1:
        return bytes(size)
    unit = [b"%n%s%x%p", b"a\nb\r\n", b'"\\\x1b[31m\xff\xfe', b"\r\n$5\r\n*3\r\n"][rng.randrange(4)]
    return (unit * (size // len(unit) + 1))[:size]


def messages(n):
    rng = random.Random(20261120)
    out = RAW_LIKE_HEADERS + list(WITH_HEADER) + [b"\0", b"\n", b"%", b" ", b"%n", b"%n%n%n\n", b"0", b"nil"]
    out += [b"x" * MIB, bytes(MIB), rng.randbytes(MIB), rng.randbytes(MIB - 1), rng.randbytes(65536), rng.randbytes(65537)]
    out += [b"the same"] * 20 + [out[-1]] * 3
    out += [b"quredis/1 id=a\nthe same"] * 3
    while len(out) < n:
        out.append(random_bytes(rng, int(2 ** rng.uniform(0, 17))))
    rng.shuffle(out)
    return out[:n]


def test_300_messages_arrive_byte_for_byte_once_each(redis, quredisd, handler, tmp):
    out = tmp / "out"
    out.mkdir()
    pushed = messages(300)
    assert len(pushed) == 300 and {1, MIB} <= {len(m) for m in pushed} and max(map(len, pushed)) == MIB
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler(KEEP), workers=4)])
    for message in pushed:
        c.lpush("ingress:mail", message)
    wait_for(lambda: c.llen("ingress:mail") == 0 and not in_transit(c, "mail"), 60, "nothing in ingress and transit")

    assert c.lrange("escape:mail", 0, -1) == []
    arrived = collections.Counter(p.read_bytes() for p in out.iterdir())
    expected = collections.Counter(WITH_HEADER.get(m, m[len(b"quredis/1 id=a\n"):] if m.startswith(b"quredis/1 id=a\nthe")
                                                   else m) for m in pushed)
    assert arrived == expected
    assert stray_keys(c, "mail") == []
    assert d.stop() == 0
    left = {k.decode() for k in c.keys() if not k.startswith((b"quredis:of:ingress:mail:rate:", b"quredis:of:ingress:mail:backlog:"))}
    assert left <= {"quredis:queues", "quredis:queue:mail", "quredis:secret", "quredis:schema", "quredis:of:ingress:mail:stats"}, left


def test_unknown_versions_escape_untouched(redis, quredisd, handler, ledger):
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler("echo ran >>@LEDGER@"), workers=2, max_attempts=5)])
    c.lpush("ingress:mail", *UNKNOWN)
    wait_for(lambda: c.llen("escape:mail") == len(UNKNOWN))
    assert sorted(c.lrange("escape:mail", 0, -1)) == sorted(UNKNOWN)
    records = [fields for _, fields in c.xrange("escape:mail:log")]
    assert [r[b"error_class"] for r in records] == [b"UnknownVersion"] * len(UNKNOWN)
    assert sorted(r[b"message"] for r in records) == sorted(UNKNOWN)
    assert all(r[b"exit_code"] == b"" and r[b"attempts"] == b"0" and r[b"error_message"] for r in records)
    assert ledger.lines() == []
    wait_for(lambda: by_class(d, "mail") == {"UnknownVersion": len(UNKNOWN)}, 20)


def test_failed_ones_lie_in_escape_byte_for_byte(redis, quredisd, handler):
    """Also those that came back once, and so had a wrapper."""
    pushed = messages(60)
    c = redis.client()
    quredisd(queues=[queue("mail", handler("exit 1"), workers=4, max_attempts=2,
                           backoff={"base": "1ms", "cap": "2ms", "jitter": 0.0})])
    for message in pushed:
        c.lpush("ingress:mail", message)
    wait_for(lambda: c.llen("escape:mail") == len(pushed), 60)
    assert collections.Counter(c.lrange("escape:mail", 0, -1)) == collections.Counter(pushed)
    assert {f[b"attempts"] for _, f in c.xrange("escape:mail:log")} == {b"2"}


def test_a_megabyte_reaches_a_slow_reader(redis, quredisd, handler, tmp):
    """More than a pipe holds, read in drops: feeding it never blocks the worker, which answers a stop meanwhile."""
    slow = handler("import os, sys, time, hashlib\nh = hashlib.sha1()\n"
                   "while (b := os.read(0, 40000)):\n    h.update(b)\n    time.sleep(0.01)\n"
                   "open('@TMP@/sha1', 'w').write(h.hexdigest())", "python")
    payload = random.Random(1).randbytes(MIB)
    c = redis.client()
    c.lpush("ingress:mail", payload)
    quredisd(queues=[queue("mail", slow)])
    wait_for((tmp / "sha1").exists, 30)
    wait_for(lambda: (tmp / "sha1").read_text() == hashlib.sha1(payload).hexdigest())
