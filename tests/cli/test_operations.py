"""A retry or a deletion by filter: how far it came is in Redis, and a repeated command continues it."""
import collections
import json
import random
import re
import signal
import subprocess

import pytest

from harness import SANITIZED, Tap, high_water_kib, queue, wait_for
from harness.dead_letters import CAUSE, LETTERS, PATIENCE_S, SHARE, SWITCH, fill, left_whole, remembered
from harness.paths import QUREDIS
from harness.queues import Queue, incarnation, now_ms, sha1, strip
from harness.redis_proxy import CUT, SCRIPTS


@pytest.fixture
def mail(redis):
    Queue(redis.client())
    return fill(redis.client())


def begin(url, *args):
    return subprocess.Popen([str(QUREDIS), "-u", url, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


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
        q.client.delete(*remembered(q), "none")
        assert [strip(m) for m in q.fetched()] == (wanted if command == "retry" else [])
        return left_whole(q, wanted)
    r = quredis("dlq", command, "mail", "--all", "--cause", CAUSE, "--yes", *pace)
    assert r.code == 0 and f"continues the {'retry' if command == 'retry' else 'deletion'} begun at 20" in r.err, r
    assert f": {gone} " in r.err and f" {len(wanted) - gone} dead letters" in r.out
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
    assert r.returncode == -signal.SIGINT and "run the command again to continue" in said[1]
    r = quredis(*paced, "--rate", "100000/s")
    assert r.code == 0 and "continues the retry begun at" in r.err and f"10 of {len(wanted)} messages moved back became dead letters again so far" in r.err
    counts = collections.Counter(failed + [strip(m) for m in q.fetched()])
    assert counts == collections.Counter(wanted) and sorted(q.client.lrange(q.escape, 0, 9)) == sorted(failed)
    assert json.loads(quredis("--json", "dlq", "retry", "mail", "--all", "--cause", CAUSE).out)["count"] == 10


def test_two_at_once_and_one_that_went_back(quredis, redis, mail):
    q, wanted = mail
    args = ["dlq", "retry", "mail", "--all", "--cause", CAUSE, "--rate", "50/s", "--yes"]
    first = subprocess.Popen([str(QUREDIS), "-u", redis.url, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: q.client.llen(q.ingress) > 5)
    second = quredis(*args)
    assert second.code == 75 and "the same retry is running (host and process " in second.err and second.out == ""
    assert "or stop it: quredis operations mail --stop " in second.err
    q.client.delete(f"{q.escape}:operations")           # as a Redis that went back to a state before the operation
    said = first.communicate(timeout=30)
    assert first.returncode == 75 and "Redis went back to an earlier state: run the command again" in said[1]
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


def test_anew_asks_before_it_forgets(redis, terminal, quredis):
    q = Queue(redis.client())
    q.dead_letters(*[b"m%d" % i for i in range(30)], error_class="Mine")
    args = ["dlq", "retry", "mail", "--all", "--class", "Mine", "--rate", "20/s"]
    child = begin(redis.url, *args, "--yes")
    wait_for(lambda: q.client.llen(q.ingress) > 3)
    child.send_signal(signal.SIGINT)
    child.communicate()
    done, kept = q.client.llen(q.ingress), remembered(q)
    t = terminal(*args, "--anew")
    t.expect(f"Move back {30 - done} messages")
    t.type("n\n")
    assert t.end() == 1 and remembered(q) == kept
    assert f": {done} of 30 are done" in quredis(*args[:-1], "1000/s", "--yes").err
    assert quredis(*args, "--yes", "--anew").out.startswith("retried 0 dead letters") and not remembered(q)


def test_a_dead_letter_that_cannot_move_is_not_passed_over(redis, quredis):
    """A large one moves alone. After an error the same command begins with it."""
    q = Queue(redis.client())
    large = b"x" * 100_000
    q.dead_letters(large, error_class="Mine")
    q.client.set(q.ingress, "no list")
    r = quredis(*MINE)
    assert r.code == 78 and "or another key of this queue, has the wrong type" in r.err and "no longer in escape" not in r.err, r
    q.client.delete(q.ingress)
    r = quredis(*MINE)
    assert r.out == "retried 1 dead letter of mail; 0 matching messages are left\n", r
    assert q.client.llen(q.escape) == 0 and strip(q.client.rpop(q.ingress)) == large


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
    assert r.code == 0, r
    assert re.fullmatch(f"retried {len(wanted)} dead letters of mail; 0 failed again( so far)?; 0 matching messages are left\n", r.out), r
    assert "the first 50 messages left the queue, and none is a dead letter again; the others follow" in r.err
    wait_for(lambda: len(ledger.lines()) == len(wanted), PATIENCE_S)
    assert sorted(m.encode() for m in ledger.lines()) == sorted(wanted) and {m.encode() for m in ledger.lines()[:50]} == {*wanted[:50]}
    left_whole(q, wanted)
    assert d.stop() == 0


def test_a_canary_that_fails_again_moves_nothing_else(service):
    q, wanted, d, broken = service()
    broken.touch()
    r = d.quredis("dlq", "retry", "mail", "--all", "--cause", CAUSE, "--canary=50")
    assert r.code == 65, r
    assert re.fullmatch(f"retried 50 dead letters of mail; [0-9]+ failed again so far; {len(wanted) - 50} matching messages are left\n", r.out), r
    assert "became dead letters again" in r.err, r
    assert re.search(r": stopped\. (It has|All [0-9]+ have) another cause than before: 'HandlerExit exit 3: ", r.err), r
    wait_for(lambda: q.client.llen(q.escape) == LETTERS)
    assert {*q.client.lrange(q.escape, 0, 49)} == {*wanted[:50]} and {*wanted[50:]} < {*q.client.lrange(q.escape, 50, -1)}
    assert not remembered(q)
    assert d.stop() == 0


def failed(d, c, n, payload=b""):
    """n messages that failed, one after the other."""
    for i in range(n):
        c.lpush("ingress:mail", b"%d" % i + payload + b"x" * i)
        wait_for(lambda: c.llen("escape:mail") == i + 1, 60)


def test_a_canary_without_a_sha1_fails_again(quredisd, redis, handler):
    """No process reads a message above message_max, and Redis computes no sha1 above 16 MiB: its record has only its size."""
    d, c = quredisd(queues=[queue("mail", handler("exit 3"))]), redis.client()
    failed(d, c, 3, bytes(17 << 20))
    assert {f[b"sha1"] for _, f in c.xrange("escape:mail:log")} == {b""}
    r = d.quredis("dlq", "retry", "mail", "--all", "--class", "TooLarge", "--canary")
    assert r.code == 65 and "1 of 1 messages moved back became dead letters again" in r.err and "1 failed again so far; 2 matching" in r.out, r
    wait_for(lambda: c.llen("escape:mail") == c.xlen("escape:mail:log") == 3)
    r = d.quredis("dlq", "retry", "mail", "--all", "--class", "TooLarge", "--rate", "1/s", "--max-failures", "9")
    assert r.code == 0 and not c.exists("escape:mail:operations"), r
    assert "becomes a dead letter again, unless message_max is larger" in r.err
    assert d.stop() == 0


def test_a_canary_whose_record_redis_refuses_failed_again(quredisd, redis, handler):
    d, c = quredisd(queues=[queue("mail", handler("exit 3"))]), redis.client()
    failed(d, c, 5)
    c.xadd("escape:mail:log", {"x": "y"}, id="18446744073709551615-18446744073709551615")     # no id is greater
    r = d.quredis("dlq", "retry", "mail", "--all", "--class", "HandlerExit", "--canary=2")
    assert r.code == 65 and "one of the first 2 messages is a dead letter again, without a record that says why: stopped" in r.err, r
    assert r.out == "retried 2 dead letters of mail; 1 failed again so far; 3 matching messages are left\n"
    wait_for(lambda: c.llen("escape:mail") == 5)
    assert not c.exists("escape:mail:operations", "ingress:mail")
    d.stop()


@pytest.mark.parametrize("place", ["older", "newest", "newest leaves"])
def test_a_dead_letter_that_equals_the_canary_is_not_the_canary(past, place):
    """Only those that are newer than the newest one before the canary can be of it."""
    server, q, wanted = past
    if place == "newest":
        q.client.lpush(q.escape, wanted[0])
    else:
        q.client.linsert(q.escape, "BEFORE", wanted[40], wanted[0])
    child = begin(server.url, *MINE, "--canary", "--rate", "100000/s")
    wait_for(lambda: q.client.llen(q.ingress) == 1)
    if place == "newest leaves":
        q.client.lpop(q.escape)
    q.client.delete(q.ingress)
    said = child.communicate(timeout=60)
    assert child.returncode == 0 and "the first message left the queue and is no dead letter again; the others follow" in said[1], said


# ---- the last line, and why messages failed again ----

def retried(redis, messages, fail, *options, cause=CAUSE):
    """Retries these dead letters of one cause, gently; fail(q, message) plays the worker, message by message."""
    q = Queue(redis.client())
    q.dead_letters(*messages, error_class="SMTPServerDisconnected", error_message="connection to 10.0.0.17 lost: 421")
    q.dead_letters(b"other")
    child = begin(redis.url, "dlq", "retry", "mail", "--all", *(("--cause", cause) if cause else ("--class", "SMTPServerDisconnected")), "--yes", *options)
    while child.poll() is None:
        m = q.client.rpop(q.ingress)
        if m is not None:
            fail(q, strip(m))
    return child.returncode, *child.communicate()


def as_before(q, m):
    q.dead_letters(m, error_class="SMTPServerDisconnected", error_message="connection to 10.0.0.18 lost: 421")


def wrong_recipient(q, m):
    q.dead_letters(m, error_class="Rejected", error_message="no such user", exit_code="65")


@pytest.mark.parametrize("cause", [CAUSE, None], ids=["cause", "class"])
@pytest.mark.parametrize("fail, why", [
    (as_before, f"It has the same cause as before: '{CAUSE}'"),
    (wrong_recipient, "It has another cause than before: 'Rejected exit 65: no such user'"),
], ids=["same", "another"])
def test_a_canary_that_stops_says_whether_the_cause_is_the_same(redis, fail, why, cause):
    code, out, err = retried(redis, [b"m%d" % i for i in range(30)], fail, "--canary", cause=cause)
    assert code == 65 and f": stopped. {why}\n" in err and ("Correct the cause, then run the same command again" in err) == (fail is as_before), err
    assert out == "retried 1 dead letter of mail; 1 failed again so far; 29 matching messages are left\n"


def test_a_cause_of_the_shape_that_was_retried_is_the_same(redis):
    def with_another_code(q, m):
        q.dead_letters(m, error_class="SMTPServerDisconnected", error_message="connection to 10.0.0.18 lost: 422")

    shape = CAUSE.replace("#", "*").replace("421", "*")
    code, _, err = retried(redis, [b"m%d" % i for i in range(3)], with_another_code, "--canary", cause=shape)
    assert code == 65 and f": stopped. It has the same cause as before: '{CAUSE.replace('421', '422')}'\n" in err, err


def test_so_far_is_said_while_messages_are_under_way(redis, quredis):
    code, out, err = retried(redis, [b"m"], lambda q, m: None, "--canary")
    assert (code, out) == (0, "retried 1 dead letter of mail; 0 failed again; 0 matching messages are left\n"), err
    Queue(redis.client()).dead_letters(b"m", error_class="Mine")
    r = quredis("dlq", "retry", "mail", "--all", "--class", "Mine", "--rate", "9/s", "--yes")
    assert r.out == "retried 1 dead letter of mail; 0 failed again so far; 0 matching messages are left\n"


class Hops(Tap):
    """A message leaves the tray of its worker between the look at the delayed ones and the look at the trays."""

    def __init__(self, client, tray):
        self.client, self.tray = client, tray

    def request(self, pair, words):
        if words == [b"LLEN", b"ingress:mail"]:
            self.client.delete("ingress:mail")      # the one that was moved back is done
        if words == [b"LLEN", self.tray.encode()] and self.client.delete(self.tray):
            self.client.zadd("quredis:of:ingress:mail:delayed", {"hops": now_ms() + 60_000})


def test_a_message_that_moves_meanwhile_is_under_way(redis, redis_proxy, quredis):
    q = Queue(redis.client())
    q.worker(incarnation(1), t0=[b"hops"])
    q.dead_letters(b"m", error_class="Mine")
    proxy = redis_proxy(redis, Hops(q.client, f"{q.transit}:{incarnation(1)}:0"))
    r = quredis(*MINE, "--rate", "9/s", url=proxy.url)
    assert r.out == "retried 1 dead letter of mail; 0 failed again so far; 0 matching messages are left\n", r
    assert q.client.zcard(q.delayed) == 1


class FailsAndInterrupts(Tap):
    """The canary fails again, and at that moment the command is interrupted, as the console does after some seconds."""

    def __init__(self, q):
        self.q, self.child = q, None

    def request(self, pair, words):
        if words[0] == b"EVALSHA" and SCRIPTS.get(words[1]) == "look" and self.q.ingress.encode() in words and self.q.client.llen(self.q.ingress) == 5:
            for m in self.q.fetched():
                wrong_recipient(self.q, strip(m))
            self.q.client.delete(self.q.ingress)
            self.child.send_signal(signal.SIGINT)


def test_a_canary_that_fails_while_the_command_is_interrupted_ends_the_operation(redis, redis_proxy):
    """The exit status says so, not the signal: who repeats what was only interrupted would move another canary."""
    q = Queue(redis.client())
    q.dead_letters(*[b"m%d" % i for i in range(30)], error_class="Mine")
    tap = FailsAndInterrupts(q)
    tap.child = begin(redis_proxy(redis, tap).url, *MINE, "--canary=5", "--json")
    out, err = tap.child.communicate(timeout=60)
    assert tap.child.returncode == 65 and "5 of 5 messages moved back became dead letters again" in err, (out, err)
    assert json.loads(out)["done"] == 5 and not remembered(q)


def test_failures_of_two_causes(redis):
    code, out, err = retried(redis, [b"m%d" % i for i in range(30)], lambda q, m: (wrong_recipient if m in (b"m3", b"m5") else as_before)(q, m),
                             "--max-failures", "9", "--rate", "100/s", "--json")
    told = json.loads(out)
    assert code == 65 and "All" not in err, err
    failed = told["failed_again"]
    assert f"{failed - 2} have the same cause as before: '{CAUSE}'; 2 have another cause than before: 'Rejected exit 65: no such user'" in err
    assert failed > 9 and (told["left"], told["same_cause"], told["failed_cause"]) == (30 - told["done"], failed - 2, CAUSE)


def test_what_an_earlier_command_put_back_has_an_unknown_cause(redis, quredis):
    """Redis remembers which messages they were, not their causes. With --cause there is only one."""
    q = Queue(redis.client())
    q.dead_letters(*[b"m%d" % i for i in range(30)], error_class="Mine")
    args = ["dlq", "retry", "mail", "--all", "--class", "Mine", "--yes", "--rate"]
    child = begin(redis.url, *args, "20/s")
    wait_for(lambda: q.client.llen(q.ingress) > 3)
    child.send_signal(signal.SIGINT)
    child.communicate()
    wrong_recipient(q, strip(q.client.rpop(q.ingress)))
    n = q.client.llen(q.ingress) + 1
    r = quredis(*args, "100/s")
    assert r.code == 65 and "It has a cause that cannot be compared: 'Rejected exit 65: no such user'" in r.err, r
    with_all = re.fullmatch("retried ([0-9]+) dead letters? of mail \\(([0-9]+) with the commands before\\); 1 failed again so far; "
                            "([0-9]+) matching messages are left\n", r.out)
    assert with_all and int(with_all[2]) - int(with_all[1]) == n and int(with_all[2]) + int(with_all[3]) == 30, r


def test_a_deletion_that_is_interrupted_says_how_many_are_left(redis, mail):
    q, wanted = mail
    child = begin(redis.url, "dlq", "rm", "mail", "--all", "--cause", CAUSE, "--yes")
    wait_for(lambda: q.client.llen(q.escape) < LETTERS, interval=0.0005)
    child.send_signal(signal.SIGINT)
    out = child.communicate()[0]
    gone = LETTERS - q.client.llen(q.escape)
    assert out == f"deleted {gone} dead letters of mail; {len(wanted) - gone} matching messages are left\n"


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
    assert r.code == 0 and ": 20 " in r.err and "the first 20 messages left the queue, and none is a dead letter again" in r.err
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


# ---- Redis goes back to an earlier state ----

class Back(Tap):
    """Before the move number `keep` a copy of Redis is made, and before the move number `back` Redis goes back to it, or is killed."""

    def __init__(self, server, keep, back, killed=False):
        self.server, self.at, self.killed, self.moves, self.copy = server, (keep, back), killed, 0, None

    def request(self, pair, words):
        if words[0] != b"EVALSHA" or SCRIPTS.get(words[1]) not in ("dead_letters_take", "redrive", "discard"):
            return None
        self.moves += 1
        if self.moves == self.at[0]:
            self.copy = self.server.keep()
        if self.moves == self.at[1] and self.killed:
            self.server.kill9()
            return CUT
        if self.moves == self.at[1]:
            self.server.go_back_unnoticed(self.copy)
        return None


@pytest.fixture
def past(redis_server):
    """A Redis that can go back, with dead letters. Half of those of the class Mine are so large that each is moved alone."""
    server = redis_server(config={"enable-debug-command": "yes"})
    q = Queue(server.client())
    _, others = fill(q.client, 50)
    wanted = [b"mine:%d" % i + (b"x" * 70000 if i >= 40 else b"") for i in range(80)]
    q.dead_letters(*wanted, error_class="Mine")
    return server, q, wanted


MINE = ("dlq", "retry", "mail", "--all", "--class", "Mine", "--yes")


@pytest.mark.parametrize("killed", [True, False], ids=["restart", "unnoticed"])
@pytest.mark.parametrize("args, keep, back", [(("--rate", "500/s"), 3, 8), ((), 10, 20), (None, 10, 20)], ids=["batches", "single", "rm"])
def test_redis_goes_back_in_the_middle(past, redis_proxy, quredis, args, keep, back, killed):
    server, q, wanted = past
    command = ("dlq", "rm", *MINE[2:]) if args is None else (*MINE, *args)
    tap = Back(server, keep, back, killed)
    child = begin(redis_proxy(server, tap).url, *command)
    said = child.communicate(timeout=60)
    assert tap.moves >= back
    if killed:
        server.go_back(tap.copy)
    assert child.returncode == 69 if killed else child.returncode == 0 or "Redis went back to an earlier state: run the command again" in said[1], said
    again = quredis("-u", server.url, *command)
    assert again.code == 0, again
    assert collections.Counter(strip(m) for m in q.fetched()) == collections.Counter([] if args is None else wanted)
    assert q.client.llen(q.escape) == q.client.xlen(q.log) == 50 and not {*q.client.lrange(q.escape, 0, -1)} & {*wanted}
    assert not remembered(q)


def test_what_it_put_back_before_redis_went_back_is_counted_too(past, redis_proxy):
    server, q, _ = past
    n = round(50 * SHARE)
    tap = Back(server, 1, 2)
    child = begin(redis_proxy(server, tap).url, "--json", "dlq", "retry", "mail", "--all", "--cause", CAUSE, "--yes", "--rate", "1000/s")
    said = child.communicate(timeout=60)
    assert child.returncode == 0 and json.loads(said[0])["count"] > n == q.client.llen(q.ingress), said


def test_a_canary_that_redis_took_back_is_not_done(past, redis_proxy, quredis):
    """The copy is made after its name was noted, and before it left escape. Then it is nowhere under way, and no dead letter again."""
    server, q, wanted = past
    tap = Back(server, 1, None)
    child = begin(redis_proxy(server, tap).url, *MINE, "--canary", "--rate", "100000/s")
    wait_for(lambda: q.client.llen(q.ingress) == 1)
    server.go_back_unnoticed(tap.copy)
    said = child.communicate(timeout=60)
    assert child.returncode == 75 and "Redis went back to an earlier state: run the command again" in said[1] and "is done" not in said[1], said
    assert said[1].count("run the command again") == 1 and not q.client.exists(q.ingress)
    child = begin(server.url, *MINE, "--canary", "--rate", "100000/s")
    wait_for(lambda: q.client.llen(q.ingress) == 1)
    assert strip(q.client.rpop(q.ingress)) == wanted[0]     # a worker does it
    said = child.communicate(timeout=60)
    assert child.returncode == 0 and "the first message left the queue and is no dead letter again" in said[1], said
    assert [strip(m) for m in q.fetched()] == wanted[1:]


# ---- what an earlier command left ----

def test_the_failures_of_another_operation_do_not_count(past, quredis):
    """Another one is interrupted, and its messages fail again while this one works."""
    server, q, wanted = past
    q.dead_letters(b"its:1", b"its:2", error_class="Its")
    child = begin(server.url, *MINE, "--rate", "20/s")
    wait_for(lambda: q.client.llen(q.ingress) >= 3)
    child.kill()
    child.communicate()
    mine = [strip(q.client.rpop(q.ingress)) for _ in range(2)]
    q.client.delete(q.ingress)
    its = begin(server.url, "dlq", "retry", "mail", "--all", "--class", "Its", "--canary", "--yes")
    wait_for(lambda: q.client.llen(q.ingress) == 1)
    q.dead_letters(*mine, error_class="Mine")
    q.client.delete(q.ingress)
    said = its.communicate(timeout=60)
    assert its.returncode == 0 and "became dead letters again" not in said[1] and "; 0 failed again" in said[0], said
    r = quredis("-u", server.url, *MINE, "--rate", "100000/s", "--max-failures", "9")
    assert r.code == 0 and "2 of 80 messages moved back became dead letters again" in r.err, r
    assert not remembered(q)


@pytest.mark.parametrize("damage", ["forged", "greatest", "denied"])
@pytest.mark.parametrize("command", ["retry", "rm"])
def test_nothing_leaves_that_redis_cannot_count(redis_server, quredis, damage, command):
    server = redis_server(tcp=True)
    q = Queue(server.client())
    bound = q.dead_letters(*(b"%d" % i for i in range(20)), error_class="Mine")[-1]
    url, args = server.tcp_url, ("dlq", command, *MINE[2:], *(["--rate", "1/h"] if command == "retry" else []))
    if damage == "denied":
        q.client.execute_command("ACL", "SETUSER", "some", "on", ">pw", "~*", "&*", "+@all", "-hincrby")
        url = url.replace("redis://", "redis://some:pw@")
    else:
        what = f"dlq {command} class=Mine"
        q.client.hset(f"{q.escape}:operations", mapping={f"{sha1(what.encode())[:16]}:{k}": v for k, v in {
            "what": what, "since": "-", "bound": bound, "next": "-", "begun": "1", "done": "abc" if damage == "forged" else str(2 ** 63 - 1)}.items()})
    r = quredis("-u", url, *args)
    assert r.code != 0 and r.out == "", r
    assert q.client.llen(q.escape) == 20 == q.client.xlen(q.log) and not q.client.exists(q.ingress)

def test_a_canary_after_a_part_without_one(past):
    """It counts from its own beginning, not from that of the operation."""
    server, q, wanted = past
    child = begin(server.url, *MINE, "--rate", "20/s")
    wait_for(lambda: q.client.llen(q.ingress) >= 3)
    child.kill()
    child.communicate()
    n = q.client.llen(q.ingress)
    child = begin(server.url, *MINE, "--canary=2", "--rate", "100000/s")
    wait_for(lambda: q.client.llen(q.ingress) == n + 2)
    q.client.ltrim(q.ingress, 1, -1)    # one of two is done
    with pytest.raises(subprocess.TimeoutExpired):
        child.communicate(timeout=3)    # two looks take one second
    assert q.client.llen(q.ingress) == n + 1
    q.client.delete(q.ingress)
    said = child.communicate(timeout=60)
    assert child.returncode == 0 and "the first 2 messages left the queue, and none is a dead letter again" in said[1]
    assert q.client.llen(q.ingress) == len(wanted) - n - 2, said


def test_a_slow_rate_holds_over_repeated_commands(past):
    """A request of the API ends after 2.5 seconds and is repeated: each would put one back at once."""
    server, q, _ = past
    operations = f"{q.escape}:operations"

    def part(until):
        child = begin(server.url, *MINE, "--rate", "1/h")
        wait_for(lambda: until(child))
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=60)
        return q.client.llen(q.ingress)

    def renewed(child):
        """It holds the operation, and has done so for a second."""
        of = {f.split(b":")[1]: v for f, v in q.client.hgetall(operations).items()}
        held.setdefault(child.pid, int(of[b"held"])) if of[b"holder"].split()[1:2] == [b"%d" % child.pid] else None
        return int(of[b"held"]) > held.get(child.pid, 10 ** 15)

    held = {}
    assert part(lambda child: q.client.hkeys(operations) and any(f.endswith(b":last_at") for f in q.client.hkeys(operations))) == 1
    assert part(renewed) == 1 and part(renewed) == 1
    last, = (f for f in q.client.hkeys(operations) if f.endswith(b":last_at"))
    q.client.hincrby(operations, last, -3600000)
    assert part(lambda child: q.client.llen(q.ingress) > 1) == 2


def test_what_an_operation_left_does_not_outlive_it(past, quredis):
    server, q, wanted = past
    operations = f"{q.escape}:operations"
    child = begin(server.url, *MINE, "--rate", "20/s")
    wait_for(lambda: q.client.llen(q.ingress) >= 3)
    redriven, = q.client.scan_iter(f"{q.escape}:redriven:*")
    q.client.persist(operations)
    q.client.pexpire(redriven, 60000)
    wait_for(lambda: q.client.pttl(operations) > 600000000 and q.client.pttl(redriven) > 600000000)    # each renewal extends both
    child.kill()
    child.communicate()
    done, = (f for f in q.client.hkeys(operations) if f.endswith(b":done"))
    q.client.hdel(operations, *(f for f in q.client.hkeys(operations) if f != done))
    n = q.client.llen(q.ingress)
    child = begin(server.url, *MINE, "--canary", "--rate", "100000/s")      # anew: nothing is done yet
    wait_for(lambda: q.client.llen(q.ingress) == n + 1 and q.client.hget(operations, done) == b"1")
    q.client.delete(q.ingress)
    assert child.wait(60) == 0
    q.client.delete(q.ingress)
    again, = q.dead_letters(wanted[0], error_class="Mine")
    q.client.set(redriven, again and q.client.xrange(q.log, again, again)[0][1][b"sha1"][:16])      # an operation before it, which has expired
    q.dead_letters(b"another", error_class="Mine")
    r = quredis("-u", server.url, *MINE, "--rate", "100000/s")
    assert r.code == 0 and q.client.llen(q.ingress) == 2 and not q.client.exists(redriven), r


def test_the_clock_of_redis_goes_back(past, quredis):
    """The hold of a process that was killed on another host would last until the clock has caught up."""
    server, q, wanted = past
    child = begin(server.url, *MINE, "--rate", "20/s")
    wait_for(lambda: q.client.llen(q.ingress) >= 3)
    child.kill()
    child.communicate()
    id_, = {f.split(b":")[0].decode() for f in q.client.hkeys(f"{q.escape}:operations")}
    q.client.hset(f"{q.escape}:operations", mapping={f"{id_}:holder": "elsewhere 1 00000000", f"{id_}:held": str((q.client.time()[0] + 86400) * 1000)})
    row, = json.loads(quredis("-u", server.url, "--json", "operations", "mail").out)
    assert row["state"] == "interrupted" and row["process"] is None, row
    r = quredis("-u", server.url, *MINE)
    assert r.code == 0 and q.client.llen(q.ingress) == len(wanted), r


def test_a_canary_that_was_set_aside_is_not_done(past):
    server, q, wanted = past
    child = begin(server.url, *MINE, "--canary", "--rate", "100000/s")
    wait_for(lambda: q.client.llen(q.ingress) == 1)
    q.client.lmove(q.ingress, f"{q.transit}:aside")
    with pytest.raises(subprocess.TimeoutExpired):
        child.communicate(timeout=3)    # two looks take one second
    q.dead_letters(wanted[0], error_class="Mine")
    q.client.delete(f"{q.transit}:aside")
    said = child.communicate(timeout=60)
    assert child.returncode == 65 and q.client.llen(q.escape) == 50 + len(wanted), said


def test_the_rate_of_a_continued_operation_is_that_of_this_command(redis, terminal):
    Queue(redis.client())
    q, wanted = fill(redis.client(), 4000, share=0.9)
    args = ("dlq", "retry", "mail", "--all", "--cause", CAUSE, "--yes", "--rate")
    child = begin(redis.url, *args, "1000/s")
    wait_for(lambda: q.client.llen(q.ingress) >= 500, interval=0.0005)
    child.kill()
    child.communicate()
    done = q.client.llen(q.ingress)
    assert done < len(wanted) - 100
    t = terminal(*args, "10/s", columns=120)
    seen = t.expect(rf"dlq retry  \[[#.]+\] +\d+%  (\d+)/{len(wanted)}  (\d+)/s")
    assert int(seen[1]) >= done and int(seen[2]) < 200, seen[0]
    t.type("\x03")
    assert t.end() == -signal.SIGINT


# ---- a great many of them ----

class Slow(Tap):
    """Each page that is read takes a while; counts the pages before the first move."""

    def __init__(self):
        self.pages, self.before = 0, None

    def request(self, pair, words):
        script = SCRIPTS.get(words[1]) if words[0] == b"EVALSHA" else None
        if script == "look_records" and self.before is None:
            self.pages += 1
            return 0.05
        if script == "dead_letters_take" and self.before is None:
            self.before = self.pages
        return None


def test_it_begins_before_all_are_counted(redis, redis_proxy):
    """100 pages at 50 ms each: without a question it counts for a second, then begins."""
    Queue(redis.client())
    q, wanted = fill(redis.client(), 10000, share=0.1)
    tap = Slow()
    child = begin(redis_proxy(redis, tap).url, "dlq", "retry", "mail", "--all", "--cause", CAUSE, "--yes")
    out, err = child.communicate(timeout=120)
    assert child.returncode == 0, err
    assert 0 < tap.before <= 70, (tap.before, out, err)
    assert [strip(m) for m in q.fetched()] == wanted
    left_whole(q, wanted, 10000)


@pytest.mark.skipif(SANITIZED, reason="these programs measure no memory")
@pytest.mark.parametrize("args", [("retry",), ("retry", "--rate", "100000/s"), ("rm",)], ids=" ".join)
def test_memory_does_not_grow_with_the_number(redis, args):
    """Ten times as many: not a byte for each. A pace remembers which it put back, to see them fail again: up to 64 bytes for each."""
    peaks = []
    for n in (4000, 40000):
        redis.client().flushall()
        Queue(redis.client())
        q, wanted = fill(redis.client(), n, share=0.5)
        child = begin(redis.url, "dlq", args[0], "mail", "--all", "--cause", CAUSE, "--yes", *args[1:])
        peaks.append(0)
        while child.poll() is None:
            peaks[-1] = max(peaks[-1], high_water_kib(child.pid))
        assert child.returncode == 0 and q.client.llen(q.escape) == n - len(wanted), child.communicate()
    names = 64 * len(wanted) // 1024 if "--rate" in args else 0
    assert peaks[1] < peaks[0] + 512 + names, peaks
