"""An operation is fields in Redis, which any program may have written: what a command says of it, and of the result that a supervisor left."""
import json
import signal

import pytest

from harness import wait_for
from harness.dead_letters import CAUSE, fill
from harness.queues import Queue, dumps, now_ms, sha1

from .test_operations import begin
from .test_swept_operations import LEAD, RETRY, moved

HOLD_MS = 5000      # QUEUE_OPERATION_HOLD_MS: a longer one is none
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
    plain = {"begun": 1, "status": 0, "says": True, "complete": True, "interrupted": False, "settled": False, "count": 0, "total": 0, "done": 0, "failed": -1,
             "same_cause": -1, "left": 0, "notes": ""}
    return f"{now_ms() if at is None else at} {json.dumps({k: v for k, v in {**plain, **fields}.items() if v is not None})}"


@pytest.mark.parametrize("wrong", [{"status": 256}, {"status": -1}, {"done": -2 ** 63}, {"done": 2 ** 63 - 1}, {"total": -2}, {"failed": 2 ** 60},
                                   {"begun": None}, {"at": 2 ** 63 - 1}, {"at": 253402300800000}], ids=str)
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
    assert states == ["stopping", "stopped"]


def test_an_operation_that_is_stopped_says_so_until_it_begins_again(forged, quredis):
    q, write = forged
    newest = q.client.xrevrange(q.log, count=1)[0][0].decode()
    write(what=WHAT, options='{"class":"Mine"}', since="-", bound=newest, begun=str(now_ms()), total="3", wanted="run")
    assert quredis("operations", "mail", "--stop", ID).code == 0
    row, = json.loads(quredis("--json", "operations", "mail").out)
    assert (row["state"], row["total"], row["done"], row["left"]) == ("stopped", 3, 0, 3)
    assert quredis(*MINE, "--dry-run").code == 0 and json.loads(quredis("--json", "operations", "mail").out)[0]["state"] == "stopped"
    r = quredis(*MINE)
    assert r.code == 0 and r.out.startswith("retried 3 dead letters") and json.loads(quredis("--json", "operations", "mail").out) == [], r


def test_an_order_says_how_to_look_and_how_to_stop(redis, quredis):
    q, wanted = Queue(redis.client()), fill(redis.client())[1]
    q.client.set(LEAD, "old.0000000000000000")
    how = f"quredis operations mail shows it, with --stop {sha1(('dlq retry cause=' + repr(CAUSE)).encode())[:16]} it ends\n"
    r = quredis(*RETRY, "--no-wait")
    assert (r.code, r.out, r.err) == (0, f"ordered the retry of {len(wanted)} dead letters of mail; " + how, ""), r
    r = quredis(*RETRY, "--no-wait")
    assert r.code == 0 and r.out == "a supervisor has the order for this retry already, 0 dead letters of mail are done; " + how, r
    r = quredis("--json", *RETRY, "--no-wait")
    assert json.loads(r.out)["count"] == 0 and json.loads(r.out)["complete"] is False, r


def test_a_pace_has_one_spelling(redis, quredis):
    q = fill(redis.client())[0]
    Queue(redis.client())
    q.client.set(LEAD, "old.0000000000000000")
    for same in ["--canary"], ["--canary", "--rate", "50/s"], ["--canary=1", "--max-failures", "0"], ["--canary", "--rate", "3000/m"]:
        assert quredis(*RETRY, *same, "--no-wait").code == 0, same
    r = quredis(*RETRY, "--canary", "2", "--no-wait")
    assert r.code == 65 and "executes this retry at another pace" in r.err, r


OTHER_FILTERS = [(["--exit", "3"], True), (["--class", "Mine", "--text", "x"], True), (["--class", "Another"], False), (["--since", "1m"], True)]


@pytest.mark.parametrize("given, shared", OTHER_FILTERS, ids=str)
@pytest.mark.parametrize("wanted", ["run", "", "stopped"])
def test_another_operation_on_the_same_dead_letters_is_named(forged, quredis, given, shared, wanted):
    """One that no process works on takes nothing."""
    q, write = forged
    newest = q.client.xrevrange(q.log, count=1)[0][0].decode()
    write(what=WHAT, options='{"class":"Mine"}', since="-", bound=newest, begun=str(now_ms()), wanted=wanted)
    r = quredis("dlq", "retry", "mail", "--all", *given, "--yes", "--dry-run")
    assert r.code == 0 and (f"operation {ID} may take some of the same dead letters" in r.err) == (shared and wanted == "run"), r


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


@pytest.mark.parametrize("more", [{"status": 256}, {"begun": "x"}], ids=str)
def test_a_result_that_cannot_be_read_is_that_of_no_other_command(redis, more):
    q, child, key, id_ = waiting(redis)
    end_with(q, key, id_, result_of(now_ms(), **{"begun": int(q.client.hget(key, f"{id_}:begun")), **more}))
    out, err = child.communicate(timeout=60)
    assert child.returncode == 75 and out == "" and "cannot tell how the retry ended: its result cannot be read" in err, err


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


def test_a_repeated_command_continues_what_another_has_begun_meanwhile(forged, redis):
    """While it leaves a fresh result to the command that waits. The result belongs to an operation that still runs then."""
    q, write = forged
    newest, fresh = q.client.xrevrange(q.log, count=1)[0][0].decode(), result(at=now_ms() + 60000, count=1, done=1)
    write(result=fresh)
    looks = q.client.info("commandstats").get("cmdstat_hmget", {"calls": 0})["calls"]
    child = begin(redis.url, *MINE, "--foreground")
    wait_for(lambda: q.client.info("commandstats").get("cmdstat_hmget", {"calls": 0})["calls"] > looks + 1 or child.poll() is not None, 60)
    write(what=WHAT, options='{"class":"Mine"}', since="-", bound=newest, begun=str(now_ms()), total="3", wanted="")
    out, err = child.communicate(timeout=60)
    assert child.returncode == 0 and "continues the retry begun at 20" in err and "a supervisor ended" not in err, (out, err)
    assert out.startswith("retried 3 dead letters of mail"), out
