"""Which period a continued operation means, and what the operator learns of it; operations that another program has damaged."""
import re
import time

import pytest

from harness.dead_letters import remembered
from harness.queues import Queue, sha1

HOUR = 3600000
OLD, NEW = [b"old:%d" % i for i in range(10)], [b"new:%d" % i for i in range(10)]


def stamp(ms):
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ms / 1000)) + f".{ms % 1000:03d}Z"


@pytest.fixture
def yesterday(redis):
    """An operation with --since 2h, interrupted `ago` ms ago, when only the old ones were dead letters. Returns the queue, and what it asks about."""
    def make(ago, command="rm", option="since"):
        q, (s, us) = Queue(redis.client()), redis.client().time()
        now = s * 1000 + us // 1000
        for ms, messages in (now - ago - HOUR, OLD), (now - HOUR // 2, NEW):
            for i, m in enumerate(messages):
                q.client.lpush(q.escape, m)
                q.record(m, at=ms + i, error_class="Mine")
        what = f"dlq {command} class=Mine {option}=2h"
        since, bound = now - ago - 2 * HOUR, now - ago - HOUR + 9
        q.client.hset(f"{q.escape}:operations", mapping={f"{sha1(what.encode())[:16]}:{k}": v for k, v in {
            "what": what, "since": f"{since}-0" if option == "since" else "-", "bound": f"{bound}-0", "total": "10",
            "begun": now - ago - 1000, "held": now - ago, "holder": ""}.items()})
        return q, f"since {stamp(since)}, until {stamp(bound)}"
    return make


RELATIVE = ("mail", "--all", "--class", "Mine", "--since", "2h")


def left(q):
    return [*reversed(q.client.lrange(q.escape, 0, -1))]


@pytest.mark.parametrize("command", ["rm", "retry"])
def test_an_earlier_period_is_not_continued_without_a_question(yesterday, quredis, command):
    q, _ = yesterday(25 * HOUR, command)
    r = quredis("dlq", command, *RELATIVE, "--yes")
    assert r.code == 64 and "--anew" in r.err and "continues" not in r.err and left(q) == OLD + NEW, r
    absolute = re.search(f"To act on the earlier one: quredis -u \\S+ dlq {command} (.*); to begin", r.err)[1]
    assert "--since 20" in absolute and "--until 20" in absolute
    r = quredis("dlq", command, *absolute.split(), "--yes")
    assert r.code == 0 and left(q) == NEW and len(q.fetched()) == (10 if command == "retry" else 0), r


def test_an_earlier_end_is_continued(yesterday, quredis):
    """What was older than two hours yesterday is so today: a nightly job goes on."""
    q, period = yesterday(25 * HOUR, option="until")
    r = quredis("dlq", "rm", *RELATIVE[:-2], "--until", "2h", "--yes")
    assert r.code == 0 and f", {period.split(', ')[1]}: 0 of 10 are done" in r.err and left(q) == NEW, r


def test_a_question_names_the_period_that_it_acts_on(yesterday, terminal):
    q, period = yesterday(25 * HOUR)
    t = terminal("dlq", "rm", *RELATIVE, columns=200)
    t.expect(re.escape(f"Delete 10 messages of mail escape, class Mine, {period}? [y/N]"))
    assert f", class Mine, {period}: 0 of 10 are done" in t.text
    t.type("y\n")
    assert t.end() == 0 and left(q) == NEW


def test_what_was_begun_anew_during_the_question_is_not_continued(yesterday, quredis, terminal):
    q, period = yesterday(0)
    t = terminal("dlq", "rm", *RELATIVE, columns=200)
    t.expect(re.escape(f"{period}? [y/N]"))
    q.client.hset(f"{q.escape}:operations", next(k for k in q.client.hkeys(f"{q.escape}:operations") if k.endswith(b":bound")), "9999999999999-9")
    t.type("y\n")
    assert t.end() == 75 and "another command began this deletion anew meanwhile: run the command again" in t.text and left(q) == OLD + NEW


def test_the_period_of_now_is_begun_anew(yesterday, quredis):
    q, period = yesterday(25 * HOUR)
    assert period not in quredis("dlq", "rm", *RELATIVE, "--anew", "--dry-run").out
    r = quredis("dlq", "rm", *RELATIVE, "--anew", "--yes")
    assert r.code == 0 and "continues" not in r.err and left(q) == OLD, r


def test_a_script_that_repeats_its_command_continues_the_period(yesterday, quredis):
    q, period = yesterday(HOUR // 2)
    r = quredis("dlq", "rm", *RELATIVE, "--yes")
    assert r.code == 0 and "continues the deletion begun at 20" in r.err and f", {period}: 0 of 10 are done" in r.err and left(q) == NEW, r


# ---- what another program wrote ----

@pytest.mark.parametrize("forged", [
    {"since": "\x1b[31mx"}, {"next": "A" * 100000}, {"bound": b"\xff\0"}, {"done": "-1"}, {"done": "abc"}, {"done": str(2 ** 63 - 1)}], ids=" ".join)
def test_a_damaged_operation_is_refused_and_forgotten(yesterday, quredis, forged):
    q, _ = yesterday(0)
    id_ = q.client.hkeys(f"{q.escape}:operations")[0].split(b":")[0].decode()
    q.client.hset(f"{q.escape}:operations", mapping={f"{id_}:{k}": v for k, v in forged.items()})
    r = quredis("dlq", "rm", *RELATIVE, "--yes")
    assert r.code == 65 and "is damaged: --anew discards it" in r.err and left(q) == OLD + NEW, r
    r = quredis("dlq", "rm", *RELATIVE, "--yes", "--anew")
    assert r.code == 0 and left(q) == [] and not remembered(q), r


@pytest.mark.parametrize("forged", [
    {"total": "5", "done": "7"}, {"total": "-5"}, {"total": str(2 ** 63 - 1)}, {"total": "many", "begun": str(-2 ** 63)}], ids=" ".join)
def test_a_question_is_asked_whatever_the_total(yesterday, terminal, forged):
    q, _ = yesterday(0)
    id_ = q.client.hkeys(f"{q.escape}:operations")[0].split(b":")[0].decode()
    q.client.hset(f"{q.escape}:operations", mapping={f"{id_}:{k}": v for k, v in forged.items()})
    t = terminal("dlq", "rm", *RELATIVE, columns=200)
    t.expect(r"Delete 10 messages of mail escape, .*\?")
    assert f": {forged.get('done', 0)} are done" in t.text and ("an unknown time" in t.text) == ("begun" in forged)
    t.type("n\n")
    assert t.end() == 1 and left(q) == OLD + NEW
