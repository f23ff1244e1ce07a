"""What a node says of itself to all others."""
import datetime
import json
import os
import signal

import pytest

from harness import queue, wait_for
from harness.queues import Queue


def report(c, node):
    text = c.get(f"quredis:node:{node}")
    return json.loads(text) if text else None


def when(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def test_every_node_reports_itself(redis, quredisd, handler, quredis, tmp):
    c = redis.client()
    slow = handler("cat >/dev/null; while [ ! -e @TMP@/go ]; do sleep 0.1; done")
    hosts = [quredisd(queues=[queue("mail", slow, workers=2, timeout="60s"), queue("idle", handler("cat"), workers=0)],
                      supervisor={"node": f"host.{i}"}) for i in range(2)]
    for i, d in enumerate(hosts):
        r = wait_for(lambda: report(c, f"host.{i}"), 30)
        assert (r["node"], r["pid"]) == (f"host.{i}", d.pid) and len(r["boot"]) == 16
        assert when(r["started"]) <= when(r["at"]) + 1             # by the clocks of this host and of Redis, as this host knows it
        assert 0 < c.pttl(f"quredis:node:host.{i}") <= 30000
        assert [(q["name"], q["wanted"]) for q in r["queues"]] == [("mail", 2), ("idle", 0)]
    os.kill(hosts[0].wait_workers("mail", 2)["mail/0"], signal.SIGKILL)
    c.lpush("ingress:mail", *"abc")
    running = wait_for(lambda: sum(len(report(c, f"host.{i}")["running"]) for i in range(2)) == 3 and
                       [r for i in range(2) for r in report(c, f"host.{i}")["running"]], 40, "three that run for a second")
    memory = [report(c, f"host.{i}")["queues"][0]["memory"] for i in range(2)]
    assert all(m["workers"] > 2 * 200_000 for m in memory) and sum(m["handlers"] for m in memory) > 3 * 100_000
    assert report(c, "host.0")["queues"][1]["memory"] == {"workers": 0, "handlers": 0}
    assert {r["queue"] for r in running} == {"mail"} and all(r["running_ms"] >= 1000 for r in running)
    assert {r["incarnation"] for r in running} <= {k.decode() for k in c.hkeys("transit:mail:workers")}
    wait_for(lambda: report(c, "host.0")["queues"][0]["restarts"] == 1 and report(c, "host.0")["queues"][0]["state"] == "running", 40)
    c.set("quredis:queue:odd", "{")
    c.zadd("quredis:queues", {"odd": 1})
    rows = {line.split()[0]: line.split() for line in quredis("nodes").out.splitlines()}
    assert rows["host.0"][2] == str(hosts[0].pid) and rows["host.1"][5:7] == ["2", "2"] and rows["host.0"][-1] == "1"
    nodes = {n["node"]: n for n in json.loads(quredis("nodes", "--json").out)}
    assert {"host.0", "host.1"} <= set(nodes) and nodes["host.1"]["pid"] == hosts[1].pid
    assert all(n["pid"] is None for name, n in nodes.items() if not name.startswith("host."))       # the one of the defaults
    (tmp / "go").touch()
    assert hosts[1].stop() == 0
    assert report(c, "host.1") is None
    hosts[0].kill_tree()
    assert report(c, "host.0")
    r = quredis("nodes")
    assert any(line.split()[0] == "host.0" for line in r.out.splitlines())


def test_states_are_those_of_status(redis, quredisd, handler):
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler("cat")), queue("sick", handler("exit 1"), breaker={"failures": 2}), queue("odd", handler("cat"))])
    d.wait_event("queue_recovered", queue="odd")        # else it is never recovered
    c.set("ingress:odd", "x")
    c.set("quredis:of:ingress:mail:paused", "me")
    c.lpush("ingress:sick", *[f"m{i}" for i in range(50)])
    wait_for(lambda: (r := report(c, d.sections["supervisor"]["node"])) and
             {q["name"]: q["state"] for q in r["queues"]} == {"mail": "paused", "sick": "breaker", "odd": "error"}, 40)
    redis.config_set("maxmemory-policy", "allkeys-lru")
    wait_for(lambda: {q["state"] for q in report(c, d.sections["supervisor"]["node"])["queues"]} == {"refused"}, 40)
    assert d.stop() == 0


CHANGES = [(["pause", "mail"], "paused", "an operator"), (["resume", "mail"], "running", None),
           (["scale", "mail", "0"], "running", "scaled to no workers"), (["scale", "mail", "1"], "running", None)]


@pytest.mark.limit(300)
def test_a_changed_state_is_reported_soon(redis, quredisd, handler):
    """Without waiting for the next report of every ten seconds, for each state and each reason. While nothing changes, these are the only ones.

    Each change follows a report at once, so without a report of its own it is known ten seconds after that one. On a busy machine one of three may."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler("cat"))], supervisor={"node": "here"})
    ats = []

    def reported(state, reason):
        r = report(c, "here")
        if r and ats[-1:] != [r["at_ms"]]:
            ats.append(r["at_ms"])
        mail = r and r["queues"][0]
        return mail and mail["state"] == state and (reason or "") in mail.get("reason", "") and bool(reason) == bool(mail.get("reason"))
    wait_for(lambda: reported("running", None), 30)
    gaps = {" ".join(command): [] for command, _, _ in CHANGES}
    for command, state, reason in 3 * CHANGES:
        before = ats[-1]
        assert d.quredis(*command).code == 0
        wait_for(lambda: reported(state, reason), 30)
        gaps[" ".join(command)].append(ats[-1] - before)
    assert all(sorted(g)[1] < 9000 for g in gaps.values()), gaps
    seen = len(ats)
    wait_for(lambda: reported("running", None) and len(ats) >= seen + 2, 40)
    assert ats[-1] - ats[-2] >= 9000, ats


def test_a_report_that_is_none_or_refused(redis, quredisd, handler, quredis):
    c = redis.client()
    c.lpush("ingress:mail", "x")
    redis.config_set("maxmemory", "1")
    d = quredisd(queues=[queue("mail", handler("cat"))], supervisor={"node": "here"})
    assert "OOM" in d.wait_event("node_unreported")["error"]
    wait_for(lambda: c.hget("quredis:of:ingress:mail:stats", "done") == b"1", 30)
    redis.config_set("maxmemory", "0")
    wait_for(lambda: report(c, "here") and c.hlen("transit:mail:workers") == 1, 30)
    Queue(c, "mail")                                    # at maxmemory the registry took no entry
    most = {"queues": [{"wanted": 2 ** 63 - 1, "restarts": 2 ** 63 - 1, "workers": {"running": 2 ** 63 - 1, "idle": 2 ** 63 - 1}}] * 2, "at_ms": -2 ** 63}
    c.set("quredis:node:here", json.dumps(most))
    assert quredis("nodes").code == 0
    c.set("quredis:node:here", "[1]")
    r = quredis("nodes")
    assert r.code == 0 and next(line for line in r.out.splitlines() if line.split()[0] == "here").split()[1:3] == ["no", "report"]
    assert d.stop() == 0


@pytest.mark.limit(120)
def test_two_supervisors_of_one_name_are_told(redis, quredisd, handler):
    """Each replaces the other's report, of ten seconds; one supervisor, also after a kill and a restart, is alone."""
    alone = quredisd(queues=[queue("mail", handler("cat"))], supervisor={"node": "alone"})
    wait_for(lambda: report(redis.client(), "alone"), 30)
    alone.kill9()
    alone.start()
    same = [quredisd(queues=[queue("mail", handler("cat"))], supervisor={"node": "same"}) for _ in range(2)]
    told = wait_for(lambda: [(d, e) for d in same for e in d.events("node_shared")], 90)
    assert all(e["node"] == "same" and int(e["other"]) in {d.pid for d in same} - {own.pid} for own, e in told)
    assert not alone.events("node_shared")
