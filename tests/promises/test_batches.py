"""Batches and persistent handlers: faults between them cost no message, no time and no CPU."""
import os
import pathlib
import time

import pytest

from harness import Tap, queue, wait_for
from harness.control import status
from harness.messages import anywhere, in_transit, trays
from harness.redis_proxy import SCRIPTS

LARGE = {"max": 64, "time": "5s"}       # batches grow however slow this machine is


def cpu_s(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_asleep(pid, until, why):
    """Waits, and checks that the process uses next to no CPU meanwhile."""
    began, before = time.monotonic(), cpu_s(pid)
    wait_for(until, 30, why)
    took, used = time.monotonic() - began, cpu_s(pid) - before
    assert took > 0.7, "too short to tell"
    assert used < took / 5, f"{used:.2f} s of CPU in {took:.2f} s"


# ---- a loop that has nothing to do sleeps ----

STAYS = r"""
import os, sys, time
fd = os.open("@LEDGER@", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
while line := sys.stdin.buffer.readline():
    n, size = line.split()[1], int(line.split()[3])
    os.write(fd, sys.stdin.buffer.read(size + 1))
    sys.stdout.write(f"OK {n.decode()}\n")
    sys.stdout.flush()
os.write(fd, b"leaving\n")
time.sleep(1.5)
os.write(fd, b"left\n")
"""


def test_a_handler_that_takes_its_time_to_leave(redis, quredisd, handler, ledger):
    """Messages wait for its successor."""
    d = quredisd(queues=[queue("mail", handler(STAYS, "python"), mode="persistent", window=4, batch=LARGE,
                               recycle={"jobs": 20}, kill_grace="10s")])
    worker = d.wait_workers("mail", 1)["mail/0"]
    redis.client().lpush("ingress:mail", *[f"m{i}" for i in range(35)])
    wait_for(lambda: ledger.count("leaving") == 1)
    assert in_transit(redis.client(), "mail"), "it has nothing in hand"
    wait_asleep(worker, lambda: ledger.count("left") == 1, "the first to leave")
    wait_for(lambda: set(ledger.lines()) >= {f"m{i}" for i in range(35)})


def test_no_answer_for_what_is_done_beside_a_slow_message(redis, redis_proxy, quredisd, handler, ledger, tmp):
    """Each message ends when the test says so. The worker sends nothing to Redis after the last message of a tray while the next message is slow."""
    c, proxy = redis.client(), redis_proxy(redis)
    body = 'read -r m; echo "$m" >>@LEDGER@; until [ -e @TMP@/go.$m ] || [ -e @TMP@/go ]; do sleep 0.01; done'
    c.lpush("ingress:mail", *[f"m{i}" for i in range(60)])
    d = quredisd(redis={"url": proxy.url}, queues=[queue("mail", handler(body), batch={"max": 64, "time": "1s"})])
    worker = d.wait_workers("mail", 1)["mail/0"]

    def is_last_of_its_tray(name):
        held = list(trays(c, "mail").values())
        return len(held) > 1 and any(tray[0] == name.encode() for tray in held)
    for n in range(60):
        running = wait_for(lambda: len(ledger.lines()) > n and ledger.lines()[n])
        if n > 5 and is_last_of_its_tray(running):
            break
        (tmp / f"go.{running}").touch()
    else:
        raise AssertionError("no tray was ever fetched ahead")
    proxy.stall()
    (tmp / f"go.{running}").touch()
    slow_at = wait_for(lambda: len(ledger.lines()) > n + 1 and time.monotonic()) + 1.5
    wait_for(lambda: time.monotonic() > slow_at)
    wait_asleep(worker, lambda: time.monotonic() > slow_at + 1.5, "a while")
    (tmp / "go").touch()
    proxy.resume()
    wait_for(lambda: not anywhere(c, "mail"), 60, "all done")
    assert sorted(ledger.lines()) == sorted(f"m{i}" for i in range(60))


# ---- moves of equal messages ----

def test_equal_messages_fail_while_answers_are_lost(redis, redis_proxy, quredisd, handler, ledger):
    """Redis executed the first retry and its answer was lost; the other retries never arrived. The worker does not confuse the messages."""
    c, proxy = redis.client(), redis_proxy(redis)
    body = 'cat >/dev/null; sleep 0.05; echo "$QUREDIS_ATTEMPT" >>@LEDGER@; [ "$QUREDIS_ATTEMPT" -gt 1 ] || exit 75'
    d = quredisd(redis={"url": proxy.url}, queues=[queue("mail", handler(body), batch=LARGE, backoff={"base": "4s", "jitter": 0.0})])
    d.wait_workers("mail", 1)
    c.lpush("ingress:mail", *["x"] * 40)
    # once there are larger batches
    wait_for(lambda: any(len(tray) > 4 for tray in trays(c, "mail").values()), interval=0.001)
    proxy.stall_after(b" attempts=1")
    wait_for(proxy.stalled)
    n = len(ledger.lines())
    wait_for(lambda: len(ledger.lines()) >= n + 2 or len(ledger.lines()) == 40)
    proxy.cut()
    proxy.resume()
    wait_for(lambda: not anywhere(c, "mail"), 60, "all done")
    assert (ledger.count("1"), ledger.count("2")) == (40, 40)


# ---- who was it? ----

READS_NO_FURTHER = r"""
import os, time
fd = os.open("@LEDGER@", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
def line():
    out = b""
    while not out.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            os._exit(0)
        out += byte
    return out
while head := line():
    name = line().strip()
    os.write(fd, name + (b" 1\n" if b" redelivered=1" in head else b" 0\n"))
    if name == b"die":
        while not os.path.exists("@TMP@/go"):
            time.sleep(0.01)
        os._exit(1)
    os.write(1, b"OK " + head.split()[1] + b"\n")
"""


def test_what_a_dead_handler_did_not_read_is_not_suspected(redis, quredisd, handler, ledger, tmp):
    """Unread messages in the pipe of the dead handler return unchanged; only the one that was read is charged."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler(READS_NO_FURTHER, "python"), mode="persistent", window=16, batch=LARGE)])
    d.wait_workers("mail", 1)
    c.lpush("ingress:mail", "first", *[f"a{i}" for i in range(30)])
    wait_for(lambda: len(ledger.lines()) == 31 and not anywhere(c, "mail"))
    c.lpush("ingress:mail", "die", *[f"b{i}" for i in range(10)])
    wait_for(lambda: ledger.count("die 0") and len(in_transit(c, "mail")) > 1)
    (tmp / "go").touch()
    wait_for(lambda: not anywhere(c, "mail"), 40, "all done")
    assert sorted(x for x in ledger.lines()[31:] if x[0] == "b") == sorted(f"b{i} 0" for i in range(10))
    assert c.lrange("escape:mail", 0, -1) == [b"die"]


# ---- one trouble is one trouble ----

def test_a_whole_batch_is_refused_once(redis, quredisd, handler, ledger):
    """Redis answers each fetch of the batch with an error, but the worker waits only once."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler("read -r m; echo $m >>@LEDGER@; sleep 0.01"), batch=LARGE)])
    d.wait_event("queue_recovered", queue="mail")
    c.lpush("ingress:mail", *[f"m{i}" for i in range(300)])
    wait_for(lambda: any(len(tray) > 30 for tray in trays(c, "mail").values()), interval=0.002)
    c.rename("ingress:mail", "aside")
    c.set("ingress:mail", "of another type")
    d.wait_event("redis_error", at="fetch")
    waiting, began = c.llen("aside"), time.monotonic()
    c.rename("aside", "ingress:mail")
    wait_for(lambda: c.llen("ingress:mail") < waiting, 60, "the next fetch")
    assert time.monotonic() - began < 12
    wait_for(lambda: len(ledger.lines()) == 300, 60, "all done")


def test_a_tray_with_more_than_a_worker_ever_fetched(redis, redis_proxy, quredisd, handler, ledger):
    """Another client filled the tray while its owner was disconnected. The owner leaves it to the sweeper, and all messages run."""
    c, proxy = redis.client(), redis_proxy(redis)
    d = quredisd(redis={"url": proxy.url}, queues=[queue("mail", handler(STAYS, "python"), mode="persistent", window=4)])
    d.wait_workers("mail", 1)
    owner = wait_for(lambda: c.hkeys("transit:mail:workers"))[0].decode()
    proxy.refuse()
    proxy.cut()
    c.lpush(f"transit:mail:{owner}:0", *[f"m{i}" for i in range(1001)])
    proxy.refuse(False)
    d.wait_event("tray_unexpected", queue="mail")
    wait_for(lambda: not anywhere(c, "mail"), 100, "all done")
    assert sorted(set(ledger.lines()) - {"leaving", "left"}) == sorted(f"m{i}" for i in range(1001))


# ---- order ----

ORDERED = r"""
import os, sys, time
fd = os.open("@LEDGER@", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
while line := sys.stdin.buffer.readline():
    n, size = line.split()[1], int(line.split()[3])
    name = sys.stdin.buffer.read(size + 1).split()[0]
    os.write(fd, name + b"\n")
    if name.endswith(b"9"):
        time.sleep(0.03)
    sys.stdout.write(f"OK {n.decode()}\n")
    sys.stdout.flush()
"""


@pytest.mark.parametrize("size, n", [(0, 400), (5000, 400), (300000, 100)])
def test_one_worker_keeps_the_order(redis, quredisd, handler, ledger, size, n):
    """One message in ten is slow, and the messages behind it in several trays return to ingress. The large ones leave a tray one by one."""
    c = redis.client()
    c.lpush("ingress:mail", *[f"m{i} " + "x" * size for i in range(n)])
    d = quredisd(queues=[queue("mail", handler(ORDERED, "python"), workers=1, mode="persistent", window=4)])
    wait_for(lambda: len(ledger.lines()) >= n, 60)
    assert ledger.lines() == [f"m{i}" for i in range(n)]
    assert status(d, "mail")["counters"]["handed_back"] > 0


class Blocked(Tap):
    """Which moves and acknowledgements are sent on a connection that waits in a blocking fetch."""

    def __init__(self):
        self.waiting, self.behind = set(), []

    def request(self, pair, words):
        if words[0] in (b"BRPOPLPUSH", b"BLMOVE"):
            self.waiting.add(pair)
        elif pair in self.waiting and b":mail/" in pair.name and words[0] in (b"DEL", b"LREM", b"EVALSHA"):
            self.behind.append(SCRIPTS.get(words[1], words[0]))

    def reply(self, pair, words, reply):
        if words[0] in (b"BRPOPLPUSH", b"BLMOVE"):
            self.waiting.discard(pair)


def test_nothing_waits_behind_a_blocking_fetch(redis, redis_proxy, quredisd, handler):
    """The last message of a tray fails. The others are acknowledged as soon as its move is answered, not after the blocking fetch."""
    tap, c = Blocked(), redis.client()
    answers = handler("""
while read -r _ serial attempt size keys; do
	read -r m
	case $m in bad*) echo "FAIL $serial";; *) echo "OK $serial";; esac
done
""")
    d = quredisd(redis=redis_proxy(redis, tap), queues=[queue("mail", answers, workers=1, mode="persistent", window=8, max_attempts=1,
                                                              batch={"max": 8})])
    d.wait_workers("mail", 1)
    for i in range(40):
        c.lpush("ingress:mail", *[f"good{i}.{k}" for k in range(12)], f"bad{i}")
        wait_for(lambda: c.llen("escape:mail") == i + 1 and not c.llen("ingress:mail"), 30, "the dead letter")
        wait_for(lambda: not c.keys("transit:mail:*:[0-9]"), 30, "the acknowledgement")
    assert tap.behind == []
