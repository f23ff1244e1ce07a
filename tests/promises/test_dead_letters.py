"""Dead letters leave by rule: the oldest first, with their records, archived before. At every moment each is in exactly one place."""
import base64
import collections
import json
import os
import random
import resource
import signal
import time

import pytest

from harness import Tap, queue, title_of, wait_for
from harness.control import status
from harness.messages import stray_keys, unwrap
from harness.queues import Queue, sha1
from harness.redis_proxy import SCRIPTS

FAILS = """import sys
while head := sys.stdin.buffer.readline():
    _, serial, _, size = head.split()[:4]
    sys.stdin.buffer.read(int(size) + 1)
    print("FAIL", int(serial), flush=True)
"""
FAILURES, CAP = int(os.environ.get("DEAD_LETTERS_FAILURES", 10000)), int(os.environ.get("DEAD_LETTERS_CAP", 1000))
KILLS = int(os.environ.get("LETTERS_KILLS", 8))
SLOW_US = int(os.environ.get("DEAD_LETTERS_SLOW_US", 50000))      # 5000 where nobody else uses the machine, and then none
SLOW_CALLS = 0 if "DEAD_LETTERS_SLOW_US" in os.environ else 20
SLOW_S = max(100, FAILURES // 400)


@pytest.fixture
def archive(tmp):
    path = tmp / "archive"
    path.mkdir()
    return path


def lines(archive, name="mail"):
    """All of an archive, oldest first."""
    files = sorted(archive.glob(f"{name}@*@*.ndjson")) + [p for p in archive.glob(f"{name}@*.ndjson") if p.name.count("@") == 1]
    return [json.loads(line) for path in files for line in path.read_bytes().splitlines(keepends=True)]


def archived_bytes(archive):
    return sum(p.stat().st_size for p in archive.iterdir())


def message_of(line):
    return base64.b64decode(line["message_base64"]) if "message_base64" in line else line["message"].encode()


def counters(d, name="mail"):
    return status(d, name)["counters"]


def paired(c, name="mail"):
    """Dead letters and records are the same messages, in the same order."""
    entries = [sha1(m).encode() for m in reversed(c.lrange(f"escape:{name}", 0, -1))]
    return entries == [fields[b"sha1"] for _, fields in c.xrange(f"escape:{name}:log")]


def sweeper_peak_kib(d):
    """The most memory that it ever had."""
    pid = next(pid for pid in d.children() if "sweeper" in title_of(pid))
    return next(int(line.split()[1]) for line in open(f"/proc/{pid}/status") if line.startswith("VmHWM:"))


def idle(handler, **keys):
    """A queue nobody works on."""
    return queue("mail", handler("cat"), workers=0, **keys)


def no_slow_calls(c):
    c.config_set("slowlog-log-slower-than", SLOW_US)
    c.slowlog_reset()
    return lambda: [(e["duration"], e["command"][:80]) for e in c.slowlog_get(50)]


def fill_escape(c, q, messages):
    pipe = c.pipeline(transaction=False)
    for m in messages:
        pipe.eval("redis.call('LPUSH', KEYS[1], ARGV[1]) redis.call('XADD', KEYS[2], '*', unpack(ARGV, 2))", 2, q.escape, q.log, m,
                  *(x for pair in {"id": "x", "sha1": sha1(m), "size": str(len(m)), "message": m}.items() for x in pair))
    pipe.execute()


# ---- the archive and redrives ----

@pytest.mark.verdict
@pytest.mark.parametrize("equal", [1, 3])
def test_a_letter_is_archived_or_retried_and_never_both(redis, quredisd, handler, archive, equal):
    n = 5000
    c = redis.client()
    q = Queue(c, register=False)
    d = quredisd(queues=[idle(handler, dead_letter={"max_entries": 1, "archive": archive})])
    messages = [b"m%d" % (i // equal) for i in range(n)]
    fill_escape(c, q, messages)
    wait_for(lambda: archived_bytes(archive), interval=0.001)
    while c.llen(q.escape) > 1:
        done = d.quredis("dlq", "retry", "mail", "--all", "--yes")
        assert done.code == 0, done.err
    wait_for(lambda: not c.exists("escape:mail:claimed"), what="the claims to be over")
    archived = collections.Counter(message_of(line) for line in lines(archive))
    retried = collections.Counter(unwrap(m)[1] for m in c.lrange("ingress:mail", 0, -1))
    print(f"\n{sum(archived.values())} archived, {sum(retried.values())} retried")
    assert archived and retried
    assert archived + retried + collections.Counter(c.lrange(q.escape, 0, -1)) == collections.Counter(messages)
    if equal == 1:          # of equal ones the other's record may be taken, and one left over: it leaves as an orphan
        assert c.xlen(q.log) == c.llen(q.escape)
    assert not stray_keys(c, "mail")


def test_what_is_claimed_is_not_retried(redis, quredisd, handler, archive):
    """Nor released by anybody but the archive that claimed it."""
    c = redis.client()
    q = Queue(c, register=False)
    fill_escape(c, q, [b"a", b"b"])
    id_a = c.xrange(q.log)[0][0].decode()
    c.hset("escape:mail:claimed", mapping={id_a: sha1(b"a"), "owner": "another-node"})
    d = quredisd(queues=[idle(handler, dead_letter={"max_entries": 10, "archive": archive})])
    done = d.quredis("dlq", "retry", "mail", id_a)
    assert done.code == 66 and "is being archived" in done.err, done
    done = d.quredis("dlq", "retry", "mail", "--all", "--yes")
    assert done.code == 0 and "1 messages are being archived and were left" in done.err, done
    assert c.lrange(q.escape, 0, -1) == [b"a"]
    looks = c.info("commandstats")["cmdstat_evalsha"]["calls"]
    wait_for(lambda: c.info("commandstats")["cmdstat_evalsha"]["calls"] > looks + 3)
    assert c.hget("escape:mail:claimed", "owner") == b"another-node"


def test_claims_of_what_was_not_written_are_released(redis, quredisd, handler, archive):
    """The sweeper died between the claim and the file, or the file could not be written."""
    c = redis.client()
    q = Queue(c, register=False)
    fill_escape(c, q, [b"a"])
    d = quredisd(queues=[idle(handler, dead_letter={"max_entries": 10, "archive": archive})])
    node = str(d.sections["supervisor"]["node"])
    c.hset("escape:mail:claimed", mapping={c.xrange(q.log)[0][0]: sha1(b"a"), "owner": node})
    wait_for(lambda: not c.exists("escape:mail:claimed"))
    assert d.quredis("dlq", "retry", "mail", "--all", "--yes").code == 0
    assert not c.llen(q.escape) and not lines(archive)


class ClaimsPass(Tap):
    """Another host takes the lead and claims dead letters while our release is under way."""

    def __init__(self, client, claims):
        self.client, self.claims, self.done = client, claims, False

    def request(self, pair, words):
        if not self.done and b"escape:mail:claimed" in words and (words[0] == b"DEL" or SCRIPTS.get(words[1]) == "dead_letters_release"):
            self.client.delete("escape:mail:claimed")
            self.client.hset("escape:mail:claimed", mapping=self.claims)
            self.done = True


def test_a_release_that_comes_late_drops_no_claims_of_the_next_leader(redis, redis_proxy, quredisd, handler, archive, tag):
    c = redis.client()
    q = Queue(c, register=False)
    fill_escape(c, q, [b"a"])
    theirs = {c.xrange(q.log)[0][0]: sha1(b"a"), "owner": "another-node"}
    tap = ClaimsPass(c, theirs)
    quredisd(redis=redis_proxy(redis, tap), queues=[idle(handler, dead_letter={"max_entries": 10, "archive": archive})])
    c.hset("escape:mail:claimed", mapping={**theirs, "owner": tag})
    wait_for(lambda: tap.done, 30, "the release")
    looks = c.info("commandstats")["cmdstat_evalsha"]["calls"]
    wait_for(lambda: c.info("commandstats")["cmdstat_evalsha"]["calls"] > looks + 3)
    assert c.hget("escape:mail:claimed", "owner") == b"another-node"


# ---- the cap ----

def test_a_cap_with_archive(redis, quredisd, handler, archive):
    """Each failed message is in the list or in the archive, once."""
    c = redis.client()
    slow = no_slow_calls(c)
    d = quredisd(queues=[queue("mail", handler(FAILS, "python"), mode="persistent", window=64, workers=2,
                               dead_letter={"max_entries": CAP, "archive": archive, "archive_size": "1M"})], log={"level": "info"})
    pushed = [b"m%d" % i for i in range(FAILURES)]
    for i in range(0, FAILURES, 1000):
        c.lpush("ingress:mail", *pushed[i:i + 1000])
    wait_for(lambda: counters(d)["escaped"] == FAILURES and c.llen("escape:mail") <= CAP, SLOW_S, "all but the cap to leave")
    wait_for(lambda: counters(d)["archived"] == FAILURES - CAP, 30)
    assert len(slow()) <= SLOW_CALLS, slow()
    archived = lines(archive)
    assert c.llen("escape:mail") == c.xlen("escape:mail:log") == CAP
    assert len(archived) == FAILURES - CAP
    assert collections.Counter(map(message_of, archived)) + collections.Counter(c.lrange("escape:mail", 0, -1)) == collections.Counter(pushed)
    assert [a["record"] for a in archived] == sorted((a["record"] for a in archived), key=lambda r: [int(n) for n in r.split("-")])
    assert all(a["sha1"] == sha1(message_of(a)) and a["reason"] == "max_entries" and a["error_class"] == "HandlerFail" for a in archived)
    assert paired(c) and counters(d)["discarded"] == counters(d)["orphaned"] == 0
    assert len(list(archive.glob("mail@*@*.ndjson"))) >= FAILURES // 4000, "not rotated"
    assert sum(int(e["messages"]) for e in d.events("dead_letters_removed")) == FAILURES - CAP
    assert not stray_keys(c, "mail")
    assert d.stop() == 0


@pytest.mark.parametrize("at", ["oldest", "second"])
def test_one_that_is_too_long_to_be_read_stays(redis, quredisd, handler, archive, at):
    """A dead letter that is too long to be read is shown, and neither Redis nor the sweeper copies it. When it is gone, the others leave."""
    c = redis.client()
    q = Queue(c, register=False)
    long, small = b"x" * (100 << 20), [b"a", b"b", b"c"]
    q.dead_letters(*small[:at == "second"])
    c.lpush(q.escape, long)
    q.record(b"", error_class="TooLarge", size=len(long), sha1="")
    q.dead_letters(*small[at == "second":])
    d = quredisd(queues=[idle(handler, dead_letter={"max_entries": 1, "archive": archive})], health={"enabled": True})
    told = d.wait_event("dead_letter_too_long", queue="mail")
    assert int(told["memory"]) >= len(long) and told["limit"] == str(64 << 20)
    assert c.llen(q.escape) == 3 + (at == "oldest") and [message_of(a) for a in lines(archive)] == small[:at == "second"]
    wait_for(lambda: b"too long to be read" in (c.hget("quredis:health", "mail") or b""))
    assert sweeper_peak_kib(d) < 64 * 1024
    assert d.quredis("dlq", "rm", "mail", "--yes", c.xrange(q.log, count=1)[0][0].decode()).code == 0
    wait_for(lambda: [message_of(a) for a in lines(archive)] == small[:2] and c.lrange(q.escape, 0, -1) == small[2:])
    d.wait_event("dead_letters_resumed", queue="mail")
    assert c.xlen(q.log) == 1 and d.stop() == 0


@pytest.mark.limit(SLOW_S + 120)
def test_the_sweeper_is_killed_again_and_again(redis, quredisd, handler, archive):
    c, rng = redis.client(), random.Random(7)
    q = Queue(c, register=False)
    d = quredisd(queues=[idle(handler, dead_letter={"max_entries": CAP, "archive": archive, "archive_size": "1M"})],
                 log={"level": "info"}, supervisor={"lease": "3s"})
    wait_for(lambda: c.exists("quredis:secret"))                   # a queue with a record and without a secret is not touched
    messages = [b"m%d" % (i // 2) for i in range(FAILURES)]        # each twice
    def fill(some):
        pipe = c.pipeline(transaction=False)
        for m in some:
            pipe.eval("redis.call('LPUSH', KEYS[1], ARGV[1]) redis.call('XADD', KEYS[2], '*', unpack(ARGV, 2))", 2, q.escape, q.log, m,
                      *(x for pair in {"id": "x", "sha1": sha1(m), "size": str(len(m)), "message": m}.items() for x in pair))
        pipe.execute()
    part = -(-FAILURES // KILLS)
    for kill in range(KILLS):
        fill(messages[kill * part:(kill + 1) * part])
        before = archived_bytes(archive)
        wait_for(lambda: archived_bytes(archive) > before or c.llen(q.escape) <= CAP, 60)
        time.sleep(rng.random() * 0.05)                            # anywhere in it
        if kill % 2:                                               # all at once: another start, another lead
            d.kill_tree()
            d.start()
        elif pid := d.sweeper():
            os.kill(pid, signal.SIGKILL)
    wait_for(lambda: c.llen(q.escape) == CAP, SLOW_S, "all but the cap to leave")
    wait_for(lambda: c.xlen(q.log) == CAP)
    archived = lines(archive)
    assert len(archived) == len({a["record"] for a in archived}) == FAILURES - CAP
    assert collections.Counter(map(message_of, archived)) + collections.Counter(c.lrange(q.escape, 0, -1)) == collections.Counter(messages)
    assert not {a["record"] for a in archived} & {i.decode() for i, _ in c.xrange(q.log)}
    assert paired(c)
    assert d.stop() == 0


# ---- without an archive ----

def test_bounds_alone_only_alarm(redis, quredisd, handler):
    c = redis.client()
    q = Queue(c, register=False)
    q.dead_letters(*[b"%d" % i for i in range(20)])
    d = quredisd(queues=[idle(handler, dead_letter={"max_entries": 10, "ttl": "1s"})])
    told = d.wait_event("dead_letters_over", queue="mail")
    assert (told["messages"], told["max_entries"], told["limit_ms"]) == ("20", "10", "1000") and int(told["oldest_ms"]) > 0
    wait_for(lambda: c.info("commandstats")["cmdstat_evalsha"]["calls"] > 15)
    assert c.llen(q.escape) == c.xlen(q.log) == 20 and len(d.events("dead_letters_over")) == 1
    c.delete(q.escape, q.log)
    d.wait_event("dead_letters_within", queue="mail", messages=0)
    assert d.stop() == 0


def test_discard_and_a_cap_that_a_reload_lowers(redis, quredisd, handler):
    c = redis.client()
    q = Queue(c, register=False)
    messages = [b"%d" % i for i in range(500)]
    q.dead_letters(*messages)
    d = quredisd(queues=[idle(handler)], dead_letter={"max_entries": 400, "discard": True})
    wait_for(lambda: c.llen(q.escape) == 400)
    d.reload(dead_letter={"max_entries": 50, "discard": True})
    wait_for(lambda: c.llen(q.escape) == 50)
    assert c.lrange(q.escape, 0, -1) == list(reversed(messages[450:])) and paired(c)
    wait_for(lambda: counters(d)["discarded"] == 450)
    assert counters(d)["archived"] == counters(d)["orphaned"] == 0
    wait_for(lambda: c.hget("quredis:of:ingress:mail:stats", "discarded") == b"450")
    assert d.stop() == 0


# ---- ttl ----

def test_each_leaves_when_it_is_old_enough(redis, quredisd, handler, archive):
    c = redis.client()
    q = Queue(c, register=False)
    d = quredisd(queues=[idle(handler, dead_letter={"ttl": "3s", "archive": archive})])
    d.wait_event("lead_taken")
    gone, ids = {}, []
    def look():
        left = {i for i, _ in c.xrange(q.log)}
        s, us = c.time()
        for i in ids:
            if i.encode() not in left:
                gone.setdefault(i, s * 1000 + us // 1000)
        return len(gone) == len(ids)
    for i in range(30):
        ids += q.dead_letters(b"same" if i % 3 else b"%d" % i, error_class="HandlerExit")
        look()
        time.sleep(0.05)
    wait_for(look, 60)
    assert min(gone[i] - int(i.split("-")[0]) for i in ids) >= 3000
    assert [a["record"] for a in lines(archive)] == ids and all(a["reason"] == "ttl" for a in lines(archive))
    assert c.llen(q.escape) == 0
    assert d.stop() == 0


@pytest.mark.parametrize("ahead", [3600, -3600])
def test_the_clock_of_redis_is_set(redis_server, quredisd, handler, ahead):
    server = redis_server(clock=True)
    c = server.client()
    q = Queue(c, register=False)
    d = quredisd(redis=server, queues=[idle(handler, dead_letter={"ttl": "5s", "discard": True})])
    d.wait_event("lead_taken")
    q.dead_letters(b"before")
    wait_for(lambda: c.info("commandstats")["cmdstat_evalsha"]["calls"] > 8)
    server.set_clock(ahead)
    stepped = time.monotonic()
    d.wait_event("server_clock_set")
    if ahead < 0:                       # ids never go back: those of an hour ago have not come yet
        assert c.llen(q.escape) == 1
    else:
        wait_for(lambda: c.llen(q.escape) == 0, 60)
        assert time.monotonic() - stepped >= 5
    assert d.stop() == 0


# ---- what does not belong together ----

def test_without_a_record_and_without_a_message(redis, quredisd, handler, archive):
    c = redis.client()
    q = Queue(c, register=False)
    q.dead_letters(b"known", b"taken", b"known too")
    orphan = q.record(b"never there")
    c.lrem(q.escape, 1, b"taken")
    c.rpush(q.escape, b"foreign \xff", b"quredis/1 w=0000000000000001 attempts=3\nlooks wrapped")
    d = quredisd(queues=[idle(handler, dead_letter={"ttl": "4s", "archive": archive})])
    d.wait_event("dead_letters_unrecorded", messages=2)
    found = {f[b"message"]: (i, f) for i, f in c.xrange(q.log)}
    for m in (b"foreign \xff", b"quredis/1 w=0000000000000001 attempts=3\nlooks wrapped"):
        f = found[m][1]
        assert f[b"error_class"] == b"Unrecorded" and f[b"sha1"].decode() == sha1(m) and f[b"failed_at"].endswith(b"Z")
        assert int(found[m][0].split(b"-")[0]) > int(orphan.split("-")[0])
    wait_for(lambda: c.llen(q.escape) == c.xlen(q.log) == 0, 60)
    archived = {message_of(a) if a["message"] is not None or "message_base64" in a else a["record"]: a for a in map(with_message, lines(archive))}
    assert len(lines(archive)) == 6 and sum(a.get("orphan", False) for a in lines(archive)) == 2
    assert not archived[b"known"].get("orphan") and archived[b"taken"]["orphan"] and archived[b"never there"]["orphan"]
    wait_for(lambda: counters(d)["orphaned"] == 2 and counters(d)["archived"] == 4)
    assert d.stop() == 0


def with_message(line):
    return {"message": None, **line}


def test_the_cap_where_nothing_has_a_record(redis, quredisd, handler, archive):
    """They are given records first, in their order; then the oldest leave."""
    c = redis.client()
    q = Queue(c, register=False)
    messages = [b"%d" % (i % 400) for i in range(700)]
    q.dead_letters(*messages, record=False)
    d = quredisd(queues=[idle(handler, dead_letter={"max_entries": 100, "archive": archive})])
    wait_for(lambda: c.llen(q.escape) == c.xlen(q.log) == 100, 60)
    assert [message_of(a) for a in lines(archive)] == messages[:600]
    assert c.lrange(q.escape, 0, -1) == list(reversed(messages[600:])) and paired(c)
    assert d.stop() == 0


def test_many_without_a_record_take_no_time_each(redis, quredisd, handler):
    """A page of them follows the other, as with those that leave."""
    c = redis.client()
    c.lpush("escape:mail", *[b"%d" % i for i in range(20000)])
    idle_queue = idle(handler, dead_letter={"max_entries": 10, "discard": True})
    d = quredisd(queues=[idle_queue, queue("other", handler("cat"))], log={"level": "info"})
    wait_for(lambda: c.llen("escape:mail") == c.xlen("escape:mail:log") == 10, 100)     # a page a second: 200 s
    assert c.lrange("escape:mail", 0, -1) == [b"%d" % i for i in reversed(range(19990, 20000))] and paired(c)
    assert d.stop() == 0


def test_more_orphans_than_a_page_shows(redis, quredisd, handler, archive):
    """Somebody deleted the list. No dead letter of after that is taken for one without a record."""
    c = redis.client()
    q = Queue(c, register=False)
    q.dead_letters(*[b"old %d" % i for i in range(1000)])
    c.delete(q.escape)
    new = [b"new %d" % i for i in range(600)]
    q.dead_letters(*new)
    d = quredisd(queues=[idle(handler, dead_letter={"max_entries": 500, "archive": archive})])
    wait_for(lambda: c.llen(q.escape) == c.xlen(q.log) == 500, 60)
    assert c.lrange(q.escape, 0, -1) == list(reversed(new[100:])) and paired(c)
    assert not d.events("dead_letters_unrecorded")
    assert [message_of(a) for a in lines(archive) if not a.get("orphan")] == new[:100]
    assert sum(a.get("orphan", False) for a in lines(archive)) == 1000
    assert d.stop() == 0


def test_what_an_operator_takes_meanwhile(redis, quredisd, quredis, handler, archive):
    """Redriven, deleted by hand, records deleted: what is left is in the list or in the archive."""
    c, rng = redis.client(), random.Random(3)
    q = Queue(c)
    d = quredisd(queues=[idle(handler, dead_letter={"max_entries": 100, "archive": archive})])
    d.wait_event("lead_taken")
    pushed, taken, unrecorded = collections.Counter(), collections.Counter(), collections.Counter()
    for turn in range(40):
        some = [b"m%d" % rng.randrange(200) for _ in range(50)]
        pushed.update(some)
        q.dead_letters(*some)
        if turn % 2:
            if m := c.rpop(q.escape):
                taken[m] += 1
        else:
            entries = c.xrange(q.log, count=20)
            one = entries[rng.randrange(len(entries))]
            unrecorded[one[1][b"message"]] += c.xdel(q.log, one[0])
    wait_for(lambda: c.llen(q.escape) == 100, 60)
    wait_for(lambda: counters(d)["archived"] == pushed.total() - taken.total() - 100)
    kept = collections.Counter(message_of(a) for a in lines(archive) if not a.get("orphan"))
    orphans = collections.Counter(message_of(a) for a in lines(archive) if a.get("orphan"))
    there = collections.Counter(c.lrange(q.escape, 0, -1))
    assert not (pushed - kept - there - taken), "lost"
    assert not (kept + there - pushed) - taken - unrecorded, "twice"       # its record may go while it is written
    assert not orphans - taken - pushed
    assert d.stop() == 0


# ---- the archive ----

def test_an_archive_that_cannot_be_written(redis, quredisd, handler, archive):
    c = redis.client()
    q = Queue(c, register=False)
    q.dead_letters(*[b"%d" % i for i in range(30)])
    archive.rmdir()
    d = quredisd(queues=[idle(handler, dead_letter={"max_entries": 10, "archive": archive})])
    told = d.wait_event("queue_error", at="archive")
    assert str(archive) in told["error"] and "No such file" in told["error"]
    assert c.llen(q.escape) == 30 and "free space" in told["advice"]
    why = f"the archive of its dead letters cannot be read or written: {archive}"
    wait_for(lambda: (s := status(d, "mail"))["state"] == "error" and s["reason"].startswith(why) and s["reason"].endswith("No such file or directory"))
    found = next(f for f in json.loads(d.quredis("doctor", "--json").out) if f["what"].startswith(f"error: {why}"))
    assert f"see that {archive} exists, has free space" in found["advice"], found
    archive.mkdir()
    wait_for(lambda: c.llen(q.escape) == 10, 60)
    d.wait_event("queue_error_cleared")
    wait_for(lambda: status(d, "mail")["state"] == "running")
    assert [message_of(a) for a in lines(archive)] == [b"%d" % i for i in range(20)]
    assert len(d.events("queue_error")) == 1
    archive.rename(archive.with_name("aside"))      # also in the middle of it
    q.dead_letters(*[b"more %d" % i for i in range(30)])
    wait_for(lambda: len(d.events("queue_error", at="archive")) == 2, 30)
    assert c.llen(q.escape) == c.xlen(q.log) == 40
    archive.with_name("aside").rename(archive)
    wait_for(lambda: c.llen(q.escape) == 10, 60)
    assert [message_of(a) for a in lines(archive)] == [b"%d" % i for i in range(30)] + [b"more %d" % i for i in range(20)]
    assert d.stop() == 0


def test_an_archive_that_can_be_read_but_takes_nothing(redis, quredisd, handler, archive):
    """As on a full disk: the error is logged once, the sweeper retries less and less often, and the end of the error is logged."""
    c = redis.client()
    q = Queue(c, register=False)
    d = quredisd(queues=[idle(handler, dead_letter={"max_entries": 10, "archive": archive})])
    d.wait_event("lead_taken")
    resource.prlimit(d.sweeper(), resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
    q.dead_letters(*[b"%d" % i for i in range(30)])
    d.wait_event("queue_error", at="archive")
    start = time.monotonic()
    wait_for(lambda: time.monotonic() > start + 5)
    assert len(d.events("queue_error")) == 1 and not d.events("queue_error_cleared")
    assert c.llen(q.escape) == c.xlen(q.log) == 30
    resource.prlimit(d.sweeper(), resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    wait_for(lambda: c.llen(q.escape) == 10, 60)
    d.wait_event("queue_error_cleared")
    assert [message_of(a) for a in lines(archive)] == [b"%d" % i for i in range(20)]
    file, = (f for f in archive.iterdir() if f.suffix == ".ndjson")
    resource.prlimit(d.sweeper(), resource.RLIMIT_FSIZE, (file.stat().st_size, resource.RLIM_INFINITY))     # no room for more
    q.dead_letters(b"more")
    wait_for(lambda: len(d.events("queue_error", at="archive")) == 2)
    c.lpop(q.escape)                                # nothing is to be written any more
    c.xtrim(q.log, 10)
    wait_for(lambda: len(d.events("queue_error_cleared")) == 2, 60)
    assert d.stop() == 0


def test_health_and_figures_tell_what_cannot_leave(redis, quredisd, handler, archive, tmp):
    """Health and metrics show it until it ends, so that an operator who looks later sees it, too."""
    c = redis.client()
    q, page = Queue(c, register=False), tmp / "quredis.prom"
    q.dead_letters(*[b"%d" % i for i in range(30)])

    def told(letters):
        d.reload(queues=[idle(handler, dead_letter=letters)], health={"enabled": True, "interval": "1s"}, metrics={"textfile": str(page), "interval": "1s"})

    def reasons():
        found = json.loads(d.quredis("health", "mail", "--json").out)["queues"]
        return {r["code"]: r["text"] for r in found[0]["reasons"]} if found else None

    def figures():
        found = dict(line.rsplit(" ", 1) for line in page.read_text().splitlines() if line.startswith("quredis_dead_letters_"))
        return {name.split("_")[3].split("{")[0]: int(n) for name, n in found.items()}

    archive.rmdir()
    d = quredisd(queues=[idle(handler)])
    told({"max_entries": 10, "archive": archive})
    wait_for(lambda: "No such file" in (reasons() or {}).get("archive", ""), 30)
    assert d.wait_event("health_changed", status="degraded")
    wait_for(lambda: figures() == {"unarchived": 1, "over": 0}, 20)
    archive.mkdir()
    wait_for(lambda: reasons() == {} and figures() == {"unarchived": 0, "over": 0}, 60)
    told({"max_entries": 5})
    wait_for(lambda: "bounds" in (reasons() or {}) and figures() == {"unarchived": 0, "over": 1}, 30)
    told({"max_entries": 10})
    wait_for(lambda: reasons() == {} and figures() == {"unarchived": 0, "over": 0}, 30)
    assert d.stop() == 0


def test_a_torn_line_and_a_batch_that_was_written_but_not_removed(redis, quredisd, handler, archive):
    """The state after a death between writing and removing. It also holds if the bounds would let the dead letters stay now."""
    c = redis.client()
    q = Queue(c, register=False)
    ids = q.dead_letters(*[b"same"] * 10)
    file = archive / "mail@node-a.ndjson"
    line = json.dumps({"record": ids[0], "message": "same", "sha1": sha1(b"same"), "batch": ids[0]}) + "\n"
    other = json.dumps({"record": ids[5], "message": "same", "batch": "1-1"}) + "\n"
    torn = json.dumps({"record": ids[2], "message": "same", "batch": ids[0]})
    file.write_text(other + line + line.replace(f'"record": "{ids[0]}"', f'"record": "{ids[1]}"') + torn[:40])
    d = quredisd(queues=[idle(handler, dead_letter={"max_entries": 100, "archive": archive})], supervisor={"node": "node-a"})
    wait_for(lambda: c.llen(q.escape) == 8)
    assert [i.decode() for i, _ in c.xrange(q.log)] == ids[2:]      # of another batch: not touched
    assert [a["record"] for a in lines(archive)] == [ids[5], ids[0], ids[1]]
    assert d.stop() == 0


def test_what_comes_before_a_batch_that_was_written(redis, quredisd, handler, archive):
    """Pushed by hand to the old end, more than a page shows: the batch is not written again."""
    c = redis.client()
    q = Queue(c, register=False)
    messages = [b"m%d" % i for i in range(10)]
    ids = q.dead_letters(*messages)
    by_hand = [b"by hand %d" % i for i in range(150)]
    c.rpush(q.escape, *by_hand)
    (archive / "mail@node-a.ndjson").write_text("".join(
        json.dumps({"record": i, "message": m.decode(), "sha1": sha1(m), "batch": ids[0]}) + "\n" for i, m in zip(ids[:3], messages)))
    d = quredisd(queues=[idle(handler, dead_letter={"max_entries": 100, "archive": archive})], supervisor={"node": "node-a"})
    wait_for(lambda: c.llen(q.escape) == c.xlen(q.log) == 100, 60)
    archived = [message_of(a) for a in lines(archive)]
    assert collections.Counter(archived + c.lrange(q.escape, 0, -1)) == collections.Counter(messages + by_hand)
    assert paired(c) and d.stop() == 0


def test_binary_and_large_messages(redis, quredisd, handler, archive):
    c = redis.client()
    q = Queue(c, register=False)
    messages = [os.urandom(10 << 20), b"\0\xff\n", b"", b'"}\n{"record":"1-1"}', "ü€\u0001".encode(), os.urandom(70000), b"last"]
    q.dead_letters(*messages, payload_max=65536)
    d = quredisd(queues=[idle(handler, dead_letter={"max_entries": 1, "archive": archive})])
    wait_for(lambda: c.llen(q.escape) == c.xlen(q.log) == 1, 60)
    archived = lines(archive)
    assert [message_of(a) for a in archived] == messages[:-1]
    assert ["message_base64" in a for a in archived] == [True, True, False, False, False, True]
    assert [(a["sha1"], a["size"]) for a in archived] == [(sha1(m), len(m)) for m in messages[:-1]]
    assert list(archive.iterdir())[0].stat().st_mode & 0o777 == 0o600
    assert d.stop() == 0


def test_a_letter_without_a_sum_keeps_its_record(redis, quredisd, handler, archive):
    """Of more than 16 MiB Redis computes no sha1, so the record has none."""
    c = redis.client()
    q = Queue(c, register=False)
    letters = [os.urandom(1 << 20) * 17, os.urandom(1 << 20) * 17 + b"x"]
    for m in letters:
        c.lpush(q.escape, m)
        q.record(m, payload_max=0, id="", sha1="", error_class="TooLarge")
    q.dead_letters(b"last")
    d = quredisd(queues=[idle(handler, dead_letter={"max_entries": 1, "archive": archive})])
    wait_for(lambda: c.llen(q.escape) == c.xlen(q.log) == 1, 60)
    assert [(sha1(message_of(a)), a["error_class"]) for a in lines(archive)] == [(sha1(m), "TooLarge") for m in letters]
    assert d.stop() == 0


@pytest.mark.parametrize("key", ["escape:mail", "escape:mail:log"])
def test_a_key_of_the_wrong_type(redis, quredisd, handler, archive, key):
    c = redis.client()
    q = Queue(c, register=False)
    d = quredisd(queues=[idle(handler, dead_letter={"max_entries": 10, "archive": archive}), queue("other", handler("cat"))])
    d.wait_event("lead_taken")
    q.dead_letters(*[b"%d" % i for i in range(9)])
    c.rename(key, "aside")
    c.set(key, "x")
    told = d.wait_event("queue_error", at="dead_letters")
    assert "WRONGTYPE" in told["error"]
    c.rename("aside", key)
    q.dead_letters(b"ten", b"eleven")
    wait_for(lambda: c.llen(q.escape) == 10, 60)
    assert d.stop() == 0


def test_two_hosts_at_once(redis, quredisd, handler, archive):
    """One of them leads. When it dies the other goes on, in a file of its own."""
    c = redis.client()
    q = Queue(c, register=False)
    make = lambda node: quredisd(queues=[idle(handler, dead_letter={"max_entries": 100, "archive": archive})],
                                 supervisor={"node": node, "lease": "2s"})
    a, b = make("a"), make("b")
    wait_for(lambda: a.events("lead_taken") or b.events("lead_taken"))
    leads, waits = (a, b) if a.events("lead_taken") else (b, a)
    messages = [b"%d" % (i % 300) for i in range(600)]
    q.dead_letters(*messages[:400])
    wait_for(lambda: c.llen(q.escape) == 100, 60)
    assert not waits.events("dead_letters_removed")
    leads.kill_tree()
    q.dead_letters(*messages[400:])
    wait_for(lambda: c.llen(q.escape) == 100, 60)
    archived = [x for p in archive.iterdir() for x in map(json.loads, p.read_text().splitlines())]
    assert len({x["record"] for x in archived}) == len(archived) == 500 and len(list(archive.iterdir())) == 2
    assert sorted(map(message_of, archived)) == sorted(messages[:500])
    assert waits.stop() == 0


# ---- forwarding ----

def forwarded(c, name="failures"):
    return [json.loads(m) for m in reversed(c.lrange(f"ingress:{name}", 0, -1))]


def to_failures(handler, **keys):
    return [idle(handler, dead_letter={"forward_to": "failures", **keys}), queue("failures", handler("cat"), workers=0)]


def test_a_copy_of_each_record(redis, quredisd, handler, ledger):
    """A handler fails, and the handler of the dead-letter queue reads the reason."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler("echo no such user >&2; exit 3"), dead_letter={"payload_max": "1K"}),
                         queue("failures", ledger.recorder())], dead_letter={"forward_to": "failures"})
    messages = [b"plain", b"\xff\0", b"x" * 2000]
    for m in messages:
        c.lpush("ingress:mail", m)
    wait_for(lambda: len(ledger.runs()) == 3)
    got = {r["sha1"]: r for r in (json.loads(run.payload) for run in ledger.runs())}
    plain, binary, large = (got[sha1(m)] for m in messages)
    assert plain["message"] == "plain" and plain["queue"] == "mail" and plain["exit_code"] == 3 and plain["stderr"] == "no such user\n"
    assert base64.b64decode(binary["message_base64"]) == b"\xff\0" and large["message"] is None and large["size"] == 2000
    assert sorted(r["record"].encode() for r in got.values()) == [i for i, _ in c.xrange("escape:mail:log")]
    assert c.get("escape:mail:forwarded") == c.xrevrange("escape:mail:log", count=1)[0][0]
    wait_for(lambda: counters(d)["forwarded"] == 3)
    assert c.llen("escape:mail") == 3 and not c.exists("escape:failures:forwarded") and not stray_keys(c, "mail", "failures")
    assert d.stop() == 0


def test_nothing_is_passed_over_when_the_sweeper_is_killed(redis, quredisd, handler):
    c, rng = redis.client(), random.Random(5)
    q = Queue(c, register=False)
    ids = q.dead_letters(*[b"%d" % i for i in range(1500)])
    d = quredisd(queues=to_failures(handler))
    for _ in range(4):
        before = c.llen("ingress:failures")
        wait_for(lambda: c.llen("ingress:failures") > before or c.llen("ingress:failures") >= 1500, 60)
        time.sleep(rng.random() * 0.02)
        if pid := d.sweeper():
            os.kill(pid, signal.SIGKILL)
        ids += q.dead_letters(*[b"more %d" % rng.random() for _ in range(100)])
    wait_for(lambda: c.get("escape:mail:forwarded") == ids[-1].encode(), 90)
    got = [f["record"] for f in forwarded(c)]
    assert list(dict.fromkeys(got)) == ids and len(got) <= len(ids) + 4 * 50
    assert d.stop() == 0


def test_bounds_wait_until_it_is_forwarded(redis, quredisd, handler):
    c = redis.client()
    q = Queue(c, register=False)
    ids = q.dead_letters(*[b"%d" % i for i in range(300)])
    c.set("ingress:failures", "not a list")
    d = quredisd(queues=to_failures(handler, max_entries=10, discard=True), start=True)
    assert "WRONGTYPE" in d.wait_event("queue_error", queue="mail", at="forward")["error"]
    wait_for(lambda: c.info("commandstats")["cmdstat_get"]["calls"] > 10)
    assert c.llen(q.escape) == 300
    c.delete("ingress:failures")
    wait_for(lambda: c.llen(q.escape) == 10, 60)
    assert [f["record"] for f in forwarded(c)] == ids
    c.delete(q.escape, q.log)           # the ids of a log made anew may be lower
    q.dead_letters(b"again")
    c.set("escape:mail:forwarded", "9000000000000-0")
    wait_for(lambda: len(forwarded(c)) == 301, 30)
    assert forwarded(c)[-1]["message"] == "again"
    assert d.stop() == 0
