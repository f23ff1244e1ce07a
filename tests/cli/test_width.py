"""Every table of quredis on narrow terminals, with long names, failing handlers, dead letters and two nodes."""
import re
import unicodedata

import pytest

from harness import ROOT, queue, sources, wait_for
from harness.messages import sealed
from harness.queues import Queue, now_ms

NAMES = ["invoice-generation-eu-west", "invoice-generation-us-east", "mail", "newsletter-subscriptions", "image-thumbnails-large", "search-index-updates",
         "payment-reconciliation", "webhooks-outgoing-partners", "audit-log-shipping", "user-data-exports-gdpr", "video"]
FAILING = "payment-reconciliation"
ERROR = "psycopg2.OperationalError: could not connect to server: Connection refused; is the server running on host db-1.internal and accepting connections?"
LAST_LINE = ERROR[:118]         # as much as a wrapper keeps


def lines_of(text):
    return [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in text.replace("\r", "").splitlines()]


@pytest.fixture
def busy(redis, quredisd, handler):
    """Two nodes with eleven queues; the handler of one fails, and another never ends."""
    fails = handler(f"cat >/dev/null; echo '{ERROR}' >&2; exit 1", name="fails")
    health = {"enabled": True, "interval": "1s", "thresholds": {"failure_min": 2}}
    queues = [queue(n, fails if n == FAILING else handler("cat"), workers=1, max_attempts=2 if n == FAILING else 3, backoff={"base": "100ms"}) for n in NAMES]
    nodes = ("node-1.eu-west.example.internal", "node-2.eu-west.example.internal")
    made = [quredisd(queues=queues, health=health, supervisor={"node": node}) for node in nodes]
    c = redis.client()
    c.lpush(f"ingress:{FAILING}", *[f'{{"payment": {i}, "currency": "EUR", "customer": "customer-{i}@example.com"}}' for i in range(12)])
    c.lpush("ingress:mail", *"abcdef")
    wait_for(lambda: c.llen(f"escape:{FAILING}") == 12, 60)
    wait_for(lambda: b"24 of 24 attempts" in (c.hget("quredis:health", FAILING) or b""), 60)
    Queue(c, "video").dead_letters(b"m1", error_message="short")
    delay(c, "mail", 12)
    return c, made[0]


def delay(client, name, n):
    """Messages without an id that failed three minutes ago, and are due in an hour."""
    why = re.sub(r"[^\w.:-]", lambda m: f"+{ord(m[0]):02x}", LAST_LINE)
    for i in range(n):
        wrapper = f"quredis/1 w=00000000000000ff attempts=2 failed={now_ms() - 200_000} class=ConnectionRefused exit=75 why={why}\n"
        client.zadd(f"quredis:of:ingress:{name}:delayed", {sealed(client,
        f'{wrapper}{{"order": {i}, "currency": "EUR", "customer": "customer-{i}@example.com"}}'):
                                                now_ms() + 3_600_000 + i})


LOOKS = ["ls", "health", "status", f"status {FAILING}", "nodes", "stats", f"stats {FAILING}", "stale", f"stale {FAILING}", f"dlq ls {FAILING}",
         f"dlq stats {FAILING}", f"peek {FAILING} escape", "dlq ls video", "peek mail ingress", "peek mail delayed", "peek video transit", "done ls video",
         f"trend {FAILING}", "help", "help dlq retry", "help options"]
WHOLE = ["ls", "health", "status", "stats"]         # tables of all queues


def columns_of(line):
    return sum(2 if unicodedata.east_asian_width(ch) in "WF" else 1 for ch in line)


@pytest.mark.limit(200)
def test_every_table_at_80_and_40_columns(busy, terminal):
    """At 80 columns no line is longer, nothing but names and messages is cut, and what matters is there; at 40 all is at least shown."""
    c, d = busy

    def look(words, columns):
        t = terminal("-c", str(d.conf), *words.split(), columns=columns, env={"NO_COLOR": "1"})
        assert t.end() == (2 if words == "health" else 0), t.text
        return lines_of(t.text)

    for words in LOOKS:
        lines = look(words, 80)
        assert max(map(columns_of, lines), default=0) <= 80, (words, lines)
        assert words.startswith(("peek", "help", "nodes")) or not any("..." in line for line in lines), (words, lines)
        text = re.sub(r"\s+", " ", " ".join(lines))
        assert words not in WHOLE or all(n in text for n in NAMES), (words, text)
        assert words not in WHOLE or len(lines) <= 24, (words, lines)
        reason = r" unhealthy .*Reason: 24 of 24 attempts failed in the last 10m: 100.0 %, the limit is 70 %; 24 HandlerExit: exit status 1: "
        assert words not in ("ls", "health") or re.search(reason, text), text
        assert words != f"dlq ls {FAILING}" or (text.count(ERROR) == 12 and re.search(r"-\d \d+s ago HandlerExit 1 2 7\d ", text)), text
        assert words != "status" or "idle workers that are not shown: 11 " in text and "Incarnation" not in text, text
        assert words != "status" or " counted since the supervisor started; " in text and text.endswith(
            "1 of 11 queues is degraded or unhealthy: quredis health shows which, and why"), text
        assert words != f"status {FAILING}" or re.search(rf"{FAILING}/0 +\d+ +idle", text) and "not shown" not in text, text
        assert words != "stale" or text.startswith("55 rules would take nothing: quredis stale QUEUE shows them"), text
        assert words != "peek mail delayed" or shows_delayed(lines), lines
        assert words != f"stats {FAILING}" or shows_counters(lines), lines
        narrow = look(words, 40)
        assert len(narrow) >= min(len(lines), 2), (words, narrow)
        assert words not in WHOLE or all(any(line.startswith(f"  {n[:10]}") for line in narrow) for n in NAMES), (words, narrow)


def shows_counters(lines):
    """Those above 0, and those that stay, as the manual says: no other one is 0; the last line says how many there are."""
    numbers = {name: int(n) for name, n in (line.split()[:2] for line in lines[1:] if line.split()[1:2] and line.split()[1].isdigit())}
    shown = {name: n for name, n in numbers.items() if name in sources.counters()}
    manual = re.search(r"^of one queue counters that are 0, but\n(.*?);", (ROOT / "man/quredis.1").read_text(), re.M | re.S)[1]
    stay = set(re.findall(r"\w+", manual)) - {"Li", "and"}
    hidden = set(sources.counters()) - shown.keys() - {"would_purge"}       # which Redis does not have
    return shown["failed"] == 24 and {name for name, n in shown.items() if n == 0} <= stay <= shown.keys() and \
        stay == {row["name"] for row in sources.counter_rows() if "at_0" in row} and lines[-1] == f"{len(hidden)} other counters are 0"


def shows_delayed(lines):
    """Of each message class, exit status, time and error of the last attempt, a whole id, and a readable part of the message."""
    text = re.sub(r"\s+", " ", " ".join(lines))
    assert lines[0].split() == ["Due", "Size", "Attempts", "Crashes", "Failed", "Class", "Exit"], lines[0]
    return lines[-1] == "12 shown of 12 messages" and len(re.findall(r" in 59m \d\d 2 0 3m ago ConnectionRefused 75 ", text)) == 12 and \
        text.count(f"Error: {LAST_LINE} ") == 12 and len(re.findall(r"\n    Id: sha1:[0-9a-f]{40}\n", "\n".join(lines))) == 12 and \
        len(re.findall(r'\n    Message: {"order": \d+, "currency": "EUR", "customer": "customer-\d', "\n".join(lines))) == 12


def test_ids_that_fit_stand_in_the_row(terminal, redis):
    q = Queue(redis.client(), "mail")
    redis.client().lpush(q.ingress, *[f"quredis/1 id=order-{i}\nbody {i}" for i in range(3)])
    t = terminal("peek", "mail", "ingress", "-n", "2", env={"NO_COLOR": "1"})
    assert t.end() == 0
    titles, *rows, footer = lines_of(t.text)
    assert titles.split() == "Size Attempts Crashes Id Message".split() and footer == "2 shown of 3 messages"
    assert [re.sub(" +", " ", row).strip() for row in rows] == [f"27 0 0 order-{i} quredis/1 id=order-{i}\\nbody {i}" for i in (2, 1)]


def test_an_empty_list_has_no_header_on_a_terminal(terminal, redis):
    Queue(redis.client(), "mail")
    for words, said in ((("peek", "mail", "ingress"), "no messages"), (("dlq", "ls", "mail"), "no dead letters")):
        t = terminal(*words, env={"NO_COLOR": "1"})
        assert t.end() == 0 and lines_of(t.text) == [said], t.text


def test_empty_lists_say_so(quredis, redis, tmp):
    Queue(redis.client(), "mail")
    for words in ("ingress", "transit", "escape", "delayed"):
        assert quredis("peek", "mail", words).err == "no messages\n" and quredis("peek", "mail", words, "--json").err == ""
    assert quredis("done", "ls", "mail").err == "no messages\n"
    assert quredis("dlq", "ls", "mail").err == quredis("dlq", "ls", "mail", "--class", "TooLarge").err == "no dead letters\n"
    for keep, said in (("", "no messages: the queue keeps no history, since done.keep is not set\n"), ("done = { keep = 5; };", "no messages\n")):
        (tmp / "q.conf").write_text(f'redis = {{ url = "{redis.url}"; }};\nqueues = ( {{ name = "mail"; handler = [ "/bin/cat" ]; {keep} }} );\n')
        assert quredis("done", "ls", "mail", conf=tmp / "q.conf").err == said
    redis.client().rpush("transit:mail", "x")
    assert quredis("peek", "mail", "transit").err == "1 shown of 1 messages\n"


def test_trend_folds_what_nobody_saw(terminal, quredis, redis):
    """On a terminal the time without a supervisor is one line, and times are short; what a pipe gets has every row, and whole times."""
    c = redis.client()
    Queue(c, "mail")
    now = int(c.time()[0]) // 60
    for ago in (30, 29, 3):
        c.hset(f"quredis:of:ingress:mail:rate:{now - ago}", mapping={"done": ago})
    t = terminal("trend", "mail", env={"NO_COLOR": "1"})
    assert t.end() == 0
    lines = lines_of(t.text)
    assert lines[0].split()[:4] == ["From", "(UTC)", "Waiting", "at"] or "Done" in lines[0], lines
    day = r"(\d{4}-\d\d-\d\d )?\d\d:\d\d"
    gap, row = rf"  {day} to {day}: no supervisor served the queue", rf"  {day} .* (30|29|3) +0"
    assert [bool(re.match(gap, line)) for line in lines[1:]] == [True, False, False, True, False, True], lines
    assert all(re.match(gap, line) or re.match(row, line) for line in lines[1:]) and max(map(len, lines)) <= 80
    ends = [re.findall(r"\d\d:\d\d", line) for line in lines[1:]]
    assert ends[0][1] == ends[1][0] and ends[3][1] == ends[4][0], ends
    assert quredis("trend", "mail", "--since", re.match(rf"  ({day})", lines[2])[1]).out.splitlines()[1].split()[2] == "30"      # as --since takes it
    now = c.time()[0] // 60
    assert ends[5][1] in {f"{minute // 60 % 24:02}:{minute % 60:02}" for minute in (now - 1, now)}, (ends, now)
    c.hset(f"quredis:of:ingress:mail:rate:{now - 1}", mapping={"done": 1})     # of the minute that has begun nothing is known yet
    t = terminal("trend", "mail", env={"NO_COLOR": "1"})
    assert t.end() == 0 and ("no supervisor" not in lines_of(t.text)[-1] or c.time()[0] // 60 > now), t.text
    piped = quredis("trend", "mail").out.splitlines()
    assert len(piped) == 62 and all(re.match(r"  \d{4}-\d\d-\d\dT\d\d:\d\d:00\.000Z ", line) for line in piped[1:])


def test_figures_that_are_older_than_three_days(quredis, redis):
    Queue(redis.client(), "mail")
    for words in (["trend", "mail"], ["stats", "mail"], ["stats"]):
        assert re.fullmatch(r"figures are kept for three days: there are none before [0-9T:.-]+Z\n", quredis(*words, "--since", "4d").err), words
        assert quredis(*words, "--since", "3d").err == ""


def test_stats_say_what_they_count(terminal, quredis, redis):
    q = Queue(redis.client(), "mail")
    redis.client().hset("quredis:of:ingress:mail:stats", mapping={"due": 3199, "class:HTTP503": 7, "below_8": 5, "lag_below_1024": 4})
    t = terminal("stats", "mail", env={"NO_COLOR": "1"})
    assert t.end() == 0
    lines = lines_of(t.text)
    rows = {m[1]: f"{m[2]} {m[3]}" for m in (re.match(r"  (\S+(?: \S+)*?)  +(\S+)  (.*)", line) for line in lines) if m}
    assert lines[0].split() == ["Counter", "Number", "Meaning"] and max(map(len, lines)) <= 80
    assert rows["due"] == "3199 delayed messages that were moved to ingress" and rows["HTTP503"] == "7 escaped: a class that the handler named"
    assert rows["99 % of runs"] == "<8ms how long the handler ran" and rows["99 % of lags"] == "<1.0s how late due and expired messages were moved"
    piped = quredis("stats", "mail").out
    assert re.search(r"^ *due +3199$", piped, re.M) and re.search(r"^ *median run +<8ms$", piped, re.M) and "below" not in piped


def test_status_shows_workers_that_are_not_calm(quredisd, handler, redis, terminal):
    d = quredisd(queues=[queue("mail", handler("cat >/dev/null; sleep 1000"), workers=3, timeout="1h")])
    redis.client().lpush("ingress:mail", "a")
    wait_for(lambda: "running" in d.quredis("status").out.split("Incarnation")[1])
    t = terminal("status", "-c", str(d.conf), env={"NO_COLOR": "1"})
    assert t.end() == 0
    workers = [line for line in lines_of(t.text) if line.startswith("  mail/")]
    assert len(workers) == 1 and " running " in workers[0] and "idle workers that are not shown: 2 " in t.text, t.text
    assert "sick" not in t.text and "sick" not in d.quredis("status").err
    redis.stop()
    t = terminal("status", "-c", str(d.conf), env={"NO_COLOR": "1"})
    assert t.end() == 0 and "Redis: Connection" not in t.text and "sick" not in t.text, t.text
    redis.start()


def test_without_a_terminal_tables_are_as_before(busy, quredis):
    """Scripts take columns by their place: none is left out, times are absolute, nothing is on a second line."""
    c, d = busy
    stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
    lines = d.quredis("health").out.splitlines()
    titles = "Queue Status As of Next look Ingress Oldest Transit Escape Stuck Workers Active Done/min Reason"
    assert lines[0].split() == titles.split() and len(lines) == 1 + len(NAMES)
    lines = d.quredis("dlq", "ls", FAILING).out.splitlines()
    assert lines[0].split() == "Record Failed at Class Exit Signal Attempts Size Error".split() and len(lines) == 13
    assert [line for line in lines[1:] if not re.match(rf"  \d+-\d  {stamp}  HandlerExit +1 +- +2 +7\d  exit status 1: psycopg2", line)] == []
    lines = d.quredis("ls").out.splitlines()
    assert re.match(rf"  {FAILING} +ingress:{FAILING} \(0\) +transit:{FAILING} \(0\) +escape:{FAILING} \(12\) +0  no  +unhealthy  24 of 24", lines[1]), lines
    lines = d.quredis("status").out.splitlines()
    assert lines[3].split() == "Queue State Workers Alive Done Failed Escaped Restarts Reason".split()
    assert lines[16].split() == "Worker Pid State Waits for Messages Running Progress Seen Redis Incarnation".split() and "ago" not in "".join(lines)
    assert len(d.quredis("stale").out.splitlines()) == 1 + 5 * len(NAMES)


def test_states_have_their_colour(busy, terminal):
    """A word, and no more than the word: "unhealthy" says so itself."""
    c, d = busy
    t = terminal("health", "-c", str(d.conf))
    assert t.end() == 2
    assert "\x1b[1;31munhealthy\x1b[0m" in t.text and t.text.count("\x1b[32mhealthy\x1b[0m") == len(NAMES) - 1 and "\x1b[2mReason\x1b[0m: 24" in t.text
    coloured = "Queue|Status|As of|Next look|Ingress|Oldest|Transit|Escape|Stuck|Workers|Done/min|(un)?healthy|Reason"
    assert re.sub(rf"\x1b\[[0-9;]*m({coloured})\x1b\[0m", "", t.text).count("\x1b") <= 3
    piped = d.quredis("health", "--color=always").out
    assert "\x1b[1;31munhealthy\x1b[0m" in piped and re.sub(r"\x1b\[[0-9;]*m", "", piped) == d.quredis("health").out


def test_wide_characters(terminal, redis):
    """A character of two columns takes two, in names that are cut and in errors that continue."""
    c = redis.client()
    q = Queue(c, "mail")
    q.dead_letters(b"m1", error_message="\u6f22\u5b57" * 60)
    c.lpush(q.ingress, "\u6f22".encode() * 100)
    for words in ("dlq ls mail", "peek mail ingress"):
        t = terminal(*words.split(), columns=80, env={"NO_COLOR": "1"})
        assert t.end() == 0
        lines = lines_of(t.text)
        assert 76 <= max(map(columns_of, lines)) <= 80, lines
    assert "".join(lines).count("\u6f22") < 100


@pytest.mark.parametrize("columns", [1, 2, 3, 10, 20])
def test_no_terminal_is_too_narrow(terminal, redis, columns):
    c = redis.client()
    q = Queue(c, "mail")
    q.dead_letters(b"m1", error_message="a long story " * 20)
    for words in ("ls", "dlq ls mail", "dlq stats mail", "dlq show mail m1", "peek mail escape", "nodes", "stats", "stale"):
        t = terminal(*words.split(), columns=columns, env={"NO_COLOR": "1"})
        assert t.end() in (0, 66), t.text


def test_times_of_an_object(terminal, redis, quredis):
    """Of a single dead letter a person sees both: when it failed, and how long ago that is."""
    q = Queue(redis.client(), "mail")
    record, = q.dead_letters(b"m1")
    t = terminal("dlq", "show", "mail", record, columns=120, env={"NO_COLOR": "1"})
    assert t.end() == 0 and re.search(r"failed_at +2026-11-20T14:31:07\.123Z \((\d+[smhd] ago|in \d+[smhd])\)\r", t.text), t.text
    assert re.search(r"failed_at +2026-11-20T14:31:07\.123Z\n", quredis("dlq", "show", "mail", record).out)
