"""Failovers behind Sentinels under continuous pushes: announced (SENTINEL FAILOVER), by kill -9 of the master, or while the master is frozen
(SIGSTOP), so that it continues as a second master.

A push that all replicas have confirmed (WAIT) must be done at the end. A message may run a second time only if a failover came between its
runs. No worker process exits. The table says how long handlers were silent around each failover.
"""
import itertools
import random
import time
from typing import NamedTuple

import redis as redis_py

from harness import queue
from harness.waiting import wait_for

from . import continuous

WORKERS = 4
SETTLE_S = 60


class Scale(NamedTuple):
    failovers: int
    seed: int
    pause_s: float = 2.0            # of work before each failover; no condition, only load
    lease_s: float = 3.0


class Producer(continuous.Producer):
    """confirmed: what all replicas have."""

    def __init__(self, watched):
        super().__init__(("ingress:mail", f"d{n}", continuous.body(f"d{n}")) for n in itertools.count(1))
        self.watched = watched

    def connect(self):
        server = self.watched.master()
        return server and server.connect(socket_timeout=5, single_connection_client=True)

    def push(self, connection, key, message):
        self.wait_for_room(lambda: connection.llen(key))
        connection.lpush(key, message)
        replicas = len(self.watched.servers) - 1        # a Sentinel may promote one that has less than another
        return connection.wait(replicas, 2000) == replicas


class Failovers:
    def __init__(self, machine, scale, say=lambda text: None):
        self.machine, self.scale, self.say = machine, scale, say
        self.random = random.Random(scale.seed)
        self.ledger = machine.tmp / "ledger"
        self.switches = []              # from when a failover began to when the Sentinels agreed
        self._epoch = self._looked_at = None    # what watched.epoch() was, and when
        self.table = ""

    def run(self):
        """Returns the problems."""
        watched = self.machine.sentinels(servers=3, server_options={"config": {"min-replicas-to-write": 1, "min-replicas-max-lag": 10}})
        handler = continuous.build_handler(self.machine.tmp)
        self.daemon = self.machine.daemon(redis=watched.redis(), queues=[queue("mail", handler, self.ledger, workers=WORKERS)],
                                          supervisor={"lease": f"{self.scale.lease_s:.0f}s"})
        before = self.daemon.wait_workers("mail", WORKERS)
        self._look(watched)
        producer = Producer(watched)
        producer.start()
        for i, kind in enumerate(self._kinds()):
            self._one(watched, kind)
            self.say(f"{i + 1} of {self.scale.failovers} failovers, {len(producer.confirmed)} pushes confirmed")
        producer.end()
        problems = self._settle(watched)
        self._note_unplanned(watched)
        if self.daemon.wait_workers("mail", WORKERS) != before:
            problems.append("a worker process was replaced")
        return problems + self._judge(producer)

    def _kinds(self):
        kinds = ["announced", "killed", "frozen"] * (self.scale.failovers // 3 + 1)
        kinds = kinds[:self.scale.failovers]
        self.random.shuffle(kinds)
        return kinds

    def planned(self):
        return [s for s in self.switches if s.kind != "unplanned"]

    def _look(self, watched):
        self._epoch, self._looked_at = watched.epoch(), time.monotonic()

    def _note_unplanned(self, watched):
        """On a slow machine the Sentinels may promote another master by themselves."""
        epoch, since = self._epoch, self._looked_at
        self._look(watched)
        if self._epoch != epoch:
            self.switches.append(continuous.Event("unplanned", since, self._looked_at, True))

    def _one(self, watched, kind):
        watched.wait_in_sync()
        time.sleep(self.scale.pause_s)
        self._note_unplanned(watched)
        act = {"announced": watched.failover, "killed": watched.kill_master, "frozen": watched.freeze_master}[kind]
        self.switches.append(continuous.timed(kind, True, act))
        self._look(watched)

    def _settle(self, watched):
        def settled():
            try:
                c = watched.client()
                return c.llen("ingress:mail") == 0 and not any(c.llen(k) for k in c.scan_iter("transit:mail:*:[0-9]"))
            except (redis_py.RedisError, AttributeError):
                return False
        try:
            wait_for(settled, SETTLE_S)
            return []
        except AssertionError:
            return [f"not settled after {SETTLE_S} s"]

    # ---- judgement ----

    def runs(self):
        return continuous.Runs(self.ledger)

    def _judge(self, producer):
        runs = self.runs()
        lost = [m for m in producer.confirmed if m not in runs.outcomes]
        # a switch ends when the last process has reconnected: within a lease of the promotion
        unexplained = runs.unexplained(self.switches, self.scale.lease_s)
        rows = [("failovers", len(self.planned())), ("pushes that all replicas confirmed", len(producer.confirmed)),
                ("other pushes", len(producer.doubtful)), ("messages that ran", len(runs.begun)), ("of these twice, around a failover", len(runs.twice()))]
        self.table = continuous.render(rows + continuous.silences(runs, self.switches, 3 * self.scale.lease_s))
        problems = [f"{len(lost)} confirmed messages are lost: {lost[:10]}"] if lost else []
        if unexplained:
            problems.append(f"{len(unexplained)} messages ran twice and no failover came between: {unexplained[:10]}")
        return problems
