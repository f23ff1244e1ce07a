"""quredis doctor --fix: lost messages, and bringing them back."""
import json
import signal
import subprocess
import time

import pytest

from harness import wait_for
from harness.clinic import GONE, LEASE_S
from harness.queues import Queue, dumps, incarnation, wrapper



# ---- lost messages, and bringing them back ----

def lose(clinic, inc=GONE, **trays):
    """Leaves messages of a worker whose registration was deleted."""
    q = Queue(clinic.client)
    q.worker(inc, alive=False, **trays)
    clinic.client.hdel(q.workers, inc)
    return q


def test_lost(clinic):
    q = lose(clinic, t0=["a", "b"], t2=["c"], rescue=["d"])
    before = dumps(clinic.client)
    r = clinic.doctor()
    row = r.one("lost", "error", "4 messages in trays of a worker that is not registered", where=GONE, advice="--fix")
    assert r.code == 2 and row["fixable"] and row["queue"] == "mail"
    start = time.monotonic()
    assert "would fix" in clinic.doctor("--fix", "--dry-run").bad("lost")[0]["advice"]
    assert time.monotonic() - start < LEASE_S and dumps(clinic.client) == before
    # another host's workers are more patient than ours: who is lost may be of that host
    clinic.client.hset("transit:other:workers", incarnation(3), json.dumps({"lock": "l", "node": "w", "since": 1, "lease": 2500}))
    Queue(clinic.client, "other")
    start = time.monotonic()
    r = clinic.doctor("--fix")
    assert time.monotonic() - start >= 2.5 and r.bad("lost")[0]["fixed"] and "waiting a lease (2500ms)" in r.err
    got = [m.split(b"\n", 1)[1] for m in q.fetched()]
    assert sorted(got) == [b"a", b"b", b"c", b"d"] and all(wrapper(m)["redelivered"] == "1" for m in q.fetched())
    assert not clinic.client.keys("transit:mail*")
    clinic.doctor().good("lost")


def test_lost_of_a_shared_queue(clinic):
    """Neither the configuration nor the registry says that the queue is shared; the registration of a worker does."""
    clinic.configure(clinic.queue("other"))
    q = lose(clinic, t0=["a"])
    clinic.client.hset(q.workers, incarnation(3), json.dumps({"lock": "l", "node": "w", "since": 1, "shared": True}))
    assert clinic.doctor("--fix").bad("lost")[0]["fixed"]
    assert q.fetched() == [b"a"] and list(clinic.client.hgetall("quredis:of:ingress:mail:notes").values()) == [b"redelivered=1"]


def test_lost_is_run_once_each(clinic, ledger):
    """The whole way: a live supervisor, a loss, doctor --fix, and every message runs once more, flagged; what runs stays."""
    handler = ledger.recorder()
    slow = clinic.tmp / "slow"
    slow.write_text(f"#!/bin/sh\ncat >>{clinic.tmp}/slow.out\necho >>{clinic.tmp}/slow.out\nwhile ! [ -e {clinic.tmp}/go ]; do sleep 0.05; done\n")
    slow.chmod(0o755)
    clinic.configure(clinic.queue(handler=handler, workers=2, run_as=None), clinic.queue("slow", slow, run_as=None, timeout="5m"), start=True,
                     supervisor={"user": None})
    clinic.client.lpush("ingress:slow", "in work")
    wait_for(lambda: (clinic.tmp / "slow.out").exists())
    messages = [b"lost%d" % i for i in range(25)] + [b"same"] * 5
    lose(clinic, t0=messages[:10], t1=messages[10:20], rescue=messages[20:])
    live = dumps_of(clinic, "transit:slow:*:[012]")
    r = clinic.doctor("--fix")
    assert r.bad("lost")[0]["fixed"] and len(live) == 1
    assert dumps_of(clinic, "transit:slow:*:[012]") == live, "what a live worker holds is left alone"
    wait_for(lambda: len([r for r in ledger.runs() if r.what == "end"]) >= len(messages))
    wait_for(lambda: not clinic.client.llen("ingress:mail") and not clinic.client.keys("transit:mail:*:[012]"))
    assert sorted(r.payload for r in ledger.runs() if r.what == "end") == sorted(messages)
    assert all(r.redelivered == "1" for r in ledger.runs())
    clinic.doctor().good("lost")
    (clinic.tmp / "go").touch()
    wait_for(lambda: not clinic.client.keys("transit:slow:*:[012]"))
    assert (clinic.tmp / "slow.out").read_text() == "in work\n", "it ran once"


def dumps_of(clinic, pattern):
    return {k: clinic.client.dump(k) for k in clinic.client.keys(pattern)}


@pytest.mark.parametrize("sign", ["lease", "registration", "push", "pop", "equal"])
def test_lost_and_found_alive(clinic, sign):
    """If the worker shows any sign of life within the lease, doctor changes nothing."""
    q = lose(clinic, t0=["a", "b", "a"])
    tray = f"transit:mail:{GONE}:0"
    process = subprocess.Popen(clinic.command("--fix", "--json"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert b"waiting a lease" in process.stderr.readline()
    if sign == "lease":
        clinic.client.set(f"transit:mail:lease:{GONE}", 1, px=60000)
    elif sign == "registration":
        clinic.client.hset(q.workers, GONE, "{}")
    elif sign == "push":
        clinic.client.lpush(tray, "z")
    elif sign == "pop":
        clinic.client.lpop(tray)
    else:
        clinic.client.lrem(tray, 1, "a")
        clinic.client.rpush(tray, "a", "a")
    there = dumps(clinic.client)
    out, err = process.communicate(timeout=30)
    row = next(r for r in json.loads(out) if r["check"] == "lost")
    assert not row["fixed"] and "not fixed: its trays changed" in row["advice"] and process.returncode == 2
    assert dumps(clinic.client) == there and b"1 fixed" not in err


def test_lost_while_redis_stands_still(clinic):
    """A worker that could not renew is not dead: the lease begins again when Redis continues."""
    lose(clinic, t0=["a"])
    process = subprocess.Popen(clinic.command("--fix", "--json"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert b"waiting a lease" in process.stderr.readline()
    pulses = clinic.client.info("commandstats")["cmdstat_time"]["calls"]
    wait_for(lambda: clinic.client.info("commandstats")["cmdstat_time"]["calls"] > pulses + 1)
    clinic.server.signal(signal.SIGSTOP)
    time.sleep(LEASE_S)     # the interruption itself
    start = time.monotonic()
    clinic.server.signal(signal.SIGCONT)
    out, _ = process.communicate(timeout=60)
    assert time.monotonic() - start >= LEASE_S
    assert next(r for r in json.loads(out) if r["check"] == "lost")["fixed"]


def test_lost_and_interrupted(clinic):
    clinic.configure(supervisor={"lease": "60s"})
    lose(clinic, t0=["a"])
    before = dumps(clinic.client)
    process = subprocess.Popen(clinic.command("--fix", "--json"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert b"waiting a lease" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGINT and {k: v for k, v in dumps(clinic.client).items() if k in before} == before
    assert "interrupted" in next(r for r in json.loads(out) if r["check"] == "lost")["advice"]


def test_lost_tray_of_another_type(clinic):
    clinic.registered()
    clinic.client.set(f"transit:mail:{GONE}:0", "x")
    row = clinic.doctor("--fix").one("lost", "warning", "one of its trays is not a list")
    assert not row["fixable"] and clinic.client.get(f"transit:mail:{GONE}:0") == b"x"


def test_many_lost_are_counted(clinic):
    clinic.registered()
    for i in range(1025):
        clinic.client.rpush(f"transit:mail:{incarnation(i, node='gone')}:0", "x")
    rows = clinic.doctor().bad("lost")
    assert len(rows) == 1001 and "25 more findings like these" in rows[-1]["what"] and rows[-1]["severity"] == "error"
    assert len(clinic.doctor("--fix").bad("lost")) == 1001
    assert len(clinic.doctor("--fix").bad("lost")) == 25
    clinic.doctor().good("lost")
    assert clinic.client.llen("ingress:mail") == 1025
