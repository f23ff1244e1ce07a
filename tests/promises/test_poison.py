"""A message harms only itself: what its bytes look like when a handler prints them, and what becomes of others when it ends a handler that stays."""
import collections
import random
import time

import pytest

from harness import queue, wait_for
from harness.control import status
from harness.messages import anywhere, unwrap

# Ends itself at p…, answers everything else. Each start is a line of the ledger.
DIES = r'''
echo "starts $$" >>@LEDGER@
while read -r _ serial _ _; do
	read -r m
	case $m in p*) kill -9 $$;; esac
	echo "ran $m" >>@LEDGER@
	echo "OK $serial"
done
'''
ECHOES = r'''
import os, sys
fd, jobs = os.open("@LEDGER@", os.O_WRONLY | os.O_APPEND), sys.stdin.buffer
while head := jobs.readline().split():
    message = jobs.read(int(head[3]) + 1)[:-1]
    os.write(fd, b"ran %s\n" % message.split(b" ")[0])
    os.write(1, b"got: " + message + b"\n" + message + b"\n")
    os.write(1, b"OK %s\n" % head[1])
'''
# Answers, and is killed soon after an answer to P…, while the next message runs.
DIES_LATER = r'''
import os, sys, threading, time
fd, jobs = os.open("@LEDGER@", os.O_WRONLY | os.O_APPEND), sys.stdin.buffer
while head := jobs.readline().split():
    message = jobs.read(int(head[3]) + 1)[:-1]
    os.write(fd, b"ran %s\n" % message)
    if message.startswith(b"P"):
        threading.Timer(0.02, lambda: os.kill(os.getpid(), 9)).start()
    else:
        time.sleep(0.05)
    os.write(1, b"OK %s\n" % head[1])
    if message.startswith(b"A"):
        os.write(1, b"FAIL %s again\n" % head[1])
'''
# Answers, and waits for ever from the message after P… on. With H… it does so at once.
HOLDS_UP = r'''
import os, sys, time
fd, jobs, held = os.open("@LEDGER@", os.O_WRONLY | os.O_APPEND), sys.stdin.buffer, False
while head := jobs.readline().split():
    message = jobs.read(int(head[3]) + 1)[:-1]
    os.write(fd, b"ran %s\n" % message)
    if held or message.startswith(b"H"):
        time.sleep(1000)
    held = message.startswith(b"P")
    os.write(1, b"OK %s\n" % head[1])
'''
# Ends itself at p… after it has lived for longer than its recycle.age.
DIES_OLD = r'''
while read -r _ serial _ _; do
	read -r m
	echo "ran $m" >>@LEDGER@
	case $m in p*) sleep 1.1; kill -9 $$;; esac
	echo "OK $serial"
done
'''


def ran(ledger):
    return collections.Counter(name for name, *_ in ledger.rows("ran"))


def escaped(c):
    return sorted(unwrap(m)[1].decode() for m in c.lrange("escape:mail", 0, -1))


def push_after_poison(c, n, good):
    c.lpush("ingress:mail", *[f"p{i}" for i in range(n)], *[f"good{i}" for i in range(good)])


@pytest.mark.limit(300)
@pytest.mark.parametrize("n, workers, first", [
    (10, 1, "poison"), (10, 2, "poison"), (25, 2, "poison"), (100, 2, "poison"), (25, 1, "answer"), (100, 2, "answer")])
def test_poison_costs_a_constant(redis, quredisd, handler, ledger, n, workers, first):
    """N messages that end the handler, before or after its first answer, cost some starts each. All others run once; each of the N escapes once."""
    c = redis.client()
    if first == "poison":
        push_after_poison(c, n, 20)
    d = quredisd(queues=[queue("mail", handler(DIES), workers=workers, mode="persistent")])
    if first == "answer":
        c.lpush("ingress:mail", "first")
        wait_for(lambda: ran(ledger)["first"], 30)
        push_after_poison(c, n, 20)
    wait_for(lambda: len(escaped(c)) == n and not anywhere(c, "mail"), 240, "everything to be settled")
    starts = len(ledger.rows("starts"))
    print(f"\n{starts} starts for {n} messages that end the handler")
    assert starts <= 5 * n + 10
    assert escaped(c) == sorted(f"p{i}" for i in range(n))
    assert {name: k for name, k in ran(ledger).items() if name != "first"} == {f"good{i}": 1 for i in range(20)}
    assert len(d.events("breaker_opened", queue="mail")) == len(d.events("breaker_closed", queue="mail"))


@pytest.mark.limit(120)
@pytest.mark.parametrize("shared", [False, True])
def test_a_handler_that_each_message_ends_costs_none_of_them(redis, quredisd, handler, ledger, shared):
    """It may be broken for all of them: nobody is charged, and it starts a few times a second at most."""
    c = redis.client()
    begun = time.monotonic()
    quredisd(queues=[queue("mail", handler(DIES), workers=2, mode="persistent", shared=shared)])
    c.lpush("ingress:mail", *[f"p{i}" for i in range(50)])
    wait_for(lambda: len(ledger.rows("starts")) >= 12, 60, "probes")
    assert len(ledger.rows("starts")) <= 3 + (time.monotonic() - begun) / 0.25
    assert c.llen("escape:mail") == 0 and len(anywhere(c, "mail")) == 50
    c.lpush("ingress:mail", "good")         # the last of them all
    wait_for(lambda: ran(ledger)["good"] and c.llen("escape:mail") == 50, 100, "the good one to prove that the others are the cause")
    assert ran(ledger) == {"good": 1}


def test_a_handler_that_prints_its_messages_lends_them_no_authority(redis, quredisd, handler, ledger):
    rng = random.Random(7)
    lines = [f"{verb} {n}" for verb in ("OK", "REJECT", "RETRY", "FAIL", "BEAT", "DONE", "ok") for n in (0, 1, 2, 3, 7, 1234567890123456)]
    names = [f"m{i}" for i in range(200)]
    c = redis.client()
    c.lpush("ingress:mail", *[f"{name} \n" + "\n".join(rng.choices(lines, k=6)) + "\n" for name in names])
    d = quredisd(queues=[queue("mail", handler(ECHOES, "python"), workers=1, mode="persistent", window=8)])
    wait_for(lambda: not anywhere(c, "mail") and len(ran(ledger)) == len(names), 60)
    assert ran(ledger) == {name: 1 for name in names}
    assert c.llen("escape:mail") == 0 and not d.events("handler_ended") and not d.events("handler_answered_twice")
    assert status(d, "mail")["counters"]["stray_answers"] >= len(names)


def test_a_neighbour_that_ends_the_handler_later_is_charged_to_nobody(redis, quredisd, handler, ledger):
    names = [f"{kind}{i}" for i in range(6) for kind in ("P", "a", "b", "A", "c")]
    c = redis.client()
    c.lpush("ingress:mail", "first")
    d = quredisd(queues=[queue("mail", handler(DIES_LATER, "python"), workers=1, mode="persistent")])
    wait_for(lambda: ran(ledger)["first"], 30)
    c.lpush("ingress:mail", *names)
    wait_for(lambda: set(ran(ledger)) >= set(names) and not anywhere(c, "mail"), 90)
    assert c.llen("escape:mail") == 0
    twice = d.events("handler_answered_twice", queue="mail")
    assert len(twice) >= 6 and all(e["line"].startswith("FAIL ") for e in twice)


@pytest.mark.parametrize("window", [1, 4])
def test_a_neighbour_that_holds_up_the_handler_is_charged_alone(redis, quredisd, handler, ledger, window):
    """The time runs out for the message behind it."""
    c = redis.client()
    c.lpush("ingress:mail", "first")
    quredisd(queues=[queue("mail", handler(HOLDS_UP, "python"), workers=1, mode="persistent", window=window, timeout="1s")])
    wait_for(lambda: ran(ledger)["first"], 30)
    c.lpush("ingress:mail", "P", "a", "b", "H", "c", "d")
    wait_for(lambda: not anywhere(c, "mail"), 90)
    assert escaped(c) == ["H"] and ran(ledger)["H"] <= 3
    assert set(ran(ledger)) == {"first", "P", "H", *"abcd"}


def test_a_message_that_ends_a_handler_which_is_to_be_replaced_is_charged(redis, quredisd, handler, ledger):
    """`recycle` asks no handler to exit before it has answered, so that does not excuse its end."""
    c = redis.client()
    c.lpush("ingress:mail", "first")
    quredisd(queues=[queue("mail", handler(DIES_OLD), workers=1, mode="persistent", recycle={"age": "1s"})])
    wait_for(lambda: ran(ledger)["first"], 30)
    c.lpush("ingress:mail", "p", "a", "b")
    wait_for(lambda: not anywhere(c, "mail"), 60)
    assert escaped(c) == ["p"] and ran(ledger)["p"] <= 3
    assert ran(ledger)["a"] == ran(ledger)["b"] == 1
