"""fence = "kill": the running handler is dead before the lease of its worker can expire. In any mode no message starts after that."""
import collections
import os
import signal
import time

import pytest

from harness import Watch, alive, queue, wait_for
from harness.messages import anywhere, trays

LEASE = {"lease": "3s", "kill_grace": "700ms"}      # KILL 375 ms before its end
BATCH = {"max": 64, "time": "5s"}

# Says with the clock of the lease that it lives, until it may end: "start NAME REDELIVERED ATTEMPT PID TIME", "beat …", "end …"
EXEC = r"""
import os, signal, sys, time
@TERM@
fd = os.open("@LEDGER@", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
name = sys.stdin.readline().strip()
def say(what):
    e = os.environ
    os.write(fd, f"{what} {name} {e['QUREDIS_REDELIVERED']} {e['QUREDIS_ATTEMPT']} {os.getpid()} {time.clock_gettime(time.CLOCK_BOOTTIME)}\n".encode())
say("start")
while not os.path.exists("@TMP@/go"):
    say("beat")
    time.sleep(0.01)
say("end")
"""

# The same for a handler that stays; it holds all it is given, and answers when it may
STAYS = r"""
import os, select, signal, sys, time
@TERM@
fd = os.open("@LEDGER@", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
held = []
def say(what, name, again):
    os.write(fd, f"{what} {name} {again} 1 {os.getpid()} {time.clock_gettime(time.CLOCK_BOOTTIME)}\n".encode())
buffer = b""
while True:
    if select.select([0], [], [], 0.01)[0]:
        data = os.read(0, 65536)
        if not data:
            break
        buffer += data
    while b"\n" in buffer:
        head, rest = buffer.split(b"\n", 1)
        size = int(head.split()[3])
        if len(rest) <= size:
            break
        held.append((head.split()[1].decode(), rest[:size].decode(), int(b" redelivered=1" in head)))
        buffer = rest[size + 1:]
        say("start", *held[-1][1:])
    for one in held:
        say("beat", *one[1:])
    if os.path.exists("@TMP@/go"):
        for one in held:
            say("end", *one[1:])
            os.write(1, f"OK {one[0]}\n".encode())
        held.clear()
"""
MODES = {"exec": (EXEC, {}), "persistent": (STAYS, {"mode": "persistent", "window": 3, "batch": BATCH})}
TERMS = {"plain": "", "ignores-TERM": "signal.signal(signal.SIGTERM, signal.SIG_IGN)"}

Row = collections.namedtuple("Row", "name again attempt pid at")


def now():
    """By the clock of the lease."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def rows(ledger, what):
    return [Row(n, a, t, int(p), float(at)) for w, n, a, t, p, at in (x.split() for x in ledger.lines()) if w == what]


def first_runs(ledger):
    return [r for r in rows(ledger, "start") if r.again == "0"]


def lease_ends_at(c):
    """When the one lease there is runs out, unless it is renewed: as early as it can be."""
    (key,) = c.keys("transit:mail:lease:*")
    before = now()
    return before + c.pttl(key) / 1000


def dead_before(ledger, end, runs):
    """None of these runs lives; the last sign of life was before `end`."""
    wait_for(lambda: not any(alive(r.pid) for r in runs), 20, "the handlers to be dead")
    last = max(r.at for r in rows(ledger, "beat") if r.pid in {x.pid for x in runs})
    print(f"\nlast sign of life {end - last:.3f} s before the end of the lease")
    assert last < end


@pytest.fixture(params=MODES)
def mode(request):
    return request.param


def begin(quredisd, handler, redis, mode, body=None, term="plain", server=None, **options):
    source, keys = MODES[mode]
    path = handler((body or source).replace("@TERM@", TERMS.get(term, term)), "python")
    d = quredisd(redis=server or redis, queues=[queue("mail", path, **{"fence": "kill", **keys, **options})], supervisor=LEASE)
    d.wait_workers("mail", 1)
    d.wait_event("queue_recovered")
    return d


def run_names(mode, ledger, c):
    """Pushes what the handler takes at a time, and waits until it has it."""
    names = ["a"] if mode == "exec" else ["a", "b", "c"]
    c.lpush("ingress:mail", *names)
    wait_for(lambda: {r.name for r in rows(ledger, "start")} == set(names), 20, "all to be in work")
    return names


@pytest.mark.parametrize("mode, term", [("exec", "plain"), ("exec", "ignores-TERM"), ("persistent", "ignores-TERM")])
def test_the_handler_is_dead_before_the_lease_runs_out(redis, redis_proxy, quredisd, handler, ledger, tmp, mode, term):
    """Redis stops answering. When it answers again, no other worker has the messages: they run again, marked as redelivered, and no attempt is
    charged."""
    proxy, c = redis_proxy(redis), redis.client()
    d = begin(quredisd, handler, redis, mode, term=term, server=proxy)
    worker = d.workers("mail")
    names = run_names(mode, ledger, c)
    proxy.stall()
    end = lease_ends_at(c)
    d.wait_event("handler_fenced", 20, messages=len(names))
    dead_before(ledger, end, first_runs(ledger))
    wait_for(lambda: not c.keys("transit:mail:lease:*"), 20, "the lease to run out")
    assert len(rows(ledger, "start")) == len(names)         # nothing is started without a lease
    proxy.resume()
    (tmp / "go").touch()
    wait_for(lambda: {r.name for r in rows(ledger, "end")} == set(names) and not anywhere(c, "mail"), 30, "all done")
    again = rows(ledger, "start")[len(names):]
    assert sorted((r.name, r.again, r.attempt) for r in again) == [(n, "1", "1") for n in names]
    assert not c.exists("escape:mail") and not d.events("claim_lost") and d.workers("mail") == worker
    assert len(d.events("handler_fenced")) == 1


def test_it_is_given_kill_grace_and_handed_back_if_redis_returns(redis, redis_proxy, quredisd, handler, ledger, tmp, mode):
    term = "def on_term(*_):\n    open('@TMP@/told', 'w').close()\nsignal.signal(signal.SIGTERM, on_term)".replace("@TMP@", str(tmp))
    proxy, c = redis_proxy(redis), redis.client()
    d = begin(quredisd, handler, redis, mode, term=term, server=proxy)
    names = run_names(mode, ledger, c)
    proxy.stall()
    end = lease_ends_at(c)
    wait_for((tmp / "told").exists, 20, "TERM")
    told = now()
    proxy.resume()
    dead_before(ledger, end, first_runs(ledger))
    (tmp / "go").touch()
    wait_for(lambda: {r.name for r in rows(ledger, "end")} >= set(names) and not anywhere(c, "mail"), 30)
    assert not d.events("claim_lost") and told < end
    # it may have ended well while it was told to end; else it runs again, and knows
    assert all(r.again == "1" and r.attempt == "1" for r in rows(ledger, "start")[len(names):])


def test_what_ends_well_when_it_is_told_to_is_done(redis, redis_proxy, quredisd, handler, ledger):
    """The acknowledgement is held until Redis is back."""
    proxy, c = redis_proxy(redis), redis.client()
    d = begin(quredisd, handler, redis, "exec", term="signal.signal(signal.SIGTERM, lambda *_: (say('end'), os._exit(0)))", server=proxy)
    run_names("exec", ledger, c)
    proxy.stall()
    wait_for(lambda: rows(ledger, "end"), 20, "its end")
    proxy.resume()
    wait_for(lambda: not anywhere(c, "mail"), 20)
    assert len(rows(ledger, "start")) == 1 and not d.events("claim_lost")


def test_refused_writes_are_as_silence(redis, quredisd, handler, ledger, tmp, mode):
    """A server without enough replicas renews no lease."""
    c = redis.client()
    d = begin(quredisd, handler, redis, mode)
    names = run_names(mode, ledger, c)
    c.config_set("min-replicas-to-write", 1)
    end = lease_ends_at(c)
    dead_before(ledger, end, first_runs(ledger))
    c.config_set("min-replicas-to-write", 0)
    (tmp / "go").touch()
    wait_for(lambda: {r.name for r in rows(ledger, "end")} == set(names) and not anywhere(c, "mail"), 40)
    assert all(r.again == "1" for r in rows(ledger, "start")[len(names):]) and d.events("handler_fenced")


def test_a_worker_that_stands_still(redis, quredisd, handler, ledger, tmp, mode):
    """The master kills worker and handler in time. No message is charged: one with no crash left runs again nevertheless."""
    c = redis.client()
    d = begin(quredisd, handler, redis, mode, recovery_attempts=0)
    names = run_names(mode, ledger, c)
    worker = d.workers("mail")["mail/0"]
    os.kill(worker, signal.SIGSTOP)
    end = lease_ends_at(c)
    d.wait_event("worker_fenced", 20, queue="mail")
    dead_before(ledger, end, first_runs(ledger))
    (tmp / "go").touch()
    wait_for(lambda: {r.name for r in rows(ledger, "end")} == set(names) and not anywhere(c, "mail"), 30)
    assert all(r.again == "1" for r in rows(ledger, "start")[len(names):])
    assert not c.exists("escape:mail") and not alive(worker)


def test_a_worker_that_stands_still_with_nothing_in_work(redis, quredisd, handler, ledger, tmp, mode):
    """Nothing is killed."""
    c = redis.client()
    d = begin(quredisd, handler, redis, mode)
    (tmp / "go").touch()
    names = run_names(mode, ledger, c)
    wait_for(lambda: len(rows(ledger, "end")) == len(names) and not anywhere(c, "mail"))
    worker = d.workers("mail")
    os.kill(worker["mail/0"], signal.SIGSTOP)
    try:
        wait_for(lambda: not c.keys("transit:mail:lease:*"), 20, "the lease to run out")
    finally:
        os.kill(worker["mail/0"], signal.SIGCONT)
    since = time.monotonic()
    c.lpush("ingress:mail", "later")
    wait_for(lambda: "later" in {r.name for r in rows(ledger, "end")}, 20)
    assert time.monotonic() - since < 2.5       # it takes a new name at once
    assert d.workers("mail") == worker and not d.events("worker_fenced")


@pytest.mark.parametrize("away", [False, True], ids=["while-connected", "while-away"])
def test_taken_by_force(redis, redis_proxy, quredisd, quredis, handler, ledger, tmp, mode, away):
    """The claim is lost before the lease expires: the worker kills the handler as soon as it knows, and does not count the run."""
    proxy, c = redis_proxy(redis), redis.client()
    d = begin(quredisd, handler, redis, mode, term="ignores-TERM", server=proxy)
    names = run_names(mode, ledger, c)
    runs = first_runs(ledger)
    proxy.refuse(away)
    if away:
        proxy.cut()
    assert quredis("retry", "mail", "transit", "--force", "--yes").code == 0
    proxy.refuse(False)
    d.wait_event("handler_fenced", 20)
    wait_for(lambda: not any(alive(r.pid) for r in runs), 20, "the handler to be dead")
    wait_for(lambda: len(d.events("claim_lost")) == len(names))
    (tmp / "go").touch()
    wait_for(lambda: sorted(r.name for r in rows(ledger, "end")) == names and not anywhere(c, "mail"), 20)
    assert not c.exists("escape:mail")


def test_finish_lets_it_end(redis, redis_proxy, quredisd, handler, ledger, tmp, mode):
    """The other fence. Its acknowledgement is held."""
    proxy, c = redis_proxy(redis), redis.client()
    d = begin(quredisd, handler, redis, mode, server=proxy, fence="finish")
    names = run_names(mode, ledger, c)
    proxy.stall()
    wait_for(lambda: not c.keys("transit:mail:lease:*"), 20, "the lease to run out")
    (tmp / "go").touch()
    wait_for(lambda: sorted(r.name for r in rows(ledger, "end")) == names, 20)
    proxy.resume()
    wait_for(lambda: not anywhere(c, "mail"), 30)
    assert len(rows(ledger, "start")) == len(names) and not d.events("claim_lost")


# ---- the lease ----

BUSY = r"""
import os, sys
while line := sys.stdin.buffer.readline():
    sys.stdin.buffer.read(int(line.split()[3]) + 1)
    os.write(1, b"OK %s\n" % line.split()[1])
"""


@pytest.mark.parametrize("what", ["one-that-takes-long", "batches", "batches-persistent"])
def test_the_lease_is_renewed_whatever_runs(redis, quredisd, handler, ledger, what):
    """For two leases and more it is always there, and never near its end."""
    c, keys = redis.client(), {"batch": BATCH}
    body = "sleep 12" if what == "one-that-takes-long" else "exit 0"
    path = handler(body)
    if what == "batches-persistent":
        path, keys = handler(BUSY, "python"), {"mode": "persistent", "window": 16, **keys}
    d = quredisd(queues=[queue("mail", path, **keys)], supervisor={"lease": "4s"}, log={"level": "info"})
    d.wait_workers("mail", 1)
    wait_for(lambda: c.keys("transit:mail:lease:*"))
    (key,) = c.keys("transit:mail:lease:*")
    left, end = [], time.monotonic() + 10
    while time.monotonic() < end:
        if c.llen("ingress:mail") < 5000:
            c.lpush("ingress:mail", *[f"m{i}" for i in range(1 if what.startswith("one") else 1000)])
        left.append(c.pttl(key))
        time.sleep(0.02)        # looks, without a load of their own: a renewal has seconds
    print(f"\nat least {min(left)} ms of the lease were left, at {len(left)} looks")
    assert min(left) > 250      # it is renewed when 3000 are left
    c.delete("ingress:mail")
    assert not d.events("incarnation_renewed") and not d.events("claim_lost")


def test_nothing_is_fetched_without_a_lease(redis, redis_proxy, quredisd, handler, ledger):
    """A server that takes no writes any more is asked for a new name, not for messages."""
    c, watch = redis.client(), Watch("mail/0")
    d = quredisd(redis=redis_proxy(redis, watch), queues=[queue("mail", handler("exit 0"))], supervisor={"lease": "1s"})
    d.wait_event("queue_recovered")
    wait_for(lambda: watch.count(b"BRPOPLPUSH") > 2)
    c.config_set("min-replicas-to-write", 1)
    wait_for(lambda: not c.keys("transit:mail:lease:*"), 20, "the lease to run out")
    watch.said.clear()
    wait_for(lambda: watch.count(b"EVALSHA") >= 3, 40, "three times asked for a name")
    assert watch.count(b"BRPOPLPUSH", b"RPOPLPUSH") == 0
    c.config_set("min-replicas-to-write", 0)
    wait_for(lambda: watch.count(b"BRPOPLPUSH") > 2, 40)


# ---- nothing starts without a lease ----

EACH = r"""
read -r m
read -r t _ </proc/uptime
echo "start ${m%% *} $QUREDIS_REDELIVERED 1 $$ $t" >>@LEDGER@
sleep 0.02
"""
ONE_BY_ONE = r"""
import os, sys, time
fd = os.open("@LEDGER@", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
while line := sys.stdin.buffer.readline():
    _, serial, _, size, *keys = line.split()
    name, again = sys.stdin.buffer.read(int(size)).split()[0].decode(), int(b"redelivered=1" in keys)
    sys.stdin.buffer.read(1)
    os.write(fd, f"start {name} {again} 1 {os.getpid()} {time.clock_gettime(time.CLOCK_BOOTTIME)}\n".encode())
    time.sleep(@SECONDS@)
    os.write(1, b"OK %s\n" % serial)
"""


@pytest.mark.parametrize("fence", ["finish", "kill"])
def test_nothing_starts_without_a_lease(redis, redis_proxy, quredisd, handler, ledger, mode, fence):
    """A batch is in flight when Redis stops answering."""
    proxy, c = redis_proxy(redis), redis.client()
    keys = {"mode": "persistent", "window": 2} if mode == "persistent" else {}
    path = handler(ONE_BY_ONE.replace("@SECONDS@", "0.02"), "python") if keys else handler(EACH)
    names = [f"m{i}" for i in range(200)]
    d = quredisd(redis=proxy, queues=[queue("mail", path, fence=fence, batch=BATCH, **keys)],
                 supervisor={"lease": "1s", "kill_grace": "100ms"})
    d.wait_workers("mail", 1)
    c.lpush("ingress:mail", *names)
    wait_for(lambda: sum(len(m) for m in trays(c, "mail").values()) > 60, 30, "a full batch in hand")
    proxy.stall()
    end = lease_ends_at(c)
    wait_for(lambda: now() > end + 0.5, 20)
    late = [r for r in rows(ledger, "start") if r.at > end]
    held = sum(len(m) for m in trays(c, "mail").values())
    proxy.resume()
    wait_for(lambda: {r.name for r in rows(ledger, "start")} == set(names) and not anywhere(c, "mail"), 60)
    runs = collections.defaultdict(list)
    for r in rows(ledger, "start"):
        runs[r.name].append(r)
    assert held > 10
    # one that was started in time may say so a little late; what is in its pipe a handler that stays may begin
    assert len(late) <= (2 if mode == "persistent" else 1), late
    assert all(r.again == "1" for rs in runs.values() for r in rs[1:])
    assert fence == "kill" or all(len(rs) == 1 for rs in runs.values())


def test_what_is_not_in_the_pipe_waits_for_the_lease(redis, redis_proxy, quredisd, handler, ledger):
    """A persistent handler gets more messages than its pipe holds. It gets those that were not written when the lease expired later, once."""
    proxy, c = redis_proxy(redis), redis.client()
    names = [f"m{i}" for i in range(80)]
    d = quredisd(redis=proxy, supervisor={"lease": "1s"}, queues=[queue(
        "mail", handler(ONE_BY_ONE.replace("@SECONDS@", "0.1"), "python"), mode="persistent", window=100, batch=BATCH)])
    d.wait_workers("mail", 1)
    c.lpush("ingress:mail", *[n + " " + 12000 * "x" for n in names])
    wait_for(lambda: sum(len(m) for m in trays(c, "mail").values()) >= 40, 20, "much in hand")
    proxy.stall()
    wait_for(lambda: not c.keys("transit:mail:lease:*"), 20, "the lease to run out")
    before = len(rows(ledger, "start"))
    pipe = 65536 // 12000 + 2
    idle = time.monotonic() + 0.1 * (pipe + 12)
    wait_for(lambda: time.monotonic() > idle, 20)
    after = len(rows(ledger, "start"))
    proxy.resume()
    wait_for(lambda: len(rows(ledger, "start")) >= len(names) and not anywhere(c, "mail"), 60)
    print(f"\n{before} before the lease ran out, {after - before} after that")
    assert after - before <= pipe, "it was fed without a lease"
    assert [r.name for r in rows(ledger, "start")] == names and all(r.again == "0" for r in rows(ledger, "start"))
    assert not d.events("handler_desync")
