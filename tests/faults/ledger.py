"""What was pushed, what ran, and what lies in Redis at the end: the sums that must be right after every point."""
import collections
import hashlib
import json
import time

from harness.messages import unwrap

LATE_S = 12             # more than points.STALL_S
LOOK_S = 0.02           # between two looks at Redis

# One look at one moment: ingress, delayed and trays (how many), escape (what), records (how many), who is registered, leases, notes
_LOOK = """
local held = 0
for _, key in ipairs(redis.call('KEYS', KEYS[1] .. '*')) do
  if redis.call('TYPE', key).ok == 'list' then held = held + redis.call('LLEN', key) end
end
return {redis.call('LLEN', KEYS[2]), redis.call('ZCARD', 'quredis:of:' .. KEYS[2] .. ':delayed'), held, redis.call('LRANGE', KEYS[3], 0, -1),
        redis.call('XLEN', KEYS[3] .. ':log'), redis.call('HGETALL', KEYS[1] .. ':workers'), #redis.call('KEYS', KEYS[1] .. ':lease:*'),
        redis.call('HLEN', 'quredis:of:' .. KEYS[2] .. ':notes')}
"""

Look = collections.namedtuple("Look", "ingress delayed held escaped records living dead leases notes")


class Wrong(Exception):
    """A sum that is not right, or something that hangs."""


class Queue:
    """One queue and what its handlers say: lines "start NAME REDELIVERED ATTEMPT" and "end NAME". failing: letters of what is to
    escape."""

    def __init__(self, client, name, directory, late_s=LATE_S, failing="fw"):
        self.client, self.name, self.dir, self.late_s, self.failing = client, name, directory, late_s, failing
        directory.mkdir()
        directory.chmod(0o777)
        self.path = directory / "ledger"
        self.path.touch()
        self.path.chmod(0o666)
        self._look = client.register_script(_LOOK)
        self._file = open(self.path, "rb", buffering=0)
        self._rest = b""
        self._look_at = 0.0
        self.forget()

    def forget(self):
        self.read()
        self.pushed, self.starts, self.ends, self.told = [], collections.defaultdict(list), collections.Counter(), set()

    def push(self, *names):
        """As producers do; at maxmemory, too."""
        self.pushed += [(n.decode() if isinstance(n, bytes) else n).split("\n")[-1] for n in names]
        self.client.eval("redis.call('DEL', KEYS[2]) return redis.call('LPUSH', KEYS[1], unpack(ARGV))", 2, f"ingress:{self.name}",
                         f"nothing:{self.name}", *names)

    def note(self, name, memory):
        """Adds a note beside a message of a shared queue."""
        self.client.eval("redis.call('DEL', KEYS[2]) return redis.call('HSET', KEYS[1], unpack(ARGV))", 2, f"quredis:of:ingress:{self.name}:notes",
                         f"nothing:{self.name}", hashlib.sha1(name.encode()).hexdigest(), memory)
        self.told.add(name)

    def read(self):
        data = self._rest + self._file.read()
        *lines, self._rest = data.split(b"\n")
        for line in lines:
            what, name, *rest = line.decode().split()
            if what == "start":
                self.starts[name].append((rest[0], rest[1]))
            else:
                self.ends[name] += 1

    def started(self, *names):
        self.read()
        return all(n in self.starts for n in names)

    def ended(self, *names):
        self.read()
        return all(self.ends[n] for n in names)

    def look(self):
        ingress, delayed, held, escaped, records, workers, leases, notes = self._look(
            keys=[f"transit:{self.name}", f"ingress:{self.name}", f"escape:{self.name}"])
        registered = dict(zip(workers[::2], workers[1::2]))
        dead = {k: json.loads(v)["died_at"] / 1000 for k, v in registered.items() if b'"died_at"' in v}
        return Look(ingress, delayed, held, sorted(unwrap(m)[1].decode() for m in escaped), records,
                    [k for k in registered if k not in dead], dead, leases, notes)

    def waiting(self):
        return self.client.llen(f"ingress:{self.name}")

    def escaping(self):
        return sorted(n for n in self.pushed if n[0] in self.failing)

    def is_settled(self, workers):
        """Whether every message is in its place, and each worker has exactly one registration left."""
        if time.monotonic() < self._look_at or not self.ended(*(n for n in self.pushed if n[0] not in self.failing)):
            return False
        self._look_at = time.monotonic() + LOOK_S
        look = self.look()
        return look[:3] == (0, 0, 0) and look.escaped == self.escaping() and len(look.living) == look.leases == workers

    def check(self):
        """After is_settled(): nothing ran a second time untold, what was to be told was, and no note is left. Returns how many ran a
        second time, told."""
        told = 0
        for name, runs in self.starts.items():
            if name not in self.pushed:
                raise Wrong(f"{name} ran, and was never pushed")
            attempts = collections.Counter()
            for again, attempt in runs:
                attempts[attempt] += 1
                if attempts[attempt] > 1 and again == "0":
                    raise Wrong(f"{name} ran twice and was not told: {runs}")
                told += attempts[attempt] > 1
            if name[0] not in "r" and len(attempts) > 1:
                raise Wrong(f"{name} was charged an attempt: {runs}")
        untold = [n for n in self.told if any(again == "0" for again, _ in self.starts[n])]
        if untold:
            raise Wrong(f"not told what is remembered of them: {untold}")
        look = self.look()
        if look.notes:
            raise Wrong(f"{look.notes} notes are left")
        if look.records != len(look.escaped):
            raise Wrong(f"{len(look.escaped)} dead letters and {look.records} records")
        return told

    def clear(self):
        """For the next point: what was found right goes. What quredisd itself remembers for an hour, so as to find what arrives
        late under a dead name, is kept for as long as anything here can be late."""
        old = [k for k, died_at in self.look().dead.items() if died_at < time.time() - self.late_s]
        self.client.delete(f"escape:{self.name}", f"escape:{self.name}:log", f"quredis:of:ingress:{self.name}:notes")
        if old:
            self.client.hdel(f"transit:{self.name}:workers", *old)
        self.forget()

    def __str__(self):
        self.read()
        missing = [n for n in self.pushed if n[0] not in self.failing and not self.ends[n]]
        return f"{self.name}: not done {missing}, in Redis {self.look()}, runs {dict(self.starts)}"


def until(condition, seconds=None):
    """For generators: yields until the condition is true, but not longer than the timeout."""
    end = time.monotonic() + seconds if seconds else None
    while not condition() and (end is None or time.monotonic() < end):
        yield
