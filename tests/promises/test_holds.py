"""Why a queue does not fetch: status and the report of the node name the same hold, with its reason."""
import json
import os
import signal

import pytest

from harness import queue, wait_for
from harness.control import ask, status


def in_status(d):
    row = status(d, "mail")
    return row["state"], row["reason"]


def in_nodes(d):
    """As the sweeper reports it for other hosts. (None, None): there is no report yet."""
    done = d.quredis("nodes", "--json")
    rows = [q for node in json.loads(done.out) for q in node["queues"] if q["name"] == "mail"] if done.code == 0 else []
    return (rows[0]["state"], rows[0].get("reason")) if rows else (None, None)


def wait_for_both(d, state, reason):
    for face in in_status, in_nodes:
        wait_for(lambda f=face: f(d)[0] == state, 60, f"{face.__name__} to say {state}")
        assert face(d)[1].startswith(reason), face(d)


def test_an_order_to_be_quiet(redis, quredisd, handler):
    d = quredisd(queues=[queue("mail", handler("true"))])
    d.wait_event("queue_recovered", queue="mail")
    assert ask(d, "quiet", queue="mail")["ok"]
    wait_for_both(d, "quiet", "an operator stopped its fetches")


def test_a_pause_does_not_hide_an_open_breaker(redis, quredisd, handler):
    c = redis.client()
    path = handler("true")
    d = quredisd(queues=[queue("mail", path)])
    d.wait_event("queue_recovered", queue="mail")
    os.unlink(path)
    c.lpush("ingress:mail", "m")
    d.wait_event("breaker_opened", queue="mail")
    c.set("quredis:of:ingress:mail:paused", "{}")
    wait_for(lambda: ask(d, "status") and c.llen("ingress:mail") == 1)
    wait_for(lambda: [q["paused"] for q in json.loads(d.quredis("ls", "--json").out)] == [True])
    wait_for_both(d, "breaker", "its handler cannot be executed")


@pytest.mark.limit(240)
def test_a_queue_whose_only_worker_is_killed_again_and_again(redis, quredisd, handler):
    d = quredisd(queues=[queue("mail", handler("true"))])
    d.wait_event("queue_recovered", queue="mail")
    for n in range(7):
        (pid,) = d.wait_workers("mail", 1, 90).values()
        os.kill(pid, signal.SIGKILL)
        d.wait_event("worker_died", 30, queue="mail", child=pid)
        row = status(d, "mail")
        assert row["workers"]["alive"] > 0 or (row["state"] in ("no worker", "backoff") and row["reason"]), row
    wait_for(lambda: in_nodes(d)[0] in ("no worker", "backoff"), 60, "nodes to say why no worker fetches")
