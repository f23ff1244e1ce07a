"""quredis cancel: a running message ends on whichever host it runs, and nothing else does."""
import json

import pytest

from harness import alive, queue, wait_for
from harness.handlers import GATED

CANCELS = "quredis:of:ingress:mail:cancels"
# Ignores TERM, and leaves a child in a session of its own that does the same.
DEAF = """
trap '' TERM
m=$(tail -n 1)
setsid sh -c 'trap "" TERM; echo $$ >>@TMP@/pids; while :; do sleep 0.05; done' &
echo $$ >>@TMP@/pids
while [ "$(wc -l <@TMP@/pids)" -lt 2 ]; do sleep 0.01; done
echo "start $m $QUREDIS_REDELIVERED $QUREDIS_ATTEMPT $QUREDIS_INCARNATION" >>@LEDGER@
while :; do sleep 0.05; done
"""
# A persistent handler: answers what begins with q, and keeps the others until @TMP@/go is there.
WINDOW = r'''
import json, os, sys, threading
def answer(token):
    os.write(1, b"OK %s\n" % token)
def later(token):
    while not os.path.exists("@TMP@/go"):
        threading.Event().wait(0.05)
    answer(token)
stdin = sys.stdin.buffer
while line := stdin.readline():
    words = line.split()
    payload = stdin.read(int(words[3]) + 1)[:-1]
    fd = os.open("@LEDGER@", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(fd, b"start %s\n" % b" ".join([payload.split(b"\n")[-1], *words]))
    os.close(fd)
    threading.Thread(target=later, args=(words[1],), daemon=True).start()
'''


def message(name):
    return f"quredis/1 id={name}\n{name}"


def record(c):
    (_, fields), = c.xrange("escape:mail:log")
    return fields


def cancel(d, *args):
    r = d.quredis("--json", "cancel", *args[1:], "mail", args[0])
    return r.code, json.loads(r.out) if r.out else None, r.err


def reads(c):
    return c.info("commandstats").get("cmdstat_hgetall", {"calls": 0})["calls"]


def order_of(c):
    (field, text), = c.hgetall(CANCELS).items()
    return field, text.decode()


def test_a_process_tree_on_another_host(redis, quredisd, handler, ledger, tmp, tag):
    c = redis.client()
    here = quredisd(queues=[queue("mail", handler("exit 0"), workers=0)])
    there = quredisd(queues=[queue("mail", handler(DEAF), kill_grace="300ms")], supervisor={"node": tag + "b"})
    c.lpush("ingress:mail", message("m1"))
    wait_for(lambda: ledger.rows("start"))
    code, out, err = cancel(here, "m1")
    assert (code, out["result"], out["then"]) == (0, "escaped", "escape"), err
    assert out["worker"].startswith(tag + "b.")
    assert not [pid for pid in (tmp / "pids").read_text().split() if alive(int(pid))]
    r = record(c)
    assert (r[b"error_class"], r[b"id"]) == (b"Cancelled", b"m1") and r[b"error_message"].startswith(b"cancelled by ")
    assert c.lrange("escape:mail", 0, -1) == [message("m1").encode()] and not c.keys("transit:mail:*:[0-2]")
    assert len(ledger.rows("start")) == 1
    assert there.wait_event("message_cancelled", queue="mail", id="m1", then="escape")["by"] in r[b"error_message"].decode()
    code, out, err = cancel(here, "m1")
    assert code == 66 and out is None and "is not running" in err and "quredis rm mail ingress m1" in err


def test_neighbours_in_a_window(redis, quredisd, handler, ledger, tmp):
    """The process ends; they run again, with no attempt charged."""
    c = redis.client()
    body = handler(WINDOW, "python")
    d = quredisd(queues=[queue("mail", body, mode="persistent", window=3, batch={"max": 3})])
    c.lpush("ingress:mail", *map(message, ["m1", "m2", "m3"]))
    wait_for(lambda: len(ledger.rows("start")) == 3)
    code, out, err = cancel(d, "m2")
    assert (code, out["result"]) == (0, "escaped"), err
    assert record(c)[b"id"] == b"m2" and record(c)[b"error_class"] == b"Cancelled"
    wait_for(lambda: len(ledger.rows("start")) == 5)
    assert sorted(row[0] for row in ledger.rows("start")) == ["m1", "m1", "m2", "m3", "m3"]
    (tmp / "go").touch()
    wait_for(lambda: not c.exists("ingress:mail") and not c.keys("transit:mail:*:[0-2]"))
    assert c.llen("escape:mail") == 1 and not d.events("message_retried") and not d.events("breaker_opened")


@pytest.mark.parametrize("mode", ["exec", "persistent"])
def test_handed_back(redis, quredisd, handler, ledger, tmp, mode):
    """--retry: it runs again at once, marked as redelivered, with the same attempt, and no other worker ends it once more."""
    c = redis.client()
    body = handler(WINDOW, "python") if mode == "persistent" else handler("m=$(tail -n 1)\n" + GATED.replace("read -r m", ""))
    d = quredisd(queues=[queue("mail", body, mode=mode, workers=6)])
    c.lpush("ingress:mail", message("m1"))
    wait_for(lambda: ledger.rows("start"))
    code, out, err = cancel(d, "m1", "--retry")
    assert (code, out["result"], out["then"]) == (0, "handed_back", "retry"), err
    wait_for(lambda: len(ledger.rows("start")) == 2)
    if mode == "exec":
        assert [row[:3] for row in ledger.rows("start")] == [["m1", "0", "1"], ["m1", "1", "1"]]
    before = reads(c)
    wait_for(lambda: reads(c) >= before + 6, 30)
    (tmp / "go").touch()
    wait_for(lambda: not c.keys("transit:mail:*:[0-2]"))
    assert len(ledger.rows("start")) == 2 and len(d.events("message_cancelled")) == 1
    assert not c.exists("escape:mail") and not d.events("message_retried")


def test_two_orders_for_one_message(redis, quredisd, handler, ledger):
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler(DEAF), kill_grace="500ms")])
    c.lpush("ingress:mail", message("m1"))
    wait_for(lambda: ledger.rows("start"))
    assert cancel(d, "m1", "--no-wait", "--retry")[1]["result"] == "ordered"
    code, out, err = cancel(d, "m1", "--no-wait")
    assert (code, out["result"]) == (0, "ordered"), err
    wait_for(lambda: c.hlen(CANCELS) == 1 and " ended " in order_of(c)[1], 30)
    assert order_of(c)[1].endswith(" ended escaped") and record(c)[b"error_class"] == b"Cancelled"


def test_a_message_that_does_not_run(redis, quredisd, handler, ledger, tmp):
    """Waiting, delayed, done: none is touched, and the order leaves nothing."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler(GATED), batch={"max": 1})])
    c.lpush("ingress:mail", "m0")
    wait_for(lambda: ledger.rows("start"))
    c.lpush("ingress:mail", message("waits"))
    assert d.quredis("push", "mail", "later", "--id", "delayed", "--delay", "1h").code == 0
    for name in ("waits", "delayed", "no-such"):
        code, out, err = cancel(d, name)
        assert code == 66 and f"{name} is not running in mail" in err
    assert not c.exists(CANCELS)
    (tmp / "go").touch()
    wait_for(lambda: not c.keys("transit:mail:*:[0-2]") and not c.exists("ingress:mail"))
    assert not c.exists("escape:mail")


def test_the_supervisor_dies_before_it_reads_the_order(redis, quredisd, handler, ledger, tag):
    """The order stays: the host that takes the message over ends it."""
    c = redis.client()
    body = handler(DEAF.replace("-lt 2", "-lt 1"))
    a = quredisd(queues=[queue("mail", body, kill_grace="200ms")], supervisor={"lease": "1s"})
    c.lpush("ingress:mail", message("m1"))
    wait_for(lambda: ledger.rows("start"))
    b = quredisd(queues=[queue("mail", body, kill_grace="200ms")], supervisor={"lease": "1s", "node": tag + "b"})
    a.kill_tree()
    assert cancel(b, "m1", "--no-wait")[1]["worker"].startswith(tag + ".")
    wait_for(lambda: c.exists("escape:mail"), 60)
    assert record(c)[b"error_class"] == b"Cancelled" and b.wait_event("message_cancelled", id="m1")
    wait_for(lambda: " ended " in order_of(c)[1])
    assert order_of(c)[1].endswith(" ended escaped")


def test_an_equal_message_that_came_later_runs(redis, quredisd, handler, ledger, tmp):
    """Also if Redis went back, so that an order is there again whose message has ended."""
    c = redis.client()
    gated = "m=$(tail -n 1)\n" + GATED.replace("read -r m", "")
    d = quredisd(queues=[queue("mail", handler(gated))])
    c.lpush("ingress:mail", message("m1"))
    wait_for(lambda: ledger.rows("start"))
    cancel(d, "m1", "--no-wait")
    field, order = order_of(c)
    wait_for(lambda: " ended escaped" in order_of(c)[1])
    c.delete("escape:mail", "escape:mail:log")
    c.lpush("ingress:mail", message("m1"))
    wait_for(lambda: len(ledger.rows("start")) == 2)
    c.hset(CANCELS, field, order)
    before = reads(c)
    wait_for(lambda: reads(c) >= before + 3, 30)
    (tmp / "go").touch()
    wait_for(lambda: " ended not_running" in order_of(c)[1], 30)
    assert not c.exists("escape:mail") and "end m1" in ledger.lines()


def test_a_shared_queue(redis, quredisd, handler, ledger, tmp):
    """There the counts of a message stand in its note."""
    c = redis.client()
    body = handler("m=$(tail -n 1)\n[ -e @TMP@/again ] || exit 65\n" + GATED.replace("read -r m", ""))
    d = quredisd(queues=[queue("mail", body, shared=True)])
    names = ["quredis/1 id=m1 ttl=1h\nm1", "quredis/1 id=long ttl=1h\n" + "x" * 100_000 + "\nm2"]
    c.lpush("ingress:mail", *names)
    wait_for(lambda: c.llen("escape:mail") == 2)
    (tmp / "again").touch()
    assert d.quredis("dlq", "retry", "mail", "--all", "--yes").code == 0
    for n, name in enumerate(["m1", "long"]):
        wait_for(lambda: len(ledger.rows("start")) == n + 1)
        code, out, err = cancel(d, name)
        assert (code, out and out["result"]) == (0, "escaped"), err
    assert sorted(c.lrange("escape:mail", 0, -1)) == sorted(n.encode() for n in names) and not d.events("message_done")
