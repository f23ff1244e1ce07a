"""What `health` and `ls` make of a report: how old it is, when the next look comes, and which figures are always there."""
import json
import re

import pytest

from harness import sources
from harness.queues import Queue, now_ms


def node(c, *rows, name="web1", age_ms=0, kept_ms=600000):
    """The report of a node, which has these queues: a name, or a row."""
    rows = [{"state": "running", **(r if isinstance(r, dict) else {"name": r})} for r in rows]
    c.set(f"quredis:node:{name}", json.dumps({"node": name, "at_ms": now_ms() - age_ms, "queues": rows}), px=kept_ms)


@pytest.fixture
def report(redis):
    """Writes the report of a queue as a sweeper that judged it age_ms ago. Its node reports since that it has the queue."""
    c = redis.client()
    names = []

    def write(name, *reasons, age_ms=240000, next_ms=60000, status="unhealthy", figures=(12, 34, 0), **more):
        Queue(c, name)
        names.append(name)
        node(c, *names)
        ingress, done, stuck = figures
        c.hset("quredis:health", name, json.dumps({
            "queue": name, "status": status, "at_ms": now_ms() - age_ms, "next_at_ms": now_ms() + next_ms, "interval_ms": 3600000, "node": "web1",
            "reasons": [{"code": "dead_letters", "status": status, **r} for r in reasons], "ingress": {"size": ingress, "stuck_count": stuck},
            "transit": {"size": ingress}, "escape": {"size": ingress}, "workers": {"alive": 4, "active": 0}, "rates": {"done": done}, **more}))
    return write


def lines_of(text):
    return [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in text.replace("\r", "").splitlines()]


def shown(terminal, *words, columns=160):
    t = terminal(*words, columns=columns, env={"NO_COLOR": "1"})
    t.end()
    return lines_of(t.text)


def test_the_worst_reason_comes_first(report, quredis, redis):
    """Also before a state that an operator wants; a state that is worse comes before all reasons."""
    late = {"text": "3400 dead letters, the limit is 1000"}
    report("mail", late, age_ms=0, state="quiet", reason="an operator stopped its fetches")
    report("news", late, age_ms=0, state="quarantine", reason="its workers died")
    c = redis.client()
    for key in c.keys("quredis:node:*"):
        c.delete(key)
    rows = {q["name"]: q["reasons"] for q in json.loads(quredis("ls", "--json").out)}
    assert rows["mail"] == "3400 dead letters, the limit is 1000; quiet: an operator stopped its fetches"
    assert rows["news"] == "quarantine: its workers died; 3400 dead letters, the limit is 1000"


def test_a_monitor_reads_the_sickest_queues_first(report, quredis):
    for i in range(12):
        report(f"a{i:02}", {"text": "it is slow"}, age_ms=0, status="degraded")
    report("worst", {"text": "it is dead"}, age_ms=0)
    line = quredis("health", "--nagios").out
    assert line.startswith("QUREDIS CRITICAL - worst: it is dead, a00: it is slow, a01: ")
    assert "a08: it is slow, and 3 more queues |" in line and "a09: " not in line


def test_a_report_says_how_old_it_is(report, redis, quredis, terminal):
    report("mail", {"text": "3400 dead letters, the limit is 1000"})
    news_now = lambda: report("news", {"text": "5 messages wait, the limit is 3"}, age_ms=1000)
    news_now()
    report("fax", status="healthy", next_ms=-5000)
    mail, news, fax = shown(terminal, "health")[1:]
    assert re.match(r"  mail +unhealthy +4m ago +in \d\ds .*  3400 dead letters, the limit is 1000$", mail), mail
    assert re.match(r"  news +unhealthy +[1-9]\d?s ago +in \d\ds ", news), news
    assert re.match(r"  fax +healthy +4m ago +(0s ago|in 0s) ", fax), fax                   # the next look is late
    stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
    assert re.match(rf"  mail +unhealthy +{stamp} +{stamp} +12 ", quredis("health").out.splitlines()[1])
    news_now()
    assert "mail: 4m ago: 3400 dead letters, the limit is 1000, news: 5 messages wait" in quredis("health", "--nagios").out
    news_now()
    mail, news, fax = shown(terminal, "ls")[1:]
    assert mail.endswith("4m ago: 3400 dead letters, the limit is 1000") and news.endswith(" 5 messages wait, the limit is 3") and "ago" not in fax
    listed = {q["name"]: q for q in json.loads(quredis("ls", "--json").out)}
    assert listed["mail"]["reasons"] == "3400 dead letters, the limit is 1000" and re.fullmatch(stamp, listed["mail"]["health_at"])
    Queue(redis.client(), "tube")
    assert {q["name"]: q["health_at"] for q in json.loads(quredis("ls", "--json").out)}["tube"] is None


def test_each_figure_of_the_table_is_shown_with_its_meaning(report, quredis, terminal):
    """Numbers that differ: 1000, 1001 … in the order of the table."""
    members, wanted = {}, {}
    for n, fact in enumerate((f for f in sources.facts() if "scope" not in f), 1000):
        kind = fact.get("type")
        of = members.setdefault(fact["object"], {}) if "object" in fact else members
        of[fact["key"]] = n > 0 if kind == "FACT_FLAG" else n + 0.5 if kind == "FACT_PACE" else n
        name = ".".join(filter(None, (fact.get("object"), fact["key"])))
        elapsed = f"{n // 60}m{n % 60:02}s"
        shown_as = {"FACT_FLAG": "yes", "FACT_PACE": f"{n}.5", "FACT_AGE": elapsed}.get(kind, str(n))
        wanted[name] = f"{shown_as} {fact['text']}"
    report("mail", **members)
    lines = shown(terminal, "health", "mail")
    rows = {m[1]: f"{m[2]} {m[3]}" for m in (re.match(r"  ([a-z._]+)  +(\S+)  (.*)", line) for line in lines) if m}
    assert {name: rows.get(name) for name in wanted} == wanted and len(wanted) > 25
    assert "Meaning" not in quredis("health", "mail").out and "Meaning" not in "".join(shown(terminal, "health"))


def test_a_reason_that_recovers_says_when_the_next_look_is(report, quredis):
    text = "recovering: 0 of 2981 attempts failed in the last 10m: 0.0 %, the limit is 70 %; good at 1 of 2 looks"
    report("mail", {"text": text, "recovering": True}, {"text": "3 messages are stuck, the limit is 1", "recovering": False})
    wanted = re.escape(text) + r"; 3 messages are stuck, the limit is 1; next look in [\d.]+s"
    assert re.search(wanted, quredis("health").out) and re.search(wanted, quredis("health", "--nagios").out)
    assert re.fullmatch(wanted, json.loads(quredis("ls", "--json").out)[0]["reasons"])


def test_figures_stay_whatever_their_values_are(report, terminal):
    """Two runs can be compared. Only what is 0 as a rule gives way to reasons, and returns if it is not 0."""
    for columns in (70, 80, 100):
        titles = []
        for figures in ((0, 0, 0), (7, 9, 0), (7, 9, 3)):
            report("mail", {"text": "24 of 24 attempts failed in the last 10m: 100.0 %, the limit is 70 %"}, figures=figures)
            titles.append([t for t in re.split(r"  +", shown(terminal, "health", columns=columns)[0].strip())])
        assert titles[0] == titles[1], columns
        assert [t for t in titles[2] if t != "Stuck"] == [t for t in titles[0] if t != "Stuck"], columns
        assert {"Queue", "Status", "As of", "Ingress", "Escape", "Workers"} < set(titles[0]), titles
    report("mail", ingress={}, status="healthy")
    assert "Oldest" in shown(terminal, "health")[0] and "Reason" not in shown(terminal, "health")[0]


def health_of(quredis, name="mail"):
    """From health, its monitor and ls: (status, exit status, reasons), and the same for all of them."""
    r = quredis("health", name, "--json")
    rows = json.loads(r.out)["queues"]
    listed = {q["name"]: q for q in json.loads(quredis("ls", "--json").out)}.get(name, {})
    status = rows[0]["status"] if rows else None
    assert listed.get("health") == status, (listed, rows)
    assert quredis("health", name, "--nagios").code == r.code
    return status, r.code, listed.get("reasons") or ""


@pytest.mark.parametrize("status, becomes", (("healthy", ("unknown", 3)), ("degraded", ("unknown", 3)), ("unhealthy", ("unhealthy", 2))))
def test_a_report_counts_only_while_its_supervisor_reports(report, redis, quredis, status, becomes):
    """The report is valid for hours. Its supervisor may be dead, or unable to write."""
    c = redis.client()
    was = {"healthy": 0, "degraded": 1, "unhealthy": 2}[status]
    report("mail", *([] if status == "healthy" else [{"text": "the old reason"}]), status=status)
    assert health_of(quredis)[:2] == (status, was)
    for lose in (lambda: c.delete("quredis:node:web1"), lambda: node(c, "mail", age_ms=31000), lambda: node(c, "mail", age_ms=-3600000),
                 lambda: c.set("quredis:node:web1", "x"), lambda: (c.delete("quredis:node:web1"), c.sadd("quredis:node:web1", "x"))):
        lose()
        told = health_of(quredis)
        assert told[:2] == becomes and told[2].startswith("the supervisor that judged it does not report any more"), told
        assert status == "healthy" or told[2].endswith("; the old reason")
        row = json.loads(quredis("health", "--json").out)["queues"][0]
        assert "workers" not in row and row["ingress"]["size"] == 12
        c.delete("quredis:node:web1")
        node(c, "mail")
        assert health_of(quredis)[:2] == (status, was)


def test_a_new_report_needs_no_other_proof(report, redis, quredis):
    report("mail", age_ms=0, status="healthy")
    redis.client().delete("quredis:node:web1")
    assert health_of(quredis) == ("healthy", 0, "")


def test_a_queue_that_left_its_node_leaves_health(report, redis, quredis):
    c = redis.client()
    report("news", status="healthy")
    report("mail", {"text": "the breaker is open"})
    assert "mail: 4m ago: the breaker is open" in quredis("health", "--nagios").out
    node(c, "news", age_ms=300000)                                      # older than the report of health
    node(c, "news")
    r = quredis("health", "--nagios")
    assert r.code == 0 and "mail" not in r.out
    node(c, "news", "mail")
    c.zrem("quredis:queues", "mail")
    assert quredis("health", "--nagios").code == 2         # a lost registry hides no queue that a supervisor has
    c.delete("quredis:node:web1")
    assert "mail" not in quredis("health", "--nagios").out


def test_the_sickest_queue_is_first(report, redis, quredis):
    """In ls and health, as text and as JSON; by name where they are equally sick."""
    for name, status in (("a", "healthy"), ("b", "degraded"), ("c", "unhealthy"), ("d", "degraded"), ("e", "unhealthy"), ("f", "healthy")):
        report(name, *([] if status == "healthy" else [{"text": f"reason of {name}"}]), status=status)
    c = redis.client()
    c.hset("quredis:health", "f", json.dumps({**json.loads(c.hget("quredis:health", "f")), "node": "gone"}))
    Queue(c, "0")                                                       # nobody judges it
    wanted = list("cefbda")
    assert [q["queue"] for q in json.loads(quredis("health", "--json").out)["queues"]] == wanted
    assert [line.split()[0] for line in quredis("health").out.splitlines()[1:]] == wanted
    assert [q["name"] for q in json.loads(quredis("ls", "--json").out)] == [*"cefbd", "0", "a"]
    assert [line.split()[0] for line in quredis("ls").out.splitlines()[1:]] == [*"cefbd", "0", "a"]
    nagios = quredis("health", "--nagios")
    assert nagios.code == 2 and re.findall(r"[-,] (\w): ", nagios.out.split("|")[0]) == list("cefbd"), nagios.out


def test_the_state_is_that_of_the_newest_report(report, redis, quredis):
    c = redis.client()
    report("mail", status="healthy", state="paused", reason="paused in Redis")
    node(c, "mail")
    c.set("quredis:of:ingress:mail:paused", "{}")
    assert health_of(quredis) == ("healthy", 0, "")
    node(c, {"name": "mail", "state": "paused", "reason": "paused in Redis"})
    assert health_of(quredis) == ("healthy", 0, "paused: paused in Redis")
    c.delete("quredis:of:ingress:mail:paused")                          # resumed: newer than all reports
    assert health_of(quredis) == ("healthy", 0, "") and "paused" not in quredis("health", "mail").out


def test_the_cost_of_doubt_does_not_grow_with_queues(report, redis, quredis):
    c = redis.client()

    def commands(n):
        for i in range(n):
            report(f"q{i}", status="healthy")
        before = c.info("stats")["total_commands_processed"]
        quredis("health")
        return c.info("stats")["total_commands_processed"] - before
    assert commands(2) == commands(40)
