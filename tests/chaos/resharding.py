"""A Redis Cluster of three masters and three replicas under continuous pushes: the slot moves from master to master while keys are on both sides
(live resharding), and its owner is killed (kill -9), so that its replica takes over.

A push that a replica has confirmed (WAIT) must be done at the end, or in escape if its handler failed it. A message may run a second time only if a
kill came between its runs: a resharding is no reason. No worker process exits, and no key is left on a node that does not serve the slot.

Every message of `each` runs a handler process, and those of `mass` go to handlers that stay. Some are retried, so they wait in delayed; some of these
are large, and stored apart there; some fail for good; and some are pushed with a delay by `quredis push`. A third of the reshardings stands still with
half of the keys moved, for longer than the lease.
"""
import itertools
import random
import threading
import time
from typing import NamedTuple

import redis as redis_py

from harness import queue
from harness.cluster import Cluster
from harness.waiting import wait_for

from . import continuous

PREFIX = "{a}"
WORKERS = 2
SETTLE_S = 120
WAIT_MS = 200                           # for a replica; after a kill there is none for some seconds, and handlers have only what is pushed
PAUSE_S = 0.05                          # between pushes of which nothing is known, or on which nobody works while the slot moves
LARGE = 100_000                         # stored apart from delayed
KINDS = ["d"] * 16 + ["r"] * 2 + ["R", "x"]     # R: a large r


class Scale(NamedTuple):
    reshardings: int
    kills: int
    seed: int
    pause_s: float = 2.0            # of work before each event; no condition, only load
    hold_s: float = 6.0             # how long a long resharding stands still; none is long: 0
    lease_s: float = 3.0


def supply(rng):
    """(key, name, message) without end."""
    for n in itertools.count(1):
        kind = rng.choice(KINDS)
        name = f"{kind.lower()}{n}"
        yield PREFIX + rng.choice(["ingress:each", "ingress:mass"]), name, continuous.body(name, LARGE if kind == "R" else 0)


class Producer(continuous.Producer):
    """confirmed: what a replica of the node has that took the push. It follows MOVED and ASK, as clients of a Cluster do."""

    def __init__(self, cluster, rng):
        super().__init__(supply(rng))
        self.cluster, self.port = cluster, 0

    def connect(self):
        alive = self.cluster.alive
        node = next((n for n in alive if n.port == self.port), None)
        if node is None:                                # no node has named one that lives
            self.enough.wait(PAUSE_S)
            node = alive[0]
        return node.connect(socket_timeout=5, single_connection_client=True)

    def push(self, connection, key, message):
        try:
            self.wait_for_room(lambda: connection.llen(key))
            connection.lpush(key, message)
            return connection.wait(1, WAIT_MS) >= 1
        except redis_py.ResponseError as e:             # not executed: MOVED and ASK name a node, and CLUSTERDOWN, TRYAGAIN, LOADING pass
            word, *more = str(e).split()
            if word == "ASK":
                return self._ask(int(more[-1].split(":")[-1]), key, message)
            self.port = int(more[-1].split(":")[-1]) if word == "MOVED" else 0
            raise

    def _ask(self, port, key, message):
        with self.cluster.at_port(port).connect(socket_timeout=5, single_connection_client=True) as c:
            c.execute_command("ASKING")
            c.lpush(key, message)
            held = c.wait(1, WAIT_MS) >= 1
        self.enough.wait(PAUSE_S)
        return held


class Delayer(threading.Thread):
    """Pushes with a delay, by the command line. told: name -> exit status and when it began and ended."""

    def __init__(self, daemon):
        super().__init__(daemon=True)
        self.daemon, self.told, self.enough = daemon, {}, threading.Event()

    def run(self):
        for n in itertools.count(1):
            if self.enough.wait(0.5):
                return
            name, begun = f"d{900000000 + n}", time.monotonic()
            r = self.daemon.quredis("push", "each", "--delay", "300ms", name)
            self.told[name] = (r.code, begun, time.monotonic(), r.err)

    def end(self):
        self.enough.set()
        if self.is_alive():
            self.join(60)

    def accepted(self, events, grace_s):
        """Those that are not lost with a master: accepted well before or after each kill."""
        return [name for name, (code, begun, ended, _) in self.told.items()
                if code == 0 and not any(e.may_repeat and begun <= e.ended and ended >= e.begun - grace_s for e in events)]

    def refused(self):
        return [(code, err) for code, *_, err in self.told.values() if code != 0]


class Reshardings:
    def __init__(self, machine, scale, say=lambda text: None):
        self.machine, self.scale, self.say = machine, scale, say
        self.random = random.Random(scale.seed)
        self.ledger = machine.tmp / "ledger"
        self.events, self.table = [], ""

    def run(self):
        """Returns the problems."""
        self.cluster = Cluster(self.machine.tmp / "cluster", tag=self.machine.tag)
        self.machine.watched.append(self.cluster)
        self.daemon = self._daemon()
        before = self._workers()
        self.producer, self.delayer = Producer(self.cluster, random.Random(f"{self.scale.seed} pushes")), Delayer(self.daemon)
        self.producer.start()
        self.delayer.start()
        kinds = self._kinds()
        for i, kind in enumerate(kinds):
            self._one(kind)
            self.say(f"{i + 1} of {len(kinds)} events, {len(self.producer.confirmed)} pushes confirmed")
        self.cluster.wait_in_sync()
        time.sleep(self.scale.pause_s)
        self.until = time.monotonic()
        self.producer.end()
        self.delayer.end()
        problems = self._settle()
        if self._workers() != before:
            problems.append("a worker process was replaced")
        return problems + self._judge()

    def _daemon(self):
        handler = continuous.build_handler(self.machine.tmp)
        patient = {"max_attempts": 2, "recovery_attempts": 1000, "timeout": "30s", "backoff": {"base": "50ms", "cap": "200ms"}}
        return self.machine.daemon(
            redis={"url": self.cluster.url, "prefix": PREFIX}, supervisor={"lease": f"{self.scale.lease_s:.0f}s"},
            queues=[queue("each", handler, self.ledger, workers=WORKERS, ttl="1h", done={"keep": 100}, **patient),
                    queue("mass", handler, self.ledger, "stay", mode="persistent", window=16, workers=WORKERS, **patient)],
            health={"enabled": True, "interval": "1s"}, purge={"enabled": True, "interval": "1s"})

    def _workers(self):
        return self.daemon.wait_workers("each", WORKERS) | self.daemon.wait_workers("mass", WORKERS)

    def _kinds(self):
        kinds = ["killed"] * self.scale.kills
        kinds += ["resharded slowly" if self.scale.hold_s and i % 3 == 2 else "resharded" for i in range(self.scale.reshardings)]
        self.random.shuffle(kinds)
        return kinds

    def _one(self, kind):
        """What one event left unreplicated must not be lost by the next: a Cluster replicates MIGRATE asynchronously, too."""
        self.cluster.wait_in_sync()
        time.sleep(self.scale.pause_s)
        if kind == "killed":
            killed = []
            self.events.append(continuous.timed(kind, True, lambda: killed.append(self.cluster.kill_owner())))
            killed[0].start(wait=False)
        else:
            hold_s = self.scale.hold_s if kind == "resharded slowly" else 0
            self.events.append(continuous.timed(kind, False, lambda: self.cluster.reshard(hold_s=hold_s)))

    def _settle(self):
        """Waits until no work is left, and looks for keys in wrong places."""
        def settled():
            try:
                with self.cluster.owner().connect() as c:
                    left = [PREFIX + key for q in ("each", "mass") for key in (f"ingress:{q}", f"quredis:of:ingress:{q}:delayed")]
                    return not any(c.exists(k) for k in left) and not list(c.scan_iter(PREFIX + "transit:*:[0-9]"))
            except redis_py.RedisError:
                return False
        problems = []
        try:
            wait_for(settled, SETTLE_S)
        except AssertionError:
            problems.append(f"not settled after {SETTLE_S} s")
        if stray := self.cluster.stray_keys():
            problems.append(f"keys on nodes that do not serve the slot: {stray}")
        return problems

    # ---- judgement ----

    def runs(self):
        return continuous.Runs(self.ledger)

    def _escaped(self):
        with self.cluster.owner().connect() as c:
            return {m.decode() for q in ("each", "mass") for m in c.lrange(f"{PREFIX}escape:{q}", 0, -1)}

    def _judge(self):
        runs, escaped = self.runs(), self._escaped()
        delayed = self.delayer.accepted(self.events, self.scale.lease_s)
        lost = [m for m in self.producer.confirmed + delayed if not (m in escaped if m[0] == "x" else "ok" in runs.outcomes[m])]
        # a kill ends when the last process has reconnected: within a lease of the promotion
        unexplained = runs.unexplained(self.events, self.scale.lease_s)
        damaged = [m for m, outcomes in runs.outcomes.items() if "damaged" in outcomes]
        self._make_table(runs, delayed, escaped)
        found = ((lost, "confirmed messages are lost"), (unexplained, "messages ran twice, and no kill came between"), (damaged, "messages are damaged"))
        return [f"{len(names)} {what}: {names[:10]}" for names, what in found if names]

    def _make_table(self, runs, delayed, escaped):
        kinds = [e.kind for e in self.events]
        counts = [(f"times the slot was {kind}" if kind != "killed" else "kills of its owner", kinds.count(kind)) for kind in sorted(set(kinds))]
        rows = counts + [("pushes that a replica confirmed", len(self.producer.confirmed)), ("other pushes", len(self.producer.doubtful)),
                         ("delayed pushes that quredis confirmed", len(delayed)), ("delayed pushes that quredis refused", len(self.delayer.refused())),
                         ("runs", sum(map(len, runs.begun.values()))), ("of these second ones, around a kill", len(runs.twice())), ("escaped", len(escaped))]
        self.table = continuous.render(rows + continuous.silences(runs, self.events, 3 * self.scale.lease_s, self.until))
