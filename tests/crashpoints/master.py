"""Cycles of which the master's or the keeper's calls are counted. The user starts again what ends."""
import signal

import redis

from harness import RedisServer
from harness.config import Raw

from .cycle import Cycle, Midway


class Life(Cycle):
    """Start, a worker's death, everything that can be asked of it, a log file that is opened again, a drain."""
    name = "a whole life"
    role = "master"
    queues = 2
    told = frozenset({"b"})

    def __init__(self, lane, fault, whens):
        super().__init__(lane, fault, whens)
        self.d.write_conf(log={"level": "info", "target": str(self.dir / "log")})

    def prepare(self):
        self.push("ok a", "murder b", "again c")

    def drive(self):
        self.until(lambda: self.ledger.has("done", "b"), "the second run of what killed its worker")
        self.ask("status")
        self.ask("quiet", queue="q0")
        self.ask("resume", queue="q0")
        self.send(signal.SIGTSTP)
        self.send(signal.SIGCONT)
        (self.dir / "log").rename(self.dir / "log.1")
        self.send(signal.SIGUSR1)
        self.send(signal.SIGUSR2)
        self.send(signal.SIGHUP)
        self.push("ok d")
        self.until(lambda: self.ledger.has("done", "d"), "what was pushed later")
        self.ask("nonsense", ok=False)
        self.push("wait e")
        self.until_started("e")
        self.send(signal.SIGTERM)
        self.go()
        self.ended("the drain does not end")


class Reload(Midway):
    """A configuration with a mistake, then another one: a queue leaves, one changes, one comes; a restart of one."""
    name = "reload"
    role = "master"
    queues = 3
    told = frozenset({"b"})
    good = None             # sections of queues, once the file may have a mistake in it

    def configuration(self):
        return super().configuration()[:2]

    def prepare(self):
        self.ledger.push("q0", "ok a", "wait b")
        self.ledger.push("q1", "ok a", "wait b")

    def tend(self):
        """The user does not start it again with a configuration that it refused."""
        if not self.d.running() and self.good is not None:
            self.d.write_conf(queues=self.good)
        super().tend()

    def drive(self):
        self.good = Cycle.configuration(self)
        super().drive()

    def then(self):
        first, second, third = self.good
        self.d.write_conf(queues=[{**first, "timeout": Raw("nonsense")}, second])
        self.ask("reload", ok=False)
        self.d.write_conf(queues=[{**first, "timeout": "4m"}, third])
        self.ask("reload")
        self.ledger.push("q2", "ok a")
        self.until(lambda: self.ledger.has("done", "a", "q2"), "the queue that came")
        self.ask("restart", queue="q0")
        self.d.write_conf(queues=[first, second, third])
        self.ask("reload")
        self.go()


class FastStop(Midway):
    """While handlers run."""
    name = "fast stop"
    role = "master"
    queues = 2
    told = frozenset({"b"})

    def prepare(self):
        self.push("ok a", "stubborn b", "ok c")

    def then(self):
        self.send(signal.SIGINT)
        self.until_logged("stopping")
        self.stop(signal.SIGINT)


class Embedded(Cycle):
    """With a redis-server of its own, which it starts before all others and ends after them."""
    name = "embedded Redis"
    role = "master"
    queues = 2
    embedded = True

    def __init__(self, lane, fault, whens):
        super().__init__(lane, fault, whens)
        self.client = self.ledger.client = redis.Redis(unix_socket_path=str(self.dir / "r/redis.sock"), retry=None)
        self.d.write_conf(redis={"embedded": True, "dir": str(self.dir / "r")})

    def drive(self):
        for i in range(self.queues):
            for kind, name in (("ok", "a"), ("again", "b"), ("reject", "c")):
                self.until(lambda: self._pushed(f"q{i}", kind, name), "a push to the embedded Redis")

    def _pushed(self, queue, kind, name):
        """Pushes a message. One that was not acknowledged may be in Redis nevertheless, so the next one has another name."""
        name += str(len(self.ledger.unsure))
        try:
            self.ledger.push(queue, f"{kind} {name}")
        except redis.ConnectionError:
            self.ledger.unsure.add((queue, f"{kind} {name}"))
        return any(m.name == name for m in self.ledger.messages)

    def judge(self):
        """The embedded Redis ended with the daemon: another redis-server reads its file."""
        self.d.close()
        server = RedisServer(self.dir / "r", aof="everysec").start()
        self.ledger.client = server.client()
        super().judge()
        server.close()


class Keeper(Embedded):
    """The process that keeps it."""
    role = "keeper"
    name = "keeper"


class NewbornServer(Embedded):
    """What it starts, before that is redis-server."""
    role = "keeper"
    name = "keeper, fork to exec"

    @classmethod
    def targets(cls):
        return ["0.1.1"]


CYCLES = [Life, Reload, FastStop, Embedded, Keeper, NewbornServer]
