"""health.on_change runs for each change of a queue's status, as a handler of that queue runs."""
import json
import os

import pytest

from harness import queue, wait_for
from sweeper.test_health import health, next_report, report

NOTE = """cat >@TMP@/document.$QUREDIS_STATUS
echo "$QUREDIS_QUEUE $QUREDIS_STATUS_BEFORE $QUREDIS_STATUS" >>@TMP@/changes
"""


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


def dead_letters(c, n, name="mail"):
    with c.pipeline() as p:
        p.delete(f"escape:{name}")
        if n:
            p.lpush(f"escape:{name}", *range(n))
        p.execute()


def watched(command, **more):
    return {**health(dlq_max_warning=10, dlq_max_critical=20), "on_change": [str(command)], **more}


def test_each_change_runs_it_once_whichever_host_leads(redis, quredisd, handler, tmp):
    c = redis.client()
    note, changes = handler(NOTE, name="note"), tmp / "changes"
    hosts = {"a": quredisd(queues=[queue("mail", handler("cat"), workers=0)], health=watched(note), supervisor={"node": "a", "lease": "2s"})}
    next_report(c, n=2)
    assert lines(changes) == []
    dead_letters(c, 11)
    wait_for(lambda: lines(changes) == ["mail healthy degraded"])
    document = json.loads((tmp / "document.degraded").read_text())
    assert document["queue"] == "mail" and document["status"] == "degraded" and document["reasons"][0]["text"] == "11 dead letters, the limit is 10"
    wait_for(lambda: report(c)["notified"] == "degraded")
    sweeper = hosts["a"].sweeper()
    hosts["a"].reload(log={"level": "info"})
    wait_for(lambda: hosts["a"].sweeper() not in (None, sweeper))
    next_report(c, n=2)
    hosts["b"] = quredisd(queues=[queue("mail", handler("cat"), workers=0)], health=watched(note), supervisor={"node": "b", "lease": "2s"})
    hosts["a"].kill_tree()
    wait_for(lambda: (r := report(c)) and r["node"] == "b", 30)
    next_report(c, n=2)
    assert lines(changes) == ["mail healthy degraded"]
    dead_letters(c, 21)
    wait_for(lambda: len(lines(changes)) == 2)
    dead_letters(c, 0)
    wait_for(lambda: lines(changes) == ["mail healthy degraded", "mail degraded unhealthy", "mail unhealthy healthy"])
    assert hosts["b"].stop() == 0


def test_a_sweeper_that_leads_again_knows_what_was_notified_meanwhile(redis, redis_proxy, quredisd, handler, tmp):
    c, note, proxy = redis.client(), handler(NOTE, name="note"), redis_proxy(redis)
    quredisd(redis=proxy, queues=[queue("mail", handler("cat"), workers=0)], health=watched(note), supervisor={"node": "a", "lease": "2s"})
    assert next_report(c, n=2)["node"] == "a"
    proxy.refuse()
    proxy.cut()
    b = quredisd(queues=[queue("mail", handler("cat"), workers=0)], health=watched(note), supervisor={"node": "b", "lease": "2s"})
    wait_for(lambda: report(c)["node"] == "b", 30)
    dead_letters(c, 11)
    wait_for(lambda: report(c)["notified"] == "degraded")
    proxy.refuse(False)
    assert b.stop() == 0
    dead_letters(c, 0)
    wait_for(lambda: lines(tmp / "changes") == ["mail healthy degraded", "mail degraded healthy"], 30)
    assert report(c)["node"] == "a"


def test_a_leader_that_ends_while_it_runs_leaves_it_to_the_next(redis, quredisd, handler, tmp):
    c = redis.client()
    hang = handler('echo "$QUREDIS_STATUS" >>@TMP@/begun; exec sleep 600', name="hang")
    a = quredisd(queues=[queue("mail", handler("cat"), workers=0)], health=watched(hang), supervisor={"node": "a", "lease": "2s"})
    dead_letters(c, 11)
    wait_for(lambda: lines(tmp / "begun") == ["degraded"])
    b = quredisd(queues=[queue("mail", handler("cat"), workers=0)], health=watched(handler(NOTE, name="note")), supervisor={"node": "b", "lease": "2s"})
    a.kill_tree()
    wait_for(lambda: lines(tmp / "changes") == ["mail healthy degraded"], 30)
    assert b.stop() == 0


@pytest.mark.parametrize("after, told", [(21, []), (0, ["mail unhealthy healthy"])], ids=["as it was", "better"])
def test_what_was_notified_outlives_the_report(redis, quredisd, handler, tmp, after, told):
    """No supervisor leads the queue until another host has dropped its report, which is older than three intervals."""
    c, note, changes = redis.client(), handler(NOTE, name="note"), tmp / "changes"
    dead_letters(c, 21)
    d = quredisd(queues=[queue("mail", handler("cat"), workers=0)], health=watched(note), supervisor={"node": "a", "lease": "2s"})
    wait_for(lambda: lines(changes) == ["mail healthy unhealthy"])
    wait_for(lambda: report(c)["notified"] == "unhealthy")
    assert d.stop() == 0
    dead_letters(c, after)
    quredisd(queues=[queue("other", handler("cat"), workers=0)], health=health(), supervisor={"node": "b", "lease": "2s"})
    wait_for(lambda: report(c, "other") and not report(c), 60)
    d.start()
    wait_for(lambda: (r := report(c)) and r["status"] == ("healthy" if told else "unhealthy") and r["notified"] == r["status"], 30)
    next_report(c, n=3)
    assert lines(changes) == ["mail healthy unhealthy", *told]


def test_a_command_that_fails_runs_again_and_at_once_for_another_status(redis, quredisd, handler, tmp):
    c = redis.client()
    fail = handler('echo "$QUREDIS_STATUS_BEFORE $QUREDIS_STATUS" >>@TMP@/tries; test -e @TMP@/repaired || { echo no route >&2; exit 3; }', name="fail")
    d = quredisd(queues=[queue("mail", handler("cat"), workers=0)], health=watched(fail))
    dead_letters(c, 11)
    event = d.wait_event("on_change_failed", queue="mail", status="degraded")
    assert event["error"] == "exit status 3: no route" and event["command"] == str(fail)
    dead_letters(c, 21)
    d.wait_event("on_change_failed", queue="mail", status="unhealthy")
    assert lines(tmp / "tries") == ["healthy degraded", "healthy unhealthy"] and report(c)["notified"] == "healthy"
    (tmp / "repaired").touch()
    wait_for(lambda: report(c)["notified"] == "unhealthy", 90)
    assert lines(tmp / "tries") == ["healthy degraded", "healthy unhealthy", "healthy unhealthy"]
    assert d.stop() == 0


@pytest.mark.skipif(os.getuid() != 0, reason="only root can run it as another user")
def test_a_queue_has_its_own_and_runs_it_as_its_user(redis, quredisd, handler, tmp):
    c = redis.client()
    (tmp / "told").mkdir()
    (tmp / "told").chmod(0o777)
    who = handler("id -un >@TMP@/told/$QUREDIS_QUEUE.new; mv @TMP@/told/$QUREDIS_QUEUE.new @TMP@/told/$QUREDIS_QUEUE", name="who")
    own = {"run_as": {"user": "nobody"}, "health": {"on_change": [str(who)]}}
    d = quredisd(queues=[queue("mail", handler("cat"), workers=0, **own), queue("news", handler("cat"), workers=0)],
                 health=watched(handler(NOTE, name="note")))
    dead_letters(c, 11)
    dead_letters(c, 11, "news")
    wait_for(lambda: (tmp / "told/mail").exists() and lines(tmp / "changes"))
    assert (tmp / "told/mail").read_text() == "nobody\n" and lines(tmp / "changes") == ["news healthy degraded"]
    assert d.stop() == 0


def test_a_command_that_cannot_run_is_a_warning_and_the_queue_goes_on(redis, quredisd, handler, tmp):
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler("cat"))], health=watched(tmp / "pager"))
    done = d.check()
    assert done.returncode == 0 and f"health.on_change: {tmp}/pager: it does not exist" in done.stderr, done
    c.lpush("ingress:mail", "x")
    wait_for(lambda: c.llen("ingress:mail") == 0)
    dead_letters(c, 11)
    assert "No such file" in d.wait_event("on_change_failed", queue="mail")["error"]
    assert d.stop() == 0
