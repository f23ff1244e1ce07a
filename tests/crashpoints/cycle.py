"""One run: starts the daemon with a fault, waits until every message has ended, and does what a user would do."""
import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import time
import uuid

import redis

from harness import Quredisd, processes, queue, write_handler
from harness.control import ask

from .lane import PROGRAMS
from .ledger import EXEC, Ledger

HANG_S = 30             # no wait of a run takes longer, or it hangs
LEAVE_S = 10            # what a killed master left is gone within kill_grace + 2 s; and a slow machine
RESTARTS_MAX = 4


class Hang(Exception):
    """Something did not happen in time."""


class Subject(Quredisd):
    """A daemon whose first run is under a fault; later ones are what the user starts again."""

    prefix = ()

    def started(self):
        """Its end was not taken yet."""
        return self._process is not None

    def command(self, *args):
        return [*(self.prefix if self.runs == 1 else ()), *super().command(*args)]


@dataclasses.dataclass
class Result:
    """What came of one run. fired: target's number -> "N CALL KIND"; calls: target's number -> how many it made."""
    scenario: str
    fault: str
    whens: list
    fired: dict = dataclasses.field(default_factory=dict)
    calls: dict = dataclasses.field(default_factory=dict)
    injected: int = 0
    lost: list = dataclasses.field(default_factory=list)
    hang: str = ""
    flagged: list = dataclasses.field(default_factory=list)
    unflagged: list = dataclasses.field(default_factory=list)
    wrong: list = dataclasses.field(default_factory=list)
    crashes: list = dataclasses.field(default_factory=list)     # of a library that was refused memory: its name
    seconds: float = 0.0
    log: str = ""

    @property
    def bad(self):
        return bool(self.lost or self.hang or self.unflagged or self.wrong)


class Cycle:
    """A scenario. Subclasses say what it is; an object of it is one run."""

    name = ""
    role = "worker"         # whose calls: worker, handler (between vfork and exec), sweeper, errand (a child of it), master, keeper
    errand = 1              # the how manieth, from its start
    queues = 8              # equal ones, of one worker each: as many targets, if the role is worker or handler
    handler = EXEC
    keys = {}               # further keys of each queue
    told = frozenset()      # messages that run again, flagged, in any run: the cycle's own doing
    embedded = False
    sections = {}           # further ones of the configuration
    gated = False           # calls count from count() on: those before are the start of another cycle

    def __init__(self, lane, fault, whens):
        self.lane, self.fault, self.whens = lane, fault, whens
        self.dir = lane.fresh()
        self.client = lane.client
        self.ledger = Ledger(self.client, self.dir)
        self.sums = []          # what else must be settled in the end, and right: settled(), lost(), wrong(whether there was a fault)
        self.tag = "t" + uuid.uuid4().hex[:12]
        self.result = Result(self.name, fault.name, whens)
        self.ends = []          # exit statuses of the daemon, as they came
        self.handler_path = self.write_handler()
        self.d = Subject(self.dir / "d", tag=self.tag, redis=lane.address, log={"level": "info"}, queues=self.configuration(),
                         **self.sections, supervisor={"lock_file": lane.lock_file, "kill_grace": "300ms", "drain_timeout": "5s"})
        self.d.prefix = fault.command(PROGRAMS, list(zip(self.targets(), whens)), self.dir, self.gated)

    def write_handler(self):
        return write_handler(self.dir, self.handler.replace("@DIR@", str(self.dir)), name="handler")

    # ---- what a scenario says ----

    def configuration(self):
        keys = {"max_attempts": 2, "recovery_attempts": 3, "backoff": {"base": "10ms"}, "kill_grace": "100ms", **self.keys}
        return [queue(f"q{i}", self.handler_path, **keys) for i in range(self.queues)]

    def prepare(self):
        """Before the start."""

    def drive(self):
        """After it, up to the point from which on everything comes to an end by itself."""

    # ---- processes ----

    @classmethod
    def targets(cls):
        """Their descents (tracer.c): the keeper is forked first, then the sweeper, then workers in the order of their queues."""
        first = 1 if cls.embedded else 0
        workers = [f"0.{first + 2 + i}" for i in range(cls.queues)]
        return {"master": ["0"], "keeper": ["0.1"], "sweeper": [f"0.{first + 1}"], "worker": workers,
                "errand": [f"0.{first + 1}.{cls.errand}"],
                "handler": [w + ".1" for w in workers]}[cls.role]

    def tend(self):
        """A daemon that is gone is started again, without a fault."""
        if self.d.running():
            return
        if self.d.started():
            self.ends.append(self.d.wait_exit())
        if len(self.ends) > RESTARTS_MAX:
            raise Hang(f"quredisd does not stay up: {self.ends}")
        self.d.start(wait=False)

    def until(self, condition, what, limit=HANG_S):
        deadline, pause = time.monotonic() + limit, 0.002
        while True:
            self.tend()
            if self._holds(condition):
                return
            if time.monotonic() >= deadline:
                raise Hang(what)
            time.sleep(pause)
            pause = min(pause * 1.3, 0.03)

    @staticmethod
    def _holds(condition):
        try:
            return condition()
        except redis.ConnectionError:       # the embedded one; any other is always there
            return False

    def send(self, sig):
        """To the master; one that is dead is started again first."""
        self.until(self._heeds_signals, "quredisd to start")
        self.d.signal(sig)

    def ask(self, command, ok=True, **arguments):
        """On the control socket, again and again until it is answered so: a user would. What a mistake is, only the first one tells."""
        def answered():
            try:
                return ask(self.d, command, **arguments).get("ok") == ok
            except (OSError, AssertionError, ValueError):
                return False
        self.until(lambda: answered() or (not ok and self.d.runs > 1), f"the right answer to {command}")

    def stop(self, sig=signal.SIGTERM):
        """Stops the daemon. Returns whether the stop was orderly. The next wait starts it again."""
        self.send(sig)
        return self.ended(f"quredisd did not end after {signal.Signals(sig).name}")

    def ended(self, otherwise):
        try:
            self.ends.append(self.d.wait_exit(HANG_S))
        except subprocess.TimeoutExpired:
            raise Hang(otherwise) from None
        return self.ends[-1] == 0

    def push(self, *texts):
        for i in range(self.queues):
            self.ledger.push(f"q{i}", *texts)

    def go(self):
        (self.dir / "go").touch()

    def count(self):
        (self.dir / "count").touch()

    def until_started(self, name):
        self.until(lambda: self.ledger.has("start", name), f"the start of {name}")

    def cut(self, name):
        """Connections with such a name."""
        for c in self.client.client_list():
            if f"{self.tag}:{name}" in c["name"]:
                self.client.client_kill_filter(_id=c["id"])

    def reload(self, *queues):
        self.d.write_conf(queues=list(queues))
        self.send(signal.SIGHUP)

    def until_logged(self, event, **fields):
        self.until(lambda: self.d.events(event, **fields) or self.d.runs > 1, f"the event {event}")

    # ---- the run ----

    def run(self):
        since = time.monotonic()
        try:
            self.prepare()
            self.d.start(wait=False)
            self.drive()
            self._end()
        except Hang as e:
            self.result.hang = str(e)
        finally:
            self.result.seconds = time.monotonic() - since
            try:
                self.judge()
            finally:
                self.close()
        if self.result.bad:
            files = [p for p in sorted(self.dir.glob("log*")) + [self.dir / "report", self.ledger.path] if p.exists()]
            self.result.log = "\n".join([self.d.text()] + [f"---- {p.name}\n{p.read_text()}" for p in files])
        return self.result

    def _end(self):
        """All is done; an orderly stop. If the fault comes only then: once more."""
        self.go()
        while True:
            self.until(self.complete, "every message where it belongs")
            if self.stop():
                break
        self._until_alone()

    def complete(self):
        return self.ledger.complete() and all([s.settled() for s in self.sums])

    def _until_alone(self):
        """Waits until the run has no processes. close() judges the ones that remain."""
        deadline = time.monotonic() + LEAVE_S
        while self.left() and time.monotonic() < deadline:
            time.sleep(0.02)

    def _heeds_signals(self):
        """Whether the process handles signals. One that was just started does not yet, and any signal would end it."""
        try:
            status = pathlib.Path(f"/proc/{self.d.pid}/status").read_text()
        except OSError:
            return False
        return int(re.search(r"SigBlk:\t(\w+)", status)[1], 16) >> (signal.SIGTERM - 1) & 1 == 1

    def left(self):
        """Processes of this run that live, the tracer not among them."""
        tag = self.tag.encode()
        found = []
        for pid in processes.pids():
            env = processes.environment_of(pid)
            if (env.get(b"QUREDIS_TEST_TAG") == tag or env.get(b"QUREDIS_INCARNATION", b"").startswith(tag)) and \
                    processes.alive(pid) and not processes.title_of(pid).startswith(str(PROGRAMS / "tracer")):
                found.append(pid)
        return found

    def judge(self):
        r = self.result
        self._read_report()
        r.lost = self.ledger.lost() + [text for s in self.sums for text in s.lost()]
        r.flagged, r.unflagged = self.ledger.duplicates()
        if not r.fired:
            r.unflagged += [m for m in r.flagged if m.split()[1] not in self.told]
        if not r.hang:
            r.wrong = self.ledger.wrong(self.role == "handler" and bool(r.fired)) + self._wrong_ends()
            r.wrong += [text for s in self.sums for text in s.wrong(bool(r.fired))]

    def _wrong_ends(self):
        """
        A process that a failing call or allocation ended must have ended itself, or a library did that was refused memory;
        and nobody else's fault ends the master.
        """
        allowed = {-signal.SIGKILL} if self.fault.kills else {-signal.SIGSEGV, -signal.SIGABRT} if self.result.crashes else set()
        own = self.role == "master" and bool(self.result.fired)
        found = [f"quredisd ended with {code}" for code in self.ends if code != 0 and not (own and (code > 0 or code in allowed))]
        found += [f"a crash in {name}" for name in self.result.crashes if not name.startswith("lib")]
        for e in self.d.events():
            sig = e.get("signal")
            if e.get("event") in ("worker_died", "sweeper_died") and sig not in (None, "SIGKILL") and not \
                    (sig in ("SIGSEGV", "SIGABRT") and self.result.crashes):
                found.append(f"{e['event']}: {sig}")
        return found

    def _read_report(self):
        report, numbers = self.dir / "report", {role: i for i, role in enumerate(self.targets())}
        for line in report.read_text().splitlines() if report.exists() else []:
            what, role, *rest = line.split()
            if what == "fired":
                self.result.fired[numbers[role]] = " ".join(rest)
            elif what == "calls":
                self.result.calls[numbers[role]] = int(rest[0])
                self.result.injected = max(self.result.injected, int(rest[1]))
            elif what == "crash":
                self.result.crashes.append(rest[1])
            elif what == "error":
                raise RuntimeError(f"the tracer: {line}")

    def close(self):
        self.d.close()
        for pid in self.left():
            self.result.wrong.append(f"left over: {pid} {processes.title_of(pid)}")
            os.kill(pid, signal.SIGKILL)
        processes.reap_adopted({self.lane.redis.pid})


class Midway(Cycle):
    """Calls count from the moment at which this message runs in each queue."""
    gated = True
    midway = "b"

    def drive(self):
        self.until_started(self.midway)
        self.count()
        self.then()

    def then(self):
        """The step that an operator takes, or that happens, in this scenario."""
