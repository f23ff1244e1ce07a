"""Five supervisors that are killed at random, a tick a second, and a clock of Redis that is set: no tick twice.

`make schedules-soak` does this for ten minutes. The record accounts for each tick: it was pushed once, or missed, or skipped.
"""
import os
import random
import time

import pytest

from harness import queue, wait_for
from harness.messages import unwrap

SECONDS = float(os.environ.get("SCHEDULES_SECONDS", "20"))
KEY = "quredis:of:ingress:db:schedules"
LEASE_MS = 1000
NAMES = ("one", "none", "alone")


def schedules():
    common = {"queue": "db", "every": "1s", "message": "go"}
    return [{**common, "name": "one"}, {**common, "name": "none", "catch_up": "none"}, {**common, "name": "alone", "overlap": False}]


def record(c, name):
    """(last, pushed, missed, skipped)"""
    found = c.hget(KEY, name)
    return found and [int(n) for n in found.split()[1:5]]


class Fleet:
    """Kills hosts, sets the clock back and forth by at most 100 s, and takes the messages now and then, so that `alone` gets on."""

    def __init__(self, server, start, seed):
        self.server, self.start, self.random = server, start, random.Random(seed)
        self.c = server.client()
        self.hosts = [start(str(n)) for n in range(5)]
        self.told = {name: [] for name in NAMES}
        self.kills = self.steps = 0

    def take(self):
        """Ingress, emptied in one step: the oldest first. Returns the records of that moment."""
        with self.c.pipeline(transaction=True) as p:
            p.lrange("ingress:db", 0, -1)
            p.delete("ingress:db")
            for name in NAMES:
                p.hget(KEY, name)
            messages, _, *records = p.execute()
        for m in reversed(messages):
            line, _ = unwrap(m)
            self.told[line["schedule"]].append(line["scheduled"])
        return {name: [int(n) for n in text.split()[1:5]] for name, text in zip(NAMES, records)}

    def kill_one(self):
        host = self.random.choice(self.hosts)
        host.kill_tree()
        self.kills += 1
        time.sleep(self.random.random())
        host.start(wait=False)

    def step(self):
        self.server.set_clock(self.random.uniform(0, 100))
        self.steps += 1

    def run(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.random.choice([self.kill_one, self.kill_one, self.step, self.take])()
            time.sleep(self.random.random() / 2)


@pytest.mark.limit(int(SECONDS) + 300)
def test_no_tick_twice_and_each_is_accounted_for(redis_server, quredisd, handler):
    server = redis_server(clock=True)
    body = handler("cat")

    def start(node):
        return quredisd(redis=server, queues=[queue("db", body, workers=0)], schedules=schedules(), supervisor={"node": node, "lease": f"{LEASE_MS}ms"})
    seed = int(os.environ.get("SCHEDULES_SEED", time.time_ns() % 10 ** 6))
    fleet = Fleet(server, start, seed)
    wait_for(lambda: all(record(fleet.c, name) for name in NAMES), 60)
    began = fleet.take()
    fleet.told = {name: [] for name in NAMES}
    fleet.run(SECONDS)
    server.set_clock(200)       # ahead of all: each schedule goes on
    last = {name: record(fleet.c, name)[0] for name in NAMES}
    wait_for(lambda: all(record(fleet.c, name)[0] > last[name] for name in NAMES), 120, f"seed {seed}")
    for host in fleet.hosts:
        if not host.running():
            host.start()
        assert host.stop() == 0
    ended = fleet.take()
    assert not [e for host in fleet.hosts for e in host.events("schedule_began") if e["reason"] != "new"], f"seed {seed}"
    for name in NAMES:
        told, (since, _, before, passed), (at, pushed, missed, skipped) = fleet.told[name], began[name], ended[name]
        assert told == sorted(set(told)) and told[-1] == pushed, f"seed {seed}: {name} was pushed twice, or in another order"
        assert len(told) + missed - before + skipped - passed == at // 1000 - since // 1000, f"seed {seed}: {name} lacks ticks"
    print(f"\nseed {seed}: {fleet.kills} kills, {fleet.steps} steps of the clock; {' '.join(f'{n}: {len(fleet.told[n])} ticks' for n in NAMES)}")
    assert fleet.kills and len(fleet.told["one"]) > SECONDS / 10
