"""Failovers behind Sentinels under continuous pushes, half announced (SENTINEL FAILOVER), half by kill -9 of the master.

A push that all replicas have confirmed (WAIT) must be done at the end. A message may run a second time only if a failover came between its
runs. No worker process exits. The table says how long handlers were silent around each failover.
"""
import collections
import random
import statistics
import threading
import time
from typing import NamedTuple

import redis as redis_py

from harness import queue, write_handler
from harness.waiting import wait_for

# The time stands in the line, so that nothing is read from a clock later.
HANDLER = 'read -r m; echo "$(date +%s.%N) $m" >>@LEDGER@'
WORKERS = 4
SETTLE_S = 60
BACKLOG_MAX = 4


class Scale(NamedTuple):
    failovers: int
    seed: int
    pause_s: float = 2.0            # of work before each failover; no condition, only load
    lease_s: float = 3.0


class Producer(threading.Thread):
    """Pushes without end. confirmed: what all replicas have."""

    def __init__(self, watched):
        super().__init__(daemon=True)
        self.watched, self.confirmed, self.doubtful, self.enough = watched, [], [], threading.Event()

    def _connection(self):
        try:
            server = self.watched.master()
            return server and server.connect(socket_timeout=5, single_connection_client=True)
        except redis_py.RedisError:
            return None

    def _push(self, connection, name):
        """Handlers keep up: what waits when a master dies is done on both sides of a failover."""
        while connection.llen("ingress:mail") > BACKLOG_MAX and not self.enough.wait(0.01):
            pass
        connection.lpush("ingress:mail", name)
        replicas = len(self.watched.servers) - 1        # a Sentinel may promote one that has less than another
        return connection.wait(replicas, 2000) == replicas

    def run(self):
        n, connection = 0, None
        while not self.enough.is_set():
            connection = connection or self._connection()
            if connection is None:
                continue
            n += 1
            try:
                (self.confirmed if self._push(connection, f"m{n}") else self.doubtful).append(f"m{n}")
            except redis_py.RedisError:
                self.doubtful.append(f"m{n}")
                connection.close()
                connection = None


class Failovers:
    def __init__(self, machine, scale, say=lambda text: None):
        self.machine, self.scale, self.say = machine, scale, say
        self.random = random.Random(scale.seed)
        self.ledger = machine.tmp / "ledger"
        self.switches = []              # (kind, when it began, when the Sentinels agreed), in time.time()
        self.table = ""

    def run(self):
        """Returns the problems."""
        watched = self.machine.sentinels(servers=3, server_options={"config": {"min-replicas-to-write": 1, "min-replicas-max-lag": 10}})
        handler = write_handler(self.machine.tmp, HANDLER.replace("@LEDGER@", str(self.ledger)))
        self.daemon = self.machine.daemon(redis=watched.redis(), queues=[queue("mail", handler, workers=WORKERS)],
                                          supervisor={"lease": f"{self.scale.lease_s:.0f}s"})
        before = self.daemon.wait_workers("mail", WORKERS)
        producer = Producer(watched)
        producer.start()
        for i, kind in enumerate(self._kinds()):
            self._one(watched, kind)
            self.say(f"{i + 1} of {self.scale.failovers} failovers, {len(producer.confirmed)} pushes confirmed")
        self.enough(producer)
        problems = self._settle(watched, producer)
        if self.daemon.wait_workers("mail", WORKERS) != before:
            problems.append("a worker process was replaced")
        return problems + self._judge(producer)

    def enough(self, producer):
        producer.enough.set()
        producer.join(30)

    def _kinds(self):
        kinds = ["announced", "killed"] * (self.scale.failovers // 2 + 1)
        kinds = kinds[:self.scale.failovers]
        self.random.shuffle(kinds)
        return kinds

    def _one(self, watched, kind):
        watched.wait_in_sync()
        time.sleep(self.scale.pause_s)
        begun = time.time()
        watched.failover() if kind == "announced" else watched.kill_master()
        self.switches.append((kind, begun, time.time()))

    def _settle(self, watched, producer):
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
        out = collections.defaultdict(list)
        for line in self.ledger.read_text().splitlines():
            at, name = line.split()
            out[name].append(float(at))
        return out

    def _judge(self, producer):
        runs = self.runs()
        lost = [m for m in producer.confirmed if m not in runs]
        twice = {m: at for m, at in runs.items() if len(at) > 1}
        # a switch ends when the last process has reconnected: within a lease of the promotion
        unexplained = [m for m, at in twice.items() for a, b in zip(at, at[1:])
                       if not any(a <= end + self.scale.lease_s and b >= begun for _, begun, end in self.switches)]
        self._make_table(producer, runs, twice)
        problems = [f"{len(lost)} confirmed messages are lost: {lost[:10]}"] if lost else []
        if unexplained:
            problems.append(f"{len(unexplained)} messages ran twice and no failover came between: {unexplained[:10]}")
        return problems

    def silence(self, runs, begun, end):
        """The longest time without the end of a handler, from the switch on."""
        times = sorted(t for at in runs.values() for t in at if begun - 1 <= t <= end + 3 * self.scale.lease_s)
        return max((b - a for a, b in zip(times, times[1:])), default=0.0)

    def _make_table(self, producer, runs, twice):
        rows = [("failovers", len(self.switches)), ("pushes that all replicas confirmed", len(producer.confirmed)),
                ("other pushes", len(producer.doubtful)), ("messages that ran", len(runs)), ("of these twice, around a failover", len(twice))]
        for kind in ("announced", "killed"):
            silent = [self.silence(runs, begun, end) for k, begun, end in self.switches if k == kind]
            if silent:
                rows.append((f"silence, {kind}: p50, maximum", f"{statistics.median(silent):.2f} s, {max(silent):.2f} s"))
        width = max(len(name) for name, _ in rows)
        self.table = "\n".join(f"{name:<{width}}  {value}" for name, value in rows)
