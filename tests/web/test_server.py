"""quredis web: its answers, the requests that it refuses, and clients that try to block it."""
import base64
import concurrent.futures
import contextlib
import hashlib
import http.client
import json
import os
import pathlib
import re
import resource
import select
import shutil
import signal
import socket
import subprocess
import time

import pytest

from harness import BUILD, QUREDIS, ROOT, SANITIZED, VERSION, alive, children_of, open_files, pss_kib, queue, render, sources, wait_for
from harness.console import Stream
from harness.queues import Queue, dumps, incarnation, now_ms, sha1

PROMTOOL = shutil.which("promtool") or BUILD.parent / "tools/promtool"


# ---- what it answers ----

@pytest.mark.parametrize("path, words", [
    ("queues", "ls"), ("queue/health", "health"), ("queue/stats", "stats"), ("queue/stats?queue=mail", "stats mail"),
    ("queue/stats?queue=mail&since=1h", "stats mail --since 1h"), ("queue/trend?queue=mail", "trend mail"),
    ("queue/trend?queue=mail&since=6h", "trend mail --since 6h"),
    ("queue/messages?queue=mail&list=ingress", "peek mail ingress -n 50"), ("queue/messages?queue=mail&list=escape&limit=1", "peek mail escape -n 1"),
    ("queue/dlq?queue=mail", "dlq ls mail"), ("queue/dlq?queue=mail&limit=1&class=HandlerExit", "dlq ls mail -n 1 -C HandlerExit"),
    ("queue/dlq/stats?queue=mail", "dlq stats mail -n 50"), ("queue/dlq/stats?queue=mail&limit=1", "dlq stats mail -n 1"),
    ("queue/dlq/record?queue=mail&id=@", "dlq show mail @"),
    ("queue/done?queue=mail", "done ls mail"), ("queue/stale", "stale"), ("nodes", "nodes"), ("schedules", "schedule"),
])
def test_documents_are_those_of_the_command_line(web, redis, quredis, path, words):
    q = Queue(redis.client())
    redis.client().lpush(q.ingress, b"a", b"\xff\x00b", "ü\u0085\x1b[31m<script>".encode())
    record = q.dead_letters(b"x", b"\xfe\n", b"y")[1]
    answer = web.ask("/api/v1/" + path.replace("@", record))
    said = quredis("--json", *words.replace("@", record).split(), conf=web.conf)
    assert answer.code == 200 and answer.headers["content-type"] == "application/json" and answer.body == said.raw != b""


def test_a_search_says_where_it_ended(web, redis):
    redis.client().lpush(Queue(redis.client()).ingress, "needle", *[f"m{i}" for i in range(20)])
    answer = web.ask("/api/v1/queue/messages?queue=mail&list=ingress&text=NEEDLE&search=10")
    assert (json.loads(answer.body), answer.headers["quredis-note"]) == ([], "found 0 among the first 10 messages")
    answer = web.ask("/api/v1/queue/messages?queue=mail&list=ingress&text=NEEDLE")
    assert len(json.loads(answer.body)) == 1 and answer.headers["quredis-note"] == "found 1 among 21 messages"
    assert web.ask("/api/v1/queue/messages?queue=mail&list=ingress&search=10").code == 400


def test_supervisor_and_doctor(web, quredisd, console, redis):
    assert web.ask("/api/v1/supervisor").code == 503
    findings = web.get("/api/v1/doctor")
    assert {"severity", "check", "what", "advice"} <= set(findings[0])
    daemon = quredisd(queues=[queue("mail", "/bin/true")])
    other = console(supervisor={"control_socket": str(daemon.dir / "c")})
    assert [q["name"] for q in other.get("/api/v1/supervisor")["queues"]] == ["mail"]


def test_doctor_of_the_console_runs_no_code_of_users(console, tmp):
    (tmp / "jobs.py").write_text(f"open({str(tmp / 'loaded')!r}, 'w')\ndef handle(message): pass\n")
    web = console(queues=[{"name": "mail", "function": str(tmp / "jobs.py")}])
    assert "functions" not in {f["check"] for f in web.get("/api/v1/doctor")}
    assert not (tmp / "loaded").exists()


def test_a_page_of_dead_letters_has_little_of_each_message(web, redis):
    q = Queue(redis.client())
    q.dead_letters(*(b"\xff%d" % i + b"\0" * 60000 for i in range(200)))
    answer = web.ask("/api/v1/queue/dlq?queue=mail&limit=200")
    rows = json.loads(answer.body)
    assert len(rows) == 200 and all(r["cut"] and len(base64.b64decode(r["message_base64"])) == 512 for r in rows)
    assert len(answer.body) < 200 * 2048


def test_pages_of_dead_letters(web, redis):
    ids = Queue(redis.client()).dead_letters(*(b"%d" % i for i in range(7)))
    seen, before = [], ""
    while page := web.get(f"/api/v1/queue/dlq?queue=mail&limit=3{before}"):
        seen += [d["record"] for d in page]
        before = f"&before={seen[-1]}"
    assert seen == ids[::-1]
    assert web.ask("/api/v1/queue/dlq?queue=mail&before=5").code == 400


def test_events(web, redis):
    stream = Stream(web)
    assert stream.answer.status == 200 and stream.answer.headers["Content-Type"] == "text/event-stream"
    event, first = stream.next()
    assert event == "overview" and set(first) == {"time", "holds", "queues", "stats", "health", "nodes"}
    assert [(hold["state"], hold.get("code")) for hold in first["holds"]] == [(row["name"], row.get("code")) for row in reversed(sources.holds())]
    assert first["queues"] == web.get("/api/v1/queues") and first["stats"] == web.get("/api/v1/queue/stats")
    redis.client().lpush("ingress:mail", "x")
    document = stream.until(lambda e, d: d["queues"][0]["ingress_size"] == 1)
    late = Stream(web)
    assert late.next()[1]["queues"] == document["queues"]
    redis.stop()
    assert "Redis" in stream.until(lambda e, d: e == "failure")["error"]
    redis.start()
    stream.until(lambda e, d: e == "overview")
    stream.close(), late.close()


def test_metrics_say_why_a_breaker_is_open(web, redis, quredisd, tmp):
    (tmp / "typo").write_text("#!/usr/bin/pyhton3\n")
    (tmp / "typo").chmod(0o755)
    quredisd(queues=[queue("mail", str(tmp / "typo"))], supervisor={"node": "web1"})
    redis.client().lpush("ingress:mail", "x")
    wanted = ("quredis_breaker_cause", 'node="web1",queue="mail",cause="interpreter: No such file or directory"')
    wait_for(lambda: samples(web).get(wanted) == "1", 30)
    found = wait_for(lambda: samples(web).get(("quredis_breaker_next_attempt_seconds", 'node="web1",queue="mail"')), 60)
    assert 0 <= float(found) <= 30
    strange = [{"name": "a", "cause": "x" * 101, "next_attempt_ms": -1}, {"name": "b", "cause": 7, "next_attempt_ms": "soon"}]
    redis.client().set("quredis:node:web1", json.dumps({"node": "web1", "at_ms": 1, "queues": strange}))
    assert not any(k[0] in ("quredis_breaker_cause", "quredis_breaker_next_attempt_seconds") and "mail" not in k[1] for k in samples(web))


def test_metrics(web, redis, quredisd, tag):
    """Of one queue and one host: what the pages of metrics.textfile are called, and the figures of ls and stats."""
    quredisd(queues=[queue("mail", "/bin/false")], health={"enabled": True, "interval": "1s"})
    redis.client().lpush("ingress:mail", "a", "b")
    wait_for(lambda: redis.client().llen("escape:mail") == 2)
    figures = wait_for(lambda: (f := samples(web)).get(('quredis_messages_total', 'queue="mail",event="escaped"')) == "2" and f or None)
    figures = wait_for(lambda: (f := samples(web)).get(("quredis_queue_workers", 'queue="mail",state="waiting"')) == "1" and f or None)
    assert figures["quredis_queue_messages", 'queue="mail",list="escape"'] == "2" and figures["quredis_redis_up", None] == "1"
    assert figures["quredis_handler_duration_seconds_bucket", 'queue="mail",le="+Inf"'] == "2"
    assert figures["quredis_handler_duration_seconds_count", 'queue="mail"'] == "2"
    assert figures["quredis_handler_duration_seconds_sum", 'queue="mail"'] == f'{web.get("/api/v1/queue/stats?queue=mail")["duration_ms"] / 1000:.3f}'
    strange = {"queue": "tube", "status": "degraded", "at_ms": now_ms(), "interval_ms": 3600000, "reasons": [
        {"code": "failures", "status": "unhealthy"}, {"code": "failures", "status": "degraded"}, {"code": 'x"}', "status": "degraded"},
        {"code": "bounds", "status": "degraded", "recovering": True}, {"code": "archive", "status": "degraded", "recovering": False},
        {"code": "ingress", "status": "odd"}, {"code": 7}, 8, *[{"code": "x" + "y" * i, "status": "degraded"} for i in range(40)]]}
    strange["failures"] = {"classes": {"Down": 500, 'x"}': 2, "y" * 500: 3, "Odd": "7", "Neg": -1, **{f"C{i}": 1 for i in range(100)}}, "latest": 7}
    redis.client().hset("quredis:health", "tube", json.dumps(strange))
    told = {k[1]: v for k, v in samples(web).items() if k[0] == "quredis_queue_failed_attempts"}
    assert told == {'queue="mail",class="HandlerExit"': "2", 'queue="tube",class="Down"': "500", 'queue="tube",class="other"': "105"}
    told = {k[1]: v for k, v in samples(web).items() if k[0] == "quredis_health_reason"}
    assert told.pop('queue="tube",code="failures"') == "2" and told.pop('queue="tube",code="bounds"') == told.pop('queue="tube",code="archive"') == "1"
    assert 20 < len(told) < 32 and all(re.fullmatch('queue="tube",code="xy*"', k) for k in told), told
    told = {k: v for k, v in samples(web).items() if 'queue="tube"' in str(k[1])}
    assert {k[1]: v for k, v in told.items() if k[0] == "quredis_health_recovering"} == {'queue="tube",code="bounds"': "1", 'queue="tube",code="archive"': "0"}
    assert [told[f"quredis_dead_letters_{x}", 'queue="tube"'] for x in ("over", "unarchived")] == ["0", "1"]
    assert ("quredis_health_status", 'queue="mail"') in figures and figures["quredis_node_up", f'node="{tag}"'] == "1"
    if os.path.exists(PROMTOOL):
        done = subprocess.run([PROMTOOL, "check", "metrics"], input=web.ask("/metrics").body, capture_output=True, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    Queue(redis.client()).worker(incarnation(0))
    redis.client().set("quredis:node:web1", json.dumps({"node": "a\n\"b\\", "at_ms": -1, "queues": [{"name": "x", "workers": {"idle": True}}] * 2}))
    assert samples(web)["quredis_node_up", r'node="a\n\"b\\"'] == "1"
    redis.stop()
    assert samples(web) == {("quredis_build_info", f'version="{VERSION}"'): "1", ("quredis_redis_up", None): "0"}
    redis.start()


def test_metrics_tell_what_the_sweeper_did(web, redis, quredisd):
    """Lags and what purge took, under the names and the kinds of metrics.textfile."""
    now = redis.client().time()[0] * 1000
    redis.client().hset("quredis:health", "mail", json.dumps({"queue": "mail", "status": "degraded", "since_ms": now, "at_ms": now, "interval_ms": 60000,
                                                              "reasons": [7, {"code": 1}, {"code": "archive", "status": "degraded"}]}))
    redis.client().hset("quredis:of:ingress:mail:stats", mapping={"purged": 5, "purged_delayed": 2, "purged_done": 7, "transit_old": 1, "orphaned": 3,
                                                       "lag_below_64": 4, "lag_longer": 1, "lag_ms": 5000250})
    figures = samples(web)
    assert {k[1]: v for k, v in figures.items() if k[0] == "quredis_purged_total"} == \
        {f'queue="mail",kind="{kind}"': n for kind, n in (("ingress", "3"), ("delayed", "2"), ("transit", "1"), ("done", "7"), ("orphaned", "3"))}
    assert {n: figures[f"quredis_dead_letters_{n}", 'queue="mail"'] for n in ("unarchived", "over")} == {"unarchived": "1", "over": "0"}
    bucket = {le: figures["quredis_sweep_lag_seconds_bucket", f'queue="mail",le="{le}"'] for le in ("0.032", "0.064", "4194.3", "+Inf")}
    assert bucket == {"0.032": "0", "0.064": "4", "4194.3": "4", "+Inf": "5"}
    assert figures["quredis_sweep_lag_seconds_sum", 'queue="mail"'] == "5000.250" and figures["quredis_sweep_lag_seconds_count", 'queue="mail"'] == "5"


@pytest.mark.skipif(SANITIZED, reason="takes longer than a child may")
def test_thousands_of_queues(web, redis):
    """Redis is not waited for once a queue, and the page has room."""
    c = redis.client()
    pipe = c.pipeline()
    for i in range(1800):
        Queue(pipe, f"{i:05}-" + "a-long-name-" * 5)
    pipe.execute()
    reads = c.info("stats")["total_reads_processed"]
    answer = web.ask("/metrics")
    assert answer.code == 200 and answer.body.count(b"quredis_queue_paused{") == 1801 and len(answer.body) > 16 << 20
    assert c.info("stats")["total_reads_processed"] - reads < 1000


def samples(web):
    answer = web.ask("/metrics")
    assert answer.code == 200 and answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = re.findall(r"^(\w+)(?:\{(.*)\})? (\S+)$", answer.body.decode(), re.M)
    assert len(found) == len({f[:2] for f in found})
    return {(name, labels or None): value for name, labels, value in found}


def test_probes(web, redis):
    assert (web.ask("/livez").code, web.ask("/readyz").code) == (200, 200)
    redis.stop()
    wait_for(lambda: web.ask("/readyz").code == 503)
    assert web.ask("/livez").code == 200
    assert web.ask("/api/v1/queues").code == 503


def test_every_file_of_the_pages_is_served(web):
    files = [p for p in (ROOT / "admin/web/assets").rglob("*") if p.is_file()]
    assert files
    for path in files:
        answer = web.ask(f"/{path.relative_to(ROOT / 'admin/web/assets')}")
        assert answer.body == path.read_bytes() and answer.headers["cache-control"] == "no-cache"
        assert "octet-stream" not in answer.headers["content-type"]
        again = web.ask(f"/{path.relative_to(ROOT / 'admin/web/assets')}", If_None_Match=answer.headers["etag"])
        assert (again.code, again.body) == (304, b"")
    assert web.ask("/").body == (ROOT / "admin/web/assets/index.html").read_bytes()


# ---- what it changes ----

def test_pause_and_resume(web, redis):
    assert json.loads(web.post("/api/v1/queue/pause?queue=mail").body)["changed"] is True
    assert redis.client().exists("quredis:of:ingress:mail:paused") == 1 and web.get("/api/v1/queues")[0]["paused"] is True
    assert json.loads(web.post("/api/v1/queue/resume?queue=mail").body)["changed"] is True
    assert redis.client().exists("quredis:of:ingress:mail:paused") == 0


def test_purge_and_retry(web, redis):
    q = Queue(redis.client())
    q.dead_letters(b"a", b"b")
    before = dumps(redis.client())
    assert json.loads(web.post("/api/v1/queue/purge?queue=mail&list=escape&dry_run=true").body)["count"] == 2
    assert dumps(redis.client()) == before
    assert json.loads(web.post("/api/v1/queue/retry?queue=mail&list=escape").body)["count"] == 2
    assert redis.client().llen(q.ingress) == 2
    assert json.loads(web.post("/api/v1/queue/purge?queue=mail&list=ingress").body)["count"] == 2
    assert redis.client().llen(q.ingress) == 0
    assert re.search(r"Z 127\.0\.0\.1 port \d+: POST /api/v1/queue/purge\?queue=mail&list=ingress: 200\n", web.text())


def test_dead_letters_one_or_all(web, redis):
    q = Queue(redis.client())
    ids = q.dead_letters(b"a", b"b", b"c")
    assert web.post(f"/api/v1/queue/dlq/retry?queue=mail&id={ids[1]}").code == 200
    assert [m.split(b"\n")[-1] for m in redis.client().lrange(q.ingress, 0, -1)] == [b"b"]
    assert web.post(f"/api/v1/queue/dlq/rm?queue=mail&id={ids[0]}").code == 200
    assert redis.client().lrange(q.escape, 0, -1) == [b"c"]
    assert web.post(f"/api/v1/queue/dlq/rm?queue=mail&id={ids[0]}").code == 404
    for wrong in ("", f"&all=true&id={ids[2]}", "&all=false", f"&id={ids[2]}&class=HandlerExit"):
        assert web.post(f"/api/v1/queue/dlq/rm?queue=mail{wrong}").code == 400
    assert redis.client().llen(q.escape) == 1
    assert json.loads(web.post("/api/v1/queue/dlq/rm?queue=mail&all=true").body)["count"] == 1
    assert redis.client().exists(q.escape, q.log) == 0


def test_dead_letters_that_are_marked_or_of_a_class(web, redis):
    q = Queue(redis.client())
    ids = q.dead_letters(b"a", b"b", b"c") + q.dead_letters(b"d", b"e", error_class="TTLExpired")
    before = dumps(redis.client())
    assert json.loads(web.post(f"/api/v1/queue/dlq/rm?queue=mail&dry_run=true&id={ids[0]}&id={ids[2]}").body)["count"] == 2
    assert dumps(redis.client()) == before
    assert json.loads(web.post(f"/api/v1/queue/dlq/retry?queue=mail&id={ids[0]}&id={ids[2]}").body)["count"] == 2
    half = web.post(f"/api/v1/queue/dlq/rm?queue=mail&id={ids[0]}&id={ids[1]}")
    assert half.code == 404 and json.loads(half.body)["count"] == 1 and ids[0] in json.loads(half.body)["error"]
    assert json.loads(web.post("/api/v1/queue/dlq/rm?queue=mail&all=true&class=TTLExpired").body)["count"] == 2
    assert redis.client().llen(q.escape) == redis.client().xlen(q.log) == 0


def test_dead_letters_by_a_filter(web, redis):
    q = Queue(redis.client())
    q.dead_letters(*(b"a%d" % i for i in range(30)), error_class="SMTPServerDisconnected", error_message="HTTP 503")
    ids = q.dead_letters(*(b"b%d" % i for i in range(30)), error_message="HTTP 404")
    cause = "cause=SMTPServerDisconnected%20exit%203:%20HTTP%20503"
    rows = web.get(f"/api/v1/queue/dlq?queue=mail&{cause}&limit=20")
    assert len(rows) == 20 and {r["error_message"] for r in rows} == {"HTTP 503"}
    assert len(web.get(f"/api/v1/queue/dlq?queue=mail&{cause}&limit=20&before={rows[-1]['record']}")) == 10
    stats = web.get(f"/api/v1/queue/dlq/stats?queue=mail&text=http%20404&since=1h")
    assert [(s["key"], s["count"]) for s in stats if s["by"] == "class"] == [("HandlerExit", 30)]
    answer = web.ask("/api/v1/queue/dlq/stats?queue=mail&limit=1")
    assert [s["by"] for s in json.loads(answer.body)] == ["class", "cause", "hour"]
    assert re.match(r"1 more by class \(--limit shows more\);1 more by cause \(--limit shows more\)", answer.headers["quredis-note"])
    for wrong, said in ((f"id={ids[0]}&text=x", "requires all=true"), ("all=true&caus=x", "did you mean cause?"), ("all=true&since=x", "02:00"),
                        ("all=true&canary=0", "a number from 1 to 1000"),
                        ("all=true&canary=1&rate=5/d", "such as 50/s"), ("all=true&exit=-1", "0 to 255"), ("all=true&text=a&text=b", "more than once")):
        r = web.post(f"/api/v1/queue/dlq/retry?queue=mail&{wrong}")
        assert r.code == 400 and said in json.loads(r.body)["error"], r.body
    assert json.loads(web.post(f"/api/v1/queue/dlq/retry?queue=mail&all=true&{cause}&canary=5&dry_run=true").body)["count"] == 30
    half = json.loads(web.post(f"/api/v1/queue/dlq/retry?queue=mail&all=true&{cause}&rate=4/s").body)
    assert half["interrupted"] and 0 < half["count"] == half["done"] < half["total"] == 30 and not half["complete"] and half["failed_again"] == 0
    rest = json.loads(web.post(f"/api/v1/queue/dlq/retry?queue=mail&all=true&{cause}&rate=1000/s").body)
    assert rest["complete"] and rest["done"] == 30 and rest["count"] == 30 - half["count"]
    assert json.loads(web.post("/api/v1/queue/dlq/rm?queue=mail&all=true&exit=3&anew=true").body)["count"] == 30
    assert redis.client().llen(q.ingress) == 30 and redis.client().llen(q.escape) == redis.client().xlen(q.log) == 0


# ---- what it refuses ----

@pytest.mark.parametrize("path, code, said", [
    ("queue/dlq", 400, 'parameter "queue" is required'), ("queue/dlq?queu=mail", 400, "did you mean queue?"), ("queue/dlq?queue=mail&queue=mail", 400, "more than once"),
    ("queue/dlq?queue=", 400, "empty"), ("queue/dlq?queue", 400, "queue"), ("queue/dlq?queue=%", 400, "%"), ("queue/dlq?queue=a%0", 400, "%"),
    ("queue/dlq?queue=%zz", 400, "%"), ("queue/dlq?queue=mail%00", 400, "%00"), ("queue/dlq?queue=mail&limit=0", 400, "1 to 1000"),
    ("queue/dlq?queue=mail&limit=1001", 400, "1 to 1000"), ("queue/dlq?queue=mail&limit=%2B1", 400, "1 to 1000"), ("queue/dlq?queue=mail&limit=9e9", 400, "1 to"),
    ("queue/stats?since=x", 400, "30m"), ("queue/dlq?queue=mail&&", 400, "NAME=VALUE"), ("queue/dlq?queue=mail%0", 400, "hexadecimal"), ("queue/dlq?queue=mial", 404, "did you mean mail?"), ("queue/dlq?queue=a%0Ab", 404, r"no queue a\nb"),
    ("queue/dlq?queue=--json", 404, "no queue --json"), ("queue/dlq?queue=-c/etc/passwd", 404, "no queue -c/etc/passwd"),
    ("queue/messages?queue=mail&list=ingres", 400, "did you mean ingress?"), ("queue/messages?queue=mail&list=--help", 400, "--help"),
    ("queue/messages?queue=mail&list=done", 400, "expected ingress, transit, escape or delayed"),
    ("queues?queue=mail", 400, "no parameter queue here: expected none"), ("quees", 404, "did you mean /api/v1/queues?"), ("../../etc/passwd", 404, "no"),
    ("queue/dlq/record?queue=mail&id=nobody", 404, "nobody"), ("queue/purge?queue=mail&list=escape", 405, "POST"),
])
def test_requests_that_make_no_sense(web, path, code, said):
    answer = web.ask("/api/v1/" + path)
    assert answer.code == code and said in json.loads(answer.body)["error"]


# Each parameter of each action: an unknown name or value, none, two, a long one, and bytes. What the error must say; {} stands for the letter x, 3,000 times.
NONSENSE = [
    *((f"queue/{action}?queue=mail{more}&list={value}", f"expected {lists}" + (f" (did you mean {near}?)" if near else ""))
      for action, more, lists in (("retry", "", "transit, escape or delayed"), ("purge", "", "ingress, transit, escape or delayed"),
                                  ("message/retry", "&id=a", "ingress or delayed"), ("message/rm", "&id=a", "ingress or delayed"))
      for value, near in (("UNKNOWN", None), ("delaid", "delayed"), ("Delayed", "delayed"), ("b", None), ("{}", None), ("%ff%01", None), ("--force", None))),
    *((f"queue/{action}&list=delayed&list=delayed", "list occurs more than once") for action in (
        "retry?queue=mail", "purge?queue=mail", "message/rm?queue=mail&id=a")),
    *((f"queue/{action}&list=", "list is empty") for action in ("retry?queue=mail", "purge?queue=mail", "message/retry?queue=mail&id=a")),
    *((f"queue/{action}", "list") for action in ("retry?queue=mail", "purge?queue=mail", "message/rm?queue=mail&id=a")),
    ("queue/retry?queue=mail&list=ingress", "expected transit"), ("queue/message/rm?queue=mail&list=escape&id=a", "expected ingress or delayed"),
    *((f"queue/{action}{query}", word) for action in ("pause", "resume", "dlq/retry", "dlq/rm") for query, word in (
        ("", '"queue" is required'), ("?queue=", "queue is empty"), ("?queue=mail&queue=mail", "queue occurs more than once"), ("?queue=%00", "%00"),
        ("?queue=mail&dry_run=", "dry_run is empty"), ("?queue=mail&dry_run=TRUE", "dry_run: expected true or false"),
        ("?queue=mail&dry_run={}", "true or false"),
        ("?queue=mail&dry_run=%ff", "true or false"), ("?queue=mail&dryrun=true", "did you mean dry_run?"),
        ("?queue=mail&dry_run=true&dry_run=true", "more than once"))),
    ("queue/pause?queue=mail&list=ingress", "no parameter list here: expected queue or dry_run"), ("queue/pause?queue=mail&{}=1", "expected queue or dry_run"),
    ("queue/pause?queue=mail&%ff%01=1", "no parameter %ff%01 here"),
    *((f"queue/{action}&id=b&id=a&id=b", "id has the value b twice") for action in (
        "message/rm?queue=mail&list=ingress", "message/retry?queue=mail&list=delayed", "dlq/rm?queue=mail", "dlq/retry?queue=mail")),
    ("queue/message/rm?queue=mail&list=ingress&id=", "id is empty"), ("queue/message/rm?queue=mail&list=ingress", '"id" is required'),
    *((f"queue/dlq/{action}?queue=mail{query}", word) for action in ("retry", "rm") for query, word in (
        ("", "expected id, once or more, or all=true"), ("&all=false", "or all=true"), ("&all=true&id=1-1", "or all=true"),
        ("&all=yes", "all: expected true or false"),
        ("&all=", "all is empty"), ("&all=true&all=true", "more than once"), ("&id=1-1&class=a", "class requires all=true"),
        ("&all=true&klass=a", "did you mean class?"),
        ("&all=true&anew=1", "anew: expected true or false"), ("&all=true&anew=", "anew is empty"),
        *((f"&all=true&{name}=", f"{name} is empty") for name in ("class", "cause", "text", "exit", "worker", "root", "since", "until")),
        *((f"&all=true&{name}=1&{name}=1", f"{name} occurs more than once") for name in ("class", "cause", "text", "exit", "worker", "root", "since", "until")),
        *((f"&all=true&{name}={value}", "expected") for name in ("exit", "since", "until") for value in ("abc", "{}", "%ff", "-1", "99999999999999999999")))),
    *((f"queue/dlq/retry?queue=mail&all=true&{name}={value}", expected) for name, expected in (
        ("canary", "from 1 to 1000"), ("max_failures", "from 0 to"), ("rate", "such as 50/s"))
      for value in ("abc", "{}", "%ff", "-1", "99999999999999999999", "1.5")),
    ("queue/dlq/retry?queue=mail&all=true&max_failure=1", "did you mean max_failures?"),
    ("queue/dlq/rm?queue=mail&all=true&canary=1", "no parameter canary here"),
    ("queue/operation/stop?stop=0", '"queue" is required'), ("queue/operation/stop?queue=mail", '"stop" is required'),
    ("queue/operation/stop?queue=mail&stop=", "stop is empty"), ("queue/operation/stop?queue=mail&stop=0&stop=0", "stop occurs more than once"),
]


def test_actions_that_make_no_sense_change_nothing(web, redis):
    """Not even where the value of one parameter could be taken for that of another: a message has the id b."""
    c = redis.client()
    q = Queue(c)
    q.dead_letters(b"x", b"y")
    c.lpush(q.ingress, "quredis/1 id=a\na", "quredis/1 id=b\n1", "quredis/1 id=b\n2")
    before = dumps(c)
    for path, said in NONSENSE:
        answer = web.post("/api/v1/" + path.replace("{}", "x" * 3000))
        error = json.loads(answer.body)["error"]
        wanted, _, near = said.partition(" (")
        assert answer.code == 400 and wanted in error and near in error and len(error) < 400, (path, answer)
    assert dumps(c) == before


def test_an_operation_is_stopped_and_not_joined_at_another_pace(web, redis):
    c = redis.client()
    q = Queue(c)
    q.dead_letters(b"1", b"2", error_class="Mine")
    c.set("quredis:of:ingress:mail:sweeper", "old.0000000000000000")
    id_ = sha1(b"dlq retry class=Mine")[:16]
    newest = c.xrevrange(q.log, count=1)[0][0].decode()
    c.hset(f"{q.escape}:operations", mapping={f"{id_}:{k}": v for k, v in {
        "what": "dlq retry class=Mine", "options": '{"class":"Mine"}', "since": "-", "bound": newest, "begun": str(now_ms()), "wanted": "run"}.items()})
    before = dumps(c)
    answer = web.post(f"/api/v1/queue/operation/stop?queue=mail&stop={id_}&dry_run=true")
    assert answer.code == 200 and json.loads(answer.body) == {"queue": "mail", "id": id_, "running": False, "dry_run": True}, answer
    answer = web.post("/api/v1/queue/dlq/retry?queue=mail&all=true&class=Mine&rate=1/s")
    assert answer.code == 409 and "executes this retry at another pace" in json.loads(answer.body)["error"], answer
    assert dumps(c) == before
    answer = web.post(f"/api/v1/queue/operation/stop?queue=mail&stop={id_}")
    assert answer.code == 200 and json.loads(answer.body)["dry_run"] is False, answer
    assert [o["state"] for o in json.loads(web.ask("/api/v1/operations?queue=mail").body)] == ["stopped"]


@pytest.mark.parametrize("path", ["queue/mial", "queue/{}", "queue/%ff%fe", "queue/a%0ab"])
def test_actions_on_a_queue_that_does_not_exist(web, redis, path):
    Queue(redis.client()).dead_letters(b"x")
    before, name = dumps(redis.client()), path.removeprefix("queue/").replace("{}", "x" * 3000)
    for action in ("pause?", "resume?", "retry?list=escape&", "purge?list=escape&", "message/rm?list=ingress&id=a&", "message/retry?list=ingress&id=a&",
                   "dlq/retry?all=true&", "dlq/rm?all=true&", "dlq/rm?id=1-1&"):
        answer = web.post(f"/api/v1/queue/{action}queue={name}")
        assert answer.code == 404 and "no queue" in answer.body.decode() and ("did you mean mail?" in answer.body.decode()) == (name == "mial"), answer
    assert dumps(redis.client()) == before


@pytest.mark.parametrize("path", ["queue/purge?queue=mail&list=escape", "queue/retry?queue=mail&list=escape", "queue/dlq/rm?queue=mail&all=true",
                                  "queue/dlq/retry?queue=mail&all=true", "queue/pause?queue=mail", "queue/resume?queue=mail"])
def test_who_changes_something_needs_the_token_and_a_page_of_ours(web, console, redis, path):
    Queue(redis.client()).dead_letters(b"a")
    redis.client().set("quredis:of:ingress:mail:paused", "{}") if "resume" in path else None
    before, path = dumps(redis.client()), "/api/v1/" + path
    here = f"{web.host}:{web.port}"
    for token in (None, "x", web.token[:-1], web.token + "0", web.token.upper()):
        answer = web.ask(path, "POST", token)
        assert answer.code == 401 and answer.headers["www-authenticate"] == "Bearer"
    assert web.ask(path, "POST", Authorization=f"Basic {web.token}").code == 401
    for headers in ({"Sec_Fetch_Site": "cross-site"}, {"Sec_Fetch_Site": "same-site"}, {"Origin": "http://evil.example"}, {"Origin": "null"},
                    {"Origin": f"http://{web.host}:1"}, {"Origin": f"http://{here}.evil.example"}):
        assert web.post(path, **headers).code == 403, headers
    assert web.post(path, body=b"x").code == 413
    assert web.post(path, Host="evil.example").code == 421
    assert web.ask(path, token=web.token).code == 405
    looks_on = console(web={"read_only": True})
    assert looks_on.post(path).code == 403
    assert dumps(redis.client()) == before
    assert web.post(path, Sec_Fetch_Site="same-origin", Origin=f"http://{here}").code == 200
    assert dumps(redis.client()) != before


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "POST"])
def test_methods(web, method):
    for path, allow in (("/api/v1/queues", "GET, HEAD"), ("/", "GET, HEAD"), ("/api/v1/queue/pause?queue=mail", "POST")):
        if method not in allow:
            answer = web.ask(path, method)
            assert (answer.code, answer.headers["allow"]) == (405, allow)
    assert web.ask("/api/v1/nothing", method).code == 404
    assert web.raw(f"{method} * HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()).startswith(b"HTTP/1.1 40")
    assert web.ask("/livez").code == 200


def test_head(web):
    whole, head = web.ask("/api/v1/queues"), web.ask("/api/v1/queues", "HEAD")
    assert (head.code, head.body) == (200, b"") and int(head.headers["content-length"]) == len(whole.body)


HOST = b"Host: localhost\r\n"
ODD = [
    (b"", b""), (bytes(100), b""), (b"GET", b""), (b"GET \r\n\r\n", b"400"), (b"GET / HTTP/9.9\r\n\r\n", b"400"), (b"GET / HTTP/0.0\r\n" + HOST + b"\r\n", b"400"), (b"GET / HTTP/0.9\r\n\r\n", b"400"), (b"GET / HTTP/1.21\r\nno colon\r\n\r\n", b"400"), (b"GET / HTTP/1.99999999999\r\n" + HOST + b"\r\n", b"400"), (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"400"),
    (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", b"400"), (b"FOO / HTTP/1.1\r\n" + HOST + b"\r\n", b"501"), (b"CONNECT a:80 HTTP/1.1\r\n" + HOST + b"\r\n", b"400"),
    (b"GET /" + b"a" * 70000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", b"400"), (b"GET / HTTP/1.1\r\n" + HOST + b"a: b\r\n" * 5000 + b"\r\n", b"400"),
    (b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"a" * 70000 + b"\r\n\r\n", b"400"), (b"GET / HTTP/1.1\r\n" + HOST + b"no colon\r\n\r\n", b"400"),
    (b"GET / HTTP/1.1\r\n\r\n", b"400"), (b"GET / HTTP/1.1\r\n" + HOST + HOST + b"\r\n", b"400"), (b"GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", b"400"),
    (b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", b"421"), (b"GET / HTTP/1.1\r\nHost: localhost.evil.example:1\r\n\r\n", b"421"),
    (b"GET / HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n", b"421"), (b"GET / HTTP/1.1\r\nHost: 2130706433\r\n\r\n", b"421"),
    (b"GET / HTTP/1.1\r\nHost: user@localhost\r\n\r\n", b"421"), (b"GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", b"200"),
    (b"GET http://localhost/ HTTP/1.1\r\n" + HOST + b"\r\n", b"200"), (b"GET //evil.example/ HTTP/1.1\r\n" + HOST + b"\r\n", b"400"),
    (b"GET / HTTP/1.0\r\n" + HOST + b"\r\n", b"200"), (b"GET /%00 HTTP/1.1\r\n" + HOST + b"\r\n", b"404"), (b"GET /\xff HTTP/1.1\r\n" + HOST + b"\r\n", b"404"),
    (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: -1\r\n\r\n", b"400"), (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 99999999999999999999\r\n\r\n", b"413"),
    (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", b"400"),
    (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 100000\r\nExpect: 100-continue\r\n\r\n", b"413"),
    (b"GET / HTTP/1.1\r\n" + HOST + b"Expect: the best\r\n\r\n", b"200"), (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\nExpect: the best\r\n\r\na", b"417"),
    (b"GET / HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\n\r\nabc", b"413"), (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 9999\r\n\r\n" + b"a" * 9999, b"413"),
    (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", b"413"),
    (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\na", b"413"),
    ((b"GET /readyz HTTP/1.1\r\n" + HOST + b"\r\n") * 30, b"200"), ((b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\n\r\na") * 5, b"413"),
]


def test_what_is_no_request_harms_nobody(web):
    always = ["content-security-policy", "x-content-type-options", "referrer-policy", "cross-origin-opener-policy", "cross-origin-resource-policy"]
    for data, code in ODD:
        answer = web.raw(data)
        # what is too long is not read to its end, and the kernel may drop the answer with it
        assert answer[9:12] == code or (answer == b"" and len(data) > 8192), (data[:200], answer)
        if answer and code != b"200":
            head, _, body = answer.partition(b"\r\n\r\n")
            said = dict(line.lower().split(": ", 1) for line in head.decode().split("\r\n")[1:])
            assert said["content-type"] == "application/json" and said["cache-control"] == "no-store" and set(always) <= set(said), (data[:200], answer)
            assert json.loads(body[:int(said["content-length"])])["error"], (data[:200], answer)
        assert web.ask("/livez").code == 200
    assert len(open_files(web.pid)) < 20


TWO = b"GET /livez HTTP/1.1\r\n" + HOST + b"\r\n"


@pytest.mark.parametrize("line", [b"GET /a\rb", b"GET /livez?a=\r", b"GET /livez\r", b"GET \r/livez", b"GET /livez\x0b", b"GET /li\x7fvez",
    b"CONNECT localhost:80",
                                  b"CONNECT /", b"CONNECT http://localhost/livez", b"CONNECT a\rb:1"])
def test_a_target_that_a_proxy_may_read_otherwise_ends_the_connection(web, line):
    """The console ends it, not the client. What follows is complete, or follows the answer, so the console could take it for a request."""
    for first, then in ((line + b" HTTP/1.1\r\n" + HOST + b"\r\n" + TWO, b""), (line + b" HTTP/1.1\r\n" + TWO, b""),
                        (line + b" HTTP/1.1\r\n" + HOST + b"\r\n", TWO)):
        with socket.create_connection((web.host, web.port), timeout=60) as s:
            s.sendall(first)
            answer = s.recv(65536)
            with contextlib.suppress(ConnectionError):      # it is closed
                s.sendall(then)
                answer += b"".join(iter(lambda: s.recv(65536), b""))
        assert answer.startswith(b"HTTP/1.1 400 ") and answer.count(b"HTTP/1.1") == 1 and b"\r\nConnection: close\r\n" in answer, answer


@pytest.mark.parametrize("target, host, code", [
    (b"http://localhost/livez", b"localhost", 200), (b"http://localhost:8080/livez", b"localhost:8080", 200), (b"HTTPS://LOCALHOST/livez", b"localhost", 200),
    (b"http://[::1]:1/livez", b"[::1]:1", 200), (b"http://127.0.0.1/", b"127.0.0.1", 200), (b"http://localhost", b"localhost", 200),
    (b"http://10.1.2.3/livez", b"10.1.2.3", 200), (b"http://evil.example/", b"evil.example", 421), (b"http://evil.example/", b"localhost", 400),
    (b"http://localhost/", b"evil.example", 400), (b"http://localhost/", b"127.0.0.1", 400), (b"http://a@localhost/livez", b"localhost", 400),
    (b"ftp://localhost/livez", b"localhost", 400), (b"http:///livez", b"localhost", 400), (b"//localhost/livez", b"localhost", 400),
])
def test_a_target_in_absolute_form(web, target, host, code):
    """It is valid HTTP, and names the same host as the header Host."""
    assert web.raw(b"GET " + target + b" HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")[9:12] == b"%d" % code


@pytest.mark.parametrize("name", ["10.42.0.17:8080", "web.queues.svc.cluster.local", "evil.example", "[fd00::17]:8080"])
def test_probes_and_scrapes_by_any_name(web, name):
    assert web.ask("/livez", Host=name).code == 200 and web.ask("/readyz", Host=name).code == 200
    assert web.ask("/metrics", Host=name).code == 200 and web.ask("/metrics", token=None, Host=name).code == 401
    assert web.ask("/livez?verbose=1", Host=name).code == 200 and web.ask("/readyz?verbose=1&x", Host=name).code == 200
    for path in ("/", "/console.js", "/api/v1/queues", "/api/v1/events", "/metrics/", "/livez/"):
        assert web.ask(path, Host=name).code == 421, path
    assert web.post("/livez", Host=name).code in (405, 421)


@pytest.mark.parametrize("head", [b"GET /livez HTTP/1.0\r\n", b"GET /livez HTTP/1.1\r\nHost:\r\nConnection: close\r\n"])
def test_a_probe_needs_no_name(web, head):
    for path, code in ((b"/livez", b"200"), (b"/", b"400")):
        with socket.create_connection((web.host, web.port), timeout=60) as s:
            s.sendall(head.replace(b"/livez", path) + b"\r\n")
            assert s.recv(65536).split()[1] == code


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
@pytest.mark.parametrize("header", [b"Content-Length: %d" % len(TWO), b"Transfer-Encoding: xchunked", b"Transfer-Encoding: chunked, identity", b"Transfer-Encoding:",
                                    b"Content-Length: 0\r\nContent-Length: %d" % len(TWO), b"Content-Length: %d\r\nContent-Length: 0" % len(TWO), b"Content-Length: 0x0",
                                    b"Content-Length : %d" % len(TWO), b"Content-Length: 0\r\n %d" % len(TWO), b"X: a\rb", b"\0", b"\0X: a", b"X: a\0b", b"Transfer-Encoding : chunked",
                                    b"\x0bTransfer-Encoding: chunked", b"Host: localhost", b"Host: localhost\r\nContent-Length: %d" % len(TWO)],
                         ids=lambda h: h.decode().replace("\r\n", "|"))
def test_nothing_behind_a_request_of_doubtful_length_is_taken_for_one(web, method, header):
    with socket.create_connection((web.host, web.port), timeout=60) as s:
        s.sendall(f"{method} /livez HTTP/1.1\r\n".encode() + HOST + header + b"\r\n\r\n" + TWO)
        answer = b"".join(iter(lambda: s.recv(65536), b""))         # to the end of the connection
    assert answer.startswith(b"HTTP/1.1 4") and answer.count(b"HTTP/1.1 ") == 1, answer
    assert b"\r\nConnection: close\r\n" in answer and b"live\n" not in answer


@pytest.mark.parametrize("bad, code", [(b"GET /livez T/HTzP1.1\r\n\r\n", b"400"), (b"FOO / HTTP/1.1\r\n" + HOST + b"\r\n", b"501")])
def test_what_is_no_request_behind_one_that_is(web, bad, code):
    with socket.create_connection((web.host, web.port), timeout=60) as s:
        s.sendall(TWO + bad)
        answer = b"".join(iter(lambda: s.recv(65536), b""))
    head, _, body = answer.partition(b"live\n")[2].partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 " + code) and b"Content-Security-Policy" in head and json.loads(body)["error"]


def test_requests_behind_each_other(web):
    with socket.create_connection((web.host, web.port), timeout=60) as s:
        s.sendall(TWO * 3)
        answer = b""
        while answer.count(b"live\n") < 3:
            answer += s.recv(65536)
    assert answer.count(b"HTTP/1.1 200 ") == 3


# ---- where it listens, and the token ----

def test_where_it_listens(console, redis, quredis, tmp):
    one = console(web={"listen": "127.0.0.1:1"})
    assert one.host == "127.0.0.1" and one.port > 1          # -p goes before the file
    r = quredis("web", "-p", one.port, conf=one.conf)
    assert r.code == 69 and "Address already in use" in r.err and "-p" in r.err and r.err.count("\n") == 1
    for address in "203.0.113.7", "0.0.0.0", "::", "2001:db8::7":
        r = quredis("web", "-p", 0, "-b", address, conf=one.conf)
        assert r.code == 78 and f"{address} can be reached from other machines" in r.err and "web.behind_proxy = true" in r.err and r.err.count("\n") == 1
    (tmp / "proxy.conf").write_text(render({"web": {"behind_proxy": True}}))
    r = quredis("web", "-p", 0, "-b", "203.0.113.7", conf=tmp / "proxy.conf")
    assert r.code == 69 and "203.0.113.7" in r.err
    assert quredis("web", "-b", "no such name", conf=one.conf).code == 78
    assert quredis("web", "-p", "65536", conf=one.conf).code == 64
    six = console(options=("-b", "::1"))
    assert f"http://[::1]:{six.port}/#code=" in six.text() and six.ask("/livez").code == 200


def test_token_file(console, quredis, tmp):
    path, conf = tmp / "token", tmp / "web.conf"
    conf.write_text(render({"web": {"token_file": str(path)}}))
    for text, mode, said in ((None, 0, "token"), ("a" * 40, 0o644, "chmod go-rwx"), ("a" * 15, 0o600, "16"), ("", 0o600, "empty"), ("a b" * 20, 0o600, "letters"),
                             ("a" * 20 + "\n" + "b" * 20, 0o600, "more than one line")):
        if text is not None:
            path.write_text(text)
            path.chmod(mode)
        r = quredis("web", "-p", 0, conf=conf)
        assert r.code in (77, 78) and "web.token_file" in r.err and said in r.err, r
    path.write_text("sEcret_.~+/=0123\n")
    path.chmod(0o600)
    web = console(web={"token_file": str(path)})
    assert web.token is None and "sEcret" not in web.text()
    assert web.ask("/api/v1/queue/pause?queue=mail", "POST", "sEcret_.~+/=0123").code == 404
    assert web.ask("/api/v1/queue/pause?queue=mail", "POST", "secret_.~+/=0123").code == 401


def test_tokens_differ(console):
    one, other = console(), console()
    assert one.token != other.token and len(one.token) == 64


CLIENT = """
import http.client, json, sys
host, port, requests = json.loads(sys.argv[1])
answers = []
for method, path, headers in requests:
    c = http.client.HTTPConnection(host, port, timeout=60)
    c.request(method, path, headers=headers)
    r = c.getresponse()
    answers.append((r.status, "" if "events" in path and r.status == 200 else r.read().decode()))
print(json.dumps(answers))
"""


def test_on_other_addresses_who_looks_needs_the_token_too(containers, console, redis):
    Queue(redis.client())
    host = containers.container()
    web = console(options=("-b", "10.77.1.2"), inside=host.net.enter, web={"hosts": ["console.example.org"], "behind_proxy": True})
    assert f"https://console.example.org/#code={web.codes[0]}\n" in web.text()
    token = {"Authorization": f"Bearer {web.token}"}
    looks = ["/api/v1/queues", "/api/v1/events", "/metrics", "/api/v1/doctor", "/api/v1/nothing"]
    asked = [("GET", path, {}) for path in looks] + [("GET", path, {"Authorization": "Bearer x"}) for path in looks] + [("GET", path, token) for path in looks[:3]]
    asked += [("GET", path, {}) for path in ("/", "/livez", "/readyz")]
    asked += [("GET", "/", {"Host": name}) for name in ("console.example.org", "CONSOLE.example.org:443", "10.77.1.2:1", "evil.example", "example.org")]
    asked += [("POST", "/api/v1/queue/pause?queue=mail", {**token, "Host": "console.example.org", "Origin": "https://console.example.org"}),
              ("POST", "/api/v1/queue/pause?queue=mail", {**token, "Host": "console.example.org", "Origin": "https://10.77.1.2"})]
    done = subprocess.run([*host.net.enter, "python3", "-c", CLIENT, json.dumps([web.host, web.port, asked])], capture_output=True, timeout=100, check=True)
    codes = [code for code, _ in json.loads(done.stdout)]
    assert codes[:10] == [401, 401, 401, 401, 404] * 2
    assert codes[10:16] == [200] * 6 and codes[16:21] == [200, 200, 200, 421, 421] and codes[21:] == [200, 403]


def says_ready(web, text):
    """An answer counts for a second."""
    a = wait_for(lambda: (a := web.ask("/readyz")).body == text and a or None, what=repr(text))
    assert a.code == (200 if text == b"ready\n" else 503)


def test_why_it_is_not_ready(web, redis):
    says_ready(web, b"ready\n")
    redis.stop()
    says_ready(web, b"Redis does not answer\n")
    redis.start()
    conf = web.conf.rename(web.conf.with_name("elsewhere"))
    says_ready(web, b"Redis refuses, or the configuration is wrong\n")
    conf.rename(web.conf)
    before = resource.prlimit(web.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(web.pid, resource.RLIMIT_NOFILE, (max(map(int, os.listdir(f"/proc/{web.pid}/fd"))) + 3, before[1]))      # the connection, and no pipe
    says_ready(web, b"fork failed\n")
    resource.prlimit(web.pid, resource.RLIMIT_NOFILE, before)
    says_ready(web, b"ready\n")


def test_probes_share_one_answer_a_second(web, redis):
    c = redis.client()

    def asked():
        """The number of requests that reached Redis; probes send TIME."""
        return c.info("commandstats").get("cmdstat_time", {"calls": 0})["calls"]

    def assert_shared(begun, before):
        assert 1 <= asked() - before <= 1 + time.monotonic() - begun
    begun, before = time.monotonic(), asked()
    for _ in range(100):
        assert web.ask("/readyz", token=None).body == b"ready\n"
    assert_shared(begun, before)
    asking = []

    def probe():
        asking.append(ask_slowly(web, b"GET /readyz HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"))
    # all at once, while the first is not answered
    begun, before = time.monotonic(), asked()
    redis.signal(signal.SIGSTOP)
    try:
        wait_for(lambda: probe() or children_of(web.pid), what="the last answer to be too old")
        for _ in range(20):
            probe()
    finally:
        redis.signal(signal.SIGCONT)
    assert {read_all(s)[:12] for s in asking} <= {b"HTTP/1.1 200", b"HTTP/1.1 503"}
    assert_shared(begun, before)
    redis.signal(signal.SIGSTOP)
    try:
        wait_for(lambda: web.ask("/readyz").code == 503)
        wait_for(lambda: not children_of(web.pid))
        asking = [ask_slowly(web, b"GET /readyz HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n") for _ in range(100)]
        answers = [read_all(s) for s in asking]
        assert len(children_of(web.pid)) <= 1
    finally:
        redis.signal(signal.SIGCONT)
    kinds = {a[:12] + b" " + a.rsplit(b"\r\n", 1)[1] for a in answers}
    assert b"HTTP/1.1 503 Redis does not answer\n" in kinds and kinds <= {b"HTTP/1.1 503 Redis does not answer\n", b'HTTP/1.1 503 {"error":"too many requests are waiting"}'}
    says_ready(web, b"ready\n")


def ask_slowly(web, data):
    """Sends a request, and does not wait for the answer."""
    s = socket.create_connection((web.host, web.port), timeout=60)
    s.sendall(data)
    return s


# ---- who holds up whom ----

def test_a_redis_that_stands_still_holds_up_nobody(web, redis):
    whole = web.ask("/api/v1/queues").body
    redis.signal(signal.SIGSTOP)
    asking = []
    try:
        for _ in range(8 + 64):
            s = socket.create_connection((web.host, web.port), timeout=60)
            s.sendall(b"GET /api/v1/queues HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + web.auth + b"\r\n")
            asking.append(s)
        refused = wait_for(lambda: (a := web.ask("/api/v1/queues", timeout=30)).code == 503 and a or None, what="the queue to be full")
        assert "wait" in json.loads(refused.body)["error"] and refused.headers["retry-after"] == "1"
        assert web.ask("/livez").code == 200 and web.ask("/").code == 200
        assert len(children_of(web.pid)) == 8
        # the death of one fails only that request
        os.kill(children_of(web.pid)[0], signal.SIGKILL)
        wait_for(lambda: sum(is_readable(s) for s in asking) == 1)
        killed = next(s for s in asking if is_readable(s))
        assert read_all(killed).startswith(b"HTTP/1.1 502 ")
        asking.remove(killed)
    finally:
        redis.signal(signal.SIGCONT)
    for s in asking:
        answer = read_all(s)
        assert answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(whole)
    wait_for(lambda: not children_of(web.pid) and len(open_files(web.pid)) < 20)


def is_readable(s):
    return bool(select.select([s], [], [], 0)[0])


def read_all(s):
    with s:
        return b"".join(iter(lambda: s.recv(65536), b""))


def test_an_answer_that_does_not_come_is_no_answer(console, redis, redis_proxy):
    Queue(redis.client())
    proxy = redis_proxy(redis)
    web = console(server=proxy)
    proxy.stall_after(b"ZRANGE\r\n$14\r\nquredis:queues")
    answer = web.ask("/api/v1/queues")
    assert answer.code == 504 and "no answer in time" in json.loads(answer.body)["error"]
    assert web.ask("/readyz").code == 503
    proxy.resume()
    assert web.ask("/api/v1/queues").code == 200
    wait_for(lambda: web.ask("/readyz").code == 200)


def test_a_process_that_hangs_is_ended(console, redis, redis_proxy):
    """It does not even end by its own limit, and SIGTERM does not reach it."""
    proxy = redis_proxy(redis)
    web = console(server=proxy)
    proxy.stall_after(b"ZRANGE\r\n$14\r\nquredis:queues")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        wait_for(lambda: not children_of(web.pid))
        answer = pool.submit(web.ask, "/api/v1/queues")
        pid = wait_for(lambda: children_of(web.pid))[0]
        wait_for(proxy.stalled)         # it has sent its request: the next process would send the one that stalls
        os.kill(pid, signal.SIGSTOP)
        try:
            assert answer.result(50).code in (503, 504)
        finally:
            if alive(pid):
                os.kill(pid, signal.SIGKILL)
    proxy.resume()
    assert web.ask("/api/v1/queues").code == 200


@pytest.mark.parametrize("limit", [1024, 64], ids=["", "few_files"])
def test_many_connections(web, limit):
    resource.prlimit(web.pid, resource.RLIMIT_NOFILE, (limit, limit))
    # of holders: those of strangers are fewer
    idle = [ask_slowly(web, b"GET /livez HTTP/1.1\r\n" + HOST + web.auth + b"\r\n") for _ in range(100 if limit == 64 else 330)]
    wait_for(lambda: len(open_files(web.pid)) >= min(limit, 256) - 1)          # from there on each newer one takes the place of an older
    assert len(open_files(web.pid)) <= 260
    ticks = cpu_ticks(web.pid)
    time.sleep(0.5)
    assert cpu_ticks(web.pid) - ticks < 20           # of some 50: it does not turn
    for s in idle:
        s.close()
    assert web.ask("/livez").code == 200
    wait_for(lambda: len(open_files(web.pid)) < 20)


def test_who_asks_slowly_is_not_waited_for(web, redis):
    """A client that sends a byte now and then is cut off. Clients that are being answered, or that watch events, are not."""
    stream, (late, kept) = Stream(web), (socket.create_connection((web.host, web.port), timeout=60) for _ in range(2))
    stream.next()
    kept.sendall(b"GET /livez HTTP/1.1\r\n" + HOST + b"\r\n")
    wait_for(lambda: is_readable(kept))
    begun = time.monotonic()
    for s in (late, kept):
        s.sendall(b"GET /livez HTTP/1.1\r\nX: ")

    def is_closed(s):
        try:
            s.sendall(b"a")
            return is_readable(s) and s.recv(65536) == b""
        except OSError:
            return True
    kept.recv(65536)
    wait_for(lambda: is_closed(late) and is_closed(kept), timeout=60, what="the server to give up")
    assert time.monotonic() - begun > 5
    redis.client().lpush("ingress:mail", "x")
    stream.until(lambda e, d: d["queues"][0]["ingress_size"] == 1)
    stream.close(), late.close(), kept.close()


def test_who_has_not_asked_gives_way(web, redis):
    """Connections that never send a request fill the server: the oldest of them are closed for new clients."""
    stream = Stream(web)
    stream.next()
    idle = []
    for n in range(300):
        idle.append(socket.create_connection((web.host, web.port), timeout=60))
        idle[-1].sendall(b"GET / HTTP/1.1\r\nX: ")
        if n == 240:
            asking = idle.pop()
            asking.sendall(b"a\r\n" + HOST + b"Connection: close\r\n\r\n")
            assert read_all(asking).startswith(b"HTTP/1.1 200 ")
    begun = time.monotonic()
    assert web.ask("/livez").code == 200
    assert time.monotonic() - begun < 5
    wait_for(lambda: is_readable(idle[0]))
    assert idle[0].recv(1) == b"" and not is_readable(idle[-1])
    assert len(open_files(web.pid)) <= 260
    redis.client().lpush("ingress:mail", "x")
    stream.until(lambda e, d: d["queues"][0]["ingress_size"] == 1)
    stream.close()
    for s in idle:
        s.close()


def test_strangers_leave_room_for_holders(web, redis):
    """Connections of holders of the token are not closed for those of strangers, however many come and whatever these do."""
    kept = http.client.HTTPConnection(web.host, web.port, timeout=60)

    def holder_asks():
        """On the same connection: one that was closed is not made anew."""
        kept.request("GET", "/livez", headers={"Authorization": f"Bearer {web.token}"})
        r = kept.getresponse()
        assert (r.status, r.read()) == (200, b"live\n")
        kept.auto_open = 0
    holder_asks()
    redis.signal(signal.SIGSTOP)
    try:
        strangers = [ask_slowly(web, b"GET /readyz HTTP/1.1\r\n" + HOST + b"\r\n") for _ in range(100)]
        strangers += [ask_slowly(web, b"GET / HTTP/1.1\r\nX: ") for _ in range(300)]
        wait_for(lambda: is_readable(strangers[150]))          # it gave way
        holder_asks()
        assert len(open_files(web.pid)) < 192 + 40
        assert web.ask("/livez").code == 200
    finally:
        redis.signal(signal.SIGCONT)
    for s in strangers:
        s.close()
    kept.close()


def test_a_burst_of_strangers_closes_no_connection_of_a_holder(web):
    kept = http.client.HTTPConnection(web.host, web.port, timeout=60)
    for _ in range(2):
        kept.request("GET", "/livez", headers={"Authorization": f"Bearer {web.token}"})
        assert kept.getresponse().read() == b"live\n"
        if kept.auto_open:
            kept.auto_open = 0
            resource.prlimit(web.pid, resource.RLIMIT_NOFILE, (100, 100))
            os.kill(web.pid, signal.SIGSTOP)
            strangers = [socket.create_connection((web.host, web.port), timeout=60) for _ in range(120)]
            os.kill(web.pid, signal.SIGCONT)
            wait_for(lambda: any(is_readable(s) for s in strangers))       # one gave way
    for s in strangers:
        s.close()
    kept.close()


def test_places_in_the_queue_are_left_to_holders(console, redis):
    Queue(redis.client())
    web = console(web={"public_reads": True})
    redis.signal(signal.SIGSTOP)
    try:
        asking = [ask_slowly(web, b"GET /api/v1/queues HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n") for _ in range(8 + 32)]
        wait_for(lambda: web.ask("/api/v1/queues", token=None).code == 503)
        asking.append(ask_slowly(web, b"GET /api/v1/queues HTTP/1.1\r\n" + HOST + web.auth + b"Connection: close\r\n\r\n"))
        assert web.ask("/livez").code == 200 and not is_readable(asking[-1])
    finally:
        redis.signal(signal.SIGCONT)
    assert [read_all(s)[9:12] for s in asking] == [b"200"] * 41


def test_events_are_limited_per_address(console, redis, tmp):
    web = console()
    streams = [Stream(web) for _ in range(16)]
    assert all(s.next()[0] == "overview" for s in streams)
    refused = web.ask("/api/v1/events")
    assert refused.code == 429 and "16 event streams" in json.loads(refused.body)["error"] and refused.headers["retry-after"]
    streams.pop().close()
    wait_for(lambda: Stream(web).answer.status == 200)
    for s in streams:
        s.close()
    proxied = console(web={"behind_proxy": True})
    streams = [Stream(proxied, **{"X-Forwarded-For": f"10.0.0.9, 203.0.113.{n % 2}"}) for n in range(32)]
    assert {s.answer.status for s in streams} == {200}
    for address, code in (("203.0.113.1", 429), ("203.0.113.2", 200), ("203.0.113.2, 203.0.113.0", 429), ("203.0.113.0, 203.0.113.3", 200)):
        s = Stream(proxied, **{"X-Forwarded-For": address})
        assert s.answer.status == code, address
        s.close()
    for s in streams:
        s.close()


def cpu_ticks(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def test_who_looks_on_and_does_not_read_is_dropped(web, redis):
    c = redis.client()
    for i in range(500):
        Queue(c, f"queue-with-a-long-name-{i:0200}"[-60:])
    s = socket.create_connection((web.host, web.port))
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n" + web.auth + b"\r\n")
    wait_for(lambda: is_readable(s))
    connected = len(open_files(web.pid))

    def dropped():
        c.incr("n"), c.lpush("ingress:mail", "x")
        return len(open_files(web.pid)) < connected and not children_of(web.pid)
    wait_for(dropped, 60)
    assert SANITIZED or pss_kib(web.pid) < 60 * 1024
    s.close()


LARGE = 5 << 20


@pytest.mark.parametrize("which", ["ingress", "delayed", "transit", "escape"])
def test_large_messages_are_read_and_shown_in_part(web, redis, which):
    """Redis ends the connection of who is sent more than 2 MiB at a time. It reads little more than 64 MiB for one request."""
    if not SANITIZED:
        resource.prlimit(web.pid, resource.RLIMIT_DATA, (64 << 20, 64 << 20))
    c = redis.client()
    c.config_set("client-output-buffer-limit", "normal 2mb 0 0")
    for i in range(20):
        message = b"%02d" % i * (LARGE // 2)
        if which == "delayed":
            c.zadd("quredis:of:ingress:mail:delayed", {message: i})
        else:
            c.rpush(f"{which}:mail", b"small" if i == 0 else message)
    rows = web.get(f"/api/v1/queue/messages?queue=mail&list={which}")
    large = [r for r in rows if r["size"] > 5]
    assert 64 << 20 <= sum(r["size"] for r in rows) <= (64 << 20) + LARGE and len(large) == 13
    assert [(r["size"], r["message"], r["cut"], r["id"]) for r in large] == [(LARGE, "%02d" % i * (1 << 15), True, None) for i in range(len(rows) - 13, len(rows))]
    if which != "delayed":
        assert (rows[0]["message"], rows[0]["cut"]) == ("small", False) and rows[0]["id"].startswith("sha1:")
    assert len(web.get(f"/api/v1/queue/messages?queue=mail&list={which}&limit=2")) == 2


def test_large_records_are_read_in_part(web, redis):
    """As with messages. What shows or acts on one of them reads it whole."""
    if not SANITIZED:
        resource.prlimit(web.pid, resource.RLIMIT_DATA, (110 << 20, 110 << 20))
    q, c = Queue(redis.client()), redis.client()
    messages = [b"%02d" % i * (LARGE // 2) for i in range(20)]
    q.dead_letters(*messages)
    c.delete(q.log)
    ids = [q.record(m, payload_max=LARGE) for m in messages]
    other = q.record(b"x", error_class="Rejected")
    c.config_set("client-output-buffer-limit", "normal 2mb 0 0")
    assert [r["record"] for r in web.get("/api/v1/queue/dlq?queue=mail")] == [other, *ids[::-1]]
    assert [r["record"] for r in web.get("/api/v1/queue/dlq?queue=mail&class=Rejected")] == [other]
    assert [r["size"] for r in web.get(f"/api/v1/queue/dlq?queue=mail&limit=3&before={ids[5]}")] == [LARGE] * 3
    c.config_set("client-output-buffer-limit", "normal 0 0 0")
    assert web.get(f"/api/v1/queue/dlq/record?queue=mail&id={ids[7]}")["message"] == messages[7].decode()
    by_message = web.get(f"/api/v1/queue/dlq/record?queue=mail&id=sha1:{hashlib.sha1(messages[8]).hexdigest()}")
    assert by_message["record"] == ids[8] and by_message["message"] == messages[8].decode()
    assert json.loads(web.post(f"/api/v1/queue/dlq/rm?queue=mail&id={ids[0]}").body)["count"] == 1
    assert web.finish("/api/v1/queue/dlq/retry?queue=mail&all=true&class=HandlerExit") == 19
    assert c.llen(q.ingress) == 19


def test_ids_of_records_at_their_bounds(web, redis):
    """The script steps down from one id to the next as the server would."""
    c = redis.client()
    ids = ["1-0", "1-1", "1-9007199254740993", "1-18446744073709551615", "2-0", "1700000000000-0", "1700000000000-10", "1700000000000-100000000000000000"]
    for i in ids:
        c.xadd("escape:mail:log", {"error_class": "X"}, id=i)
    assert [r["record"] for r in web.get("/api/v1/queue/dlq?queue=mail")] == ids[::-1]
    for n, i in enumerate(ids):
        assert [r["record"] for r in web.get(f"/api/v1/queue/dlq?queue=mail&before={i}")] == ids[:n][::-1]


@pytest.mark.skipif(SANITIZED, reason="memory is bounded")
def test_large_answers_that_nobody_reads_cannot_fill_our_memory(web, redis):
    c = redis.client()
    c.lpush("ingress:mail", *(b"%03d" % i * (1 << 14) for i in range(240)))
    asking = []
    for _ in range(20):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.settimeout(60)
        s.connect((web.host, web.port))
        s.sendall(b"GET /api/v1/queue/messages?queue=mail&list=ingress&limit=1000 HTTP/1.1\r\n" + HOST + web.auth + b"Connection: close\r\n\r\n")
        asking.append(s)
        wait_for(lambda: is_readable(s), 60)        # it is on its way
    assert pss_kib(web.pid) < 150 * 1024
    assert web.ask("/livez").code == 200
    answer = read_all(asking.pop())
    assert len(answer) > 10 << 20 and answer.endswith(b"]\n")        # who came last is not cut

    def rest(s):
        try:
            return read_all(s)
        except ConnectionResetError:
            return b""
    assert len(rest(asking.pop(0))) < 10 << 20
    for s in asking:
        s.close()


def test_an_answer_that_is_too_large_advises_what_can_be_asked(web, redis):
    c = redis.client()
    for i in range(120):
        Queue(c, f"q{i}", *(f"{key}{i}" + key * 50000 for key in "ite"))
    c.lpush("i1" + "i" * 50000, *(b"\xff" * (1 << 16) for _ in range(200)))
    for path, advice in ("queues", ""), ("queue/messages?queue=q1&list=ingress&limit=200", ": request fewer with limit="):
        answer = web.ask(f"/api/v1/{path}")
        assert (answer.code, json.loads(answer.body)["error"]) == (400, f"the answer is larger than 16 MiB{advice}")


def test_who_looks_on_cannot_fill_our_memory(web):
    s = socket.create_connection((web.host, web.port))
    s.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n" + web.auth + b"\r\n")
    wait_for(lambda: is_readable(s))
    s.setblocking(False)
    sent, begun = 0, pss_kib(web.pid)
    # until nothing more is taken for a while
    while sent < 64 << 20 and select.select([], [s], [], 3)[1]:
        sent += s.send(bytes(1 << 20))
    assert sent < 64 << 20 and pss_kib(web.pid) - begun < 8 * 1024
    s.close()
    assert web.ask("/livez").code == 200


def test_other_sites_make_us_do_nothing(web):
    for path in ("/api/v1/queues", "/api/v1/events", "/metrics"):
        assert web.ask(path, Sec_Fetch_Site="cross-site").code == 403
        assert web.ask(path, Origin="http://evil.example").code == 403
    for path in ("/api/v1/queues", "/metrics"):
        assert web.ask(path, Sec_Fetch_Site="none").code == web.ask(path, Sec_Fetch_Site="same-origin").code == 200
    assert web.ask("/", Sec_Fetch_Site="cross-site").code == 200            # a link to the console
    for path in ("/", "/api/v1/queues", "/api/v1/nothing", "/livez", "/metrics", "/api/v1/queue/dlq"):
        headers = web.ask(path).headers
        assert "default-src 'none'; script-src 'self';" in headers["content-security-policy"] and "frame-ancestors 'none'" in headers["content-security-policy"]
        assert (headers["x-content-type-options"], headers["referrer-policy"], headers["cross-origin-opener-policy"],
                headers["cross-origin-resource-policy"]) == ("nosniff", "no-referrer", "same-origin", "same-origin")
        assert not any(h.startswith("access-control") or h in ("set-cookie", "server") for h in headers)


def test_what_the_rules_would_take(console, redis):
    web, c = console(queues=[queue("mail", "/bin/cat"), queue("other", "/bin/cat")]), redis.client()
    c.lpush("ingress:mail", b"quredis/1 enqueued=1000\nold", b"young")
    before = dumps(c)
    answers = [web.post("/api/v1/queue/purge?dry_run=true"), web.post("/api/v1/queue/purge?dry_run=true&queue=mail")]
    for answer in answers:
        assert answer.code == 200
        mail = json.loads(answer.body)["queues"][0]
        assert mail["name"] == "mail"
        assert {(r["list"], r["rule"]): r["count"] for r in mail["rules"]}["ingress", "max_message_age"] == 1
    assert [len(json.loads(a.body)["queues"]) for a in answers] == [2, 1]
    assert len(web.get("/api/v1/queue/stale")["queues"]) == 2 and dumps(c) == before
    assert web.ask("/api/v1/queue/purge?dry_run=true", "POST", None).code == 401
    assert web.post("/api/v1/queue/purge?dry_run=true&queue=mial").code == 404
    for query, word in (("", "list"), ("?queue=mail", "list"), ("?list=ingress", "queue"), ("?list=ingress&dry_run=true", "queue")):
        answer = web.post("/api/v1/queue/purge" + query)
        assert answer.code == 400 and word in json.loads(answer.body)["error"] and dumps(c) == before


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_the_unit_is_clean(tmp):
    text, unit = (ROOT / "etc/systemd/quredis-web.service").read_text(), tmp / "quredis-web.service"
    assert "/usr/local/bin/quredis -c /etc/quredis/quredis.conf web" in text
    unit.write_text(text.replace("/usr/local/bin/quredis", str(QUREDIS)))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_end(console):
    for sig in (signal.SIGTERM, signal.SIGINT):
        web = console()
        stream = Stream(web)
        stream.next()
        begun = time.monotonic()
        assert web.stop(sig) == 0 and time.monotonic() - begun < 20
        stream.close()


def test_the_end_leaves_nothing_behind_and_says_what_it_broke_off(web, redis):
    """A build with sanitizers also checks that nothing is leaked."""
    redis.signal(signal.SIGSTOP)
    try:
        asking = []
        for line in ["POST /api/v1/queue/resume?queue=mail"] + ["GET /api/v1/queue/dlq/record?queue=mail&id=1"] * 30 + ["GET /readyz", "GET /metrics", "POST /api/v1/queue/pause?queue=mail"]:
            s = socket.create_connection((web.host, web.port), timeout=60)
            s.sendall(f"{line} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {web.token}\r\n\r\n".encode())
            asking.append(s)
        wait_for(lambda: len(children_of(web.pid)) == 8 and len(open_files(web.pid)) > len(asking))
        files = len(open_files(web.pid))
        asking.pop(0).close()
        wait_for(lambda: len(open_files(web.pid)) < files)
        assert web.ask("/livez").code == 200         # the last of them was read
        assert web.stop() == 0
    finally:
        redis.signal(signal.SIGCONT)
    who = r"Z 127\.0\.0\.1 port [1-9]\d*: POST /api/v1/queue/"
    assert re.search(who + r"pause\?queue=mail: not answered: the console ended\n", web.text())
    # also of who did not wait; on a busy machine Redis was given up before the console
    assert re.search(who + r"resume\?queue=mail: (not answered: the console ended|503)\n", web.text())
    for s in asking:
        s.close()
