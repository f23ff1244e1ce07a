"""One cell of the acceptance: one message of one size, and what becomes of it, with all that is measured meanwhile."""
import contextlib
import hashlib
import json
import os
import random
import signal
import time
from typing import NamedTuple

from conftest import Machine
from harness import queue, wait_for
from harness.handlers import write_handler
from harness.messages import record, stray_keys
from harness.slow_link import SlowLink

from .measure import PeakMemory, Pinger, longest_command

MIB = 1 << 20
PATIENCE = 3            # a message that is not settled in so many times its limit is given up
QUICK = {"base": "1ms", "cap": "5ms", "jitter": 0.0}
TIMEOUT_S = 2
OLDER = [b"a dead letter", b"another"]      # escape is seldom empty

# Notes what it got; then does what the first run, or each run, of this fate does.
HANDLER = r'''
import hashlib, json, os, sys, time
fate, e = sys.argv[1], os.environ
digest, size = hashlib.sha256(), 0
while piece := sys.stdin.buffer.read(1 << 20):
    digest.update(piece)
    size += len(piece)
line = {"queue": e["QUREDIS_QUEUE"], "size": size, "sha256": digest.hexdigest(), "at": time.monotonic(),
        "redelivered": e["QUREDIS_REDELIVERED"]}
fd = os.open("@LEDGER@", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
os.write(fd, (json.dumps(line) + "\n").encode())
first = e["QUREDIS_ATTEMPT"] == "1" and e["QUREDIS_REDELIVERED"] == "0"
if fate == "fail" or (fate == "retry" and first):
    sys.exit(1)
if fate == "timeout" or (fate == "wait" and first):
    time.sleep(600)
'''


class Fate(NamedTuple):
    handler: str        # what it does: an argument of HANDLER
    runs: int           # how often the payload has to cross the link
    escapes: str        # class of the record; "": it is done in the end
    leases: float       # how long, in leases, the rules let pass before anything may happen at all
    rules_s: float      # the same in seconds
    keys: dict = {}     # of the queue
    unread: bool = True     # has a meaning for a message that is not read, since it is too large
    kills: bool = False     # a neighbour queue's message is rescued at the same time


FATES = {
    "done": Fate("done", 1, "", 0, 0),
    "fail": Fate("fail", 1, "HandlerExit", 0, 0, unread=False),
    "retry": Fate("retry", 2, "", 0, 0, {"max_attempts": 2, "backoff": QUICK}, unread=False),
    "time out": Fate("timeout", 1, "HandlerTimeout", 0, TIMEOUT_S, {"timeout": f"{TIMEOUT_S}s"}, unread=False),
    "hand back": Fate("wait", 2, "", 0, 0),
    "worker killed": Fate("wait", 2, "", 0, 0.5, kills=True),       # the policy for a first death
    "host killed": Fate("wait", 2, "", 3, 0, kills=True),           # a lease, two looks a lease apart
}


class Scale(NamedTuple):
    rate: int           # of the link, bytes a second
    message_max: int
    lease_s: float
    slack_s: float      # for all that is not the link: processes that start, looks that are due


class Result(NamedTuple):
    settled_s: float
    limit_s: float
    ping_s: float       # the longest that another client waited
    native_s: float     # what a plain fetch of such a message took Redis right before
    command: tuple      # (seconds, name): the longest of Redis
    worker: int         # peak resident set
    sweeper: int
    crossed: int        # bytes that came over the links
    neighbour_s: float  # from the kill until its message ran again; None: nothing was killed
    problems: list


def payload_of(size):
    piece = random.Random(size).randbytes(min(size, MIB))
    return (piece * (size // MIB + 1))[:size]


_LEFT = """
local n = redis.call('LLEN', KEYS[1]) + redis.call('ZCARD', KEYS[2])
for _, key in ipairs(redis.call('KEYS', KEYS[3])) do
  if redis.call('TYPE', key).ok == 'list' then n = n + redis.call('LLEN', key) end
end
return n
"""


class Cell:
    """size None: nothing is pushed; how long a neighbour's rescue takes all the same."""

    def __init__(self, directory, tag, scale, fate, size):
        directory.mkdir()
        directory.chmod(0o755)
        self.dir, self.scale, self.fate, self.size = directory, scale, FATES[fate], size
        self.machine = Machine(directory, tag)
        self.ledger = directory / "ledger"
        self.ledger.touch()
        self.ledger.chmod(0o666)
        self.handler = write_handler(directory, HANDLER.replace("@LEDGER@", str(self.ledger)), "python", "handler")
        self.too_large = size is not None and size > scale.message_max
        self.tag, self.links, self.daemons, self.problems = tag, [], [], []
        self.spent_s, self.since, self.native_s = 0.0, None, 0.0

    # ---- what is there ----

    def _host(self, name):
        link_dir = self.dir / f"link{name}"
        link_dir.mkdir()
        link_dir.chmod(0o755)
        link = SlowLink(link_dir, self.server, self.scale.rate)
        self.links.append(link)
        large = queue("large", self.handler, self.fate.handler, message_max=f"{self.scale.message_max}",
                      **{"timeout": "600s", "max_attempts": 1, **self.fate.keys})
        daemon = self.machine.daemon(redis=link, supervisor={"lease": f"{int(self.scale.lease_s * 1000)}ms", "node": f"{self.tag}{name}"},
                                     queues=[large, queue("small", self.handler, "wait", timeout="600s")])
        self.daemons.append(daemon)
        for name in ("large", "small"):
            daemon.wait_event("queue_recovered", queue=name)
        return daemon

    def _processes(self):
        found = {"worker": [], "sweeper": []}
        for daemon in self.daemons:
            with contextlib.suppress(OSError, AssertionError):
                found["worker"] += daemon.workers("large").values()
                found["sweeper"] += filter(None, [daemon.sweeper()])
        return found

    def _runs(self, name):
        runs = [json.loads(line) for line in self.ledger.read_text().splitlines()]
        return [r for r in runs if r["queue"] == name]

    def _left(self):
        return self.client.eval(_LEFT, 3, "ingress:large", "quredis:of:ingress:large:delayed", "transit:large*")

    def _is_waited_for(self):
        """A worker of the queue blocks in Redis."""
        return any(c["name"].endswith(":large/0") and "b" in c["flags"] for c in self.client.client_list())

    def _stopped_while_it_waits(self, worker):
        os.kill(worker, signal.SIGSTOP)
        if self._is_waited_for():
            return True
        os.kill(worker, signal.SIGCONT)
        return False

    def _native_s(self):
        """How long a plain fetch of such a message takes Redis, just now."""
        self.client.slowlog_reset()
        for source, to in (("aside", "native"), ("native", "aside")):
            self.client.rpoplpush(source, to)
        return longest_command(self.client)[0]

    # ---- time: only what quredis is to blame for ----

    def _clock_on(self):
        self.since = time.monotonic()

    def _clock_off(self):
        self.spent_s += time.monotonic() - self.since
        self.since = None

    def limit_s(self):
        link_s = 0 if self.too_large or not self.size else 3 * self.size / self.scale.rate
        rules_s = self.fate.leases * self.scale.lease_s + (0 if self.too_large and not self.fate.kills else self.fate.rules_s)
        return link_s + rules_s + self.scale.slack_s

    def _wait(self, condition, what):
        wait_for(condition, PATIENCE * self.limit_s() + 10, what)

    # ---- fates ----

    def _publish(self, a):
        """The message is there, without a push, which costs Redis as much as a fetch. Returns when it is in A's hand."""
        holds = self.fate.handler == "wait"
        worker = a.workers("large")["large/0"] if holds and self.too_large else None
        if worker:              # nobody reads it, so this is the only way to find it in a tray
            self._wait(lambda: self._stopped_while_it_waits(worker), "the worker to wait for messages")
        self._clock_on()
        if self.size is not None:
            self.client.rename("aside", "ingress:large")
        if worker:
            self._wait(lambda: not self.client.exists("ingress:large"), "the message to be fetched")
        elif holds and self.size is not None:
            self._wait(lambda: self._runs("large"), "the first run")
        return worker

    def _hand_back(self, a, stopped):
        """A fast stop: the handler is ended, and what it had goes back for the next start."""
        a.signal(signal.SIGQUIT)
        if stopped:
            with contextlib.suppress(ProcessLookupError):       # the master may have woken it
                os.kill(stopped, signal.SIGCONT)
        code = a.wait_exit()
        if code != 0:
            self.problems.append(f"the stop ended with {code}")
        a.start()

    def _kill_workers(self, a):
        pids = [*a.workers("large").values(), *a.workers("small").values()]
        at = time.monotonic()
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        return at

    def _kill_host(self, a):
        self._clock_off()
        self._host("b")
        self._clock_on()
        at = time.monotonic()
        a.kill_tree()
        return at

    def _go(self, a):
        """What happens to it. Returns when something was killed."""
        stopped = self._publish(a)
        if self.fate is FATES["hand back"]:
            return self._hand_back(a, stopped)
        if self.fate is FATES["worker killed"]:
            return self._kill_workers(a)
        if self.fate is FATES["host killed"]:
            return self._kill_host(a)
        return None

    def _settled(self):
        if self._left():
            return False
        if self.too_large or self.fate.escapes:
            return self.client.llen("escape:large") == 1 + len(OLDER)
        return self.size is None or len(self._runs("large")) == self.fate.runs

    def _neighbour_s(self, killed_at):
        if killed_at is None:
            return None
        self._wait(lambda: len(self._runs("small")) == 2, "the neighbour's second run")
        return self._runs("small")[1]["at"] - killed_at

    # ---- what it comes to ----

    def _check(self, payload):
        digest = hashlib.sha256(payload).hexdigest()
        runs = self._runs("large")
        if any(r["sha256"] != digest or r["size"] != len(payload) for r in runs):
            self.problems.append("a handler got other bytes")
        if len(runs) != (0 if self.too_large else self.fate.runs):
            self.problems.append(f"{len(runs)} runs")
        wanted = "TooLarge" if self.too_large else self.fate.escapes
        if self.client.lrange("escape:large", -len(OLDER), -1) != OLDER:
            self.problems.append("older dead letters are gone")
        if wanted:
            if hashlib.sha256(self.client.lindex("escape:large", 0)).hexdigest() != digest:
                self.problems.append("other bytes escaped")
            if (found := record(self.client, "large")["error_class"].decode()) != wanted:
                self.problems.append(f"escaped as {found}")
        wait_for(lambda: not self.client.keys("*:scratch:*"), 30, "the rehearsal of rights to end")
        self.problems += [f"stray key {k}" for k in stray_keys(self.client, "large", "small") if ":scratch:" not in k]

    def _measured(self, a, payload):
        pinger, memory = Pinger(self.server), PeakMemory(self._processes)
        neighbour_s = None
        try:
            killed_at = self._go(a)
            self._wait(self._settled, "the message to settle")
            self._clock_off()
            neighbour_s = self._neighbour_s(killed_at)
        except AssertionError as e:
            self.problems.append(str(e).splitlines()[0])
            if self.since:
                self._clock_off()
        ping_s, peaks = pinger.worst(), memory.close()
        pinger.close()
        command, crossed = longest_command(self.client), sum(link.down for link in self.links)
        if not self.problems and payload is not None:
            self._check(payload)
        return Result(self.spent_s, self.limit_s(), ping_s, self.native_s, command, peaks.get("worker", 0), peaks.get("sweeper", 0),
                      crossed, neighbour_s, self.problems)

    def run(self):
        self.server = self.machine.server(config={"slowlog-log-slower-than": 500, "slowlog-max-len": 128})
        self.client = self.server.client()
        payload = None if self.size is None else payload_of(self.size)
        a = self._host("a")
        self.client.rpush("escape:large", *OLDER)
        if payload is not None:
            self.client.lpush("aside", payload)
            self.native_s = self._native_s()
        if self.fate.kills:
            self.client.lpush("ingress:small", b"neighbour")
            wait_for(lambda: self._runs("small"), 20, "the neighbour's first run")
        self.client.slowlog_reset()
        for link in self.links:
            link.down = link.up = 0
        return self._measured(a, payload)

    def close(self):
        """What was wrong with what is left."""
        for link in self.links:
            link.rate = None
        with open(self.dir / "log", "w") as log, contextlib.redirect_stdout(log):
            try:
                self.machine.close()
            except AssertionError as e:
                return [f"afterwards: {e}"]
            finally:
                for link in self.links:
                    link.close()
        return []
