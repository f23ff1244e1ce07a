"""A sweeper's whole cycle, each time with a supervisor of its own: connects, looks at the server, tries its rights, returns what
dead owners left in every way there is, hears of a death, moves what is due, sees a pause."""
import hashlib
import json
import os
import secrets
import signal

from ledger import until
from place import Lane
from worker_lane import STAYS
from harness.messages import sealed

MODES = {"sweeper": (STAYS, {"mode": "persistent"}), "shared": (STAYS, {"mode": "persistent", "shared": True})}
NOBODY = 0              # pid of those who never were


class SweeperLane(Lane):
    def __init__(self, number, place):
        name, mode = f"s{number:03}", "shared" if number % 4 == 3 else "sweeper"
        super().__init__(mode, place, place.queue(name, late_s=0), f"{place.tag}:sweeper", ("sweeper_died",))
        self.section = {"name": name, "handler": [place.handler(mode), str(self.queue.dir)], "workers": 2,
                        "batch": {"max": 64, "time": "5s"}, "recovery_attempts": 1, **MODES[mode][1]}
        place.start([self.section])
        self.lock = self._worker()["lock"]
        place.daemon.stop(signal.SIGQUIT)

    def _worker(self):
        """The registration of one of our workers."""
        workers = f"transit:{self.queue.name}:workers"
        while True:
            for found in map(json.loads, self.place.client.hvals(workers)):
                if found["pid"] != NOBODY:
                    return found

    # ---- what was there before ----

    def _owner(self, evidence={}, **trays):
        """Of a supervisor that is gone; its lists hold these, the first ones fetched last. evidence: what else its registration says."""
        c, q = self.place.client, self.queue.name
        name = f"{self.place.tag}.{secrets.token_hex(8)}.1.1"
        c.hset(f"transit:{q}:workers", name, json.dumps({"lock": self.lock, "node": self.place.tag, "pid": NOBODY, "since": 1, **evidence}))
        for tray, messages in trays.items():
            c.rpush(f"transit:{q}:{name}:{tray.lstrip('t')}", *messages)
            self.queue.pushed += [(m.decode() if isinstance(m, bytes) else m).split("\n")[-1] for m in messages]

    def _charged(self, message):
        """One that would escape if it were charged again: (message as it lies there, its name for a trial)."""
        if self.mode == "shared":
            self.queue.note(message, "crashes=1 redelivered=1")
            return message, hashlib.sha1(message.encode()).hexdigest()
        nonce = secrets.token_hex(8)
        return sealed(self.place.client, f"quredis/1 w={nonce} crashes=1\n{message}", f"ingress:{self.queue.name}"), nonce

    def _leave(self, n):
        c, q = self.place.client, self.queue
        self._owner(t0=[f"d1.{n}", f"d2.{n}"], t2=[f"d3.{n}"])              # an outage charges nobody, of several ...
        self._owner(t1=[self._charged(f"d4.{n}")[0]])                       # ... or alone ...
        tried, name = self._charged(f"w1.{n}")
        self._owner({"trial": name}, t0=[tried])                            # ... but what is on trial, which escapes
        self._owner({"stopping": 1}, t1=[self._charged(f"d15.{n}")[0]])     # nor does an ordered stop
        self._owner(rescue=[f"d5.{n}", f"d6.{n}"])                          # its rescue was not finished
        self._owner({"died_at": 1}, t1=[f"d7.{n}"])                         # came late
        if self.mode == "shared":
            q.note(f"d2.{n}", "redelivered=1 solo=1")
            q.told |= {m for m in q.pushed if m[0] == "d"}
        else:
            self._leave_bare(n)
        c.zadd(f"quredis:of:ingress:{q.name}:delayed", {f"d11.{n}": 1, sealed(c, f"quredis/1 w={n:016x} attempts=1\nd12.{n}", f"ingress:{q.name}"): 2})
        q.pushed += [f"d11.{n}", f"d12.{n}"]

    def _leave_bare(self, n):
        """That of another consumer, which is its own where the queue is shared."""
        c, q = self.place.client, self.queue
        c.rpush(f"transit:{q.name}", f"d8.{n}", f"d9.{n}")
        c.rpush(f"transit:{q.name}:rescue", f"d10.{n}")
        q.pushed += [f"d{i}.{n}" for i in range(8, 11)]

    # ---- the cycle ----

    def cycle(self):
        q, n, d = self.queue, next(self.cycles), self.place.daemon
        gates = [f"g{i}.{n}" for i in range(2)]
        q.clear()
        self._leave(n)
        d.start(wait=False)
        yield from until(lambda: q.ended(*(m for m in q.pushed if m[0] != "w")))
        # a worker dies with a message in work and one behind it
        q.push(gates[0], gates[1], f"d20.{n}", f"d21.{n}")
        yield from until(lambda: q.started(*gates))
        os.kill(self._worker()["pid"], signal.SIGKILL)
        yield from until(lambda: len(q.starts[gates[0]]) + len(q.starts[gates[1]]) > 2 or q.read())
        for gate in gates:
            (q.dir / f"go.{gate}").touch()
        yield from until(lambda: q.is_settled(2))
        d.signal(signal.SIGQUIT)
        yield from until(lambda: not d.running())
        d.wait_exit()
