"""Where runs follow one another: one redis-server, one directory, and what a tree that was killed left behind."""
import pathlib
import shutil
import uuid

from harness import BUILD, Authority, Quredisd, RedisServer, queue, wait_for, write_handler
from harness.messages import anywhere, unwrap

from .ledger import EXEC, Ledger

PROGRAMS = BUILD / "crashpoints"
LEFT_QUEUES = 2


class Lane:
    """tls: the daemon reaches Redis with TLS. address: the group `redis` of its configuration, or the server itself."""

    def __init__(self, directory, tls=False):
        self.dir = pathlib.Path(directory)
        self.dir.mkdir(parents=True, exist_ok=True)
        self.tls = tls
        ca = Authority(self.dir / "ca") if tls else None
        self.redis = RedisServer(self.dir / "redis", tls=ca and ca.sign("server", "IP:127.0.0.1")).start()
        self.address = {"url": self.redis.tls_url, "ca_file": ca.cert} if tls else self.redis
        self.client = self.redis.client()
        self.lock_file = self.dir / "lock"
        self._leftovers = None
        self._runs = 0

    def fresh(self):
        """An empty Redis and a directory of its own for the next run."""
        self.client.flushall()
        self._runs += 1
        directory = self.dir / f"{self._runs}"
        shutil.rmtree(self.dir / f"{self._runs - 3}", ignore_errors=True)
        directory.mkdir()
        return directory

    def leftovers(self):
        """(key -> (ttl, dump), [(queue, kind, name)]) of what a killed tree leaves: several messages in a tray of each queue."""
        if self._leftovers is None:
            self._leftovers = self._make_leftovers()
        return self._leftovers

    def _make_leftovers(self):
        directory = self.fresh()
        handler = write_handler(directory, EXEC.replace("@DIR@", str(directory)), name="handler")
        ledger = Ledger(self.client, directory)
        d = Quredisd(directory / "d", tag="l" + uuid.uuid4().hex[:12], redis=self.address, log={"level": "info"},
                     queues=[queue(f"q{i}", handler, batch={"max": 4, "time": "1s"}) for i in range(LEFT_QUEUES)],
                     supervisor={"lock_file": self.lock_file})
        try:
            for i in range(LEFT_QUEUES):
                # fetched one, two and four at a time: the last three lie in one tray
                ledger.push(f"q{i}", "ok a", "ok b", "ok c", "ok d", "wait l0", "wait l1", "wait l2")
            d.start()
            wait_for(lambda: ledger.has("start", "l0"))
            d.kill_tree()
        finally:
            d.close()
        names = [(f"q{i}", *unwrap(m)[1].decode().split()) for i in range(LEFT_QUEUES) for m in anywhere(self.client, f"q{i}")]
        return {k: (max(self.client.pttl(k), 0), self.client.dump(k)) for k in self.client.keys("*:q*")}, names

    def restore(self):
        """Into an empty Redis; the messages."""
        keys, names = self.leftovers()
        self.client.flushall()
        for key, (ttl, value) in keys.items():
            self.client.restore(key, ttl, value)
        return names

    def close(self):
        self.redis.close()

