"""quredis dlq export and stats: what the operator takes away, and what he sees of it."""
import base64
import json
import os
import re
import time

import pytest

from harness import queue, wait_for
from harness.queues import FIELDS, Queue, dumps, sha1


def lines(result):
    assert result.code == 0, result.err
    return [json.loads(line) for line in result.out.split("\n")[:-1]]


def message_of(line):
    return base64.b64decode(line["message_base64"]) if "message_base64" in line else line["message"].encode()


def test_export_is_all_of_it_oldest_first(quredis, redis):
    c = redis.client()
    q = Queue(c)
    messages = [b"plain", "ü\n\0\u2028".encode(), b"\xff\0", b"", os.urandom(200000), b"plain"] + [b"%d" % i for i in range(100)]
    ids = [q.dead_letters(m, exit_code="" if i == 2 else "3", signal="SIGSEGV" if i == 2 else "", stderr=b"tail \xfe")[0] for i, m in enumerate(messages)]
    before = dumps(c)
    got = lines(quredis("dlq", "export", "mail"))
    assert [g["record"] for g in got] == ids and [message_of(g) for g in got] == messages and dumps(c) == before
    assert all(set(FIELDS) - {"message", "stderr"} <= set(g) for g in got)
    assert got[0]["exit_code"] == 3 and got[0]["signal"] is None and got[0]["size"] == 5 and got[0]["sha1"] == sha1(b"plain")
    assert got[2]["exit_code"] is None and got[2]["signal"] == "SIGSEGV" and base64.b64decode(got[2]["stderr_base64"]) == b"tail \xfe"
    assert not {"archived_at", "batch", "reason", "orphan"} & set(got[0])
    assert [g["record"] for g in lines(quredis("dlq", "export", "mail", "-n", "3"))] == ids[:3]
    assert quredis("dlq", "export", "mail", "-n", "0").out == ""


def test_export_of_some_and_of_what_is_gone(quredis, redis):
    c = redis.client()
    q = Queue(c)
    q.dead_letters(b"a", error_class="HandlerTimeout")
    q.dead_letters(b"b" * 100, payload_max=10)
    c.lpop(q.escape)
    c.xadd(q.log, {"id": "odd", "record": "mine", b"\xff": "x", "size": "many"})
    assert [g["id"] for g in lines(quredis("dlq", "export", "mail", "--class", "HandlerTimeout"))] == [f"sha1:{sha1(b'a')}"]
    r = quredis("dlq", "export", "mail")
    got = lines(r)
    assert got[1]["message"] is None and got[2]["size"] == "many" and got[2]["record"] != "mine"
    assert "2 messages were too large for their record, and are no longer in escape:mail" in r.err
    c.delete(q.log)
    c.set(q.log, "x")
    assert quredis("dlq", "export", "mail").code == 78


def test_stats(quredis, redis):
    c = redis.client()
    q = Queue(c)
    for i in range(30):
        q.dead_letters(b"%d" % i, error_message=f"exit status 3: user {1000 + i} not found in 0x{i + 10 ** 9:x}", error_class="HandlerExit")
    q.dead_letters(b"s", b"t", error_message="signal SIGSEGV", error_class="HandlerSignal", exit_code="", signal="SIGSEGV")
    c.xadd(q.log, {"error_class": "TTLExpired", "error_message": "waited 3s, limit 2s\nmore"}, id="9000000000000-1")
    before = dumps(c)
    got = json.loads(quredis("dlq", "stats", "mail", "--json").out)
    assert [(g["key"], g["count"]) for g in got if g["by"] == "class"] == [("HandlerExit", 30), ("HandlerSignal", 2), ("TTLExpired", 1)]
    assert [(g["key"], g["count"]) for g in got if g["by"] == "cause"] == [
        ("HandlerExit exit 3: exit status 3: user # not found in #", 30), ("HandlerSignal SIGSEGV: signal SIGSEGV", 2), ("TTLExpired: waited 3s, limit 2s", 1)]
    hours = [g for g in got if g["by"] == "hour"]
    assert hours[0]["key"] == "2255-03-14T16:00Z" and hours[0]["newest"] == "2255-03-14T16:00:00.000Z"
    assert sum(h["count"] for h in hours) == 33 and all(h["oldest"][:13] == h["newest"][:13] == h["key"][:13] for h in hours)
    r, of_json = quredis("dlq", "stats", "mail", "-n", "1"), quredis("dlq", "stats", "mail", "-n", "1", "--json")
    assert r.code == 0 and len(r.out.splitlines()) == 4 and "2 more by class (--limit shows more)" in r.err and dumps(c) == before
    assert [g["by"] for g in json.loads(of_json.out)] == ["class", "cause", "hour"] and of_json.err == r.err
    assert quredis("dlq", "stats", "nowhere").code == 66


def test_stats_of_none(quredis, redis):
    Queue(redis.client())
    assert json.loads(quredis("dlq", "stats", "mail", "--json").out) == []


@pytest.mark.parametrize("n", [250])
def test_stats_of_many_pages(quredis, redis, n):
    c = redis.client()
    Queue(c).dead_letters(*[b"%d" % i for i in range(n)])
    got = json.loads(quredis("dlq", "stats", "mail", "--json").out)
    assert [g["count"] for g in got if g["by"] == "class"] == [n]


# ---- a careful retry ----

SWITCH = "if [ -e @TMP@/broken ]; then exit 3; fi; m=$(cat); case $m in bad*) exit 4;; esac; echo \"$m\" >>@LEDGER@"


@pytest.fixture
def service(quredisd, redis, handler, ledger, tmp):
    def make(**keys):
        c = redis.client()
        q = Queue(c, register=False)
        return c, q, quredisd(queues=[queue("mail", handler(SWITCH), workers=2, **keys)]), tmp / "broken"
    return make


def test_one_first_then_the_others_at_a_pace(service, ledger):
    c, q, d, _ = service()
    q.dead_letters(*[b"m%d" % i for i in range(30)])
    before = time.monotonic()
    r = d.quredis("dlq", "retry", "mail", "--all", "--canary", "--rate", "20/s")
    took = time.monotonic() - before
    assert r.code == 0 and re.fullmatch("retried 30 dead letters of mail; 0 failed again( so far)?; 0 are left\n", r.out), r
    assert "the first message left the queue and is no dead letter again" in r.err and took >= 28 / 20
    wait_for(lambda: len(ledger.lines()) == 30)
    assert ledger.lines()[0] == "m0" and c.llen(q.escape) == c.xlen(q.log) == 0
    assert d.stop() == 0


def test_the_first_fails_again_and_the_others_stay(service, ledger):
    c, q, d, broken = service(max_attempts=2, backoff={"base": "1s", "jitter": 0.0})
    broken.touch()
    ids = q.dead_letters(*[b"m%d" % i for i in range(30)])
    r = d.quredis("dlq", "retry", "mail", "--all", "--canary")
    assert (r.code, r.out) == (65, "retried 1 dead letter of mail; 1 failed again so far; 29 are left\n")
    newest = c.xrevrange(q.log, count=1)[0][0].decode()
    assert f"1 of 1 messages moved back became dead letters again (the last: record {newest}): stopped" in r.err
    assert f"quredis dlq show mail {newest} says why" in r.err
    assert c.lindex(q.escape, 0) == b"m0" and c.llen(q.escape) == 30 and [i.decode() for i, _ in c.xrange(q.log)][:-1] == ids[1:]
    broken.unlink()
    assert d.quredis("dlq", "retry", "mail", "--all", "--canary", "--rate", "1000/s").code == 0
    wait_for(lambda: len(ledger.lines()) == 30)
    assert d.stop() == 0


def test_failures_stop_it(service, ledger):
    c, q, d, _ = service()
    messages = [b"bad%d" % i if i in (5, 6, 60) else b"m%d" % i for i in range(80)]
    q.dead_letters(*messages)
    r = d.quredis("dlq", "retry", "mail", "--all", "--rate", "25/s", "--json")
    told = json.loads(r.out)
    assert r.code == 65 and 6 <= told["count"] < 60 and told["action"] == "dlq retry" and "stopped" in r.err
    left = told["count"]
    wait_for(lambda: len(ledger.lines()) == left - 2 and c.llen(q.escape) == 80 - left + 2)
    r = d.quredis("dlq", "retry", "mail", "--all", "--rate", "100/s", "--max-failures", "9")
    assert r.code == 0 and r.out.startswith(f"retried {80 - left + 2} dead letters of mail; ")
    wait_for(lambda: c.llen(q.escape) == 3 and len(ledger.lines()) == 77)
    assert d.stop() == 0


def test_the_last_ones_fail_again(service):
    """No dead letter is left to retry, but the exit status still reports the failure if it was seen in time."""
    c, q, d, _ = service()
    q.dead_letters(b"m", b"bad")

    def again():
        r = d.quredis("dlq", "retry", "mail", "--all", "--rate", "1/s")
        wait_for(lambda: c.llen(q.escape) == 1)
        return r
    r = wait_for(lambda: (r := again()).code == 65 and r, 60)
    assert "messages moved back became dead letters again" in r.err and "stopped" not in r.err
    assert "retried " in r.out
    r = wait_for(lambda: "became dead letters again" in (r := d.quredis("dlq", "retry", "mail", "--all", "--rate", "1/s", "--max-failures", "1")).err and r, 60)
    assert r.code == 0
    assert d.stop() == 0


@pytest.mark.parametrize("args, why", [
    (["--canary", "m"], "--canary requires --all, and no ids\n"),
    (["--all", "--rate", "50/"], "such as 50/s"), (["--all", "--rate", "0/s"], "such as 50/s"),
    (["--all", "--rate", "5/d"], "such as 50/s"), (["--all", "--rate", "/s"], "such as 50/s"), (["--all", "--rate", "-5"], "such as 50/s"),
    (["--all", "--rate", "5s"], "such as 50/s"),
])
def test_a_pace_that_is_none(quredis, redis, args, why):
    Queue(redis.client()).dead_letters(b"m")
    r = quredis("dlq", "retry", "mail", *args)
    assert r.code == 64 and why in r.err and redis.client().llen("escape:mail") == 1


@pytest.mark.parametrize("pace, words", [
    (["--canary"], "1 first, then at most 50/s"), (["--canary", "20", "--rate", "30/min"], "20 first, then at most 30/m"), (["--rate", "10"], "at most 10/s"),
    (["--rate", "10/sec"], "at most 10/s"), (["--rate", "010/hour"], "at most 10/h"),
    (["--max-failures", "3"], "at most 50/s, until more than 3 have failed again"),
], ids=str)
def test_a_dry_run_and_a_question_repeat_the_pace(quredis, redis, terminal, pace, words):
    c = redis.client()
    Queue(c).dead_letters(b"a", b"b")
    before = dumps(c)
    r = quredis("dlq", "retry", "mail", "--all", "--class", "HandlerExit", *pace, "--dry-run")
    assert (r.code, r.out) == (0, f"would retry 2 dead letters of mail, class HandlerExit, {words}\n") and dumps(c) == before
    t = terminal("dlq", "retry", "mail", "--all", "--class", "HandlerExit", *pace, columns=200)
    t.expect(re.escape(f"Move back 2 messages of mail escape, class HandlerExit, {words}? [y/N]"))
    t.type("n\n")
    assert t.end() == 1 and dumps(c) == before


def test_a_dry_run_says_which_moment_it_means(quredis, redis):
    """A time of day that has not come yet is of yesterday: the operator must see that."""
    c = redis.client()
    Queue(c).dead_letters(b"a")
    hour = time.gmtime(c.time()[0] + 7200).tm_hour
    day = time.strftime("%Y-%m-%d", time.gmtime(c.time()[0] + 7200 - 86400))
    r = quredis("dlq", "rm", "mail", "--all", "--since", f"{hour:02d}:00", "--until", "0s", "--dry-run")
    assert re.fullmatch(f"would delete [01] dead letters? of mail, since {day}T{hour:02d}:00:00.000Z, until 20.*Z\n", r.out), r


GREATEST = "18446744073709551615-18446744073709551615"


@pytest.mark.parametrize("command", [
    ("stats",), ("ls",), ("export",), ("retry", "--all", "--class", "Mine", "--dry-run"), ("retry", "--all", "--class", "Mine", "--yes"),
    ("retry", "--all", "--yes"), ("retry", "--all", "--class", "Mine", "--rate", "100000/s", "--yes"),
    ("rm", "--all", "--class", "Mine", "--yes"), ("rm", "--all", "--class", "None", "--yes"),
], ids=" ".join)
def test_the_greatest_id_of_a_record_ends_a_walk(quredis, redis, command):
    """No id follows it: a walk that went on from 0-0 read the log for ever."""
    q = Queue(redis.client())
    q.dead_letters(b"a", b"b", error_class="Mine")
    q.client.xadd(q.log, {"error_class": "Forged"}, id=GREATEST)
    r = quredis("dlq", command[0], "mail", *command[1:], timeout=30)
    assert r.code == 0, r
    took = "--yes" in command and "None" not in command
    assert q.client.llen(q.escape) == (0 if took else 2) and q.client.xlen(q.log) == (1 if took else 3)
    assert q.client.llen(q.ingress) == (2 if took and command[0] == "retry" else 0)
