"""A retry or a deletion by filter is executed by the leading sweeper. The command only waits for it, so it may end before the work does."""
import json
import os
import re
import signal

import pytest

from harness import Tap, queue, wait_for
from harness.dead_letters import CAUSE, LETTERS, fill, left_whole, remembered
from harness.queues import Queue, dumps, incarnation, now_ms, sha1, strip
from harness.redis_proxy import SCRIPTS

from .test_operations import begin

RETRY = ["dlq", "retry", "mail", "--all", "--cause", CAUSE, "--yes"]
SLOW = [*RETRY, "--rate", f"{LETTERS // 4}/s"]
LEAD = "quredis:of:ingress:mail:sweeper"
HOLD_MS = 5000      # QUEUE_OPERATION_HOLD_MS: a longer one is none


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
    assert d.quredis(*RETRY).code == 75, "another pace does not join"
    assert d.quredis(*RETRY, "--no-wait", "--rate", f"{LETTERS // 4 * 60}/m").code == 0, "the same pace in other words does not join"
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


# ---- what any program may have written ----

WHAT = "dlq retry class=Mine"
MINE = ["dlq", "retry", "mail", "--all", "--class", "Mine", "--yes"]
ID = sha1(WHAT.encode())[:16]


@pytest.fixture
def forged(redis):
    """A queue with three dead letters, and a function that writes fields of the operation that MINE means."""
    q = Queue(redis.client())
    q.dead_letters(b"1", b"2", b"3", error_class="Mine")

    def write(**fields):
        q.client.hset(f"{q.escape}:operations", mapping={f"{ID}:{k}": v for k, v in fields.items()})
    return q, write


def result(at=None, **fields):
    plain = {"status": 0, "says": True, "complete": True, "interrupted": False, "settled": False, "count": 0, "total": 0, "done": 0, "failed": -1,
             "same_cause": -1, "left": 0, "notes": ""}
    return f"{now_ms() if at is None else at} {json.dumps({**plain, **fields})}"


@pytest.mark.parametrize("wrong", [{"status": 256}, {"status": -1}, {"done": -2 ** 63}, {"done": 2 ** 63 - 1}, {"total": -2}, {"failed": 2 ** 60},
                                   {"at": 2 ** 63 - 1}, {"at": 253402300800000}], ids=str)
def test_a_result_with_a_number_that_quredis_does_not_write_is_none(forged, quredis, wrong):
    q, write = forged
    write(result=result(**wrong))
    r = quredis(*MINE)
    assert r.code == 0 and r.out == "retried 3 dead letters of mail; 0 matching messages are left\n" and "a supervisor ended" not in r.err, r


def test_a_result_with_possible_numbers_is_shown(forged, quredis):
    q, write = forged
    write(result=result(status=65, done=10, total=20, left=10, failed=3))
    r = quredis(*MINE)
    assert r.code == 65 and r.out == "retried 10 dead letters of mail; 3 failed again so far; 10 matching messages are left\n", r


@pytest.mark.parametrize("notes, error", [
    ("the first message left the queue\n", None),
    ("the first message left the queue\nquredis: Redis refused it\n2 dead letters were no longer in escape\nquredis: it cannot be read\n", "Redis refused it"),
    ("", None)], ids=["none", "between", "empty"])
def test_the_error_of_an_operation_is_the_first(forged, quredis, notes, error):
    q, write = forged
    write(what=WHAT, bound="9999999999999-0", wanted="run", result=result(status=78, notes=notes))
    row, = json.loads(quredis("--json", "operations", "mail").out)
    assert row["error"] == error and row["state"] == "waiting"


def test_it_does_not_stop_if_the_process_that_was_asked_is_gone(forged, quredis):
    q, write = forged
    write(what=WHAT, bound="9999999999999-0", wanted="stop", holder="elsewhere 1 00000000", held=str(now_ms() + HOLD_MS))
    states = [json.loads(quredis("--json", "operations", "mail").out)[0]["state"]]
    write(held="1")
    states.append(json.loads(quredis("--json", "operations", "mail").out)[0]["state"])
    assert states == ["stopping", "interrupted"]


@pytest.mark.parametrize("held", [True, False])
def test_a_dry_run_stops_nothing(forged, quredis, held):
    q, write = forged
    write(what=WHAT, bound="9999999999999-0", wanted="run", holder="elsewhere 1 00000000", held=str(now_ms() + HOLD_MS if held else 1))
    before = dumps(q.client)
    r = quredis("operations", "mail", "--stop", ID, "--dry-run")
    assert (r.code, r.out) == (0, f"operation {ID} of mail would {'stop after its next message' if held else 'be stopped'}\n"), r
    assert json.loads(quredis("--json", "operations", "mail", "--stop", ID, "--dry-run").out) == \
        {"queue": "mail", "id": ID, "running": held, "dry_run": True}
    assert quredis("operations", "mail", "--stop", "0" * 16, "--dry-run").code == 66
    assert dumps(q.client) == before


@pytest.mark.parametrize("since, goes_on", [("-", "9999999999999-0"), ("5-0", "4-0")], ids=["behind", "before"])
def test_a_place_outside_its_records_is_damage(forged, quredis, since, goes_on):
    """Behind them it would be called complete, and before them take what it does not mean."""
    q, write = forged
    newest = q.client.xrevrange(q.log, count=1)[0][0].decode()
    write(what=WHAT, options='{"class":"Mine"}', since=since, bound=newest, next=goes_on, begun=str(now_ms()))
    r = quredis(*MINE)
    assert r.code == 65 and "is damaged: --anew discards it" in r.err and q.client.llen(q.escape) == 3, r
    assert quredis(*MINE, "--anew").code == 0 and q.client.llen(q.escape) == 0


@pytest.mark.parametrize("id_", ["", "x", "--all", "a:b", "A" * 16, "a" * 15, "a" * 17])
def test_what_has_no_id_of_quredis_is_no_operation(redis, quredis, id_):
    q = Queue(redis.client())
    q.client.hset(f"{q.escape}:operations", mapping={f"{id_}:what": "dlq retry", f"{id_}:bound": "1-0", f"{id_}:wanted": "run"})
    r = quredis("--json", "operations")
    assert (r.code, json.loads(r.out)) == (0, []), r


def test_what_is_no_operation_hides_none(redis, quredis):
    q = Queue(redis.client())
    ids = [f"{i:016x}" for i in range(8)]
    q.client.hset(f"{q.escape}:operations", mapping={f"{'z' * (i + 20)}:what": "dlq retry" for i in range(1500)})
    for id_ in ids:
        q.client.hset(f"{q.escape}:operations", mapping={f"{id_}:what": "dlq retry", f"{id_}:bound": "1-0", f"{id_}:wanted": "run"})
    r = quredis("--json", "operations")
    assert (r.code, sorted(o["id"] for o in json.loads(r.out))) == (0, ids), r


def test_a_long_text_of_another_program_is_cut(forged, quredis):
    q, write = forged
    write(what=WHAT, bound="9999999999999-0", by="x" * 1000000, holder="y" + "ä" * 500000 + " 1", held=str(now_ms() + HOLD_MS))
    r = quredis("--json", "operations", "mail")
    row, = json.loads(r.out)
    assert row["by"] == "x" * 8192 + "..." and row["process"] == "y" + "ä" * 4095 + "..."


def test_a_long_filter_is_shown_whole(forged, quredis):
    q, write = forged
    what = "dlq retry --all --cause " + "ä" * 1500
    write(what=what, bound="9999999999999-0")
    row, = json.loads(quredis("--json", "operations", "mail").out)
    assert row["operation"] == what


def test_a_command_whose_result_is_gone_says_that_it_cannot_tell(redis):
    """Another command has read it, or Redis went back: to run the command again might begin another operation."""
    q, wanted = Queue(redis.client()), fill(redis.client())[1]
    q.client.set(LEAD, "old.0000000000000000")
    child = begin(redis.url, *RETRY)
    wait_for(lambda: b"run" in q.client.hvals(f"{q.escape}:operations"), 60)
    q.client.delete(f"{q.escape}:operations")
    out, err = child.communicate(timeout=60)
    assert child.returncode == 75 and out == "" and "cannot tell how the retry ended: another command has read" in err, err
    assert "run the command again" not in err
    assert moved(q) == 0


def waiting(redis):
    """A queue, a command that waits for a sweeper which never comes, the hash of operations, and the id in it."""
    q, _ = Queue(redis.client()), fill(redis.client())[1]
    q.client.set(LEAD, "old.0000000000000000")
    child, key = begin(redis.url, *RETRY), f"{q.escape}:operations"
    wait_for(lambda: b"run" in q.client.hvals(key), 60)
    return q, child, key, q.client.hkeys(key)[0].decode().partition(":")[0]


def result_of(at_ms, **more):
    return f"{at_ms} " + json.dumps({"status": 0, "says": True, "complete": True, "interrupted": False, "settled": False, "count": 1, "total": 1,
                                     "done": 1, "failed": -1, "same_cause": -1, "left": 0, "notes": "", **more})


def test_a_command_says_that_another_began_its_operation_anew(redis):
    """Its result is not that of the other one, which stays for the command that waits for it."""
    q, child, key, id_ = waiting(redis)
    result = result_of(now_ms())
    q.client.hset(key, mapping={f"{id_}:bound": "1-0", f"{id_}:result": result})
    out, err = child.communicate(timeout=60)
    assert child.returncode == 75 and out == "" and "cannot tell how the retry ended: another command began it anew" in err, err
    assert q.client.hget(key, f"{id_}:result") == result.encode()


def end_with(q, key, id_, result):
    """As the last step of an operation does."""
    with q.client.pipeline(transaction=True) as p:
        p.delete(key)
        p.hset(key, f"{id_}:result", result)
        p.execute()


def test_a_command_takes_the_result_of_no_other_run(redis):
    """The same command began the operation again, and this one ended, too, between two looks of the first command."""
    q, child, key, id_ = waiting(redis)
    result = result_of(now_ms(), begun=int(q.client.hget(key, f"{id_}:begun")) + 1)
    end_with(q, key, id_, result)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 75 and out == "" and "cannot tell how the retry ended: another command began it anew" in err, err
    assert q.client.hget(key, f"{id_}:result") == result.encode(), "it is for the other command"


def test_a_command_takes_the_result_of_its_own_run(redis):
    q, child, key, id_ = waiting(redis)
    end_with(q, key, id_, result_of(now_ms(), begun=int(q.client.hget(key, f"{id_}:begun"))))
    out, err = child.communicate(timeout=60)
    assert child.returncode == 0 and out.startswith("retried 1 dead letter of mail"), (out, err)
    assert not q.client.exists(key)


def test_a_repeated_command_leaves_a_fresh_result_to_the_command_that_waits(redis):
    """The first command would not learn how its operation ended. The second one begins another operation."""
    q, first, key, id_ = waiting(redis)
    first.send_signal(signal.SIGSTOP)       # between two looks
    end_with(q, key, id_, result_of(now_ms() + 60000, begun=int(q.client.hget(key, f"{id_}:begun"))))      # fresh for as long as the test may take
    looks = q.client.info("commandstats")["cmdstat_hmget"]["calls"]
    second = begin(redis.url, *RETRY)
    wait_for(lambda: q.client.info("commandstats")["cmdstat_hmget"]["calls"] > looks + 1 or second.poll() is not None, 60)
    first.send_signal(signal.SIGCONT)
    out, err = first.communicate(timeout=60)
    assert first.returncode == 0 and out.startswith("retried 1 dead letter of mail"), (out, err)
    wait_for(lambda: b"run" in q.client.hvals(key) or second.poll() is not None, 60)
    second.kill()
    assert second.communicate()[0] == "" and b"run" in q.client.hvals(key)
