"""A private redis-server: killed, restarted and reconfigured at will."""
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess

import redis

from .manual import access_lists
from .paths import ROOT, SERVER
from .prefixed import connection_class, with_prefix
from .processes import WITH_US
from .waiting import wait_for


# redis-py 4.3 names both in the error of a connection that was reset, and a unix one has neither: it raised AttributeError
redis.UnixDomainSocketConnection.host, redis.UnixDomainSocketConnection.port = "unix", 0


def free_port():
    """A TCP port that nobody listens on just now."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def node_of_cluster():
    """Directives of a node. One that loses its last slot stays a master."""
    return {"cluster-enabled": "yes", "cluster-port": free_port(), "cluster-allow-replica-migration": "no"}


# Keys that only processes with a secret write (TRACE in common/queue/types.c)
_TRACE = re.compile(r"quredis:of:.*:(delayed|delayed:apart|stats|done|notes|sweeper)|transit:.*:(workers|aside|aside:log|rescue)|"
                    r"escape:.*:(log|forwarded|claimed)|quredis:(health|node:.*)")
_WRITES = {"HSET", "HMSET", "XADD", "ZADD", "LPUSH", "RPUSH", "SET"}


def _leave_secret(client, command, key=b"", *_):
    """A test that writes what only a supervisor writes leaves the secret of that supervisor, too; without it quredis waits for it."""
    if command in _WRITES and _TRACE.fullmatch(key.decode(errors="replace") if isinstance(key, bytes) else str(key)) and not client.exists("quredis:secret"):
        client.set("quredis:secret", "5" * 64, nx=True)


class Pipeline(redis.client.Pipeline):
    def execute_command(self, *args, **options):
        _leave_secret(self.owner, *args)
        return super().execute_command(*args, **options)


class Client(redis.Redis):
    """A test may do everything; but it pushes as a producer, if there is a connection of one, and if the queue has its default keys."""
    producer = None

    def execute_command(self, *args, **options):
        _leave_secret(self, *args)
        return super().execute_command(*args, **options)

    def pipeline(self, transaction=True, shard_hint=None):
        pipe = Pipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)
        pipe.owner = self
        return pipe

    def lpush(self, name, *values):
        if self.producer and re.fullmatch("ingress:[^:]+", str(name)):
            return self.producer.lpush(name, *values)
        return super().lpush(name, *values)

    def zadd(self, name, *args, **options):
        if self.producer and re.fullmatch("delayed:[^:]+", str(name)):
            return self.producer.zadd(name, *args, **options)
        return super().zadd(name, *args, **options)

    def close(self):
        if self.producer:
            self.producer.close()
        super().close()


class RedisServer:
    """redis-server, or what QUREDIS_TEST_SERVER names, on a unix socket in a directory of its own.

    aof: None (nothing is kept over a restart), "always" or "everysec". tcp: also listens on
    127.0.0.1:self.port. config: further directives, e.g. {"maxmemory": "5mb", "requirepass": "x"}.
    inside: what its command begins with (containers.py). url is the unix one; tcp_url the other.
    clock: its clock can be set with set_clock(). cluster: the only node of a Redis Cluster, which serves all slots.
    refuse: commands that it does not have. deny: those that its access list refuses to its only user. So hosted services refuse commands.
    tls: a Certificate (harness/tls.py): also speaks TLS on 127.0.0.1:self.tls_port; tls_url is that address.
    prefix: what our clients put before every key (harness/prefixed.py).
    producer: our clients push with no other rights than those that docs/operating.md gives to a producer.
    """

    def __init__(self, directory, *, aof=None, tcp=False, config=None, inside=(), tag="", clock=False, cluster=False, tls=None, refuse=(), deny=(),
                 prefix="", producer=False):
        self.dir = pathlib.Path(directory)
        self.dir.mkdir(parents=True, exist_ok=True)
        self.socket = self.dir / "s"
        tcp = tcp or cluster
        self.port = free_port() if tcp else 0
        self.url = f"unix://{self.socket}"
        self.tcp_url = f"redis://127.0.0.1:{self.port}/0" if tcp else None
        self.log = self.dir / "redis.log"
        self.password = (config or {}).get("requirepass")
        self._inside = list(inside)
        self._env = {"QUREDIS_TEST_TAG": tag}
        if clock:
            self._make_clock()
        self._cluster, self._prefix = cluster, prefix
        self._refusals = "".join(f'rename-command {x} ""\n' for x in refuse)
        if deny:
            self._refusals += f"user default on nopass ~* &* +@all {' '.join('-' + x for x in deny)}\n"
        self._producer = producer and not prefix and not cluster
        if self._producer:
            self._refusals += f"user pushes on >pushes {' '.join(access_lists()['producer']).replace(':mail', ':*')}\n"
        self._process = None
        self._clients = []
        self._directives = {
            "port": self.port, "bind": "127.0.0.1", "unixsocket": self.socket, "unixsocketperm": "777",
            "dir": self.dir, "save": "", "daemonize": "no", "logfile": self.log,
            "appendonly": "yes" if aof else "no", "appendfsync": aof or "no",
            **(node_of_cluster() if cluster else {}), **self._tls(tls), **(config or {}),
        }

    def _tls(self, certificate):
        """Its directives. `config` may ask for certificates of clients: {"tls-auth-clients": "yes", "tls-ca-cert-file": ca.cert}."""
        self.tls_port = free_port() if certificate else 0
        self.tls_url = f"rediss://127.0.0.1:{self.tls_port}/0" if certificate else None
        return {"tls-port": self.tls_port, "tls-cert-file": certificate.cert, "tls-key-file": certificate.key, "tls-auth-clients": "no",
                "tls-ca-cert-file": certificate.cert} if certificate else {}

    def present(self, certificate):
        """Takes another certificate, for connections from now on."""
        self.client().execute_command("CONFIG", "SET", "tls-cert-file", str(certificate.cert), "tls-key-file", str(certificate.key))

    def _make_clock(self):
        shim, self._clock = self.dir / "clock.so", self.dir / "clock"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", shim, ROOT / "tests/harness/set_clock.c"], check=True, timeout=60)
        self._clock.write_bytes(bytes(16))
        self._env.update(LD_PRELOAD=str(shim), TEST_CLOCK=str(self._clock))

    def set_clock(self, ahead_s):
        """Sets the server's clock ahead of ours by so many seconds."""
        with open(self._clock, "r+b") as f:
            f.write(struct.pack("=qq", int(ahead_s * 1000000), 0))

    def stop_clock(self, at_ms):
        """The server's clock stands at this time, in ms since 1970, until set_clock()."""
        with open(self._clock, "r+b") as f:
            f.seek(8)
            f.write(struct.pack("=q", at_ms * 1000))

    @property
    def pid(self):
        return self._process.pid if self._process else None

    def start(self, wait=True):
        assert self._process is None, "already running"
        argv = [*WITH_US, *self._inside, SERVER, "-"]
        text = "".join(f'{k} "{v}"\n' for k, v in self._directives.items()) + self._refusals
        self.socket.unlink(missing_ok=True)
        wait_for(self._port_is_free, 20, "the port to be free")
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                         stderr=subprocess.DEVNULL, cwd="/",
                                         env={**os.environ, **self._env})
        self._process.stdin.write(text.encode())
        self._process.stdin.close()
        if wait:
            wait_for(self.answers, 20, "redis-server to answer")
        if self._cluster and wait:
            self._serve_all_slots()
        return self

    def _serve_all_slots(self):
        with self.connect() as c:
            if not c.execute_command("CLUSTER SLOTS"):
                c.execute_command("CLUSTER ADDSLOTSRANGE", 0, 16383)
            wait_for(lambda: c.execute_command("CLUSTER INFO")["cluster_state"] == "ok", 20, "the slots to be served")

    def _port_is_free(self):
        """A child that saves keeps the port of a server that was killed."""
        if not self.port:
            return True
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind(("127.0.0.1", self.port))
            except OSError:
                return False
        return True

    def answers(self):
        if self._process.poll() is not None:
            raise AssertionError(f"redis-server ended: {self.log.read_text() if self.log.exists() else ''}")
        try:
            with self.connect() as c:
                return c.ping()
        except redis.AuthenticationError:
            return True
        except (redis.ConnectionError, redis.ResponseError):
            return False

    def connect(self, **options):
        """A client that the caller closes. It sends nothing twice, as redis-py 6 would."""
        alone = options.pop("single_connection_client", False)
        c = self._open(Client, alone, password=self.password, **options)
        if self._producer and "username" not in options:
            c.producer = self._open(redis.Redis, alone, username="pushes", password="pushes", **options)
        return c

    def _open(self, kind, alone, **options):
        pool = redis.ConnectionPool(connection_class=connection_class(self._prefix), path=str(self.socket), retry=None, **options)
        c = kind(connection_pool=pool, single_connection_client=alone)
        c.auto_close_connection_pool = True
        return c

    def client(self, **options):
        """A client; bytes in, bytes out. Closed when the test ends."""
        c = self.connect(**options)
        self._clients.append(c)
        return c

    def cli(self, *args, input=None):
        """redis-cli; returns its stdout as bytes."""
        own = [a for a in args[:1] if a == "-x"]
        words = with_prefix(self._prefix, args[len(own):])
        argv = ["redis-cli", "-s", str(self.socket), *map(str, [*own, *words])]
        env = {**os.environ, **({"REDISCLI_AUTH": self.password} if self.password else {})}
        return subprocess.run(argv, input=input, stdout=subprocess.PIPE, check=True, timeout=60, env=env).stdout

    def config_set(self, key, value):
        self.client().config_set(key, value)

    def signal(self, sig):
        os.kill(self.pid, sig)

    def kill9(self):
        """Kills the server, as a power cut would."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(20)
        self._process = None

    # ---- back in time ----

    def keep(self, name="kept"):
        """A copy of all it holds now, or with aof of all it has written to its file. Returns what go_back() takes."""
        copy = self.dir / name
        if self._directives["appendonly"] == "yes":
            shutil.copytree(self.dir / "appendonlydir", copy)
        else:
            with self.connect() as c:
                c.save()
            shutil.copy(self.dir / "dump.rdb", copy)
        return copy

    def _put_back(self, copy):
        if copy.is_dir():
            shutil.rmtree(self.dir / "appendonlydir")
            shutil.copytree(copy, self.dir / "appendonlydir")
        else:
            shutil.copy(copy, self.dir / "dump.rdb")

    def go_back(self, copy):
        """Starts it, after kill9(), with what it held when the copy was made."""
        self._put_back(copy)
        return self.start()

    def go_back_unnoticed(self, copy):
        """The same while it runs, without aof: no connection is lost. Needs enable-debug-command."""
        self._put_back(copy)
        with self.connect() as c:
            c.execute_command("DEBUG", "RELOAD", "NOSAVE")

    # ---- replication; both with tcp ----

    def follow(self, master, timeout=30):
        """Makes the server a replica of master, and waits until it holds the same data."""
        wait_for(self.answers, timeout, "a replica that loads")
        with self.connect() as c:
            c.execute_command("REPLICAOF", "127.0.0.1", master.port)

            def in_sync():
                try:
                    return c.info("replication")["master_link_status"] == "up"
                except redis.BusyLoadingError:
                    return False
            wait_for(in_sync, timeout, "the replica to be in sync")
        return self

    def wait_replicated(self, timeout_ms=20000):
        """Until a replica has all that was written so far."""
        with self.connect(single_connection_client=True) as c:
            c.publish("replicated", "")         # WAIT waits for the last write of this connection
            assert c.wait(1, timeout_ms) >= 1

    def promote(self):
        """Makes the server a primary. From now on it does not see what the former primary does."""
        with self.connect() as c:
            c.execute_command("REPLICAOF", "NO", "ONE")

    def stop(self):
        if self._process is None:
            return
        self._process.send_signal(signal.SIGCONT)
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(20)
        self._process = None

    def restart(self):
        """kill9 and start: what was not persisted is gone."""
        self.kill9()
        return self.start()

    def close(self):
        for c in self._clients:
            c.close()
        if self._process is not None:
            self.kill9()
