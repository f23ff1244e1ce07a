"""The place of one run: redis-servers, daemons and programs in one temporary directory."""
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

from harness import Authority, Quredisd, RedisServer, ROOT
from harness.processes import reap_adopted
from harness.waiting import wait_for

HERE = pathlib.Path(__file__).resolve().parent
NODE = "bench"

FILL = """
local value, size, from = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
for i = from, from + tonumber(ARGV[4]) - 1 do
	local number = string.format('%010d', i)
	redis.call('LPUSH', KEYS[1], size > 10 and number .. string.sub(value, 11, size) or number)
end
"""
TOP_UP = """
local n = tonumber(ARGV[2]) - redis.call('LLEN', KEYS[1])
for i = 1, n do redis.call('LPUSH', KEYS[1], ARGV[1]) end
return n
"""


class Bench:
    """Options as attributes; everything started here is ended by close()."""

    def __init__(self, build, *, quick=False, seconds=1.0, verbose=True, strict=False):
        self.build, self.quick, self.seconds, self.verbose, self.strict = pathlib.Path(build), quick, seconds, verbose, strict
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="qb"))
        os.chmod(self.dir, 0o755)
        self.handlers, self.functions = (shutil.copytree(HERE / name, self.dir / name) for name in ("handlers", "functions"))
        # an unpacked archive may be writable for its group: quredisd refuses such handlers as root
        for path in (self.handlers, self.functions, *self.handlers.iterdir(), *self.functions.iterdir()):
            path.chmod(0o755)
        self.peers = ROOT / "build/peers"
        self._servers, self._stocks, self._n, self.ca = {}, {}, 0, None

    def close(self):
        for s in self._servers.values():
            s.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def fewest(self, n):
        """Returns the smallest number of messages for a meaningful figure; with --quick a smaller one."""
        return max(8, n // 8) if self.quick else n

    def program(self, name):
        return self.build / name

    def which(self, name):
        found = shutil.which(name)
        if found is None:
            raise FileNotFoundError(f"{name} is not installed")
        return found

    def server(self, aof=None):
        if aof not in self._servers:
            config = {"auto-aof-rewrite-percentage": 0, "enable-debug-command": "no"}
            self._servers[aof] = RedisServer(self.dir / f"r{aof or ''}", aof=aof, tcp=True, config=config, tag=NODE, tls=self._certificate()).start()
        return self._servers[aof]

    def _certificate(self):
        """One for all servers; self.ca signed it."""
        if self.ca is None:
            self.ca = Authority(self.dir / "ca")
            self._signed = self.ca.sign("server", "IP:127.0.0.1")
        return self._signed

    def _address(self, server, reach):
        return {"unix": {"url": server.url}, "tcp": {"url": server.tcp_url}, "tls": {"url": server.tls_url, "ca_file": self.ca.cert}}[reach]

    # ---- messages ----

    def _grow(self, server, size, n):
        c = server.client()
        have = self._stocks.get((server, size), 0)
        value = "x" * size
        while have < n:
            some = min(10_000, n - have, max(1, 8_000_000 // size))
            c.eval(FILL, 1, f"stock:{size}", value, size, have, some)
            have += some
        self._stocks[server, size] = max(have, n)

    def stock(self, server, key, size, n):
        """key becomes a list of n distinct messages of this size."""
        self._grow(server, size, n)
        c = server.client()
        aside = f"{key}:aside"
        c.copy(f"stock:{size}", aside, replace=True)
        c.ltrim(aside, -n, -1)
        c.rename(aside, key)

    def fill_equal(self, server, key, value, n):
        c = server.client()
        c.unlink(key)
        step = max(1, min(10_000, 8_000_000 // len(value)))
        for start in range(0, n, step):
            c.eval(TOP_UP, 1, key, value, min(n, start + step))

    def forget_queue(self, server):
        c = server.client()
        for pattern in ("ingress:*", "transit:*", "escape:*", "quredis:*"):
            keys = c.keys(pattern)
            if keys:
                c.unlink(*keys)

    def wait_empty(self, c, name="bench", timeout=120):
        """Until nothing waits and nothing is in work."""
        ingress, trays = f"ingress:{name}", f"transit:{name}:{NODE}.*:[012]"
        deadline = time.monotonic() + timeout
        while c.llen(ingress) > 0 or c.keys(trays):
            if time.monotonic() > deadline:
                raise AssertionError(f"{c.llen(ingress)} messages and {c.keys(trays)} left after {timeout} s")
            time.sleep(0.002)

    # ---- quredisd ----

    @contextlib.contextmanager
    def daemon(self, server, queues, *, reach="unix", **sections):
        """reach: unix, tcp or tls."""
        self._n += 1
        d = Quredisd(self.dir / f"d{self._n}", tag=NODE, redis=self._address(server, reach), queues=queues,
                     supervisor={"node": NODE, "drain_timeout": "2s"}, log={"level": "info"}, **sections)
        try:
            yield d.start()
            code = d.stop(signal.SIGTERM)
            assert code == 0, f"quredisd ended with {code}: {d.text()[-500:]}"
        finally:
            d.close()
            reap_adopted(set())
            shutil.rmtree(d.dir, ignore_errors=True)

    @contextlib.contextmanager
    def process(self, *argv, **more):
        """Starts a process, which is later ended together with its process group."""
        with open(self.dir / "peer.log", "ab") as log:
            p = subprocess.Popen([str(a) for a in argv], stdin=more.pop("stdin", subprocess.DEVNULL), stdout=more.pop("stdout", log),
                                 stderr=log, start_new_session=True, **more)
        try:
            yield p
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(p.pid, signal.SIGKILL)
            p.wait(20)

    def wait_for(self, condition, what, timeout=60):
        return wait_for(condition, timeout, what, interval=0.001)


def compile_baselines(build):
    """The C programs of baseline/, by the compiler at hand."""
    build.mkdir(parents=True, exist_ok=True)
    for source in sorted((HERE / "baseline").glob("*.c")):
        target = build / source.stem
        if target.exists() and target.stat().st_mtime > source.stat().st_mtime:
            continue
        how = {"tiny": ["-static"] + (["-nostdlib"] if os.uname().machine in ("x86_64", "aarch64") else []),
               "stamp": ["-static"]}.get(source.stem, [])
        libs = ["-lhiredis"] if source.stem == "loop" else []
        subprocess.run([*os.environ.get("CC", "cc").split(), "-O2", "-std=gnu17", "-D_GNU_SOURCE", "-Wall", "-Wextra", *how,
                        "-o", str(target), str(source), *libs], check=True)
    return build
