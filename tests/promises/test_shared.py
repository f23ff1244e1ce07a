"""A queue that other programs consume, too: they get exactly what was pushed, and quredis keeps its own knowledge in notes."""
import collections
import hashlib
import json
import os
import random
import re
import signal

import pytest

from harness import PlainConsumer, queue, wait_for
from harness.messages import anywhere, in_transit, record, sealed, stray_keys
from harness.queues import Queue, entry
from harness.reach import seen

NOTES = "quredis:of:ingress:mail:notes"
WEEK_MS = 7 * 24 * 3600 * 1000
NOTE = 'read -r m; echo "start $m $QUREDIS_REDELIVERED" >>@LEDGER@; '
FAILS_SOME = NOTE + 'case $m in fail*) exit 3;; esac; echo "end $m" >>@LEDGER@'
POISON = NOTE + '[ "$m" != poison ] || { kill -9 $PPID; exec sleep 600; }; echo "end $m" >>@LEDGER@'
GATED = NOTE + 'while ! [ -e @TMP@/go ]; do sleep 0.05; done; echo "end $m" >>@LEDGER@'


def shared(name, handler, *args, **keys):
    return queue(name, handler, *args, shared=True, **keys)


def sha1(message):
    return hashlib.sha1(message.encode() if isinstance(message, str) else message).hexdigest()


def notes(c):
    """sha1 -> what is remembered, as a dict of numbers."""
    return {k.decode(): {p.split("=")[0]: int(p.split("=")[1]) for p in v.decode().split()} for k, v in c.hgetall(NOTES).items()}


def assert_told(ledger):
    """Every run but the first knows that it is not the first; so does the first of what lay in a dead worker's tray."""
    assert {n: f for n, f in ledger.flags().items() if "0" in f[1:]} == {}


# ---- beside a plain consumer ----

def test_each_is_done_by_one_of_them_byte_for_byte(redis, quredisd, ledger):
    c = redis.client()
    rng = random.Random(3)
    names = [b"m%d %s" % (i, rng.randbytes(rng.choice([0, 1, 10, 2000]))) for i in range(600)]
    names += [b"quredis/1 id=h%d request_id=r\nbody" % i for i in range(50)]
    random.Random(4).shuffle(names)
    d = quredisd(queues=[shared("mail", ledger.recorder(), workers=3, batch={"max": 16, "time": "10s"})], health={"enabled": True, "interval": "1s"})
    gem = PlainConsumer(redis, "mail", seconds=0.005)
    for i in range(0, len(names), 50):
        c.lpush("ingress:mail", *names[i:i + 50])
    wait_for(lambda: not anywhere(c, "mail"), 60, "all done")
    theirs = gem.stop()
    assert d.stop() == 0
    ours = ledger.runs()
    assert theirs and ours and len(theirs) + len(ours) == len(names)
    headless = collections.Counter(re.sub(rb"^quredis/1 id.*\n", b"", m) for m in set(names) - set(theirs))
    assert collections.Counter(r.payload for r in ours) == headless
    assert set(theirs) <= set(names) and len(set(theirs)) == len(theirs)
    assert not c.exists(NOTES, "quredis:of:ingress:mail:delayed", "escape:mail") and stray_keys(c, "mail") == []
    assert json.loads(c.get("quredis:queue:mail"))["shared"] is True


@pytest.mark.limit(180)
def test_workers_die_stop_and_fail_beside_it(redis, quredisd, handler, ledger):
    """Whatever happens to workers, the other program never receives bytes of quredis. No message is lost, and second runs are marked as
    redelivered."""
    c, rng = redis.client(), random.Random(5)
    seen = set()

    def look():
        seen.update(c2.lrange("ingress:mail", 0, -1))
    c2 = redis.client()
    # chance may kill one worker after the other over the same message: that is not what is to escape
    d = quredisd(queues=[shared("mail", handler(FAILS_SOME), workers=3, batch={"max": 16, "time": "10s"}, recovery_attempts=100)],
                 supervisor={"kill_grace": "500ms"})
    gem = PlainConsumer(redis, "mail", look, seconds=0.02)
    names = []
    for i in range(12):
        batch = [f"{'fail' if rng.random() < 0.1 else 'm'}{i}.{k}" for k in range(60)]
        names += batch
        before = len(ledger.lines())
        c.lpush("ingress:mail", *batch)
        wait_for(lambda: len(ledger.lines()) > before, 30, "something to run")
        if i % 4 == 3:
            assert d.stop(signal.SIGQUIT) == 0
            look()
            d.start()
        else:
            victims = list(d.workers("mail").values())
            if victims:
                os.kill(rng.choice(victims), signal.SIGKILL)
        look()
    wait_for(lambda: not anywhere(c, "mail"), 90, "all done")
    theirs = {m.decode() for m in gem.stop()}
    assert d.stop() == 0
    escaped = {m.decode() for m in c.lrange("escape:mail", 0, -1)}
    assert {m.decode() for m in seen} | theirs <= set(names)
    ours = {r[0] for r in ledger.rows("end")}
    assert ours | theirs | escaped == set(names)
    assert {n for n in escaped if not n.startswith("fail")} == set()
    assert_told(ledger)
    # what is still remembered is of messages that ended elsewhere
    assert set(notes(c)) <= {sha1(m) for m in theirs}
    assert not c.exists("quredis:of:ingress:mail:delayed") and stray_keys(c, "mail") == []


# ---- who is blamed ----

def test_poison_alone_costs_two_workers(redis, quredisd, handler, ledger):
    c = redis.client()
    d = quredisd(queues=[shared("mail", handler(POISON), workers=2)])
    c.lpush("ingress:mail", "poison")
    wait_for(lambda: c.llen("escape:mail") == 1, 40, "it to escape")
    r = record(c, "mail")
    assert (r["error_class"], r["crashes"], r["message"]) == (b"WorkerLost", b"2", b"poison")
    assert ledger.flags() == {"poison": ["0", "1"]} and len(d.events("worker_died")) == 2
    assert not c.exists(NOTES) and c.lrange("escape:mail", 0, -1) == [b"poison"]


def test_poison_among_others_costs_three(redis, quredisd, handler, ledger):
    c = redis.client()
    d = quredisd(queues=[shared("mail", handler(POISON), batch={"max": 64, "time": "60s"})])
    d.wait_workers("mail", 1)
    names = [f"m{i}" for i in range(40)]
    c.lpush("ingress:mail", *names[:20], "poison", *names[20:])
    wait_for(lambda: c.llen("escape:mail") and not anywhere(c, "mail"), 60, "all done")
    assert len(ledger.flags()["poison"]) == len(d.events("worker_died")) == 3
    assert c.lrange("escape:mail", 0, -1) == [b"poison"] and record(c, "mail")["crashes"] == b"2"
    ended = collections.Counter(r[0] for r in ledger.rows("end"))
    assert set(ended) == set(names) and max(ended.values()) <= 2
    assert_told(ledger)
    assert not c.exists(NOTES)


def test_poison_for_one_that_stays(redis, quredisd, handler, ledger):
    """With a window: those beside it go back redelivered and alone, and it is charged when it was alone."""
    body = r"""
import os, sys
fd = os.open("@LEDGER@", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
while line := sys.stdin.buffer.readline():
    words = line.split()
    m = sys.stdin.buffer.read(int(words[3]) + 1).strip()
    os.write(fd, b"start %s %d\n" % (m, b"redelivered=1" in words))
    if m == b"poison":
        os.kill(os.getpid(), 9)
    os.write(fd, b"end %s\n" % m)
    print("OK", words[1].decode(), flush=True)
"""
    c = redis.client()
    quredisd(queues=[shared("mail", handler(body, "python"), mode="persistent", window=8, batch={"max": 16, "time": "60s"})])
    names = [f"m{i}" for i in range(30)]
    c.lpush("ingress:mail", *names[:15], "poison", *names[15:])
    wait_for(lambda: c.llen("escape:mail") and not anywhere(c, "mail"), 60, "all done")
    assert c.lrange("escape:mail", 0, -1) == [b"poison"] and record(c, "mail")["error_class"] == b"HandlerSignal"
    assert {r[0] for r in ledger.rows("end")} == set(names)
    assert_told(ledger)
    assert not c.exists(NOTES)


# ---- what goes back ----

def test_what_a_stop_hands_back_is_what_was_pushed(redis, quredisd, handler, ledger, tmp):
    c = redis.client()
    names = [f"m{i}" for i in range(12)]
    c.lpush("ingress:mail", *names)
    d = quredisd(queues=[shared("mail", handler(GATED), workers=2)], supervisor={"kill_grace": "300ms"})
    wait_for(lambda: len(ledger.rows("start")) == 2)
    assert d.stop(signal.SIGQUIT) == 0
    assert sorted(c.lrange("ingress:mail", 0, -1)) == sorted(n.encode() for n in names)
    started = {r[0] for r in ledger.rows("start")}
    assert notes(c) == {sha1(n): {"redelivered": 1} for n in started}
    assert WEEK_MS - 600_000 < c.pttl(NOTES) <= WEEK_MS
    (tmp / "go").touch()
    d.start()
    wait_for(lambda: not anywhere(c, "mail"), 40)
    assert ledger.flags() == {n: ["0", "1"] if n in started else ["0"] for n in names}
    assert not c.exists(NOTES) and not c.exists("escape:mail")


def test_equal_messages_share_a_note(redis, quredisd, handler, ledger, tmp):
    """Both messages may have run. When one is done, the note of both is deleted."""
    c = redis.client()
    d = quredisd(queues=[shared("mail", handler(GATED), workers=2)], supervisor={"kill_grace": "300ms"})
    c.lpush("ingress:mail", "twin", "twin")
    wait_for(lambda: len(ledger.rows("start")) == 2)
    assert d.stop(signal.SIGQUIT) == 0
    assert c.lrange("ingress:mail", 0, -1) == [b"twin", b"twin"] and notes(c).keys() == {sha1("twin")}
    (tmp / "go").touch()
    d.start()
    wait_for(lambda: not anywhere(c, "mail"), 40)
    assert len(ledger.rows("end")) == 2 and not c.exists(NOTES)


@pytest.mark.parametrize("told_by", ["registry", "registration", "own"])
def test_a_host_that_does_not_serve_it_returns_them(redis, quredisd, handler, ledger, tmp, tag, told_by):
    """It knows that the queue is shared by the registry, or if another wrote that, by the dead worker's registration."""
    c = redis.client()
    a = quredisd(queues=[shared("mail", handler(GATED), workers=1)], supervisor={"node": f"{tag}a", "lease": "1s"})
    c.lpush("ingress:mail", "m0")
    wait_for(lambda: ledger.rows("start"))
    a.kill_tree()
    if told_by == "registration":
        c.set("quredis:queue:mail", entry("mail"))
    if told_by == "registry":
        owner = next(iter(c.hgetall("transit:mail:workers")))
        c.hset("transit:mail:workers", owner, json.dumps({"lock": "x", "node": "a", "pid": 1, "since": 1, "lease": 1000}))
    other = shared("mail", handler(GATED), workers=0) if told_by == "own" else queue("news", handler("cat"))
    b = quredisd(queues=[other], supervisor={"node": f"{tag}b", "lease": "1s"})
    wait_for(lambda: c.lrange("ingress:mail", 0, -1) == [b"m0"], 40, "it to be returned as it was pushed")
    b.wait_event("owner_lost")
    assert notes(c) == {sha1("m0"): {"redelivered": 1, "outages": 1, "solo": 1}}
    (tmp / "go").touch()
    a.start()
    wait_for(lambda: not anywhere(c, "mail"), 40)
    assert ledger.flags() == {"m0": ["0", "1"]} and not c.exists(NOTES)


def test_the_registry_is_told_again(redis, quredisd, handler):
    """The gem writes its entry when it starts, and knows nothing of the word. An entry of other lists is left alone."""
    c = redis.client()
    entries = {q: entry(q, escape=f"escape:{e}") for q, e in (("mail", "mail"), ("news", "news"), ("posts", "other"))}
    quredisd(queues=[shared("mail", handler("cat")), queue("news", handler("cat")), shared("posts", handler("cat"))], supervisor={"lease": "1s"})
    wait_for(lambda: all(c.exists(f"quredis:queue:{q}") for q in entries), what="the first entries")
    for q, text in entries.items():
        c.set(f"quredis:queue:{q}", text)
    wait_for(lambda: json.loads(c.get("quredis:queue:mail")).get("shared"), 20, "the word")
    assert json.loads(c.get("quredis:queue:mail")) == {**json.loads(seen(entries["mail"])), "shared": True}
    # the next look has come when the word is there once more
    c.set("quredis:queue:mail", entries["mail"])
    wait_for(lambda: json.loads(c.get("quredis:queue:mail")).get("shared"), 20, "the word")
    assert [c.get(f"quredis:queue:{q}").decode() for q in ("news", "posts")] == [seen(entries["news"]), seen(entries["posts"])]


# ---- what there is not ----

@pytest.mark.parametrize("mode", ["exec", "persistent"])
def test_a_retry_that_is_asked_for_is_a_failure(redis, quredisd, handler, mode):
    c = redis.client()
    bodies = {"exec": "cat >/dev/null; echo busy >&2; exit 75",
              "persistent": 'while read -r job serial n size; do read -r m; echo "RETRY $serial 5s busy"; done'}
    d = quredisd(queues=[shared("mail", handler(bodies[mode]), mode=mode)])
    c.lpush("ingress:mail", "m")
    wait_for(lambda: c.llen("escape:mail") == 1)
    r = record(c, "mail")
    assert r["error_class"] == {"exec": b"HandlerExit", "persistent": b"HandlerFail"}[mode]
    assert b"busy" in r["error_message"] and b"there is none in a shared queue" in r["error_message"]
    assert c.lrange("escape:mail", 0, -1) == [b"m"] and not c.exists("quredis:of:ingress:mail:delayed", NOTES)
    assert d.wait_event("message_escaped") and not d.events("message_retried")


def test_nothing_is_stamped_though_somebody_wants_to_know_ages(redis, quredisd, handler):
    c = redis.client()
    now = c.time()[0] * 1000
    told = b"quredis/1 enqueued=%d\nknown" % (now - 3600_000)
    c.lpush("ingress:mail", "raw0", "raw1")
    c.lpush("ingress:news", "stamped")
    d = quredisd(queues=[shared("mail", handler("cat"), workers=0), queue("news", handler("cat"), workers=0)],
                 health={"enabled": True, "interval": "1s"}, purge={"enabled": True, "interval": "1s", "max_ingress_age": "1s"})
    wait_for(lambda: c.llen("escape:news") == 1, 30, "what waits elsewhere to be purged")

    def report():
        text = c.hget("quredis:health", "mail")
        return text and json.loads(text)["ingress"]
    first = wait_for(report, 20)
    assert first["size"] == 2 and not {"oldest_age", "avg_age"} & first.keys()
    c.lpush("ingress:mail", told)
    wait_for(lambda: (report() or {}).get("oldest_age", 0) >= 3600, 20, "what one says of itself to count")
    assert c.lrange("ingress:mail", 0, -1) == [told, b"raw1", b"raw0"]
    assert not d.events("queue_error")


def test_another_consumers_list_is_its_own(redis, quredisd, handler, ledger):
    """What is in work there is not taken at the start; by hand it is."""
    c = redis.client()
    c.lpush("transit:mail", "theirs")
    d = quredisd(queues=[shared("mail", handler(FAILS_SOME))])
    c.lpush("ingress:mail", "ours")
    wait_for(lambda: not c.llen("ingress:mail") and ledger.rows("end"))
    d.restart()
    assert c.lrange("transit:mail", 0, -1) == [b"theirs"]
    r = d.quredis("retry", "mail", "transit")
    assert r.code == 0 and c.lrange("transit:mail", 0, -1) == [b"theirs"]
    assert d.quredis("retry", "mail", "transit", "--force").code == 0
    wait_for(lambda: "theirs" in ledger.flags())
    assert ledger.flags()["theirs"] == ["1"] and not c.exists("transit:mail")


# ---- trouble ----

@pytest.mark.parametrize("what", ["lose_request", "lose_reply"])
@pytest.mark.parametrize("command", [b"HMGET", b"EVALSHA", b"BRPOPLPUSH"], ids=lambda c: c.decode())
def test_a_lost_request_or_answer(redis, redis_proxy, quredisd, handler, ledger, tmp, what, command):
    """What is remembered is asked for again; nothing runs before it is known."""
    c, proxy = redis.client(), redis_proxy(redis)
    d = quredisd(redis=proxy, queues=[shared("mail", handler(FAILS_SOME))], supervisor={"lease": "2s"})
    d.wait_workers("mail", 1)
    for i in range(3):
        lost = proxy.lost
        c.hset(NOTES, sha1(f"b{i}"), "crashes=1 redelivered=1 solo=1")
        getattr(proxy, what)(command)
        c.lpush("ingress:mail", f"a{i}", f"b{i}", f"fail{i}")
        wait_for(lambda: proxy.lost > lost, 20, "the loss")
        wait_for(lambda: {f"a{i}", f"b{i}", f"fail{i}"} <= set(ledger.flags()) and not anywhere(c, "mail"), 40, "everything done")
    assert ledger.flags() == {f"{x}{i}": ["1" if x == "b" else "0"] for x in ("a", "b", "fail") for i in range(3)}
    assert len(c.lrange("escape:mail", 0, -1)) == 3 and not c.exists(NOTES)


def test_notes_that_cannot_be_read(redis, quredisd, handler, ledger):
    """What may be poison does not run; nothing is lost, the log says what to mend, and it goes on by itself."""
    c = redis.client()
    c.set(NOTES, "of another program")
    d = quredisd(queues=[shared("mail", handler(FAILS_SOME))], wait=False)
    c.lpush("ingress:mail", "m0")
    told = d.wait_event("queue_error", queue="mail")
    assert NOTES in told["error"] and "hash" in told["error"]
    c.delete(NOTES)
    wait_for(lambda: ledger.flags() == {"m0": ["0"]}, 40)
    wait_for(lambda: not anywhere(c, "mail"))
    since = d.mark()
    c.set(NOTES, "again")
    c.lpush("ingress:mail", "m1")
    assert d.wait_event("redis_error", since=since, at="notes")["error"].startswith("WRONGTYPE")
    assert in_transit(c, "mail") == [b"m1"] and "m1" not in ledger.flags()
    c.delete(NOTES)
    wait_for(lambda: ledger.flags().get("m1") == ["0"], 40)
    d.wait_event("redis_error_cleared", since=since)
    assert d.stop() == 0 and not anywhere(c, "mail")


def test_one_that_becomes_shared(redis, quredisd, handler, ledger, tmp):
    """What was put before a message until then is taken off when it next passes through quredis's hands, and counts until then."""
    c = redis.client()
    line = b"quredis/1 w=000000000000000%d %s\n"
    c.lpush("ingress:mail", sealed(c, line % (1, b"redelivered=1") + b"flagged"), sealed(c, line % (2, b"own=1700000000000") + b"stamped"))
    c.zadd("quredis:of:ingress:mail:delayed", {sealed(c, line % (3, b"attempts=1 first_failed=1") + b"delayed"): 1})
    d = quredisd(queues=[shared("mail", handler(GATED), workers=3)], supervisor={"kill_grace": "300ms"})
    wait_for(lambda: len(ledger.rows("start")) == 3)
    assert ledger.flags() == {"flagged": ["1"], "stamped": ["0"], "delayed": ["0"]}
    assert d.stop(signal.SIGQUIT) == 0
    assert sorted(c.lrange("ingress:mail", 0, -1)) == [b"delayed", b"flagged", b"stamped"]
    (tmp / "go").touch()
    d.start()
    wait_for(lambda: not anywhere(c, "mail"), 40)
    assert {n: f[1] for n, f in ledger.flags().items()} == {"flagged": "1", "stamped": "1", "delayed": "1"} and not c.exists(NOTES)


# ---- the command line ----

def test_dead_letters_go_back_as_they_were_pushed(redis, quredisd, handler, ledger, tmp):
    c = redis.client()
    body = NOTE + '[ -e @TMP@/go ] || exit 3; echo "end $m" >>@LEDGER@'
    d = quredisd(queues=[shared("mail", handler(body))])
    long_ago = c.time()[0] * 1000 - 10_000
    late = b"quredis/1 id=late ttl=1h enqueued=%d\nlate" % long_ago
    c.lpush("ingress:mail", "m0", "m1", late)
    wait_for(lambda: c.llen("escape:mail") == 3)
    assert d.quredis("pause", "mail").code == 0
    d.wait_event("queue_paused")
    ids = [i.decode() for i, _ in c.xrange("escape:mail:log")]
    assert d.quredis("dlq", "retry", "mail", ids[0]).code == 0
    assert d.quredis("retry", "mail", "escape").code == 0
    assert set(c.lrange("ingress:mail", 0, -1)) == {b"m0", b"m1", late}
    assert set(notes(c)) == {sha1(late)} and list(notes(c)[sha1(late)]) == ["own", "redriven"]
    (tmp / "go").touch()
    assert d.quredis("resume", "mail").code == 0
    wait_for(lambda: not anywhere(c, "mail"), 40)
    assert {r[0] for r in ledger.rows("end")} == {"m0", "m1", "late"} and not c.exists(NOTES)


def test_one_with_its_own_time_that_is_over_is_put_back(redis, quredisd, handler, ledger):
    """It waits since then: else it would be too old again before anybody could look at it."""
    c = redis.client()
    old = b"quredis/1 ttl=1h enqueued=%d\nold" % (c.time()[0] * 1000 - 2 * 3600_000)
    c.lpush("ingress:mail", old)
    d = quredisd(queues=[shared("mail", handler(FAILS_SOME))])
    wait_for(lambda: c.llen("escape:mail") == 1, 30, "it to be too old")
    assert record(c, "mail")["error_class"] == b"TTLExpired"
    assert d.quredis("retry", "mail", "escape").code == 0
    wait_for(lambda: ledger.flags() == {"old": ["0"]})
    wait_for(lambda: not anywhere(c, "mail"))
    assert not c.exists(NOTES)


def test_delay_is_refused_and_a_header_is_not(redis, quredisd, handler, quredis, tmp):
    c = redis.client()
    d = quredisd(queues=[shared("mail", handler("cat"), workers=0)])
    refused = d.quredis("push", "mail", "m", "--delay", "1s")
    assert refused.code == 64 and "shared" in refused.err
    assert d.quredis("push", "mail", "m", "--ttl", "1h").code == 0
    assert re.fullmatch(rb"quredis/1 ttl=1h enqueued=\d+\nm", c.lindex("ingress:mail", 0))
    refused = quredis("push", "mail", "m", "--delay", "1s")         # without a configuration: the registry says so
    assert refused.code == 64 and "shared" in refused.err
    assert not c.exists("quredis:of:ingress:mail:delayed")


def test_messages_of_the_dead_put_back_by_hand(redis, quredis):
    """Where no configuration names the queue: by what the dead worker said when it registered."""
    c = redis.client()
    owner = "far.0123456789abcdef.3.1"
    c.zadd("quredis:queues", {"mail": 1})
    c.set("quredis:queue:mail", entry("mail"))
    c.hset("transit:mail:workers", owner, json.dumps({"lock": "l", "node": "x", "pid": 1, "since": 1, "shared": True}))
    c.lpush(f"transit:mail:{owner}:1", "m0", "m1")
    c.hset(NOTES, sha1("m1"), "crashes=1 redelivered=1")
    assert quredis("retry", "mail", "transit").code == 0
    assert c.lrange("ingress:mail", 0, -1) == [b"m1", b"m0"]
    assert notes(c) == {sha1("m0"): {"redelivered": 1}, sha1("m1"): {"crashes": 1, "redelivered": 2}}
    assert c.pttl(NOTES) > 0


@pytest.mark.parametrize("how", [["dlq", "retry", "mail", "ID"], ["dlq", "retry", "mail", "--all", "--rate", "1000/s"], ["retry", "mail", "escape"]],
                         ids=["one", "paced", "all"])
def test_dead_letters_put_back_by_hand_where_the_registry_does_not_tell(redis, quredis, how):
    """The gem wrote the entry anew, no configuration names the queue: what a worker said when it registered is known all the same."""
    c = redis.client()
    q = Queue(c)
    ids = q.dead_letters(b"m0")
    c.hset(q.workers, "far.0123456789abcdef.3.1", json.dumps({"lock": "l", "node": "x", "pid": 1, "since": 1, "shared": True}))
    r = quredis(*[ids[0] if word == "ID" else word for word in how])
    assert r.code == 0 and c.lrange("ingress:mail", 0, -1) == [b"m0"], r.err
    refused = quredis("push", "mail", "m", "--delay", "1s")
    assert refused.code == 64 and "shared" in refused.err
