"""quredis doctor: the health of queues, from the reports of the sweepers."""
import json
import re

import pytest

from harness import wait_for
from harness.clinic import GONE
from harness.queues import now_ms

from .test_findings import table_of

ON = {"health": {"enabled": True}}


def report(clinic, name="mail", *reasons, age_ms=0, interval_ms=60000, **fields):
    """Writes a report as a sweeper does: a reason is (code, status, text)."""
    statuses = ["healthy", "degraded", "unhealthy"]
    worst = max((s for _, s, _ in reasons), key=statuses.index, default="healthy")
    document = {"queue": name, "status": worst, "at_ms": now_ms() - age_ms, "interval_ms": interval_ms,
                "reasons": [{"code": c, "status": s, "value": 1, "limit": 0, "text": t} for c, s, t in reasons], **fields}
    clinic.client.hset("quredis:health", name, json.dumps(document))


@pytest.fixture
def queues(clinic):
    """Returns a function that configures queues with health, as in Redis after a supervisor ran."""
    def make(*names):
        clinic.configure(*[clinic.queue(n) for n in names], **ON)
        for n in names:
            clinic.registered(n)
        return clinic
    return make


def health_rows(clinic):
    """Of the table."""
    return [x for x in table_of(clinic.run(json=False).out)[1] if x[1] == "health"]


def test_a_sick_queue_is_named_with_its_reasons(queues):
    clinic = queues("mail", "news", "fax")
    report(clinic, "mail", ("ingress", "degraded", "12000 messages wait, the limit is 10000"),
           ("growth", "degraded", "will not catch up: the backlog has grown for 20m, the limit is 15m"),
           ("stuck", "degraded", "7 messages are stuck, the limit is 5"))
    report(clinic, "news", ("dead_letters", "unhealthy", "21 dead letters, the limit is 20"))
    report(clinic, "fax")
    r = clinic.doctor()
    mail, news = sorted(r.bad("health"), key=lambda x: x["queue"])
    assert (mail["severity"], mail["queue"], mail["where"]) == ("warning", "mail", "mail")
    assert mail["what"] == ("degraded: 12000 messages wait, the limit is 10000; will not catch up: the backlog has grown for 20m, the limit is 15m; "
                            "7 messages are stuck, the limit is 5")
    assert mail["advice"] == "quredis trend mail --since 6h; quredis peek mail transit; all figures: quredis health mail"
    assert (news["severity"], news["what"]) == ("error", "unhealthy: 21 dead letters, the limit is 20")
    assert news["advice"] == "quredis dlq stats news; all figures: quredis health news"
    assert r.code == 2
    assert [x[0] for x in health_rows(clinic)] == ["warning", "error"] and "fax" not in clinic.run(json=False).out
    for name in "mail", "news":
        report(clinic, name)
    clinic.doctor().good("health")
    assert health_rows(clinic) == []
    assert any(line.split()[:2] == ["ok", "health"] for line in clinic.run("-v", json=False).out.splitlines())


def test_queues_that_are_sick_alike_are_one_row(queues):
    clinic = queues("q1", "q2", "q3")
    for i in range(1, 4):
        report(clinic, f"q{i}", ("ingress", "degraded", f"{i * 1000} messages wait, the limit is 500"))
    row, = health_rows(clinic)
    assert row[2:4] == ["q1, q2 and q3", "degraded: 1000 to 3000 messages wait, the limit is 500"]
    assert row[4] == f"quredis -c {clinic.conf} trend QUEUE --since 6h; all figures: quredis -c {clinic.conf} health QUEUE"


def test_other_words_are_a_row_of_their_own(queues):
    """Half of the words of two sentences may be the same by chance."""
    clinic = queues("q1", "q2")
    report(clinic, "q1", ("stuck", "degraded", "7 messages are stuck, the limit is 5"))
    report(clinic, "q2", ("stuck", "degraded", "7 letters were lost, the limit is 5"))
    assert [row[3] for row in health_rows(clinic)] == ["degraded: 7 messages are stuck, the limit is 5", "degraded: 7 letters were lost, the limit is 5"]


def test_a_cause_that_another_check_finds_is_not_told_twice(queues):
    clinic = queues("mail", "news")
    for name in "mail", "news":
        clinic.client.set(f"quredis:of:ingress:{name}:paused", json.dumps({"user": "ann", "uid": 1, "host": "web3", "since": "2026-01-01T00:00:00Z"}))
    paused = "paused", "degraded", "paused for 19m07s, the limit is 10m; 1 message waits"
    report(clinic, "mail", paused)
    report(clinic, "news", ("dead_letters", "degraded", "11 dead letters, the limit is 10"), paused)
    rows = {x["queue"]: x for x in clinic.doctor().bad("health")}
    assert (rows["mail"]["severity"], rows["mail"]["what"]) == ("note", "degraded: see check paused")
    assert rows["mail"]["advice"] == "all figures: quredis health mail"
    assert (rows["news"]["severity"], rows["news"]["what"]) == ("warning", "degraded: 11 dead letters, the limit is 10; see check paused")
    clinic.client.delete("quredis:of:ingress:mail:paused")         # resumed since the report
    assert {x["queue"]: x["what"] for x in clinic.doctor().bad("health")}["mail"] == "degraded: " + paused[2]
    report(clinic, "mail", ("orphans", "degraded", "1 registrations and messages without an owner that lives, the limit is 0"))
    clinic.registered().worker(GONE, alive=False)
    assert {x["queue"]: x["what"] for x in clinic.doctor().bad("health")}["mail"] == "degraded: see check registrations"


def test_a_breaker_is_told_once(clinic, tmp):
    """Of this host: the check of the supervisor knows more. Of another host: only the report."""
    reason = "breaker", "degraded", "the breaker is open: its handler cannot be executed: execve /x: No such file or directory"
    clinic.registered()
    report(clinic, "mail", reason)
    assert clinic.doctor().one("health", "warning", where="mail")["what"] == "degraded: " + reason[2]
    typo = tmp / "typo"
    typo.write_text("#!/usr/bin/pyhton3\n")
    typo.chmod(0o755)
    clinic.configure(clinic.queue(handler=typo), start=True)
    clinic.client.lpush("ingress:mail", "x")
    wait_for(lambda: "breaker" in clinic.daemon.quredis("status").out)
    report(clinic, "mail", reason)
    r = clinic.doctor()
    r.one("supervisor", "error", "breaker: ", where="mail")
    assert r.one("health", "note", where="mail")["what"] == "degraded: see check supervisor"


def test_reports_that_are_missing_stale_or_broken(queues):
    clinic = queues("mail", "news", "fax", "post")
    clinic.registered("other")              # of other programs: no sweeper judges it
    assert clinic.doctor().one("health", "warning", "no supervisor reports the health of any queue", advice="health.enabled")["where"] == "quredis:health"
    report(clinic, "mail")
    report(clinic, "news", age_ms=3 * 3600 * 1000)
    clinic.client.hset("quredis:health", "post", b"\xff{")
    rows = {x["queue"]: x for x in clinic.doctor().bad("health")}
    assert {q: x["severity"] for q, x in rows.items()} == dict.fromkeys(["news", "fax", "post"], "warning")
    assert rows["news"]["what"] == "its last report of health is 3h00m old" and rows["post"]["what"] == "its last report of health cannot be read"
    assert rows["fax"]["what"] == "no supervisor reports its health" and all("quredis nodes" in x["advice"] for x in rows.values())
    report(clinic, "news", age_ms=-3 * 3600 * 1000 - 60000)
    news = next(x for x in clinic.doctor().bad("health") if x["queue"] == "news")
    assert re.fullmatch(r"its last report of health is 3h0\dm ahead of the clock of Redis", news["what"])
    report(clinic, "post", queue="news")    # of another queue
    clinic.client.hdel("quredis:health", "news")
    fax, post = sorted(health_rows(clinic), key=lambda x: x[2])
    assert fax[2:4] == ["news and fax", "no supervisor reports its health"] and post[2:4] == ["post", "its last report of health cannot be read"]


def test_without_health_nothing_is_missing(clinic):
    clinic.registered()
    clinic.doctor().good("health")
    report(clinic, "news")
    clinic.doctor().good("health")


@pytest.mark.parametrize("value", [b"x", b"\0"])
def test_reports_of_the_wrong_type(queues, value):
    clinic = queues("mail", "news")
    clinic.client.set("quredis:health", value)
    r = clinic.doctor("--fix")
    r.one("health", "error", "it is a string, but quredis needs a hash", advice="rename or delete it", where="quredis:health")
    assert r.code == 2 and clinic.client.get("quredis:health") == value


def test_a_report_of_a_stranger(queues):
    """Of any shape and size: doctor ends, and prints no control characters."""
    clinic = queues("mail", "news", "fax", "post")
    report(clinic, "mail", ("x\x1b[2J", "degraded", "\x1b[2J" + "y" * 100000))
    report(clinic, "news", status="unhealthy", reasons=[7, None, {}, {"code": "ingress"}, {"code": 1, "status": [], "text": {}}])
    report(clinic, "fax", *[("ingress", "degraded", f"{i} messages wait") for i in range(5000)])
    report(clinic, "post", at_ms=2**63 - 1, interval_ms=2**63 - 1, status="degraded", reasons="ingress")
    rows = {x["queue"]: x for x in clinic.doctor().bad("health")}
    assert rows["news"]["what"] == "unhealthy: its report has no reason" and rows["news"]["severity"] == "error"
    assert rows["post"]["what"] == "degraded: its report has no reason"
    assert all(len(x["what"]) < 2000 for x in rows.values()) and set(rows) == {"mail", "news", "fax", "post"}
    assert b"\x1b" not in clinic.run(json=False).raw
