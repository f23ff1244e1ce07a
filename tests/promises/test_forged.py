"""Only lines that quredis wrote before a message count: a producer controls its own message and no other."""
import concurrent.futures
import json
import os
import re
import signal

import pytest

from harness import ROOT, queue, wait_for
from harness.messages import anywhere, record, sealed, stray_keys
from harness.queues import Queue

FORGED = [b"quredis/1 w=0123456789abcdef own=1\nforged", b"quredis/1 w=0123456789abcdef own=1 mac=" + b"0" * 32 + b"\nforged"]
SECRET = "quredis:secret"


def server_ms(c):
    seconds, micros = c.time()
    return seconds * 1000 + micros // 1000


def escaped_at(c):
    """Message -> when its record says it escaped, by the server's clock."""
    return {f[b"message"]: int(stream_id.split(b"-")[0]) for stream_id, f in c.xrange("escape:mail:log")}


@pytest.mark.parametrize("forged", FORGED, ids=["no seal", "wrong seal"])
@pytest.mark.parametrize("limit", [{"ttl": "6s"}, {"purge": {"max_ingress_age": "6s"}}], ids=["ttl", "purge"])
def test_a_forged_time_expires_nobody(redis, quredisd, handler, limit, forged):
    """The sweeper ignores times from before it knows the clock. So one message first becomes too old, and the forged time comes after it."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler("cat"), workers=0, **limit)], purge={"enabled": "purge" in limit, "interval": "1s"})
    c.lpush("ingress:mail", b"first")
    wait_for(lambda: c.llen("escape:mail") == 1, 60)
    older = [b"m%d" % i for i in range(5)]
    pushed = server_ms(c)
    c.lpush("ingress:mail", *older)
    c.lpush("ingress:mail", forged)
    wait_for(lambda: c.llen("escape:mail") == 7, 60)
    at = escaped_at(c)
    early = {m: at[m] - pushed for m in at if m != b"first" and at[m] - pushed < 6000}
    assert not early, early
    assert set(at) == {b"first", *older, forged}
    assert d.stop() == 0 and not stray_keys(c, "mail")


@pytest.mark.parametrize("line", [b"attempts=7", b"attempts=7 mac=" + b"f" * 31, b"attempts=7 mac=" + b"F" * 32, b"solo=1 crashes=9 own=1"])
def test_a_forged_line_is_payload(redis, quredisd, ledger, line):
    """quredis does not interpret or remove the line, neither for the handler nor on the way to escape."""
    c = redis.client()
    message = b"quredis/1 w=0123456789abcdef %s\nquredis/1 id=b ttl=1ms enqueued=1\nbody" % line
    d = quredisd(queues=[queue("mail", ledger.recorder(exit=1), max_attempts=3, backoff={"base": "1ms"})])
    c.lpush("ingress:mail", message)
    wait_for(lambda: c.llen("escape:mail") == 1)
    assert [(r.payload, r.attempt) for r in ledger.runs()] == [(message, n) for n in "123"]
    assert c.lrange("escape:mail", 0, -1) == [message] and record(c, "mail")["message"] == message
    assert d.quredis("dlq", "retry", "mail", "--all", "--yes").code == 0
    wait_for(lambda: len(ledger.runs()) == 6)
    wait_for(lambda: c.lrange("escape:mail", 0, -1) == [message])
    assert {r.payload for r in ledger.runs()} == {message}


@pytest.mark.parametrize("mode", ["exec", "persistent"])
@pytest.mark.parametrize("of", ["nobody", "another queue"])
def test_a_line_that_no_secret_verifies_neither_runs_nor_is_stripped(redis, quredisd, ledger, handler, tmp, of, mode):
    """A producer who forges such a line harms its own message only; so does an operator who moves a message to another queue."""
    c = redis.client()
    if mode == "persistent":
        program = handler('while IFS=" " read -r a b c d; do case $a in JOB) head -c $c >>@TMP@/got; echo >>@TMP@/got; echo "OK $b";; esac; done', name="stays")
        d = quredisd(queues=[queue("mail", program, mode="persistent")])
    else:
        d = quredisd(queues=[queue("mail", ledger.recorder())])
    line = b"quredis/1 w=0123456789abcdef attempts=7"
    message = line + b" mac=" + b"f" * 32 + b"\nbody" if of == "nobody" else sealed(c, line + b"\nbody", "ingress:other")
    c.lpush("ingress:mail", message)
    wait_for(lambda: c.llen("escape:mail") == 1)
    assert c.lrange("escape:mail", 0, -1) == [message]
    said = record(c, "mail")
    assert said["error_class"] == b"UnknownSeal" and b"another queue" in said["error_message"] and said["message"] == message
    assert d.quredis("dlq", "retry", "mail", "--all", "--yes").code == 0        # it escapes again, whole
    wait_for(lambda: c.lrange("escape:mail", 0, -1) == [message] and len(c.xrange("escape:mail:log")) == 1)
    assert not ledger.runs() and not (tmp / "got").exists()


def test_without_headers_a_producers_line_is_payload(redis, quredisd, ledger):
    c = redis.client()
    message = b"quredis/1 id=order-1 ttl=1ms enqueued=1 timeout=1ms max_attempts=1\nbody"
    d = quredisd(queues=[queue("mail", ledger.recorder(exit=1), headers=False, max_attempts=2, backoff={"base": "1ms"})])
    c.lpush("ingress:mail", message, b"quredis/2 x\nbody")
    wait_for(lambda: c.llen("escape:mail") == 2, 40)
    assert sorted(r.payload for r in ledger.runs()) == [message] * 2 + [b"quredis/2 x\nbody"] * 2
    assert all(r.id.startswith("sha1:") for r in ledger.runs())
    r = d.quredis("push", "mail", "m", "--id", "x")
    assert r.code == 64 and "headers = false" in r.err


# ---- the secret ----

def test_hosts_that_race_agree_on_one_secret(redis, quredis):
    c = redis.client()
    Queue(c)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda i: quredis("push", "mail", f"m{i}", "--delay", "1h"), range(24)))
    assert {r.code for r in done} == {0}
    word, = c.get(SECRET).split()
    assert len(word) == 64
    assert c.zcard("quredis:of:ingress:mail:delayed") == 24
    for raw in c.zrange("quredis:of:ingress:mail:delayed", 0, -1):
        line = raw.split(b" mac=")[0] + b"\n" + raw.split(b"\n", 1)[1]
        assert sealed(c, line) == raw


def test_looking_makes_no_secret(redis, quredis):
    c = redis.client()
    q = Queue(c)
    c.lpush(q.ingress, *FORGED)
    rows = json.loads(quredis("peek", "mail", "ingress", "--json").out)
    assert [r["message"].encode() for r in rows] == FORGED[::-1] and {r["waiting_since"] for r in rows} == {None}
    assert quredis("push", "mail", "m", "--delay", "1h", "--dry-run").code == 0
    assert not c.exists(SECRET)


@pytest.mark.parametrize("loss", ["del", "flushall", "another"])
def test_a_secret_that_was_lost_is_put_back(redis, quredisd, handler, loss):
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler("cat"))])
    wait_for(lambda: c.exists(SECRET))
    ours, other = c.get(SECRET), b"ab" * 32
    if loss == "del":
        c.delete(SECRET)
    elif loss == "flushall":
        c.flushall()
    else:
        c.set(SECRET, other)            # of another Redis, or of the time before a rollback
    wait_for(lambda: c.get(SECRET) == (other + b" " + ours if loss == "another" else ours), 40)
    if loss == "del":
        assert "find that program" in d.wait_event("secret_restored")["advice"]
    assert len(d.events("secret_restored")) <= (0 if loss == "another" else 1)


def test_a_stop_puts_a_lost_secret_back(redis, quredisd, handler):
    """No process is left then that knows it, and the next look for it would be after the stop."""
    c = redis.client()
    q = quredisd(queues=[queue("mail", handler("cat"))])
    wait_for(lambda: c.exists(SECRET))
    ours = c.get(SECRET)
    c.delete(SECRET)
    q.stop()
    assert c.get(SECRET) == ours and len(q.events("secret_restored")) == 1


def test_a_secret_that_is_new_is_read_before_a_message_is_judged(redis, quredisd, ledger):
    """One that another host made while we were connected: its line is neither given to the handler nor forgotten."""
    c = redis.client()
    quredisd(queues=[queue("mail", ledger.recorder())])
    c.lpush("ingress:mail", "first")
    wait_for(ledger.runs)
    for n in range(5):
        c.set(SECRET, b"%02x" % n * 32)
        c.lpush("ingress:mail", sealed(c, b"quredis/1 w=0123456789abcdef attempts=%d\nbody" % (n + 1)))
        wait_for(lambda n=n: len(ledger.runs()) == n + 2)
    assert [(r.payload, r.attempt) for r in ledger.runs()[1:]] == [(b"body", str(n + 2)) for n in range(5)]
    assert c.llen("escape:mail") == 0


def test_what_an_older_secret_sealed_still_counts(redis, quredisd, ledger):
    c = redis.client()
    c.set(SECRET, b"11" * 32)
    old = sealed(c, b"quredis/1 w=0123456789abcdef attempts=3\nbody")
    c.set(SECRET, b"22" * 32 + b" " + b"11" * 32)
    quredisd(queues=[queue("mail", ledger.recorder())])
    c.lpush("ingress:mail", old)
    wait_for(ledger.runs)
    assert [(r.payload, r.attempt) for r in ledger.runs()] == [(b"body", "4")]


def lose_secret(c, other):
    """Deleted, or replaced by the secret of another Redis."""
    if other:
        c.set(SECRET, other)
    else:
        c.delete(SECRET)


@pytest.mark.parametrize("other", [None, b"ab" * 32], ids=["deleted", "replaced"])
def test_a_worker_that_starts_while_the_secret_is_lost_knows_it(redis, quredisd, ledger, other):
    """The sweeper, which puts the secret back, is stopped; the new worker has it from the supervisor and puts it back itself."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", ledger.recorder(), workers=1)])
    d.wait_event("queue_recovered")
    old = sealed(c, b"quredis/1 w=0123456789abcdef attempts=1\nbody")
    ours = c.get(SECRET)
    os.kill(d.sweeper(), signal.SIGSTOP)
    lose_secret(c, other)
    os.kill(d.workers("mail")["mail/0"], signal.SIGKILL)
    c.lpush("ingress:mail", old)
    wait_for(ledger.runs)
    assert [(r.payload, r.attempt) for r in ledger.runs()] == [(b"body", "2")]
    assert ours in c.get(SECRET).split()


@pytest.mark.parametrize("other", [None, b"ab" * 32], ids=["deleted", "replaced"])
def test_a_sweeper_that_starts_while_the_secret_is_lost_puts_it_back(redis, quredisd, handler, other):
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler("cat"), workers=0)])
    d.wait_event("queue_recovered")
    ours, sweeper = c.get(SECRET), d.sweeper()
    os.kill(sweeper, signal.SIGSTOP)
    lose_secret(c, other)
    os.kill(sweeper, signal.SIGKILL)
    wait_for(lambda: c.get(SECRET) not in (None, other), 40)
    assert ours in c.get(SECRET).split()


def lost(d, *words):
    """Every face names the key."""
    status = lambda: d.quredis("status").out
    wait_for(lambda: all(w in status() for w in ("quredis:secret", *words)), 30)
    finding, = (f for f in json.loads(d.quredis("doctor", "--json").out) if f["check"] == "secret")
    assert finding["severity"] == "error" and all(w in finding["what"] for w in words) and "restore" in finding["advice"]
    wait_for(lambda: "quredis:secret" in d.quredis("health", "--json").out, 30)
    r = d.quredis("push", "mail", "m", "--delay", "1h")
    assert r.code == 78 and "quredis:secret" in r.err


def test_a_secret_that_was_lost_with_the_schema_is_not_new(redis, quredisd, handler, ledger):
    """The keys of another queue of the same supervisor show it, too."""
    c = redis.client()
    options = {"queues": [queue("fresh", handler("cat >/dev/null")), queue("mail", ledger.recorder())], "health": {"enabled": True, "interval": "1s"}}
    d = quredisd(**options)
    c.lpush("ingress:mail", "one")
    wait_for(lambda: c.hget("quredis:of:ingress:mail:stats", "done"), 60)
    assert d.stop() == 0
    ours, runs = c.get(SECRET), len(ledger.runs())
    for _ in range(2):
        c.delete(SECRET, "quredis:schema", "quredis:health", *c.keys("quredis:node:*"))
        d = quredisd(wait=False, **options)
        lost(d, "is missing, but quredis was here (")
        c.lpush("ingress:mail", "two")
        assert c.llen("ingress:mail") and len(ledger.runs()) == runs and not c.exists(SECRET, "quredis:schema")
        assert d.stop() == 0
        c.lpop("ingress:mail")
    c.lpush("ingress:mail", "three")
    d = quredisd(wait=False, **options)
    lost(d, "is missing")
    c.set(SECRET, ours)
    wait_for(lambda: len(ledger.runs()) == runs + 1, 60)
    assert c.get(SECRET) == ours and c.exists("quredis:schema")


def test_a_lost_secret_waits_for_somebody_who_knows_it(redis, quredisd, handler, ledger):
    """Lists that were moved without quredis:secret, twice: nothing runs with our line or anew, and all continues once the key is back."""
    c = redis.client()
    options = {"queues": [queue("mail", ledger.recorder(exit=1), workers=1, max_attempts=3, backoff={"base": "1s"})],
               "health": {"enabled": True, "interval": "1s"}}
    d = quredisd(**options)
    c.lpush("ingress:mail", *(b"m%d" % i for i in range(5)))
    wait_for(lambda: c.zcard("quredis:of:ingress:mail:delayed") + c.llen("escape:mail") == 5)
    assert d.stop() == 0
    ours, runs = c.get(SECRET), len(ledger.runs())
    for _ in range(2):
        c.delete(SECRET)
        d = quredisd(wait=False, **options)
        lost(d, "is missing")
        c.lpush("ingress:mail", "raw")
        assert c.llen("ingress:mail") and len(ledger.runs()) == runs and not c.exists(SECRET)
        assert d.stop() == 0
        c.lpop("ingress:mail")
    d = quredisd(wait=False, **options)
    lost(d, "is missing")
    c.set(SECRET, ours)
    wait_for(lambda: c.llen("escape:mail") == 5, 60)
    assert {(r.payload, r.attempt) for r in ledger.runs()} == {(b"m%d" % i, str(a)) for i in range(5) for a in (1, 2, 3)}
    assert len(ledger.runs()) == 15


@pytest.mark.parametrize("there", ["nothing", "a list", "other words"])
def test_doctor_makes_a_new_secret_after_a_question(redis, quredisd, ledger, there):
    """Then what the old one sealed escapes whole, and the old one, restored, lets it continue."""
    c = redis.client()
    options = {"queues": [queue("mail", ledger.recorder(), workers=1)], "health": {"enabled": True, "interval": "1s"}}
    d = quredisd(**options)
    wait_for(lambda: c.exists(SECRET))
    old = sealed(c, b"quredis/1 w=0123456789abcdef attempts=1\nbody")
    assert d.stop() == 0
    ours = c.get(SECRET)
    c.delete(SECRET)
    if there == "a list":
        c.lpush(SECRET, "x")
    elif there == "other words":
        c.set(SECRET, "x")
    c.lpush("ingress:mail", old)
    d = quredisd(wait=False, **options)
    lost(d, {"nothing": "is missing", "a list": "is a list", "other words": "holds no secret"}[there])
    assert not c.exists(SECRET) if there == "nothing" else c.exists(SECRET)
    d.quredis("doctor", "--fix", "--yes")
    wait_for(lambda: c.lrange("escape:mail", 0, -1) == [old], 60)
    assert c.exists("quredis:secret:aside") == (there != "nothing") and not ledger.runs()
    c.set(SECRET, c.get(SECRET) + b" " + ours)
    assert d.quredis("dlq", "retry", "mail", "--all", "--yes").code == 0
    wait_for(ledger.runs, 60)
    assert [(r.payload, r.attempt) for r in ledger.runs()] == [(b"body", "2")]


def test_doctor_keeps_everything_that_it_took_away(redis, quredis):
    """Three damages one after the other, each of another kind; a secret that is there stays."""
    c = redis.client()
    c.set("quredis:schema", "2 2")
    for i, (damage, read) in enumerate([(lambda: c.set(SECRET, "x"), lambda k: c.get(k)), (lambda: c.rpush(SECRET, "y"), lambda k: c.lindex(k, 0)),
                                        (lambda: c.sadd(SECRET, "z"), lambda k: c.srandmember(k))]):
        c.delete(SECRET)
        damage()
        assert quredis("doctor", "--fix", "--yes").code != 78
        assert len(c.get(SECRET)) == 64
        kept = ["quredis:secret:aside", "quredis:secret:aside:2", "quredis:secret:aside:3"][:i + 1]
        assert sorted(k.decode() for k in c.keys("quredis:secret:aside*")) == kept and read(kept[-1]) == b"xyz"[i:i + 1]
    quredis("doctor", "--fix", "--yes")
    assert c.exists(SECRET) and len(c.keys("quredis:secret:aside*")) == 3


WRITE = {"string": lambda c, k: c.set(k, "2 2"), "hash": lambda c, k: c.hset(k, "f", 1), "list": lambda c, k: c.lpush(k, "m"),
         "zset": lambda c, k: c.zadd(k, {"m": 1e14}), "stream": lambda c, k: c.xadd(k, {"f": 1})}
OF = "quredis:of:ingress:mail:"
TRACES = {**{f"{OF}{k}": t for k, t in {"delayed": "zset", "delayed:apart": "hash", "stats": "hash", "done": "stream", "notes": "hash",
                                        "schedules": "hash"}.items()},
          **{f"transit:mail:{k}": t for k, t in {"workers": "hash", "aside": "list", "aside:log": "stream", "rescue": "list"}.items()},
          **{f"escape:mail:{k}": t for k, t in {"log": "stream", "forwarded": "string", "claimed": "hash"}.items()},
          "quredis:secret:aside": "string", "quredis:schema": "string"}
# Producers, other consumers, the Ruby gem and operators write these before the first start, and a sweeper that waits for a secret.
OTHERS = {"ingress:mail": "list", "transit:mail": "list", "escape:mail": "list", "delayed:mail": "zset", f"{OF}paused": "string",
          "escape:mail:operations": "hash", f"{OF}sweeper": "string", f"{OF}throttle": "string", f"{OF}seats": "hash",
          f"{OF}seats:free": "list", "quredis:health": "hash"}


def test_the_table_of_keys_says_what_shows_that_quredis_was_here():
    """But for quredis:schema, which is looked at in any case."""
    rows = re.findall(r'^\t\{ (\w+\(?\w+\)?), (?:"\w+"|NULL), .*?\b(NO_TRACE|TRACE) \},', (ROOT / "common/queue/types.c").read_text(), re.M)
    assert len(rows) == 34
    assert len([name for name, trace in rows if trace == "TRACE"]) == len(TRACES) - len(["quredis:schema"])


@pytest.mark.parametrize("used", [None, *TRACES])
def test_a_first_secret_is_made_only_where_quredis_has_not_been(redis, quredis, used):
    """Nor does a key of another type count."""
    c = redis.client()
    Queue(c)
    for key, kind in OTHERS.items():
        WRITE[kind](c, key)
    for key, kind in TRACES.items():
        if key == used:
            WRITE[kind](c, key)
        elif used is None and key not in ("quredis:schema", "quredis:secret:aside", f"{OF}delayed"):
            WRITE["list" if kind != "list" else "string"](c, key)
    c.delete(SECRET)
    r = quredis("push", "mail", "m", "--delay", "1h")
    assert r.code == (78 if used else 0), r
    assert not used or f"({used})" in r.err
    assert bool(c.exists(SECRET)) != bool(used) and (not used or c.zscore(f"{OF}delayed", "m") in (None, 1e14))


@pytest.mark.parametrize("write", [lambda c: c.lpush(SECRET, "of another program"), lambda c: c.set(SECRET, "of another program")], ids=["list", "string"])
def test_a_name_that_another_program_used_is_free_once_that_is_gone(redis, quredisd, ledger, write):
    """What the sweeper reported meanwhile does not show that there was a secret. The second time there was one, and it comes back."""
    c = redis.client()
    write(c)
    d = quredisd(wait=False, queues=[queue("mail", ledger.recorder())], health={"enabled": True, "interval": "1s"})
    lost(d, "or run quredis doctor --fix")
    wait_for(lambda: c.exists("quredis:health") and c.exists("quredis:of:ingress:mail:sweeper") and len(c.keys("quredis:node:*")) == 2, 60)
    c.lpush("ingress:mail", "one")
    c.delete(SECRET)
    wait_for(lambda: len(ledger.runs()) == 1, 60)
    ours = c.get(SECRET)
    c.delete(SECRET)
    write(c)
    c.delete(SECRET)
    wait_for(lambda: c.get(SECRET) == ours, 60)


def test_traces_of_a_queue_that_only_the_registry_knows(redis, quredis):
    """Another host serves it, also from lists with names of its own. Entries that are damaged have the default names."""
    c = redis.client()
    Queue(c)
    news, post = Queue(c, "news", "i:news", "t:news", "e:news"), Queue(c, "post")
    c.set("quredis:queue:post", "{")
    for key in (news.workers, f"{news.own}:stats", post.workers):
        c.delete(SECRET)
        c.hset(key, "f", 1)
        c.delete(SECRET)
        r = quredis("push", "mail", "m", "--delay", "1h")
        assert r.code == 78 and f"({key})" in r.err and not c.exists(SECRET, "quredis:schema", f"{OF}delayed")
        c.delete(key)
    c.delete("quredis:queues")
    c.set("quredis:queues", "of another program")
    assert quredis("push", "mail", "m", "--delay", "1h").code == 0 and c.exists(SECRET)


def test_no_handler_and_no_command_shows_it(redis, quredisd, handler, tmp):
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler("env >@TMP@/env; ls -l /proc/self/fd >@TMP@/fds; cat >@TMP@/payload"))])
    Queue(c, "spy", SECRET, "t", "e")
    c.lpush("ingress:mail", "m")
    wait_for(lambda: (tmp / "payload").exists() and not anywhere(c, "mail"))
    secret = c.get(SECRET).decode()
    assert secret not in (tmp / "env").read_text()
    said = [d.quredis("peek", "spy", "ingress", "--json"), d.quredis("peek", "spy", "delayed", "--json"), d.quredis("doctor", "--json"),
            d.quredis("ls", "--json"), d.quredis("run", "spy", "--from", "ingress")]
    assert all(secret not in r.out + r.err for r in said)
