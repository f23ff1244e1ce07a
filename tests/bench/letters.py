"""Retries of a tenth of the dead letters by their cause: how soon the first one waits again, how long all take, and the memory of the command."""
import subprocess
import time

from case import Case
from harness import high_water_kib
from harness.dead_letters import CAUSE, fill
from harness.paths import QUREDIS
from harness.queues import Queue


class Chosen(Case):
    """The rate at which `dlq retry --cause` goes through dead letters with records."""
    unit = "letters/s"

    def __init__(self, n, *pace):
        super().__init__("letters", f"dlq retry --cause {' '.join(pace)}, 10 % of {n:,}".replace(" ,", ","))
        self.n, self.pace = n, pace

    def run(self, bench):
        server = bench.server()
        c = server.client()
        bench.forget_queue(server)
        q = Queue(c, "bench")
        _, wanted = fill(c, self.n, share=0.1, name="bench")
        began, first, peak = time.monotonic(), None, 0
        child = subprocess.Popen([str(QUREDIS), "-u", server.url, "--yes", "dlq", "retry", "bench", "--all", "--cause", CAUSE, *self.pace],
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        while child.poll() is None:
            peak = max(peak, high_water_kib(child.pid))
            if first is None and c.exists(q.ingress):
                first = time.monotonic() - began
            time.sleep(0.002)
        took = time.monotonic() - began
        assert child.returncode == 0 and c.llen(q.ingress) == len(wanted) and c.llen(q.escape) == self.n - len(wanted)
        self.facts = {"first_ms": round((first or took) * 1000), "peak_kib": peak}
        bench.forget_queue(server)
        return self.n / took


def cases(quick, deep):
    found = {}
    for power in (3,) if quick else (4, 5, 6) if deep else (4, 5):
        found[f"letters{power}"] = Chosen(10 ** power)
        found[f"letters{power}_rate"] = Chosen(10 ** power, "--rate", "100000/s")
    return found
