"""Cycles of queues that are shared with other programs: what is remembered of a message is written beside it, read and forgotten."""
import hashlib

from .sweeper import Deaths
from .worker import Batch, HandBack
from harness.messages import sealed

KEYS = {"shared": True, "max_attempts": 1}


class Notes:
    """Of all queues: none is left in the end, and whoever had one from the start was told so in each run."""

    def __init__(self, cycle):
        self._client, self._ledger, self._noted = cycle.client, cycle.ledger, set()
        cycle.sums.append(self)

    def put(self, queue, raw):
        self._client.hset(f"quredis:of:ingress:{queue}:notes", hashlib.sha1(raw).hexdigest(), "redelivered=1")
        self._noted.add((queue, raw.split(b"\n")[-1].split()[1].decode()))

    def _left(self):
        return [k.decode() for k in self._client.keys("quredis:of:ingress:*:notes")]

    def settled(self):
        return not self._left()

    def lost(self):
        return []

    def wrong(self, faulty):
        untold = [key for key, runs in self._ledger.starts().items() if key in self._noted and not all(r.redelivered for r in runs)]
        return [f"{key} is still there" for key in self._left()] + [f"{q}: {name} was not told" for q, name in untold]


class Shared(Batch):
    """Some have a note: one is done in its tray with others, one by itself, one escapes. One that is handed back from behind the slow one has
    a line before it, which becomes a note."""
    name = "exec, shared"
    keys = {**Batch.keys, **KEYS}

    def prepare(self):
        notes = Notes(self)
        self.push("ok a", "ok b", "reject c", "ok d", "slow e", "ok f")
        for i in range(self.queues):
            raw = self.ledger.note(f"q{i}", "ok", "g")
            self.client.lpush(f"ingress:q{i}", sealed(self.client, b"quredis/1 w=00000000000000aa redelivered=1\n" + raw, f"ingress:q{i}"))
        self.push("ok h")
        for message in self.ledger.messages:
            if message.name in "bceh":
                notes.put(message.queue, message.raw)


class SharedHandBack(HandBack):
    """A fast stop: what was started gets a note."""
    name = "exec, shared, hand back"
    keys = {**HandBack.keys, **KEYS}

    def prepare(self):
        super().prepare()
        Notes(self)


class SharedDeaths(Deaths):
    """What workers died of returns with a note, or escapes and leaves none."""
    name = "deaths, rescue, shared"
    keys = {**Deaths.keys, **KEYS}

    def prepare(self):
        super().prepare()
        Notes(self)


CYCLES = [Shared, SharedHandBack, SharedDeaths]
