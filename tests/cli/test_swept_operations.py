"""A retry or a deletion by filter is executed by the leading sweeper. The command only waits for it, so it may end before the work does."""
import json
import os
import re
import signal

import pytest

from harness import Tap, queue, wait_for
from harness.dead_letters import CAUSE, LETTERS, fill, left_whole, remembered
from harness.queues import Queue, incarnation, now_ms, strip
from harness.redis_proxy import SCRIPTS

from .test_operations import begin

RETRY = ["dlq", "retry", "mail", "--all", "--cause", CAUSE, "--yes"]
SLOW = [*RETRY, "--rate", f"{LETTERS // 4}/s"]
LEAD = "quredis:of:ingress:mail:sweeper"


@pytest.fixture
def service(quredisd, redis, handler):
    """Its queue is paused: what moves back stays in ingress."""
    Queue(redis.client())       # registers it: begin() has no configuration
    q, wanted = fill(redis.client())
    d = quredisd(queues=[queue("mail", handler("exit 0"))], health={"enabled": True})        # which needs a leader
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
    assert 0 < q.client.pttl(f"{q.escape}:operations") <= 86400000, "the result stays for a day"
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
    assert "run the command again" not in err and "failed again" not in out, (out, err)
    row, = listed(d)
    assert child.returncode == -signal.SIGINT and f"a supervisor continues the retry: quredis operations mail shows it, with --stop {row['id']} it ends" in err
    assert row["state"] == "running" and row["total"] in (None, len(wanted)) and row["operation"].startswith("dlq retry cause="), row
    assert d.quredis(*RETRY).code == 65, "another pace does not join"
    assert d.quredis(*RETRY, "--no-wait", "--rate", f"{LETTERS // 4 * 60}/m").code == 0, "the same pace in other words does not join"
    assert d.quredis("operations", "mail", "--stop", row["id"]).code == 0
    wait_for(lambda: listed(d)[0]["state"] == "stopped", 60)
    stopped = moved(q)
    assert stopped < len(wanted) and listed(d)[0]["done"] == stopped and listed(d)[0]["left"] in (None, len(wanted) - stopped)
    r = d.quredis(*RETRY)
    assert r.code == 0 and f": {stopped} " in r.err, r
    assert come_back(q) == wanted
    left_whole(q, wanted)
    assert d.quredis("operations", "mail", "--stop", row["id"]).code == 66
    assert d.stop() == 0


def test_the_operator_who_lets_it_go_on_reads_no_other_advice(service, terminal):
    q, wanted, d = service
    t = terminal(*[a for a in SLOW if a != "--yes"])
    t.expect("Move back")
    t.type("y\n")
    wait_for(lambda: moved(q) > 5, 60)
    t.type("\x03")
    t.expect("If not, a supervisor continues it")
    t.type("n\n")
    assert t.end() == -signal.SIGINT
    assert "a supervisor continues the retry: " in t.text and "nothing was done" not in t.text and "run the command again" not in t.text, t.text
    d.stop()


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


class SlowOperation(Tap):
    """Holds up the operation's process for a while, from `begins` on: the sweeper then has several turns before it lets go."""

    def __init__(self):
        self.begins, self.times = False, 0

    def request(self, pair, words):
        if b":operation" not in pair.name or not self.begins or self.times:
            return None
        self.times += 1
        return 2


@pytest.fixture
def slow_service(quredisd, redis, redis_proxy, handler):
    Queue(redis.client())
    q, wanted = fill(redis.client())
    tap = SlowOperation()
    d = quredisd(redis=redis_proxy(redis, tap), queues=[queue("mail", handler("exit 0"))], health={"enabled": True}, supervisor={"lease": "5s"})
    assert d.quredis("pause", "mail").code == 0
    wait_for(lambda: q.client.exists(LEAD), 60)
    assert d.quredis(*SLOW, "--no-wait").code == 0
    wait_for(lambda: moved(q) > 5, 60)
    return q, wanted, d, tap


def holder(q):
    """Of the only operation; b"": it is let go."""
    value, = (v for k, v in q.client.hgetall(f"{q.escape}:operations").items() if k.endswith(b":holder"))
    return value


def test_a_process_whose_lead_is_taken_away_lets_go(slow_service):
    q, wanted, d, tap = slow_service
    tap.begins = True
    wait_for(lambda: tap.times, 60)
    q.client.set(LEAD, "elsewhere.0000000000000000")
    d.wait_event("operation_ended", timeout=60, exit=0)
    assert holder(q) == b"" and moved(q) < len(wanted)
    q.client.delete(LEAD)
    wait_for(lambda: moved(q) == len(wanted) and not listed(d), 60)
    assert come_back(q) == wanted and d.stop() == 0


def test_a_sweeper_that_ends_lets_its_operations_go(slow_service):
    q, wanted, d, tap = slow_service
    tap.begins = True
    wait_for(lambda: tap.times, 60)
    assert d.stop() == 0
    assert d.events("operation_ended")[-1]["exit"] == "0" and holder(q) == b"" and 0 < moved(q) < len(wanted)


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
    assert r.code == 0 and r.out.startswith("ordered the retry of ")
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


def test_without_a_supervisor_no_order_becomes_work_of_the_command(redis, quredis):
    q = fill(redis.client())[0]
    Queue(redis.client())
    r = quredis(*RETRY, "--no-wait")
    assert r.code == 69 and r.out == "", r
    assert "no supervisor works on mail: nothing was ordered. Start quredisd, or run the command without --no-wait" in r.err
    assert moved(q) == 0 and not remembered(q)
    for given, why in ([*RETRY, "--foreground"], "--no-wait and --foreground exclude each other"), (
            ["dlq", "retry", "mail", "--all", "--yes"], "--no-wait requires a filter or a pace"):
        r = quredis(*given, "--no-wait")
        assert r.code == 64 and why in r.err and moved(q) == 0, r


def report_of(q, boot):
    """What a supervisor reports of itself that works on the queue."""
    report = {"node": "near", "boot": boot, "at_ms": now_ms(), "queues": [{"name": "mail", "state": "running"}]}
    q.client.set("quredis:node:near", json.dumps(report), px=60000)


@pytest.mark.parametrize("lead", [None, "earlier"])
def test_a_supervisor_that_does_not_lead_yet_gets_the_order(redis, quredis, lead):
    """A lead of its earlier boot may still count, for the rest of its lease."""
    q = fill(redis.client())[0]
    Queue(redis.client())
    report_of(q, "1" * 16)
    q.client.hset("transit:mail:workers", incarnation(1, node="near"), '{"lock":"x","node":"near","pid":1,"since":1,"lease":30000}')
    if lead:
        q.client.set(LEAD, f"near.{'0' * 16}", px=20000)
    r = quredis(*RETRY, "--no-wait")
    said = re.search("no supervisor leads mail yet: the one that lives can begin the retry within ([0-9]+) s", r.err)
    assert r.code == 0 and said and "does the work itself" not in r.err, r
    assert (30 if lead else 12) <= int(said[1]) + (10 if lead else 0) <= (42 if lead else 12), r.err
    assert moved(q) == 0 and b"run" in q.client.hvals(f"{q.escape}:operations")


def test_a_supervisor_without_other_work_for_a_leader_takes_the_lead(quredisd, redis, handler):
    Queue(redis.client())
    q, wanted = fill(redis.client())
    d = quredisd(queues=[queue("mail", handler("exit 0"))], supervisor={"lease": "5s"})
    assert d.quredis("pause", "mail").code == 0
    assert not q.client.exists(LEAD)
    r = d.quredis(*RETRY)
    assert r.code == 0 and "no supervisor leads mail yet" in r.err and "does the work itself" not in r.err, r
    assert d.events("operation_started") and come_back(q) == wanted
    left_whole(q, wanted)
    assert d.stop() == 0


def test_a_supervisor_that_does_not_begin_is_not_waited_for(redis, quredis):
    """One of an older version has the lead, and knows no operations."""
    q, wanted = Queue(redis.client()), fill(redis.client())[1]
    q.client.set(LEAD, "old.0000000000000000")
    r = quredis(*RETRY)
    assert r.code == 0 and "no supervisor began the retry within 10 s: this command does the work itself" in r.err, r
    left_whole(q, wanted)


class Begins(Tap):
    """A supervisor begins the operation in the moment in which the command takes it back."""

    def __init__(self, q):
        self.q, self.began = q, False

    def request(self, pair, words):
        if words[0] != b"EVALSHA" or SCRIPTS.get(words[1]) != "operation_stop":
            return
        key = f"{self.q.escape}:operations"
        id_, = {f.split(b":")[0].decode() for f in self.q.client.hkeys(key)}
        self.q.client.hset(key, mapping={f"{id_}:holder": "elsewhere 1 00000000", f"{id_}:held": str(now_ms() + 3000)})
        self.began = True


def test_a_supervisor_that_begins_at_last_is_not_denied(redis, redis_proxy, quredis):
    q, wanted = Queue(redis.client()), fill(redis.client())[1]
    q.client.set(LEAD, "old.0000000000000000")
    tap = Begins(q)
    r = quredis(*RETRY, url=redis_proxy(redis, tap).url)
    assert r.code == 0 and tap.began and "no supervisor began" not in r.err, r
    left_whole(q, wanted)
