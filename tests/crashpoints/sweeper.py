"""Cycles of which the sweeper's calls are counted."""
import os
import signal

from .cycle import Cycle, Midway
from .lane import LEFT_QUEUES
from harness.messages import sealed


class Recovery(Cycle):
    """A start after a whole tree was killed: trays of dead workers, the bare list, what is due, a registry to write."""
    name = "start, recovery"
    role = "sweeper"
    queues = LEFT_QUEUES
    told = frozenset({"d", "l0", "l1", "l2", "x0", "x1"})

    def prepare(self):
        for message in self.lane.restore():
            self.ledger.note(*message)
        for i in range(LEFT_QUEUES):
            due = self.ledger.note(f"q{i}", "ok", "n")
            self.client.zadd(f"quredis:of:ingress:q{i}:delayed", {sealed(self.client, b"quredis/1 w=00000000000000aa\n" + due, f"ingress:q{i}"): 1})
            self.client.zadd(f"delayed:q{i}", {self.ledger.note(f"q{i}", "ok", "p"): 1})
        self.client.lpush("transit:q0", self.ledger.note("q0", "ok", "x0"), self.ledger.note("q0", "ok", "x1"))
        self.push("ok a")
        self.go()


class Deaths(Cycle):
    """Workers that die in work, one of them of a message that is tried no more."""
    name = "deaths, rescue"
    gated = True
    role = "sweeper"
    queues = 3
    told = frozenset({"b"})

    def configuration(self):
        queues = super().configuration()
        queues[2]["recovery_attempts"] = 0
        return queues

    def prepare(self):
        self.push("ok a")

    def drive(self):
        self.until(lambda: self.ledger.has("done", "a"), "the first message of each queue")
        self.count()
        for i in range(2):
            self.ledger.push(f"q{i}", "murder b", "ok c", "ok d")
        self.ledger.push("q2", "poison b", "ok c", "ok d")


class Poll(Cycle):
    """What it looks for once a second: a retry and a producer's delayed push that get due, a paused queue that goes on."""
    name = "retry, pause"
    gated = True
    role = "sweeper"
    queues = 2

    def prepare(self):
        self.client.set("quredis:of:ingress:q0:paused", "an operator")
        self.ledger.push("q0", "ok a")
        self.ledger.push("q1", "again b")

    def drive(self):
        self.until_logged("queue_recovered", queue="q0")
        self.until(lambda: self.ledger.has("start", "b", "q1"), "the message of the other queue")
        self.count()
        for i in range(2):
            self.client.zadd(f"delayed:q{i}", {self.ledger.note(f"q{i}", "ok", f"p{j}"): j for j in range(3)})
        self.client.delete("quredis:of:ingress:q0:paused")


class Stop(Midway):
    """Workers that die in the moment of a stop."""
    name = "deaths at a stop"
    role = "sweeper"
    queues = 2
    told = frozenset({"b"})

    def prepare(self):
        self.push("ok a", "wait b", "ok c")

    def then(self):
        for pid in self.d.workers().values():
            os.kill(pid, signal.SIGKILL)
        self.stop(signal.SIGQUIT)


class Reconnect(Midway):
    """Its connection is cut in the midst of it."""
    name = "reconnect"
    role = "sweeper"
    queues = 2
    told = frozenset({"b"})

    def prepare(self):
        self.push("ok a", "murder b", "ok c")

    def then(self):
        self.cut("sweeper")


class Successor(Midway):
    """The one that a reload brings, for a queue that comes with it, beside the one of before that stays for the old workers."""
    name = "reload: the new one"
    gated = False
    role = "sweeper"
    queues = 3

    @classmethod
    def targets(cls):
        return [f"0.{1 + 2 + 1}"]

    def configuration(self):
        return super().configuration()[:2]

    def prepare(self):
        for i in range(2):
            self.ledger.push(f"q{i}", "ok a", "wait b", "ok c")

    def then(self):
        first, second, third = Cycle.configuration(self)
        self.reload({**first, "timeout": "4m"}, second, third)
        self.ledger.push("q2", "ok b")
        self.until(lambda: self.ledger.has("done", "b", "q2"), "the queue that came")
        self.go()


class Predecessor(Successor):
    """The one of before, through the same."""
    name = "reload: the old one"
    gated = True

    @classmethod
    def targets(cls):
        return ["0.1"]


CYCLES = [Recovery, Deaths, Poll, Stop, Reconnect, Successor, Predecessor]
