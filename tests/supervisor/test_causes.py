"""Why the breaker of a queue is open: the step, its error and the next attempt are wherever the state is."""
import json
import re

import pytest

from harness import queue, wait_for
from harness.queues import Queue

MISSING = (r"its handler cannot be executed: interpreter of \S+/typo: No such file or directory "
           r"\(the one in its first line, or the loader of a binary\): its interpreter /usr/bin/pyhton3 does not exist")


def typo(tmp):
    """A handler with a typing error in its first line."""
    path = tmp / "typo"
    path.write_text("#!/usr/bin/pyhton3\nprint()\n")
    path.chmod(0o755)
    return str(path)


def state_of(d, name="mail"):
    found = json.loads(d.quredis("status", "--json").out)
    return next(q for q in found["queues"] if q["name"] == name)


def reasons(c, name="mail"):
    text = c.hget("quredis:health", name)
    return {r["code"]: r["text"] for r in json.loads(text)["reasons"]} if text else {}


def node_row(c, node, name="mail"):
    report = json.loads(c.get(f"quredis:node:{node}") or "{}")
    return next((q for q in report.get("queues", []) if q["name"] == name), {})


def test_a_typing_error_in_the_first_line(redis, quredisd, tmp):
    c = redis.client()
    d = quredisd(queues=[queue("mail", typo(tmp)), queue("news", "/bin/cat")], health={"enabled": True, "interval": "1h"},
                 supervisor={"node": "web1"}, metrics={"textfile": str(tmp / "q.prom"), "interval": "1s"})
    wait_for(lambda: c.hexists("quredis:health", "mail"), 30)
    c.lpush("ingress:mail", "x")
    found = wait_for(lambda: (q := state_of(d))["state"] == "breaker" and q, 30)
    assert re.fullmatch(MISSING + r"; next attempt (in [\d.]+m?s|with the next message)", found["reason"]), found
    assert wait_for(lambda: re.search(r"; next attempt in [\d.]+m?s$", state_of(d)["reason"]), 30)
    assert state_of(d, "news")["reason"] is None
    assert re.search(r"mail +breaker .*" + MISSING, d.quredis("status").out)
    text = wait_for(lambda: reasons(c).get("breaker"), 30)
    assert re.fullmatch("the breaker is open: " + MISSING + "; workers test the handler at least every 30 s", text), text
    assert re.fullmatch(MISSING, d.wait_event("queue_state", queue="mail", state="breaker")["reason"])
    listed = {q["name"]: q for q in json.loads(d.quredis("ls", "--json").out)}
    assert listed["mail"]["health"] == "degraded" and listed["mail"]["reasons"].startswith(text) and listed["news"]["reasons"] is None
    assert re.search(r"mail .* degraded  the breaker is open: " + MISSING, d.quredis("ls").out)
    reason = wait_for(lambda: (r := json.loads(d.quredis("health", "--json").out)["queues"][0]["reasons"][0]).get("next_attempt_ms", 0) > 0 and r, 30)
    assert reason["code"] == "breaker" and reason["text"] == text and reason["next_attempt_ms"] <= 30000
    assert wait_for(lambda: re.search("every 30 s; next attempt in [0-9.]+m?s", d.quredis("health", "--nagios").out), 30)
    c.hset("quredis:health", "news", json.dumps({**json.loads(c.hget("quredis:health", "news")), "at_ms": 1}))
    assert [q["health"] for q in json.loads(d.quredis("ls", "--json").out)] == ["degraded", None]            # a report that is stale
    row = wait_for(lambda: (q := node_row(c, "web1")).get("breaker") and q, 30)
    assert re.fullmatch(MISSING, row["reason"]) and row["cause"] == "interpreter: No such file or directory" and 0 <= row["next_attempt_ms"] <= 30000
    assert "reason" not in node_row(c, "web1", "news")
    sample = 'quredis_breaker_cause{queue="mail",cause="interpreter: No such file or directory"} 1\n'
    wait_for(lambda: sample in (tmp / "q.prom").read_text(), 30)
    attempt = re.search(r'quredis_breaker_next_attempt_seconds\{queue="mail"\} ([\d.]+)\n', (tmp / "q.prom").read_text())
    assert 0 <= float(attempt[1]) <= 30
    top = d.quredis("top", "--once").out
    assert re.search(r"mail +web1 +(-|[\d.]+m?s) +interpreter: No such file or directory$", top, re.M), top
    (tmp / "typo").write_text("#!/bin/cat\n")
    wait_for(lambda: state_of(d)["state"] == "running" and not c.llen("ingress:mail"), 60)
    assert state_of(d)["reason"] is None
    wait_for(lambda: not re.search("quredis_breaker_(cause|next_attempt_seconds){", (tmp / "q.prom").read_text()), 30)
    assert d.stop() == 0


def test_each_evidence_has_its_text(redis, quredisd, handler, tmp):
    """A directory that is not there, a handler that ends before it answers, and messages that fail in a row; the last evidence counts."""
    c = redis.client()
    (tmp / "gone").mkdir()
    d = quredisd(queues=[queue("there", "/bin/cat", run_as={"directory": str(tmp / "gone")}), queue("mute", handler("exit 3"), mode="persistent"),
                         queue("row", handler("cat >/dev/null; exit 9"), breaker={"failures": 2}, max_attempts=1)], health={"enabled": True, "interval": "1h"})
    d.wait_event("lead_taken", queue="row")
    (tmp / "gone").rmdir()
    for name in ("there", "mute", "row"):
        c.lpush(f"ingress:{name}", *range(6))
    wanted = {"there": f"its handler cannot be executed: chdir: No such file or directory: {tmp}/gone: it does not exist",
              "mute": "its handler ended before its first answer, with exit status 3",
              "row": r"\d different messages failed in a row, the last one with exit status 9"}
    for name, text in wanted.items():
        wait_for(lambda: re.fullmatch(text + "; next attempt .*", state_of(d, name)["reason"] or ""), 30, name)
        wait_for(lambda: re.match("the breaker is open: " + text, reasons(c, name).get("breaker", "")), 30, name)
    (tmp / "gone").mkdir(mode=0o000)
    (tmp / "gone").rmdir()
    (tmp / "gone").touch()
    wait_for(lambda: "chdir: Not a directory" in reasons(c, "there").get("breaker", ""), 60)      # judged again, since the cause is another one
    assert d.stop() == 0


def test_redis_is_not_there(redis, quredisd):
    """Without Redis, `status` on the host still knows the error and the next attempt, and the log has the error."""
    d = quredisd(queues=[queue("mail", "/bin/cat")])
    d.wait_event("queue_state", queue="mail", state="running")
    redis.stop()
    text = r"no connection to Redis: (Connection refused|No such file or directory)"
    wait_for(lambda: (q := state_of(d))["state"] == "no redis" and re.fullmatch(text + r"; next attempt in [\d.]+m?s", q["reason"]), 30)
    redis.start()
    wait_for(lambda: state_of(d)["state"] == "running", 60)
    assert state_of(d)["reason"] is None
    assert d.stop() == 0


@pytest.mark.parametrize("refuse, accept, said", [
    (("CONFIG", "SET", "min-replicas-to-write", "1"), ("CONFIG", "SET", "min-replicas-to-write", "0"), "NOREPLICAS .*"),
    (("REPLICAOF", "127.0.0.1", "1"), ("REPLICAOF", "NO", "ONE"), "the server is a replica, not a master"),
], ids=["writes", "replica"])
def test_redis_answers_and_refuses(redis, quredisd, refuse, accept, said):
    c = redis.client()
    d = quredisd(queues=[queue("mail", "/bin/cat")])
    d.wait_event("queue_state", queue="mail", state="running")
    c.execute_command(*refuse)
    text = rf"Redis refuses commands for now: {said}; next attempt in [\d.]+m?s"
    wait_for(lambda: (q := state_of(d))["state"] == "refused" and re.fullmatch(text, q["reason"]), 60)
    assert not any(q.get("state") == "no redis" for q in d.events("queue_state"))
    c.execute_command(*accept)
    wait_for(lambda: state_of(d)["state"] == "running", 60)
    assert d.stop() == 0


def test_health_and_ls_add_the_next_attempt(redis, quredis):
    """The node reports when it is, every 10 s: whoever shows the report of health adds it."""
    c = redis.client()
    now = int(c.time()[0]) * 1000
    text = "the breaker is open: why; workers test the handler at least every 30 s"

    def report(name, node, code="breaker"):
        Queue(c, name)
        c.hset("quredis:health", name, json.dumps({"queue": name, "status": "degraded", "at_ms": now, "interval_ms": 3600000, "node": node,
                                                   "reasons": [{"code": "stuck", "text": "slow"}, {"code": code, "text": text}]}))

    def shown(name):
        """As the JSON and the texts of both commands have it: (ms, text)."""
        one = next(q for q in json.loads(quredis("health", "--json", url=redis.url).out)["queues"] if q["queue"] == name)
        listed = next(q for q in json.loads(quredis("ls", "--json", url=redis.url).out) if q["name"] == name)
        assert [r["text"] for r in one["reasons"]] == ["slow", text]
        assert listed["reasons"] in quredis("health", name, "--nagios", url=redis.url).out
        return one["reasons"][1].get("next_attempt_ms"), listed["reasons"]

    def node(name, *rows, at_ms=now + 25000):           # its clock is ahead: nothing is subtracted
        c.delete(f"quredis:node:{name}")
        c.set(f"quredis:node:{name}", json.dumps({"node": name, "at_ms": at_ms, "queues": rows}))

    for name, at, code in (("mail", "web1", "breaker"), ("news", "web2", "breaker"), ("fax", "web1", "breaker"), ("tube", "web1", "age")):
        report(name, at, code)
    node("web1", {"name": "other", "next_attempt_ms": 1}, 7, {"name": "mail", "next_attempt_ms": 12000}, {"name": "fax", "next_attempt_ms": 0},
         {"name": "tube", "next_attempt_ms": 5}, {"name": "news", "next_attempt_ms": 5})
    assert shown("mail") == (12000, f"slow; {text}; next attempt in 12.0s")
    assert shown("fax") == (0, f"slow; {text}; next attempt in 0ms")
    assert shown("tube") == (None, f"slow; {text}") and shown("news") == (None, f"slow; {text}")        # its node has no report
    for row in ({"next_attempt_ms": -1}, {"next_attempt_ms": 10**18}, {"next_attempt_ms": "soon"}, {}):
        node("web1", {"name": "mail", **row})
        assert shown("mail") == (None, f"slow; {text}"), row
    node("web1", {"name": "mail", "next_attempt_ms": 12000}, at_ms=now - 15000)
    assert shown("mail") == (None, f"slow; {text}")                                                     # it was due
    for value in ("no json", "[]", "7", json.dumps({"queues": {"name": "mail"}})):
        c.set("quredis:node:web1", value)
        assert shown("mail") == (None, f"slow; {text}"), value
    c.hset("quredis:health", "other", c.hget("quredis:health", "mail"))         # not the report of that queue
    assert [q["queue"] for q in json.loads(quredis("health", "--json", url=redis.url).out)["queues"]] == ["fax", "mail", "news", "tube"]
    c.delete("quredis:node:web1")
    c.lpush("quredis:node:web1", "a wrong type")
    assert shown("mail") == (None, f"slow; {text}")


def test_a_key_with_the_wrong_type_is_named(redis, quredisd, quredis):
    """Redis does not name it. status, health, ls, top and the report of the node do, and nothing calls the queue running."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", "/bin/cat"), queue("news", "/bin/cat"), queue("fax", "/bin/cat")], health={"enabled": True, "interval": "1h"},
                 supervisor={"node": "web1"})
    wait_for(lambda: c.hlen("quredis:health") == 3, 30)
    c.set("quredis:of:ingress:mail:delayed", "x")
    c.set("ingress:news", "x")                  # the workers meet this one
    keys = {"mail": "quredis:of:ingress:mail:delayed is a string, but quredis needs a zset", "news": "ingress:news is a string, but quredis needs a list"}
    for name, key in keys.items():
        text = f"one of its keys has the wrong type: {key}"
        wait_for(lambda: (q := state_of(d, name))["state"] == "error" and q["reason"] == text, 30, name)
        wait_for(lambda: reasons(c, name).get("error") == text, 30, name)
        wait_for(lambda: (q := node_row(c, "web1", name)).get("state") == "error" and q.get("reason") == text, 30, name)
        assert text in quredis("ls", url=redis.url).out and text in quredis("health", "--nagios", url=redis.url).out
    assert "reason" not in node_row(c, "web1", "fax")
    top = quredis("top", "--once", url=redis.url).out
    assert re.search(r"^  mail +error +unhealthy ", top, re.M), top
    assert re.search(r"mail +web1 +- +one of its keys has the wrong type: quredis:of:ingress:mail:delayed", top), top
    c.delete("quredis:of:ingress:mail:delayed", "ingress:news")
    wait_for(lambda: state_of(d)["reason"] is None and state_of(d, "news")["reason"] is None, 60)
    c.set("quredis:of:ingress:mail:stats", "x")            # not the key of before
    wait_for(lambda: "quredis:of:ingress:mail:stats is a string, but quredis needs a hash" in (state_of(d)["reason"] or ""), 60)
    assert d.stop() == 0


def test_workers_that_lost_redis_say_why_in_the_report_of_their_node(redis, quredisd):
    """The sweeper still has its connection, so other hosts read the error and the next attempt."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", "/bin/cat", workers=2)], supervisor={"node": "web1"})
    wait_for(lambda: node_row(c, "web1").get("state") == "running", 30)
    workers = [x["id"] for x in c.client_list() if ":mail/" in x["name"]]
    c.config_set("maxclients", len(c.client_list()) - len(workers))
    for client in workers:
        c.client_kill_filter(_id=client)
    found = wait_for(lambda: (q := node_row(c, "web1")).get("state") in ("no redis", "refused") and q, 60)
    said = r"Redis refuses commands for now: .*max number of clients reached|no connection to Redis: (Broken pipe|Connection reset by peer|.*closed.*)"
    assert re.fullmatch(said, found["reason"]) and found["next_connect_ms"] >= 0 and "next_attempt_ms" not in found, found
    c.config_set("maxclients", 10000)
    wait_for(lambda: (q := node_row(c, "web1")).get("state") == "running" and "reason" not in q, 60)
    assert d.stop() == 0
