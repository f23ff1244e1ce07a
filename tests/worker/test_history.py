"""done: a history of what is done, written with the acknowledgement, kept short, and never the reason for anything else."""
import hashlib
import json
import re

import pytest

from harness import queue, wait_for
from harness.control import status
from harness.messages import anywhere, stray_keys
from harness.redis_proxy import script_hash

PERSISTENT = """import sys
while head := sys.stdin.buffer.readline():
    _, serial, _, size = head.split()[:4]
    body = sys.stdin.buffer.read(int(size) + 1)[:-1]
    print("FAIL" if body.startswith(b"bad") else "OK", int(serial), flush=True)
"""
EXEC = "case $(head -c 3) in bad) exit 3;; esac; cat >/dev/null"


def history(c, name="mail"):
    return [(i, f) for i, f in c.xrange(f"quredis:of:ingress:{name}:done")]


@pytest.mark.parametrize("mode", ["exec", "persistent"])
def test_each_is_there_once(redis, quredisd, quredis, handler, mode):
    c = redis.client()
    run = handler(PERSISTENT, "python") if mode == "persistent" else handler(EXEC)
    raw = [b"m%d\0\xff" % i for i in range(300 if mode == "persistent" else 40)] + [b"x" * 3000, b"quredis/1 id=a:b\nhi", b""]
    c.lpush("ingress:mail", *raw, *[b"bad %d" % i for i in range(5)])
    keys = {"mode": "persistent", "window": 8} if mode == "persistent" else {}
    d = quredisd(queues=[queue("mail", run, workers=3, done={"keep": 10000, "max_age": "1h", "payload": "2K"}, **keys),
                         queue("plain", handler("cat"))])
    wait_for(lambda: not anywhere(c, "mail"))
    wait_for(lambda: len(history(c)) == len(raw))
    found = [f for _, f in history(c)]
    assert sorted(f[b"message"] for f in found) == sorted(m if len(m) <= 2048 else b"" for m in raw)
    assert sorted(f[b"sha1"].decode() for f in found) == sorted(hashlib.sha1(m).hexdigest() for m in raw)
    one = next(f for f in found if f[b"message"] == raw[-2])
    assert one[b"id"] == b"a:b" and one[b"size"] == b"%d" % len(raw[-2]) and one[b"attempts"] == b"1" and int(one[b"duration_ms"]) >= 0
    assert one[b"node"].decode() == d.sections["supervisor"]["node"] and one[b"worker"].startswith(one[b"node"] + b".")
    assert c.llen("escape:mail") == 5
    rows = json.loads(quredis("--json", "done", "ls", "mail", "-n", "1000").out)
    assert [r["entry"] for r in rows] == [i.decode() for i, _ in reversed(history(c))]
    assert {r["id"] for r in rows} == {f[b"id"].decode() for f in found} and all(r["finished_at"].endswith("Z") for r in rows)
    assert len(json.loads(quredis("--json", "done", "ls", "mail", "-n", "2").out)) == 2
    assert all(isinstance(r["duration_ms"], int) for r in rows)
    assert re.search(r" [0-9.]+m?s +1 ", quredis("done", "ls", "mail", "-n", "1").out.splitlines()[1])      # its unit
    c.lpush("ingress:plain", "m")
    wait_for(lambda: status(d, "plain")["counters"]["done"] == 1)
    assert not c.exists("quredis:of:ingress:plain:done") and not stray_keys(c, "mail", "plain")
    assert d.stop() == 0


def test_it_is_kept_short(redis, quredisd, handler):
    """By number as it grows, by age afterwards; of a queue that keeps none any more by purge."""
    c = redis.client()
    run = handler(PERSISTENT, "python")
    mail = queue("mail", run, mode="persistent", window=8, done={"keep": 100, "max_age": "3s"})
    gone = queue("gone", handler("cat"))
    for i in range(500):
        c.xadd("quredis:of:ingress:gone:done", {"id": i}, id=f"{1000 + i}-1")
    d = quredisd(queues=[mail, gone])
    c.lpush("ingress:mail", *[b"m%d" % i for i in range(1500)])
    wait_for(lambda: status(d, "mail")["counters"]["done"] == 1500)
    seconds, micros = c.time()
    kept = history(c)
    assert len(kept) <= 300
    wait_for(lambda: not c.exists("quredis:of:ingress:mail:done"), 30)
    seconds, micros = c.time()
    assert all(seconds * 1000 + micros // 1000 - int(i.split(b"-")[0]) >= 3000 for i, _ in kept)
    assert c.xlen("quredis:of:ingress:gone:done") == 500
    purge = {"enabled": True, "max_done_age": "1h"}
    d.reload(queues=[mail, gone], purge={**purge, "dry_run": True})
    d.wait_event("purge_dry_run", queue="gone")
    assert c.xlen("quredis:of:ingress:gone:done") == 500
    d.reload(queues=[mail, gone], purge=purge)
    wait_for(lambda: not c.exists("quredis:of:ingress:gone:done"), 30)
    assert d.stop() == 0


def test_it_never_gets_in_the_way(redis, quredisd, handler):
    """Its key is of another type; Redis is full."""
    c = redis.client()
    c.set("quredis:of:ingress:mail:done", "no stream")
    d = quredisd(queues=[queue("mail", handler(PERSISTENT, "python"), mode="persistent", window=8, done={"keep": 100})])
    c.lpush("ingress:mail", *[b"m%d" % i for i in range(200)])
    wait_for(lambda: status(d, "mail")["counters"]["done"] == 200)
    assert not anywhere(c, "mail") and len(d.events("history_failed")) == 1
    assert status(d, "mail")["counters"]["claim_lost"] == 0
    c.delete("quredis:of:ingress:mail:done")
    c.lpush("ingress:mail", *[b"m%d" % i for i in range(20)])
    redis.config_set("maxmemory", "1mb")
    wait_for(lambda: status(d, "mail")["counters"]["done"] == 220)
    assert not anywhere(c, "mail")
    assert d.stop() == 0


@pytest.mark.parametrize("lost", ["request", "reply"])
def test_a_connection_lost_at_the_acknowledgement(redis_server, redis_proxy, quredisd, ledger, lost):
    """Whether it got there or not, it is in the history once, and handled once."""
    server = redis_server(tcp=True)
    c = server.client()
    proxy = redis_proxy(server)
    d = quredisd(redis=proxy, queues=[queue("mail", ledger.recorder(), done={"keep": 100})])
    script = script_hash("done")
    for i in range(3):
        getattr(proxy, f"lose_{lost}")(script)
        c.lpush("ingress:mail", f"m{i}")
        wait_for(lambda: len(history(c)) == i + 1 and not anywhere(c, "mail"), 40)
    assert [r.payload for r in ledger.runs()] == [b"m0", b"m1", b"m2"]
    assert [f[b"id"].decode() for _, f in history(c)] == [f"sha1:{hashlib.sha1(b'm%d' % i).hexdigest()}" for i in range(3)]
    assert d.stop() == 0


def test_a_lost_claim_is_not_in_it(redis, quredisd, ledger, handler, tmp):
    c = redis.client()
    run = handler("cat >/dev/null; while [ ! -e @TMP@/go ]; do sleep 0.05; done")
    d = quredisd(queues=[queue("mail", run, done={"keep": 100})])
    c.lpush("ingress:mail", "m")
    wait_for(d.handlers)
    assert c.delete(*c.keys("transit:mail:*:[0-2]")) == 1
    (tmp / "go").touch()
    wait_for(lambda: status(d, "mail")["counters"]["claim_lost"] == 1)
    assert not c.exists("quredis:of:ingress:mail:done")
    assert d.stop() == 0
