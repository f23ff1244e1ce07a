"""quredis schedule and quredis schedule run."""
import json
import re
from datetime import datetime, timezone

from harness import queue, wait_for
from harness.messages import sealed, unwrap

KEY = "quredis:of:ingress:db:schedules"
BERLIN = {"name": "nightly", "queue": "db", "cron": "30 2 * * *", "timezone": "Europe/Berlin", "message": "go"}


def often(**keys):
    return {"name": "often", "queue": "db", "every": "1s", "message": "go", **keys}


def shown(d, *words):
    r = d.quredis("schedule", *words, "--json")
    assert r.code == 0, r
    return json.loads(r.out)


def test_the_ticks_that_come_need_no_supervisor(quredisd, handler):
    """Nor Redis, whose facts are unknown then."""
    d = quredisd(queues=[queue("db", handler("cat"))], schedules=[BERLIN, often(overlap=False, catch_up="none")], start=False)
    night = shown(d, "nightly", "--from", "2026-03-28T00:00Z", "--next", "3")[0]
    assert night["next"] == ["2026-03-28T01:30:00.000Z", "2026-03-29T01:00:00.000Z", "2026-03-30T00:30:00.000Z"]    # the gap, then summer time
    assert (night["last"], night["missed"], night["skipped"], night["known"]) == (None, None, None, False)
    assert night["queue"] == "db" and night["times"] == "30 2 * * *" and night["timezone"] == "Europe/Berlin" and night["overlap"] is True
    both = shown(d)
    assert [s["name"] for s in both] == ["nightly", "often"] and len(both[1]["next"]) == 3
    assert both[1]["times"] == "every 1s" and both[1]["catch_up"] == "none" and both[1]["overlap"] is False
    away = d.quredis("-u", "unix:///nonexistent/redis.sock", "schedule", "nightly", "--from", "2026-10-24", "--next", "2")
    assert away.code == 0 and "last and skipped ticks are not known" in away.err
    assert "2026-10-24T00:30:00.000Z" in away.out and "then 2026-10-25T00:30:00.000Z" in away.out


def test_a_host_without_the_time_zone_knows_no_next_tick(quredisd, handler, tmp):
    """Only quredis schedule says so: no other command needs the zone."""
    d = quredisd(queues=[queue("db", handler("cat"))], schedules=[BERLIN, often()], start=False)
    env = {"TZDIR": str(tmp / "nowhere")}
    r = d.quredis("schedule", "--json", env=env)
    night, other = json.loads(r.out)
    assert r.code == 0 and night["next"] == [] and night["timezone"] == "Europe/Berlin" and len(other["next"]) == 3
    assert r.err.count('next ticks of nightly are not known: this host has no time zone "Europe/Berlin"') == 1 and "often" not in r.err
    table = d.quredis("schedule", "nightly", env=env)
    assert table.code == 0 and "next ticks of nightly are not known" in table.err and "then" not in table.out
    for words in ["ls"], ["schedule", "run", "nightly"], ["run", "db", "x"]:
        assert (done := d.quredis(*words, env=env)).code == 0 and "zone" not in done.err, done
    assert (done := d.quredis("doctor", env=env)).code != 0 and 'the time zone "Europe/Berlin" is not known here' in done.out


def test_what_redis_knows(redis, quredisd, handler):
    c = redis.client()
    d = quredisd(queues=[queue("db", handler("cat"), workers=0)], schedules=[often(overlap=False), BERLIN])
    wait_for(lambda: c.llen("ingress:db") == 1 and shown(d, "often")[0]["skipped"] > 1, 30)
    seen = shown(d, "often")[0]
    tick = datetime.fromtimestamp(unwrap(c.lindex("ingress:db", 0))[0]["scheduled"] / 1000, timezone.utc)
    assert seen["last"] == tick.strftime("%Y-%m-%dT%H:%M:%S.000Z") < seen["last_skipped"] < seen["next"][0]
    assert seen["known"] is True and shown(d, "nightly")[0]["last"] is None and shown(d, "nightly")[0]["missed"] == 0
    assert d.stop() == 0
    definition = c.hget(KEY, "often").split()[0]
    c.hset(KEY, "often", c.hget(KEY, "often").replace(definition, b"0" * 16))
    assert shown(d, "often")[0]["known"] is False       # of other times
    c.delete(KEY)
    c.set(KEY, "x")
    r = d.quredis("schedule", "often")
    assert r.code == 0 and "wrong type" in r.err


def test_mistakes(quredisd, handler):
    d = quredisd(queues=[queue("db", handler("cat"))], schedules=[BERLIN], start=False)
    r = d.quredis("schedule", "nigthly")
    assert r.code == 64 and "did you mean nightly?" in r.err
    assert d.quredis("schedule", "run").code == 64 and d.quredis("schedule", "run", "x").code == 64
    r = d.quredis("schedule", "nightly", "--from", "soon")
    assert r.code == 64 and "--from: expected a time as it is printed" in r.err and "to come" not in r.err
    assert re.search(r"30 2 \* \* \*  +Europe/Berlin ", d.quredis("schedule").out)      # the ticks are in UTC


def test_run_pushes_one_now_and_obeys_overlap(redis, quredisd, handler, ledger):
    c = redis.client()
    alone = {**BERLIN, "overlap": False}
    d = quredisd(queues=[queue("db", handler('read -r m; echo "$m $QUREDIS_SCHEDULE $QUREDIS_SCHEDULED_AT" >>@LEDGER@'), workers=0)], schedules=[alone])
    wait_for(lambda: c.hget(KEY, "nightly"), 30)
    before = c.hget(KEY, "nightly")
    dry = d.quredis("schedule", "run", "nightly", "--dry-run")
    assert dry.code == 0 and dry.out == "would push a message of nightly to db\n" and c.llen("ingress:db") == 0
    r = d.quredis("schedule", "run", "nightly")
    assert r.code == 0 and r.out == "pushed a message of nightly to db\n" and c.llen("ingress:db") == 1
    r = d.quredis("schedule", "run", "nightly", "--json")
    assert r.code == 65 and json.loads(r.out) == {"schedule": "nightly", "queue": "db", "pushed": False, "dry_run": False}
    assert "overlap = false" in r.err and "--force" in r.err and c.llen("ingress:db") == 1
    assert d.quredis("schedule", "run", "nightly", "--dry-run").code == 65
    assert d.quredis("schedule", "run", "nightly", "--force").code == 0 and c.llen("ingress:db") == 2
    assert c.hget(KEY, "nightly") == before         # no tick
    ids = [m["id"] for m in json.loads(d.quredis("peek", "db", "ingress", "--json").out)]
    assert len(set(ids)) == 2 and all(re.fullmatch(r"nightly:\d{4}-\d\d-\d\dT[0-9:.]{12}Z:run:[0-9a-f]{16}", i) for i in ids)
    d.reload(queues=[queue("db", handler('read -r m; echo "$m $QUREDIS_SCHEDULE $QUREDIS_SCHEDULED_AT" >>@LEDGER@'))], schedules=[alone])
    wait_for(lambda: len(ledger.lines()) == 2, 30)
    assert all(line.startswith("go nightly 20") for line in ledger.lines())
    assert d.stop() == 0


def test_run_sees_the_trays_of_workers(redis, quredisd, handler, ledger):
    c = redis.client()
    d = quredisd(queues=[queue("db", handler("echo begin >>@LEDGER@; sleep 1000"))], schedules=[{**BERLIN, "overlap": False}],
                 supervisor={"drain_timeout": "1s"})
    c.lpush("ingress:db", sealed(c, "quredis/1 w=0123456789abcdef schedule=nightly scheduled=1000\ngo", "ingress:db"))
    wait_for(lambda: ledger.lines() == ["begin"], 30)
    assert d.quredis("schedule", "run", "nightly").code == 65
    d.quredis("cancel", "db", json.loads(d.quredis("peek", "db", "transit", "--json").out)[0]["id"])
    wait_for(lambda: c.llen("escape:db") == 1, 30)
    assert d.quredis("schedule", "run", "nightly").code == 0
    wait_for(lambda: ledger.lines() == ["begin"] * 2, 30)
    d.stop()
