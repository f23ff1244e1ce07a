"""Cycles of which a worker's calls are counted, and those of a handler between vfork and exec."""
import pathlib
import signal

from .cycle import Cycle, Midway
from .ledger import PERSISTENT


class One(Cycle):
    """One message at a time: success, another attempt, dead letters, an unknown version."""
    name = "exec"
    keys = {"batch": {"max": 1}}

    def prepare(self):
        self.push("ok a", "again b", "reject c", "fail d", "unknown e", "ok f")


class Batch(Cycle):
    """Many at once, with failures among them, and a slow one behind which the rest is handed back."""
    name = "exec, batches"
    keys = {"batch": {"max": 16, "time": "50ms"}}

    def prepare(self):
        self.push("ok a", "ok b", "ok c", "ok d", "again e", "ok f", "reject g", "ok h", "slow i", "ok j", "ok k", "unknown l", "ok m")


class Late(Cycle):
    """A handler that neither ends in time nor heeds TERM, and a process in a session of its own."""
    name = "exec, timeout"
    keys = {"batch": {"max": 1}}

    def prepare(self):
        self.push("late a", "ok b")


class Drain(Midway):
    """A stop while a handler runs, which it waits for."""
    name = "exec, drain"

    def prepare(self):
        self.push("ok a", "wait b", "ok c")

    def then(self):
        self.send(signal.SIGTERM)
        self.go()
        self.ended("the drain does not end")


class HandBack(Midway):
    """A fast stop: one handler ends, one has to be killed, what waits behind it goes back."""
    name = "exec, hand back"
    midway = "c"
    keys = {"batch": {"max": 8, "time": "1s"}}
    told = frozenset({"c"})

    def prepare(self):
        self.push("ok a", "ok b", "stubborn c", "ok d", "ok e", "ok f")

    def then(self):
        self.stop(signal.SIGQUIT)


class Reload(Midway):
    """The old worker finishes what it runs."""
    name = "exec, reload"

    def prepare(self):
        self.push("ok a", "wait b", "ok c", "ok d")

    def then(self):
        self.reload(*({**q, "timeout": "4m"} for q in self.d.sections["queues"]))
        self.until_logged("reload_done")
        self.go()


class Reconnect(Midway):
    """The connection is cut while a handler runs that succeeds: its acknowledgement is held, and sent on the next one."""
    name = "exec, reconnect"
    midway = "d"
    keys = {"batch": {"max": 4, "time": "1s"}}

    def prepare(self):
        self.push("ok a", "ok b", "ok c", "wait d", "ok e")

    def then(self):
        self.cut("q")
        self.go()


class Broken(Cycle):
    """The handler cannot be executed at first: its interpreter is not there."""
    name = "exec, breaker"

    def prepare(self):
        pathlib.Path(self.handler_path).write_text("#!/nowhere/sh\n")
        self.push("ok a", "ok b", "ok c")

    def drive(self):
        self.until(lambda: len({e["queue"] for e in self.d.events("breaker_opened") + self.d.events("worker_died")}) == self.queues,
                   "the breakers to open")
        self.write_handler()


class Persistent(Cycle):
    """A handler that stays: each of its answers, one that dies with several unanswered, one that is too slow."""
    name = "persistent"
    handler = PERSISTENT
    keys = {"mode": "persistent", "window": 4}
    told = frozenset({"d", "e", "f", "g"})

    def prepare(self):
        self.push("ok a", "again b", "reject c", "ok d", "die e", "ok f", "late g", "ok h", "unknown i")


class PersistentWindow(Cycle):
    """Batches through a window, and a process that is replaced in between."""
    name = "persistent, recycle"
    handler = PERSISTENT
    keys = {"mode": "persistent", "window": 8, "batch": {"max": 16}, "recycle": {"jobs": 5}}

    def prepare(self):
        self.push(*[f"ok m{i}" for i in range(14)], "slow n", "ok o")


class PersistentDrain(Drain):
    """A stop that waits for the answers, and for the end of the process."""
    name = "persistent, drain"
    handler = PERSISTENT
    keys = {"mode": "persistent", "window": 4}

    def prepare(self):
        self.push("ok a", "wait b", "ok c", "ok d")


class PersistentHandBack(HandBack):
    """A fast stop with several unanswered."""
    name = "persistent, hand back"
    handler = PERSISTENT
    keys = {"mode": "persistent", "window": 2, "batch": {"max": 8, "time": "1s"}}
    told = frozenset({"c", "d"})


class Newborn(Cycle):
    """The first handler's process, from vfork to exec."""
    name = "handler, exec"
    role = "handler"
    keys = {"batch": {"max": 1}, "limits": {"open_files": 64, "oom_score_adj": 100}, "run_as": {"nice": 1, "directory": "/"}}

    def prepare(self):
        self.push("ok a", "again b", "ok c")


class NewbornPersistent(Newborn):
    """The same of one that stays."""
    name = "handler, persistent"
    handler = PERSISTENT
    keys = {**Newborn.keys, "mode": "persistent", "window": 2, "reply_fd": 3}


CYCLES = [One, Batch, Late, Drain, HandBack, Reload, Reconnect, Broken, Persistent, PersistentWindow, PersistentDrain,
          PersistentHandBack, Newborn, NewbornPersistent]
