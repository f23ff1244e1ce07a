"""Schedules: each tick is pushed once, whichever host leads, and late ones as catch_up says."""
import re
import shutil
import time

import pytest

from harness import queue, wait_for
from harness.messages import unwrap

KEY = "quredis:of:ingress:db:schedules"
TELLS = 'read -r m; echo "$m $QUREDIS_SCHEDULE $QUREDIS_SCHEDULED_AT" >>@LEDGER@'


def schedule(name="nightly", **keys):
    return {"name": name, "queue": "db", "message": "go", **({} if "cron" in keys else {"every": "1s"}), **keys}


def server_ms(c):
    seconds, micros = c.time()
    return seconds * 1000 + micros // 1000


def record(c, name="nightly"):
    """(definition, last, pushed, missed, skipped, when the last of these)"""
    found = c.hget(KEY, name)
    return found and [found.split()[0].decode(), *map(int, found.split()[1:])]


def scripts(c):
    return c.info("commandstats")["cmdstat_evalsha"]["calls"]


def pushed(c):
    """The schedules of the messages in ingress, the oldest first."""
    return [unwrap(m)[0]["schedule"] for m in reversed(c.lrange("ingress:db", 0, -1))]


def ticks(lines):
    """The ticks that the handler was told, in whole seconds of their minute."""
    return [re.fullmatch(r"go nightly (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.000Z)", line)[1] for line in lines]


def set_record(c, **changes):
    definition, last, pushed, missed = record(c)[:4]
    found = {"definition": definition, "last": last, "pushed": pushed, "missed": missed, **changes}
    c.hset(KEY, "nightly", "{definition} {last} {pushed} {missed} 0 0".format(**found))


def test_a_handler_gets_each_tick_with_its_time(redis, quredisd, handler, ledger):
    c = redis.client()
    began = server_ms(c)
    d = quredisd(queues=[queue("db", handler(TELLS))], schedules=[schedule()])
    wait_for(lambda: len(ledger.lines()) >= 3, 30)
    d.wait_event("schedule_pushed", queue="db", schedule="nightly")
    told = ticks(ledger.lines())
    assert told == sorted(set(told))
    assert record(c)[1] >= record(c)[2] > began
    assert c.type(KEY) == b"hash"
    assert d.stop() == 0


def test_a_tick_is_the_id_of_its_message(redis, quredisd, handler, ledger):
    """A redrive keeps it. The log has the tick as the id has it."""
    c = redis.client()
    tells = handler('read -r m; echo "$QUREDIS_ID $QUREDIS_SCHEDULE:$QUREDIS_SCHEDULED_AT" >>@LEDGER@; [ -z "$QUREDIS_SCHEDULE" ]')
    d = quredisd(queues=[queue("db", tells, max_attempts=1)], schedules=[schedule()])
    wait_for(lambda: c.llen("escape:db") >= 2, 30)
    first, second = ([w for w in line.split()] for line in ledger.lines()[:2])
    assert first[0] == first[1] != second[0] == second[1] and re.fullmatch(r"nightly:\d{4}-\d\d-\d\dT[0-9:]{8}\.000Z", first[0])
    d.wait_event("schedule_pushed", queue="db", schedule="nightly", tick=first[0][len("nightly:"):])
    assert d.quredis("dlq", "retry", "db", first[0]).code == 0
    wait_for(lambda: f"{first[0]} :" in ledger.lines(), 30)
    assert d.stop() == 0


def test_two_hosts_push_each_tick_once(redis_server, quredisd, handler):
    """The leader is killed again and again, and the clock of Redis is set: what a sweeper had begun is not done twice. The list says what was pushed."""
    server = redis_server(clock=True)
    c = server.client()

    def start(node):
        return quredisd(redis=server, queues=[queue("db", handler("cat"), workers=0)], schedules=[schedule()], supervisor={"node": node, "lease": "1s"})

    hosts = {node: start(node) for node in "ab"}
    for node, ahead in zip("abab", [0, 600, 600, 590]):
        before = c.llen("ingress:db")
        hosts[node].kill9()
        server.set_clock(ahead)
        wait_for(lambda: c.llen("ingress:db") > before + 1, 150)
        hosts[node] = start(node)
    assert all(h.stop() == 0 for h in hosts.values())
    told = [unwrap(m)[0]["scheduled"] for m in c.lrange("ingress:db", 0, -1)]
    assert sorted(told, reverse=True) == told and len(told) == len(set(told)) >= 8


@pytest.mark.parametrize("catch_up, pushed", [("one", True), ("none", False)])
def test_a_fleet_that_was_down_catches_up(redis, quredisd, handler, ledger, catch_up, pushed):
    c = redis.client()
    keys = {"queues": [queue("db", handler(TELLS))], "schedules": [schedule(cron="0 * * * *", catch_up=catch_up)]}
    d = quredisd(**keys)
    wait_for(lambda: record(c))
    assert d.stop() == 0
    hour = 3600 * 1000
    then = server_ms(c) // hour * hour - 5 * hour
    set_record(c, last=then)
    if server_ms(c) % hour < 130 * 1000:        # the last one is not late yet: let it be
        pytest.skip("the hour has just begun")
    d = quredisd(**keys)
    wait_for(lambda: record(c)[1] == then + 5 * hour)
    assert record(c)[2:] == ([then + 5 * hour, 4, 0, 0] if pushed else [0, 5, 0, 0])
    wait_for(lambda: len(ledger.lines()) == pushed)
    assert d.stop() == 0


def test_a_changed_schedule_begins_anew_and_one_that_left_is_forgotten_after_a_day(redis, quredisd, handler, ledger):
    c = redis.client()
    h = handler(TELLS)
    d = quredisd(queues=[queue("db", h)], schedules=[schedule(cron="0 3 * * *"), schedule("other", cron="0 4 * * *")])
    wait_for(lambda: c.hlen(KEY) == 2)
    set_record(c, last=1000)
    old = record(c)[0]
    d.reload(queues=[queue("db", h)], schedules=[schedule(cron="0 5 * * *")])
    wait_for(lambda: c.hget(KEY, "-other") and record(c)[0] != old)
    assert c.hget(KEY, "-other").split()[0] == b"1" and c.hexists(KEY, "other") and not c.hexists(KEY, "-nightly")
    assert len(d.events("schedule_began", schedule="nightly")) == 2
    assert server_ms(c) - record(c)[1] < 60000 and record(c)[2:] == [0, 0, 0, 0]
    c.hset(KEY, "-other", f"23 {server_ms(c) - 3700000}")
    d.reload(queues=[queue("db", h)], schedules=[schedule(cron="0 5 * * *"), schedule("other", cron="0 4 * * *")])
    wait_for(lambda: not c.hexists(KEY, "-other"), 30, "a leader that has it deletes the count")
    c.hset(KEY, "-other", f"23 {server_ms(c) - 3700000}")
    c.hset(KEY, "-nightly", f"23 {server_ms(c) - 1000}")
    d.reload(queues=[queue("db", h)], schedules=None)
    d.wait_event("schedules_forgotten", queue="db", schedules="1")
    assert c.hkeys(KEY) == [b"nightly", b"-nightly"]        # its last look was a moment ago
    assert ledger.lines() == []
    assert d.stop() == 0


@pytest.mark.parametrize("form, reason", [
    ("{definition} {last} 0 0", "unknown record"),
    ("{definition} 0{last} 0 0 0 0", "unknown record"),
    ("{definition} {last} {ahead} 0 0 0", "unknown record"),
    ("{definition} {last} 0 0 0 {ahead}", "unknown record"),
    ("{definition} {last} 0 9007199254740992 0 0", "unknown record"),
    ("{definition} {last} 0 0 " + "9" * 200 + " 0", "unknown record"),
    ("{definition} {last} 0 0 0 0\n", "unknown record"),
    ("\xff\x00", "unknown record"),
    ("", "unknown record"),
    ("{definition}ff {last} 0 0 0 0", "other times"),
    ("{definition} {ahead} 0 0 0 0", "last tick ahead of the clock"),
    ("{definition} " + "9" * 15 + " 0 0 0 0", "last tick ahead of the clock"),
])
def test_a_record_that_quredis_would_not_write_begins_anew(redis, quredisd, handler, form, reason):
    c = redis.client()
    d = quredisd(queues=[queue("db", handler("cat"), workers=0)], schedules=[schedule()])
    wait_for(lambda: c.llen("ingress:db") >= 1, 30)
    definition, last = record(c)[:2]
    c.hset(KEY, "nightly", form.format(definition=definition, last=last, ahead=last + 240000))
    d.wait_event("schedule_began", queue="db", schedule="nightly", reason=reason)
    wait_for(lambda: record(c)[2], 30, "the next tick")
    assert abs(record(c)[1] - server_ms(c)) < 60000 and record(c)[3] < 60
    assert d.stop() == 0


def test_other_times_repeat_no_tick_after_a_clock_was_set_back(redis, quredisd, handler):
    """Which ticks the old times had until the last one is not known, so the new times begin after it."""
    c = redis.client()
    d = quredisd(queues=[queue("db", handler("cat"), workers=0)], schedules=[schedule()])
    wait_for(lambda: record(c) and record(c)[2], 30)
    definition, ahead = record(c)[0], server_ms(c) + 100000
    c.hset(KEY, "nightly", f"{definition}ff {ahead} 0 0 0 0")
    d.wait_event("schedule_began", queue="db", schedule="nightly", reason="other times")
    assert record(c) == [definition, ahead, 0, 0, 0, 0]
    assert d.stop() == 0


def test_a_clock_that_is_set_back_stops_no_schedule_for_long(redis_server, quredisd, handler):
    """By little: the schedule waits, and repeats nothing. By more: it begins anew."""
    server = redis_server(clock=True)
    c = server.client()
    server.set_clock(600)
    d = quredisd(redis=server, queues=[queue("db", handler("cat"), workers=0)], schedules=[schedule()])
    wait_for(lambda: record(c) and record(c)[2], 30)
    server.set_clock(597)
    before = record(c)[1]
    wait_for(lambda: record(c)[1] > before + 1000, 90)
    assert len(d.events("schedule_began")) == 1
    server.set_clock(0)
    d.restart()
    d.wait_event("schedule_began", queue="db", schedule="nightly", reason="last tick ahead of the clock")
    wait_for(lambda: record(c)[2], 30)
    assert record(c)[1] < before - 300000
    assert d.stop() == 0


def test_only_a_schedule_that_is_due_costs_a_script(redis, quredisd, handler):
    c = redis.client()
    others = [schedule(f"hourly{i}", every="1h") for i in range(1000)]
    d = quredisd(queues=[queue("db", handler("cat"), workers=0)], schedules=[schedule(), *others])
    wait_for(lambda: c.llen("ingress:db") >= 1, 30)
    before, size = scripts(c), c.llen("ingress:db")
    wait_for(lambda: c.llen("ingress:db") >= size + 5, 30)
    assert scripts(c) - before < 500
    assert d.stop() == 0


def test_a_clock_that_stands_just_before_a_tick_makes_no_storm(redis_server, quredisd, handler):
    """The sweeper thinks again and again that the tick is due."""
    server = redis_server(clock=True)
    c = server.client()
    d = quredisd(redis=server, queues=[queue("db", handler("cat"), workers=0)], schedules=[schedule()])
    wait_for(lambda: c.llen("ingress:db") >= 1, 30)
    size = c.llen("ingress:db")
    server.stop_clock(record(c)[1] + 999)
    before = scripts(c)
    wait_for(lambda: scripts(c) > before + 2, 30, "the tick that seems due")
    began, before = time.monotonic(), scripts(c)
    wait_for(lambda: scripts(c) >= before + 20, 60)
    assert time.monotonic() - began > 0.5       # at a millisecond each: 0.02 s
    assert c.llen("ingress:db") == size
    server.set_clock(2)
    wait_for(lambda: c.llen("ingress:db") > size, 30)
    assert d.stop() == 0


@pytest.mark.limit(600)
def test_a_zone_that_vanishes_stops_its_schedule_aloud_until_it_is_back(redis_server, quredisd, handler, tmp):
    """The schedule of each second tells the sweeper the clock of Redis; a minute later it looks for the file again."""
    server, zone = redis_server(clock=True), tmp / "zones/Europe/Berlin"
    zone.parent.mkdir(parents=True)
    shutil.copy("/usr/share/zoneinfo/Europe/Berlin", zone)
    c, env = server.client(), {"TZDIR": str(tmp / "zones")}
    d = quredisd(redis=server, queues=[queue("db", handler("cat"), workers=0)], env=env,
                 schedules=[schedule(cron="0 * * * *", timezone="Europe/Berlin"), schedule("clock")])
    wait_for(lambda: record(c) and record(c, "clock")[2], 30)
    zone.rename(tmp / "away")
    server.set_clock(3600)
    said = d.wait_event("schedule_zone_missing", queue="db", schedule="nightly")
    assert said["timezone"] == "Europe/Berlin" and said["level"] == "warning"
    assert 'the time zone "Europe/Berlin" is not known here' in d.quredis("doctor", env=env).out
    clock = record(c, "clock")[1]
    wait_for(lambda: record(c, "clock")[1] > clock + 2000, 30)
    assert record(c)[2] == 0
    (tmp / "away").rename(zone)
    d.wait_event("schedule_zone_found", queue="db", schedule="nightly", timeout=100)
    wait_for(lambda: record(c)[2], 100)
    assert len(d.events("schedule_zone_missing")) == 1
    assert d.stop() == 0


def test_a_new_leader_knows_what_the_last_one_pushed(redis_server, quredisd, handler):
    """The tick of an hour, which no later one hides; the schedule of each second shows when the new leader has read the records."""
    server = redis_server(clock=True)
    c = server.client()
    d = quredisd(redis=server, queues=[queue("db", handler("cat"), workers=0)], supervisor={"node": "a", "lease": "1s"},
                 schedules=[schedule(every="1h"), schedule("clock")])
    wait_for(lambda: "clock" in pushed(c), 30)
    server.set_clock(3600 - server_ms(c) // 1000 % 3600 + 30)
    wait_for(lambda: "nightly" in pushed(c), 30)
    d.kill9()
    before = len(pushed(c))
    d.start()
    wait_for(lambda: pushed(c)[before:].count("clock") > 1, 60)
    assert pushed(c).count("nightly") == 1
    assert d.stop() == 0


def test_a_shared_queue_gets_bare_bytes(redis, quredisd, handler):
    c = redis.client()
    d = quredisd(queues=[queue("db", handler("cat"), shared=True, workers=0)], schedules=[schedule()])
    wait_for(lambda: c.llen("ingress:db") >= 2, 30)
    assert set(c.lrange("ingress:db", 0, -1)) == {b"go"}
    assert d.stop() == 0


def test_other_queues_have_a_sealed_line_and_an_id(redis, quredisd, handler):
    c = redis.client()
    d = quredisd(queues=[queue("db", handler("cat"), workers=0)], schedules=[schedule()])
    wait_for(lambda: c.llen("ingress:db") >= 1, 30)
    line, payload = unwrap(c.lindex("ingress:db", -1))
    assert payload.split(b"\n")[1:] == [b"go"] and line["schedule"] == "nightly" and int(line["scheduled"]) % 1000 == 0
    assert d.stop() == 0


def test_a_queue_without_headers_gets_none(redis, quredisd, handler):
    c = redis.client()
    d = quredisd(queues=[queue("db", handler("cat"), workers=0, headers=False)], schedules=[schedule()])
    wait_for(lambda: c.llen("ingress:db") >= 1, 30)
    assert unwrap(c.lindex("ingress:db", -1))[1] == b"go"
    assert d.stop() == 0


def test_a_wrong_type_alarms_and_stops_only_the_schedules(redis, quredisd, handler, ledger):
    c = redis.client()
    c.set(KEY, "x")
    d = quredisd(queues=[queue("db", handler("cat >>@LEDGER@; echo >>@LEDGER@"))], schedules=[schedule()])
    d.wait_event("queue_error", queue="db", at="schedules")
    c.lpush("ingress:db", "m")
    wait_for(lambda: "m" in ledger.lines())
    assert c.get(KEY) == b"x"
    c.delete(KEY)
    wait_for(lambda: record(c) and record(c)[2], 40)
    assert d.stop() == 0
