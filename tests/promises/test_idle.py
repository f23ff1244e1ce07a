"""What doing nothing costs."""
import time

import pytest

from harness import SANITIZED, open_files, pss_kib, queue, reach, wait_for
from harness.messages import anywhere
from harness.queues import Queue

LOOK_S = 15      # half a lease: a round of the sweeper's looks is in it
TYPES_S = 300    # between two looks at the types of all keys of a queue, of which there are about thirty


def calls(client):
    return {k[len("cmdstat_"):]: v["calls"] for k, v in client.info("commandstats").items()}


def cpu_s(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def test_idle(redis, quredisd, handler):
    c = redis.client()
    for i in range(1000):                     # others put these into the registry; whether their hosts live is looked at
        Queue(c, f"other{i}")
    started = time.monotonic()
    d = quredisd(queues=[queue("mail", handler("exit 0"), workers=4), queue("news", handler("exit 0"), workers=4)])
    wait_for(lambda: len([x for x in c.client_list() if x["cmd"] in ("brpoplpush", "blmove")]) == 8, 30, "eight to wait")
    for name in ("mail", "news"):             # each has run something: no page is counted out for never having been used
        c.lpush(f"ingress:{name}", *["x"] * 40)
        wait_for(lambda: not anywhere(c, name))
    wait_for(lambda: len([x for x in c.client_list() if x["cmd"] in ("brpoplpush", "blmove")]) == 8, 30)
    for name in ("mail", "news"):             # its statistics, some seconds later
        wait_for(lambda: c.hget(f"quredis:of:ingress:{name}:stats", "done") == b"40", 30)
    workers = d.workers()
    before, since = calls(c), time.monotonic()
    cpu = {p: cpu_s(p) for p in [d.pid, d.sweeper(), *workers.values()]}
    wait_for(lambda: time.monotonic() - since >= LOOK_S, LOOK_S + 30, interval=1)
    after, elapsed = calls(c), time.monotonic() - since
    rates = {k: (n - before.get(k, 0)) / elapsed for k, n in after.items()
             if n > before.get(k, 0) and k not in ("info", "client|list", "client", "type", *reach.COMMANDS)}
    total = sum(rates.values()) / len(workers)
    used = sum(cpu_s(p) - cpu[p] for p in cpu) / elapsed * 100
    print(f"\n{total:.2f} commands a second a worker (promised: 0.8 with 256 of them, which share one sweeper): "
          + ", ".join(f"{k} {v:.2f}/s" for k, v in sorted(rates.items(), key=lambda i: -i[1])) + f"; {used:.2f} % of a core")
    # These few share the commands of a sweeper, too; a second more or less of them is 0.02, and the backlogs of a new
    # minute, which may be noted meanwhile, are 0.1.
    assert total <= 1.05, rates
    assert used < 10
    types = after.get("type", 0) - before.get("type", 0)        # promised: 0.1 a second a queue, all of them every TYPES_S
    looks = 1 if time.monotonic() - started > TYPES_S - 10 else 0
    assert types <= 2 * (0.2 * elapsed + 35 * looks), types
    assert after["type"] >= 2 * 20, after                       # the look at the start


@pytest.mark.skipif(SANITIZED, reason="sanitizers have memory of their own")
def test_memory_of_a_worker(redis, quredisd, handler):
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler("exit 0"), workers=4)])
    c.lpush("ingress:mail", *["x" * 1000] * 200)
    wait_for(lambda: c.llen("ingress:mail") == 0)
    workers = d.wait_workers("mail", 4)
    pss = {name: pss_kib(pid) for name, pid in workers.items()}
    print(f"\nPSS of workers: {pss}; sweeper {pss_kib(d.sweeper())}; master {pss_kib(d.pid)} KiB")
    # four workers share the pages of OpenSSL among few: tests/promises/test_tls.py measures sixteen, which stay below 1 MiB
    assert max(pss.values()) <= (1280 if reach.REACH == "tls" else 1024), pss


@pytest.mark.skipif(SANITIZED, reason="sanitizers have memory of their own")
def test_an_idle_worker_does_not_grow_with_the_number_of_queues(redis, quredisd, handler):
    """Its allocations fill no holes that the loading of the configuration left: each of them would copy a page. And it gives back what the scripts of its
    first connection needed."""
    own = {}
    for n in (1, 500):
        names = ["mail", *(f"other{i}" for i in range(1, n))]
        d = quredisd(queues=[queue(name, handler("exit 0"), workers=8 if name == "mail" else 0) for name in names])
        pid = d.wait_workers("mail", 8)["mail/0"]
        wait_for(lambda: any(x["cmd"] == "brpoplpush" for x in redis.client().client_list()), 30)
        waits_for_nothing(redis.client())
        own[n] = pss_kib(pid, "Private_Dirty")
        d.stop()
    print(f"\nPages of an idle worker's own, by the number of queues: {own} KiB")
    assert own[500] <= own[1] * 1.25, own
    assert own[1] <= (512 if reach.REACH == "tls" else 256), own


def waits_for_nothing(c):
    """Until a fetch has waited in vain: two more have begun, and one of them at least when all was done."""
    begun = calls(c)["brpoplpush"]
    wait_for(lambda: calls(c)["brpoplpush"] >= begun + 2, 20, "fetches that bring nothing")


STAYS = """
import sys
jobs = sys.stdin.buffer
while head := jobs.readline().split():
    jobs.read(int(head[3]) + 1)
    print(f"OK {int(head[1])}", flush=True)
"""


def page_faults(pid):
    with open(f"/proc/{pid}/stat") as f:
        return int(f.read().rsplit(")", 1)[1].split()[7])


@pytest.mark.skipif(SANITIZED, reason="sanitizers have memory of their own")
@pytest.mark.parametrize("size", [16_000, 400_000])
def test_a_busy_worker_keeps_its_memory(redis, quredisd, handler, size):
    """What one message needed serves the next one: the kernel clears no pages for it."""
    c, n = redis.client(), 12_000_000 // size
    d = quredisd(queues=[queue("mail", handler(STAYS, "python"), mode="persistent", window=8)], log={"level": "info"})
    pid = d.wait_workers("mail", 1)["mail/0"]

    def faults():
        before = page_faults(pid)
        c.lpush("ingress:mail", *[b"%010d" % i + b"x" * size for i in range(n)])
        wait_for(lambda: c.llen("ingress:mail") == 0 and not c.keys("transit:mail:*:[0-2]"), 60)
        return (page_faults(pid) - before) / n
    least = min(faults() for _ in range(4))   # the first run needs memory, and a later one more if its batches are larger
    print(f"\n{least:.2f} page faults a message of {size} bytes")
    assert least < size / 4096 / 4


@pytest.mark.skipif(SANITIZED, reason="sanitizers have memory of their own")
def test_memory_and_descriptors_stay_flat(redis, quredisd, handler):
    """A thousand messages, a large one among them, leave no trace once no more come."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler("exec cat >/dev/null"))], log={"level": "info"})
    pid = d.wait_workers("mail", 1)["mail/0"]

    def run(n, size):
        c.lpush("ingress:mail", b"b" * size, *["x" * 1000] * n)
        wait_for(lambda: c.llen("ingress:mail") == 0 and not c.keys("transit:mail:*:[0-2]"), 60)
        waits_for_nothing(c)

    def holds():
        return pss_kib(pid, "Anonymous"), len(open_files(pid))
    run(100, 1000)
    before, fds = holds()
    for size in (400_000, 1 << 20, 1 << 22):
        run(1000, size)
        memory, files = holds()
        print(f"\nworker: {before} -> {memory} KiB, {fds} -> {files} descriptors")
        assert memory <= before * 1.1 + 128 and files == fds
