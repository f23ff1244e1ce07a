"""Every face that says how many attempts failed also says why: the classes of all hosts, and the latest error."""
import json
import re

import pytest

from harness import queue, wait_for
from harness.control import status
from harness.queues import Queue

DOWN = "ConnectionRefused", "connect to mail:25: refused"
GREY = "Greylisted", "451 come back later"
HEALTH = {"enabled": True, "interval": "1s"}


# A persistent handler that answers each message with the message, after its verb; slow enough that each host gets some.
ECHO = """import sys, time
while head := sys.stdin.buffer.readline().split():
    verb, _, rest = sys.stdin.buffer.read(int(head[3]) + 1)[:-1].decode().partition(" ")
    time.sleep(@SECONDS@)
    print(verb, head[1].decode(), rest, flush=True)
"""


def retry(why):
    return f"RETRY 1h class={why[0]} {why[1]}"


def report(c):
    return json.loads(c.hget("quredis:health", "mail") or "{}")


def failures(c):
    return report(c).get("failures", {})


@pytest.fixture
def serve(quredisd, handler, tmp, tag):
    def serve(node="", seconds=0, **keys):
        page = tmp / f"page{node}" / "q.prom"
        page.parent.mkdir()
        d = quredisd(queues=[queue("mail", handler(ECHO.replace("@SECONDS@", str(seconds)), "python"), mode="persistent", workers=2, **keys)], health=HEALTH,
                     supervisor={"node": tag + node}, metrics={"textfile": str(page), "interval": "1s"})
        d.page = page
        return d
    return serve


@pytest.fixture
def two_hosts(redis, serve):
    """A mail server refuses 40 attempts, which two hosts made, and puts off one. There is no dead letter."""
    c = redis.client()
    hosts = [serve(node, 0.05, batch={"max": 1}) for node in ("a", "b")]
    c.lpush("ingress:mail", *[retry(DOWN)] * 40)
    wait_for(lambda: c.zcard("quredis:of:ingress:mail:delayed") == 40, 60)
    assert all(status(d, "mail")["counters"]["failed"] > 0 for d in hosts)
    c.lpush("ingress:mail", retry(GREY))
    wait_for(lambda: failures(c).get("classes") == {DOWN[0]: 40, GREY[0]: 1} and failures(c).get("latest", {}).get("class") == GREY[0], 60, "the report")
    return hosts


WHY = f"40 {DOWN[0]}, 1 {GREY[0]}; the latest: {GREY[0]}: {GREY[1]}"


def test_health(redis, two_hosts):
    c, (a, _) = redis.client(), two_hosts
    found = failures(c)
    assert (found["failed"], found["attempts"], found["text"]) == (41, 41, WHY)
    assert {k: found["latest"][k] for k in ("class", "error")} == {"class": GREY[0], "error": GREY[1]}
    assert abs(found["latest"]["at_ms"] - c.time()[0] * 1000) < 120_000
    text, = [r["text"] for r in report(c)["reasons"] if r["code"] == "failures"]
    assert text == f"41 of 41 attempts failed in the last 10m: 100.0 %, the limit is 70 %; {WHY}"
    assert text in re.sub(r"\s+", " ", a.quredis("health", "mail").out)
    assert f"CRITICAL - mail: {text}" in a.quredis("health", "mail", "--nagios").out
    assert json.loads(a.quredis("--json", "health", "mail").out)["queues"][0]["failures"] == found


def table(terminal, d, *words):
    t = terminal("-c", str(d.conf), *words, columns=160, env={"NO_COLOR": "1"})
    assert t.end() == 0, t.text
    return re.sub(r"\s+", " ", t.text)


def test_statistics(redis, two_hosts, quredis, terminal):
    """In total and for a time, of all hosts. The latest error leaves with its minute."""
    c, (a, _) = redis.client(), two_hosts
    for more in ((), ("--since", "1h")):
        found = json.loads(quredis("stats", "mail", *more, "--json").out)["failures"]
        assert (found["classes"], found["text"], found["latest"]["class"]) == ({DOWN[0]: 40, GREY[0]: 1}, WHY, GREY[0]), more
        assert found == json.loads(quredis("stats", *more, "--json").out)[0]["failures"]
        assert f"s {WHY}" in table(terminal, a, "stats", *more)
        one = table(terminal, a, "stats", "mail", *more)
        assert f" failed: {DOWN[0]} 40 attempts that failed for this reason failed: {GREY[0]} 1 " in one, one
        assert re.search(rf" latest failure \d+s ago {GREY[0]}: {GREY[1]} ", one), one
        plain = quredis("stats", "mail", *more).out
        assert re.search(rf"^ +failed: {DOWN[0]} +40$", plain, re.M) and re.search(rf"^ +latest failure +{GREY[0]}: {GREY[1]}$", plain, re.M), plain
    c.hset("quredis:of:ingress:mail:stats", "failed_latest", f"{c.time()[0] * 1000 - 7_200_000} Old an old error")
    found = json.loads(quredis("stats", "mail", "--since", "1h", "--json").out)["failures"]
    assert "latest" not in found and found["classes"] == {DOWN[0]: 40, GREY[0]: 1}


GAUGE = "quredis_queue_failed_attempts"


def samples(page):
    return {(m[1], m[2]): int(m[3]) for m in re.finditer(rf'^{GAUGE}{{queue="([^"]*)",class="([^"]*)"}} (\d+)$', page, re.M)}


def test_metrics(redis, two_hosts, web):
    """The file of the host that leads the queue, and the page of the console."""
    wanted = {("mail", DOWN[0]): 40, ("mail", GREY[0]): 1}
    wait_for(lambda: [x for x in (samples(d.page.read_text()) for d in two_hosts) if x] == [wanted], 30)
    assert samples(web.ask("/metrics").body.decode()) == wanted


def test_top_and_health_of_one_queue(two_hosts, terminal):
    a, _ = two_hosts
    t = terminal("-c", str(a.conf), "top", columns=160, env={"NO_COLOR": "1"})
    t.expect("mail")
    t.type("\r")
    t.expect(rf"Failed +Class[\s\S]*{GREY[0]} +{GREY[1]}")
    text = re.sub(r"\x1b\[[0-9;?]*\w", "", t.text)
    assert re.search(rf"Failed +Class +Latest error\s+40 +{DOWN[0]} +-\s+1 +{GREY[0]} +{GREY[1]}\s", text), text
    t.type("qq")
    t.end()
    t = terminal("-c", str(a.conf), "health", "mail", columns=160, env={"NO_COLOR": "1"})
    t.end()
    assert re.search(rf"failures\.classes\.{DOWN[0]} +40 ", t.text) and re.search(rf"failures\.classes\.{GREY[0]} +1 ", t.text), t.text


def test_doctor_sends_the_reader_to_the_reasons(two_hosts):
    """Not to the dead letters, which have other causes."""
    row, = [r for r in json.loads(two_hosts[0].quredis("doctor", "--json").out) if r["check"] == "health" and r["severity"] != "ok"]
    assert WHY in row["what"] and " stats mail;" in row["advice"] and "dlq" not in row["advice"], row


def test_each_face_names_the_same_class(redis, serve):
    """An answer RETRY need not name one, and may not use a name of quredis for something else."""
    c = redis.client()
    d = serve(max_attempts=1)
    c.lpush("ingress:mail", "RETRY 1h come back", "FAIL class=HandlerRetry broken")
    assert d.wait_event("message_retried")["class"] == "HandlerRetry"
    assert d.wait_event("message_escaped")["class"] == "HandlerFail"
    assert [m["error_class"] for m in json.loads(d.quredis("peek", "mail", "delayed", "--json").out)] == ["HandlerRetry"]
    wait_for(lambda: failures(c).get("classes") == {"HandlerFail": 1, "HandlerRetry": 1}, 60)


def test_statistics_of_strangers(redis, quredis, terminal):
    """Other programs write any bytes as classes, any number of them, and any text."""
    c = redis.client()
    Queue(c, "mail")
    key = "quredis:of:ingress:mail:stats"
    c.hset(key, mapping={f"failed:C{i}": 1 for i in range(500)} | {b"failed:\x1b[2J\xff": 3, "failed:" + "x" * 5000: 4, "failed:Down": 1000, "failed": 1507,
                                                                    "failed_latest": b"1700000000000 Down \x1b[2J\xffgone\n"})
    found = json.loads(quredis("stats", "mail", "--json").out)["failures"]
    assert found["classes"] == {"Down": 1000, "other": 507}
    t = terminal("stats", "mail", columns=120, env={"NO_COLOR": "1"})
    assert t.end() == 0 and "\x1b[2J" not in t.text and "failed: other" in t.text, t.text
    c.delete(key)
    assert json.loads(quredis("stats", "mail", "--json").out)["failures"] == {}
