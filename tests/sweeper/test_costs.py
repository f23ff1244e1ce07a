"""What the sweeper does about owners costs in proportion to their number, and no turn of it lasts a second.

The cost is its processor time, so that other work on the machine does not count.
"""
import json
import time

import pytest

from harness import queue, wait_for
from harness.control import status

SMALL, LARGE, TURN_MS = 640, 6400, 1000
HOUR_MS = 3600 * 1000


def registration(lock="elsewhere:1:1", **more):
    return json.dumps({"lock": lock, "node": "far", "pid": 1, "since": 1, "lease": 1000, **more})


def names(n):
    return [f"far.{i + 1:016x}.3.1" for i in range(n)]


def lost(c, n, lock):
    """Their host vanished: no lease."""
    return {name: registration() for name in names(n)}, lambda: all(b"died_at" in v for v in others(c).values())


def of_dead_supervisors(c, n, lock):
    """Each had our lock before."""
    return {name: registration(lock) for name in names(n)}, lambda: all(b"died_at" in v for v in others(c).values())


def long_dead(c, n, lock):
    seconds, _ = c.time()
    return {name: registration(died_at=seconds * 1000 - 2 * HOUR_MS) for name in names(n)}, lambda: not others(c)


def broken_off(c, n, lock):
    """Notes of rescues, whose owners are not registered any more."""
    return {f"{name}:rescue": "1" for name in names(n)}, lambda: not others(c)


def others(c):
    return {k: v for k, v in c.hgetall("transit:mail:workers").items() if k.startswith(b"far.")}


def cpu_ms(pid):
    with open(f"/proc/{pid}/schedstat", encoding="ascii") as f:
        return int(f.read().split()[0]) / 1e6


class Sweeper:
    """Its processor time, and the most of it that it used without a heartbeat."""

    def __init__(self, d):
        self.d, self.beat, self.since, self.longest = d, None, 0, 0
        self.pid = status(d)["sweeper"]["pid"]

    def look(self):
        seen = status(self.d)["sweeper"]
        assert seen and seen["pid"] == self.pid, "another sweeper"
        beat, used = time.monotonic() * 1000 - seen["heartbeat_age_ms"], cpu_ms(self.pid)
        if self.beat is None or abs(beat - self.beat) > 20:
            self.beat, self.since = beat, used
        self.longest = max(self.longest, used - self.since)
        return used


def cost(d, c, kind, n, lock):
    """Of n things from the start of the daemon until it has dealt with all of them."""
    fields, over = kind(c, n, lock)
    c.delete("transit:mail:workers")
    c.hset("transit:mail:workers", mapping=fields)
    d.start()
    sweeper, by = Sweeper(d), time.monotonic() + 120
    while not over():
        assert time.monotonic() < by, f"{len(others(c))} are left of {n}"
        sweeper.look()
        time.sleep(0.05)
    used = sweeper.look()
    assert sweeper.longest < TURN_MS and not d.events("worker_stuck")
    assert d.stop() == 0
    return used


# While the sweeper returns the messages of lost owners, its looks go on: each reads all registrations, and there are more of them the longer it takes.
@pytest.mark.parametrize("kind,factor", [(lost, 20), (of_dead_supervisors, 12), (long_dead, 12), (broken_off, 12)],
                         ids=["lost", "of_dead_supervisors", "long_dead", "broken_off"])
def test_the_cost_of_owners_grows_with_their_number(redis, quredisd, kind, factor):
    c = redis.client()
    d = quredisd(queues=[queue("mail", "/bin/cat")], supervisor={"lease": "3s"}, log={"level": "info"})
    lock = json.loads(wait_for(lambda: c.hvals("transit:mail:workers"))[0])["lock"]
    assert d.stop() == 0
    few, many = (cost(d, c, kind, n, lock) for n in (SMALL, LARGE))
    print(f"{kind.__name__}: {few:.0f} ms, {many:.0f} ms")
    assert many <= factor * few
