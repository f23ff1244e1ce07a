"""Schedules in the console: the page, and a message now."""
import json

import pytest

from harness import browser as browsers
from harness import queue, wait_for

NIGHTLY = {"name": "nightly", "queue": "mail", "cron": "30 2 * * *", "timezone": "Europe/Berlin", "message": "go", "overlap": False}
BROWSER = pytest.mark.skipif(browsers.why_not() != "", reason=browsers.why_not())


def test_run_obeys_overlap_and_rights(console, redis):
    c = redis.client()
    w = console(queues=[queue("mail", "/bin/true")], schedules=[NIGHTLY])
    assert [s["name"] for s in w.get("/api/v1/schedules")] == ["nightly"]
    assert w.ask("/api/v1/schedule/run?schedule=nightly&dry_run=true", "POST").code == 200 and c.llen("ingress:mail") == 0
    done = w.ask("/api/v1/schedule/run?schedule=nightly", "POST")
    assert done.code == 200 and json.loads(done.body) == {"schedule": "nightly", "queue": "mail", "pushed": True, "dry_run": False}
    assert w.ask("/api/v1/schedule/run?schedule=nightly", "POST").code == 409 and c.llen("ingress:mail") == 1
    assert w.ask("/api/v1/schedule/run?schedule=nightly&force=true", "POST").code == 200 and c.llen("ingress:mail") == 2
    assert w.ask("/api/v1/schedule/run?schedule=nigthly", "POST").code == 400
    assert w.ask("/api/v1/schedule/run", "POST").code == 400
    assert w.ask("/api/v1/schedule/run?schedule=nightly&force=true", "POST", token=None).code == 401 and c.llen("ingress:mail") == 2
    only_reads = console(queues=[queue("mail", "/bin/true")], schedules=[NIGHTLY], web={"read_only": True})
    assert only_reads.ask("/api/v1/schedule/run?schedule=nightly&force=true", "POST").code == 403 and c.llen("ingress:mail") == 2


@BROWSER
@pytest.mark.limit(600)
def test_the_page(page, redis):
    c = redis.client()
    p = page(queues=[queue("mail", "/bin/true")], schedules=[NIGHTLY]).open("/")
    wait_for(lambda: p.script("return [...document.querySelectorAll('#nav a')].filter((a) => !a.hidden).map((a) => a.textContent).includes('Schedules')"))
    p.go("/schedules")
    p.sees("30 2 * * *")
    p.sees("Redis knows no ticks of nightly")
    assert [r[0] for r in p.rows(".table-schedules")] == ["nightly"]
    p.click("Run now")
    p.click("Run now", inside="dialog[open]")
    wait_for(lambda: c.llen("ingress:mail") == 1)
    p.sees("The message of nightly is in mail", ".toasts")


@BROWSER
def test_a_console_without_schedules_has_no_place_for_them(page):
    p = page(queues=[queue("mail", "/bin/true")]).open("/")
    p.go("/schedules")
    p.sees("No schedules")
    assert p.script("return [...document.querySelectorAll('#nav a')].filter((a) => a.hidden).map((a) => a.textContent)") == ["Schedules"]
