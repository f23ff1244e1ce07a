"""A tick that nobody pushes: health says it after a minute, and doctor says why. Hosts with other times are named."""
import json
import shutil

import pytest

from harness import queue, wait_for

KEY = "quredis:of:ingress:db:schedules"
HOURLY = {"name": "hourly", "queue": "db", "cron": "0 * * * *", "message": "go"}


def reasons(c):
    found = c.hget("quredis:health", "db")
    return {r["code"]: r for r in json.loads(found)["reasons"]} if found else None


def findings(d, **options):
    return [f["what"] for f in json.loads(d.quredis("doctor", "--json", **options).out) if f["check"] == "schedules" and f["severity"] != "ok"]


@pytest.mark.limit(600)
def test_a_key_of_the_wrong_type_stops_the_schedules_alone_and_makes_them_late(redis, quredisd, handler):
    c = redis.client()
    often = {**HOURLY, "name": "often", "cron": None, "every": "1s"}
    del often["cron"]
    d = quredisd(queues=[queue("db", handler("cat"))], schedules=[often], health={"enabled": True, "interval": "1s"}, supervisor={"lease": "1s"})
    wait_for(lambda: c.hget(KEY, "often") and reasons(c) == {}, 60)
    assert findings(d) == []
    c.delete(KEY)
    c.set(KEY, "x")
    d.wait_event("queue_error", queue="db", at="schedules")
    told = wait_for(lambda: reasons(c).get("schedule_late"), 150)
    assert told["status"] == "degraded" and told["text"].startswith("schedule often: no tick has been pushed or ruled out for 1m")
    assert told["text"].endswith("the limit is 1m") and told["limit"] == 60000
    [found] = findings(d)
    assert found.startswith("Redis does not give it, so no tick of schedule often is pushed: WRONGTYPE")
    c.delete(KEY)
    wait_for(lambda: c.hget(KEY, "often") and "schedule_late" not in reasons(c), 150)
    assert d.stop() == 0


@pytest.mark.limit(600)
def test_a_schedule_without_its_zone_is_late(redis_server, quredisd, handler, tmp):
    server, zone = redis_server(clock=True), tmp / "zones/Europe/Berlin"
    zone.parent.mkdir(parents=True)
    shutil.copy("/usr/share/zoneinfo/Europe/Berlin", zone)
    c, env = server.client(), {"TZDIR": str(tmp / "zones")}
    often = {"name": "often", "queue": "db", "every": "1s", "message": "x"}       # tells the clock of Redis
    d = quredisd(redis=server, queues=[queue("db", handler("cat"))], schedules=[{**HOURLY, "timezone": "Europe/Berlin"}, often],
                 health={"enabled": True, "interval": "1s"}, supervisor={"lease": "1s"}, env=env)
    wait_for(lambda: c.hget(KEY, "hourly") and c.hget(KEY, "often"), 60)
    zone.unlink()
    server.set_clock(3600)
    d.wait_event("schedule_zone_missing", queue="db", schedule="hourly")
    told = wait_for(lambda: (reasons(c) or {}).get("schedule_late"), 150)
    assert told["text"].startswith("schedule hourly: no tick has been pushed or ruled out for ")
    assert d.stop() == 0


def test_doctor_tells_a_late_tick_without_any_supervisor(redis, quredisd, handler):
    c = redis.client()
    d = quredisd(queues=[queue("db", handler("cat"))], schedules=[HOURLY])
    wait_for(lambda: c.hget(KEY, "hourly"), 30)
    assert findings(d) == []
    assert d.stop() == 0
    definition, last = c.hget(KEY, "hourly").split()[:2]
    c.hset(KEY, "hourly", b"%s %d 0 0 0 0" % (definition, int(last) - 3 * 3600 * 1000))
    [found] = findings(d)
    assert found.startswith("the tick 20") and "of schedule hourly has been due for " in found and found.endswith("no supervisor has pushed it")
    c.hset(KEY, "hourly", "oops")
    assert findings(d) == ["the record of schedule hourly is not as quredis writes it: the schedule begins anew"]
    c.delete(KEY)
    assert findings(d) == ["no supervisor has begun schedule hourly"]


@pytest.mark.limit(120)
def test_doctor_names_hosts_with_other_times(redis, quredisd, handler, tag):
    c = redis.client()
    body = handler("cat")

    def start(node, schedules):
        d = quredisd(queues=[queue("db", body)], schedules=schedules, supervisor={"node": tag + node})
        wait_for(lambda: c.exists(f"quredis:node:{tag}{node}"), 30)
        return d
    here = start("here", [HOURLY])
    there = start("there", [{**HOURLY, "cron": "5 * * * *", "timezone": "Europe/Berlin"}])
    wait_for(lambda: f"the times of schedule hourly are 0 * * * * UTC here, and 5 * * * * Europe/Berlin on {tag}there" in findings(here), 30)
    told = findings(there)
    assert f"the times of schedule hourly are 5 * * * * Europe/Berlin here, and 0 * * * * UTC on {tag}here" in told
    assert [f for f in told if f.startswith("schedule hourly has other times here than in Redis")]
    there.write_conf(schedules=[{**HOURLY, "cron": "7 * * * *"}])
    advice = [f["advice"] for f in json.loads(there.quredis("doctor", "--json").out) if f["check"] == "schedules" and "times" in f["what"]]
    assert advice and all("has not loaded these times yet: quredis" in a for a in advice), advice
    there.reload(queues=[queue("db", body)], schedules=None)
    wait_for(lambda: findings(here) == [f"{tag}there does not have schedule hourly: while that host leads the queue, no tick of it is pushed"], 30)
    assert findings(there) == [f"{tag}here has schedule hourly, and this host does not: while this host leads the queue, no tick of it is pushed"]
    there.reload(queues=[queue("db", body)], schedules=[HOURLY])
    wait_for(lambda: findings(here) == [], 30)
