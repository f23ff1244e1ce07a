"""Failures: large messages that are retried and redriven, and small messages of which a few fail."""
import json
import time

from case import Case
from harness import program, queue

MIB = 1 << 20


def delayed(d):
    """As the program says it, since the program may be an older one that names its keys otherwise."""
    listed = program.run_quredis("-c", d.conf, "ls", "--json")
    assert listed.code == 0, listed.err
    return sum(q["delayed_size"] for q in json.loads(listed.out))


class Retried(Case):
    """The rate at which messages of 1 MiB are fetched, fail once, and are moved to delayed."""

    def __init__(self, n):
        super().__init__("large", "1 MiB fails and is tried again")
        self.n = n

    def run(self, bench):
        server = bench.server()
        c = server.client()
        bench.forget_queue(server)  # another program may have left another layout
        conf = queue("bench", "/bin/false", workers=1, max_attempts=10, backoff={"base": "1h", "cap": "1h"})
        with bench.daemon(server, [conf]) as d:
            bench.stock(server, "stock", MIB, self.n)
            began = time.monotonic()
            c.rename("stock", "ingress:bench")
            bench.wait_for(lambda: delayed(d) == self.n, "all messages to be delayed")
            took = time.monotonic() - began
        bench.forget_queue(server)
        return self.n / took


class PutBack(Case):
    """The rate of `quredis dlq retry --all` for dead letters of 1 MiB with records."""
    unit = "letters/s"

    def __init__(self, n):
        super().__init__("large", "dlq retry --all of 1 MiB")
        self.n = n

    def run(self, bench):
        server = bench.server()
        c = server.client()
        with bench.daemon(server, [queue("bench", "/bin/false", workers=1, max_attempts=1)]) as d:
            bench.stock(server, "ingress:bench", MIB, self.n)
            bench.wait_for(lambda: c.llen("escape:bench") == self.n, "all messages to escape")
            d.reload(queues=[queue("bench", "/bin/false", workers=0)])
            bench.wait_for(lambda: not d.workers(), "the worker to end")
            began = time.monotonic()
            done = program.run_quredis("-c", d.conf, "--yes", "dlq", "retry", "bench", "--all")
            took = time.monotonic() - began
        assert done.code == 0 and c.llen("escape:bench") == 0 and c.llen("ingress:bench") == self.n, done.err
        bench.forget_queue(server)
        return self.n / took


def cases(quick):
    n = 4 if quick else 48
    return {"large_retried": Retried(n), "large_put_back": PutBack(n)}
