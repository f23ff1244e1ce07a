"""quredisd itself, as it is installed: leases, records, log and sweeper are on in every figure."""
import json
import os
import pathlib
import shutil
import socket
import time

from case import Case
from harness import processes, queue
from harness.control import status


def children_cpu_s(pids):
    """User and system time of these and what they reaped."""
    total = 0
    for pid in pids:
        try:
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15]))
    return total / os.sysconf("SC_CLK_TCK")


def switches(pids):
    total = 0
    for pid in pids:
        try:
            lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)
    return total


class Server:
    """What a redis-server counted between two looks."""
    OWN = ("info", "llen", "keys", "rename", "copy", "ltrim")

    def __init__(self, client, pid):
        self.client, self.pid = client, pid
        self.look()

    def look(self):
        calls = {k[len("cmdstat_"):]: v["calls"] for k, v in self.client.info("commandstats").items()}
        stats = self.client.info("stats")
        self.now = {"calls": calls, "reads": stats["total_reads_processed"], "cpu": children_cpu_s([self.pid]),
                    "switches": switches([self.pid])}
        return self.now

    def since(self, before):
        after = self.look()
        calls = {k: n - before["calls"].get(k, 0) for k, n in after["calls"].items()}
        ours = sum(n for k, n in calls.items() if k in self.OWN)        # the bench's own, one read each
        return ({k: n for k, n in calls.items() if n > 0 and k not in self.OWN}, after["reads"] - before["reads"] - ours,
                after["cpu"] - before["cpu"], after["switches"] - before["switches"])


class Ours(Case):
    """A daemon with one queue that is idle, and then has n messages."""
    calibrates = True

    def __init__(self, name, handler, *, mode="exec", workers=2, window=1, batch=64, size=100, aof=None, reach="unix", orphans=0, rate=5000,
                 watched=False, history=False):
        super().__init__("ours", name)
        self.handler, self.mode, self.workers, self.window, self.batch = handler, mode, workers, window, batch
        self.size, self.aof, self.reach, self.orphans, self.rate = size, aof, reach, orphans, rate
        self.watched, self.history = watched, history
        self.costs = []         # CPU microseconds a message of workers and handlers, by rounds; a round that only calibrates comes first

    def conf(self, bench):
        persistent = {"mode": "persistent", "window": self.window} if self.mode == "persistent" else {}
        more = {"ttl": "1h"} if self.watched else {}
        if self.history:
            more["done"] = {"keep": 1000}
        return queue("bench", self.handler(bench), workers=self.workers, batch={"max": self.batch}, **persistent, **more)

    def sections(self, bench, statsd):
        """Every periodic task of the sweeper, as often as the configuration allows."""
        if not self.watched:
            return {}
        return {"health": {"enabled": True, "interval": "1s"},
                "purge": {"enabled": True, "interval": "1s", "max_ingress_age": "1h", "max_message_age": "1h"},
                "dead_letter": {"ttl": "1h", "max_entries": 1000, "discard": True},
                "metrics": {"statsd": "127.0.0.1:%d" % statsd.getsockname()[1], "textfile": str(bench.dir / "quredis.prom"), "interval": "1s"}}

    def run(self, bench):
        server = bench.server(self.aof)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as statsd:
            statsd.bind(("127.0.0.1", 0))
            value = self.observe(bench, server, self.sections(bench, statsd))
        bench.forget_queue(server)
        return value

    def observe(self, bench, server, sections):
        with bench.daemon(server, [self.conf(bench)], reach=self.reach, **sections) as d:
            self.warm(bench, server, d)
            if self.orphans:
                orphan(server, self.orphans)
            return self.drain(bench, server, d)

    def warm(self, bench, server, d):
        """Waits until every worker has had messages and, in persistent mode, has started its handler."""
        c = server.client()
        for _ in range(50):
            bench.stock(server, "ingress:bench", 100, 32 * self.workers)
            bench.wait_empty(c)
            if self.mode == "exec" or len(d.handlers()) >= self.workers:
                return
        raise AssertionError("not all handlers started")

    def drain(self, bench, server, d):
        c = server.client()
        n = self.messages(bench, at_most=min(1_500_000, 600_000_000 // self.size))
        bench.stock(server, "stock", self.size, n)
        pids = [*d.workers().values(), *(d.handlers() if self.mode == "persistent" else [])]
        counters = status(d, "bench")["counters"]
        seen = Server(c, server.pid)
        before, cpu, switched = seen.now, children_cpu_s(pids), switches(pids)
        began = time.monotonic()
        c.rename("stock", "ingress:bench")
        self.wait(bench, c)
        took = time.monotonic() - began
        calls, reads, server_cpu, server_switched = seen.since(before)
        self.facts = {
            "messages": n, "commands": round(sum(calls.values()) / n, 3), "reads_of_redis": round(reads / n, 4),
            "calls": {k: round(v / n, 4) for k, v in calls.items() if v / n >= 0.0005},
            "cpu_us": round((children_cpu_s(pids) - cpu) / n * 1e6, 2), "redis_cpu_us": round(server_cpu / n * 1e6, 2),
            "switches": round((switches(pids) - switched) / n, 4), "redis_switches": round(server_switched / n, 4),
        }
        self.costs.append(self.facts["cpu_us"])
        self.check(bench, c, d, counters["done"], n)
        return n / took

    def wait(self, bench, c):
        bench.wait_empty(c)

    def check(self, bench, c, d, before, n):
        """Checks that no message was lost, ran twice or failed. A worker counts a message when it has read the answer to the last DEL."""
        def done():
            return status(d, "bench")["counters"]["done"] - before
        bench.wait_for(lambda: done() >= n, f"{n} messages to be counted")
        assert done() == n, f"{done()} of {n} done"
        assert c.llen("escape:bench") == 0, "some failed"


class SomeFail(Ours):
    """A few messages fail and escape, with their records. The run ends when all messages are fetched: at the end a tray may wait for two seconds
    behind the blocking fetch of its worker."""

    def wait(self, bench, c):
        bench.wait_for(lambda: c.llen("ingress:bench") == 0, "all to be fetched")

    def check(self, bench, c, d, before, n):
        def settled():
            return status(d, "bench")["counters"]["done"] - before + c.llen("escape:bench") - self.escaped
        bench.wait_for(lambda: settled() >= n, f"{n} messages to be counted")
        assert settled() == n and (n < 1000 or c.llen("escape:bench") > self.escaped), f"{settled()} of {n} done or failed"

    def drain(self, bench, server, d):
        self.escaped = server.client().llen("escape:bench")
        return super().drain(bench, server, d)


def orphan(server, n):
    """Puts n messages into trays of workers that seem to live: their leases are long."""
    c = server.client()
    for i in range(100):
        inc = f"gone.{i:016x}.1.1"
        c.hset("transit:bench:workers", inc, json.dumps({"lock": "other", "node": "gone", "pid": 1, "since": int(time.time() * 1000)}))
        c.set(f"transit:bench:lease:{inc}", "1", px=600_000)
        c.rpush(f"transit:bench:{inc}:0", *["x" * 100] * (n // 100))


# ---- handlers ----

def tiny(bench):
    return bench.program("tiny")


def stay_c(bench):
    return bench.program("stay")


def stay_c_fails(bench):
    return [bench.program("stay"), "fail=100"]


def stay_python(bench):
    return ["/usr/bin/python3", "-S", bench.handlers / "stay.py"]


def stay_node(bench):
    return [bench.which("node"), bench.handlers / "stay.js"]


def stay_sh(bench):
    return ["/bin/sh", bench.handlers / "stay.sh"]


def cases():
    def stays(handler, language, workers=2, window=64, batch=128, **more):
        shown = "".join(f", {v}" if k in ("shown",) else "" for k, v in more.items())
        more.pop("shown", None)
        name = f"persistent {language}, window {window}, batch {batch}, {workers} worker{'s' if workers > 1 else ''}{shown}"
        return Ours(name, handler, mode="persistent", workers=workers, window=window, batch=batch, **more)

    found = {}
    for w in (1, 2, 4, 8):
        found[f"c64_w{w}"] = stays(stay_c, "C", w, rate=400_000)
    found["c8_w2"] = stays(stay_c, "C", 2, window=8, rate=200_000)
    for w in (1, 2, 4, 8):
        found[f"c1_w{w}"] = stays(stay_c, "C", w, window=1, batch=64, rate=60_000)
    found["c1_single_w1"] = stays(stay_c, "C", 1, window=1, batch=1, rate=20_000)
    found["c1_single_w8"] = stays(stay_c, "C", 8, window=1, batch=1, rate=50_000)
    interpreted = [("py", stay_python, "Python")] + ([("node", stay_node, "Node")] if shutil.which("node") else [])
    for name, handler, language in interpreted:
        for window in (1, 8, 64):
            found[f"{name}{window}_w2"] = stays(handler, language, 2, window=window, rate=100_000)
        found[f"{name}64_w4"] = stays(handler, language, 4, rate=200_000)
    found["c64_fails"] = SomeFail("persistent C, window 64, batch 128, 2 workers, 1 % fails", stay_c_fails, mode="persistent", window=64, batch=128, rate=100_000)
    found["c1_single_fails"] = SomeFail("persistent C, window 1, batch 1, 8 workers, 1 % fails", stay_c_fails, mode="persistent", workers=8, batch=1, rate=40_000)
    found["py1_w4"] = stays(stay_python, "Python", 4, window=1, rate=60_000)
    found["sh64_w2"] = stays(stay_sh, "sh", 2, rate=40_000)
    found["c64_1k"] = stays(stay_c, "C", 2, rate=200_000, size=1024, shown="1 KiB")
    found["c64_16k"] = stays(stay_c, "C", 2, rate=30_000, size=16384, shown="16 KiB")
    found["c64_tcp"] = stays(stay_c, "C", 2, rate=300_000, reach="tcp", shown="TCP")
    found["c64_tls"] = stays(stay_c, "C", 2, rate=300_000, reach="tls", shown="TLS")
    found["c64_everysec"] = stays(stay_c, "C", 2, rate=300_000, aof="everysec", shown="AOF everysec")
    found["c64_always"] = stays(stay_c, "C", 2, rate=80_000, aof="always", shown="AOF always")
    found["c1_single_always"] = stays(stay_c, "C", 1, window=1, batch=1, rate=4_000, aof="always", shown="AOF always")
    found["c64_orphans"] = stays(stay_c, "C", 4, rate=300_000, orphans=10_000, shown="10,000 orphaned messages")
    found["c64_watched"] = stays(stay_c, "C", 4, rate=400_000, watched=True, shown="all is watched")
    found["c1_single_watched"] = stays(stay_c, "C", 8, window=1, batch=1, rate=50_000, watched=True, shown="all is watched")
    found["c64_history"] = stays(stay_c, "C", 4, rate=200_000, history=True, shown="history is kept")
    found["tiny_watched"] = Ours("exec tiny static, 8 workers, all is watched", tiny, workers=8, rate=10_000, watched=True)
    for w in (1, 2, 4, 8):
        found[f"tiny_w{w}"] = Ours(f"exec tiny static, {w} worker{'s' if w > 1 else ''}", tiny, workers=w, rate=10_000)
    found["tiny_16k"] = Ours("exec tiny static, 2 workers, 16 KiB", tiny, size=16384, rate=10_000)
    found["sh_w2"] = Ours("exec sh, 2 workers", lambda b: [b.handlers / "once.sh"], rate=1_500)
    found["true_w2"] = Ours("exec /bin/true, 2 workers", lambda b: "/bin/true", rate=3_000)
    return found
