"""list, split 1:50, work, collect on two supervisors, while handlers, workers and supervisors are killed at random: exactly the leaves come out.

`make emit-soak` does this with 100,000 leaves and 500 kills. The handlers write down each run, so each one beside the first has to have a reason.
"""
import collections
import os
import random
import signal
import time

import pytest

from harness import alive, children_of, queue, wait_for
from harness.messages import in_transit, unwrap

LEAVES = int(os.environ.get("EMIT_SOAK_LEAVES", "2000"))
KILLS = int(os.environ.get("EMIT_SOAK_KILLS", "10"))
WIDTH = 50
STAGES = ("list", "split", "work")

# A message is "FIRST COUNT": list emits one for each WIDTH leaves, split one for each leaf, work the leaf itself.
HANDLER = r"""
import os, sys
stage, to = os.environ["QUREDIS_QUEUE"], {"list": "split", "split": "work", "work": "collect"}[os.environ["QUREDIS_QUEUE"]]
width = {"list": @WIDTH@, "split": 1, "work": 1}[stage]
runs = os.open("@LEDGER@", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
while head := sys.stdin.buffer.readline().split():
    serial, attempt, size = head[1].decode(), head[2].decode(), int(head[3])
    body = sys.stdin.buffer.read(size + 1)[:-1].decode()
    again = b"redelivered=1" in head
    os.write(runs, f"{stage} {body.replace(' ', '+')} {attempt} {int(again)}\n".encode())
    first, count = map(int, body.split())
    out = []
    for n in range(first, first + count, width):
        text = f"{n} {min(width, first + count - n)}"
        out.append(f"EMIT {serial} {to} {len(text)}\n{text}\n")
    out = "".join([*out, f"OK {serial}\n"]).encode()
    while out:
        out = out[os.write(1, out):]
"""


class Hosts:
    def __init__(self, hosts, seed):
        self.hosts, self.random = hosts, random.Random(seed)
        self.killed = collections.Counter()

    def kill(self):
        what = self.random.choice(["handler", "handler", "worker", "worker", "supervisor"])
        host = self.random.choice(self.hosts)
        if what == "supervisor":
            host.kill_tree()
            time.sleep(self.random.random() / 5)
            host.start(wait=False)
        else:
            workers = [pid for pid in children_of(host.pid) if children_of(pid)]
            pids = [child for pid in workers for child in children_of(pid)] if what == "handler" else workers
            if not pids:        # it starts
                return
            try:
                os.kill(self.random.choice(pids), signal.SIGKILL)
            except ProcessLookupError:
                return
        self.killed[what] += 1


def empty(c):
    return not c.exists(*(f"ingress:{q}" for q in STAGES), *(f"quredis:of:ingress:{q}:delayed" for q in STAGES)) and \
        not any(in_transit(c, q) for q in STAGES)


@pytest.mark.limit(300 + LEAVES // 20)
def test_exactly_the_leaves(redis_server, quredisd, handler, ledger):
    server = redis_server(aof="always")
    c = server.client()
    body = handler(HANDLER.replace("@WIDTH@", str(WIDTH)), "python")
    again = dict(mode="persistent", max_attempts=1000, recovery_attempts=1000, backoff={"base": "10ms", "cap": "50ms", "jitter": 0.0})
    queues = [queue(q, body, workers=n, emit={"queues": [to], "max": 5000}, **again)
              for q, to, n in [("list", "split", 1), ("split", "work", 1), ("work", "collect", 2)]] + [queue("collect", handler("cat"), workers=0)]
    seed = int(os.environ.get("EMIT_SOAK_SEED", time.time_ns() % 10 ** 6))
    hosts = Hosts([quredisd(redis=server, queues=queues, supervisor={"node": node, "lease": "1s"}) for node in ("a", "b")], seed)
    began, part = time.monotonic(), -(-LEAVES // KILLS)
    for first in range(0, LEAVES, part):
        c.lpush("ingress:list", f"{first} {min(part, LEAVES - first)}")
        wanted = sum(hosts.killed.values()) + 1
        while sum(hosts.killed.values()) < wanted:
            time.sleep(hosts.random.random() / 10)          # at any moment of the work
            hosts.kill()
    wait_for(lambda: c.llen("ingress:collect") >= LEAVES and empty(c), 120 + LEAVES / 50, f"seed {seed}")
    leaves = collections.Counter(unwrap(raw)[1].decode().split()[0] for raw in c.lrange("ingress:collect", 0, -1))
    assert leaves == collections.Counter(map(str, range(LEAVES))), f"seed {seed}"
    assert not c.keys("escape:*"), f"seed {seed}"
    runs = collections.defaultdict(list)
    for stage, what, attempt, redelivered in map(str.split, ledger.lines()):
        runs[stage, what].append(attempt == "1" and redelivered == "0")
    parts = -(-LEAVES // part)
    assert sum(1 for stage, _ in runs if stage == "work") == LEAVES and sum(1 for stage, _ in runs if stage == "list") == parts
    assert not [run for run, plain in runs.items() if sum(plain) > 1], f"seed {seed}: a second run without a reason"
    more = sum(len(plain) - 1 for plain in runs.values())
    print(f"\nseed {seed}: {LEAVES} leaves, {sum(hosts.killed.values())} kills {dict(hosts.killed)}, {more} further runs, {time.monotonic() - began:.0f} s")
    for host in hosts.hosts:
        if not alive(host.pid):
            host.start()
        assert host.stop() == 0
