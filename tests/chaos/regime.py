"""The scale of a run, and the run: push and disturb, wait until no work is left, inspect, stop, check."""
import collections
import datetime
import json
import random
import threading
import time

import redis

from harness import wait_for
from harness.messages import anywhere, stray_keys

from . import load
from .checker import check
from .continuous import build_handler
from .host import Host
from .ledger import Escape, Ledger, now_us
from .others import Consumer
from .server import Server
from .table import render
from .wire import Wire

# kind -> how many of a hundred of its group
KILLS = {"kill_handler": 40, "kill_worker": 35, "kill_master": 8, "kill_tree": 2, "kill_sweeper": 5, "kill_redis": 10}
STOPS = {"stop_worker": 70, "stop_sweeper": 20, "stop_tree": 10}
CUTS = {"cut_all": 25, "cut": 25, "lose_answer": 30, "lose_request": 10, "stall": 10}
STORMS = {"storm": 70, "fast_stop": 30}
ORDERS = {"reload": 30, "restart_queue": 30, "drain": 10, "quiet": 15, "pause": 15}
GROUPS = {"kills": KILLS, "stops": STOPS, "cuts": CUTS, "storms": STORMS, "orders": ORDERS}
ON_THE_SERVER = {"kill_redis", "storm", *CUTS}

PATIENCE_S = 600        # without any fault, or any push: then the run ends
SETTLED_S = 600

# seconds: it takes at least so long; faults and messages are spread over all of it
Scale = collections.namedtuple("Scale", "messages kills stops cuts storms orders seconds lease_s seed")


def scale_from(environment, default):
    """SOAK_MESSAGES=1000 and so on instead of the default."""
    given = {k: type(v)(environment[f"SOAK_{k.upper()}"]) for k, v in default._asdict().items() if f"SOAK_{k.upper()}" in environment}
    return default._replace(**given)


def _deal(total, weights, rng):
    """Returns `total` events, each kind in proportion to its weight, and at least once if there are enough. The remaining ones are drawn at
    random."""
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
    """Lets the events of its deck happen to its subject, spread over the run's time and messages.

    What finds nobody to happen to comes later. more: is called then, for who is idle has no handlers.
    """

    def __init__(self, subject, deck, pace, more):
        super().__init__(daemon=True)
        self.subject, self.left, self.pace, self.more = subject, list(deck), pace, more
        self.total, self.doing, self.failure = len(deck), "", None
        self._enough, self._leave = threading.Event(), threading.Event()

    def run(self):
        self._try(self._go_through)
        # What this thread started dies with it (PDEATHSIG), so it stays. Nobody else would start it again, either.
        while not self._leave.wait(0.1):
            self._try(self.subject.up)

    def _try(self, what):
        """Runs something in a thread and keeps the first failure for the thread that waits."""
        try:
            what()
        except Exception as e:
            self.failure = self.failure or e

    def _go_through(self):
        found_at = time.monotonic()
        while self.left and not self._enough.is_set():
            if not self.pace(self.progress()):
                time.sleep(0.02)
            elif self._next():
                found_at = time.monotonic()
            else:
                assert time.monotonic() - found_at < PATIENCE_S, f"nobody whom {sorted(set(self.left))} could happen to"

    def _next(self):
        """Runs the first event that finds a target. False: no kind of event that is left finds one."""
        for kind in dict.fromkeys(self.left):
            self.doing = kind
            if getattr(self.subject, kind)() is not False:
                self.left.remove(kind)
                return True
            self.more()
        return False

    def end(self):
        """Ends the thread; the subject continues to run."""
        self._enough.set()

    def leave(self):
        self._enough.set()
        self._leave.set()
        if self.is_alive():
            self.join(400)

    def progress(self):
        return 1 - len(self.left) / self.total if self.total else 1


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
        self.say, self._said, self._wrong, self._level = say, 0, [], 0
        self.began = time.monotonic()
        self.actors = [Actor(s, deck, self._pace, self._more) for s, deck in zip((*self.hosts, self.server), _decks(scale))]
        self.producers = [load.Producer(self.redis, name, supply, max(1, round(scale.messages * load.LOADS[name].share)),
                                        self._allowed, self.ledger)
                          for name, supply in load.supplies(scale.seed, without)]
        self.others = [Consumer(self.redis, p.name_of_queue, lambda p=p: p.acknowledged, self.ledger, f"{scale.seed} others")
                       for p in self.producers if p.name_of_queue in load.SHARED]

    def _host(self, letter, where):
        handler = build_handler(self.machine.tmp)
        daemon = self.machine.daemon(
            redis={"url": where.url}, queues=load.queues(handler, self.ledger.runs), log={"level": "info"}, wait=False,
            supervisor={"node": self.machine.tag + letter, "lease": f"{round(1000 * self.scale.lease_s)}ms",
                        "kill_grace": "500ms", "drain_timeout": "5s"})
        return Host(daemon, self.ledger, self.scale.lease_s, f"{self.scale.seed} {letter}")

    # ---- faults and messages keep pace ----

    def _pushed(self):
        return min(p.share() for p in self.producers)

    def _pace(self, share):
        """Whether this share of the time has passed, and nearly this share of the messages was pushed."""
        return time.monotonic() - self.began >= share * self.scale.seconds and self._pushed() >= share - 0.05

    def _allowed(self):
        """The share of the messages that may be pushed by now. It exceeds 1 only through _more()."""
        over = (time.monotonic() - self.began) / max(self.scale.seconds, 0.001)
        return max(min([over + 0.03, 1, *(a.progress() + 0.03 for a in self.actors)]), self._level)

    def _more(self):
        """Allows one per cent more pushes, since an actor found no target."""
        self._level = sum(p.acknowledged for p in self.producers) / sum(p.target for p in self.producers) + 0.01

    # ---- the run ----

    def run(self):
        """Always a verdict, with a table; whatever keeps the run from its end is a problem, too."""
        for step in (self._disturb, self._quieten, self._look):
            self._step(step)
        seconds = time.monotonic() - self.began
        for actor in self.actors:
            actor.leave()
        verdict = check(self.ledger, self.scale.lease_s)
        self._check_extent(verdict)
        verdict.problems += self._wrong
        verdict.table = render(verdict, self.scale, seconds)
        return verdict

    def _step(self, step):
        try:
            step()
        except Exception as e:
            self._wrong.append(f"{step.__name__[1:]}: {type(e).__name__}: {e}")

    def _disturb(self):
        """Disturbs until all messages are pushed and all faults have happened."""
        for host in self.hosts:
            host.up()
        self.began = time.monotonic()
        for t in (*self.producers, *self.others, *self.actors):
            t.start()
        before, since = None, time.monotonic()
        while not self._is_over():
            now = [p.acknowledged for p in self.producers], [len(a.left) for a in self.actors]
            if now != before:
                before, since = now, time.monotonic()
            assert time.monotonic() - since < PATIENCE_S, "nothing happens any more"
            self._report()
            time.sleep(0.05)

    def _is_over(self):
        self._failure()
        return all(p.share() >= 1 for p in self.producers) and all(a.progress() == 1 for a in self.actors)

    def _failure(self):
        for actor in self.actors:
            if actor.failure:
                raise actor.failure

    def _report(self):
        minutes = int(time.monotonic() - self.began) // 60
        if self.say and minutes > self._said:
            now = ", ".join(f"{who} {a.total - len(a.left)} of {a.total} ({a.doing})" for who, a in zip(("a", "b", "redis"), self.actors))
            self.say(f"{minutes} min: {sum(p.acknowledged for p in self.producers)} pushed; {now}")
            self._said = minutes

    def _quieten(self):
        """Ends producers and faults, and waits until all messages are settled."""
        for t in (*self.producers, *self.others, *self.actors):
            t.end()
        c = self.redis.client()
        wait_for(lambda: self._settled(c), SETTLED_S, "everything to be settled")

    def _settled(self, c):
        try:
            return not any(c.llen(f"ingress:{q}") for q in load.LOADS) and not any(anywhere(c, q) for q in load.LOADS)
        except redis.RedisError:            # its last fault may not be over yet
            return False

    def _check_extent(self, verdict):
        """Checks that every planned fault happened."""
        verdict.groups = {group: sum(verdict.faults[kind] for kind in kinds) for group, kinds in GROUPS.items()}
        extent = [(group, n, getattr(self.scale, group)) for group, n in verdict.groups.items()]
        extent += [(f"pushed to {p.name_of_queue}", p.acknowledged, p.target) for p in self.producers]
        verdict.problems += [f"{what}: {n} of {wanted}" for what, n, wanted in extent if n < wanted]

    # ---- what there is at the end ----

    def _look(self):
        codes = [host.stop() for host in self.hosts]
        c = self.redis.client()
        ahead = int(time.time() * 1e6) - now_us()
        self._read_escaped(c, ahead)
        self._read_fenced(ahead)
        self._read_notes(c)
        until = time.monotonic() + 2 * self.scale.lease_s           # what died at the very end may have one yet
        while (leases := c.keys("transit:*:lease:*")) and time.monotonic() < until:
            time.sleep(0.05)
        registrations = [(q, json.loads(v)) for q in load.LOADS for k, v in c.hgetall(f"transit:{q}:workers").items() if v[:1] == b"{"]
        logs = [host.daemon for host in self.hosts]
        self.ledger.end(**{
            "left in Redis": [q for q in load.LOADS if anywhere(c, q)],
            "leases": [k.decode() for k in leases],
            "registered as if they lived": [f"{q}:{r}" for q, r in registrations if "died_at" not in r],
            "keys nobody knows": [k for k in stray_keys(c, *load.LOADS) if not k.startswith("others:")],
            "what others took is not what they have": [what for o in self.others for what in o.look(c)],
            "exit statuses at the last stop": [str(code) for code in codes if code != 0],
            "deaths nobody caused": [f"{e.get('worker')} {e.get('signal') or e.get('exit')}" for d in logs for e in d.events("worker_died")
                                     if e.get("signal") not in ("SIGKILL", "SIGABRT") and e.get("exit") != "75"],
            "trays that held what they should not": [e["tray"] for d in logs for event in ("tray_unexpected", "messages_reappeared")
                                                        for e in d.events(event)],
        })

    def _read_fenced(self, ahead):
        """Reads which handlers a supervisor ended because it could not renew a lease."""
        for host in self.hosts:
            for e in host.daemon.events("handler_fenced") + host.daemon.events("worker_fenced"):
                at = _us(e["time"]) - ahead
                self.ledger.fault("fenced", at, node=host.node, pid=int(e.get("child") or e["pid"]), to_us=at + 1000)

    def _read_escaped(self, c, ahead):
        for q in load.LOADS:
            records = collections.defaultdict(list)
            for _, fields in c.xrange(f"escape:{q}:log"):
                records[fields[b"sha1"]].append([fields[b"error_class"].decode(), fields[b"node"].decode(),
                                                 _us(fields[b"failed_at"].decode()) - ahead])
            entries = c.lrange(f"escape:{q}", 0, -1)
            self.ledger.escaped(Escape(load.name_of(m), *(records[load.sha1(m)] or [[None]]).pop()) for m in entries)
            self.ledger.escaped(Escape(f"orphan:{s.decode()}", *r) for s, left in records.items() for r in left)

    def _read_notes(self, c):
        for q in load.LOADS:
            notes = f"quredis:of:ingress:{q}:notes"
            self.ledger.noted((field.decode(), q, note.decode()) for field, note in c.hgetall(notes).items())
            if c.exists(notes) and c.ttl(notes) < 0:
                self._wrong.append(f"what is remembered beside {q} never expires")


def _us(timestamp):
    """Microseconds since 1970."""
    return int(datetime.datetime.fromisoformat(timestamp.replace("Z", "+00:00")).timestamp() * 1e6)
