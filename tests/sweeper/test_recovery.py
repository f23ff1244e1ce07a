"""What a start finds: dead owners, their handlers, the bare list, and being killed in the middle of it."""
import collections
import json
import os
import random
import signal
import time

import pytest

from harness import ROOT, alive, queue, wait_for
from harness.messages import anywhere, in_transit, unwrap
from harness.redis_proxy import Tap

# "start NAME REDELIVERED", and a grandchild in a session of its own that only SIGKILL ends
LINGERS = """
read -r m
setsid sh -c 'trap "" TERM INT HUP; echo "grandchild $$" >>@LEDGER@; exec >/dev/null 2>&1; while :; do sleep 1; done' &
echo "start $m $QUREDIS_REDELIVERED" >>@LEDGER@
while ! [ -e @TMP@/go ]; do sleep 0.05; done
echo "end $m" >>@LEDGER@
"""


def kill_all_at_once(d):
    """The whole tree in one blow, as the OOM killer or an impatient person may."""
    pids = [d.pid, *d.children()]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    for pid in reversed(pids):
        os.kill(pid, signal.SIGKILL)
    d.wait_exit()


def test_handlers_of_the_dead_are_gone_before_their_messages_run_again(redis, quredisd, handler, ledger, tmp):
    d = quredisd(queues=[queue("mail", handler(LINGERS), workers=1)])
    redis.client().lpush("ingress:mail", "m")
    wait_for(lambda: len(ledger.lines()) == 2)
    old = [int(line.split()[1]) for line in ledger.lines() if line.startswith("grandchild")]
    kill_all_at_once(d)
    assert alive(old[0]), "nothing is left that the start could find"
    d.start()
    wait_for(lambda: sum(line.startswith("start m") for line in ledger.lines()) == 2)
    assert not alive(old[0])
    assert [line for line in ledger.lines() if line.startswith("start")][1] == "start m 1"
    assert d.events("handlers_killed")
    (tmp / "go").touch()
    wait_for(lambda: ledger.count("end m") == 1)
    assert d.stop() == 0
    assert in_transit(redis.client(), "mail") == []


@pytest.mark.limit(300)
def test_starts_killed_one_after_the_other(redis_server, quredisd, handler, ledger):
    """Thousands in the bare list, some in trays of the dead; every start is killed a little later than the one before."""
    redis = redis_server(aof="always")
    c = redis.client()
    names = [f"bare{i}" for i in range(3000)]
    for i in range(0, len(names), 500):
        c.lpush("transit:mail", *names[i:i + 500])
    d = quredisd(redis=redis, queues=[queue("mail", handler("cat >>@LEDGER@; echo >>@LEDGER@"), workers=0)], start=False)
    for i in range(25):
        d.start(wait=False)
        time.sleep(0.02 + 0.004 * i + random.random() * 0.01)    # any moment will do: this is not synchronisation
        kill_all_at_once(d) if i % 2 else d.kill9()
    found = collections.Counter(unwrap(m)[1] for m in anywhere(c, "mail"))
    assert found == collections.Counter(n.encode() for n in names)
    d.start()
    d.wait_event("queue_recovered", queue="mail", since=d._first_line)
    assert c.llen("ingress:mail") == len(names)
    assert [unwrap(m)[1] for m in c.lrange("ingress:mail", 0, -1)] == [n.encode() for n in reversed(names)]
    assert in_transit(c, "mail") == []
    assert d.stop() == 0


@pytest.mark.limit(300)
def test_sweeper_killed_again_and_again_while_workers_die(redis_server, quredisd, handler, ledger):
    redis = redis_server(aof="always")
    c = redis.client()
    d = quredisd(redis=redis, queues=[queue("mail", ledger.recorder(seconds=0.01), workers=3, recovery_attempts=1000)])
    names = [f"m{i}" for i in range(200)]
    c.lpush("ingress:mail", *names)
    rng = random.Random(1)
    until = time.monotonic() + 15
    while len({r.payload for r in ledger.runs()}) < len(names) and time.monotonic() < until:
        victims = list(d.workers("mail").values())
        if victims and rng.random() < 0.2:
            victims = [rng.choice(victims)]
        else:
            victims = [p for p in [d.sweeper()] if p]
        for pid in victims:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(rng.random() * 0.2)
    wait_for(lambda: {r.payload.decode() for r in ledger.runs()} == set(names), 120)
    wait_for(lambda: anywhere(c, "mail") == [], 60)
    seen = collections.Counter()
    for run in ledger.runs():
        assert not seen[run.payload] or run.redelivered == "1", f"{run.payload} ran twice unflagged"
        seen[run.payload] += 1
    assert d.stop() == 0


def test_a_broken_queue_does_not_hold_up_the_start_of_others(redis, quredisd, handler, ledger):
    c = redis.client()
    h = handler("cat >>@LEDGER@; echo >>@LEDGER@")
    c.set("transit:broken", "x")
    c.lpush("transit:mail", "left")
    c.lpush("ingress:broken", "waits")
    d = quredisd(queues=[queue("broken", h), queue("mail", h)], wait=False)
    wait_for(lambda: ledger.lines() == ["left"])
    told = d.wait_event("queue_error", queue="broken")
    assert "transit:broken is a string" in told["error"] and told["advice"]
    assert c.lrange("ingress:broken", 0, -1) == [b"waits"]
    c.delete("transit:broken")
    wait_for(lambda: ledger.lines() == ["left", "waits"])
    assert d.wait_event("queue_error_cleared", queue="broken")
    assert len(d.events("queue_error", queue="broken")) == 1, "one line a change"
    assert d.stop() == 0


def test_thousands_of_dead_names_do_not_hold_up_the_start(redis, quredisd, handler, ledger):
    """Each new connection leaves one for an hour. What came late into a tray of one of them is returned first all the same."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler("read -r m; echo $m $QUREDIS_REDELIVERED >>@LEDGER@"))])
    d.wait_workers("mail", 1)
    wait_for(lambda: c.hlen("transit:mail:workers"), what="its registration")
    registered = json.loads(next(iter(c.hgetall("transit:mail:workers").values())))
    assert d.stop() == 0
    registered["died_at"] = int(time.time() * 1000)
    names = [f"{d.tag}.{1000 + i // 500:016x}.1.{i}" for i in range(5000)]
    c.hset("transit:mail:workers", mapping={name: json.dumps(registered) for name in names})
    c.lpush(f"transit:mail:{names[2345]}:1", "late")
    c.lpush("ingress:mail", "m")
    mark = d.mark()
    d.start()
    wait_for(lambda: len(ledger.lines()) == 2)
    assert ledger.lines() == ["late 1", "m 0"]
    rescues = [e for e in d.events("rescue_done", since=mark) if "incarnation" in e]
    assert [(e["incarnation"], e["reason"], e["returned"]) for e in rescues] == [(names[2345], "late", "1")]
    assert d.stop() == 0


class AtTheFirstFence(Tap):
    """Does something when Redis has taken the first tray of the dead, and the sweeper does not know it yet."""

    def __init__(self, do):
        self.do = do

    def reply(self, pair, words, reply):
        if self.do and b"EVALSHA" in words and any(w.endswith(b":rescue") for w in words) and reply == b":1\r\n":
            do, self.do = self.do, None
            do()


def test_a_late_renewal_takes_nothing_from_a_rescue(redis, redis_proxy, quredisd, handler, ledger):
    """A worker that lost its connection asked for a new name, was killed, and that arrives when its messages are being returned:
    neither was alone, so neither is charged."""
    c, proxy = redis.client(), redis_proxy(redis)
    d = quredisd(redis=proxy, supervisor={"lease": "2s"}, queues=[queue("mail", handler('echo "start" >>@LEDGER@; sleep 600'), workers=1)])
    c.lpush("ingress:mail", "a")
    wait_for(lambda: ledger.count("start"))
    kill_all_at_once(d)
    (name, registration), = c.hgetall("transit:mail:workers").items()
    old, new = name.decode(), f"{name.decode()}1"
    c.lpush(f"transit:mail:{old}:2", "b")
    c.set("quredis:of:ingress:mail:paused", "test")

    def keys(who):
        return [f"transit:mail:lease:{who}", *(f"transit:mail:{who}:{i}" for i in range(3))]
    script = (ROOT / "common/queue/scripts/renew.lua").read_text()
    proxy.tap = AtTheFirstFence(lambda: c.eval(script, 9, "transit:mail:workers", *keys(new), *keys(old), 2000, new, registration, "", old,
                                               f"{old}:rescue"))
    d.start()
    wait_for(lambda: c.llen("ingress:mail") == 2, 30)
    assert proxy.tap.do is None and c.hexists("transit:mail:workers", new)
    found = {body: wrapper for wrapper, body in map(unwrap, c.lrange("ingress:mail", 0, -1))}
    assert {body: (w.get("solo"), w.get("crashes")) for body, w in found.items()} == {b"a": (1, None), b"b": (1, None)}
