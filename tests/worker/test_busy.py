"""A worker that waits for something sleeps, whatever it holds."""
import json
import pathlib
import re
import time

from harness import queue, wait_for
from harness.control import status
from promises.test_idle import cpu_s

SLOW_END = """
import os, sys, time
for line in sys.stdin.buffer:
    size = int(line.split()[3])
    sys.stdin.buffer.read(size + 1)
    os.write(1, b"OK " + line.split()[1] + b"\\n")
time.sleep(2)
"""


def test_waiting_for_a_handler_to_end(redis, quredisd, handler):
    """A message is at hand, the next handler may not start before the last one has ended, and that takes two seconds."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler(SLOW_END, "python"), mode="persistent", recycle={"jobs": 1}, kill_grace="20s")])
    pid = d.wait_workers("mail", 1)["mail/0"]
    c.lpush("ingress:mail", "one", "two")
    before = cpu_s(pid)
    wait_for(lambda: c.llen("ingress:mail") == 0 and not c.keys("transit:mail:*:[0-2]"), 60, "both")
    used = cpu_s(pid) - before
    print(f"{used:.2f} s of CPU in two seconds and more of waiting")
    assert used < 0.5


# ---- a worker that may not fetch wakes no more often than one that waits for a message ----

LOOK_S = 6
MORE = 6        # wakeups for the renewal of the lease, for a probe of the breaker, and for what else falls into LOOK_S


def turns(pid):
    return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M)[1])


def waits_for(d):
    return {w["queue"]: w["waits_for"] for w in json.loads(d.quredis("status", "--json").out)["workers"]}


def run_and_drain(d, c):
    c.lpush("ingress:draining", "x")
    wait_for(lambda: c.keys("transit:draining:*:[012]"), 30)
    d.reload(queues=[q for q in d.sections["queues"] if q["name"] != "draining"])


def run_one_of_two(d, c):
    c.lpush("ingress:enough", "one", "two")


HELD = {            # what `status` says, and the order or the fault that leads to it
    "open": ("a message", lambda d, c: None),
    "paused": ("the gate of its queue", lambda d, c: d.quredis("pause", "paused")),
    "shut": ("the gate of its queue", lambda d, c: None),
    "quiet": ("the end of quiet", lambda d, c: d.quredis("quiet", "quiet")),
    "breaker": ("the breaker", lambda d, c: c.lpush("ingress:breaker", "x")),
    "enough": ("its handler", run_one_of_two),
    "draining": ("the end of what it runs", run_and_drain),
}


def test_a_worker_that_is_held_sleeps(redis, quredisd, tmp):
    c = redis.client()
    (tmp / "typo").write_text("#!/usr/bin/pyhton3\n")
    (tmp / "typo").chmod(0o755)
    c.set("transit:shut", "a string, so that the gate stays shut")
    handlers = {"breaker": str(tmp / "typo"), "enough": ["/bin/sleep", "100"], "draining": ["/bin/sleep", "100"]}
    d = quredisd(queues=[queue(name, handlers.get(name, "/bin/cat")) for name in HELD])
    for _, cause in HELD.values():
        cause(d, c)
    wait_for(lambda: waits_for(d) == {name: text for name, (text, _) in HELD.items()}, 60, "all holds")
    pids = {name.partition("/")[0]: pid for name, pid in d.workers().items()}
    probes = status(d, "breaker")["counters"]["fetched"]
    before, since = {name: turns(pid) for name, pid in pids.items()}, time.monotonic()
    cpu = {name: cpu_s(pid) for name, pid in pids.items()}
    wait_for(lambda: time.monotonic() - since >= LOOK_S)
    used = {name: cpu_s(pid) - cpu[name] for name, pid in pids.items()}
    woken = {name: turns(pid) - before[name] for name, pid in pids.items()}
    probes = status(d, "breaker")["counters"]["fetched"] - probes
    print(f"wakeups in {LOOK_S} s: {woken}, with {probes} probes")
    assert max(n for name, n in woken.items() if name != "breaker") <= woken["open"] + MORE, woken
    assert woken["breaker"] <= woken["open"] + MORE * (1 + probes), woken
    assert max(used.values()) < 0.5, used       # a worker that does not sleep at all never wakes up


def test_a_worker_without_redis_sleeps(redis, quredisd):
    """It looks once a second whether another process has connected, and tries itself after each back-off, at first sooner than once a second."""
    d = quredisd(queues=[queue("mail", "/bin/cat")])
    wait_for(lambda: waits_for(d) == {"mail": "a message"}, 60)
    pid = d.workers()["mail/0"]
    woken, used = {}, {}
    for name, cause in (("open", lambda: None), ("no Redis", redis.stop)):
        before, cpu, since = turns(pid), cpu_s(pid), time.monotonic()
        cause()
        wait_for(lambda: time.monotonic() - since >= LOOK_S)
        woken[name], used[name] = turns(pid) - before, cpu_s(pid) - cpu
    print(f"wakeups in {LOOK_S} s: {woken}, CPU: {used}")
    assert waits_for(d) == {"mail": "its connection to Redis"}
    assert woken["no Redis"] <= woken["open"] + MORE + 2 * LOOK_S, woken
    assert used["no Redis"] < 0.5, used     # a worker that does not sleep at all never wakes up


def test_a_gate_that_opens_wakes_its_workers(redis, quredisd, handler, ledger):
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler("echo x >>@LEDGER@"), workers=2)])
    d.wait_event("queue_recovered", queue="mail")
    late = 0
    for n in range(3):
        c.lpush("ingress:mail", "x")            # so that the sweeper reads the flag once a second
        wait_for(lambda: len(ledger.lines()) == 2 * n + 1, 30)
        seen = d.mark()
        d.quredis("pause", "mail")
        wait_for(lambda: set(waits_for(d).values()) == {"the gate of its queue"}, 30)
        c.lpush("ingress:mail", "x")
        d.quredis("resume", "mail")
        d.wait_event("queue_resumed", since=seen, queue="mail")
        since = time.monotonic()
        wait_for(lambda: len(ledger.lines()) == 2 * n + 2, 30)
        late += time.monotonic() - since
    print(f"{late:.2f} s between three open gates and the fetches that follow")
    assert late < 2.5                           # a worker that sleeps on looks after five seconds
