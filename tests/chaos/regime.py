"""How much of what, and one whole run: push and disturb, wait until all is quiet, look, stop, check."""
import collections
import datetime
import json
import os
import pathlib
import random
import subprocess
import threading
import time

from harness import wait_for
from harness.messages import anywhere, stray_keys

from . import load
from .checker import check
from .host import Host
from .ledger import Ledger, now_us
from .server import Server
from .table import render
from .wire import Wire

HERE = pathlib.Path(__file__).resolve().parent

# kind -> how many of a hundred of its group
KILLS = {"kill_handler": 40, "kill_worker": 35, "kill_master": 8, "kill_tree": 2, "kill_sweeper": 5, "kill_redis": 10}
STOPS = {"stop_worker": 70, "stop_sweeper": 20, "stop_tree": 10}
CUTS = {"cut_all": 25, "cut": 25, "lose_answer": 30, "lose_request": 10, "stall": 10}
STORMS = {"storm": 70, "fast_stop": 30}
ORDERS = {"reload": 30, "restart_queue": 30, "drain": 10, "quiet": 15, "pause": 15}
GROUPS = {"kills": KILLS, "stops": STOPS, "cuts": CUTS, "storms": STORMS, "orders": ORDERS}
ON_THE_SERVER = {"kill_redis", "storm", *CUTS}

# seconds: it takes at least so long; faults and messages are spread over all of it
Scale = collections.namedtuple("Scale", "messages kills stops cuts storms orders seconds lease_s seed")


def scale_from(environment, default):
    """SOAK_MESSAGES=1000 and so on instead of the default."""
    given = {k: type(v)(environment[f"SOAK_{k.upper()}"]) for k, v in default._asdict().items() if f"SOAK_{k.upper()}" in environment}
    return default._replace(**given)


def _deal(total, weights, rng):
    """total events, each kind as often as its weight says; each once, if there are so many; what is left over goes to chance."""
    events = [kind for kind, w in weights.items() for _ in range(max(total * w // 100, min(1, total // len(weights))))][:total]
    return events + rng.choices(list(weights), weights.values(), k=total - len(events))


def _decks(scale):
    """Events of host a, of host b, and of the server."""
    rng = random.Random(scale.seed)
    events = [e for group, weights in GROUPS.items() for e in _deal(getattr(scale, group), weights, rng)]
    rng.shuffle(events)
    of_hosts = [e for e in events if e not in ON_THE_SERVER]
    return of_hosts[::2], of_hosts[1::2], [e for e in events if e in ON_THE_SERVER]


class Actor(threading.Thread):
    """Lets the events of its deck happen to its subject, spread over the run's time and messages."""

    def __init__(self, subject, deck, pace):
        super().__init__(daemon=True)
        self.subject, self.deck, self.pace, self.done, self.failure = subject, deck, pace, 0, None
        self._leave = threading.Event()

    def run(self):
        try:
            while self.done < len(self.deck) and not self._leave.is_set():
                if self.pace(self.done / len(self.deck)):
                    getattr(self.subject, self.deck[self.done])()
                    self.done += 1
                else:
                    time.sleep(0.02)
            # What this thread started dies with it (PDEATHSIG), so it stays. Nobody else would start it again, either.
            while not self._leave.wait(0.1):
                self.subject.up()
        except BaseException as e:          # told by the one who waits for us
            self.failure = e
            self._leave.wait()

    def leave(self):
        self._leave.set()

    def progress(self):
        return self.done / len(self.deck) if self.deck else 1


class Regime:
    """machine: conftest's; everything is started there, and ended by it. without: letters that are not pushed. say: is told
    once a minute how far it is."""

    def __init__(self, machine, scale, without="", say=None):
        self.machine, self.scale = machine, scale
        self.ledger = Ledger(machine.tmp / "chaos")
        self.redis = machine.server(aof="always", config={"auto-aof-rewrite-min-size": "32mb"})
        self.wire = Wire(self.ledger.dir, self.redis)
        machine.proxies.append(self.wire)
        self.hosts = [self._host(letter, where) for letter, where in (("a", self.redis), ("b", self.wire))]
        self.server = Server(self.redis, self.wire, self.hosts[1].node, self.ledger, scale.lease_s, f"{scale.seed} server")
        self.say, self._said = say, 0
        self.began = time.monotonic()
        decks = _decks(scale)
        self.actors = [Actor(s, deck, self._pace) for s, deck in zip((*self.hosts, self.server), decks)]
        self.producers = [load.Producer(self.redis, name, supply, max(1, round(scale.messages * load.LOADS[name].share)),
                                        self._allowed, self.ledger)
                          for name, supply in load.supplies(scale.seed, without)]

    def _host(self, letter, where):
        handler = self.machine.tmp / "handler"
        if not handler.exists():
            compiler = os.environ.get("CC", "cc").split()
            subprocess.run([*compiler, "-O2", "-Wall", "-Wextra", "-Werror", "-o", handler, HERE / "handler.c"], check=True)
        daemon = self.machine.daemon(
            redis={"url": where.url}, queues=load.queues(handler, self.ledger.runs), log={"level": "info"}, wait=False,
            supervisor={"node": self.machine.tag + letter, "lease": f"{round(1000 * self.scale.lease_s)}ms",
                        "kill_grace": "500ms", "drain_timeout": "5s"})
        return Host(daemon, self.ledger, self.scale.lease_s, f"{self.scale.seed} {letter}")

    # ---- faults and messages keep pace ----

    def _pushed(self):
        return min(p.acknowledged / p.target for p in self.producers)

    def _pace(self, share):
        """Whether this share of the time is over, and nearly as much pushed."""
        return time.monotonic() - self.began >= share * self.scale.seconds and self._pushed() >= share - 0.05

    def _allowed(self):
        """The share that may have been pushed by now."""
        over = (time.monotonic() - self.began) / max(self.scale.seconds, 0.001)
        return min([over, *(a.progress() for a in self.actors)]) + 0.03

    # ---- the run ----

    def run(self):
        for host in self.hosts:
            host.up()
        self.began = time.monotonic()
        for t in (*self.producers, *self.actors):
            t.start()
        try:
            wait_for(self._over, 10 * self.scale.seconds + 600, "the last push and the last fault", interval=0.05)
            c = self.redis.client()
            wait_for(lambda: self._settled(c), 600, "everything to be settled")
            codes = [host.stop() for host in self.hosts]
            seconds = time.monotonic() - self.began
            self._look(c, codes)
        finally:
            for actor in self.actors:
                actor.leave()
            for actor in self.actors:
                actor.join(400)
        verdict = check(self.ledger, self.scale.lease_s)
        verdict.table = render(verdict, self.scale, seconds)
        return verdict

    def _failure(self):
        for actor in self.actors:
            if actor.failure:
                raise actor.failure

    def _report(self):
        minutes = int(time.monotonic() - self.began) // 60
        if self.say and minutes > self._said:
            self.say(f"{minutes} min: {sum(p.acknowledged for p in self.producers)} pushed, {sum(a.done for a in self.actors)} faults and orders")
            self._said = minutes

    def _over(self):
        self._failure()
        self._report()
        return all(p.acknowledged >= p.target for p in self.producers) and all(a.progress() == 1 for a in self.actors)

    def _settled(self, c):
        self._failure()
        return not any(c.llen(f"ingress:{q}") for q in load.LOADS) and not any(anywhere(c, q) for q in load.LOADS)

    # ---- what there is at the end ----

    def _look(self, c, codes):
        self._read_escaped(c)
        self._read_fenced()
        until = time.monotonic() + 2 * self.scale.lease_s           # what died at the very end may have one yet
        while (leases := c.keys("transit:*:lease:*")) and time.monotonic() < until:
            time.sleep(0.05)
        registrations = [(q, json.loads(v)) for q in load.LOADS for k, v in c.hgetall(f"transit:{q}:workers").items() if v[:1] == b"{"]
        logs = [host.daemon for host in self.hosts]
        self.ledger.end(**{
            "left in Redis": [q for q in load.LOADS if anywhere(c, q)],
            "leases": [k.decode() for k in leases],
            "registered as if they lived": [f"{q}:{r}" for q, r in registrations if "died_at" not in r],
            "keys nobody knows": stray_keys(c, *load.LOADS),
            "exit statuses at the last stop": [str(code) for code in codes if code != 0],
            "deaths nobody caused": [f"{e.get('worker')} {e.get('signal') or e.get('exit')}" for d in logs for e in d.events("worker_died")
                                     if e.get("signal") not in ("SIGKILL", "SIGABRT") and e.get("exit") != "75"],
            "trays that held what they should not": [e["tray"] for d in logs for e in d.events("tray_unexpected")],
        })

    def _read_fenced(self):
        """What a supervisor itself ended in time, where its lease could not be renewed."""
        ahead = int(time.time() * 1e6) - now_us()
        for host in self.hosts:
            for e in host.daemon.events("handler_fenced") + host.daemon.events("worker_fenced"):
                at = int(datetime.datetime.fromisoformat(e["time"].replace("Z", "+00:00")).timestamp() * 1e6) - ahead
                self.ledger.fault("fenced", at, node=host.node, pid=int(e.get("child") or e["pid"]), to_us=at + 1000)

    def _read_escaped(self, c):
        for q in load.LOADS:
            classes = collections.defaultdict(list)
            for _, fields in c.xrange(f"escape:{q}:log"):
                classes[fields[b"sha1"]].append(fields[b"error_class"].decode())
            entries = c.lrange(f"escape:{q}", 0, -1)
            self.ledger.escaped([(load.name_of(m), (classes[load.sha1(m)] or [None]).pop()) for m in entries])
            self.ledger.escaped([(f"orphan:{s.decode()}", why) for s, left in classes.items() for why in left])
