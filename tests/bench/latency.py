"""From the push of a message to the first instruction of its handler."""
import array
import contextlib
import subprocess

from case import Case
from harness import queue
from ours import stay_c


def microseconds(path):
    """Returns what the handlers noted, without the first ones, which ran on a cold machine."""
    data = array.array("q", path.read_bytes() if path.exists() else b"")
    return sorted(v / 1000 for v in data[len(data) // 10:])


class Latency(Case):
    unit = "us"
    db = 0

    def __init__(self, name, start, busy=False):
        super().__init__("latency", name + (", at half load" if busy else ", idle"))
        self.start, self.busy = start, busy

    def push(self, bench, key, rate, count, burst=1, prefix="", suffix=""):
        subprocess.run([bench.program("loop"), bench.server().socket, "push", key, str(rate), str(count), str(burst), prefix, suffix, str(self.db)],
                       check=True, timeout=60)

    def run(self, bench):
        noted = bench.dir / "noted"
        noted.unlink(missing_ok=True)
        rate, burst = self.start.half if self.busy else (160, 1)
        count = max(24, int(rate * bench.seconds * 2))
        with self.start(bench, noted) as (key, prefix, suffix):
            self.push(bench, key, 160, 8, 1, prefix, suffix)        # warm
            bench.wait_for(lambda: noted.exists() and noted.stat().st_size >= 8 * 8, "the first messages")
            self.push(bench, key, rate, count, burst, prefix, suffix)
            bench.wait_for(lambda: noted.stat().st_size >= 8 * (count + 8), f"{count} messages")
        took = microseconds(noted)
        self.facts = {"p50": round(took[len(took) // 2], 1), "p99": round(took[len(took) * 99 // 100], 1), "max": round(took[-1], 1),
                      "rate": rate, "count": count}
        return self.facts["p50"]


def half(rate, burst=1):
    def mark(function):
        function.half = (rate, burst)
        return function
    return mark


@half(1500)
@contextlib.contextmanager
def bare(bench, noted):
    with bench.process(bench.program("loop"), bench.server().socket, "brpop", "latency", bench.program("stamp"), noted):
        yield "latency", "", ""
    bench.server().client().unlink("latency")


@contextlib.contextmanager
def _ours(bench, conf):
    with bench.daemon(bench.server(), [conf]):
        yield "ingress:bench", "", ""
    bench.forget_queue(bench.server())


@half(1500)
def spawned(bench, noted):
    return _ours(bench, queue("bench", bench.program("stamp"), noted))


@half(20_000, 20)
def stays(bench, noted):
    return _ours(bench, queue("bench", stay_c(bench), noted, mode="persistent"))


def cases():
    return {
        "lat_bare": Latency("bare BRPOP + vfork", bare), "lat_exec": Latency("exec", spawned),
        "lat_persistent": Latency("persistent C", stays), "lat_bare_half": Latency("bare BRPOP + vfork, 1500/s", bare, True),
        "lat_exec_half": Latency("exec, 1500/s", spawned, True),
        "lat_persistent_half": Latency("persistent C, 20,000/s", stays, True),
    }
