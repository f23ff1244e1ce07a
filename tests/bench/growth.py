"""The cost of growth: waiting messages, workers, queues; and the cost of idle workers."""
import statistics
import time

from case import Case
from harness import pss_kib, queue
from ours import Ours, stay_c, tiny
from place import TOP_UP


class Depth(Case):
    """The rate while `depth` messages wait all the time: each fetched message is pushed again behind them."""

    def __init__(self, depth):
        super().__init__("growth", f"persistent C, window 1, batch 1, 4 workers, {depth:,} waiting")
        self.depth = depth

    def run(self, bench):
        server = bench.server()
        c = server.client()
        stock = f"depth:{self.depth}"
        if c.llen(stock) < self.depth:
            bench.fill_equal(server, stock, "x" * 100, self.depth)
        with bench.daemon(server, [queue("bench", stay_c(bench), mode="persistent", window=1, workers=4, batch={"max": 1})]):
            bench.stock(server, "ingress:bench", 100, 400)
            bench.wait_empty(c)
            c.rename(stock, "ingress:bench")
            self.pushed(c, 0.1)
            began = time.monotonic()
            done = self.pushed(c, bench.seconds)
            took = time.monotonic() - began
            c.rename("ingress:bench", stock)
            bench.wait_empty(c)
        bench.forget_queue(server)
        return done / took

    def pushed(self, c, seconds):
        """The number of messages pushed to keep the depth, from full to full."""
        top_up, n = c.register_script(TOP_UP), 0
        top_up(["ingress:bench"], ["x" * 100, self.depth])
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            n += max(0, top_up(["ingress:bench"], ["x" * 100, self.depth]))
            time.sleep(0.001)
        return n


class Workers(Ours):
    def __init__(self, workers):
        super().__init__(f"persistent C, window 1, batch 1, {workers} workers", stay_c, mode="persistent", workers=workers,
                         batch=1, rate=30_000)
        self.group = "growth"


class Queues(Ours):
    """The same messages, spread over n queues of one worker each."""

    def __init__(self, queues):
        super().__init__(f"persistent C, window 64, {queues} queues of 1 worker", stay_c, mode="persistent", workers=1, window=64, rate=100_000)
        self.group, self.queues = "growth", queues

    def run(self, bench):
        server = bench.server()
        c = server.client()
        names = [f"q{i}" for i in range(self.queues)]
        with bench.daemon(server, [{**self.conf(bench), "name": n} for n in names]) as d:
            for share, stage in ((16, "warm"), (max(16, self.messages(bench) // self.queues), "run")):
                for n in names:
                    bench.stock(server, f"stock:{n}", 100, share)
                began = time.monotonic()
                for n in names:
                    c.rename(f"stock:{n}", f"ingress:{n}")
                self.wait(bench, c, names)
                took = time.monotonic() - began
                if stage == "warm":
                    bench.wait_for(lambda: len(d.handlers()) == self.queues, "all handlers")
        bench.forget_queue(server)
        return share * self.queues / took

    def wait(self, bench, c, names):
        bench.wait_for(lambda: c.exists(*(f"ingress:{n}" for n in names)) == 0 and not c.keys("transit:*:[012]"), "the last message", 120)


class Idle(Case):
    """Commands per second of each worker that is idle after some work. Its memory is in the facts."""
    unit = "commands/s"

    def __init__(self, workers):
        super().__init__("idle", f"{workers} workers")
        self.workers = workers

    def run(self, bench):
        server = bench.server()
        c = server.client()
        with bench.daemon(server, [queue("bench", tiny(bench), workers=self.workers)]) as d:
            bench.stock(server, "ingress:bench", 100, 8 * self.workers)
            bench.wait_empty(c)
            pids = list(d.wait_workers("bench", self.workers).values())
            calls, began = self.calls(c), time.monotonic()
            time.sleep(1 if bench.quick else 5)
            rate = (self.calls(c) - calls) / (time.monotonic() - began) / self.workers
            pss = [pss_kib(p) for p in pids]
            self.facts = {"pss_kib_median": statistics.median(pss), "pss_kib_max": max(pss), "master_kib": pss_kib(d.pid),
                          "sweeper_kib": pss_kib(d.sweeper())}
        bench.forget_queue(server)
        return rate

    def calls(self, c):
        return sum(v["calls"] for k, v in c.info("commandstats").items() if k != "cmdstat_info")


def cases(quick, deep):
    found = {}
    for power in range(3, 5 if quick else 8 if deep else 7):
        found[f"depth{power}"] = Depth(10 ** power)
    for n in (1, 4) if quick else (1, 4, 16, 64, 256):
        found[f"workers{n}"] = Workers(n)
    for n in (1, 5) if quick else (1, 10, 100, 500):
        found[f"queues{n}"] = Queues(n)
    for n in (8,) if quick else (8, 256):
        found[f"idle{n}"] = Idle(n)
    return found
