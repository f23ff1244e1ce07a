"""A retry or a deletion by filter is executed by the leading sweeper. The command only waits for it, so it may end before the work does."""
import json
import os
import signal

import pytest

from harness import queue, wait_for
from harness.dead_letters import CAUSE, LETTERS, fill, left_whole, remembered
from harness.queues import Queue, strip

from .test_operations import begin

RETRY = ["dlq", "retry", "mail", "--all", "--cause", CAUSE, "--yes"]
SLOW = [*RETRY, "--rate", f"{LETTERS // 4}/s"]
LEAD = "quredis:of:ingress:mail:sweeper"


@pytest.fixture
def service(quredisd, redis, handler):
    """Its queue is paused: what moves back stays in ingress."""
    Queue(redis.client())       # registers it: begin() has no configuration
    q, wanted = fill(redis.client())
    d = quredisd(queues=[queue("mail", handler("exit 0"))])
    assert d.quredis("pause", "mail").code == 0
    wait_for(lambda: q.client.exists(LEAD), 60)
    return q, wanted, d


def moved(q):
    return LETTERS - q.client.llen(q.escape)


def listed(d):
    return json.loads(d.quredis("--json", "operations", "mail").out)


def come_back(q):
    """The payloads in ingress, the oldest first."""
    return [strip(m) for m in q.client.lrange(q.ingress, 0, -1)[::-1]]


def test_an_operation_survives_its_command(service, redis):
    q, wanted, d = service
    child = begin(redis.url, *SLOW)
    wait_for(lambda: moved(q) > 5 or child.poll() is not None, 60)
    child.kill()
    child.communicate()
    assert moved(q) < len(wanted)
    wait_for(lambda: moved(q) == len(wanted) and not listed(d), 60)
    assert come_back(q) == wanted
    r = d.quredis(*SLOW)        # does not begin another one, but says how the first one ended
    assert r.code == 0 and "a supervisor ended the retry at 20" in r.err, r
    assert r.out.startswith(f"retried {len(wanted)} dead letters of mail; 0 failed again so far; 0 matching"), r
    left_whole(q, wanted)
    assert d.stop() == 0


def test_an_interrupted_command_leaves_it_running_and_it_can_be_stopped(service, redis):
    q, wanted, d = service
    child = begin(redis.url, *SLOW)
    wait_for(lambda: moved(q) > 5 or child.poll() is not None, 60)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    row, = listed(d)
    assert child.returncode == -signal.SIGINT and f"a supervisor continues the retry: quredis operations mail shows it, with --stop {row['id']} it ends" in err
    assert row["state"] == "running" and row["total"] in (None, len(wanted)) and row["operation"].startswith("dlq retry cause="), row
    assert d.quredis(*RETRY).code == 75, "another pace joins"
    assert d.quredis("operations", "mail", "--stop", row["id"]).code == 0
    wait_for(lambda: listed(d)[0]["state"] == "interrupted", 60)
    stopped = moved(q)
    assert stopped < len(wanted) and listed(d)[0]["done"] == stopped
    r = d.quredis(*RETRY)
    assert r.code == 0 and f": {stopped} " in r.err, r
    assert come_back(q) == wanted
    left_whole(q, wanted)
    assert d.quredis("operations", "mail", "--stop", row["id"]).code == 66
    assert d.stop() == 0


def test_killed_ten_times_it_acts_on_each_once(service, redis):
    """The process of the operation, and twice the whole sweeper."""
    q, wanted, d = service
    child = begin(redis.url, *SLOW)
    for kill in range(10):
        before = moved(q)
        wait_for(lambda: moved(q) > before, 60)
        started = d.events("operation_started")[-1]
        os.kill(d.sweeper() if kill in (3, 7) else int(started["child"]), signal.SIGKILL)
        wait_for(lambda: d.events("operation_started")[-1]["child"] != started["child"] or moved(q) == len(wanted), 60)
        if moved(q) == len(wanted):
            break
    out, err = child.communicate(timeout=120)
    assert child.returncode == 0 and out.startswith(f"retried {len(wanted)} dead letters"), (out, err)
    assert come_back(q) == wanted
    left_whole(q, wanted)
    d.stop()


def test_a_result_is_that_of_a_command_that_does_the_work(service):
    q, wanted, d = service
    results = []
    for how in [], ["--foreground"]:
        r = d.quredis("--json", *RETRY, *how)
        assert r.code == 0 and r.err == "", r
        results.append(json.loads(r.out))
        q.client.delete(q.escape, q.log, q.ingress)
        fill(q.client)
    assert results[0] == results[1] and results[0]["count"] == len(wanted) and not remembered(q)
    assert d.events("operation_started") and len(d.events("operation_started")) == 1
    assert d.stop() == 0


def test_a_forged_filter_is_refused(service):
    q, wanted, d = service
    r = d.quredis(*RETRY, "--no-wait")
    assert r.code == 0 and "a supervisor continues the retry" in r.err
    wait_for(lambda: moved(q) == len(wanted) and not listed(d), 60)
    key, forged = f"{q.escape}:operations", "0" * 16
    for options in '{"class": 7}', '{"class": "HandlerExit"}':
        q.client.hset(key, mapping={f"{forged}:{k}": v for k, v in {
            "what": "dlq rm", "options": options, "since": "-", "bound": "9999999999999-0", "wanted": "run", "begun": "1"}.items()})
        why = "cannot be parsed" if "7" in options else "does not have the id of its filter"
        wait_for(lambda: any(why in e["error"] for e in d.events("queue_error", queue="mail", at="operations")), 60)
    assert moved(q) == len(wanted)
    d.stop()


def test_without_a_supervisor_the_command_says_so(redis, quredis):
    q, wanted = Queue(redis.client()), fill(redis.client())[1]
    r = quredis(*RETRY)
    assert r.code == 0 and "no supervisor works on mail: this command does the work itself" in r.err, r
    assert moved(q) == len(wanted)
    r = quredis("dlq", "rm", "mail", "--all", "--class", "Rejected", "--foreground")
    assert r.code == 0 and "supervisor" not in r.err, r


def test_a_supervisor_that_does_not_begin_is_not_waited_for(redis, quredis):
    """One of an older version has the lead, and knows no operations."""
    q, wanted = Queue(redis.client()), fill(redis.client())[1]
    q.client.set(LEAD, "old.0000000000000000")
    r = quredis(*RETRY)
    assert r.code == 0 and "no supervisor began the retry within 10 s: this command does the work itself" in r.err, r
    left_whole(q, wanted)
