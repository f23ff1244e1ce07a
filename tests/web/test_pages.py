"""The pages of the console in a browser: that they show what Redis holds, do what is asked and nothing else."""
import json
import re

import pytest

from harness import browser as browsers
from harness import queue, wait_for
from harness.console import Console
from harness.messages import sealed
from harness.queues import Queue, incarnation, payloads, strip
from harness.scene import Scene
from supervisor.test_causes import MISSING, typo

# A browser for each process of pytest-xdist that gets one of these: its scheduler of groups waits for ever for a process that died.
pytestmark = pytest.mark.skipif(browsers.why_not() != "", reason=browsers.why_not())

EVIL = b'<img src="http://evil.example/x" onerror="document.title=1"><script>document.title=2</script>'
BINARY = b"\x00\x01\xff\xfe<b>\n\x80"
FAILED_TO_LOAD = "Failed to load resource"


def cell(page, queue_name, title, table=".table-overview"):
    titles = page.script("return [...document.querySelectorAll(arguments[0] + ' thead th')].map(h => h.innerText.replace(/[↑↓]/, '').trim())", table)
    rows = [r for r in page.rows(table) if r[0] == queue_name]
    return rows[0][titles.index(title)].strip() if rows else None


# ---- what is shown ----

def test_overview_shows_what_redis_holds_and_follows(page, redis):
    mail, r = Queue(redis.client()), redis.client()
    r.lpush(mail.ingress, *(f"m{i}" for i in range(1234)))
    mail.dead_letters(b"a", b"b")
    mail.worker(incarnation(1), t0=[b"x"])
    r.zadd(mail.delayed, {"later": 9e15})
    p = page().open()
    wait_for(lambda: cell(p, "mail", "Waiting") == "1,234")
    assert [cell(p, "mail", t) for t in ("In flight", "Delayed", "Dead letters", "State")] == ["1", "1", "2", "no workers"]
    p.script("document.querySelector('.table-overview tbody tr').mine = 'the same element'")
    r.lpush(mail.ingress, "one more")
    wait_for(lambda: cell(p, "mail", "Waiting") == "1,235")
    r.delete(mail.escape)
    wait_for(lambda: cell(p, "mail", "Dead letters") == "0")
    Queue(r, "sms")
    wait_for(lambda: cell(p, "sms", "Waiting") == "0")
    assert p.script("return [...document.querySelectorAll('.table-overview tbody tr')].find(r => r.innerText.startsWith('mail')).mine") == "the same element"
    assert "1,235\nWaiting" in p.text(".figures")


def test_a_queue_says_why_its_attempts_failed(page, redis):
    """Retries, too, which have no dead letters; on the tab of delayed messages as on the others. Classes and errors are bytes of strangers."""
    r, mail = redis.client(), Queue(redis.client())
    now = int(r.time()[0])
    counted = {"failed": 498, "failed:Down": 400, "failed:451": 90, "failed:<b>": 7, "failed:other": 1}
    r.hset(f"quredis:of:ingress:mail:rate:{now // 60}", mapping=counted)
    r.hset(f"quredis:of:ingress:mail:stats", mapping={**counted, "failed_latest": f"{now * 1000} Down <img src=x> refused"})
    p = page().open("/queue/mail/delayed")
    p.sees("Why attempts failed in the last hour", ".failures")
    lines = p.script("return [...document.querySelectorAll('.failures li')].map(li => li.innerText.replace(/\\s+/g, ' ').trim())")
    assert [line.split(" last ")[0] for line in lines] == ["400 Down: <img src=x> refused", "90 451", "8 other"] and " last " in lines[0], lines
    assert p.count(".failures img, .failures b") == 0 and mail.name == "mail"


def test_dead_letters_are_told_of_where_all_is_well(page, redis, quredisd):
    mail, r = Queue(redis.client()), redis.client()
    p = page().open()
    p.sees("No problems found", ".problems")
    first, second = mail.dead_letters(b"a", b"b")
    p.sees("No problems found; 2 dead letters need a decision", ".problems")
    quredisd(queues=[queue("mail", "/bin/true")], health={"enabled": True, "interval": "1s"})
    p.sees("All queues are healthy; 2 dead letters need a decision", ".problems")
    r.rpop(mail.escape)
    p.sees("All queues are healthy; 1 dead letter needs a decision", ".problems")
    p.click("1 dead letter", ".problems")
    wait_for(lambda: "Dead letters" in p.text("h1"))
    p.go("/")
    r.delete(mail.escape)
    wait_for(lambda: p.text(".problems") == "All queues are healthy")


def test_nothing_there_yet_says_what_to_do(page):
    p = page().open()
    p.sees("No queues yet")
    p.sees("quredis push hello")
    p.go("/nodes")
    p.sees("No supervisor reports")
    p.go("/dead-letters")
    p.sees("No dead letters")
    p.go("/queue/nobody")
    p.sees("There is no queue nobody")
    p.go("/health")
    p.sees("then quredis reload:")
    assert "`" not in p.text()
    p.go("/dead-letters/nobody/1-0")
    p.sees("no longer here")
    p.forgiven += [FAILED_TO_LOAD]


def test_bytes_of_strangers_are_only_shown(page, redis):
    mail, r = Queue(redis.client()), redis.client()
    r.lpush(mail.ingress, EVIL, BINARY, "abc\u202egnp.exe".encode(), b'{"big":12345678901234567890,"a":[]}')
    bad, binary = mail.dead_letters(EVIL, BINARY, error_message=EVIL.decode(), stderr="\x1b[31mred\x1b[0m " + EVIL.decode())
    p = page().open("/queue/mail/ingress")
    p.sees('<img src="http://evil.example/x" onerror=', ".table-messages-ingress")
    p.sees(r"\0\x01\xff\xfe<b>\n\x80", ".table-messages-ingress")
    p.sees(r"abc\u202egnp.exe", ".table-messages-ingress")
    p.script("[...document.querySelectorAll('.table-messages-ingress button')].find(b => b.innerText.startsWith('{\"big')).click()")
    p.sees('{\n  "big": 12345678901234567890,\n  "a": []\n}', "dialog")
    p.click("Close", "dialog")
    p.go("/dead-letters/mail")
    p.sees("HandlerExit <img src=", ".table-dead-letters")
    p.sees(EVIL.decode()[:60], ".table-dead-letters td.message")
    p.sees(r"\0\x01\xff\xfe<b>\n\x80", ".table-dead-letters td.message")
    p.go(f"/dead-letters/mail/{bad}")
    p.sees(r"\x1b[31mred", ".viewer")
    p.go(f"/dead-letters/mail/{binary}")
    p.sees(r"\0\x01\xff\xfe<b>\n\x80", ".viewer")
    p.click("Hex", ".viewer")
    p.sees("00 01 ff fe 3c 62 3e 0a", ".viewer")
    odd, = mail.dead_letters(b"odd", error_class=b"\xffA", failed_at="yesterday", first_failed_at=b"\xff")
    p.go(f"/dead-letters/mail/{odd}")
    p.sees(r"\xffA", "h1")
    p.sees("yesterday")
    p.go("/dead-letters/mail")
    p.sees(r"\xffA exit status 3", ".table-dead-letters")
    assert "undefined" not in p.text()
    p.go("/queue/%")
    p.sees("There is no queue %")
    p.forgiven += [FAILED_TO_LOAD]
    assert p.count("main img, main script, main b:not(.legend b)") == 0
    assert p.script("return document.title").endswith("· quredis")


def test_the_beginning_of_each_message_beside_its_error(page, redis):
    mail = Queue(redis.client())
    ids = mail.dead_letters(b'{"to":"ada@example.org"}', b"", ("\u202e" + "x" * 300).encode(), b"h" * 60000, b"L" * 70000, b"\xff\xfe" * 30000)
    p = page().open("/dead-letters/mail")
    wait_for(lambda: p.count(".table-dead-letters tbody tr") == 6)
    texts = p.script("return [...document.querySelectorAll('.table-dead-letters td.message')].map(td => td.textContent)")[::-1]
    assert texts == ['{"to":"ada@example.org"}', "(empty)", r"\u202e" + "x" * 199 + "…", "h" * 200 + "…", "not in the record", texts[5]]
    assert texts[5].startswith(r"\xff\xfe\xff") and texts[5].endswith("…") and len(texts[5]) <= 201
    read = p.script("return performance.getEntriesByType('resource').filter(e => e.name.includes('queue/dlq?')).map(e => e.decodedBodySize)")
    assert read and max(read) < 6 * 2500
    assert p.script("return document.documentElement.scrollWidth") == 1280
    p.go(f"/dead-letters/mail/{ids[3]}")
    p.sees("h" * 1000, ".viewer")


def test_in_flight_workers_and_doctor(page, redis, quredisd, handler, ledger):
    wait = handler("cat >/dev/null; echo 'PROGRESS 40 page 2' >&3; echo run >>@LEDGER@; while [ ! -e @TMP@/go ]; do sleep 0.05; done")
    d = quredisd(queues=[queue("mail", wait, workers=2, reply_fd=3)], health={"enabled": True, "interval": "1s"})
    redis.client().lpush("ingress:mail", b"quredis/1 id=order-17\nto Ada")
    wait_for(lambda: ledger.lines() == ["run"])
    p = page(supervisor={"control_socket": str(d.dir / "c"), "node": d.tag}, health={"enabled": True}).open("/flight")
    p.sees("to Ada", ".table-flight")
    row, = p.rows(".table-flight")
    assert re.fullmatch(r"\d+ s|\d+ min.*", row[0]) and row[1:3] == ["mail", "to Ada"] and "alive" in row[4]
    assert int(row[5]) in d.workers("mail").values() and row[6] == d.tag
    wait_for(lambda: p.rows(".table-flight")[0][3] == "40% page 2", 30, "the report of the node")
    p.click("to Ada", ".table-flight")
    p.click("Cancel…", "dialog")
    p.click("Cancel the message", "dialog:last-of-type")
    wait_for(lambda: redis.client().llen("escape:mail") == 1, 30)
    p.sees("it is a dead letter now", "body")
    redis.client().lpush("ingress:mail", b"to Bob")
    p.sees("to Bob", ".table-flight")
    p.go("/nodes")
    p.sees("40% page 2", ".table-workers")
    wait_for(lambda: sorted(r[2].strip() for r in p.rows(".table-workers")) == ["idle", "running"])
    wait_for(lambda: [r[0] for r in p.rows(".table-nodes")] == [d.tag])
    p.go("/health")
    wait_for(lambda: [r[:2] for r in p.rows(".table-health")] == [["mail", "healthy"]])
    p.click("Run doctor")
    wait_for(lambda: p.count(".table-findings tbody tr") > 0)
    (d.dir.parent / "go").touch()
    p.go("/queue/mail")
    p.sees("done 1", ".chart")
    p.go("/flight")
    p.sees("Nothing is in flight")


def test_why_a_breaker_is_open(page, redis, quredisd, tmp):
    """The state on the overview and the reason on the page Health name the step, its error and the next attempt."""
    quredisd(queues=[queue("mail", typo(tmp))], health={"enabled": True, "interval": "1h"}, supervisor={"node": "web1"})
    redis.client().lpush("ingress:mail", "x")
    p = page().open()
    state = "return document.querySelector('.table-overview td.state .badge')?.title ?? ''"
    wait_for(lambda: re.fullmatch(MISSING + r"; next attempt at \d\d:\d\d:\d\d; workers try one message at a time", p.script(state)), 60, "the reason")
    p.sees("the breaker is open: its handler cannot be executed: interpreter", ".problems")
    p.go("/health")
    said = "the breaker is open: " + MISSING + r"; workers .*; next attempt in [\d.]+ m?s"
    wait_for(lambda: re.fullmatch(said, p.text(".table-health td.reasons")), 60, "the next attempt")


def test_the_state_is_that_of_the_worst_hold(page, redis, quredisd, tmp):
    """In the words of the program: an open breaker although the queue is paused, and quiet."""
    d = quredisd(queues=[queue("mail", typo(tmp)), queue("news", "/bin/cat")], supervisor={"node": "web1"})
    redis.client().lpush("ingress:mail", "x")
    d.wait_event("breaker_opened", queue="mail")
    d.quredis("pause", "mail")
    d.quredis("quiet", "news")
    p = page().open()
    wait_for(lambda: (cell(p, "mail", "State"), cell(p, "news", "State")) == ("breaker", "quiet"), 60, "the states")
    assert p.script("return document.querySelector('.table-overview td.state .badge-off').title") == "an operator stopped its fetches"
    bad = "return document.querySelector('.table-overview td.state .badge-bad').title"
    wait_for(lambda: "also paused (by an operator, until quredis resume)" in p.script(bad), 60, "the pause")
    assert "next attempt" not in p.script(bad) and "workers try" not in p.script(bad)


def test_several_reasons_are_counted_in_words(page, redis):
    c = redis.client()
    Scene(c)
    health = json.loads(c.hget("quredis:health", "mail"))
    health["reasons"] = [{"code": "stuck", "status": "unhealthy", "text": "7 messages are stuck"}, *health["reasons"]][:1] + [
        {"code": "delayed", "status": "degraded", "text": "9 messages are delayed"}]
    c.hset("quredis:health", "mail", json.dumps(health))
    p = page().open()
    wait_for(lambda: "7 messages are stuck, and 1 more" in p.text(".table-overview"), 60, "the reasons")


def test_an_unknown_state_hides_no_known_alarm(page, redis):
    """A supervisor of another version reports a state that this console does not know: shown, unless another host reports a worse one."""
    c = redis.client()
    scene = Scene(c)

    def report(host, name, state):
        node = json.loads(c.get(f"quredis:node:{host}"))
        next(q for q in node["queues"] if q["name"] == name)["state"] = state
        c.set(f"quredis:node:{host}", json.dumps(node))
    report("web1", "mail", "hibernating")
    report("web2", "mail", "quarantine")
    report("web1", "reports", "hibernating")
    p = page().open()
    wait_for(lambda: (cell(p, "mail", "State"), cell(p, "reports", "State")) == ("quarantine", "hibernating"), 60, "the states")
    assert p.script("return document.querySelector('.table-overview td.state .badge-unknown').title").startswith(
        'a supervisor reports the state "hibernating", which this console does not know')
    assert scene.queues


def test_a_key_with_the_wrong_type_is_named(page, redis, quredisd):
    """The state of the queue and of its node has the reason of the host; the page Health says when the queue was judged."""
    d = quredisd(queues=[queue("mail", "/bin/cat")], health={"enabled": True, "interval": "1h"})
    wait_for(lambda: redis.client().hexists("quredis:health", "mail"), 30)
    redis.client().set("quredis:of:ingress:mail:delayed", "x")
    text = "one of its keys has the wrong type: quredis:of:ingress:mail:delayed is a string, but quredis needs a zset"
    p = page(supervisor={"control_socket": str(d.dir / "c"), "node": d.tag}).open()
    wait_for(lambda: p.script("return document.querySelector('.table-overview td.state .badge')?.title ?? ''") == text, 60, "the reason")
    wait_for(lambda: p.text(".problems").count(text) == 1, 30)
    p.go("/nodes")
    wait_for(lambda: p.script("return document.querySelector('.table-served .badge')?.title ?? ''") == text, 30)
    p.go("/health")
    p.sees(text, ".table-health td.reasons")
    wait_for(lambda: re.search(r"As of.*Since", p.text(".table-health thead"), re.S | re.I), 30)
    looks = p.text(".table-health tbody td:nth-child(4)")
    assert re.fullmatch(r"(now|\d+ (s|min) ago)\s+next (now|in \d+ s|\d+ s ago)", looks), looks


# ---- the course over time ----

def course(client, points, now, name="mail"):
    """Minutes ago -> (backlog, done, failed), as supervisors note them."""
    p = client.pipeline()
    for ago, (backlog, done, failed) in points.items():
        minute = now - ago
        p.hset(f"quredis:of:ingress:{name}:backlog:{minute // 60}", minute % 60, backlog)
        p.hset(f"quredis:of:ingress:{name}:rate:{minute}", mapping={"fetched": done + failed, "done": done, "failed": failed})
    p.execute()


def axis(page, chart):
    """The labels of the axis of values, from the top, and of the axis of times; the unit."""
    return [page.text(f".chart-{chart} .{part}").split("\n") for part in ("axis-values", "axis-times", "chart-unit")]


def test_course_over_time(page, redis):
    """Each chart has one axis of values with its unit and one of times, gaps where nobody looked, and the figures of trend and stats."""
    r = redis.client()
    Queue(r)
    now = int(r.time()[0]) // 60
    course(r, {ago: (ago, 10, 1) for ago in range(0, 70) if not 20 <= ago < 30}, now)
    p = page().open("/queue/mail")
    wait_for(lambda: p.count(".chart-outcomes .bar-done") >= 50)
    values, times, unit = axis(p, "backlog")
    assert values == ["100", "50", "0"] and unit == ["messages waiting, the most in each minute"]
    assert len(times) >= 4 and all(re.fullmatch(r"\d\d:\d0", t) for t in times)
    values, times, unit = axis(p, "outcomes")
    assert values == ["20", "10", "0"] and unit == ["attempts in each minute"]
    values, times, unit = axis(p, "wait")
    assert values == ["30 min", "15 min", "0"] and unit == ["until fetched, estimated in minutes"]
    assert all(p.count(f".chart-wait .line-{id}[d*=L]") == 1 for id in ("p50", "p99"))
    assert 8 <= p.count(".chart-backlog .gap") <= 12 and p.count(".chart-backlog .gap") == p.count(".chart-outcomes .gap")
    assert p.script("return document.querySelector('.line-backlog').getAttribute('d').split('M').length") == 3      # two lines, and a gap between them
    titles = p.script("return [...document.querySelectorAll('.chart-outcomes .plot title')].map(t => t.textContent)")
    waits = p.script("return [...document.querySelectorAll('.chart-wait .plot title')].map(t => t.textContent)")
    assert any(re.search(r"half of the messages waited less than \d+ min, 99 % less than \d+ min", t) for t in waits)
    assert any("10 done, 1 failed" in t for t in titles) and any("no supervisor of this queue ran" in t for t in titles)
    stats = p.console.get("/api/v1/queue/stats?queue=mail&since=1h")["counters"]
    sums = [[f"done {stats['done'] - 10 * n}", f"failed {stats['failed'] - n}"] for n in (0, 1)]       # a minute may have begun since
    wait_for(lambda: p.text(".chart-outcomes .legend").split("\n") in sums)
    p.script("document.querySelector('.trend-table summary').click()")
    assert p.rows(".trend-table table")[-1][1:4] in (["60", "10", "1"], ["61", "10", "1"])
    assert p.script(NAMELESS) == []


def test_range_of_the_course(page, redis):
    """The arrow keys choose a range; the address remembers it, so that a reload and the tabs keep it."""
    r = redis.client()
    Queue(r)
    now = int(r.time()[0]) // 60
    course(r, {ago: (1500, 3, 0) for ago in range(0, 72 * 60 - 5, 7)}, now)
    p = page().open("/queue/mail/delayed")
    chosen = "return document.querySelector('.ranges input:checked').value"
    wait_for(lambda: p.count(".chart-backlog .plot .hit") in (60, 61))
    assert p.script(chosen) == "1h" and "range" not in p.script("return location.hash")
    depth = p.script("return history.length")
    p.script("document.querySelector('.ranges input:checked').focus()")
    for range_id, points, step in (("6h", (72, 73), "5 minutes"), ("24h", (96, 97), "15 minutes"), ("72h", (72, 73), "hour")):
        p.keys("RIGHT")
        wait_for(lambda: p.count(".chart-backlog .plot .hit") in points and axis(p, "backlog")[2] == [f"messages waiting, the most in each {step}"])
        assert p.script(chosen) == range_id and p.script("return location.hash") == f"#/queue/mail/delayed?range={range_id}"
    assert p.script("return history.length") == depth
    assert axis(p, "backlog")[0] == ["2,000", "1,000", "0"] and all(re.fullmatch(r"[A-Z][a-z]{2} \d\d:\d\d", t) for t in axis(p, "backlog")[1])
    p.sees("Also in the last 72 hours" if p.count(".durations dl + h2") else "Handler run time", ".durations")
    p.script("document.querySelector('.lists a').click()")
    wait_for(lambda: p.script("return location.hash") == "#/queue/mail/ingress?range=72h")
    p.refresh()
    wait_for(lambda: p.count(".chart-backlog .plot .hit") in (72, 73))
    assert p.script(chosen) == "72h"
    p.go("/queue/mail?range=6h")
    wait_for(lambda: p.script(chosen) == "6h" and p.count(".chart-backlog .plot .hit") in (72, 73) and axis(p, "backlog")[2][0].endswith("5 minutes"))
    p.go("/queue/mail?range=nonsense")
    wait_for(lambda: p.script(chosen) == "1h")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_course_on_a_phone(page, redis, scheme):
    """Nothing sticks out, no label is cut off, and lines and bars stand out from the ground, in both schemes."""
    r = redis.client()
    Queue(r)
    course(r, {ago: (1234567, 100000, 20) for ago in range(0, 60)}, int(r.time()[0]) // 60)
    p = page()
    p.colours(scheme)
    p.size(390, 800)
    p.open("/queue/mail")
    wait_for(lambda: p.count(".chart-outcomes .bar-done") >= 59)
    assert p.script("return document.documentElement.scrollWidth") <= 390
    right = "return Math.max(...[...document.querySelectorAll('.chart, .ranges, .axis-values span, .chart-unit')].map(e => e.getBoundingClientRect().right))"
    wait_for(lambda: p.script("return document.querySelector('.chart-backlog .plot').getBoundingClientRect().width") > 200)
    assert 200 < p.script(right) <= 390
    assert axis(p, "backlog")[0] == ["2,000,000", "1,000,000", "0"]
    colours = p.script("""const paint = (selector, name) => getComputedStyle(document.querySelector(selector))[name];
        return [paint(".chart", "backgroundColor"), paint(".line-backlog", "stroke"), paint(".bar-done", "fill"), paint(".bar-failed", "fill"),
            paint(".chart-unit", "color")]""")
    ground, *marks = [luminance(c) for c in colours]
    assert all((max(ground, m) + 0.05) / (min(ground, m) + 0.05) >= 3 for m in marks), colours


def luminance(css):
    """Of "rgb(1, 2, 3)", as WCAG defines it."""
    parts = [int(n) / 255 for n in re.findall(r"\d+", css)[:3]]
    return sum(f * (n / 12.92 if n <= 0.03928 else ((n + 0.055) / 1.055) ** 2.4) for f, n in zip((0.2126, 0.7152, 0.0722), parts))


def test_sparkline_says_what_it_shows(page, redis):
    r = redis.client()
    Queue(r)
    now = int(r.time()[0]) // 60
    r.hset("quredis:of:ingress:mail:stats", "done", 600)
    course(r, {ago: (0, 600, 0) for ago in range(1, 20)}, now)
    p = page().open("/")
    p.sees("Done a minute, last 5 min, max 600", ".total-line figcaption")
    wait_for(lambda: p.script("return document.querySelector('.table-overview td.pace').title").endswith("its highest point is 600"))


# ---- what is done ----

def test_history(page, redis, quredisd):
    d = quredisd(queues=[queue("mail", "/bin/true", done={"keep": 100, "payload": "1K"})])
    p = page().open("/queue/mail/done")
    p.sees("This queue keeps no history")
    redis.client().lpush("ingress:mail", "to Ada")
    wait_for(lambda: [r[0] for r in p.rows(".table-messages-done")] == ["to Ada"])
    assert d.tag in p.rows(".table-messages-done")[0]


def test_lists_pause_and_resume(page, redis):
    mail, r = Queue(redis.client()), redis.client()
    r.lpush(mail.ingress, "a", "b")
    r.zadd(mail.delayed, {"later": 9e15})
    p = page().open("/queue/mail")
    p.click("Pause")
    wait_for(lambda: r.exists(mail.paused))
    p.sees("paused", ".title")
    p.click("Resume")
    wait_for(lambda: not r.exists(mail.paused))
    p.go("/queue/mail/delayed")
    p.sees("later", ".table-messages-delayed")
    p.click("Retry all")
    p.click("Retry 1", "dialog")
    wait_for(lambda: payloads(r, mail.ingress) == [b"a", b"b", b"later"])
    p.go("/queue/mail/ingress")
    wait_for(lambda: p.count(".table-messages-ingress tbody tr") == 3)
    p.click("Delete all")
    p.click("Delete 3…", "dialog")
    p.click("Delete 3 permanently", "dialog")
    wait_for(lambda: r.llen(mail.ingress) == 0)
    p.sees("No messages are waiting.")


def test_one_waiting_or_delayed_message(page, redis):
    mail, r = Queue(redis.client()), redis.client()
    r.lpush(mail.ingress, "quredis/1 id=a\nfirst", "quredis/1 id=b\nsecond", "quredis/1 id=c\nthird")
    why = "failed=1700000000000 class=HandlerExit exit=3 why=exit+20status+203:+20+3cb+3eno+20route"
    failed = sealed(r, f"quredis/1 w=00000000000000ff attempts=1 {why}\nquredis/1 id=d\nlater")
    r.zadd(mail.delayed, {failed: 9e15, "quredis/1 id=e\nlast": 9.1e15})
    p = page().open("/queue/mail/delayed")
    p.sees("HandlerExit: exit status 3: <b>no route", ".table-messages-delayed")
    p.click("later", ".table-messages-delayed")
    facts = p.script("return Object.fromEntries([...document.querySelectorAll('dialog dt')].map(d => [d.innerText, d.nextSibling.innerText]))")
    assert {k: facts.get(k) for k in ("attempts", "failed at", "exit code", "last failure")} == {
        "attempts": "1", "failed at": "2023-11-14T22:13:20.000Z", "exit code": "3", "last failure": "HandlerExit: exit status 3: <b>no route"}
    p.click("Run next…", "dialog")
    p.click("Run next", "dialog:last-of-type")
    wait_for(lambda: [strip(m)[13:14] for m in mail.fetched()] == [b"d", b"a", b"b", b"c"])
    wait_for(lambda: p.count(".table-messages-delayed tbody tr") == 1)
    p.go("/queue/mail/ingress")
    wait_for(lambda: p.count(".table-messages-ingress tbody tr") == 4)
    p.click("second", ".table-messages-ingress")
    p.click("Delete…", "dialog")
    p.click("Delete…", "dialog:last-of-type")
    p.click("Delete permanently", "dialog:last-of-type")
    wait_for(lambda: [strip(m)[13:14] for m in mail.fetched()] == [b"d", b"a", b"c"])


def test_a_list_is_searched(page, redis):
    mail, r = Queue(redis.client()), redis.client()
    r.lpush(mail.ingress, *[f"order {i}" for i in range(200)])
    p = page().open("/queue/mail/ingress")
    wait_for(lambda: p.count(".table-messages-ingress tbody tr") == 50)
    p.type("Order 17", 'input[aria-label="Search in ingress"]')
    wait_for(lambda: p.count(".table-messages-ingress tbody tr") == 11)
    p.sees("found 11 among 200 messages", ".foot")
    p.type("no such", 'input[aria-label="Search in ingress"]')
    p.sees("found 0 among 200 messages", ".foot")


# ---- who may ----

def test_signing_in(page, redis):
    r = redis.client()
    mail = Queue(r)
    p = page()
    p.forgiven += [FAILED_TO_LOAD]
    p.open("/queue/mail", sign_in=False)
    p.sees("Sign in to see the queues", "dialog")
    p.type("wrong-wrong-wrong", "dialog input")
    p.click("Sign in", "dialog")
    p.sees("The console rejected it", "dialog")
    assert "mail" not in p.text("main .table-overview")
    p.type(p.console.token, "dialog input")
    p.click("Sign in", "dialog")
    p.sees("live", "#link")
    p.click("Pause")
    wait_for(lambda: r.exists(mail.paused))
    p.go("/")
    p.click("Sign out")
    p.click("Sign out", "dialog")
    p.sees("Sign in to see", "dialog")
    p.click("Cancel", "dialog")
    p.open("/queue/mail")
    p.click("Resume")
    wait_for(lambda: not r.exists(mail.paused))
    kept = "return [history.state, document.cookie, Object.entries(localStorage), Object.entries(sessionStorage), document.body.innerHTML]"
    history = str(p.browser.send("Page.getNavigationHistory"))
    assert p.console.token not in str(p.script(kept)) + history and p.script("return document.cookie") == ""
    assert p.console.ask("/api/v1/session", "POST", Authorization=f"Code {p.console.codes[-1]}").code == 401        # whatever the history holds


def test_a_code_that_was_used(page, redis):
    Queue(redis.client())
    p = page()
    p.forgiven += [FAILED_TO_LOAD]
    code = p.console.codes[0]
    assert p.console.ask("/api/v1/session", "POST", Authorization=f"Code {code}").code == 200
    p.get(f"{p.base}#code={code}")
    p.sees("was used already", ".toasts")
    p.sees("Sign in to see", "dialog")


def test_public_reads_need_no_session(page, redis):
    r = redis.client()
    mail = Queue(r)
    p = page(web={"public_reads": True}).open("/queue/mail", sign_in=False)
    p.forgiven += [FAILED_TO_LOAD]
    p.sees("live", "#link")
    p.click("Pause")
    p.sees("Sign in to make changes", "dialog")
    assert not r.exists(mail.paused)
    p.type(p.console.codes[0], "dialog input")
    p.click("Sign in", "dialog")
    wait_for(lambda: r.exists(mail.paused))


def test_a_console_that_changes_nothing(page, redis):
    mail = Queue(redis.client())
    p = page(web={"read_only": True}).open("/queue/mail")
    p.forgiven += [FAILED_TO_LOAD]
    p.click("Pause")
    p.sees("this console is read-only", ".toasts")
    assert not redis.client().exists(mail.paused)


# ---- when something is away ----

def test_redis_or_the_console_away_and_back(page, redis_server, tmp, tag):
    server = redis_server(aof="always")
    mail = Queue(server.client())
    server.client().lpush(mail.ingress, "a")
    p = page(server)
    p.forgiven += [FAILED_TO_LOAD, "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_CONNECTION_REFUSED"]
    p.open()
    p.sees("live", "#link")
    server.stop()
    p.sees("Redis has not answered for", "#away")
    assert cell(p, "mail", "Waiting") == "1"
    server.start()
    server.client().lpush(mail.ingress, "b")
    wait_for(lambda: p.text("#away") == "" and cell(p, "mail", "Waiting") == "2")
    p.sees("live", "#link")
    p.console.stop()
    p.sees("The console has not answered for", "#away")
    p.sees(" the console does not answer", "#away")       # said by an attempt to connect again
    server.client().lpush(mail.ingress, "c")
    p.console = Console(tmp / "again", server, tag, options=("-p", str(p.console.port)))
    p.sees("The session has ended", "dialog", 40)
    p.type(p.console.token, "dialog input")
    p.click("Sign in", "dialog")
    wait_for(lambda: p.text("#away") == "" and cell(p, "mail", "Waiting") == "3", 40)


# ---- for everybody, on everything ----

ROUTES = ("/", "/queue/mail", "/queue/mail/escape", "/flight", "/dead-letters", "/dead-letters/mail", "/nodes", "/health")

NAMELESS = """
const name = (e) => (e.getAttribute("aria-label") || e.labels?.[0]?.innerText || (e.matches("button, a") ? e.innerText : "")).trim();
return [...document.querySelectorAll("button, a, input, select")].filter(e => e.checkVisibility() && name(e) === "").map(e => e.outerHTML)
    .concat([...document.querySelectorAll("th:not([scope])")].map(e => e.outerHTML))
    .concat([...document.querySelectorAll("table")].filter(t => !t.caption).map(() => "a table without a caption"))
    .concat(document.querySelectorAll("h1").length === 1 ? [] : ["not one h1"])"""


def test_everything_has_a_name_and_fits(page, redis):
    mail = Queue(redis.client(), "mail")
    mail.dead_letters(b"a" * 300, b"b", error_message="x" * 300)
    redis.client().lpush(mail.ingress, "m" * 500)
    Queue(redis.client(), "q" * 64)
    p = page().open()
    p.forgiven += [FAILED_TO_LOAD]      # no supervisor runs here
    for width in (360, 768, 1280, 1600):
        p.size(width, 800)
        for route in ROUTES:
            p.go(route)
            wait_for(lambda: "Looking at" not in p.text() and "Reading" not in p.text())
            assert p.script(NAMELESS) == [], route
            assert p.script("return document.documentElement.scrollWidth") <= width, (route, width)


def test_two_hundred_queues_and_a_thousand_rows(page, redis):
    r = redis.client()
    queues = [Queue(r, f"q{i:03}") for i in range(200)]
    ids = queues[0].dead_letters(*(b"%d" % i for i in range(1000)))
    p = page().open()
    wait_for(lambda: p.count(".table-overview tbody tr") == 200)
    p.script("document.querySelector('tr[data-key=q150] a').focus(); document.querySelector('tr[data-key=q150]').scrollIntoView()")
    top = p.script("return scrollY")
    assert top > 0
    for q in queues[:40]:
        r.lpush(q.ingress, "x")
    wait_for(lambda: cell(p, "q039", "Waiting") == "1")
    assert p.script("return [document.activeElement.innerText, scrollY]") == ["q150", top]
    p.type("q15", ".tools input")
    wait_for(lambda: p.count(".table-overview tbody tr") == 10)
    p.go("/dead-letters/q000")
    p.type("exit status", ".tools input")
    p.sees("1,000 found", ".tools")
    for rows in (50, 200, 800, 1000):
        wait_for(lambda: p.count(".table-dead-letters tbody tr") == rows)
        if rows < 1000:
            p.click("Show more")
    p.script("document.querySelector(`tr[data-key='${arguments[0]}']`).scrollIntoView({ block: 'center' })", ids[500])     # not under the bar at the top
    p.click(f"select {ids[500]}", ".table-dead-letters")
    top = p.script("return scrollY")
    queues[0].dead_letters(b"new", error_message="exit status 4")
    p.sees("1,001 found", ".tools")
    assert p.script("return [...document.querySelectorAll('tr.marked')].map(r => r.dataset.key)") == [ids[500]]
    assert p.script("const t = performance.now(); dispatchEvent(new Event('hashchange')); return performance.now() - t") < 2000
