"""Redis goes back in time: it is killed and started from an older copy of its append-only file, or a replica takes over while
clients still talk to the old master.

What exists in the state to which it returned is read before anybody is let in. At the end each of those messages was done or is
in escape. Lost without fault of ours is only what Redis forgot: what was pushed after the copy was made. appendfsync is
everysec, so what was acknowledged up to SYNC_S before a copy need not be in it.

    front       a link to the socket of the server that is in charge; both hosts and all producers connect to it
    pushes      a line for each push that was acknowledged, in their order: so a length of this file is a moment
"""
import collections
import os
import random
import shutil
import signal
import threading
import time

from harness import wait_for
from harness.messages import anywhere, stray_keys, unwrap

from . import load
from .continuous import build_handler
from .ledger import Ledger
from .regime import SETTLED_S

SYNC_S = 3
# None are equal, and none crash anybody. Many leave their trays alive.
QUEUES = {"mass": {"d": 60, "r": 30, "s": 0.5, "f": 4, "x": 4}, "each": {"d": 50, "r": 30, "s": 10, "f": 5, "x": 5},
          "big": {"b": 4, "r": 5, "f": 1}}
Scale = collections.namedtuple("Scale", "messages copies promotions lease_s seed")
Event = collections.namedtuple("Event", "kind settled revealed there")      # settled, revealed: moments; there: names
COUNTS = ("pushed", "done", "escaped", "forgotten by Redis", "lost", "runs", "back in a tray", "pushes in doubt")


class Front:
    """The address that producers connect to."""

    def __init__(self, path):
        self.socket, self.url = path, f"unix://{path}"

    def close(self):
        self.socket.unlink(missing_ok=True)

    def lead_to(self, server):
        aside = self.socket.with_suffix(".new")
        aside.unlink(missing_ok=True)
        aside.symlink_to(server.socket)
        os.rename(aside, self.socket)


class Producer(load.Producer):
    """A producer. While a thread holds the lock, every acknowledged push is in the ledger."""

    def __init__(self, lock, *arguments):
        super().__init__(*arguments)
        self._lock = lock

    def _push(self, batch):
        with self._lock:
            if super()._push(batch):
                return True
            self._close()                       # its server is no master any more
            return False


class Rollbacks:
    """One whole run. machine: conftest's."""

    def __init__(self, machine, scale, say=None):
        self.machine, self.scale, self.say = machine, scale, say or (lambda text: None)
        self.ledger, self.rng = Ledger(machine.tmp / "chaos"), random.Random(f"{scale.seed} rollbacks")
        config = {"auto-aof-rewrite-min-size": "8mb", "repl-diskless-sync-delay": "0"}
        self.master, self.other = (machine.server(aof="everysec", tcp=True, config=config) for _ in range(2))
        self.front = Front(machine.tmp / "front")
        self.front.lead_to(self.master)
        self.events, self.moments = [], collections.deque()
        handler = build_handler(machine.tmp)
        queues = [q for q in load.queues(handler, self.ledger.runs) if q["name"] in QUEUES]
        self.hosts = [machine.daemon(redis={"url": self.front.url}, queues=queues, log={"level": "info"},
                                     supervisor={"node": machine.tag + letter, "lease": f"{round(1000 * scale.lease_s)}ms",
                                                 "kill_grace": "500ms"}) for letter in "ab"]
        self.began = time.monotonic()
        self.lock = threading.Lock()
        self.producers = [Producer(self.lock, self.front, name, supply, max(1, round(scale.messages * load.LOADS[name].share)),
                                   self._allowed, self.ledger)
                          for name, kinds in QUEUES.items()
                          for supply in [load.messages(name, kinds, random.Random(f"{scale.seed} {name}"))]]

    # ---- moments ----

    def _moment(self):
        path = self.ledger.dir / "pushes"
        return path.stat().st_size if path.exists() else 0

    def _settled(self):
        """Returns a moment that a copy made now surely contains."""
        now = time.monotonic()
        self.moments.append((now, self._moment()))
        while len(self.moments) > 1 and self.moments[1][0] <= now - SYNC_S:
            self.moments.popleft()
        return self.moments[0][1] if self.moments[0][0] <= now - SYNC_S else 0

    def _allowed(self):
        """Messages are spread over all events."""
        total = self.scale.copies + self.scale.promotions
        return min(1, (len(self.events) + 1.5) / total) if total else 1

    def _let(self, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._settled()
            time.sleep(0.05)

    # ---- what happens ----

    def _names(self, server):
        """Returns the names of all messages that a server holds, and how many of them are in trays."""
        with server.connect() as c:
            held = [raw for q in QUEUES for raw in (*anywhere(c, q), *c.lrange(f"escape:{q}", 0, -1))]
            trays = sum(c.llen(k) for q in QUEUES for k in c.keys(f"transit:{q}:*:[0-2]"))
        return {load.name_of(unwrap(raw)[1]) for raw in held}, trays

    def _event(self, kind, settled, server):
        """Records an event, then lets clients connect to the server."""
        names, trays = self._names(server)
        self.back_in_trays += trays
        self.events.append(Event(kind, settled, self._moment(), names))
        self.front.lead_to(server)

    def copy(self):
        """Starts Redis from an older copy: its state at some moment since the last event."""
        self._let(self.rng.choice([0, 0.05, 0.3, 1]))
        settled = self._settled()
        self.master.signal(signal.SIGSTOP)      # so that its files belong together
        try:
            older = self.master.keep(f"older{len(self.events)}")
        finally:
            self.master.signal(signal.SIGCONT)
        self._let(self.rng.choice([0.05, 0.3, 1, 2]))
        self.front.close()
        self.master.kill9()
        self.master.go_back(older)
        with self.lock:
            self._event("an older copy", settled, self.master)
        shutil.rmtree(older)

    def promotion(self):
        """Promotes a replica that has not received everything. For a moment one host is connected to it, and the other to the old primary, which
        then becomes its replica."""
        self.other.follow(self.master, timeout=120)
        settled = self._settled()
        self.other.signal(signal.SIGSTOP)
        self._let(self.rng.choice([0, 0.3, 1]))
        self.other.signal(signal.SIGCONT)
        with self.lock:
            self.other.promote()
            self._event("promotion", settled, self.other)
            self._send_away(self.rng.choice(self.hosts))
            time.sleep(self.rng.choice([0, 0.1, 0.5, 1]))
            self.master, self.other = self.other, self.master
            with self.other.connect() as c:     # whoever is connected to it is told at its next write
                c.execute_command("REPLICAOF", "127.0.0.1", self.master.port)

    def _send_away(self, host):
        """Disconnects a host from the old primary, so that it connects to the new one."""
        with self.master.connect() as c:
            for client in c.client_list():
                if host.sections["supervisor"]["node"] in client["name"]:
                    c.client_kill_filter(_id=client["id"])

    # ---- the run ----

    def run(self):
        """[problem], and self.table."""
        self.back_in_trays = 0
        events = ["copy"] * self.scale.copies + ["promotion"] * self.scale.promotions
        self.rng.shuffle(events)
        for p in self.producers:
            p.start()
        pushed = 0
        for i, event in enumerate(events):
            getattr(self, event)()
            if i % 20 == 19:
                before, pushed = pushed, sum(p.acknowledged for p in self.producers)
                self.say(f"{i + 1} of {len(events)} events, {pushed} pushed")
                if pushed == before:            # each event allows more, but no queue becomes longer than its most
                    raise AssertionError("the workers stand still: nothing was pushed during 20 events")
        wait_for(lambda: all(p.share() >= 1 for p in self.producers), 3600, "all to be pushed")
        for p in self.producers:
            p.end()
        c = self.master.client()
        wait_for(lambda: not any(anywhere(c, q) for q in QUEUES), SETTLED_S, "everything to be settled")
        # a copy may be of the middle of a rehearsal of rights; a host rehearses again when it sees that the server changed
        wait_for(lambda: not c.keys("*:scratch:*"), SETTLED_S, "what a rehearsal left to be removed")
        problems = [f"{d.tag}: exit status {code}" for d in self.hosts if (code := d.stop()) != 0]
        problems += [f"{e['event']}: {e}" for d in self.hosts for e in d.events("worker_died")]
        return problems + self._judge(c)

    def _judge(self, c):
        escaped = collections.Counter(load.name_of(m) for q in QUEUES for m in c.lrange(f"escape:{q}", 0, -1))
        begun, done, damaged = set(), set(), set()
        for line in self.ledger.lines("runs"):
            what, name, *rest = line.split(" ")
            begun.add(name)
            if what == "e" and rest[1] == "ok":
                done.add(name)
            elif what == "e" and rest[1] == "damaged":
                damaged.add(name)
        pushed, doubted = self._pushes()
        verdict = judge(pushed, self.events, done, set(escaped))
        counts = dict(zip(COUNTS, (len(pushed), len(done), len(escaped), len(verdict["forgotten"]), len(verdict["lost"]), len(begun),
                                   self.back_in_trays, len(doubted))))
        rows = [*collections.Counter(e.kind for e in self.events).items(), *counts.items(),
                ("wall time", f"{time.monotonic() - self.began:.0f} s"), ("seed", self.scale.seed)]
        self.table = "\n".join(f"{what:<20} {n:>9}" for what, n in rows)
        self.counts = counts
        wrong = {"lost": verdict["lost"], "escaped more than once": [n for n, k in escaped.items() if k > 1],
                 "escaped, and not made to fail": [n for n in escaped if n[0] not in load.FAILING],
                 "run with other bytes": damaged, "run, and never pushed": begun - set(pushed) - doubted,
                 "keys nobody knows": stray_keys(c, *QUEUES)}
        return [f"{what}: {len(names)}: {sorted(names)[:10]}" for what, names in wrong.items() if names]

    def _pushes(self):
        """name -> the moment at which it was acknowledged; names in doubt."""
        pushed, doubted, at = {}, set(), 0
        for line in self.ledger.lines("pushes"):
            at += len(line) + 1
            name, fate = line.split(" ")
            if fate == "ack":
                pushed[name] = at
            elif fate == "doubt":
                doubted.add(name)
        return pushed, doubted


def judge(pushed, events, done, escaped):
    """Judges what is missing. forgotten: pushed after the state to which Redis returned. lost: every other missing message."""
    out = {"forgotten": set(), "lost": set()}
    for name in set(pushed) - done - escaped:
        gone = next((e for e in events if e.revealed >= pushed[name] and name not in e.there), None)
        out["forgotten" if gone and pushed[name] > gone.settled else "lost"].add(name)
    return out
