"""The rate of a queue: starts of handlers on all hosts, counted by what the handlers themselves write."""
import json
import os
import signal
import time

import pytest

from harness import queue, wait_for
from harness.control import status
from harness.messages import anywhere
from harness.redis_proxy import SCRIPTS, Tap

STAMP = "cat >/dev/null; date +%s.%N >>@LEDGER@"
KEY = "quredis:of:ingress:mail:throttle"


def starts(ledger):
    return sorted(float(line) for line in ledger.lines())


def most_within(times, seconds):
    """The most starts within any stretch of so many seconds."""
    most, first = 0, 0
    for last, at in enumerate(times):
        while at - times[first] >= seconds:
            first += 1
        most = max(most, last - first + 1)
    return most


def limited(body, rate, **keys):
    return queue("mail", body, **{"workers": 3, "rate": rate, **keys})


def assert_keeps(times, rate, burst=1, seconds=1.0):
    """A start shows some time after it was given: half a second of slack for a process on a busy machine."""
    assert most_within(times, seconds) <= rate * (seconds + 0.5) + burst
    assert most_within(times, 3 * seconds) <= rate * (3 * seconds + 0.5) + burst


@pytest.mark.limit(120)
def test_a_rate_counts_the_starts_of_all_hosts(redis, quredisd, handler, ledger, tag):
    """
    Three supervisors with a backlog: at least 0.98 of the rate, and never more than it and the burst. Starts for which a worker comes too
    late are lost, so only the best three seconds count on a busy machine.
    """
    c = redis.client()
    body = handler(STAMP)
    for n in range(240):
        c.lpush("ingress:mail", f"m{n}")
    for node in "abc":
        quredisd(queues=[limited(body, "30/1s")], supervisor={"node": tag + node})
    wait_for(lambda: len(ledger.lines()) == 240, 60)
    assert_keeps(starts(ledger), 30)
    assert most_within(starts(ledger), 3) >= 0.98 * 30 * 3


class HeldAnswers(Tap):
    """Redis gives the starts that it has kept at their times, and the answers of each two seconds come together."""

    def request(self, pair, words):
        if words[0] == b"EVALSHA" and SCRIPTS.get(words[1]) == "throttle" and words[int(words[2]) + 4] != b"0":
            return 2 - time.monotonic() % 2
        return None


@pytest.mark.limit(120)
def test_answers_that_come_late_start_no_more_than_the_rate_allows(redis, redis_proxy, quredisd, handler, ledger):
    """What Redis gave to 16 workers meanwhile would start at once. Once the network is well, all of the rate is used again."""
    c = redis.client()
    proxy = redis_proxy(redis, HeldAnswers())
    c.lpush("ingress:mail", *range(150))
    quredisd(redis=proxy, queues=[limited(handler(STAMP), "10/1s", workers=16)])
    held = wait_for(lambda: c.exists(KEY) and time.monotonic(), 30)
    wait_for(lambda: time.monotonic() - held > 10, 30)      # the answers of five times two seconds
    proxy.tap.request = lambda pair, words: None
    wait_for(lambda: len(ledger.lines()) == 150, 60)
    assert_keeps(starts(ledger), 10, seconds=0.2)
    assert most_within(starts(ledger), 3) >= 0.98 * 10 * 3


@pytest.mark.limit(120)
def test_a_rate_holds_while_workers_are_killed(redis, quredisd, handler, ledger, tag):
    c = redis.client()
    body = handler(STAMP)
    supervisors = [quredisd(queues=[limited(body, "20/1s")], supervisor={"node": tag + node}) for node in "ab"]
    for n in range(120):
        c.lpush("ingress:mail", f"m{n}")
    for n in range(8):
        wait_for(lambda: len(ledger.lines()) >= 12 * (n + 1), 30)
        workers = wait_for(lambda: list(supervisors[n % 2].workers("mail").values()), 30)
        os.kill(workers[n % len(workers)], signal.SIGKILL)
    wait_for(lambda: sum(c.llen(k) for k in ("ingress:mail", "escape:mail")) + len(c.keys("transit:mail:*:[012]")) == c.llen("escape:mail"), 60)
    assert_keeps(starts(ledger), 20)


@pytest.mark.limit(120)
def test_a_throttle_counts_the_starts_of_all_its_queues_and_hosts(redis, quredisd, handler, ledger, tag):
    """Two queues and two supervisors share one rate; a third queue beside them has none."""
    c = redis.client()
    body = handler(STAMP)
    free = handler("cat >/dev/null")
    c.lpush("ingress:free", *range(100))
    for n in range(60):
        c.lpush("ingress:mail", f"m{n}")
        c.lpush("ingress:sms", f"s{n}")
    shared = {"workers": 2, "throttle": "api"}
    supervisors = [quredisd(queues=[queue("mail", body, **shared), queue("sms", body, **shared), queue("free", free)],
                            throttles=[{"name": "api", "rate": "20/1s", "burst": 2}], supervisor={"node": tag + node}) for node in "ab"]
    wait_for(lambda: c.llen("ingress:free") == 0, 30)
    assert c.llen("ingress:mail") + c.llen("ingress:sms") > 0
    wait_for(lambda: len(ledger.lines()) == 120, 60)
    assert_keeps(starts(ledger), 20, 2)
    assert most_within(starts(ledger), 3) >= 0.98 * 20 * 3
    assert c.keys("*:throttle*") == [b"quredis:throttle:api"]
    assert all(d.stop() == 0 for d in supervisors)


@pytest.mark.limit(120)
def test_a_throttle_of_a_wrong_type_stops_its_queues_only(redis, quredisd, handler, ledger):
    c = redis.client()
    body = handler(STAMP)
    c.lpush("quredis:throttle:api", "no number")
    d = quredisd(queues=[queue("mail", body, throttle="api"), queue("sms", body, throttle="api"), queue("free", body)],
                 throttles=[{"name": "api", "rate": "20/1s"}])
    for name in ("mail", "sms", "free"):
        c.lpush(f"ingress:{name}", "x")
    wait_for(lambda: len(ledger.lines()) == 1, 30)
    for name in ("mail", "sms"):
        assert "quredis:throttle:api" in wait_for(lambda: status(d, name).get("reason"), 30)
        assert list(anywhere(c, name)) == [b"x"]
    c.delete("quredis:throttle:api")
    wait_for(lambda: len(ledger.lines()) == 3, 60)


@pytest.mark.limit(120)
def test_the_state_names_the_throttle_and_a_reload_changes_it(redis, quredisd, handler, ledger):
    c = redis.client()
    queues = [queue("mail", handler(STAMP), throttle="api")]
    d = quredisd(queues=queues, throttles=[{"name": "api", "rate": "1/1h"}])
    c.lpush("ingress:mail", "1", "2")
    shown = wait_for(lambda: (s := status(d, "mail"))["state"] == "throttled" and s, 30)
    assert shown["reason"].startswith("throttle api allows no start now; next start in "), shown
    d.reload(queues=queues, throttles=[{"name": "api", "rate": "50/1s"}])
    wait_for(lambda: len(ledger.lines()) == 2, 30)


@pytest.mark.limit(120)
def test_messages_that_wait_for_their_start_stay_in_ingress(redis, quredisd, handler, ledger):
    """At most one for each worker is in a tray; the state says when the next one starts; workers ask Redis as seldom as idle ones."""
    c = redis.client()
    d = quredisd(queues=[limited(handler(STAMP), "1/1h", burst=2)])
    d.wait_event("queue_recovered", queue="mail")
    for n in range(50):
        c.lpush("ingress:mail", f"m{n}")
    wait_for(lambda: len(ledger.lines()) == 2, 30)
    shown = wait_for(lambda: (s := status(d, "mail"))["state"] == "throttled" and s, 30)
    assert shown["reason"].startswith("its rate allows no start now; next start in "), shown
    assert d.wait_event("queue_state", queue="mail", state="throttled")
    asked = c.info("commandstats")["cmdstat_evalsha"]["calls"]
    since = time.monotonic()
    wait_for(lambda: time.monotonic() - since > 6, 30)      # the number of questions in a time is what the test is about
    assert c.llen("ingress:mail") >= 50 - 2 - 3
    assert len(ledger.lines()) == 2
    assert c.info("commandstats")["cmdstat_evalsha"]["calls"] - asked < 60
    assert d.stop() == 0
    assert c.llen("ingress:mail") == 48 and c.llen("escape:mail") == 0


def given(c, hour_us=3600 * 10**6):
    """How many starts of 1/1h Redis has given, by the time until which they are given."""
    seconds, us = c.time()
    return round((int(c.get(KEY).split()[0]) - seconds * 10**6 - us) / hour_us) if c.exists(KEY) else 0


@pytest.mark.limit(120)
def test_a_start_that_was_given_does_not_wait_for_a_message(redis, quredisd, handler, ledger):
    """Idle workers hold no starts: Redis has given as many as messages came, also once all workers wait again."""
    c = redis.client()
    d = quredisd(queues=[limited(handler(STAMP), "1/1h", workers=4, burst=8, batch={"max": 8})])
    d.wait_event("queue_recovered", queue="mail")
    for n in range(1, 3):
        wait_for(lambda: c.info("clients")["blocked_clients"] == 4, 30)
        assert given(c) == 3 * (n - 1)
        c.lpush("ingress:mail", *range(3))
        wait_for(lambda: len(ledger.lines()) == 3 * n, 30)
    wait_for(lambda: c.info("clients")["blocked_clients"] == 4, 30)
    assert given(c) == 6


@pytest.mark.limit(120)
def test_a_reload_changes_the_rate_at_once(redis, quredisd, handler, ledger):
    c = redis.client()
    body = handler(STAMP)
    d = quredisd(queues=[limited(body, "1/1h")])
    for n in range(20):
        c.lpush("ingress:mail", f"m{n}")
    wait_for(lambda: status(d, "mail")["state"] == "throttled" and len(ledger.lines()) == 1, 30)
    d.reload(queues=[limited(body, "50/1s")])
    wait_for(lambda: len(ledger.lines()) == 20, 30)
    d.reload(queues=[queue("mail", body, workers=1)])
    c.lpush("ingress:mail", "x")
    wait_for(lambda: len(ledger.lines()) == 21, 30)
    assert status(d, "mail")["state"] == "running"


@pytest.mark.limit(120)
def test_a_reload_that_changes_nothing_lets_the_rate_of_its_host_count(redis, quredisd, handler, ledger, tag):
    """Doctor advises that for the rate of a host which has left. The workers stay."""
    c = redis.client()
    body = handler(STAMP)
    here = quredisd(queues=[limited(body, "100/1s")], supervisor={"node": tag + "here"})
    c.lpush("ingress:mail", "x")
    wait_for(lambda: c.llen("ingress:mail") == 0 and len(ledger.lines()) == 1, 30)
    workers = here.workers("mail")
    there = quredisd(queues=[limited(body, "1/1h", burst=2)], supervisor={"node": tag + "there"})
    wait_for(lambda: c.lpush("ingress:mail", "x") and b"there" in c.get(KEY), 30)
    assert there.stop() == 0
    c.lpush("ingress:mail", *range(5))
    wait_for(lambda: status(here, "mail")["state"] == "throttled" and b"there" in c.get(KEY), 30)
    here.reload()
    wait_for(lambda: c.llen("ingress:mail") == 0 and f" 100 1000000 1 {tag}here".encode() in c.get(KEY), 30)
    assert here.workers("mail") == workers


@pytest.mark.limit(120)
def test_retries_count_as_starts(redis, quredisd, handler, ledger):
    c = redis.client()
    quredisd(queues=[limited(handler(STAMP + "; exit 1"), "5/1s", max_attempts=3, backoff={"base": "1ms", "cap": "1ms"})])
    c.lpush("ingress:mail", *range(10))
    wait_for(lambda: c.llen("escape:mail") == 10, 60)
    times = starts(ledger)
    assert len(times) == 30 and times[-1] - times[0] >= 29 / 5 - 0.5


@pytest.mark.limit(120)
def test_a_persistent_handler_gets_as_many_as_the_rate_allows(redis, quredisd, handler, ledger):
    c = redis.client()
    body = handler("import sys, time\n"
                   "while line := sys.stdin.buffer.readline():\n"
                   "    _, serial, _, length, *_ = line.split()\n"
                   "    sys.stdin.buffer.read(int(length) + 1)\n"
                   "    open('@LEDGER@', 'a').write(f'{time.time()}\\n')\n"
                   "    print('OK', serial.decode(), flush=True)\n", "python")
    for n in range(260):
        c.lpush("ingress:mail", f"m{n}")
    quredisd(queues=[limited(body, "50/1s", burst=10, mode="persistent", window=8, workers=2)])
    wait_for(lambda: len(ledger.lines()) == 260, 60)
    times = starts(ledger)
    assert_keeps(times, 50, 10)
    assert times[-1] - times[0] <= (260 - 10) / 50 / 0.98 + 1


@pytest.mark.limit(120)
def test_a_throttle_of_another_type_stops_only_its_queue(redis, quredisd, handler, ledger):
    c = redis.client()
    c.lpush(KEY, "x")
    d = quredisd(queues=[limited(handler(STAMP), "50/1s"), queue("other", handler("cat >/dev/null"), workers=1)])
    c.lpush("ingress:mail", "x")
    c.lpush("ingress:other", "x")
    wait_for(lambda: (s := status(d, "mail"))["state"] == "error" and KEY in s["reason"], 30)     # the sweeper finds which key
    wait_for(lambda: c.llen("ingress:other") == 0, 30)
    assert status(d, "other")["state"] == "running" and not ledger.lines() and c.llen(KEY) == 1
    c.delete(KEY)
    wait_for(lambda: len(ledger.lines()) == 1, 60)


@pytest.mark.limit(120)
def test_the_figures_that_were_loaded_last_count_and_doctor_names_them(redis, quredisd, handler, ledger, tag):
    c = redis.client()
    body = handler(STAMP)
    old = quredisd(queues=[limited(body, "100/1s")], supervisor={"node": tag + "old"})
    c.lpush("ingress:mail", "x")
    wait_for(lambda: c.exists(KEY), 30)
    new = quredisd(queues=[limited(body, "4/1s", burst=2)], supervisor={"node": tag + "new"})
    wait_for(lambda: c.lpush("ingress:mail", "x") and b"new" in c.get(KEY), 30)
    before = len(ledger.lines())
    for n in range(16):
        c.lpush("ingress:mail", f"m{n}")
    wait_for(lambda: c.llen("ingress:mail") == 0 and not c.keys("transit:mail:*:[012]"), 60)
    assert_keeps(starts(ledger)[before:], 4, 2)
    found = [f for f in json.loads(old.quredis("doctor", "--json").out) if f["check"] == "throttle"]
    assert [f["what"] for f in found] == [f"the rate here is 100/1s with burst 1, but 4/1s with burst 2 counts, which {tag}new loaded last"]
    assert not [f for f in json.loads(new.quredis("doctor", "--json").out) if f["check"] == "throttle" and f["severity"] != "ok"]


def counting(c, key):
    """The figures that count and the host that loaded them: "N US BURST HOST"."""
    return (c.get(key) or b"").decode().partition(" ")[2].partition(" ")[2].partition(" ")[2]


@pytest.mark.limit(120)
def test_a_load_counts_also_while_the_queue_of_its_host_is_idle(redis, quredisd, handler, ledger, tag):
    """At the start, at a reload that changes the figures, at one that does not, and once Redis has lost them."""
    c, key = redis.client(), "quredis:throttle:api"
    body = handler(STAMP)

    def host(name, rate):
        return {"queues": [queue(name, body, throttle="api")], "throttles": [{"name": "api", "rate": rate}]}
    idle = quredisd(**host("idle", "50/1s"), supervisor={"node": tag + "idle"})
    wait_for(lambda: counting(c, key) == f"50 1000000 1 {tag}idle", 30)
    busy = quredisd(**host("busy", "20/1s"), supervisor={"node": tag + "busy"})
    wait_for(lambda: counting(c, key) == f"20 1000000 1 {tag}busy", 30)
    c.lpush("ingress:busy", *range(200))
    wait_for(lambda: len(ledger.lines()) > 5, 30)
    idle.reload(**host("idle", "1/1h"))
    wait_for(lambda: status(busy, "busy")["state"] == "throttled" and counting(c, key) == f"1 3600000000 1 {tag}idle", 30)
    assert c.llen("ingress:busy") > 0
    assert not [f for f in findings(idle) if f"{tag}busy loaded last" in f]
    busy.reload()
    wait_for(lambda: counting(c, key) == f"20 1000000 1 {tag}busy", 30)
    idle.reload()
    wait_for(lambda: counting(c, key) == f"1 3600000000 1 {tag}idle", 30)
    c.delete(key)
    c.client_kill_filter(_type="normal", skipme=True)
    wait_for(lambda: counting(c, key) == f"1 3600000000 1 {tag}idle", 30)


def findings(d):
    return [f["what"] for f in json.loads(d.quredis("doctor", "--json").out) if f["check"] == "throttle" and f["severity"] != "ok"]


@pytest.mark.limit(120)
def test_doctor_names_hosts_without_a_rate(redis, quredisd, handler, ledger, tag):
    c = redis.client()
    body = handler(STAMP)
    limiting = quredisd(queues=[limited(body, "100/1s")], supervisor={"node": tag + "limiting"})
    free = quredisd(queues=[queue("mail", body)], supervisor={"node": tag + "free"})
    wait_for(lambda: all(c.exists(f"quredis:node:{tag}{node}") for node in ("limiting", "free")), 30)
    told = wait_for(lambda: findings(limiting), 30)
    assert told == [f"{tag}free has no rate for it, so its handlers start without limit; the rate here is 100/1s"]
    assert findings(free) == [f"there is no rate here, so handlers of this host start without limit; that of {tag}limiting is 100/1s"]
    limiting.reload(queues=[queue("mail", body)])
    wait_for(lambda: findings(free) == [] and findings(limiting) == [], 30)


@pytest.mark.limit(120)
def test_doctor_names_hosts_that_count_by_another_throttle(redis, quredisd, handler, tag):
    """Each report is read once, although two queues need it."""
    c = redis.client()
    body = handler(STAMP)

    def names(throttle):
        return [queue("mail", body, throttle=throttle), queue("sms", body, throttle=throttle)]
    api, sms = ({"name": name, "rate": "100/1s"} for name in ("api", "sms"))
    here = quredisd(queues=names("api"), throttles=[api], supervisor={"node": tag + "here"})
    there = quredisd(queues=names("sms"), throttles=[sms], supervisor={"node": tag + "there"})
    reports = [f"quredis:node:{tag}{node}" for node in ("here", "there")]
    wait_for(lambda: all(c.exists(key) for key in reports), 30)
    told = wait_for(lambda: len(f := findings(here)) == 2 and f, 30)
    assert told == 2 * [f"its starts here are counted by throttle api, those of {tag}there by throttle sms: each allows its own"]
    with c.monitor() as monitor:
        findings(here)
        c.echo("end")
        seen = iter(monitor.listen())
        commands = list(iter(lambda: next(seen)["command"], "ECHO end"))
    assert commands.count(f"GET {reports[1]}") == 1
    there.reload(queues=[queue("mail", body, rate="100/1s"), queue("sms", body, throttle="api")], throttles=[api])
    wait_for(lambda: [f for f in findings(here) if "by its own limits: each allows its own" in f], 30)


@pytest.mark.limit(120)
def test_doctor_names_a_throttle_that_quredis_did_not_write(redis, quredisd, handler):
    c = redis.client()
    d = quredisd(queues=[limited(handler(STAMP), "50/1s")])
    wait_for(lambda: c.exists(KEY), 30)     # it has announced its figures, and does so again in an hour
    assert findings(d) == []
    c.set(KEY, "oops")
    assert findings(d) == ["it holds something that quredis did not write: the next start or load replaces it"]
    c.delete(KEY)
    c.lpush(KEY, "oops")
    [told] = findings(d)
    assert told.startswith("Redis does not give it, so no message of the queue starts: WRONGTYPE"), told
