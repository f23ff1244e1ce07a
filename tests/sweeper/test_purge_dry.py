"""With producers and workers stopped a dry run names exactly what the live run that follows moves, of every kind and beyond the first page."""
import json

from harness import queue, wait_for
from harness.control import status
from harness.messages import sealed_all
from harness.queues import Queue, sha1, written

N = 10000
HOUR = 3600 * 1000


def in_pipes(c, calls, size=500):
    for i in range(0, len(calls), size):
        pipe = c.pipeline(transaction=False)
        for call in calls[i:i + size]:
            getattr(pipe, call[0])(*call[1:-1], **call[-1])
        pipe.execute()


def header(**keys):
    return ("quredis/1 " + " ".join(f"{k}={v}" for k, v in keys.items()) + "\n").encode()


def stale(d, *names):
    """(queue, list, rule) -> how many, by the command line."""
    answer = json.loads(d.quredis("stale", "--json", *names).out)
    return {(q["name"], r["list"], r["rule"]): r["count"] for q in answer["queues"] for r in q["rules"]}


def ids(c, key):
    return {i.decode() for i, _ in c.xrange(key)}


def fill(c):
    """Of each kind so many that are to go, and some between them and behind them that are to stay."""
    seconds, micros = c.time()
    now = seconds * 1000 + micros // 1000
    q, done, kept = Queue(c, register=False), Queue(c, "done", register=False), Queue(c, "kept", register=False)
    waiting = [header(id=f"o{i}", enqueued=now - 2 * HOUR if i % 50 else now) + b"m" for i in range(N)]
    in_pipes(c, [("lpush", q.ingress, *waiting[i:i + 500], {}) for i in range(0, N, 500)])
    late = [header(w=f"{i:016x}", first_failed=now - 2 * HOUR) + header(id=f"d{i}") + b"m" for i in range(1000)]
    c.zadd(q.delayed, {m: now + HOUR + i for i, m in enumerate(sealed_all(c, late))})
    fields = {"id": "x", "error_class": "HandlerExit"}
    records = [(b"m%d" % i, i % 500 == 499) for i in range(N)]      # one in 500 has its dead letter
    in_pipes(c, [("xadd", q.log, {**fields, "sha1": sha1(m)}, {"id": f"{1000 + i}-1"})
                 for i, (m, _) in enumerate(records)])
    c.lpush(q.escape, *[m for m, there in records if there])
    few = []
    for i in range(300):                                            # a list that is longer than a page
        few += [kept.record(b"gone")] if i < 90 else []
        kept.dead_letters(b"%d" % i)
    for key, first in ((f"{done.own}:done", 1000), (f"{q.own}:done", now)):
        in_pipes(c, [("xadd", key, {"id": f"h{i}"}, {"id": f"{first + i // 3}-{i % 3 + 1}"}) for i in range(N if first == 1000 else 10)])
    return few


def test_ten_thousand_of_each(redis, quredisd, handler):
    c = redis.client()
    few = fill(c)
    queues = [queue(name, handler("cat"), workers=0) for name in ("mail", "done", "kept")]
    limits = {"max_message_age": "1h", "max_ingress_age": "7d", "max_done_age": "10m", "max_orphaned_age": "1s", "interval": "1h"}
    wait_for(lambda: c.time()[0] * 1000 > int(few[-1].split("-")[0]) + 3000)
    d = quredisd(queues=queues, purge={"enabled": True, "dry_run": True, **limits})
    wait_for(lambda: all(c.exists(f"quredis:of:ingress:{q}:sweeper") for q in ("mail", "done", "kept")))
    before, digest = {k: ids(c, k) for k in ("escape:mail:log", "escape:kept:log", "quredis:of:ingress:done:done", "quredis:of:ingress:mail:done")}, written(c)
    orphans = N - N // 500
    wait_for(lambda: status(d, "done")["counters"]["would_purge"] == N, 40)
    wait_for(lambda: status(d, "mail")["counters"]["would_purge"] == N - N // 50 + 1000 + orphans, 60)
    wait_for(lambda: status(d, "kept")["counters"]["would_purge"] == len(few), 40)
    assert written(c) == digest
    for event, lines in [("orphan_would_be_removed", orphans + len(few)), ("history_would_be_removed", N), ("message_would_escape", N - N // 50 + 1000)]:
        wait_for(lambda: len(d.events(event)) == lines, 40)      # a page is counted before its lines are logged
    named = {(e["queue"], e["record"]) for e in d.events("orphan_would_be_removed")}
    entries = {(e["queue"], e["entry"], e["id"]) for e in d.events("history_would_be_removed")}
    messages = {e["id"] for e in d.events("message_would_escape")}
    assert len(named) == orphans + len(few) and len(entries) == N and len(messages) == N - N // 50 + 1000
    counted = stale(d)
    assert counted["mail", "ingress", "max_message_age"] + counted["mail", "delayed", "max_message_age"] == len(messages)
    assert counted["mail", "delayed", "max_message_age"] == 1000 and counted["mail", "records", "max_orphaned_age"] == orphans
    assert counted["done", "done", "max_done_age"] == N and counted["kept", "records", "max_orphaned_age"] == len(few)
    assert sum(counted.values()) == len(messages) + len(named) + len(entries) and written(c) == digest
    d.reload(purge={"enabled": True, **limits})
    wait_for(lambda: not c.exists("quredis:of:ingress:done:done"), 40)
    wait_for(lambda: c.xlen("escape:mail:log") == N // 500 + len(messages) and c.xlen("escape:kept:log") == 300, 60)
    d.wait_event("purge_done", queue="mail", messages=str(len(messages)))
    gone = {("mail", i) for i in before["escape:mail:log"] - ids(c, "escape:mail:log")} | {("kept", i) for i in before["escape:kept:log"] - ids(c, "escape:kept:log")}
    assert gone == named
    assert {(q, i) for q, i, _ in entries} == {("done", i) for i in before["quredis:of:ingress:done:done"]}
    assert ids(c, "quredis:of:ingress:mail:done") == before["quredis:of:ingress:mail:done"]
    assert {f[b"id"].decode() for i, f in c.xrange("escape:mail:log") if i.decode() not in before["escape:mail:log"]} == messages
    assert int(d.wait_event("history_purged", queue="done")["entries"]) == N
    assert d.stop() == 0
