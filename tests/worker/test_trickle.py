"""A handler with a window, and messages that come one by one: as many run at once as the window allows, however long the others take."""
import collections

import pytest

from harness import queue, wait_for
from harness.messages import anywhere
from harness.processes import kill_and_wait
from harness.redis_proxy import script_hash

# The handler notes each message, and runs it in a thread. One that begins with "slow" ends when there is the file RELEASE, or
# its own.
HANDLER = """
import os, sys, threading, time
i, o, lock = sys.stdin.buffer, sys.stdout.buffer, threading.Lock()
def job(serial, message):
    with lock, open("@LEDGER@", "a") as f:
        f.write(message + "\\n")
    while message.startswith("slow") and not os.path.exists("RELEASE") and not os.path.exists("RELEASE of " + message):
        time.sleep(0.02)
    with lock:
        o.write(b"%s %s\\n" % (b"FAIL" if message.startswith("bad") else b"OK", serial))
        o.flush()
while head := i.readline().split():
    threading.Thread(target=job, args=(head[1], i.read(int(head[3]) + 1)[:-1].decode())).start()
"""


class Trickle:
    def __init__(self, redis, handler, ledger, tmp):
        self.c, self.ledger, self.release = redis.client(), ledger, tmp / "release"
        path = handler(HANDLER.replace("RELEASE", str(self.release)), lang="python")
        self.queue = queue("mail", path, mode="persistent", workers=1, window=8, timeout="5m", kill_grace="1s")

    def push_one_by_one(self, *names):
        """Each one when the handler has the one before."""
        for name in names:
            self.c.lpush("ingress:mail", name)
            wait_for(lambda: name in self.ledger.lines(), 60, f"{name}, of {self.ledger.lines()}")

    def push(self, n):
        names = [f"fast {i}" for i in range(n)]
        self.c.lpush("ingress:mail", *names)
        wait_for(lambda: set(names) <= set(self.ledger.lines()), 60)
        return names

    def trays(self):
        """The messages that the worker owns."""
        return sorted(m.decode() for key in self.c.keys("transit:mail:*:[012]") for m in self.c.lrange(key, 0, -1))

    def let(self, name):
        self.release.with_name(f"{self.release.name} of {name}").touch()

    def end(self):
        self.release.touch()
        wait_for(lambda: not anywhere(self.c, "mail"), 60)


@pytest.fixture
def trickle(redis, handler, ledger, tmp):
    return Trickle(redis, handler, ledger, tmp)


SLOW = [f"slow {i}" for i in range(8)]


def test_messages_that_come_one_by_one_run_at_once(trickle, quredisd):
    d = quredisd(queues=[trickle.queue])
    trickle.push_one_by_one(*SLOW)
    trickle.c.lpush("ingress:mail", "slow 8")
    assert trickle.trays() == SLOW                  # the window is full
    assert trickle.c.lrange("ingress:mail", 0, -1) == [b"slow 8"]
    trickle.end()
    assert sorted(trickle.ledger.lines()) == [*SLOW, "slow 8"] and d.stop() == 0


def test_few_slow_ones_hold_up_no_others(trickle, quredisd):
    """More than all trays could take at once; each that is done leaves Redis although its tray is never empty."""
    d = quredisd(queues=[trickle.queue])
    trickle.push_one_by_one(*SLOW[:6])
    fast = trickle.push(4000)
    wait_for(lambda: trickle.trays() == SLOW[:6], 60)
    trickle.end()
    assert collections.Counter(trickle.ledger.lines()) == collections.Counter([*SLOW[:6], *fast]) and d.stop() == 0


def test_a_killed_worker_repeats_only_what_ran(trickle, quredisd):
    d = quredisd(queues=[trickle.queue])
    trickle.push_one_by_one(*SLOW[:6])
    fast = trickle.push(200)
    wait_for(lambda: trickle.trays() == SLOW[:6], 60)
    kill_and_wait(list(d.workers("mail").values()))
    trickle.end()
    assert {name: trickle.ledger.count(name) for name in [*SLOW[:6], *fast]} == {**dict.fromkeys(SLOW[:6], 2), **dict.fromkeys(fast, 1)}
    assert d.stop() == 0


@pytest.mark.parametrize("lose", ["lose_request", "lose_reply"])
def test_a_lost_fetch_loses_nothing(trickle, redis, redis_proxy, quredisd, lose):
    """The connection ends with a fetch into a tray whose messages run."""
    proxy = redis_proxy(redis)
    d = quredisd(redis=proxy, queues=[trickle.queue])
    trickle.push_one_by_one(*SLOW[:4])
    for i in range(3):
        getattr(proxy, lose)(b"RPOPLPUSH")
        trickle.push_one_by_one(f"fast {i}")
    trickle.push_one_by_one(*SLOW[4:])
    assert proxy.lost == 3
    wait_for(lambda: trickle.trays() == SLOW, 60)
    trickle.end()
    assert sorted(trickle.ledger.lines()) == [*(f"fast {i}" for i in range(3)), *SLOW] and d.stop() == 0


def test_an_equal_message_is_not_taken_for_the_one_that_left(trickle, redis, redis_proxy, quredisd):
    """Of two that are equal one is done, the other one is fetched, and both answers are lost."""
    proxy = redis_proxy(redis)
    d = quredisd(redis=proxy, queues=[trickle.queue])
    trickle.push_one_by_one(*SLOW)
    trickle.c.lpush("ingress:mail", SLOW[5])                # it comes when there is room
    proxy.lose_reply(b"RPOPLPUSH")
    trickle.let(SLOW[5])
    wait_for(lambda: proxy.lost == 1 and trickle.ledger.count(SLOW[5]) == 2, 60)
    trickle.end()
    assert sorted(trickle.ledger.lines()) == sorted([*SLOW, SLOW[5]]) and d.stop() == 0


def test_a_lost_answer_to_a_renewal_repeats_nothing(trickle, redis, redis_proxy, quredisd):
    """The lease was there throughout, so nobody took anything."""
    proxy = redis_proxy(redis)
    d = quredisd(redis=proxy, queues=[trickle.queue])
    trickle.push_one_by_one(*SLOW[:6])
    proxy.lose_reply(script_hash("renew"))
    proxy.cut()
    trickle.push_one_by_one("fast")
    assert proxy.lost == 1
    trickle.end()
    assert sorted(trickle.ledger.lines()) == ["fast", *SLOW[:6]] and not d.events("claim_lost") and d.stop() == 0


def test_slow_messages_do_not_stop_the_probes_of_the_breaker(trickle, quredisd):
    trickle.queue.update(max_attempts=1, breaker={"failures": 3})
    d = quredisd(queues=[trickle.queue])
    trickle.push_one_by_one(*SLOW[:6])
    trickle.c.lpush("ingress:mail", *[f"bad {i}" for i in range(6)])
    wait_for(lambda: trickle.c.llen("escape:mail") == 6, 60)
    assert d.events("breaker_opened")
    trickle.end()
    assert d.stop() == 0
