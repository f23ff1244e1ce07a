"""The upper limits: the rates of Redis alone and of processes alone."""
import subprocess

from case import Case, Function


def redis_benchmark(bench, server, clients, pipeline, size, command):
    """Requests a second."""
    n = int((90_000 if pipeline == 1 else min(900_000, 300_000_000 // size)) * bench.seconds)
    n = max(n, bench.fewest(1000 if pipeline == 1 else 64 * 300))
    argv = ["redis-benchmark", "-s", str(server.socket), "-n", str(n), "-c", str(clients), "-P", str(pipeline), "--csv", *command(n)]
    out = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True, timeout=120).stdout
    return float(out.strip().splitlines()[-1].rsplit('","', 7)[1])


class Ceiling(Case):
    """Messages a second if a message needs one RPOPLPUSH and one LREM, and nothing else."""

    def __init__(self, clients, pipeline, size=100, aof=None):
        super().__init__("ceiling", f"RPOPLPUSH + LREM, {clients} connections, pipeline {pipeline}"
                         + (f", {size} B" if size != 100 else "") + (f", AOF {aof}" if aof else ""))
        self.clients, self.pipeline, self.size, self.aof = clients, pipeline, size, aof

    def run(self, bench):
        server = bench.server(self.aof)
        c = server.client()
        value = "x" * self.size

        def moved(n):
            c.delete("ceiling")
            c.lpush("ceiling", *[value] * 16)
            return ["RPOPLPUSH", "ceiling", "ceiling"]

        def removed(n):
            bench.fill_equal(server, "ceiling", value, n + self.clients * self.pipeline)
            return ["LREM", "ceiling", "-1", value]
        a = redis_benchmark(bench, server, self.clients, self.pipeline, self.size, moved)
        b = redis_benchmark(bench, server, self.clients, self.pipeline, self.size, removed)
        left = c.llen("ceiling")
        c.unlink("ceiling")
        self.facts = {"RPOPLPUSH": round(a), "LREM": round(b), "left": left}
        return 1 / (1 / a + 1 / b)


def program_says(bench, *argv):
    out = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, check=True, timeout=120, text=True).stdout.split()
    return int(out[0]), float(out[1])


class Loop(Case):
    """baseline/loop.c"""
    calibrates = True

    def __init__(self, how, jobs, pipeline=None):
        super().__init__("ceiling", f"C loop, {how}, {jobs} process{'es' if jobs > 1 else ''}")
        self.argv = ["pair", pipeline, jobs] if pipeline else [how.split()[0], jobs]
        self.rate = 400_000 if pipeline else 10_000

    def run(self, bench):
        server = bench.server(None)
        n = self.messages(bench)
        bench.stock(server, "loop", 100, n)
        done, seconds = program_says(bench, bench.program("loop"), server.socket, *self.argv, "loop", "loop:transit")
        assert done == n, f"{done} of {n}"
        return done / seconds


def spawn(how, jobs, program, shown):
    def run(bench, case):
        done, seconds = program_says(bench, bench.program("spawn"), how, jobs, bench.seconds, 100, program(bench))
        return done / seconds
    label = "with the same hygiene" if how == "clean" else "without hygiene"
    return Function("spawn", f"vfork, feed, wait, {label}, {shown}, {jobs} process{'es' if jobs > 1 else ''}", run)


def tiny(bench):
    return bench.program("tiny")


def cases():
    found = {
        "ceiling": Ceiling(50, 64), "ceiling_p1": Ceiling(50, 1),
        "ceiling_1k": Ceiling(50, 64, size=1024), "ceiling_16k": Ceiling(50, 64, size=16384),
        "ceiling_everysec": Ceiling(50, 64, aof="everysec"), "ceiling_always": Ceiling(50, 64, aof="always"),
        "loop_pair": Loop("pairs of pipelines of 64", 2, 64), "loop_two": Loop("two round trips a message", 2),
        "loop_one": Loop("one round trip a message", 2), "loop_one8": Loop("one round trip a message", 8),
    }
    for jobs in (1, 2, 4, 8):
        for how in ("bare", "clean"):
            found[f"spawn_{how}{jobs}"] = spawn(how, jobs, tiny, "tiny static program")
    found["spawn_true2"] = spawn("bare", 2, lambda bench: "/bin/true", "/bin/true")
    return found
