"""What the death of a worker charges: an ordered stop charges nothing, an outage nothing at first, and a message that causes every outage is
charged in the end."""
import json
import os
import signal

import pytest

from harness import queue, wait_for
from harness.messages import anywhere, record, sealed, stray_keys, trays, unwrap

# "start NAME REDELIVERED PID", then waits until @TMP@/go or @TMP@/go-NAME is there, "end NAME"
GATED = """
read -r m
echo "start $m $QUREDIS_REDELIVERED $$" >>@LEDGER@
while ! [ -e @TMP@/go ] && ! [ -e @TMP@/go-"$m" ]; do sleep 0.05; done
echo "end $m" >>@LEDGER@
"""


def starts(ledger, name=None):
    return [r for r in ledger.rows("start") if name in (None, r[0])]


def registrations(c):
    return {k.decode(): json.loads(v) for k, v in c.hgetall("transit:mail:workers").items() if v.startswith(b"{")}


def stopping(c):
    """Incarnations that Redis knows were ordered to stop, and that are not dead yet."""
    return [k for k, v in registrations(c).items() if v.get("stopping") and "died_at" not in v]


def says(c, body):
    """Returns what the wrapper or note says of this message, which must be in exactly one place."""
    found = [unwrap(m) for m in anywhere(c, "mail")]
    found = [w for w, m in found if m == body.encode()]
    return found[0] if len(found) == 1 else None


def assert_done(c, d, ledger, names):
    wait_for(lambda: not anywhere(c, "mail"), 60, "everything to be done")
    assert sorted(name for (name,) in ledger.rows("end")) == sorted(names)
    assert c.llen("escape:mail") == 0 and d.stop() == 0 and stray_keys(c, "mail") == []


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGQUIT], ids=["drain", "fast"])
def test_a_stop_that_ends_in_sigkill_charges_nobody(redis, quredisd, handler, ledger, tmp, sig):
    """As `docker stop`: SIGTERM, then SIGKILL for the whole container while the handler still runs, again and again."""
    c = redis.client()
    c.lpush("ingress:mail", "job")
    body = "trap '' TERM\n" + GATED
    d = quredisd(queues=[queue("mail", handler(body), recovery_attempts=0)], supervisor={"drain_timeout": "10m", "kill_grace": "10m"})
    for n in range(1, 5):
        wait_for(lambda: len(starts(ledger)) == n, 30, "the job to run")
        d.signal(sig)
        wait_for(lambda: len(stopping(c)) == 1, 20, "Redis to know of the order")
        d.kill_tree()
        if n < 4:
            d.start()
    assert starts(ledger)[3][1] == "1" and c.llen("escape:mail") == 0
    (tmp / "go").touch()
    d.start()
    assert_done(c, d, ledger, ["job"])


def test_the_order_is_written_as_soon_as_redis_is_back(redis, redis_proxy, quredisd, handler, ledger):
    """Redis does not answer when the stop is ordered. The worker writes the order later, under its new incarnation."""
    proxy, c = redis_proxy(redis), redis.client()
    c.lpush("ingress:mail", "job")
    d = quredisd(redis=proxy, queues=[queue("mail", handler(GATED))], supervisor={"drain_timeout": "10m"})
    wait_for(lambda: starts(ledger))
    before = set(registrations(c))
    proxy.refuse()
    proxy.cut()
    d.signal(signal.SIGTERM)
    d.wait_event("stopping")
    assert stopping(c) == []
    proxy.refuse(False)
    wait_for(lambda: stopping(c), 40, "Redis to know of the order")
    assert not before & set(stopping(c))
    # and once more: what a new connection finds may be an older state
    known = set(stopping(c))
    proxy.cut()
    wait_for(lambda: set(stopping(c)) - known, 40, "the next name to say so, too")
    d.kill_tree()


@pytest.mark.parametrize("rolled_back", [False, True], ids=["never-written", "rolled-back"])
def test_stops_that_redis_does_not_know_of(redis, redis_proxy, quredisd, handler, ledger, tmp, rolled_back):
    """The order was not written before the SIGKILL, or a failover undid the write. Two such deaths charge no message."""
    proxy, c = redis_proxy(redis), redis.client()
    c.lpush("ingress:mail", "job")
    d = quredisd(redis=proxy, queues=[queue("mail", handler(GATED), recovery_attempts=0)], supervisor={"drain_timeout": "10m"})
    for n in (1, 2):
        wait_for(lambda: len(starts(ledger)) == n, 30, "the job to run")
        if not rolled_back:
            proxy.refuse()
            proxy.cut()
        before = c.hgetall("transit:mail:workers")
        d.signal(signal.SIGTERM)
        d.wait_event("stopping", since=d._first_line)
        if rolled_back:
            wait_for(lambda: stopping(c), 20, "Redis to know of the order")
        d.kill_tree()
        c.delete("transit:mail:workers")
        c.hset("transit:mail:workers", mapping=before)
        assert stopping(c) == []
        proxy.refuse(False)
        d.start()
        wait_for(lambda: (w := says(c, "job")) and w.get("outages") == n, 20, "the outage to be noted")
        assert "crashes" not in says(c, "job")
    (tmp / "go").touch()
    assert_done(c, d, ledger, ["job"])


def test_two_deaths_in_one_slot(redis, quredisd, handler, ledger, tmp):
    """The next worker of the slot dies before a sweeper has answered the report of the first death. Each worker's message is charged once."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler(GATED), workers=1)])
    d.wait_workers("mail", 1)
    d.wait_event("queue_recovered", queue="mail")
    sweeper = d.sweeper()
    os.kill(sweeper, signal.SIGSTOP)
    for n, name in enumerate(("a", "b"), 1):
        c.lpush("ingress:mail", name)
        wait_for(lambda: starts(ledger, name), 10, f"{name} to run")
        os.kill(next(iter(d.workers("mail").values())), signal.SIGKILL)
        wait_for(lambda: len(d.events("worker_died", queue="mail")) == n, 10)
    assert len({e["slot"] for e in d.events("worker_started", queue="mail")}) == 1
    os.kill(sweeper, signal.SIGKILL)        # its successor must get both reports
    for name in ("a", "b"):
        wait_for(lambda: (w := says(c, name)) and w.get("crashes") == 1 and "outages" not in w, 20, f"{name} is charged once")
    (tmp / "go").touch()
    assert_done(c, d, ledger, ["a", "b"])


def test_workers_that_die_together_charge_nobody(redis, quredisd, handler, ledger, tmp):
    """The supervisor lives. Their messages run again, alone and flagged."""
    c = redis.client()
    names = ["a", "b", "c"]
    c.lpush("ingress:mail", *names)
    d = quredisd(queues=[queue("mail", handler(GATED), workers=3, recovery_attempts=0)])
    for n in (1, 2):
        wait_for(lambda: len(starts(ledger)) == 3 * n or n == 2 and starts(ledger)[3:], 60, "all to run")
        workers = d.workers("mail").values()
        os.kill(d.pid, signal.SIGSTOP)
        for pid in workers:
            os.kill(pid, signal.SIGKILL)
        os.kill(d.pid, signal.SIGCONT)
        wait_for(lambda: all((w := says(c, m)) and w.get("outages") == n and "crashes" not in w for m in names), 40, f"outage {n}")
    (tmp / "go").touch()
    assert_done(c, d, ledger, names)
    assert all(r[1] == "1" for r in starts(ledger)[3:])


@pytest.mark.limit(240)
def test_a_worker_that_stands_still_charges_nobody(redis, quredisd, handler, ledger, tmp):
    """Somebody stopped it, twice in a row, for so long that the master replaces it. Its message did nothing."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler(GATED), recovery_attempts=0, timeout="5s")])
    c.lpush("ingress:mail", "job")
    for n in (1, 2):
        wait_for(lambda: len(starts(ledger)) == n, 60, "the job to run")
        mark = d.mark()
        os.kill(d.workers()["mail/0"], signal.SIGSTOP)
        d.wait_event("worker_died", 60, mark)
    wait_for(lambda: len(starts(ledger)) == 3, 60, "the job to run")
    assert "crashes" not in says(c, "job")
    (tmp / "go").touch()
    assert_done(c, d, ledger, ["job"])


def test_a_message_that_kills_its_container_is_found(redis, quredisd, handler, ledger, tmp):
    """Out of memory: every process of the supervisor dies at once, each time. The message escapes at the fourth outage, and no other message
    escapes."""
    c = redis.client()
    innocent = ["a", "b"]
    c.lpush("ingress:mail", "a", "poison", "b")
    d = quredisd(queues=[queue("mail", handler(GATED), workers=3)])
    for outage in (1, 2):
        wait_for(lambda: len(starts(ledger)) == 3 * outage, 40, "all three to run beside each other")
        d.kill_tree()
        if outage == 2:
            for m in innocent:
                (tmp / f"go-{m}").touch()
        d.start(wait=False)
    for tried in (1, 2):
        wait_for(lambda: len(starts(ledger, "poison")) == 2 + tried, 60, "the poison to be tried")
        d.kill_tree()
        d.start(wait=False)
    wait_for(lambda: c.lrange("escape:mail", 0, -1) == [b"poison"], 60, "the poison to escape")
    r = record(c, "mail")
    assert (r["error_class"], r["crashes"], d.runs) == (b"WorkerLost", b"2", 5)
    wait_for(lambda: not anywhere(c, "mail"), 60, "the others to be done")
    assert c.llen("escape:mail") == 1
    # one trial at a time: none began while another message's was under way
    lines = [line.split()[:2] for line in ledger.lines()][6:]
    assert sorted(m for what, m in lines if what == "end") == innocent
    assert all(lines[i + 1] == ["end", m] for i, (what, m) in enumerate(lines) if what == "start" and m != "poison"), lines


def suspect(c, queue_name, body):
    """Pushes a message that was in flight in two outages."""
    line = f"quredis/1 w={len(body):016x} redelivered=2 solo=1 outages=2\n{body}"
    c.lpush(f"ingress:{queue_name}", sealed(c, line, f"ingress:{queue_name}"))


def test_a_refused_move_ends_the_trial(redis, quredisd, handler, ledger):
    """Redis refuses the escape of the message after its handler ended: the trial of another queue's message does not wait for it."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler('echo "ran $(cat)" >>@LEDGER@; exit 65')),
                         queue("news", handler('echo "ran $(cat)" >>@LEDGER@'))])
    for name in "mail", "news":         # a queue with a wrong type is not recovered
        d.wait_event("queue_recovered", queue=name)
    c.set("escape:mail", "no list")
    suspect(c, "mail", "a")
    wait_for(lambda: ledger.count("ran a"), 20)
    suspect(c, "news", "b")
    wait_for(lambda: ledger.count("ran b"), 20, "the trial of the other queue's suspect")
    assert all("trial" not in r or r["trial"] == "" for r in registrations(c).values())
    c.delete("escape:mail")
    wait_for(lambda: c.lrange("escape:mail", 0, -1) == [b"a"] and not anywhere(c, "mail"), 40)
    assert ledger.lines() == ["ran a", "ran b"]


def test_a_suspect_that_waits_for_its_trial_holds_up_nobody(redis, quredisd, handler, ledger, tmp):
    c = redis.client()
    quredisd(queues=[queue("mail", handler(GATED)), queue("news", handler(GATED))])
    suspect(c, "mail", "a")
    wait_for(lambda: starts(ledger, "a"), 20)
    (tmp / "go-b").touch()
    suspect(c, "news", "late")
    c.lpush("ingress:news", "b")
    wait_for(lambda: ledger.count("end b"), 20, "what came after the suspect")
    wait_for(lambda: len(anywhere(c, "news")) == 1, 20, "the acknowledgement")
    assert not starts(ledger, "late")
    (tmp / "go").touch()
    wait_for(lambda: not anywhere(c, "mail") and not anywhere(c, "news"), 40)
    assert [r[:2] for r in starts(ledger, "late")] == [["late", "1"]] and c.llen("escape:news") == 0


def test_two_servers_behind_one_address(redis, redis_server, redis_proxy, quredisd, handler, ledger, tmp):
    """Failovers between two servers, again and again. No process died, so no message is charged, and messages under older names return."""
    servers = [redis, redis_server()]
    a, b = (s.client() for s in servers)
    proxy = redis_proxy(redis)
    once = GATED.replace('[ -e @TMP@/go-"$m" ]', 'rm @TMP@/go-"$m" 2>/dev/null')         # lets one run through, and not the next
    assert once != GATED
    d = quredisd(redis=proxy, queues=[queue("mail", handler(once), recovery_attempts=0)])
    a.lpush("ingress:mail", "job")
    for n in (1, 2, 3):
        wait_for(lambda: len(starts(ledger)) == n, 60, "the job to run")
        names = set(registrations(a))
        mark = d.mark()
        proxy.forward_to(servers[1])
        d.wait_event("claim_lost", 60, mark)            # it has its new name on the other server, and found nothing there
        proxy.forward_to(servers[0])
        wait_for(lambda: set(registrations(a)) - names, 60, "the worker back on the first one")
        # it runs what it lost still: nobody else may, before that has ended or its lease
        assert len(starts(ledger)) == n and len([m for held in trays(a, "mail").values() for m in held]) == 1
        (tmp / "go-job").touch()
        wait_for(lambda: len([line for line in ledger.lines() if line == "end job"]) == n, 60, "the first run to end")
    wait_for(lambda: len(starts(ledger)) == 4, 60, "the job to run")
    assert {r[1] for r in starts(ledger)[1:]} == {"1"}
    w = says(a, "job")
    assert w["redelivered"] == 3 and "crashes" not in w and "outages" not in w
    (tmp / "go").touch()
    assert_done(a, d, ledger, ["job"] * 4)
    assert not anywhere(b, "mail") and b.llen("escape:mail") == 0


def test_a_host_that_lost_a_server_for_good(redis, redis_server, redis_proxy, quredisd, handler, ledger, tmp, tag):
    """The workers of a living host moved to another server. Workers that stayed see a vanished host, and charge no message."""
    other = redis_server()
    c, proxy = redis.client(), redis_proxy(redis)
    body = handler(GATED)
    a = quredisd(redis=proxy, queues=[queue("mail", body, recovery_attempts=0)], supervisor={"lease": "1s"})
    c.lpush("ingress:mail", "job")
    wait_for(lambda: len(starts(ledger)) == 1)
    b = quredisd(redis=redis, queues=[queue("mail", body, recovery_attempts=0)], supervisor={"lease": "1s", "node": tag + "b"})
    proxy.forward_to(other)
    wait_for(lambda: len(starts(ledger)) == 2, 60)
    w = says(c, "job")
    assert w["outages"] == 1 and "crashes" not in w
    (tmp / "go").touch()
    wait_for(lambda: not anywhere(c, "mail"), 60)
    assert c.llen("escape:mail") == 0 and a.stop() == 0 and b.stop() == 0
