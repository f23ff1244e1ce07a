"""Messages of dead workers: large ones, small ones, and what changes while they are returned."""
import hashlib
import json
import pathlib

import pytest

from harness import queue, title_of, wait_for
from harness.control import by_class, status
from harness.messages import anywhere, sealed, stray_keys
from harness.redis_proxy import CUT, SCRIPTS, Once, Tap

DEAD = "far.0123456789abcdef.3.1"
MIB = 1 << 20
RUN = "sha1sum >>@LEDGER@"


def register(c, name):
    c.hset(f"transit:{name}:workers", DEAD, json.dumps({"lock": "elsewhere:1:1", "node": "far", "pid": 1, "since": 1}))
    return f"transit:{name}:{DEAD}:0"


def sweeper_of(d):
    return next(pid for pid in d.children() if "sweeper" in title_of(pid))


def peak_kib(pid):
    """The most memory that the process ever had."""
    return next(int(line.split()[1]) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM:"))


def digest(m):
    return f"{hashlib.sha1(m).hexdigest()}  -"


def large(i, size=64 * MIB):
    return (b"%d" % i) * size


@pytest.mark.parametrize("where", ["tray", "bare"])
def test_large_messages_do_not_pass_through_the_sweeper(redis, quredisd, handler, ledger, where):
    """They escape unread and unchanged, and another queue's messages come back meanwhile."""
    c, small = redis.client(), b"between \0 them"
    held = register(c, "mail") if where == "tray" else "transit:mail"
    c.rpush(register(c, "news"), *(b"news %d" % i for i in range(50)))
    c.rpush(held, small)
    for i in range(3):
        c.rpush(held, large(i), b"%s %d" % (small, i))
    d = quredisd(queues=[queue("mail", handler(RUN)), queue("news", handler(RUN, name="news"))], supervisor={"lease": "2s"})
    wait_for(lambda: c.llen("escape:mail") == 3 and not anywhere(c, "news"), 100)
    wait_for(lambda: not anywhere(c, "mail"), 60)
    assert peak_kib(sweeper_of(d)) < 64 * 1024
    assert sorted(c.lindex("escape:mail", i) == large(2 - i) for i in range(3)) == [True] * 3
    assert sorted(ledger.lines()) == sorted(map(digest, [b"news %d" % i for i in range(50)] + [small] + [b"%s %d" % (small, i) for i in range(3)]))
    assert [r[b"error_class"] for _, r in c.xrange("escape:mail:log")] == [b"TooLarge"] * 3
    assert [int(r[b"size"]) for _, r in c.xrange("escape:mail:log")] == [64 * MIB] * 3
    wait_for(lambda: by_class(d, "mail") == {"TooLarge": 3}, 20)
    assert stray_keys(c, "mail", "news") == [] and status(d, "mail")["reason"] is None


def test_a_list_seems_larger_than_it_is(redis, quredisd, handler, ledger):
    """Large nodes: what memory tells of the first entry is wrong. None is longer than message_max, so all come back."""
    c, held = redis.client(), [b"%05d" % i * 4000 for i in range(100)]
    c.config_set("list-max-listpack-size", -5)
    c.rpush("transit:mail", *held)
    d = quredisd(queues=[queue("mail", handler(RUN), message_max="64K")])
    wait_for(lambda: len(ledger.lines()) == len(held) and not anywhere(c, "mail"), 60)
    assert sorted(ledger.lines()) == sorted(map(digest, held)) and status(d, "mail")["reason"] is None


@pytest.mark.parametrize("line", [b"", b"quredis/1 w=0123456789abcdef own=1700000000000\n"], ids=["plain", "wrapped"])
def test_one_that_is_alone_escapes_as_it_was_pushed(redis, quredisd, handler, line):
    """A line of ours before it does not go along."""
    c, payload = redis.client(), large(1, 40 * MIB)
    c.rpush(register(c, "mail"), sealed(c, line + payload) if line else payload)
    d = quredisd(queues=[queue("mail", handler(RUN))], supervisor={"lease": "2s"})
    wait_for(lambda: c.llen("escape:mail") == 1 and c.xlen("escape:mail:log") == 1, 60)
    assert c.lindex("escape:mail", 0) == payload and peak_kib(sweeper_of(d)) < 32 * 1024
    (_, record), = c.xrange("escape:mail:log")
    assert record[b"error_class"] == b"TooLarge" and record[b"sha1"] == b"" and int(record[b"size"]) == len(payload)


MIXED = [b"", b"", b"same", b"same", b"\0\xff\n" * 100, b"quredis/1 id=named ttl=1h\nof a name", b"x" * 4096, b"y" * 4097, b"quredis/1 id=big\n" + b"z" * 100000,
         bytes(range(256)) * 400, b"same" * 5000, b"same" * 5000, b"quredis/1 w=0123456789abcdef mark=1\n" + b"f" * 9000, b"l" * (MIB + 1), b"m" * (8 * MIB),
         b"quredis/1 ttl=1h\n" + b"h" * 60000]


def payload_of(m):
    return m[m.index(b"\n") + 1:] if m.startswith((b"quredis/1 id=", b"quredis/1 ttl=")) else m


@pytest.mark.parametrize("where", ["tray", "bare", "shared"])
def test_all_come_back_byte_for_byte(redis, quredisd, handler, ledger, where):
    c = redis.client()
    held = "transit:mail" if where == "bare" else register(c, "mail")
    c.rpush(held, *MIXED)
    run = handler('sha1sum >>@LEDGER@; echo "$QUREDIS_REDELIVERED" >>@LEDGER@')
    d = quredisd(queues=[queue("mail", run, batch={"max": 1}, shared=where == "shared", max_attempts=1)], supervisor={"lease": "2s"})
    wait_for(lambda: len(ledger.lines()) == 2 * len(MIXED) and not anywhere(c, "mail"), 100)
    # in a shared queue equal ones have one note, which the first that is done forgets
    assert ledger.count("1") >= len(set(MIXED) if where == "shared" else MIXED) and c.llen("escape:mail") == 0
    assert sorted(line for line in ledger.lines() if line not in ("0", "1")) == sorted(digest(payload_of(m)) for m in MIXED)
    told = [e["id"] for e in d.events("message_rescued")]
    assert sorted(told) == sorted("named" if b"id=named" in m else "big" if b"id=big" in m else f"sha1:{hashlib.sha1(payload_of(m)).hexdigest()}" for m in MIXED)


def test_one_that_killed_its_worker_too_often(redis, quredisd, handler):
    """It escapes without its wrapper, and its record has it whole, as far as payload_max allows. Redis writes both."""
    c = redis.client()
    sizes = [100, 30000, 100000]
    d = quredisd(queues=[queue(f"q{n}", handler("kill -9 $PPID", name=f"h{n}"), workers=1) for n in sizes], supervisor={"lease": "2s"})
    for n in sizes:
        c.lpush(f"ingress:q{n}", b"p" * n)
    for n in sizes:
        wait_for(lambda n=n: c.llen(f"escape:q{n}") == 1, 60)
        assert c.lrange(f"escape:q{n}", 0, -1) == [b"p" * n]
        (_, record), = c.xrange(f"escape:q{n}:log")
        assert record[b"error_class"] == b"WorkerLost" and int(record[b"size"]) == n
        assert record[b"sha1"].decode() == hashlib.sha1(b"p" * n).hexdigest() and record[b"id"] == b"sha1:" + record[b"sha1"]
        assert record[b"message"] == (b"p" * n if n <= 65536 else b"")
        assert d.events("message_escaped", queue=f"q{n}", id=record[b"id"].decode())


@pytest.mark.parametrize("size", [100, 50000])
@pytest.mark.parametrize("how", ["moved", "replaced", "emptied", "back"])
def test_the_list_changes_between_look_and_move(redis, redis_proxy, quredisd, handler, ledger, how, size):
    """Another sweeper was faster; another message is in that place; a rollback: what is there then comes back, and each once."""
    c = redis.client()
    messages = [b"%d" % i + b"m" * size for i in range(6)]
    key = register(c, "mail")
    rescue = key[:-1] + "rescue"
    c.rpush(key, *messages)

    def change():
        if how == "moved":              # the whole of it, as another sweeper does it
            c.rpush("ingress:mail", c.lpop(rescue))
        elif how == "replaced":         # the same length and the same last bytes
            c.lset(rescue, 0, b"x" + messages[0][1:])
        elif how == "emptied":
            while c.llen(rescue):
                c.rpush("ingress:mail", c.lpop(rescue))
        else:                           # as before: nothing was moved
            c.lpush(rescue, b"again" + b"m" * size)
        return None

    expected = list(messages)
    if how == "replaced":
        expected[0] = b"x" + messages[0][1:]
    elif how == "back":
        expected.append(b"again" + b"m" * size)
    proxy = redis_proxy(redis, Once("return", rescue, change))
    d = quredisd(redis={"url": proxy.url}, queues=[queue("mail", handler(RUN))], supervisor={"lease": "2s"})
    wait_for(lambda: len(ledger.lines()) >= len(expected) and not anywhere(c, "mail"), 60)
    assert d.stop() == 0
    assert sorted(ledger.lines()) == sorted(map(digest, expected)) and c.llen("escape:mail") == 0


def test_one_that_fits_is_where_a_large_one_was(redis, redis_proxy, quredisd, handler, ledger):
    """It does not escape in its place."""
    c = redis.client()
    key = register(c, "mail")
    rescue = key[:-1] + "rescue"
    c.rpush(key, large(1, 12 * MIB), b"after")
    proxy = redis_proxy(redis, Once("too_large_first", rescue, lambda: c.lpush(rescue, b"before") and None))
    quredisd(redis={"url": proxy.url}, queues=[queue("mail", handler(RUN))], supervisor={"lease": "2s"})
    wait_for(lambda: len(ledger.lines()) == 2 and c.llen("escape:mail") == 1, 60)
    assert sorted(ledger.lines()) == sorted([digest(b"after"), digest(b"before")]) and c.lindex("escape:mail", 0) == large(1, 12 * MIB)


class Scripts(Tap):
    """Notes which scripts were called with this key."""

    def __init__(self, key):
        self.key, self.called = key.encode(), []

    def request(self, pair, words):
        if words[0] == b"EVALSHA" and self.key in words:
            self.called.append(SCRIPTS.get(words[1]))


@pytest.mark.parametrize("what, read", [("plain", 0), ("beside another", 1), ("wrapped", 2)])
def test_a_very_large_one_becomes_the_escape_list(redis, redis_proxy, quredisd, handler, what, read):
    """No script reads it, which takes Redis four times as long as a look at how it begins, unless it has company or begins with a line of ours."""
    c = redis.client()
    key, payload = register(c, "mail"), large(1, 20 * MIB)
    c.lpush("escape:mail", b"older")
    c.rpush(key, sealed(c, b"quredis/1 w=0123456789abcdef crashes=1\n" + payload) if what == "wrapped" else payload)
    if what == "beside another":
        c.rpush(key, b"small")
    proxy = redis_proxy(redis, tap := Scripts(key[:-1] + "rescue"))
    d = quredisd(redis={"url": proxy.url}, queues=[queue("mail", handler("exit 65"))], supervisor={"lease": "2s"})
    wait_for(lambda: c.llen("escape:mail") == 2 + (what == "beside another") and not anywhere(c, "mail"), 60)
    assert tap.called.count("too_large_first") == read and tap.called.count("too_large_seen") == (what == "plain")
    assert c.lrange("escape:mail", 0, -1).count(payload) == 1
    record, = (f for _, f in c.xrange("escape:mail:log") if f[b"error_class"] == b"TooLarge")
    assert record[b"size"] == b"%d" % len(payload) and record[b"sha1"] == b"" and d.events("message_escaped", queue="mail", **{"class": "TooLarge"})


class CutEach(Tap):
    """Every connection that asks for this is closed."""

    def __init__(self, key):
        self.key, self.on, self.cut = key.encode(), True, 0

    def request(self, pair, words):
        if self.on and SCRIPTS.get(words[1] if len(words) > 1 else b"") == "return" and self.key in words:
            self.cut += 1
            return CUT
        return None


def test_a_rescue_that_breaks_the_connection_delays_no_other(redis, redis_proxy, quredisd, handler, ledger):
    """The queue is first in the table and first in the configuration. It is shown why its messages are not back, until they are."""
    c = redis.client()
    key = register(c, "mail")
    c.rpush(key, b"mail")
    c.rpush(register(c, "news"), b"news")
    tap = CutEach(key[:-1] + "rescue")
    d = quredisd(redis={"url": redis_proxy(redis, tap).url}, queues=[queue("mail", handler(RUN)), queue("news", handler(RUN, name="news"))],
                 supervisor={"lease": "2s"}, health={"enabled": True, "interval": "1s"})
    wait_for(lambda: ledger.lines() == [digest(b"news")] or tap.cut > 30, 60)
    assert ledger.lines() == [digest(b"news")]
    told = wait_for(lambda: status(d, "mail")["undecided"], 60)
    assert "moving them keeps failing" in told and status(d, "news")["undecided"] is None
    assert "lost" in d.events("queue_error", queue="mail", at="rescue")[0]["error"] and not d.events("queue_error", queue="news")
    wait_for(lambda: any(told in r["text"] for r in json.loads(c.hget("quredis:health", "mail") or '{"reasons":[]}')["reasons"]), 60)
    tap.on = False
    wait_for(lambda: len(ledger.lines()) == 2 and status(d, "mail")["undecided"] is None, 60)
    assert d.events("queue_error_cleared", queue="mail")


@pytest.mark.parametrize("size", [100_000, 1_000_000])
def test_one_that_cannot_escape_holds_up_nobody(redis, quredisd, handler, ledger, size):
    """Escape is no list. What must escape is set aside; what lies behind it comes back. Mended, it escapes."""
    c, big = redis.client(), b"x" * size
    d = quredisd(queues=[queue("mail", handler(RUN), message_max="64K")], supervisor={"lease": "2s"})
    d.wait_event("queue_recovered", queue="mail")
    c.set("escape:mail", "of another type")
    c.rpush(register(c, "mail"), big, b"good1", b"good2")
    wait_for(lambda: len(ledger.lines()) == 2, 90, "what lay behind it")
    assert sorted(ledger.lines()) == sorted(map(digest, [b"good1", b"good2"]))
    assert c.lrange("transit:mail:aside", 0, -1) == [big]
    told = d.wait_event("message_set_aside", queue="mail", at="rescue")
    assert told["size"] == str(size) and "WRONGTYPE" in told["error"]
    shown = wait_for(lambda: status(d, "mail")["aside"], 60, "status to show it")
    assert (shown["messages"], shown["size"], "wrong type" in shown["reason"]) == (1, size, True)
    c.delete("escape:mail")
    assert d.quredis("retry", "mail", "transit").code == 0
    wait_for(lambda: c.lrange("escape:mail", 0, -1) == [big] and not anywhere(c, "mail"), 60, "its escape")
    assert [r[b"error_class"] for _, r in c.xrange("escape:mail:log")] == [b"TooLarge"] and stray_keys(c, "mail") == []


@pytest.mark.parametrize("size", [100_000, 1_000_000])
@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "no record"])
def test_one_that_escapes_from_rescue_tells_its_size(redis, quredisd, handler, size, recorded):
    """Log and record name size and limit. If there is no record, the log says that, too. The short one is read, the long one is not."""
    c, big = redis.client(), b"x" * size
    d = quredisd(queues=[queue("mail", handler(RUN), message_max="64K")], supervisor={"lease": "2s"})
    d.wait_event("queue_recovered", queue="mail")
    if not recorded:
        c.set("escape:mail:log", "no stream")
    c.rpush(register(c, "mail"), big)
    reason = f"{size} bytes; message_max is 65536"
    assert d.wait_event("message_escaped", queue="mail", timeout=60)["error"] == reason
    assert c.lrange("escape:mail", 0, -1) == [big]
    if recorded:
        assert [r[b"error_message"].decode() for _, r in c.xrange("escape:mail:log")] == [reason] and not d.events("record_failed")
    else:
        assert "could not be written" in d.wait_event("record_failed", queue="mail")["error"]


def test_a_key_of_another_type_where_a_lease_would_be(redis, quredisd, handler, ledger):
    """In a rescue that was broken off. Of a message that is read in part Redis computes the SHA1, which must not fail for ever over that key."""
    c, held = redis.client(), [b"l" * 5000, b"small"]
    c.set("transit:mail:lease:none", "no lease")
    c.rpush("transit:mail:rescue", *held)
    d = quredisd(queues=[queue("mail", handler(RUN))])
    wait_for(lambda: len(ledger.lines()) == len(held) and not anywhere(c, "mail"), 20)
    assert sorted(ledger.lines()) == sorted(map(digest, held)) and d.stop() == 0
