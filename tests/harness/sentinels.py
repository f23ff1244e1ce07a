"""A master, replicas and Sentinels that watch them. RedisServer says what each server is like."""
import os
import pathlib
import signal
import subprocess

import redis

from .paths import SERVER
from .processes import WITH_US
from .redis_server import RedisServer, free_port
from .waiting import wait_for

DOWN_AFTER_MS = 1000


class Sentinel:
    """One redis-sentinel on 127.0.0.1:self.port. config: further directives. tls: (Authority, Certificate): it speaks TLS only."""

    def __init__(self, directory, *, tag="", config=None, tls=None):
        self.dir = pathlib.Path(directory)
        self.dir.mkdir(parents=True)
        self.port = free_port()
        self.password = (config or {}).get("requirepass")
        self._env = {"QUREDIS_TEST_TAG": tag}
        self._config = {**self._directives(tls), **(config or {})}
        self._tls = {"ssl": True, "ssl_ca_certs": str(tls[0].cert)} if tls else {}
        self._process = None

    def _directives(self, tls):
        if not tls:
            return {"port": self.port}
        return {"port": 0, "tls-port": self.port, "tls-cert-file": tls[1].cert, "tls-key-file": tls[1].key, "tls-ca-cert-file": tls[0].cert,
                "tls-auth-clients": "no", "tls-replication": "yes"}

    def _connect(self):
        return redis.Redis(host="127.0.0.1", port=self.port, password=self.password, retry=None, socket_timeout=5, **self._tls)

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def start(self, name, master, quorum, down_after_ms=DOWN_AFTER_MS):
        """Watches the RedisServer `master` under this name, at its port for TLS if the Sentinel speaks TLS."""
        conf = self.dir / "sentinel.conf"
        text = {"bind": "127.0.0.1", "dir": self.dir, "logfile": self.dir / "sentinel.log", "daemonize": "no", **self._config}
        port = master.tls_port if self._tls else master.port
        watched = [f"sentinel monitor {name} 127.0.0.1 {port} {quorum}", f"sentinel down-after-milliseconds {name} {down_after_ms}",
                   f"sentinel failover-timeout {name} 4000"]
        conf.write_text("".join(f"{k} {v}\n" for k, v in text.items()) + "\n".join(watched) + "\n")
        return self.resume()

    def resume(self):
        """Starts it, after kill9() with what it knew then."""
        self._process = subprocess.Popen([*WITH_US, SERVER, self.dir / "sentinel.conf", "--sentinel"], stdin=subprocess.DEVNULL,
                                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", env={**os.environ, **self._env})
        wait_for(self.answers, 20, "redis-sentinel to answer")
        return self

    @property
    def pid(self):
        return self._process.pid if self._process else None

    def ask(self, *words):
        with self._connect() as c:
            return c.execute_command("SENTINEL", *words)

    def answers(self):
        try:
            with self._connect() as c:
                return c.ping()
        except redis.ConnectionError:
            return False

    def master_port(self, name):
        return int(self.ask("GET-MASTER-ADDR-BY-NAME", name)[1])

    def wait_asked(self, timeout=60):
        """Until somebody opens a connection to it. The Sentinels among themselves keep theirs."""
        with self._connect() as c:
            def opened():
                return c.info("stats")["total_connections_received"]
            before = opened()
            wait_for(lambda: opened() > before, timeout, "a question to the Sentinel")

    def kill9(self):
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(20)
            self._process = None

    def close(self):
        self.kill9()


class Watched:
    """servers[0] is the first master; the others are its replicas. sentinels: all that watch."""

    def __init__(self, directory, *, tag="", servers=2, sentinels=3, name="mail", server_options=None, sentinel_config=None):
        options = {"aof": "always", **(server_options or {})}
        options["config"] = {"repl-diskless-sync-delay": 0, **options.get("config", {})}
        self.name = name
        self.servers = [RedisServer(pathlib.Path(directory) / f"r{i}", tag=tag, tcp=True, **options).start() for i in range(servers)]
        self.sentinels = [Sentinel(pathlib.Path(directory) / f"s{i}", tag=tag, config=sentinel_config) for i in range(sentinels)]
        for server in self.servers[1:]:
            server.follow(self.servers[0])
        for sentinel in self.sentinels:
            sentinel.start(name, self.servers[0], sentinels // 2 + 1)
        wait_for(self.is_complete, 60, "the Sentinels to know each other and the replicas")

    def redis(self, dead=()):
        """The group `redis` of a configuration. dead: addresses that nobody listens on, before the others."""
        return {"sentinels": [*dead, *(s.address for s in self.sentinels)], "master": self.name}

    def _numbers(self, sentinel, *fields):
        """What a Sentinel knows of the master."""
        found = sentinel.ask("MASTER", self.name)
        said = dict(zip(found[::2], found[1::2])) if isinstance(found, list) else found
        return tuple(int(said.get(f.encode(), said.get(f, 0))) for f in fields)

    def is_complete(self):
        return all(self._numbers(s, "num-slaves", "num-other-sentinels") == (len(self.servers) - 1, len(self.sentinels) - 1)
                   for s in self.sentinels)

    def epoch(self):
        """A number that grows with each failover."""
        return max(e for s in self.sentinels if s.pid for e in self._numbers(s, "config-epoch"))

    def master(self):
        """The RedisServer that most Sentinels name; None: they do not agree."""
        ports = [s.master_port(self.name) for s in self.sentinels if s.pid]
        port = max(set(ports), key=ports.count)
        return next((s for s in self.servers if s.port == port), None) if ports.count(port) > len(self.sentinels) // 2 else None

    def client(self):
        return self.master().client()

    def wait_replicated(self):
        self.master().wait_replicated()

    def switched_from(self, old):
        """Whether all Sentinels name another master, and that one serves as a master."""
        new = self.master()
        if new is None or new is old:
            return None
        if any(s.master_port(self.name) != new.port for s in self.sentinels if s.pid):
            return None
        with new.connect() as c:
            return new if c.role()[0] in (b"master", "master") else None

    def failover(self):
        """An announced switch. Returns the new master."""
        old = self.master()
        wait_for(lambda: self._asks_failover(old), 60, "a Sentinel to begin the failover")
        return wait_for(lambda: self.switched_from(old), 60, "the failover")

    def _asks_failover(self, old):
        try:
            self.sentinels[0].ask("FAILOVER", self.name)
            return True
        except redis.ResponseError:             # NOGOODSLAVE, INPROG: not yet
            return self.master() is not old

    def kill_master(self):
        """kill -9 of the master; it comes back as a replica. Returns the new master."""
        old = self.master()
        old.kill9()
        new = wait_for(lambda: self.switched_from(old), 60, "the promotion")
        old.start(wait=False)
        return new

    def freeze_master(self):
        """The master stands still until another one is promoted. Then it continues, as a master, until the Sentinels make it a replica.
        Returns the new master."""
        old = self.master()
        os.kill(old.pid, signal.SIGSTOP)
        try:
            new = wait_for(lambda: self.switched_from(old), 60, "the promotion")
        finally:
            os.kill(old.pid, signal.SIGCONT)
        wait_for(lambda: old.client().role()[0] in (b"slave", "slave"), 60, "the old master to become a replica")
        return new

    def watch(self, server):
        """All Sentinels forget what they knew, and watch this server alone as the master."""
        for sentinel in self.sentinels:
            sentinel.ask("REMOVE", self.name)
            sentinel.ask("MONITOR", self.name, "127.0.0.1", server.port, len(self.sentinels) // 2 + 1)

    def wait_in_sync(self):
        """Until every other server follows the master, so that the next failover loses nothing that was acknowledged after this."""
        def in_sync():
            master = self.master()
            if master is None:
                return False
            with master.connect() as c:
                replicas = c.info("replication")
            return replicas["connected_slaves"] == len(self.servers) - 1 and \
                all(replicas[f"slave{i}"]["state"] == "online" for i in range(len(self.servers) - 1))
        try:
            wait_for(in_sync, 120, "the replicas to follow the master")
        except AssertionError as e:
            raise AssertionError(f"{e}: {self.describe()}") from None

    def describe(self):
        """What each process believes."""
        said = {f"sentinel {s.port}": s.master_port(self.name) for s in self.sentinels if s.pid}
        for server in self.servers:
            with server.connect() as c:
                said[server.port] = c.role()
        return said

    @property
    def pids(self):
        return {p.pid for p in [*self.servers, *self.sentinels] if p.pid}

    def close(self):
        for thing in [*self.sentinels, *self.servers]:
            thing.close()
