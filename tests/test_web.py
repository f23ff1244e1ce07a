"""quredis web: what it answers, whom it refuses, and that nobody can hold it up."""
import json
import re
import signal
import time

import pytest

from harness import ROOT, queue, wait_for
from harness.console import Console, Stream
from harness.queues import Queue, dumps


@pytest.fixture
def console(tmp, redis, tag):
    made = []

    def make(server=redis, options=(), **conf):
        made.append(Console(tmp / f"w{len(made)}", server, tag, options, **conf))
        return made[-1]
    yield make
    for c in made:
        print(f"---- log of {c.dir}\n{c.text()}")
        c.close()


@pytest.fixture
def web(console, redis):
    Queue(redis.client())
    return console()


# ---- what it answers ----

@pytest.mark.parametrize("path, words", [
    ("queues", "ls"), ("queue/health", "health"), ("queue/stats", "stats"), ("queue/stats?queue=mail", "stats mail"),
    ("queue/messages?queue=mail&list=ingress", "peek mail ingress -n 50"), ("queue/messages?queue=mail&list=escape&limit=1", "peek mail escape -n 1"),
    ("queue/dlq?queue=mail", "dlq ls mail"), ("queue/dlq?queue=mail&limit=1&class=HandlerExit", "dlq ls mail -n 1 -C HandlerExit"),
    ("queue/dlq/stats?queue=mail", "dlq stats mail"), ("queue/dlq/record?queue=mail&id=@", "dlq show mail @"),
    ("queue/done?queue=mail", "done ls mail"), ("nodes", "nodes"),
])
def test_documents_are_those_of_the_command_line(web, redis, quredis, path, words):
    q = Queue(redis.client())
    redis.client().lpush(q.ingress, b"a", b"\xff\x00b", "ü\u0085\x1b[31m<script>".encode())
    record = q.dead_letters(b"x", b"\xfe\n", b"y")[1]
    answer = web.ask("/api/v1/" + path.replace("@", record))
    said = quredis("--json", *words.replace("@", record).split(), conf=web.conf)
    assert answer.code == 200 and answer.headers["content-type"] == "application/json" and answer.body == said.raw != b""


def test_supervisor_and_doctor(web, quredisd, console, redis):
    assert web.ask("/api/v1/supervisor").code == 503
    findings = web.get("/api/v1/doctor")
    assert {"severity", "check", "what", "advice"} <= set(findings[0])
    daemon = quredisd(queues=[queue("mail", "/bin/true")])
    other = console(supervisor={"control_socket": str(daemon.dir / "c")})
    assert [q["name"] for q in other.get("/api/v1/supervisor")["queues"]] == ["mail"]


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
    assert event == "overview" and set(first) == {"time", "queues", "stats", "health", "nodes"}
    assert first["queues"] == web.get("/api/v1/queues") and first["stats"] == web.get("/api/v1/queue/stats")
    redis.client().lpush("ingress:mail", "x")
    document = stream.until(lambda e, d: d["queues"][0]["ingress_size"] == 1)
    late = Stream(web)
    assert late.next()[1]["queues"] == document["queues"]
    redis.stop()
    assert "Redis" in stream.until(lambda e, d: e == "trouble")["error"]
    redis.start()
    stream.until(lambda e, d: e == "overview")
    stream.close(), late.close()


def test_probes(web, redis):
    assert (web.ask("/livez").code, web.ask("/readyz").code) == (200, 200)
    redis.stop()
    assert (web.ask("/livez").code, web.ask("/readyz").code) == (200, 503)
    assert web.ask("/api/v1/queues").code == 503


def test_every_file_of_the_pages_is_served(web):
    files = [p for p in (ROOT / "admin/web").rglob("*") if p.is_file()]
    assert files
    for path in files:
        answer = web.ask(f"/{path.relative_to(ROOT / 'admin/web')}")
        assert answer.body == path.read_bytes() and answer.headers["cache-control"] == "no-cache"
        assert "octet-stream" not in answer.headers["content-type"]
        again = web.ask(f"/{path.relative_to(ROOT / 'admin/web')}", If_None_Match=answer.headers["etag"])
        assert (again.code, again.body) == (304, b"")
    assert web.ask("/").body == (ROOT / "admin/web/index.html").read_bytes()


# ---- what it changes ----

def test_pause_and_resume(web, redis):
    assert json.loads(web.post("/api/v1/queue/pause?queue=mail").body)["changed"] is True
    assert redis.client().exists("ingress:mail:paused") == 1 and web.get("/api/v1/queues")[0]["paused"] is True
    assert json.loads(web.post("/api/v1/queue/resume?queue=mail").body)["changed"] is True
    assert redis.client().exists("ingress:mail:paused") == 0


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
    for wrong in ("", f"&all=true&id={ids[2]}", "&all=false"):
        assert web.post(f"/api/v1/queue/dlq/rm?queue=mail{wrong}").code == 400
    assert redis.client().llen(q.escape) == 1
    assert json.loads(web.post("/api/v1/queue/dlq/rm?queue=mail&all=true").body)["count"] == 1
    assert redis.client().exists(q.escape, q.log) == 0


# ---- what it refuses ----

@pytest.mark.parametrize("path, code, said", [
    ("queue/dlq", 400, "queue is needed"), ("queue/dlq?queu=mail", 400, "did you mean queue?"), ("queue/dlq?queue=mail&queue=mail", 400, "more than once"),
    ("queue/dlq?queue=", 400, "empty"), ("queue/dlq?queue", 400, "queue"), ("queue/dlq?queue=%", 400, "%"), ("queue/dlq?queue=a%0", 400, "%"),
    ("queue/dlq?queue=%zz", 400, "%"), ("queue/dlq?queue=mail%00", 400, "%00"), ("queue/dlq?queue=mail&limit=0", 400, "1 to 1000"),
    ("queue/dlq?queue=mail&limit=1001", 400, "1 to 1000"), ("queue/dlq?queue=mail&limit=%2B1", 400, "1 to 1000"), ("queue/dlq?queue=mail&limit=9e9", 400, "1 to"),
    ("queue/dlq?queue=mail&&", 400, "equals"), ("queue/dlq?queue=mial", 404, "did you mean mail?"), ("queue/dlq?queue=a%0Ab", 404, r"no queue a\nb"),
    ("queue/dlq?queue=--json", 404, "no queue --json"), ("queue/dlq?queue=-c/etc/passwd", 404, "no queue -c/etc/passwd"),
    ("queue/messages?queue=mail&list=ingres", 400, "did you mean ingress?"), ("queue/messages?queue=mail&list=--help", 400, "--help"),
    ("queues?queue=mail", 400, "no parameter queue here"), ("quees", 404, "did you mean /api/v1/queues?"), ("../../etc/passwd", 404, "no"),
    ("queue/dlq/record?queue=mail&id=nobody", 404, "nobody"), ("queue/purge?queue=mail&list=escape", 405, "POST"),
])
def test_requests_that_make_no_sense(web, path, code, said):
    answer = web.ask("/api/v1/" + path)
    assert answer.code == code and said in json.loads(answer.body)["error"]


@pytest.mark.parametrize("path", ["queue/purge?queue=mail&list=escape", "queue/retry?queue=mail&list=escape", "queue/dlq/rm?queue=mail&all=true",
                                  "queue/dlq/retry?queue=mail&all=true", "queue/pause?queue=mail", "queue/resume?queue=mail"])
def test_who_changes_something_needs_the_token_and_a_page_of_ours(web, console, redis, path):
    Queue(redis.client()).dead_letters(b"a")
    redis.client().set("ingress:mail:paused", "{}") if "resume" in path else None
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


def test_end(console):
    for sig in (signal.SIGTERM, signal.SIGINT):
        web = console()
        stream = Stream(web)
        stream.next()
        begun = time.monotonic()
        assert web.stop(sig) == 0 and time.monotonic() - begun < 20
        stream.close()
