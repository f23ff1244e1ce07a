"""max_in_flight: messages that run at once on all hosts. The handlers count themselves, by locks of files that the kernel ends with them."""
import json
import os
import random
import signal
import threading
import time

import pytest

from harness import queue, wait_for
from harness.control import status
from harness.messages import anywhere
from harness.redis_proxy import script_hash

# A handler takes one of the locks, as long as it lives. There are as many as messages may run: one that finds none free writes "over".
ALONE = """
read -r m
for i in $(seq 1 @MAX@); do
	exec 9>@TMP@/lock$i
	flock -n 9 || continue
	echo "begin $m" >>@LEDGER@
	case $m in gate*) until [ -e @TMP@/$m ]; do sleep 0.02; done;; *) sleep 0.02;; esac
	echo "end $m $i" >>@LEDGER@
	exit 0
done
echo "over $m" >>@LEDGER@
"""
STAYS = """
import fcntl, os, sys, threading, time
def one(serial, lock):
    time.sleep(0.03)
    open('@LEDGER@', 'a').write('end ' + serial + '\\n')
    lock.close()
    os.write(1, f'OK {serial}\\n'.encode())
while line := sys.stdin.buffer.readline():
    _, serial, _, length, *_ = line.decode().split()
    sys.stdin.buffer.read(int(length) + 1)
    for i in range(@MAX@):
        lock = open(f'@TMP@/lock{i}', 'w')
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        threading.Thread(target=one, args=(serial, lock)).start()
        break
    else:
        open('@LEDGER@', 'a').write('over\\n')
        os.write(1, f'OK {serial}\\n'.encode())
"""
OWN, SHARED = "quredis:of:ingress:mail:seats", "quredis:throttle:api:seats"
MARKS = {b"limit", b"server", b"refused"}
SHORT, LONG = {"lease": "3s"}, {"lease": "1m"}
FENCED = {"fence": "kill", "kill_grace": "500ms"}


def known(c, key=OWN):
    """As if this server had counted the seats for long: it is not quiet. A test of what follows a restart does without."""
    server = c.info("server")
    c.hset(key, "server", f"{server['run_id']}. 0")


def taken(c, key=OWN):
    """What the hash says of each name."""
    return {field: int(value.split()[0]) for field, value in c.hgetall(key).items() if field not in MARKS}


def counted(handler, most, body=ALONE, lang="sh"):
    return handler(body.replace("@MAX@", str(most)), lang)


def limited(body, most, name="mail", **keys):
    return queue(name, body, **{"workers": 3, **FENCED, "max_in_flight": most, **keys})


def lines(ledger, word):
    return [line for line in ledger.lines() if line.startswith(word)]


def assert_never_more(ledger):
    assert lines(ledger, "over") == []


@pytest.mark.limit(240)
def test_two_queues_on_two_hosts_share_seats(redis, quredisd, handler, ledger, tag, tmp):
    """Never six of five, all five are used, and both queues go on."""
    c = redis.client()
    known(c, SHARED)
    body = counted(handler, 5)
    for name in ("mail", "sms"):
        c.lpush(f"ingress:{name}", *(f"gate{name}{n}" for n in range(4)), *(f"{name}{n}" for n in range(56)))
    shared = {"workers": 4, **FENCED, "throttle": "api"}
    supervisors = [quredisd(queues=[queue(name, body, **shared) for name in ("mail", "sms")], throttles=[{"name": "api", "max_in_flight": 5}],
                            supervisor={"node": tag + node, **LONG}) for node in "ab"]

    def throttled():
        return [q["reason"] for d in supervisors for q in status(d)["queues"] if q["state"] == "throttled"]
    assert all(reason.startswith("throttle api: 5 of 5 seats are taken") for reason in wait_for(throttled, 60)), throttled()
    wait_for(lambda: len(lines(ledger, "begin")) == 5, 30)
    for name in ("mail", "sms"):
        for n in range(4):
            (tmp / f"gate{name}{n}").write_text("")
    wait_for(lambda: len(lines(ledger, "end")) == 120, 120)
    assert_never_more(ledger)
    half = " ".join(lines(ledger, "end")[:60])
    assert half.count("mail") >= 6 and half.count("sms") >= 6
    wait_for(lambda: taken(c, SHARED) == {}, 30)
    assert all(d.stop() == 0 for d in supervisors)
    assert 0 < c.ttl(SHARED) <= 86400 and c.ttl(f"{SHARED}:free") != -1


@pytest.mark.limit(120)
def test_two_workers_take_turns(redis, quredisd, handler, ledger):
    """One seat, two queues with work: neither waits until the other one has no messages."""
    c = redis.client()
    known(c, SHARED)
    body = counted(handler, 1)
    for name in ("mail", "sms"):
        c.lpush(f"ingress:{name}", *(f"{name}{n}" for n in range(400)))
    quredisd(queues=[queue(name, body, workers=1, **FENCED, throttle="api") for name in ("mail", "sms")],
             throttles=[{"name": "api", "max_in_flight": 1}], supervisor=LONG)
    wait_for(lambda: min(sum(name in line for line in lines(ledger, "end")) for name in ("mail", "sms")) >= 20, 60)
    assert_never_more(ledger)
    assert min(c.llen("ingress:mail"), c.llen("ingress:sms")) > 100


@pytest.mark.limit(120)
def test_a_persistent_handler_holds_a_seat_for_each_unanswered_message(redis, quredisd, handler, ledger, tag):
    c = redis.client()
    known(c)
    body = counted(handler, 5, STAYS, "python")
    c.lpush("ingress:mail", *range(150))
    stays = {"mode": "persistent", "window": 4, "workers": 2}
    for node in "ab":
        quredisd(queues=[limited(body, 5, **stays)], supervisor={"node": tag + node, **LONG})
    wait_for(lambda: max(taken(c).values(), default=0) > 1, 60)
    wait_for(lambda: len(lines(ledger, "end")) == 150, 100)
    assert_never_more(ledger)
    wait_for(lambda: taken(c) == {}, 30)


@pytest.mark.limit(120)
def test_messages_that_wait_for_a_seat_stay_in_ingress(redis, quredisd, handler, ledger, tmp):
    """At most one for each worker is in a tray. The workers ask Redis about as seldom as idle ones."""
    c = redis.client()
    known(c)
    d = quredisd(queues=[limited(counted(handler, 1), 1, workers=4)], supervisor=LONG)
    d.wait_event("queue_recovered", queue="mail")
    c.lpush("ingress:mail", "gate")
    wait_for(lambda: lines(ledger, "begin"), 30)
    c.lpush("ingress:mail", *range(50))
    wait_for(lambda: c.info("clients")["blocked_clients"] == 3, 30)
    before = c.info("commandstats")
    since = time.monotonic()
    wait_for(lambda: time.monotonic() - since > 6, 30)      # the number of questions in a time is what the test is about
    asked = {name: x["calls"] - before.get(name, {"calls": 0})["calls"] for name, x in c.info("commandstats").items()}
    assert c.llen("ingress:mail") >= 50 - 3
    assert asked.get("cmdstat_blpop", 0) <= 3 * 4 and asked.get("cmdstat_evalsha", 0) < 60, asked
    assert status(d, "mail")["reason"].startswith("1 of 1 seats are taken")
    (tmp / "gate").write_text("")
    wait_for(lambda: len(lines(ledger, "end")) == 51, 60)
    assert_never_more(ledger)


@pytest.mark.limit(120)
def test_a_worker_that_dies_frees_its_seat_at_once(redis, quredisd, handler, ledger, tmp):
    """The master reports it: nothing waits for the end of its lease, a minute."""
    c = redis.client()
    known(c)
    d = quredisd(queues=[limited(counted(handler, 1), 1, workers=2)], supervisor=LONG)
    c.lpush("ingress:mail", "gate")
    wait_for(lambda: lines(ledger, "begin") and taken(c), 30)
    [name] = taken(c)
    c.lpush("ingress:mail", "next")
    wait_for(lambda: status(d, "mail")["state"] == "throttled", 30)
    started = d.wait_event("worker_started", slot=name.decode().split(".")[-2])
    os.kill(int(started["child"]), signal.SIGKILL)
    (tmp / "gate").write_text("")
    wait_for(lambda: len(lines(ledger, "end")) == 2, 30)
    assert_never_more(ledger)
    wait_for(lambda: name not in taken(c), 30)


@pytest.mark.limit(120)
def test_a_host_that_vanishes_keeps_its_seats_until_it_is_rescued(redis, quredisd, handler, ledger, tag):
    c = redis.client()
    known(c)
    body = counted(handler, 2)
    gone, stays = (quredisd(queues=[limited(body, 2, workers=2)], supervisor={"node": tag + node, **SHORT}, start=False) for node in "ab")
    gone.start()
    c.lpush("ingress:mail", "gate1", "gate2")
    wait_for(lambda: len(lines(ledger, "begin")) == 2, 30)
    c.lpush("ingress:mail", "next")
    stays.start()
    wait_for(lambda: status(stays, "mail")["state"] == "throttled", 30)
    gone.kill_tree()
    # its seats are taken as long as its trays are
    wait_for(lambda: _rescued(c, tag), 60)
    wait_for(lambda: len(lines(ledger, "begin")) == 5 or lines(ledger, "end next"), 60)
    assert_never_more(ledger)


def _rescued(c, tag):
    with c.pipeline() as p:
        names, trays = p.hkeys(OWN).keys("transit:mail:*:[012]").execute()
    left = [n for n in names if n.startswith(f"{tag}a.".encode())]
    lost = [t for t in trays if f":{tag}a.".encode() in t]
    assert left or not lost, (left, lost)
    return not left


@pytest.mark.limit(120)
def test_a_reload_raises_lowers_and_removes_the_limit(redis, quredisd, handler, ledger, tmp):
    """Nothing that runs is killed: workers above a lower limit give back at the end of messages."""
    c = redis.client()
    known(c)
    bodies = {n: counted(handler, 4) for n in (2, 4, 1)}
    d = quredisd(queues=[limited(bodies[2], 2, workers=4)], supervisor=LONG)
    c.lpush("ingress:mail", *(f"gate{n}" for n in range(4)))
    wait_for(lambda: len(lines(ledger, "begin")) == 2 and sum(taken(c).values()) == 2, 30)
    d.reload(queues=[limited(bodies[4], 4, workers=4)])
    wait_for(lambda: len(lines(ledger, "begin")) == 4 and sum(taken(c).values()) == 4, 30)
    d.reload(queues=[limited(bodies[1], 1, workers=4)])
    c.lpush("ingress:mail", "last")
    wait_for(lambda: c.hget(OWN, "limit").split()[1] == b"1", 30)
    for n in range(4):
        (tmp / f"gate{n}").write_text("")
    wait_for(lambda: len(lines(ledger, "end")) == 5, 30)
    assert_never_more(ledger)
    d.reload(queues=[queue("mail", bodies[1], **FENCED)])
    wait_for(lambda: taken(c) == {}, 30)
    c.lpush("ingress:mail", "free")
    wait_for(lambda: lines(ledger, "end free"), 30)
    wait_for(lambda: 0 < c.ttl(OWN) <= 86400, 30)          # a worker of the time before may have taken it in a seat


@pytest.mark.limit(120)
@pytest.mark.parametrize("back", ["restart", "snapshot"])
def test_a_redis_that_may_have_gone_back_gives_no_seat_too_many(machine, quredisd, handler, ledger, tmp, tag, back):
    """
    Two messages run. Redis restarts, with all it had or as it was before they came; then their handlers finish, as fence = "finish"
    says. Their workers keep their seats, and no worker gets one until all of them could tell what they have.
    """
    server = machine.server(aof="always")
    c = server.client()
    known(c)
    supervisors = [quredisd(redis=server, queues=[limited(counted(handler, 2), 2, workers=2, fence="finish")],
                            supervisor={"node": tag + node, "lease": "6s"})
                   for node in "ab"]
    for d in supervisors:
        d.wait_event("queue_recovered", queue="mail")
    before = server.keep()
    c.lpush("ingress:mail", "gate1", "gate2")
    wait_for(lambda: len(lines(ledger, "begin")) == 2 and sum(taken(c).values()) == 2, 30)
    server.kill9()
    server.go_back(before) if back == "snapshot" else server.start()
    c = server.client()
    c.lpush("ingress:mail", *range(6))
    wait_for(lambda: sum(taken(c).values()) == 2, 30)
    wait_for(lambda: any("Redis was restarted" in (status(d, "mail").get("reason") or "") for d in supervisors), 30)
    for n in (1, 2):
        (tmp / f"gate{n}").write_text("")
    wait_for(lambda: len(lines(ledger, "end")) >= 8, 60)
    assert_never_more(ledger)


@pytest.mark.limit(180)
def test_a_clock_of_redis_that_is_set_ends_no_quiet_time(redis_server, quredisd, handler, ledger):
    """Nor makes it last: it is over when a worker has known this server for a lease and a second, by its own clock."""
    server = redis_server(clock=True)
    c = server.client()
    d = quredisd(redis=server, queues=[limited(counted(handler, 2), 2, workers=1)], supervisor=LONG)
    d.wait_event("queue_recovered", queue="mail")
    c.lpush("ingress:mail", "one")
    wait_for(lambda: "Redis was restarted" in (status(d, "mail").get("reason") or ""), 30)
    began = time.monotonic()
    for ahead, workers in ((3600, 2), (0, 3)):
        server.set_clock(ahead)
        d.wait_event("server_clock_set", 30)            # the log tells it once a minute
        d.quredis("scale", "mail", str(workers))
        d.wait_workers("mail", workers)
        asked = c.info("commandstats")["cmdstat_evalsha"]["calls"]
        wait_for(lambda: lines(ledger, "begin") or c.info("commandstats")["cmdstat_evalsha"]["calls"] > asked + 10, 30)
    if time.monotonic() < began + 50:           # on a slow machine it may be over
        assert taken(c) == {} and not lines(ledger, "begin")
    wait_for(lambda: lines(ledger, "end one"), 90)
    assert_never_more(ledger)


@pytest.mark.limit(120)
def test_seats_of_another_type_stop_only_what_needs_them(redis, quredisd, handler, ledger):
    c = redis.client()
    c.lpush(SHARED, "x")
    body = counted(handler, 5)
    d = quredisd(queues=[queue("mail", body, throttle="api", **FENCED), queue("sms", body, throttle="api", **FENCED), queue("free", body)],
                 throttles=[{"name": "api", "max_in_flight": 5}], supervisor=SHORT)
    for name in ("mail", "sms", "free"):
        c.lpush(f"ingress:{name}", "x")
    wait_for(lambda: len(lines(ledger, "end")) == 1, 30)
    for name in ("mail", "sms"):
        assert SHARED in wait_for(lambda name=name: status(d, name).get("reason"), 30)
        assert list(anywhere(c, name)) == [b"x"]
    c.delete(SHARED)
    wait_for(lambda: len(lines(ledger, "end")) == 3, 60)


@pytest.mark.limit(120)
def test_fields_that_quredis_did_not_write_alarm_and_take_no_seat(redis, quredisd, handler, ledger, tag):
    c = redis.client()
    known(c)
    c.hset(OWN, mapping={"stranger": "9 mail", f"{tag}.00000000000000b0.1.1": "many mail"})
    d = quredisd(queues=[limited(counted(handler, 2), 2)], supervisor=SHORT)
    c.lpush("ingress:mail", *range(20))
    wait_for(lambda: len(lines(ledger, "end")) == 20, 30)
    assert_never_more(ledger)
    assert d.wait_event("queue_error", queue="mail", at="seats")
    assert OWN in wait_for(lambda: status(d, "mail").get("reason"), 30)
    assert any("does not write" in f for f in findings(d))
    c.hdel(OWN, "stranger", f"{tag}.00000000000000b0.1.1")
    wait_for(lambda: status(d, "mail").get("reason") is None, 30)


def findings(d):
    return [f["what"] for f in json.loads(d.quredis("doctor", "--json").out) if f["check"] == "throttle" and f["severity"] != "ok"]


@pytest.mark.limit(120)
def test_doctor_names_limits_that_differ_and_names_that_nobody_registered(redis, quredisd, handler, ledger, tag):
    c = redis.client()
    known(c)
    body = counted(handler, 9)
    old = quredisd(queues=[limited(body, 7)], supervisor={"node": tag + "old"})
    wait_for(lambda: c.hget(OWN, "limit"), 30)
    assert findings(old) == []
    new = quredisd(queues=[limited(body, 9)], supervisor={"node": tag + "new"})
    wait_for(lambda: b"new" in c.hget(OWN, "limit"), 30)
    assert findings(old) == [f"max_in_flight here is 7, but 9 counts, which {tag}new loaded last"]
    assert findings(new) == []
    name = f"{tag}new.00000000000000b0.1.1"
    c.hset(OWN, name, "2 mail")
    assert findings(new) == [f"{name} has seats, but is not registered, so no sweeper frees them"]
    new.reload(queues=[queue("mail", body, **FENCED)])
    wait_for(lambda: f"{tag}new has no max_in_flight for it, so its messages run beside those that are counted" in findings(old), 30)
    assert f"there is no max_in_flight here, so messages of this host run beside those that {tag}old counts" in findings(new)


@pytest.mark.limit(120)
def test_a_lost_reply_loses_no_seat_and_takes_none_twice(machine, redis, quredisd, handler, ledger):
    c = redis.client()
    known(c)
    proxy = machine.proxy(redis)
    d = quredisd(redis=proxy, queues=[limited(counted(handler, 2), 2)], supervisor=SHORT)
    d.wait_event("queue_recovered", queue="mail")
    sha = script_hash("seats")
    for n in range(8):
        proxy.lose_reply(sha)
        c.lpush("ingress:mail", f"{n}a", f"{n}b", f"{n}c")
        wait_for(lambda n=n: len(lines(ledger, "end")) == 3 * (n + 1), 60)
    assert_never_more(ledger)
    wait_for(lambda: taken(c) == {}, 30)


@pytest.mark.limit(120)
def test_full_memory_stops_no_seat(redis, quredisd, handler, ledger):
    c = redis.client()
    known(c)
    quredisd(queues=[limited(counted(handler, 2), 2)], supervisor=LONG).wait_event("queue_recovered", queue="mail")
    c.set("quredis:of:ingress:mail:paused", "a test")
    c.lpush("ingress:mail", *range(20))
    redis.config_set("maxmemory", 1)
    c.delete("quredis:of:ingress:mail:paused")
    wait_for(lambda: len(lines(ledger, "end")) == 20, 60)
    redis.config_set("maxmemory", 0)
    assert_never_more(ledger)
    wait_for(lambda: taken(c) == {}, 30)


def commands_of(c, seconds):
    """How many commands Redis executes in this time, but for those of its own."""
    before = {name: x["calls"] for name, x in c.info("commandstats").items()}
    since = time.monotonic()
    wait_for(lambda: time.monotonic() - since > seconds, 60)
    return {name[8:]: x["calls"] - before.get(name, 0) for name, x in c.info("commandstats").items()
            if x["calls"] > before.get(name, 0) and name != "cmdstat_info"}


@pytest.mark.limit(180)
def test_an_idle_queue_asks_no_more_and_one_without_a_limit_pays_nothing(redis, quredisd, handler, ledger):
    c = redis.client()
    known(c)
    body = counted(handler, 5)
    d = quredisd(queues=[queue("mail", body, workers=3, **FENCED)], supervisor=LONG)
    d.wait_event("queue_recovered", queue="mail")
    without = commands_of(c, 12)
    with c.monitor() as monitor:
        c.lpush("ingress:mail", "x")
        wait_for(lambda: len(lines(ledger, "end")) == 1, 30)
        c.echo("end")
        seen = iter(monitor.listen())
        assert not [x for x in iter(lambda: next(seen)["command"], "ECHO end") if "seats" in x]
    d.reload(queues=[limited(body, 5)])
    c.lpush("ingress:mail", "x")
    wait_for(lambda: len(lines(ledger, "end")) == 2 and taken(c) == {}, 30)

    def asks_no_more():
        """In some stretch of time: the first one has what the reload costs. The sweeper looks at the seats each 5 s; three that ask each second would be 36."""
        with_limit = commands_of(c, 12)
        print(with_limit, without)
        return all(n <= without.get(name, 0) * 1.3 + 10 for name, n in with_limit.items()) and with_limit.get("blpop", 0) == 0
    wait_for(asks_no_more, 30)


def kill_at_random(c, supervisors, ledger, seconds):
    """Kills workers, and now and then a whole supervisor, while messages come."""
    until, n = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        n += 1
        for name in ("mail", "sms"):
            if c.llen(f"ingress:{name}") < 50:
                c.lpush(f"ingress:{name}", *(f"{name}-{n}-{i}" for i in range(50)))
        victim = random.choice(supervisors)
        workers = list(victim.workers().values())
        if n % 12 == 0:
            victim.kill_tree()
            victim.start()
        elif workers:
            try:
                os.kill(random.choice(workers), signal.SIGKILL)
            except ProcessLookupError:
                pass
        threading.Event().wait(random.uniform(0.05, 0.8))       # the moments of the kills are what the test is about
        assert_never_more(ledger)
    return n


@pytest.mark.limit(3600)
def test_never_six_of_five_while_workers_and_hosts_are_killed(redis, quredisd, handler, ledger, tag):
    """make seats-soak takes ten minutes."""
    c = redis.client()
    known(c, SHARED)
    body = counted(handler, 5)
    keys = {"workers": 4, **FENCED, "throttle": "api", "recovery_attempts": 1000}
    supervisors = [quredisd(queues=[queue(name, body, **keys) for name in ("mail", "sms")], throttles=[{"name": "api", "max_in_flight": 5}],
                            supervisor={"node": tag + node, **SHORT}) for node in "ab"]
    kill_at_random(c, supervisors, ledger, float(os.environ.get("SEATS_SECONDS", "30")))
    wait_for(lambda: c.llen("ingress:mail") + c.llen("ingress:sms") == 0 and not c.keys("transit:*:[012]"), 120)
    wait_for(lambda: taken(c, SHARED) == {}, 60, "every seat to be free")
    assert_never_more(ledger)
    assert len(lines(ledger, "end")) > 50
