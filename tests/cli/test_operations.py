"""A retry or a deletion by filter: how far it came is in Redis, and a repeated command continues it."""
import collections
import json
import random
import signal
import subprocess

import pytest

from harness import queue, wait_for
from harness.letters import CAUSE, LETTERS, PATIENCE_S, SWITCH, fill, left_whole
from harness.paths import QUREDIS
from harness.queues import Queue, strip


@pytest.fixture
def mail(redis):
    Queue(redis.client())
    return fill(redis.client())


@pytest.mark.parametrize("command", ["retry", "rm"])
def test_killed_ten_times_and_repeated_it_acts_on_each_once(quredis, redis, mail, command):
    q, wanted = mail
    chance = random.Random(7)
    pace = ["--rate", f"{LETTERS // 2}/s"] if command == "retry" else []
    args = [str(QUREDIS), "-u", redis.url, "dlq", command, "mail", "--all", "--cause", CAUSE, "--yes", *pace]
    gone, kills = 0, 0
    while kills < 10 and gone < len(wanted):
        child = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        at = gone + chance.randrange(1, max(2, len(wanted) // 15))
        wait_for(lambda: LETTERS - q.client.llen(q.escape) >= at or child.poll() is not None, interval=0.0005)
        child.kill()
        child.communicate()
        gone = LETTERS - q.client.llen(q.escape)
        kills += 1
    if gone == len(wanted):     # this machine was too slow to kill the last one in time
        q.client.delete(f"{q.escape}:operations", f"{q.escape}:returned")
        assert [strip(m) for m in q.fetched()] == (wanted if command == "retry" else [])
        return left_whole(q, wanted)
    r = quredis("dlq", command, "mail", "--all", "--cause", CAUSE, "--yes", *pace)
    assert r.code == 0 and f"continues the {'retry' if command == 'retry' else 'deletion'} begun at 20" in r.err, r
    assert f": {gone} " in r.err and f" {len(wanted) - gone} messages" in r.out
    assert [strip(m) for m in q.fetched()] == (wanted if command == "retry" else [])
    left_whole(q, wanted)


def test_what_fails_again_is_not_taken_twice_and_is_a_new_operation(quredis, redis, mail):
    q, wanted = mail
    paced = ["dlq", "retry", "mail", "--all", "--cause", CAUSE, "--max-failures", "99999", "--yes"]
    r = subprocess.Popen([str(QUREDIS), "-u", redis.url, *paced, "--rate", "500/s"],
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: q.client.llen(q.ingress) > 20)
    failed = [strip(q.client.rpop(q.ingress)) for _ in range(10)]
    for m in failed:
        q.dead_letters(m, error_class="SMTPServerDisconnected", error_message="connection to 10.0.0.17 lost: 421")
    r.send_signal(signal.SIGINT)
    said = r.communicate(timeout=30)
    assert r.returncode == -signal.SIGINT and "run it again to continue" in said[1]
    r = quredis(*paced, "--rate", "100000/s")
    assert r.code == 0 and "continues the retry begun at" in r.err and "10 of them became dead letters again" in r.err
    counts = collections.Counter(failed + [strip(m) for m in q.fetched()])
    assert counts == collections.Counter(wanted) and sorted(q.client.lrange(q.escape, 0, 9)) == sorted(failed)
    assert json.loads(quredis("--json", "dlq", "retry", "mail", "--all", "--cause", CAUSE).out)["count"] == 10


def test_two_at_once_and_one_that_went_back(quredis, redis, mail):
    q, wanted = mail
    args = ["dlq", "retry", "mail", "--all", "--cause", CAUSE, "--rate", "50/s", "--yes"]
    first = subprocess.Popen([str(QUREDIS), "-u", redis.url, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: q.client.llen(q.ingress) > 5)
    second = quredis(*args)
    assert second.code == 75 and "another command does the same retry now" in second.err and second.out == ""
    q.client.delete(f"{q.escape}:operations")           # as a Redis that went back to a state before the operation
    said = first.communicate(timeout=30)
    assert first.returncode == 75 and "Redis went back to an earlier state: run it again" in said[1]
    moved = q.client.llen(q.ingress)
    assert quredis(*args[:6]).code == 0 and q.client.llen(q.ingress) == len(wanted) and moved < len(wanted)
    left_whole(q, wanted)


def test_anew(quredis, redis, mail):
    q, wanted = mail
    args = ["dlq", "rm", "mail", "--all", "--cause", CAUSE, "--yes"]
    child = subprocess.Popen([str(QUREDIS), "-u", redis.url, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for(lambda: q.client.llen(q.escape) < LETTERS, interval=0.0005)
    child.kill()
    child.communicate()
    new, = q.dead_letters(b"0:new", error_class="SMTPServerDisconnected", error_message="connection to 10.0.0.17 lost: 421")
    if q.client.exists(f"{q.escape}:operations"):
        assert quredis(*args, "--dry-run").code == 0
        r = quredis(*args, "--anew")
        assert r.code == 0 and "continues" not in r.err
    assert q.client.llen(q.escape) == LETTERS - len(wanted) and not q.client.xrange(q.log, new, new)


# ---- with workers ----

@pytest.fixture
def service(quredisd, redis, handler, tmp):
    def make(**keys):
        q, wanted = fill(redis.client())
        return q, wanted, quredisd(queues=[queue("mail", handler(SWITCH), workers=4, **keys)]), tmp / "broken"
    return make


@pytest.mark.limit(2 * PATIENCE_S)
def test_a_canary_of_fifty_then_the_others(service, ledger):
    q, wanted, d, broken = service()
    r = d.quredis("dlq", "retry", "mail", "--all", "--cause", CAUSE, "--canary=50", "--rate", "1000/s")
    assert (r.code, r.out) == (0, f"put back into ingress: {len(wanted)} messages of escape\n"), r.err
    assert "the first 50 messages are done; the others follow" in r.err
    wait_for(lambda: len(ledger.lines()) == len(wanted), PATIENCE_S)
    assert sorted(m.encode() for m in ledger.lines()) == sorted(wanted) and {m.encode() for m in ledger.lines()[:50]} == {*wanted[:50]}
    left_whole(q, wanted)
    assert d.stop() == 0


def test_a_canary_that_fails_again_moves_nothing_else(service):
    q, wanted, d, broken = service()
    broken.touch()
    r = d.quredis("dlq", "retry", "mail", "--all", "--cause", CAUSE, "--canary=50")
    assert (r.code, r.out) == (65, "put back into ingress: 50 messages of escape\n") and "became dead letters again" in r.err and "stopped" in r.err
    wait_for(lambda: q.client.llen(q.escape) == LETTERS)
    assert {*q.client.lrange(q.escape, 0, 49)} == {*wanted[:50]} and {*wanted[50:]} < {*q.client.lrange(q.escape, 50, -1)}
    assert not q.client.exists(f"{q.escape}:operations", f"{q.escape}:returned")
    assert d.stop() == 0


@pytest.mark.limit(2 * PATIENCE_S)
def test_a_canary_that_was_interrupted_is_waited_for(service, ledger):
    q, wanted, d, broken = service()
    assert d.quredis("pause", "mail").code == 0
    args = ["dlq", "retry", "mail", "--all", "--cause", CAUSE, "--canary=20", "--rate", "100000/s"]
    child = subprocess.Popen([str(QUREDIS), "-c", str(d.conf), *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for(lambda: q.client.llen(q.ingress) == 20)
    child.kill()
    child.communicate()
    assert d.quredis("resume", "mail").code == 0
    r = d.quredis(*args)
    assert r.code == 0 and ": 20 " in r.err and "the first 20 messages are done" in r.err
    wait_for(lambda: len(ledger.lines()) == len(wanted), PATIENCE_S)
    left_whole(q, wanted)
    assert d.stop() == 0


# ---- a list and a log that do not agree ----

def test_messages_without_records_and_records_without_messages(quredis, redis):
    c = redis.client()
    q, chance, want, rest = Queue(c), random.Random(3), [], []
    for i in range(600):
        m = b"%d" % i
        kind = chance.choice(["both"] * 6 + ["message", "record", "large", "equal", "long"])
        matches = chance.random() < 0.3
        m = {"large": m + b"x" * 5000, "equal": b"same", "long": m + b"y" * 70000}.get(kind, m)
        if kind != "record":
            c.lpush(q.escape, m)
        if kind != "message":
            q.record(m, error_class="Mine" if matches else "HandlerExit")
        if kind != "record":
            (want if matches and kind != "message" else rest).append(m)
    r = quredis("--json", "dlq", "retry", "mail", "--all", "--class", "Mine", "--yes")
    assert r.code == 0 and json.loads(r.out)["count"] == len(want), r
    assert collections.Counter(strip(m) for m in q.fetched()) == collections.Counter(want)
    assert collections.Counter(c.lrange(q.escape, 0, -1)) == collections.Counter(rest)
