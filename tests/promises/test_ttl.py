"""A message that waits longer than its ttl escapes: never early, and soon after."""
import signal
import time

import pytest

from harness import queue, wait_for
from harness.control import status
from harness.messages import anywhere, record, sealed, stray_keys, unwrap
from harness.queues import Queue

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


def wrapped(c, nonce=1, ingress="ingress:mail", **keys):
    return sealed(c, header(w=f"{nonce:016x}", **keys), ingress)


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
            wrapped(c, 2, "ingress:free", own=old) + header(ttl="59s", enqueued=old - 1) + b"c",
            # its own time counts from when the clock was first looked at
            wrapped(c, 3, "ingress:free", own=old) + header(ttl="1ms") + b"d", wrapped(c, 4, "ingress:free", own=old, solo=1) + header(ttl="1ms") + b"e",
            # put back by an operator who could not make it younger, since it was not over then
            wrapped(c, 5, "ingress:free", redriven=old, own=old) + header(id="x", ttl="30s", enqueued=old) + b"f"]
    good = [b"g", header(ttl="2h", enqueued=now) + b"h", header(enqueued=old) + b"i", wrapped(c, 6, "ingress:free", own=now) + b"j",
            header(ttl="1ms", enqueued=soon) + b"k", header(ttl="1ms") + b"l", wrapped(c, 7, "ingress:free", own=old) + b"o",
            wrapped(c, 8, "ingress:free", redriven=now, own=now) + header(ttl="10m", enqueued=1) + b"m", b"quredis/1 ttl=1s enqueued=1 ttl=1s\nn"]
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


class Watch:
    """When messages were pushed, and seen in escape, by our own clock."""

    def __init__(self, c, name="mail"):
        self.c, self.name, self.pushed, self.seen = c, name, {}, {}

    def push(self, *messages):
        for m in messages:
            self.pushed[m] = time.monotonic()
            self.c.lpush(f"ingress:{self.name}", m)

    def look(self):
        there = self.c.lrange(f"escape:{self.name}", 0, -1)
        now = time.monotonic()
        for m in there:
            self.seen.setdefault(m, now)
        return set(self.seen) >= set(self.pushed)

    def check(self, ttl_s, timeout=80):        # after a kill the lead lasts up to 30 s, a request up to 8 s more, and then the ttl
        wait_for(self.look, timeout, "all of them in escape")
        early = {m: self.seen[m] - self.pushed[m] for m in self.pushed if self.seen[m] - self.pushed[m] < ttl_s}
        assert not early, early


@pytest.mark.parametrize("ahead", [3600, -3600])
def test_the_clock_of_redis_is_set(redis_server, quredisd, ledger, ahead):
    server = redis_server(clock=True)
    c = server.client()
    w = Watch(c)
    d = quredisd(redis=server, queues=[queue("mail", ledger.recorder(), workers=0, ttl="6s"), queue("run", ledger.recorder(), ttl="30s")])
    d.wait_event("lead_taken", queue="run")
    c.lpush("ingress:run", "first")
    wait_for(lambda: len(ledger.runs()) == 1)
    w.push(*[b"before %d" % i for i in range(50)])
    wait_for(lambda: b" own=" in c.lindex("ingress:mail", 0), 20)
    old = server_ms(c)
    server.set_clock(ahead)
    # nobody has noticed it yet when these are fetched
    c.lpush("ingress:run", header(ttl="20s", enqueued=server_ms(c)) + b"new clock", wrapped(c, 1, "ingress:run", own=server_ms(c)) + b"own")
    w.push(*[b"after %d" % i for i in range(50)])
    told = d.wait_event("server_clock_set")
    assert abs(int(told["step_ms"]) - ahead * 1000) < 60000
    c.lpush("ingress:run", header(ttl="20s", enqueued=old) + b"old clock")
    w.check(6)
    wait_for(lambda: len(ledger.runs()) == 4 or c.llen("escape:run"), 40)
    assert c.llen("escape:run") == 0
    assert d.stop() == 0


def test_a_reload_changes_it_at_once(redis, quredisd, handler, tmp):
    c = redis.client()
    slow = handler("cat >/dev/null; while [ ! -e @TMP@/go ]; do sleep 0.1; done")
    mail = queue("mail", handler("cat"), workers=0)
    d = quredisd(queues=[mail, queue("slow", slow, timeout="60s")])
    raw = [b"m%d" % i for i in range(20)]
    c.lpush("ingress:mail", *raw)
    c.lpush("ingress:slow", "x")
    wait_for(lambda: c.keys("transit:slow:*:[0-2]"))
    assert not c.exists("quredis:of:ingress:mail:sweeper")
    d.reload(queues=[{**mail, "ttl": "1s"}, queue("slow", slow, timeout="61s")])
    wait_for(lambda: c.llen("escape:mail") == 20, 40)
    assert sorted(c.lrange("escape:mail", 0, -1)) == sorted(raw)
    # a worker of before goes on, and so does its sweeper, which knows the limit of before
    d.reload(queues=[{**mail, "ttl": "1h"}, queue("slow", slow, timeout="61s")])
    wait_for(lambda: len(d.events("reload_done")) == 2)
    wait_for(lambda: len(d.events("sweeper_started")) == 3)
    c.lpush("ingress:mail", *raw)
    wait_for(lambda: b" own=" in c.lindex("ingress:mail", 0), 20)
    stamped = server_ms(c)
    wait_for(lambda: server_ms(c) >= stamped + 4000)
    assert c.llen("ingress:mail") == 20 and c.llen("escape:mail") == 20
    assert c.keys("transit:slow:*:[0-2]") and not d.events("sweeper_exited")
    # off: nothing is written any more
    d.reload(queues=[mail, queue("slow", slow, timeout="61s")])
    wait_for(lambda: len(d.events("reload_done")) == 3)
    wait_for(lambda: not c.exists("quredis:of:ingress:mail:sweeper"), 60)
    c.lpush("ingress:mail", b"raw")
    pushed = server_ms(c)
    wait_for(lambda: server_ms(c) >= pushed + 3000)
    assert c.lindex("ingress:mail", 0) == b"raw"
    (tmp / "go").touch()
    assert d.stop() == 0


def test_another_host_takes_over(redis, quredisd, handler):
    c = redis.client()
    w = Watch(c)
    hosts = [quredisd(queues=[queue("mail", handler("cat"), workers=0, ttl="3s")], supervisor={"node": f"host{i}", "lease": "2s"})
             for i in range(2)]
    wait_for(lambda: c.exists("quredis:of:ingress:mail:sweeper"))
    first = int(c.get("quredis:of:ingress:mail:sweeper")[4:5])
    w.push(*[b"before %d" % i for i in range(50)])
    wait_for(lambda: b" own=" in c.lindex("ingress:mail", 0), 20)
    hosts[first].kill_tree()
    w.push(*[b"after %d" % i for i in range(50)])
    hosts[1 - first].wait_event("lead_taken", queue="mail")
    w.check(3)
    assert hosts[1 - first].stop() == 0


# ---- a restart ----

def since(c, node="here"):
    """Since when the sweeper believes the clock of Redis, as it wrote it down; 0: not."""
    words = (c.get(f"quredis:node:{node}:clock") or b"").split()
    return int(words[5]) if len(words) == 7 else 0


@pytest.mark.parametrize("how", ["stop", "kill_tree"])
def test_a_restart_does_not_begin_anew(redis, quredisd, handler, how):
    c = redis.client()
    w = Watch(c)
    d = quredisd(queues=[queue("mail", handler("cat"), workers=0, ttl="6s")], supervisor={"node": "here"})
    known = wait_for(lambda: since(c))
    w.push(*[b"before %d" % i for i in range(50)])
    wait_for(lambda: b" own=" in c.lindex("ingress:mail", 0), 20)
    getattr(d, how)()
    assert 0 < c.pttl("quredis:node:here:clock") <= 30 * 24 * 3600 * 1000
    mark = d.mark()
    d.start()
    assert int(d.wait_event("server_clock_restored", since=mark)["known_ms"]) <= server_ms(c) - known
    w.push(*[b"after %d" % i for i in range(50)])
    w.check(6)
    assert since(c) == known and not d.events("server_clock_set")
    assert d.stop() == 0


@pytest.mark.parametrize("ahead", [3600, -3600])
def test_the_clock_is_set_while_nobody_looks(redis_server, quredisd, handler, ahead):
    server = redis_server(clock=True)
    c = server.client()
    w = Watch(c)
    d = quredisd(redis=server, queues=[queue("mail", handler("cat"), workers=0, ttl="6s")], supervisor={"node": "here"})
    known = wait_for(lambda: since(c))
    w.push(*[b"before %d" % i for i in range(50)])
    wait_for(lambda: b" own=" in c.lindex("ingress:mail", 0), 20)
    d.kill_tree()
    server.set_clock(ahead)
    c.delete("quredis:of:ingress:mail:sweeper")            # after a step back it would be there for an hour
    d.start()
    wait_for(lambda: since(c) not in (0, known))
    assert d.events("server_clock_set")         # Redis did not expire what was written down, although its clock leapt
    w.push(*[b"after %d" % i for i in range(50)])
    w.check(6)
    assert d.stop() == 0


def test_a_clock_that_was_set_and_put_back_is_not_forgotten(redis_server, quredisd, handler):
    """What was written down before would agree with it. So a step is written down at once, and not after a minute."""
    server = redis_server(clock=True)
    c = server.client()
    d = quredisd(redis=server, queues=[queue("mail", handler("cat"), workers=0, ttl="30m")], supervisor={"node": "here", "lease": "4s"})
    first = wait_for(lambda: since(c))
    server.set_clock(-3600)
    second = wait_for(lambda: (s := since(c)) != first and s, 20)
    server.set_clock(0)
    third = wait_for(lambda: (s := since(c)) != second and s, 20)
    assert third > first
    d.kill_tree()
    mark = d.mark()
    d.start()
    d.wait_event("server_clock_restored", since=mark)
    assert since(c) == third
    assert d.stop() == 0


def test_what_another_wrote_down_is_not_believed(redis, quredisd, handler):
    """Of another machine, or before this one was started anew; or of nobody."""
    c = redis.client()
    key = "quredis:node:here:clock"
    d = quredisd(queues=[queue("mail", handler("cat"), workers=0, ttl="30m")], supervisor={"node": "here"})
    known = wait_for(lambda: since(c))
    assert d.stop() == 0
    _, boot, *rest = c.get(key).decode().split()
    for i, text in enumerate(["1 00000000-0000-4000-8000-000000000000 " + " ".join(rest), "nonsense", b"\xff\0" * 1000, ""]):
        c.set(key, text)
        d.start()
        known, before = wait_for(lambda: (s := since(c)) > known and s), known
        assert known > before and not d.events("server_clock_restored"), i
        assert d.stop() == 0
    c.delete(key)
    c.lpush(key, "no string")
    d.start()
    d.wait_event("lead_taken", queue="mail")
    c.lpush("ingress:mail", "raw")
    wait_for(lambda: b" own=" in c.lindex("ingress:mail", 0), 20)
    assert d.stop() == 0


def test_where_nobody_asks_for_ages_it_is_not_written_down(redis, quredisd, handler, ledger):
    c = redis.client()
    d = quredisd(queues=[queue("mail", ledger.recorder())], supervisor={"node": "here"})
    c.lpush("ingress:mail", "m")
    wait_for(lambda: ledger.runs() and c.exists("quredis:node:here"))
    assert d.stop() == 0
    assert not c.exists("quredis:node:here:clock")


def test_at_maxmemory_and_beside_a_broken_queue(redis, quredisd, handler):
    c = redis.client()
    w = Watch(c)
    d = quredisd(queues=[queue("mail", handler("cat"), workers=0, ttl="2s"), queue("bad", handler("cat"), workers=0, ttl="2s")])
    d.wait_event("lead_taken", queue="bad")
    c.set("ingress:bad", "no list")
    assert d.wait_event("queue_error", queue="bad", at="stamps")["error"].find("WRONGTYPE") >= 0
    w.push(*[b"m%d" % i for i in range(300)])
    redis.config_set("maxmemory", "1mb")
    w.check(2)
    redis.config_set("maxmemory", "0")
    c.delete("ingress:bad")
    d.wait_event("queue_error_cleared", queue="bad")
    c.set("escape:mail:keep", "x")
    c.rename("escape:mail", "elsewhere")
    c.rename("escape:mail:keep", "escape:mail")
    c.lpush("ingress:mail", "m")
    d.wait_event("queue_error", queue="mail", at="ttl")
    assert [unwrap(m)[1] for m in c.lrange("ingress:mail", 0, -1)] == [b"m"]
    c.delete("escape:mail")
    wait_for(lambda: c.lrange("escape:mail", 0, -1) == [b"m"], 40)
    assert d.stop() == 0


def test_a_message_that_only_has_a_limit_counts_from_when_it_came(redis, quredisd, handler):
    """Shorter than its queue's, in the middle of what may stay."""
    c = redis.client()
    w = Watch(c)
    d = quredisd(queues=[queue("mail", handler("cat"), workers=0, ttl="1h")])
    stays = [b"s%d" % i for i in range(300)]
    c.lpush("ingress:mail", *stays[:150])
    w.push(*[header(ttl="2s") + b"%d" % i for i in range(5)])
    c.lpush("ingress:mail", *stays[150:])
    w.push(header(ttl="5h", enqueued=1) + b"long over")
    w.pushed.popitem()
    w.check(2)
    wait_for(lambda: c.llen("escape:mail") == 6, 20)
    assert [unwrap(m)[1] for m in reversed(c.lrange("ingress:mail", 0, -1))] == stays
    assert d.stop() == 0


def test_push_with_a_limit(redis, quredisd, quredis, handler):
    c = redis.client()
    Queue(c)
    before = server_ms(c)
    assert quredis("push", "mail", "one", "--ttl", "2s", "--id", "x").code == 0
    assert quredis("push", "mail", "--lines", "--ttl", "90s", input=b"two\nthree\n").code == 0
    assert quredis("push", "mail", "four", "--ttl", "1s", "--delay", "1h").code == 0
    rows = list(reversed(c.lrange("ingress:mail", 0, -1)))
    heads = [dict(p.split("=") for p in m.split(b"\n")[0].decode().split()[1:]) for m in rows]
    assert [m.split(b"\n", 1)[1] for m in rows] == [b"one", b"two", b"three"]
    assert [h["ttl"] for h in heads] == ["2s", "90s", "90s"] and heads[0]["id"] == "x"
    assert all(before <= int(h["enqueued"]) <= server_ms(c) + 1000 for h in heads)
    later = unwrap(c.zrange("quredis:of:ingress:mail:delayed", 0, 0)[0])[1]
    assert later.endswith(b"\nfour") and before + 3600000 <= int(later.split(b"enqueued=")[1].split(b"\n")[0]) <= server_ms(c) + 3601000
    d = quredisd(queues=[queue("mail", handler("cat"), workers=0, ttl="1h")])
    wait_for(lambda: c.llen("escape:mail") == 1, 40)
    assert c.lindex("escape:mail", 0).endswith(b"\none") and record(c, "mail")["id"] == b"x"
    assert quredis("push", "mail", "x", "--ttl", "soon").code == 64
    assert d.stop() == 0


@pytest.mark.parametrize("ahead", [600, -600, 0])
def test_a_replica_takes_over(redis_server, redis_proxy, quredisd, handler, ahead):
    """With a clock of its own."""
    master = redis_server(tcp=True, clock=True)
    replica = redis_server(clock=True, config={"replicaof": f"127.0.0.1 {master.port}", "repl-diskless-sync-delay": "0"})
    proxy = redis_proxy(master)
    w = Watch(master.client())
    d = quredisd(redis=proxy, queues=[queue("mail", handler("cat"), workers=0, ttl="5s")])
    d.wait_event("lead_taken", queue="mail")
    w.push(*[b"before %d" % i for i in range(50)])
    c = replica.client()
    wait_for(lambda: b" own=" in (c.lindex("ingress:mail", 0) or b""), 40)
    replica.set_clock(ahead)
    c.execute_command("REPLICAOF", "NO", "ONE")
    proxy.forward_to(replica)
    w.c = c
    w.push(*[b"after %d" % i for i in range(50)])
    w.check(5, 60)
    assert len(d.events("server_clock_set")) == (ahead != 0)
    assert c.llen("escape:mail") == 100
    assert d.stop() == 0


def test_a_missing_right_is_told_at_the_start(redis, quredisd, handler):
    c = redis.client()
    c.execute_command("ACL", "SETUSER", "default", "-lset")
    d = quredisd(queues=[queue("mail", handler("cat"), workers=0, ttl="5s"), queue("free", handler("cat"), workers=0)], wait=False)
    told = d.wait_event("queue_error", queue="mail")
    assert told["error"].startswith("stamp:") and not d.events("queue_error", queue="free")
    c.execute_command("ACL", "SETUSER", "default", "+lset")
    d.wait_event("queue_recovered", 40, queue="mail")
    assert not redis.client().keys("*scratch*")
    assert d.stop() == 0


def test_its_time_comes_back_with_it(redis, quredisd, handler, quredis):
    """What goes back to the pop end has waited since then, and was not told so by anybody else."""
    c = redis.client()
    came = server_ms(c) - 1000
    d = quredisd(queues=[queue("mail", handler("cat >/dev/null; sleep 60"))])
    c.lpush("ingress:mail", wrapped(c, 1, own=came) + b"x")
    wait_for(d.handlers)
    assert d.stop(signal.SIGQUIT) == 0
    says, body = unwrap(c.lindex("ingress:mail", 0))
    assert body == b"x" and says == {"own": came, "redelivered": 1}
