"""A handler that stays is given one message until it reads, and what is handed back unstarted is not fetched again at once."""
import collections
import json
import os
import signal

import pytest

from harness import queue, wait_for
from harness.messages import anywhere

# The first process made waits for @TMP@/go before it reads; it says that it was made.
SLOW_START = r'''
import os, sys, time
try:
    os.mkdir("@TMP@/slow")
    while not os.path.exists("@TMP@/go"):
        time.sleep(0.01)
except FileExistsError:
    pass
fd = os.open("@LEDGER@", os.O_WRONLY | os.O_APPEND)
jobs = sys.stdin.buffer
while head := jobs.readline().split():
    message = jobs.read(int(head[3]) + 1)
    os.write(fd, message)
    time.sleep(0.005)
    print("OK", head[1].decode(), flush=True)
'''

# Notes what it reads, answers in order, and answers "slow" only when @TMP@/go is there.
HOLDS = r'''
import os, sys, threading, time
fd = os.open("@LEDGER@", os.O_WRONLY | os.O_APPEND)
jobs, waiting = sys.stdin.buffer, []
def answer():
    while True:
        if waiting and (waiting[0][1] != b"slow\n" or os.path.exists("@TMP@/go")):
            print("OK", waiting.pop(0)[0].decode(), flush=True)
        time.sleep(0.01)
threading.Thread(target=answer, daemon=True).start()
while head := jobs.readline().split():
    message = jobs.read(int(head[3]) + 1)
    os.write(fd, message)
    waiting.append((head[1], message))
'''


@pytest.fixture
def body(handler, tmp):
    (tmp / "gate").mkdir(mode=0o777)
    (tmp / "gate").chmod(0o777)

    def write(text):
        return handler(text.replace("@TMP@", str(tmp / "gate")), "python")
    return write


def moves(c):
    """Commands and scripts that move messages, so far."""
    stats = c.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("rpoplpush", "brpoplpush", "lmove", "blmove", "evalsha"))


def handed_back(d, name):
    queues = json.loads(d.quredis("status", "--json").out)["queues"]
    return next(q["counters"]["handed_back"] for q in queues if q["name"] == name)


def test_nothing_is_fetched_for_a_handler_that_has_not_started(redis, quredisd, body, ledger, tmp):
    n = 220
    c = redis.client()
    d = quredisd(queues=[queue("mail", body(SLOW_START), mode="persistent", window=16, workers=2)])
    d.wait_workers("mail", 2)
    c.lpush("ingress:mail", "first")
    wait_for((tmp / "gate/slow").exists)
    before = moves(c)
    c.lpush("ingress:mail", *[f"m{i}" for i in range(n)])
    wait_for(lambda: c.llen("ingress:mail") == 0)
    held = n + 1 - len(ledger.lines())
    used = moves(c) - before
    print(f"\n{used} moves for {n} messages, {held} with the handler that starts")
    (tmp / "gate/go").touch()
    wait_for(lambda: len(ledger.lines()) == n + 1 and not anywhere(c, "mail"))
    assert used <= 6 * n


def test_a_window_with_room_takes_what_comes_behind_a_slow_message(redis, quredisd, body, ledger, tmp):
    c = redis.client()
    d = quredisd(queues=[queue("mail", body(HOLDS), mode="persistent", window=4)])
    c.lpush("ingress:mail", "slow")
    wait_for(lambda: ledger.count("slow"))
    for i in range(2):      # each is in a tray of its own, and there are three
        c.lpush("ingress:mail", f"m{i}")
        wait_for(lambda: ledger.count(f"m{i}"), what="it is read while the slow one is unanswered")
    assert handed_back(d, "mail") == 0
    (tmp / "gate/go").touch()
    wait_for(lambda: not anywhere(c, "mail"))
    assert sorted(ledger.lines()) == ["m0", "m1", "slow"]


def test_what_must_run_alone_is_not_fetched_again_and_again(redis, quredisd, body, handler, ledger, tmp):
    """Messages of a killed handler come back to be run alone. A worker whose handler is busy has no room for such a one."""
    n = 100
    c = redis.client()
    d = quredisd(queues=[queue("mail", body(HOLDS.replace("fd, message)", 'fd, b"%d " % os.getpid() + message)')), mode="persistent", window=8, workers=2),
                         queue("news", handler("echo news >>@LEDGER@"))])
    d.wait_workers("mail", 2)
    for i in range(5):
        c.lpush("ingress:mail", "slow")
        wait_for(lambda: len(ledger.lines()) == i + 1)
    (pid, many), _ = collections.Counter(line.split()[0] for line in ledger.lines()).most_common(2)
    assert many >= 2
    os.kill(int(pid), signal.SIGKILL)
    wait_for(lambda: len(ledger.lines()) == 6, what="the first of them runs alone")
    before = handed_back(d, "mail")
    c.lpush("ingress:news", *["news"] * n)
    wait_for(lambda: ledger.count("news") == n)
    again = handed_back(d, "mail") - before
    print(f"\n{again} hand-backs while {n} messages of another queue were handled")
    assert len(ledger.lines()) == 6 + n
    assert again <= 20
    (tmp / "gate/go").touch()
    wait_for(lambda: not anywhere(c, "mail"), 60)
