"""Other programs, each with its best documented settings for jobs that do nothing, with the same messages, and the same functions as
quredis where they call one (functions/).

A peer is started and waits; then all its jobs are there at once, by RENAME of a list that was filled
before (BullMQ: by resuming the queue). `loses` says how a job can be lost when a worker is killed.
"""
import contextlib
import importlib.util
import os
import pathlib
import shutil
import socket
import subprocess
import time
import uuid

from bare import program_says
from case import Case
from harness import free_port
from latency import Latency

PEER, FUNCTIONS = (pathlib.Path(__file__).resolve().parent / name for name in ("peer", "functions"))
FORMAT = """
for i = 1, tonumber(ARGV[3]) do
	redis.call('LPUSH', KEYS[1], ARGV[1] .. string.format('%024d', i + tonumber(ARGV[4])) .. ARGV[2])
end
"""


class Peer(Case):
    """fill(n), then start() until ready(), then release(), until finished()."""
    calibrates = True
    processes = 2

    def __init__(self, name, rate, loses=None):
        super().__init__("peers", name)
        self.rate, self.loses = rate, loses

    def messages(self, bench, **limits):
        """Enough messages for three seconds, since an interpreter with a JIT compiler is slow at first."""
        return super().messages(bench, **limits) if bench.quick else int(self.rate * max(bench.seconds, 3))

    def run(self, bench):
        self.bench, self.server = bench, bench.server()
        self.c = self.server.client(db=1)
        self.c.flushdb()
        n = self.messages(bench)
        self.fill(n)
        with contextlib.ExitStack() as stack:
            for i in range(self.processes):
                self.start(stack, i)
            bench.wait_for(self.ready, f"{self.name} to be ready")
            time.sleep(0 if bench.quick else 0.3)
            began = time.monotonic()
            self.release()
            while not self.finished():
                if time.monotonic() - began > 90:
                    raise AssertionError("not done after 90 s")
                time.sleep(0.003)
            took = time.monotonic() - began
        self.c.flushdb()
        return n / took

    def environment(self):
        return {**os.environ, "BENCH_SOCKET": str(self.server.socket), "PYTHONPATH": f"{PEER}:{FUNCTIONS}", "C_FORCE_ROOT": "1",
                "NODE_PATH": str(self.bench.peers / "node_modules"), "NODE_ENV": "production", "BENCH_FUNCTIONS": str(FUNCTIONS)}

    def spawn(self, stack, *argv, **more):
        return stack.enter_context(self.bench.process(*argv, env=self.environment(), cwd=str(PEER), **more))

    def blocked(self, *commands):
        return sum(x["cmd"] in commands and "b" in x["flags"] for x in self.c.client_list())


class Sidekiq(Peer):
    def __init__(self):
        super().__init__("Sidekiq, 2 processes of 10 threads", 20_000, "what its workers hold when killed (BRPOP)")

    def fill(self, n):
        before = '{"class":"Noop","args":["' + "x" * 100 + '"],"retry":true,"queue":"default","created_at":1,"enqueued_at":1,"jid":"'
        for i in range(0, n, 10_000):
            self.c.eval(FORMAT, 1, "filled", before, '"}', min(10_000, n - i), i)

    def start(self, stack, i):
        self.spawn(stack, "sidekiq", "-r", PEER / "noop.rb", "-c", "10", "-q", "default", "-e", "production")

    def ready(self):
        return self.blocked("brpop") >= 20

    def release(self):
        self.c.rename("filled", "queue:default")

    def finished(self):
        return self.c.llen("queue:default") == 0


class Rq(Peer):
    def __init__(self, fork):
        super().__init__("RQ, 2 processes" + (", a fork a job" if fork else ", SimpleWorker"), 60 if fork else 1_000,
                         "nothing, but what ran when killed is not run again")
        self.fork = fork

    def fill(self, n):
        subprocess.run(["/usr/bin/python3", PEER / "bench_rq.py", str(n)], check=True, timeout=120, env=self.environment())
        self.c.rename("rq:queue:default", "filled")

    def start(self, stack, i):
        worker = [] if self.fork else ["-w", "rq.SimpleWorker"]
        self.spawn(stack, "rq", "worker", "-q", "-u", f"unix://{self.server.socket}?db=1", *worker, "default")

    def ready(self):
        return self.blocked("blpop") >= 2

    def release(self):
        self.c.rename("filled", "rq:queue:default")

    def finished(self):
        return self.c.llen("rq:queue:default") == 0 and self.c.zcard("rq:wip:default") == 0


class Celery(Peer):
    processes = 1

    def __init__(self):
        super().__init__("Celery, prefork 2, prefetch 4", 2_000, "what runs when killed (acknowledged early)")

    def fill(self, n):
        subprocess.run(["/usr/bin/python3", "-c", f"import bench_celery; bench_celery.noop.delay({'x' * 100!r})"], check=True,
                       timeout=60, env=self.environment(), cwd=PEER)
        one = self.c.lpop("celery")
        ids = [p for p in one.decode().replace('"', " ").split() if len(p) == 36 and p.count("-") == 4]
        job = one.decode()
        for i in range(0, n, 500):
            self.c.lpush("filled", *[self.another(job, ids) for _ in range(min(500, n - i))])

    @staticmethod
    def another(job, ids):
        for old in set(ids):
            job = job.replace(old, str(uuid.uuid4()))
        return job

    def start(self, stack, i):
        self.spawn(stack, "/usr/bin/python3", "-m", "celery", "-A", "bench_celery", "worker", "-P", "prefork", "-c", "2",
                   "--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "ERROR")

    def ready(self):
        return self.blocked("brpop") >= 1

    def release(self):
        self.c.rename("filled", "celery")

    def finished(self):
        return self.c.llen("celery") == 0 and self.c.hlen("unacked") == 0


class Node(Peer):
    def __init__(self, name, script, rate):
        super().__init__(name, rate, "nothing (what stalls is run again)")
        self.script = script

    def start(self, stack, i):
        self.spawn(stack, "node", PEER / self.script, "work")


class BullMq(Node):
    def __init__(self):
        super().__init__("BullMQ, 2 processes, concurrency 50", "bullmq.js", 20_000)

    def run(self, bench):
        with contextlib.ExitStack() as self.stack:
            return super().run(bench)

    def fill(self, n):
        self.filler = self.spawn(self.stack, "node", PEER / self.script, "fill", str(n), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.filler.stdout.readline() == b"filled\n"

    def ready(self):
        return self.blocked("bzpopmin") >= 2

    def release(self):
        self.filler.stdin.write(b"go\n")
        self.filler.stdin.flush()

    def finished(self):
        return not self.c.exists("bull:bench:wait", "bull:bench:active", "bull:bench:paused")


class Bee(Node):
    def __init__(self):
        super().__init__("bee-queue, 2 processes, concurrency 50", "bee.js", 40_000)

    def fill(self, n):
        subprocess.run(["node", PEER / self.script, "fill", str(n)], check=True, timeout=120, env=self.environment())
        self.c.rename("bq:bench:waiting", "filled")

    def ready(self):
        return self.blocked("brpoplpush") >= 2

    def release(self):
        self.c.rename("filled", "bq:bench:waiting")

    def finished(self):
        return not self.c.exists("bq:bench:waiting", "bq:bench:active")


class Shell(Peer):
    def __init__(self):
        super().__init__("shell loop over redis-cli, /bin/true, 2 processes", 250, "nothing, but what ran when killed lies in transit for ever")

    def fill(self, n):
        for i in range(0, n, 10_000):
            self.c.eval(FORMAT, 1, "filled", "x" * 76, "", min(10_000, n - i), i)
        self.n = n

    def start(self, stack, i):
        self.spawn(stack, PEER / "loop.sh", self.server.socket, "shell", f"shell:{i}")

    def ready(self):
        return self.blocked("brpoplpush") >= 2

    def release(self):
        self.c.rename("filled", "shell")

    def finished(self):
        return not self.c.exists("shell", "shell:0", "shell:1")


class Xargs(Case):
    calibrates = True

    def __init__(self, name, program, rate):
        super().__init__("peers", f"xargs -P2 -n1 {name}, no queue")
        self.program, self.rate, self.loses = program, rate, "everything: there is no queue"

    def run(self, bench):
        n = self.messages(bench)
        began = time.monotonic()
        subprocess.run(["xargs", "-P2", "-n1", str(self.program(bench))], input=("x" * 100 + "\n").encode() * n, check=True, timeout=120)
        return n / (time.monotonic() - began)


class Gearman(Case):
    calibrates = True

    def __init__(self):
        super().__init__("peers", "gearman -w, /bin/true, 2 processes")
        self.rate, self.loses = 2_000, "everything when gearmand ends (queue in memory)"

    def run(self, bench):
        port, n = free_port(), self.messages(bench)
        with contextlib.ExitStack() as stack:
            stack.enter_context(bench.process("gearmand", "-L", "127.0.0.1", "-p", str(port), "-l", "none", "--verbose", "FATAL"))
            bench.wait_for(lambda: self.status(port) is not None, "gearmand")
            subprocess.run(["gearman", "-h", "127.0.0.1", "-p", str(port), "-f", "bench", "-b", "-n"], check=True, timeout=60,
                           input=("x" * 100 + "\n").encode() * n, stdout=subprocess.DEVNULL)
            assert self.status(port)[0] == n
            began = time.monotonic()
            for _ in range(2):
                stack.enter_context(bench.process("gearman", "-h", "127.0.0.1", "-p", str(port), "-w", "-f", "bench", "--", "/bin/true"))
            bench.wait_for(lambda: self.status(port)[0] == 0, "all jobs", 90)
            return n / (time.monotonic() - began)

    @staticmethod
    def status(port):
        """(jobs, running), or None while it does not answer."""
        try:
            with socket.create_connection(("127.0.0.1", port), 5) as s:
                s.sendall(b"status\n")
                text = b""
                while not text.endswith(b".\n"):
                    text += s.recv(4096)
        except OSError:
            return None
        fields = [line.split(b"\t") for line in text.splitlines() if line.startswith(b"bench\t")]
        return (int(fields[0][1]), int(fields[0][2])) if fields else (0, 0)


class Beanstalkd(Case):
    calibrates = True

    def __init__(self):
        super().__init__("peers", "beanstalkd, C client, batches of 32, 2 processes")
        self.rate, self.loses = 50_000, "what beanstalkd has not synced (no log here)"

    def run(self, bench):
        port, n = free_port(), self.messages(bench)
        with bench.process("beanstalkd", "-l", "127.0.0.1", "-p", str(port)):
            bench.wait_for(lambda: self.listens(port), "beanstalkd")
            program_says_nothing(bench.program("beanstalk"), port, "put", n, 100)
            done, seconds = program_says(bench, bench.program("beanstalk"), port, "drain", 2, 32)
        assert done == n, f"{done} of {n}"
        return n / seconds

    @staticmethod
    def listens(port):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5):
            return True
        return False


def program_says_nothing(*argv):
    subprocess.run([str(a) for a in argv], check=True, timeout=120)


def sidekiq_stamps(bench, noted):
    """Runs one idle Sidekiq; each job notes how long it waited."""
    @contextlib.contextmanager
    def running():
        server = bench.server()
        c = server.client(db=1)
        peer = Sidekiq()
        peer.bench, peer.server, peer.c = bench, server, c
        env = {**peer.environment(), "BENCH_NOTED": str(noted)}
        with bench.process("sidekiq", "-r", PEER / "noop.rb", "-c", "10", "-q", "stamps", "-e", "production", env=env, cwd=str(PEER)):
            bench.wait_for(lambda: peer.blocked("brpop") >= 10, "Sidekiq")
            yield "queue:stamps", '{"class":"Stamp","args":["', '"],"retry":true,"queue":"stamps","created_at":1,"enqueued_at":1,"jid":"1"}'
        c.flushdb()
    return running()


class SidekiqLatency(Latency):
    db = 1


def every():
    return {
        "sidekiq": Sidekiq(), "lat_sidekiq": SidekiqLatency("Sidekiq", sidekiq_stamps), "rq": Rq(False), "rq_fork": Rq(True),
        "celery": Celery(), "bullmq": BullMq(), "bee": Bee(), "gearman": Gearman(),
        "beanstalkd": Beanstalkd(),
        "xargs": Xargs("/bin/true", lambda b: "/bin/true", 2_000), "xargs_tiny": Xargs("tiny static program", lambda b: b.program("tiny"), 4_000),
        "shell": Shell(),
    }


# Peers need these programs, modules of /usr/bin/python3 and modules of Node below build/peers; and the command that installs them.
NEEDS = {
    "sidekiq": (["sidekiq"], [], [], "apt-get install ruby-sidekiq"),
    "rq": (["rq"], ["rq"], [], "apt-get install python3-rq"),
    "celery": ([], ["celery"], [], "apt-get install python3-celery"),
    "bullmq": (["node"], [], ["bullmq", "ioredis"], "npm install --prefix build/peers bullmq ioredis"),
    "bee": (["node"], [], ["bee-queue"], "npm install --prefix build/peers bee-queue"),
    "gearman": (["gearman", "gearmand"], [], [], "apt-get install gearman-tools gearman-job-server"),
    "beanstalkd": (["beanstalkd"], [], [], "apt-get install beanstalkd"),
    "xargs": (["xargs"], [], [], "apt-get install findutils"),
    "shell": (["redis-cli"], [], [], "apt-get install redis-tools"),
}
SAME = {"lat_sidekiq": "sidekiq", "rq_fork": "rq", "xargs_tiny": "xargs"}


def is_installed(bench, programs, python, node):
    return (all(shutil.which(name) for name in programs) and all(importlib.util.find_spec(name) for name in python)
            and all((bench.peers / "node_modules" / name).is_dir() for name in node))


def cases(bench):
    """Returns the peers that are installed."""
    return {key: case for key, case in every().items() if is_installed(bench, *NEEDS[SAME.get(key, key)][:3])}


def missing(bench):
    """Returns the other peers: {key: (case, the command that installs it)}."""
    here = cases(bench)
    return {key: (case, NEEDS[SAME.get(key, key)][3]) for key, case in every().items() if key not in here}
