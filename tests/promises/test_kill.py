"""SIGKILL of the master, of workers, of everything: no process outlives its parent, and no message is lost."""
import collections
import os
import random
import signal
import time

import pytest

from harness import alive, descendants_of, queue, wait_for
from harness.control import by_class
from harness.handlers import GATED
from harness.messages import anywhere, in_transit, record, sealed, stray_keys, unwrap

# GATED with a grandchild in a session of its own, which notes its pid and ignores everything it can
WITH_GRANDCHILD = """
read -r m
setsid sh -c 'trap "" TERM INT HUP; echo "grandchild $0 $$" >>@LEDGER@; exec >/dev/null 2>&1; while :; do sleep 1; done' "$m" &
echo "start $m $QUREDIS_REDELIVERED $QUREDIS_ATTEMPT $$" >>@LEDGER@
while ! [ -e @TMP@/go ]; do sleep 0.05; done
echo "end $m" >>@LEDGER@
"""


def ended(ledger):
    return collections.Counter(r[0] for r in ledger.rows("end"))


def kill9(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def gone_after(pids, limit_s):
    """How many seconds until none of them lives."""
    since = time.monotonic()
    wait_for(lambda: not any(alive(p) for p in pids), limit_s, "every process to be gone", interval=0.005)
    return time.monotonic() - since


@pytest.mark.parametrize("stubborn", [False, True], ids=["plain", "ignores-TERM"])
def test_master_killed_mid_handler(redis, quredisd, handler, ledger, tmp, stubborn):
    kill_grace = 1
    body = ("trap '' TERM\n" if stubborn else "") + WITH_GRANDCHILD
    names = [f"m{i}" for i in range(8)]
    c = redis.client()
    c.lpush("ingress:mail", *names)
    d = quredisd(queues=[queue("mail", handler(body), workers=3)], supervisor={"kill_grace": f"{kill_grace}s"})
    wait_for(lambda: len(ledger.rows("start")) == 3 and len(ledger.rows("grandchild")) == 3)
    below = set(descendants_of(d.pid)) | {int(r[1]) for r in ledger.rows("grandchild")}
    assert len(below) >= 3 + 1 + 3 + 3        # workers, sweeper, handlers, grandchildren
    d.kill9()
    took = gone_after(below, 10 * (kill_grace + 2))
    print(f"\nmaster killed: {len(below)} processes gone after {took:.2f} s (promised: {kill_grace + 2} s)")
    assert d.handlers() == []

    left = [unwrap(m) for m in anywhere(c, "mail")]
    assert sorted(m.decode() for _, m in left) == sorted(names)
    first = {r[0] for r in ledger.rows("start")}
    (tmp / "go").touch()
    d.start()
    wait_for(lambda: set(ended(ledger)) == set(names), 30)
    assert ended(ledger) == collections.Counter(names)
    again = {r[0]: (r[1], r[2]) for r in ledger.rows("start")[3:]}
    assert again == {n: ("1" if n in first else "0", "1") for n in names}    # flagged, and no attempt charged
    wait_for(lambda: not anywhere(c, "mail"))
    assert c.llen("escape:mail") == 0 and stray_keys(c, "mail") == []


@pytest.mark.limit(180)
def test_restart_killed_during_recovery_again_and_again(redis, quredisd, handler, ledger, tmp):
    """The whole tree is killed mid-handler; then the master alone, at every stage of starting up."""
    names = [f"m{i}" for i in range(12)]
    c = redis.client()
    c.lpush("ingress:mail", *names)
    c.lpush("transit:mail", "bare0", "bare1")          # a plain quredis consumer's leavings
    names += ["bare0", "bare1"]
    d = quredisd(queues=[queue("mail", handler(GATED), workers=6)], supervisor={"kill_grace": "500ms"}, start=False)
    d.start(wait=False)
    wait_for(lambda: len(ledger.rows("start")) >= 6, 30)
    rng = random.Random(7)
    d.kill_tree()
    # what a dead tree leaves: a tray each
    assert len(in_transit(c, "mail")) == 6
    for delay in [0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2] + [rng.uniform(0, 0.3) for _ in range(5)]:
        d.start(wait=False)
        since = time.monotonic()
        wait_for(lambda: time.monotonic() - since >= delay, interval=0.002)       # the moment of the kill, no synchronisation
        below = descendants_of(d.pid)
        d.kill9()
        gone_after(below, 30)
        assert collections.Counter(unwrap(m)[1].decode() for m in anywhere(c, "mail")) == collections.Counter(names)
    (tmp / "go").touch()
    d.start()
    wait_for(lambda: set(ended(ledger)) == set(names), 40)
    wait_for(lambda: not anywhere(c, "mail"))
    assert c.llen("escape:mail") == 0, record(c, "mail")
    starts = collections.defaultdict(list)
    for r in ledger.rows("start"):
        starts[r[0]].append(r[1])
    for name, flags in starts.items():
        assert flags[0] == "0" or name.startswith("bare"), (name, flags)
        assert all(f == "1" for f in flags[1:]), (name, flags)
    assert stray_keys(c, "mail") == []


def test_a_dead_trees_grandchild_is_killed_before_its_message_runs_again(redis, quredisd, handler, ledger):
    """SIGKILL of the whole supervisor leaves a process that no parent could kill. The next start finds it by its environment."""
    c = redis.client()
    c.lpush("ingress:mail", "m0")
    d = quredisd(queues=[queue("mail", handler(WITH_GRANDCHILD))])
    wait_for(lambda: ledger.rows("start") and ledger.rows("grandchild"))
    grandchild = int(ledger.rows("grandchild")[0][1])
    d.kill_tree(spare=[grandchild])
    assert alive(grandchild)
    d.start(wait=False)
    wait_for(lambda: len(ledger.rows("start")) == 2, 40)
    assert not alive(grandchild)
    assert ledger.rows("start")[1][1] == "1"


# The death of its worker kills the shell at once, but not what the shell has started: that reads on, when @TMP@/go is there.
COUNTING = """
sh -c 'echo "start $$" >>@LEDGER@
    while ! [ -e @TMP@/go ]; do sleep 0.05; done
    size=$(wc -c)
    echo "read $size $QUREDIS_SIZE $QUREDIS_REDELIVERED" >>@LEDGER@
    [ "$size" -eq "$QUREDIS_SIZE" ]'
exit $?
"""


def test_worker_killed_while_it_writes_the_message(redis, quredisd, handler, ledger, tmp):
    """The handler's input ends too early, and only QUREDIS_SIZE says so. The master stands still meanwhile: it would kill the reader."""
    size, pipe = 1 << 20, 65536
    c = redis.client()
    c.lpush("ingress:mail", b"x" * size)
    d = quredisd(queues=[queue("mail", handler(COUNTING))])
    wait_for(lambda: ledger.rows("start"))
    worker, = d.wait_workers("mail", 1).values()
    os.kill(d.pid, signal.SIGSTOP)
    try:
        os.kill(worker, signal.SIGKILL)
        wait_for(lambda: not alive(worker))
        (tmp / "go").touch()
        assert wait_for(lambda: ledger.rows("read")) == [[str(pipe), str(size), "0"]]
    finally:
        os.kill(d.pid, signal.SIGCONT)
    wait_for(lambda: len(ledger.rows("read")) == 2)
    assert ledger.rows("read")[1] == [str(size), str(size), "1"]
    wait_for(lambda: not anywhere(c, "mail"))
    assert c.llen("escape:mail") == 0 and d.stop() == 0


def test_worker_killed(redis, quredisd, handler, ledger):
    c = redis.client()
    c.lpush("ingress:mail", "m0")
    d = quredisd(queues=[queue("mail", handler(WITH_GRANDCHILD), workers=4)])
    d.wait_workers("mail", 4)
    sweeper = d.sweeper()
    for death in (1, 2):
        wait_for(lambda: len(ledger.rows("start")) == death and len(ledger.rows("grandchild")) == death, 40)
        before = d.wait_workers("mail", 4)
        _, flag, attempt, pid = ledger.rows("start")[-1]
        assert (flag, attempt) == (str(min(death - 1, 1)), "1")
        run = [int(pid), int(ledger.rows("grandchild")[-1][1])]
        owner = [name for name, p in before.items() if int(pid) in descendants_of(p)]
        assert len(owner) == 1
        since = time.monotonic()
        os.kill(before[owner[0]], signal.SIGKILL)
        wait_for(lambda: len(ledger.rows("start")) == 2 if death == 1 else c.llen("escape:mail") == 1, 40)
        took = time.monotonic() - since
        print(f"\ndeath {death}: message {'runs again' if death == 1 else 'escaped'} after {took * 1000:.0f} ms")
        assert took < 10
        assert not any(alive(p) for p in run)               # never two runs at a time
        after = wait_for(lambda: (w := d.workers("mail")) and len(w) == 4 and w)
        assert {n for n in after if after[n] != before.get(n)} == set(owner)
    assert d.sweeper() == sweeper
    assert c.lrange("escape:mail", 0, -1) == [b"m0"]
    r = record(c, "mail")
    assert (r["error_class"], r["crashes"], r["queue_from"], r["message"]) == (b"WorkerLost", b"2", b"transit", b"m0")
    assert r["error_message"] and r["exit_code"] == b""
    assert not anywhere(c, "mail") and len(ledger.rows("start")) == 2
    assert by_class(d, "mail") == {"WorkerLost": 1}


def test_recovery_attempts_0_escapes_at_once(redis, quredisd, handler, ledger):
    c = redis.client()
    c.lpush("ingress:mail", "m0")
    d = quredisd(queues=[queue("mail", handler(GATED), recovery_attempts=0)])
    wait_for(lambda: ledger.rows("start"))
    os.kill(d.workers("mail")["mail/0"], signal.SIGKILL)
    wait_for(lambda: c.lrange("escape:mail", 0, -1) == [b"m0"])
    assert record(c, "mail")["crashes"] == b"1" and len(ledger.rows("start")) == 1


POISON = """
read -r m
echo "start $m $QUREDIS_REDELIVERED $QUREDIS_ATTEMPT $$" >>@LEDGER@
[ "$m" != poison ] || { kill -9 $PPID; exec sleep 600; }
echo "end $m" >>@LEDGER@
"""


def test_poison_among_others_costs_three_workers(redis, quredisd, handler, ledger):
    """After the first death each message runs alone, since any of them may be the cause. The others are not charged."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler(POISON), batch={"max": 64, "time": "60s"})])
    d.wait_workers("mail", 1)
    names = [f"m{i}" for i in range(40)]
    c.lpush("ingress:mail", *names[:20], "poison", *names[20:])
    wait_for(lambda: c.llen("escape:mail") and not anywhere(c, "mail"), 60, "all done")
    assert len([r for r in ledger.rows("start") if r[0] == "poison"]) == len(d.events("worker_died")) == 3
    assert c.lrange("escape:mail", 0, -1) == [b"poison"] and record(c, "mail")["crashes"] == b"2"
    assert set(ended(ledger)) == set(names) and max(ended(ledger).values()) <= 2


def test_an_idle_workers_death_costs_nobody(redis, quredisd, handler, ledger, tmp):
    (tmp / "go").touch()
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler(GATED), workers=2)])
    before = d.wait_workers("mail", 2)
    os.kill(before["mail/1"], signal.SIGKILL)
    after = wait_for(lambda: (w := d.workers("mail")) and w.get("mail/1") not in (None, before["mail/1"]) and w)
    assert after["mail/0"] == before["mail/0"]
    c.lpush("ingress:mail", *[f"m{i}" for i in range(20)])
    wait_for(lambda: len(ended(ledger)) == 20)
    assert {r[1] for r in ledger.rows("start")} == {"0"} and c.llen("escape:mail") == 0


def test_sweeper_killed(redis, quredisd, handler, ledger, tmp):
    (tmp / "go").touch()
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler(GATED))])
    workers, sweeper = d.wait_workers("mail", 1), d.sweeper()
    os.kill(sweeper, signal.SIGKILL)
    wait_for(lambda: d.sweeper() not in (None, sweeper))
    assert d.workers("mail") == workers
    c.zadd("quredis:of:ingress:mail:delayed", {sealed(c, b"quredis/1 w=00000000000000aa\nlate"): 1})      # due: the new one works
    wait_for(lambda: ended(ledger)["late"] == 1)


@pytest.mark.verdict
@pytest.mark.limit(180)
@pytest.mark.parametrize("batch, each", [(1, 1), (64, 2 * 64)])
def test_workers_killed_at_random_under_load(redis, quredisd, handler, ledger, batch, each):
    """Deaths at any instant of the loop: nothing lost, each second run flagged, no message run more often than
    deaths explain: each costs at most two trays. Crash budget large, so that nothing escapes."""
    body = 'read -r m; echo "start $m $QUREDIS_REDELIVERED $QUREDIS_ATTEMPT $$" >>@LEDGER@; echo "end $m" >>@LEDGER@'
    names = [f"m{i}" for i in range(1500)]
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler(body), workers=3, recovery_attempts=1000, batch={"max": batch})])
    rng, deaths, i = random.Random(3), 0, 0
    for i in range(0, len(names), 100):
        c.lpush("ingress:mail", *names[i:i + 100])
        workers = wait_for(lambda: list(d.workers("mail").values()), 100)
        pause = time.monotonic() + rng.uniform(0, 0.05)
        wait_for(lambda: time.monotonic() >= pause, interval=0.001)
        kill9(rng.choice(workers))
        deaths += 1
    wait_for(lambda: len(ended(ledger)) == len(names) and not anywhere(c, "mail"), 120, "all messages")
    runs = collections.defaultdict(list)
    for r in ledger.rows("start"):
        runs[r[0]].append(r[1])
    twice = {n: f for n, f in runs.items() if len(f) > 1}
    print(f"\n{deaths} deaths, {len(twice)} messages ran again")
    assert set(runs) == set(names) and c.llen("escape:mail") == 0
    assert sum(len(f) - 1 for f in runs.values()) <= deaths * each
    assert all(flag == "1" for f in twice.values() for flag in f[1:]), twice
    assert d.events("claim_lost") == []
