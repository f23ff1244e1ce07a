"""One episode: push and disturb, restore order, wait until no message is left, stop, look."""
import pathlib
import random
import time

import redis as redis_py

from chaos.continuous import build_handler
from harness import wait_for
from harness.messages import anywhere
from harness.resolver import Resolver

from . import load
from .faults import Faults, draw
from .host import Host
from .judge import Run, Seen, judge

HERE = pathlib.Path(__file__).resolve().parent
SETTLED_S = 120
HELD_MS = 2500          # of a message that runs while it is attacked
MODES = ("clean", "clean", "ordered", "hard", "back")


class Episode:
    """machine: conftest's. faults: names, instead of those that the seed draws."""

    def __init__(self, machine, seed, seconds, faults=None):
        self.rng = random.Random(seed)
        self.seed, self.seconds = seed, seconds
        self.mode = "given" if faults else self.rng.choice(MODES)
        self.faults = faults or draw(self.rng, self.mode)
        self.lease_s = self.rng.choice([2, 3, 4])
        self.ledger = machine.tmp / "ledger"
        self.ledger.touch()
        self.ledger.chmod(0o666)
        self.resolver = Resolver(machine.tmp)
        self.server = machine.server(aof="always", tcp=True)
        self.hosts = [self._host(machine, letter) for letter in "ab"]
        self.producer = load.Producer(self.server, seed, self._kinds())
        self.disturber = Faults(self)
        self.problems = []

    def _kinds(self):
        kinds = dict(load.KINDS)
        if self.rng.random() < 0.5:
            kinds["stay"] += load.CRASHING
        if "limit_answers" in self.faults:
            kinds["big"] += "u"
        return kinds

    def _host(self, machine, letter):
        handler = build_handler(machine.tmp, HERE / "handler.c")
        host = Host(machine.tmp / letter, tag=machine.tag, env=self.resolver.env, log={"level": "debug"},
                    redis={"url": self.resolver.slow(self.server.tcp_url) if "slow_names" in self.faults else self.server.url},
                    queues=load.queues(self.rng, handler, self.ledger),
                    supervisor={"node": machine.tag + letter, "lease": f"{self.lease_s}s", "kill_grace": "500ms", "drain_timeout": "8s"})
        machine.daemons.append(host)
        return host

    def run(self):
        """Random faults, and random messages meanwhile. Returns what is wrong; empty: nothing."""
        return self._go(self._disturb)

    def attack(self, fault, times):
        """This fault, so many times in a row, while a message of each queue runs, and others wait. Returns what is wrong."""
        return self._go(lambda: self._strike(fault, times))

    def _go(self, disturb):
        self.hosts[0].start()
        with self.server.connect() as c:
            self.secrets = [wait_for(lambda: c.get("quredis:secret"), 30, "a secret")]
        for step in (disturb, self._restore, self._settle, self._end):
            try:
                step()
            except Exception as e:
                self.problems.append(f"{type(e).__name__}: {e}")
                break
        self.problems += self.disturber.wrong + judge(self.seen())
        return self.problems

    def _disturb(self):
        self.producer.start()
        until, kept = time.monotonic() + self.seconds, 0
        while time.monotonic() < until:
            if "roll_back" in self.faults and time.monotonic() - kept > 1:
                self.disturber.keep()
                kept = time.monotonic()
            self.disturber.happen(self.rng.choice(self.faults))
            time.sleep(self.rng.choice([0.05, 0.2, 0.5, 1]))
        self.producer.end()

    def _strike(self, fault, times):
        held = [self.producer.push(name, "o", HELD_MS) for name in load.QUEUES]
        wait_for(lambda: {run.name for run in self._ledger()[0]} >= set(held), 30, "a run in each queue")
        for name in load.QUEUES:
            for kind in "orj" if name != "shared" else "oj":
                self.producer.push(name, kind, 0)
        for _ in range(times):
            self.disturber.happen(fault)

    def _restore(self):
        """Ends what a fault left: no later step finds a Redis, a secret or a queue that is not as it was."""
        if self.server.pid is None:
            self.server.start()                 # a fault that failed half-way
        wait_for(self.server.answers, 30, "redis-server to answer")
        with self.server.connect() as c:
            c.config_set("maxmemory", 0)
            c.execute_command("CLIENT", "UNPAUSE")
            self._restore_secrets(c)
        self.resolver.take(0)
        host = self.hosts[0]
        wait_for(lambda: host.running() and host.ready(), 60, "a supervisor that is ready")
        for name in load.QUEUES:
            host.quredis("resume", name, env=host.env)
        host.reload()

    def _restore_secrets(self, c):
        """As an operator does: those who knew one may have been killed before they wrote it back."""
        known = (c.get("quredis:secret") or b"").split()
        missing = [s for s in self.secrets if s not in known]
        if missing:
            c.set("quredis:secret", b" ".join([*known, *missing][:8]))

    def _settle(self):
        wait_for(self._is_settled, SETTLED_S, "every message to end")
        if {"lose_secret", "delete_secret", "replace_secret"} & set(self.faults):
            for name in load.QUEUES:
                done = self.hosts[0].quredis("dlq", "retry", name, "--all", "--class", "UnknownSeal", "-y", env=self.hosts[0].env)
                assert done.code == 0, done.err
            wait_for(self._is_settled, SETTLED_S, "every message with a seal that was unknown to end")

    def _is_settled(self):
        try:
            with self.server.connect() as c:
                return not any(anywhere(c, name) for name in load.QUEUES)
        except redis_py.RedisError:
            return False

    def _end(self):
        for host in self.hosts:
            if host.running():
                code = host.stop()
                if code != 0:
                    self.problems.append(f"{host.dir.name} ended with {code} at the last stop")
        with self.server.connect() as c:
            self.problems += [f"a lease is left: {k.decode()}" for k in c.keys("transit:*:lease:*") if c.pttl(k) > 1000 * self.lease_s]

    # ---- what was seen ----

    def _ledger(self):
        runs, done, strange = [], set(), []
        for line in self.ledger.read_text().splitlines():
            words = line.split()
            if words[0] == "X":
                strange.append(line)
            elif words[0] == "B":
                runs.append(Run(words[1], int(words[2]), words[3] == "1", int(words[4])))
            elif words[3] == "ok":
                done.add(words[1])
        return runs, done, strange

    def seen(self):
        runs, done, strange = self._ledger()
        escaped, records = [], []
        with self.server.connect() as c:
            c.config_set("client-output-buffer-limit", "normal 0 0 0")      # limit_answers would close this connection, too
            for q in load.QUEUES:
                escaped += [(q, m) for m in c.lrange(f"escape:{q}", 0, -1)]
                records += [(q, f[b"error_class"].decode(), f[b"sha1"].decode()) for _, f in c.xrange(f"escape:{q}:log")]
        return Seen(self.producer.pushed, self.producer.alive, runs, done, strange, escaped, records, list(self.disturber.counts),
                    {q["name"] for h in self.hosts for q in h.sections["queues"] if q.get("fence") == "kill"})

    def summary(self):
        """For the sum over all episodes: figures, and the faults that happened."""
        runs, done, _ = self._ledger()
        return {"seed": self.seed, "mode": self.mode, "faults": self.disturber.counts, "pushed": len(self.producer.pushed), "runs": len(runs),
                "redelivered": sum(r.redelivered for r in runs), "done": len(done), "problems": self.problems}
