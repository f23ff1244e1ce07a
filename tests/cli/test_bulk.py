"""quredis purge, retry, destroy, dlq: what moves or deletes messages."""
import base64
import json
import signal
import subprocess
import threading

import pytest

from harness import QUREDIS, wait_for
from harness.queues import Queue, dumps, incarnation, now_ms, sha1, strip, wrapper
from harness.messages import sealed
from harness.redis_proxy import Once

MESSAGES = [b"m%d" % i for i in range(25)] + [b"same"] * 5 + [b"\0\xff\n", b"", b"quredis/1 id=5\nx"]

# ---- purge ----


def what(which):
    """As the summary of a command calls them."""
    return "dead letters of mail" if which == "escape" else f"messages of {which}"


@pytest.mark.parametrize("which", ["ingress", "escape", "delayed"])
def test_purge(quredis, redis, which):
    c = redis.client()
    q, other = Queue(c), Queue(c, "other")
    for name in (q, other):
        c.lpush(name.ingress, *MESSAGES)
        name.dead_letters(*MESSAGES)
        c.zadd(name.delayed, {f"d{i}": i for i in range(9)})
    n = 9 if which == "delayed" else len(MESSAGES)
    before = dumps(c)
    r = quredis("purge", "mail", which, "--dry-run")
    assert (r.code, r.out, r.err) == (0, f"would purge {n} {what(which)}\n", "") and dumps(c) == before
    assert quredis("purge", "mail", which).out == f"purged {n} {what(which)}\n"
    gone = {getattr(q, which).encode()} | ({q.log.encode()} if which == "escape" else set())
    assert dumps(c) == {k: v for k, v in before.items() if k not in gone}
    again = json.loads(quredis("purge", "mail", which, "--json").out)
    assert again == {"queue": "mail", "action": "purge", "list": which, "count": 0, "held": 0, "interrupted": False, "dry_run": False}


def test_purge_transit_leaves_live_workers_alone(quredis, redis):
    c = redis.client()
    q = Queue(c)
    q.worker(incarnation(0), t0=["live"], t1=["live2"])
    q.worker(incarnation(1), alive=False, t0=["dead"], t2=["dead2"], rescue=["dead3"])
    c.rpush(q.transit, "bare")
    c.rpush(q.transit + ":rescue", "bare2")
    before = dumps(c)
    r = quredis("purge", "mail", "transit", "--dry-run")
    assert r.out == "would purge 5 messages of transit\n" and "2 messages with live workers" in r.err and dumps(c) == before
    r = quredis("purge", "mail", "transit")
    assert r.out == "purged 5 messages of transit\n" and "2 messages with live workers left alone" in r.err
    assert {k for k in dumps(c) if b"transit" in k} == {q.workers.encode(), *(f"{q.transit}:{k}".encode() for k in (
        f"lease:{incarnation(0)}", f"{incarnation(0)}:0", f"{incarnation(0)}:1"))}
    assert quredis("purge", "mail", "transit", "--force").out == "purged 2 messages of transit\n"
    assert json.loads(quredis("ls", "--json").out)[0]["transit_size"] == 0


@pytest.mark.parametrize("which, key", [("ingress", "ingress:mail"), ("escape", "escape:mail"), ("delayed", "quredis:of:ingress:mail:delayed"),
                                        ("transit", "transit:mail:workers"), ("transit", "transit:mail")])
@pytest.mark.parametrize("command", ["purge", "retry"])
def test_another_type_is_left_alone(quredis, redis, command, which, key):
    c = redis.client()
    Queue(c)
    c.set(key, "precious")
    before = dumps(c)
    r = quredis(command, "mail", which)
    if command == "retry" and which == "ingress":
        assert r.code == 64
    else:
        assert (r.code, r.out) == (78, "") and key in r.err and r.err.count("\n") == 1
    assert dumps(c) == before


def slow(client, *commands):
    """Commands that held the server up for more than 5 ms."""
    return [e for e in client.slowlog_get(1000) if e["command"].split(b" ")[0] in commands]


def watch(client):
    client.config_set("slowlog-log-slower-than", 5000)
    client.config_set("slowlog-max-len", 1000)
    client.slowlog_reset()


def fill(c, q, which):
    pipe = c.pipeline(transaction=False)
    for i in range(0, 100000, 1000):
        batch = [b"%08d" % j + b"x" * 90 for j in range(i, i + 1000)]
        if which == "delayed":
            pipe.zadd(q.delayed, {m: j for j, m in enumerate(batch)})
        else:
            pipe.lpush(getattr(q, which), *batch)
        if which == "escape" and i < 20000:
            for m in batch:
                pipe.xadd(q.log, {"sha1": sha1(m), "message": m})
    pipe.execute()


@pytest.mark.limit(240)
@pytest.mark.parametrize("which", ["ingress", "escape", "delayed"])
def test_purge_of_many_does_not_block(quredis, redis, which):
    """The purge is one command. The machine may interrupt the server during it once or twice, but not each time."""
    c = redis.client()
    q = Queue(c)
    held_up = 0
    for _ in range(3):
        fill(c, q, which)
        watch(c)
        assert quredis("purge", "mail", which).out == f"purged 100000 {what(which)}\n"
        held_up += bool(slow(c, b"EVALSHA", b"UNLINK", b"DEL", b"LTRIM"))
    assert held_up < 3


# ---- retry escape ----

def test_retry_escape_keeps_the_order(quredis, redis):
    c = redis.client()
    q = Queue(c)
    q.dead_letters(*MESSAGES)
    c.lpush(q.ingress, "waits")
    before = dumps(c)
    r = quredis("retry", "mail", "escape", "--dry-run")
    assert r.out == f"would retry {len(MESSAGES)} dead letters of mail\n" and dumps(c) == before
    start = now_ms()
    r = quredis("retry", "mail", "escape")
    assert (r.code, r.out) == (0, f"retried {len(MESSAGES)} dead letters of mail; 0 are left\n")
    got = q.fetched()
    assert got[0] == b"waits" and [strip(m) for m in got[1:]] == MESSAGES
    assert not c.exists(q.escape) and c.xlen(q.log) == 0
    ws = [wrapper(m) for m in got[1:]]
    assert len({w["w"] for w in ws}) == len(MESSAGES), "equal messages stay distinct"
    assert all(set(w) == {"w", "own", "redriven"} and w["own"] == w["redriven"] and start <= int(w["own"]) <= now_ms() for w in ws)


def test_retry_escape_drops_the_records_that_belong(quredis, redis):
    """Other programs add messages to escape and remove some, so records are paired with messages by value."""
    c = redis.client()
    q = Queue(c)
    q.dead_letters("foreign1", record=False)
    q.dead_letters(b"a", b"b", b"a")
    q.dead_letters("foreign2", record=False)
    orphan = q.record(b"taken by another")
    last, = q.dead_letters(b"a", error_class="HandlerTimeout")
    assert quredis("retry", "mail", "escape").code == 0
    assert [strip(m) for m in q.fetched()] == [b"foreign1", b"a", b"b", b"a", b"foreign2", b"a"]
    assert [i.decode() for i, _ in c.xrange(q.log)] == [orphan] and last != orphan


def test_retry_escape_pairs_the_oldest_first(quredis, redis):
    c = redis.client()
    q = Queue(c)
    ids = q.dead_letters(b"a", b"a", b"a")
    c.lpop(q.escape)
    assert quredis("retry", "mail", "escape").code == 0
    assert [i.decode() for i, _ in c.xrange(q.log)] == [ids[2]]


def test_retry_escape_of_wrapped_and_large(quredis, redis):
    c = redis.client()
    q = Queue(c)
    large = [bytes([65 + i]) * 700000 for i in range(12)]
    q.dead_letters(sealed(c, b"quredis/1 w=00000000000000aa attempts=3\nbody"), *large)
    assert quredis("retry", "mail", "escape").code == 0
    assert [strip(m) for m in q.fetched()] == [b"body", *large] and wrapper(q.fetched()[0])["attempts"] == "3"


def many(client, q, n, records=True):
    pipe = client.pipeline(transaction=False)
    for i in range(n):
        m = b"%08d" % i
        pipe.lpush(q.escape, m)
        if records:
            pipe.xadd(q.log, {"id": "x", "sha1": sha1(m), "size": 8, "message": m})
    pipe.execute()


@pytest.mark.limit(300)
def test_retry_of_many_does_not_block(quredis, redis):
    c = redis.client()
    q = Queue(c)
    many(c, q, 30000)
    watch(c)
    c.config_resetstat()
    assert quredis("retry", "mail", "escape", timeout=200).code == 0
    # some 30,000 scripts of 20 us each; one that walks the list would take 500
    assert c.info("commandstats")["cmdstat_evalsha"]["usec_per_call"] < 200
    assert len(slow(c, b"EVALSHA", b"LRANGE")) < 300
    assert [strip(m) for m in q.fetched()] == [b"%08d" % i for i in range(30000)]
    assert c.xlen(q.log) == 0 and not c.exists(q.escape)


@pytest.mark.limit(300)
@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM])
def test_retry_interrupted_and_run_again(quredis, redis, sig):
    c = redis.client()
    q = Queue(c)
    many(c, q, 40000)
    p = subprocess.Popen([QUREDIS, "-u", redis.url, "retry", "mail", "escape", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for(lambda: c.llen(q.ingress) > 500)
    p.send_signal(sig)
    out, err = p.communicate(timeout=60)
    said = json.loads(out)
    assert p.returncode == -sig and b"run the command again" in err and said["interrupted"] is True
    moved = c.llen(q.ingress)
    assert said["count"] == moved < 40000 and c.llen(q.escape) == 40000 - moved == c.xlen(q.log)
    assert json.loads(quredis("retry", "mail", "escape", "--json", timeout=200).out)["count"] == 40000 - moved
    assert [strip(m) for m in q.fetched()] == [b"%08d" % i for i in range(40000)] and c.xlen(q.log) == 0


def test_retry_interrupted_keeps_the_records_of_what_is_aside(redis, redis_proxy):
    """The rescue list is not empty yet when the retry is interrupted."""
    c = redis.client()
    q = Queue(c)
    c.rpush("transit:mail:rescue", *[b"m%d" % i for i in range(500)])
    c.lpush("transit:mail:aside", "a")
    c.xadd("transit:mail:aside:log", {"error_message": "why"})
    proxy = redis_proxy(redis)
    started = threading.Event()

    def interrupt():
        started.wait()
        p.send_signal(signal.SIGINT)
    proxy.tap = Once("return", "transit:mail:rescue", interrupt)
    p = subprocess.Popen([QUREDIS, "-u", proxy.url, "retry", "mail", "transit", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    started.set()
    out, err = p.communicate(timeout=60)
    assert p.returncode == -signal.SIGINT and json.loads(out)["interrupted"] is True, err
    assert c.lrange("transit:mail:aside", 0, -1) == [b"a"] and 0 < c.llen(q.ingress) < 500
    assert c.xlen("transit:mail:aside:log") == 1


def test_retry_keeps_the_record_of_what_is_set_aside_meanwhile(redis, redis_proxy, quredis):
    c = redis.client()
    q = Queue(c)

    def set_aside(message):
        c.lpush("transit:mail:aside", message)
        c.xadd("transit:mail:aside:log", {"error_message": "why"})
    set_aside("a")
    proxy = redis_proxy(redis)
    proxy.tap = Once("aside_forget", "transit:mail:aside:log", lambda: set_aside("b"))
    assert quredis("-u", proxy.url, "retry", "mail", "transit").code == 0
    assert [strip(m) for m in q.fetched()] == [b"a"] and c.lrange("transit:mail:aside", 0, -1) == [b"b"]
    assert c.xlen("transit:mail:aside:log") == 2
    assert quredis("-u", proxy.url, "retry", "mail", "transit").code == 0
    assert not c.keys("transit:mail:aside*")


@pytest.mark.limit(300)
def test_redis_dies_during_retry(quredis, redis_server):
    server = redis_server(aof="always")
    q = Queue(server.client())
    many(server.client(), q, 3000)
    p = subprocess.Popen([QUREDIS, "-u", server.url, "retry", "mail", "escape"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for(lambda: server.client().llen(q.ingress) > 300, interval=0.001)
    server.kill9()
    out, err = p.communicate(timeout=60)
    assert p.returncode == 69 and out == b"" and b"run the command again" in err and b"quredis: Redis:" in err
    server.start()
    q.client = server.client()
    assert quredis("retry", "mail", "escape", url=server.url, timeout=200).code == 0
    assert [strip(m) for m in q.fetched()] == [b"%08d" % i for i in range(3000)]


def test_retry_at_maxmemory(quredis, redis_server):
    """A command that frees memory must work at maxmemory."""
    server = redis_server(config={"maxmemory-policy": "noeviction"})
    c = server.client()
    q = Queue(c)
    q.dead_letters(*MESSAGES)
    q.worker(incarnation(0), alive=False, t0=["x"])
    c.zadd(q.delayed, {"d": 1e15})
    c.config_set("maxmemory", 1)
    for which in ("escape", "transit", "delayed"):
        assert quredis("retry", "mail", which, url=server.url).code == 0
    assert len(q.fetched()) == len(MESSAGES) + 2


# ---- retry transit, delayed ----

def test_retry_transit_of_dead_owners(quredis, redis):
    c = redis.client()
    q = Queue(c)
    live = q.worker(incarnation(0), t0=["live2", "live1"])
    q.worker(incarnation(1), alive=False, t0=["d3", "d2", "d1"], rescue=["r2", "r1"])
    c.lpush(q.ingress, "waits")
    before = dumps(c)
    r = quredis("retry", "mail", "transit", "--dry-run")
    assert r.out == "would move back to ingress: 5 messages of transit\n" and dumps(c) == before
    r = quredis("retry", "mail", "transit")
    assert r.out == "moved back to ingress: 5 messages of transit\n" and "2 messages with live workers" in r.err
    got = q.fetched()
    assert [strip(m) for m in got] == [b"d1", b"d2", b"d3", b"r1", b"r2", b"waits"]
    assert [wrapper(m).get("redelivered") for m in got] == ["1"] * 5 + [None]
    assert c.lrange(f"{q.transit}:{live}:0", 0, -1) == [b"live2", b"live1"] and c.exists(f"{q.transit}:lease:{live}")
    assert quredis("retry", "mail", "transit").out == "moved back to ingress: 0 messages of transit\n"
    # with --force the owner is fenced: its lease and trays are gone
    assert quredis("retry", "mail", "transit", "--force").out == "moved back to ingress: 2 messages of transit\n"
    assert not c.exists(f"{q.transit}:lease:{live}") and [strip(m) for m in q.fetched()][:2] == [b"live1", b"live2"]


def test_retry_of_the_bare_list(quredis, redis):
    """Messages that a plain consumer's crash left in the bare list return, as with the gem's retry."""
    c = redis.client()
    q = Queue(c, "mail", "read_later", "reading_now", "trash")
    c.lpush(q.transit, *[b"%d" % i for i in range(250)])
    assert quredis("retry", "mail", "transit").code == 0
    assert [strip(m) for m in q.fetched()] == [b"%d" % i for i in range(250)]
    assert not c.exists(q.transit) and not c.exists(q.transit + ":rescue")


def test_retry_transit_keeps_what_is_known(quredis, redis):
    c = redis.client()
    q = Queue(c)
    q.worker(incarnation(1), alive=False, t0=[sealed(c, b"quredis/1 w=00000000000000aa attempts=2 crashes=1 own=1700000000000\nbody")])
    assert quredis("retry", "mail", "transit").code == 0
    m, = q.fetched()
    assert strip(m) == b"body" and {**wrapper(m), "w": 0} == {"w": 0, "attempts": "2", "crashes": "1", "redelivered": "1", "own": "1700000000000"}


def test_retry_delayed(quredis, redis):
    c = redis.client()
    q = Queue(c)
    c.zadd(q.delayed, {b"%d" % i: 4e12 + i for i in range(250)})
    assert quredis("retry", "mail", "delayed", "--dry-run").out == "would move back to ingress: 250 messages of delayed\n"
    assert c.zcard(q.delayed) == 250
    assert quredis("retry", "mail", "delayed").out == "moved back to ingress: 250 messages of delayed\n"
    assert q.fetched() == [b"%d" % i for i in range(250)] and not c.exists(q.delayed)


# ---- destroy ----

def whole_queue(c, name="mail"):
    q = Queue(c, name)
    c.lpush(q.ingress, "a")
    q.dead_letters(b"b")
    c.zadd(q.delayed, {"c": 1})
    c.xadd(q.own + ":done", {"x": 1})
    c.hset(q.own + ":stats", "x", 1)
    c.set(q.paused, "x")
    c.set(q.own + ":sweeper", "x")
    c.rpush(q.transit, "d")
    c.rpush(q.transit + ":rescue", "e")
    for age in (0, 1, 99, 4000, 4319):
        c.hset(f"{q.own}:rate:{now_ms() // 60000 - age}", "done", 1)
    for age in (0, 1, 71, 72):
        c.hset(f"{q.own}:backlog:{now_ms() // 3600000 - age}", "0", 1)
    for slot in range(5):
        q.worker(incarnation(slot), alive=False, t0=["f"], t1=["g"], t2=["h"], rescue=["i"])
    return q


def test_destroy_removes_every_key(quredis, redis):
    c = redis.client()
    whole_queue(c, "other")
    others = dumps(c)
    c.zrem("quredis:queues", "other")
    q = whole_queue(c)
    c.lpush(q.transit + ":aside", "set aside")
    c.xadd(q.transit + ":aside:log", {"size": 9})
    c.hset(q.escape + ":operations", "0123456789abcdef:what", "dlq retry")
    c.set(q.escape + ":redriven:0123456789abcdef", "0" * 16)
    c.zadd("quredis:queues", {"other": 1})
    before = dumps(c)
    r = quredis("destroy", "mail")
    assert r.code == 64 and "--yes" in r.err and dumps(c) == before
    r = quredis("destroy", "mail", "--dry-run")
    assert r.code == 0 and "would destroy mail with 1 waiting, 23 in transit, 1 escaped, 1 delayed" in r.out and dumps(c) == before
    assert quredis("destroy", "mail", "--yes").out == "destroyed mail with 1 waiting, 23 in transit, 1 escaped, 1 delayed\n"
    assert dumps(c) == others
    assert quredis("destroy", "mail", "--yes").code == 66


def test_destroy_refuses_while_workers_live(quredis, redis):
    c = redis.client()
    q = whole_queue(c)
    q.worker(incarnation(9), t0=["x"])
    before = dumps(c)
    for more in ([], ["--dry-run"]):
        r = quredis("destroy", "mail", "--yes", *more)
        assert r.code == 75 and r.out == "" and "1 worker of mail is alive: remove the queue from the configuration" in r.err
        assert "quredis reload" in r.err and dumps(c) == before
    assert quredis("destroy", "mail", "--yes", "--force").code == 0
    assert dumps(c).keys() <= {b"quredis:secret"}


def test_destroy_with_wrong_types(quredis, redis):
    c = redis.client()
    q = Queue(c)
    for key in (q.ingress, q.transit, q.escape, q.delayed, q.log, q.workers):
        c.set(key, "x")
    assert quredis("destroy", "mail", "--yes").code == 0
    assert dumps(c).keys() <= {b"quredis:secret"}


# ---- dlq ----

def test_dlq_ls(quredis, redis):
    c = redis.client()
    q = Queue(c)
    first, second = q.dead_letters(b"a", b"bb")
    third, = q.dead_letters(b"c", error_class="HandlerTimeout", exit_code="", signal="SIGTERM", error_message="timed \x1b[1mout\n", attempts="3")
    q.dead_letters("foreign", record=False)
    r = quredis("dlq", "ls", "mail")
    lines = r.out.splitlines()
    assert lines[0].split() == "Record Failed at Class Exit Signal Attempts Size Error".split()
    assert [line.split()[0] for line in lines[1:]] == [third, second, first]
    assert lines[1].split()[1:] == ["2026-11-20T14:31:07.123Z", "HandlerTimeout", "-", "SIGTERM", "3", "1", "timed", r"\033[1mout\n"]
    assert "3 shown of 4 dead letters; 1 or more have no record" in r.err
    rows = json.loads(quredis("dlq", "ls", "mail", "--json").out)
    assert [x["record"] for x in rows] == [third, second, first] and rows[1]["exit_code"] == 3 and rows[0]["exit_code"] is None
    assert rows[1]["id"] == f"sha1:{sha1(b'bb')}" and (rows[1]["message"], rows[1]["cut"]) == ("bb", False) and "stderr" not in rows[0]
    assert [x["record"] for x in json.loads(quredis("dlq", "ls", "mail", "--json", "--class", "HandlerExit").out)] == [second, first]
    assert "2 shown, of those that match, of 4 dead letters; 1 or more" in quredis("dlq", "ls", "mail", "-C", "HandlerExit").err
    r = quredis("dlq", "ls", "mail", "-C", "HandlerExti")
    assert r.code == 0 and "no dead letter of mail has the class HandlerExti (did you mean HandlerExit?)" in r.err
    r = quredis("dlq", "ls", "mail", "--json", "-C", "Nothing")
    assert json.loads(r.out) == [] and r.err.strip() == "no dead letter of mail has the class Nothing"
    assert [x["record"] for x in json.loads(quredis("dlq", "ls", "mail", "--json", "--limit", "1").out)] == [third]


def test_dlq_ls_pages(quredis, redis):
    q = Queue(redis.client())
    ids = q.dead_letters(*[b"%d" % i for i in range(100)])
    assert [r["record"] for r in json.loads(quredis("dlq", "ls", "mail", "--json").out)] == ids[:49:-1]
    assert [r["record"] for r in json.loads(quredis("dlq", "ls", "mail", "--json", "-n", "500").out)] == ids[::-1]


def test_dlq_ls_has_the_beginning_of_each_message(quredis, redis):
    q = Queue(redis.client())
    binary = b"\xff\0" * 400
    umlauts = ("x" + "ü" * 300).encode()        # the 512th byte is the first half of one
    q.dead_letters(b"", b"a" * 512, b"b" * 513, umlauts, ("€" * 300).encode(), "😀".encode() * 200, binary, b"L" * 70000, b"short\xe2")
    q.record(b"odd", size="many")
    rows = json.loads(quredis("dlq", "ls", "mail", "--json").out)[::-1]
    shown = [r["message"] if "message" in r else base64.b64decode(r["message_base64"]) for r in rows]
    assert shown == ["", "a" * 512, "b" * 512, "x" + "ü" * 255, "€" * 170, "😀" * 128, binary[:512], None, b"short\xe2", None]
    assert [r["cut"] for r in rows] == [False, False, True, True, True, True, True, None, False, None]
    assert "message" not in quredis("dlq", "ls", "mail").out and "bbb" not in quredis("dlq", "ls", "mail").out


def test_dlq_show(quredis, redis):
    q = Queue(redis.client())
    large = b"L" * 70000
    first, second = q.dead_letters(b"quredis/1 id=order-5\n\xff\0", large, stderr="one\ntwo\n")
    d = json.loads(quredis("dlq", "show", "mail", "--json", first).out)
    assert d["record"] == first and d["message_base64"] and d["exit_code"] == 3 and d["stderr"] == "one\ntwo\n"
    assert set(d) - {"record", "message_base64"} | {"message"} == set(
        "id queue queue_from error_class error_message failed_at retry_count attempts crashes exit_code signal stderr duration_ms "
        "node worker handler first_failed_at request_id root depth traceparent sha1 size message".split())
    d = json.loads(quredis("dlq", "show", "mail", "--json", f"sha1:{sha1(large)}").out)
    assert d["record"] == second and d["message"] == large.decode()
    out = quredis("dlq", "show", "mail", first).out
    assert "error_class" in out and r"\377\0" in out and "\xff" not in out
    for wrong in ("1-1", "nothing", "9" * 21 + "-1"):
        r = quredis("dlq", "show", "mail", wrong)
        assert (r.code, r.out) == (66, "") and wrong in r.err


def test_dlq_retry_one(quredis, redis):
    c = redis.client()
    q = Queue(c)
    large = b"L" * 70000
    ids = q.dead_letters(b"a", b"same", large, b"same", b"z")
    before = dumps(c)
    assert quredis("dlq", "retry", "mail", "--dry-run", ids[1]).out == "would retry 1 dead letter of mail\n"
    assert dumps(c) == before
    assert quredis("dlq", "retry", "mail", ids[2]).code == 0
    r = quredis("dlq", "retry", "mail", f"sha1:{sha1(b'same')}")
    assert r.code == 0 and "2 records have the id" in r.err and ids[3] in r.err
    assert [strip(m) for m in q.fetched()] == [large, b"same"]
    assert c.lrange(q.escape, 0, -1) == [b"z", b"same", b"a"] and [i.decode() for i, _ in c.xrange(q.log)] == [ids[0], ids[1], ids[4]]
    c.lrem(q.escape, 0, "z")
    before = dumps(c)
    r = quredis("dlq", "retry", "mail", ids[4])
    assert r.code == 66 and r.out == "" and "no longer in escape:mail" in r.err and dumps(c) == before
    assert quredis("dlq", "retry", "mail", "--all").out == "retried 2 dead letters of mail; 0 are left\n"


@pytest.mark.parametrize("command", ["retry", "rm"])
def test_dlq_several(quredis, redis, command):
    c = redis.client()
    q = Queue(c)
    ids = q.dead_letters(b"a", b"b", b"c", b"d", b"e")
    before = dumps(c)
    r = quredis("--json", "dlq", command, "mail", "--dry-run", ids[0], ids[2])
    assert r.code == 0 and json.loads(r.out)["count"] == 2 and dumps(c) == before
    assert json.loads(quredis("--json", "dlq", command, "mail", ids[0], ids[2]).out)["count"] == 2
    r = quredis("--json", "dlq", command, "mail", ids[0], ids[3], "1-1")
    assert r.code == 66 and json.loads(r.out)["count"] == 1 and ids[0] in r.err and "1-1" in r.err
    assert c.lrange(q.escape, 0, -1) == [b"e", b"b"]
    assert [strip(m) for m in q.fetched()] == ([b"a", b"c", b"d"] if command == "retry" else [])
    r = quredis("dlq", command, "mail", "1-1", "2-2")
    assert (r.code, r.out) == (66, "")


@pytest.mark.parametrize("command", ["retry", "rm"])
def test_dlq_of_a_class(quredis, redis, command):
    c = redis.client()
    q = Queue(c)
    for i in range(40):
        q.dead_letters(b"h%d" % i)
        q.dead_letters(b"t%d" % i, error_class="TTLExpired")
    before = dumps(c)
    assert json.loads(quredis("--json", "dlq", command, "mail", "--all", "-C", "TTLExpired", "--dry-run").out)["count"] == 40
    assert json.loads(quredis("--json", "dlq", command, "mail", "--all", "-C", "Rejected").out)["count"] == 0
    assert dumps(c) == before
    assert json.loads(quredis("--json", "dlq", command, "mail", "--all", "-C", "TTLExpired").out)["count"] == 40
    assert c.lrange(q.escape, 0, -1) == [b"h%d" % i for i in reversed(range(40))] and c.xlen(q.log) == 40
    assert [strip(m) for m in q.fetched()] == ([b"t%d" % i for i in range(40)] if command == "retry" else [])
    for wrong in (["-C", "TTLExpired", "1-1"], ["--canary", "1-1"]):
        assert quredis("dlq", "retry", "mail", *wrong).code == 64


@pytest.mark.parametrize("command", ["retry", "rm"])
def test_dlq_names_of_one_letter_are_one_letter(quredis, redis, command):
    c = redis.client()
    q = Queue(c)
    ids = q.dead_letters(b"a", b"a", b"b")
    words = ["--json", "dlq", command, "mail", ids[1], ids[1], f"sha1:{sha1(b'a')}", f"sha1:{sha1(b'a')}"]
    for dry_run in (["--dry-run"], []):
        r = quredis(*dry_run, *words)
        assert r.code == 0 and json.loads(r.out)["count"] == 1, r
    assert c.lrange(q.escape, 0, -1) == [b"b", b"a"] and [i.decode() for i, _ in c.xrange(q.log)] == [ids[0], ids[2]]


def test_dlq_retry_of_a_class_leaves_what_fails_again(quredis, redis):
    c, n = redis.client(), 100
    q = Queue(c)
    q.dead_letters(*(b"%d" % i for i in range(n)))

    def fail():
        client = redis.client()
        other = Queue(client, register=False)
        while (message := client.brpop("ingress:mail", 30)[1]) != b"end":
            other.dead_letters(strip(message))
    failing = threading.Thread(target=fail)
    failing.start()
    r = quredis("--json", "dlq", "retry", "mail", "--all", "-C", "HandlerExit")
    c.lpush(q.ingress, "end")
    failing.join(30)
    assert r.code == 0 and json.loads(r.out)["count"] == n, r
    assert not failing.is_alive() and c.llen(q.escape) == c.xlen(q.log) == n


@pytest.mark.parametrize("command", ["retry", "rm"])
def test_dlq_reads_each_record_once(quredis, redis, command):
    c = redis.client()
    ids = Queue(c).dead_letters(b"a", b"b", b"c")
    c.config_resetstat()
    assert quredis("dlq", command, "mail", ids[0], ids[2]).code == 0
    # once to find it, and once in the script that moves or deletes it
    assert c.info("commandstats")["cmdstat_xrange"]["calls"] == 2 * 2
    assert [i.decode() for i, _ in c.xrange("escape:mail:log")] == [ids[1]]


def test_dlq_rm(quredis, redis):
    c = redis.client()
    q = Queue(c)
    large = b"L" * 70000
    ids = q.dead_letters(b"a", b"", large, b"b", b"gone")
    before = dumps(c)
    assert quredis("dlq", "rm", "mail", "--dry-run", ids[0]).out == "would delete 1 dead letter of mail\n" and dumps(c) == before
    for i in (1, 2):
        assert quredis("dlq", "rm", "mail", ids[i]).out == "deleted 1 dead letter of mail\n"
    c.lrem(q.escape, 0, "gone")
    r = quredis("dlq", "rm", "mail", ids[4])
    assert r.code == 0 and "only the record was deleted" in r.err and r.out == "deleted 0 dead letters of mail\n"
    assert c.lrange(q.escape, 0, -1) == [b"b", b"a"] and [i.decode() for i, _ in c.xrange(q.log)] == [ids[0], ids[3]]
    assert quredis("dlq", "rm", "mail", "--all").code == 0
    assert not c.exists(q.escape, q.log, q.ingress)


def test_dlq_at_another_type(quredis, redis):
    c = redis.client()
    q = Queue(c)
    c.set(q.log, "x")
    for words in (["ls", "mail"], ["show", "mail", "1-1"], ["show", "mail", "x"], ["rm", "mail", "1-1"]):
        r = quredis("dlq", *words)
        assert (r.code, r.out) == (78, "") and q.log in r.err and r.err.count("\n") == 1


@pytest.mark.parametrize("which, refused", [("escape", "-lrem"), ("delayed", "-zremrangebyrank"), ("transit", "-lrem")])
def test_retry_without_the_right_to_remove(quredis, redis_server, which, refused):
    """A message that cannot be removed is not copied either."""
    server = redis_server(tcp=True)
    c = server.client()
    q = Queue(c)
    q.dead_letters(*MESSAGES)
    q.worker(incarnation(0), alive=False, t0=["x"])
    c.zadd(q.delayed, {"d": 1e15})
    c.execute_command("ACL", "SETUSER", "operator", "on", "nopass", "~*", "&*", "+@all", refused)
    r = quredis("retry", "mail", which, url=server.tcp_url.replace("redis://", "redis://operator:x@"))
    assert r.code == 77 and r.out == "" and not c.exists(q.ingress)
    assert c.llen(q.escape) == len(MESSAGES) and c.zcard(q.delayed) == 1
    assert json.loads(quredis("ls", "--json", url=server.url).out)[0]["transit_size"] == 1


def test_rm_without_the_right_to_remove_records(quredis, redis_server):
    """The message is deleted before its record, so an error would say that it is still there. The record stays, and is an orphan."""
    server = redis_server(tcp=True)
    c = server.client()
    q = Queue(c)
    ids = q.dead_letters(*MESSAGES)
    c.execute_command("ACL", "SETUSER", "operator", "on", "nopass", "~*", "&*", "+@all", "-xdel")
    r = quredis("dlq", "rm", "mail", ids[0], url=server.tcp_url.replace("redis://", "redis://operator:x@"))
    assert (r.code, r.out) == (0, "deleted 1 dead letter of mail\n"), r.err
    assert c.lrange(q.escape, 0, -1) == MESSAGES[:0:-1] and c.xlen(q.log) == len(MESSAGES)


@pytest.mark.parametrize("message", [b"same", b"large" * 20000], ids=["small", "large"])
@pytest.mark.parametrize("other", ["rm", "retry"])
def test_of_equal_letters_dlq_rm_deletes_no_other_one(quredis, redis, redis_proxy, other, message):
    """Another operator removes the dead letter after it was found and before it is deleted."""
    c = redis.client()
    q = Queue(c)
    ids = q.dead_letters(message, message)

    def take():
        assert quredis("dlq", other, "mail", "--yes", ids[0]).code == 0
    proxy = redis_proxy(redis, Once("discard", q.escape, take))
    r = quredis("dlq", "rm", "mail", "--yes", ids[0], url=proxy.url)
    assert (r.code, r.out, r.err) == (66, "", f"quredis: mail has no record {ids[0]}\n")
    assert c.lrange(q.escape, 0, -1) == [message] and [i.decode() for i, _ in c.xrange(q.log)] == ids[1:]
    assert c.llen(q.ingress) == (other == "retry")


@pytest.mark.parametrize("size", [100, 6000])
def test_a_message_whose_seal_was_unknown_leaves_without_its_old_wrapper(redis, quredis, size):
    """It escaped untouched while its secret was lost. Others of the same filter move many at a time, behind a new line."""
    q = Queue(redis.client())
    payload = b"x" * size
    whole = sealed(q.client, b"quredis/1 w=00000000000000aa attempts=1 failed=1700000000000\n" + payload)
    q.dead_letters(b"before", whole, b"after", error_class="UnknownSeal")
    r = quredis("dlq", "retry", "mail", "--all", "--class", "UnknownSeal", "--yes")
    assert r.code == 0, r.err
    assert [strip(m) for m in q.fetched()] == [b"before", payload, b"after"] and q.client.xlen(q.log) == 0
