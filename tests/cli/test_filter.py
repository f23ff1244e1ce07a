"""Which dead letters a command means: class, cause, text, exit status, worker and time."""
import json
import shlex
import time

import pytest

from harness.program import run_quredis
from harness.queues import Queue, dumps, strip

CAUSES = [
    {"error_class": "SMTPServerDisconnected", "error_message": "connection to 10.0.0.17 lost: 421", "worker": "web1.0000000000001234.0.1",
     "root": "order-7", "depth": "1"},
    {"error_class": "HandlerExit", "error_message": "HTTP 404 for order 20261", "exit_code": "4", "worker": "web1.0000000000001234.1.1"},
    {"error_class": "HandlerExit", "error_message": "HTTP 503 for order 20262", "exit_code": "4", "worker": "web2.0000000000001234.0.1",
     "stderr": "Traceback: BOOM\n", "id": "order-7", "root": "order-8", "depth": "2"},
    {"error_class": "HandlerSignal", "error_message": "killed", "exit_code": "", "signal": "SIGKILL", "worker": "web10.0000000000001234.0.1",
     "id": "order-7"},
]
ROUNDS = 30


@pytest.fixture
def letters(redis):
    q = Queue(redis.client())
    for i in range(ROUNDS):
        for kind, fields in enumerate(CAUSES):
            q.dead_letters(b"%d:%d" % (kind, i), **fields)
    return q


@pytest.mark.parametrize("options, kinds", [
    (["--class", "HandlerExit"], {1, 2}),
    (["--cause", "HandlerExit exit 4: HTTP 404 for order #"], {1}),
    (["--cause", "HandlerExit exit 4: HTTP 503 for order #"], {2}),
    (["--cause", "SMTPServerDisconnected exit 3: connection to # lost: 421"], {0}),
    (["--cause", "HandlerSignal SIGKILL: killed"], {3}),
    (["--cause", "HandlerExit exit 4: HTTP"], set()),
    (["--text", "boom"], {2}),
    (["--text", "HTTP 404"], {1}),
    (["--text", "lost: 421", "--exit", "3"], {0}),
    (["--exit", "4"], {1, 2}),
    (["--exit", "4", "--worker", "web2"], {2}),
    (["--worker", "web1"], {0, 1}),
    (["--worker", "web1.0000000000001234.1.1"], {1}),
    (["--worker", "web"], set()),
    (["--root", "order-7"], {0, 3}),
    (["--root", "order-7", "--exit", "3"], {0}),
    (["--root", "order-8"], {2}),
    (["--root", "order"], set()),
    (["--since", "1h30m"], {0, 1, 2, 3}),
    (["--until", "2026-01-01"], set()),
    (["--since", "1h", "--until", "0s", "--class", "HandlerSignal"], {3}),
])
def test_each_command_takes_what_matches(quredis, letters, options, kinds):
    c, total = letters.client, ROUNDS * len(kinds)
    before = dumps(c)
    rows = json.loads(quredis("--json", "dlq", "ls", "mail", *options, "-n", "1000").out)
    assert {(r["error_class"], r["error_message"]) for r in rows} == {(CAUSES[k]["error_class"], CAUSES[k]["error_message"]) for k in kinds}
    assert len(rows) == total and "stderr" not in (rows or [{}])[0]
    exported = [json.loads(line) for line in quredis("dlq", "export", "mail", *options).out.splitlines()]
    assert [r["record"] for r in exported] == [r["record"] for r in rows][::-1] and all("stderr" in r and "message" in r for r in exported)
    stats = json.loads(quredis("--json", "dlq", "stats", "mail", *options).out)
    assert sum(s["count"] for s in stats if s["by"] == "class") == total
    for command in ("retry", "rm"):
        r = quredis("--json", "dlq", command, "mail", "--all", *options, "--dry-run")
        assert json.loads(r.out)["count"] == total, r.err
    assert dumps(c) == before
    assert json.loads(quredis("--json", "dlq", "retry", "mail", "--all", *options).out)["count"] == total
    want = [b"%d:%d" % (k, i) for i in range(ROUNDS) for k in range(len(CAUSES))]
    assert [strip(m) for m in letters.fetched()] == [m for m in want if int(m[:1]) in kinds]
    assert c.lrange(letters.escape, 0, -1)[::-1] == [m for m in want if int(m[:1]) not in kinds] and c.xlen(letters.log) == len(want) - total


def test_times_are_ranges_of_records(quredis, redis):
    c, q, hour = redis.client(), Queue(redis.client()), 3600000
    now = int(time.time() * 1000)
    for i, at in enumerate((now - 30 * hour, now - 3 * hour, now - hour, now - 1000)):
        c.lpush(q.escape, b"%d" % i)
        c.xadd(q.log, {"id": "x", "error_class": "HandlerExit", "error_message": "exit status 3"}, id=f"{at}-0")

    def found(*options):
        r = quredis("--json", "dlq", "ls", "mail", *options)
        assert r.code == 0, r.err
        return [int(row["record"].split("-")[0]) for row in json.loads(r.out)]

    def stamp(at):
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at / 1000)) + f".{at % 1000:03d}Z"
    ages = [now - 30 * hour, now - 3 * hour, now - hour, now - 1000]
    assert found("--since", "2h") == ages[:1:-1] and found("--until", "2h") == ages[1::-1]
    assert found("--since", stamp(ages[1]), "--until", stamp(ages[2])) == ages[2:0:-1]
    assert found("--since", "29h59m", "--until", stamp(ages[1])) == [ages[1]]
    assert found("--since", "1971-01-01") == ages[::-1] and found("--before", f"{ages[2]}-0", "--until", "1h") == ages[1::-1]
    c.config_resetstat()
    assert found("--since", "30m") == [ages[3]]
    assert c.info("commandstats")["cmdstat_xrevrange"]["calls"] < 5
    day = time.strftime("%H:%M", time.gmtime(now / 1000 + 120))
    assert found("--since", day) == ages[:0:-1] if day > "00:02" else True       # two minutes from now: of yesterday


@pytest.mark.parametrize("options, why", [
    (["--since", "yesterday"], "02:00"), (["--until", "25:00"], "02:00"), (["--since", "2026-02-30"], "02:00"), (["--since", "1h", "--until", "2h"], "later"),
    (["--exit", "x"], "0 to 255"), (["--exit", "-1"], "0 to 255"), (["--text", ""], "a text"), (["--cause", ""], "a text"),
])
def test_a_filter_that_makes_no_sense(quredis, letters, options, why):
    for command in (["dlq", "ls", "mail"], ["dlq", "stats", "mail"], ["dlq", "export", "mail"], ["dlq", "rm", "mail", "--all"]):
        r = quredis(*command, *options)
        assert r.code == 64 and why in r.err, r
    assert letters.client.llen(letters.escape) == ROUNDS * len(CAUSES)


def test_a_filter_goes_with_all(quredis, letters):
    for option in ("--class", "--cause", "--text", "--worker", "--root", "--since", "--until"):
        r = quredis("dlq", "retry", "mail", option, "1h", "1-1")
        assert r.code == 64 and f"{option} requires --all" in r.err


@pytest.mark.parametrize("command", ["retry", "rm"])
def test_without_all_the_error_has_the_whole_command(quredis, letters, redis, command):
    """Also the Redis that it asks, but for a password; and with --dry-run it is one, too. Ids and a filter cannot be combined."""
    cause = "SMTPServerDisconnected exit 3: connection to # lost: 421"
    words = ["dlq", command, "mail", "--cause", cause, "--since", "1h", *(["--rate", "100000"] if command == "retry" else [])]
    r = quredis(*words, "--dry-run", url="redis://ada:secret@127.0.0.1:1/0")
    assert "secret" not in r.err and (r.code == 69 or "-u redis://ada@127.0.0.1:1/0 dlq" in r.err), r
    r = quredis(*words, "some-id")
    assert r.code == 64 and "requires --all, and no ids" in r.err and "mail --all" not in r.err, r
    assert quredis(*words, "--dry-run").err.endswith(" --dry-run\n")
    r = quredis(*words)
    said, = r.err.splitlines()
    assert r.code == 64 and f" requires --all: quredis -u {redis.url} dlq {command} mail --all --cause 'SMTP" in said, r
    r = run_quredis(*shlex.split(said.split(" --all: quredis ")[1]), "--yes")
    assert r.code == 0 and f" {ROUNDS} dead letters of mail" in r.out, r


def test_a_command_without_its_filter_is_not_printed(quredis, redis):
    """A text that is no UTF-8 cannot be printed; without it the command would act on all dead letters."""
    Queue(redis.client(), "mail")
    r = quredis("dlq", "rm", "mail", "--text", "Ger\udce4t")
    assert (r.code, r.err) == (64, "quredis: --text requires --all\n")
    r = quredis("dlq", "rm", "mail", "--class", "X", "--anew")
    assert r.code == 64 and r.err.endswith("dlq rm mail --all --class X --anew\n"), r


HTTP = "HandlerExit exit 4: HTTP"


@pytest.mark.parametrize("wanted, said", [
    (HTTP, f"; 3 causes begin with it, the most frequent: '{HTTP} 503 for order #'"),
    (f"{HTTP} ...", f"; 3 causes begin with it, the most frequent: '{HTTP} 503 for order #'"),
    (f"{HTTP} 404 for ord...", f"; one cause begins with it: '{HTTP} 404 for order #'"),
    (f"{HTTP} 404 for ord…", f"; one cause begins with it: '{HTTP} 404 for order #'"),
    ("SMTP...", "; one cause begins with it: 'SMTPServerDisconnected exit 3: connection to # lost: 421'"),
    ("...", ""), ("nothing like it", ""), ("nothing like it...", ""),
    ("HTTP 404", "; 30 have it in the error: --text 'HTTP 404'"), ("20263", "; 1 has it in the error: --text 20263"),
])
def test_a_cause_that_is_cut_has_a_hint_and_matches_nothing(quredis, letters, wanted, said):
    letters.dead_letters(b"x", error_class="HandlerExit", error_message="HTTP 503 for order 20263", exit_code="4")
    letters.dead_letters(b"y", error_class="HandlerExit", error_message="HTTP 500 for order 20264", exit_code="4")
    n = letters.client.llen(letters.escape)
    for command in (["ls"], ["stats"], ["export"], ["retry", "--all", "--yes"], ["rm", "--all", "--yes"], ["retry", "--all", "--canary", "--yes"]):
        r = quredis("dlq", command[0], "mail", *command[1:], "--cause", wanted)
        assert r.code == 0 and f"no dead letter of mail has the cause {wanted}{said}\n" in r.err, r
    assert letters.client.llen(letters.escape) == n == letters.client.xlen(letters.log)


@pytest.mark.parametrize("command", [["retry", "--all"], ["retry", "--all", "--canary"], ["rm", "--all"]], ids=" ".join)
def test_what_is_not_taken_has_the_same_members(quredis, letters, command):
    """JSON of a filter that matches nothing, and of a dry run."""
    none, dry = (json.loads(quredis("dlq", command[0], "mail", *command[1:], "--json", "--yes", *more).out)
                 for more in (["--class", "Nope"], ["--class", "HandlerSignal", "--dry-run"]))
    members = ("total", "left", "done", "failed_again", "same_cause", "failed_cause", "complete")
    assert all(m in a for a in (none, dry) for m in members), (none, dry)
    assert (none["total"], none["left"], none["complete"], none["count"]) == (0, 0, True, 0), none
    assert (dry["total"], dry["left"], dry["complete"], dry["count"]) == (ROUNDS, ROUNDS, False, ROUNDS), dry


def test_many_causes_of_one_shape_are_one(quredis, redis):
    """A number in each error hides what they have in common; two or five codes, such as 404 and 503, stay apart."""
    q = Queue(redis.client())
    for i in range(102, 118):
        q.dead_letters(b"x", error_class="HandlerExit", error_message=f"no such file: /data/{i}", exit_code="4")
    for code in (404, 404, 503):
        q.dead_letters(b"x", error_class="HandlerExit", error_message=f"HTTP {code}", exit_code="4")
    causes = {s["key"]: s["count"] for s in json.loads(quredis("dlq", "stats", "mail", "--json").out) if s["by"] == "cause"}
    shape = "HandlerExit exit 4: no such file: /data/*"
    assert causes == {shape: 16, "HandlerExit exit 4: HTTP 404": 2, "HandlerExit exit 4: HTTP 503": 1}
    assert len(json.loads(quredis("dlq", "ls", "mail", "--json", "--cause", shape).out)) == 16
    assert len(json.loads(quredis("dlq", "ls", "mail", "--json", "--cause", shape.replace("*", "105")).out)) == 1


def test_a_cause_of_long_numbers_takes_none_of_short_ones(quredis, redis):
    """What `stats` counts as a cause is what its filter takes."""
    q = Queue(redis.client())
    for i in (998, 999, 1000, 1001):
        q.dead_letters(b"x", error_class="C", error_message=f"order {i} failed", exit_code="4")
    stats = {s["key"]: s["count"] for s in json.loads(quredis("dlq", "stats", "mail", "--json").out) if s["by"] == "cause"}
    assert stats == {"C exit 4: order # failed": 2, "C exit 4: order 998 failed": 1, "C exit 4: order 999 failed": 1}
    for cause, n in [*stats.items(), ("C exit 4: order * failed", 4)]:
        assert len(json.loads(quredis("dlq", "ls", "mail", "--json", "--cause", cause).out)) == n, cause


def test_a_cause_is_found_however_its_blanks_are_written(quredis, letters):
    """A table wraps it, and a paste keeps that."""
    letters.dead_letters(b"x", error_class="HandlerExit", error_message="  two  blanks,\ta tab ", exit_code="4")
    for cause in ("HandlerExit exit 4: two blanks, a tab", " HandlerExit exit 4:\n    two  blanks,\r\n a\ttab\n"):
        r = quredis("--json", "dlq", "ls", "mail", "--cause", cause)
        assert len(json.loads(r.out)) == 1 and r.err == "", r
    stats = json.loads(quredis("--json", "dlq", "stats", "mail").out)
    assert "HandlerExit exit 4: two blanks, a tab" in [s["key"] for s in stats if s["by"] == "cause"]


@pytest.mark.parametrize("command", [["ls"], ["retry", "--all", "--dry-run"]])
def test_a_suggestion_can_be_pasted_into_a_shell(quredis, redis, command):
    q = Queue(redis.client())
    q.dead_letters(b"x", error_class="HandlerExit", error_message="can't find $HOME", exit_code="4")
    said = quredis("dlq", command[0], "mail", *command[1:], "--cause", "HandlerExit exit 4: can").err
    cause, = shlex.split(said.split("begins with it: ")[1].split("\n")[0])
    assert len(json.loads(quredis("--json", "dlq", "ls", "mail", "--cause", cause).out)) == 1


def test_a_cause_that_ends_in_dots_is_found(quredis, letters):
    letters.dead_letters(b"x", error_class="HandlerExit", error_message="connecting...", exit_code="4")
    r = quredis("--json", "dlq", "ls", "mail", "--cause", "HandlerExit exit 4: connecting...")
    assert len(json.loads(r.out)) == 1 and "begin" not in r.err


def test_a_class_that_is_cut_has_a_hint(quredis, letters):
    r = quredis("dlq", "rm", "mail", "--all", "--class", "Handler", "--yes")
    assert "no dead letter of mail has the class Handler; 2 classes begin with it, the most frequent: HandlerExit\n" in r.err


def test_a_misspelt_class_or_cause_has_a_suggestion(quredis, letters):
    r = quredis("dlq", "ls", "mail", "--cause", "HandlerExit exit 4: HTTP 504 for order #")
    assert r.code == 0 and "did you mean HandlerExit exit 4: HTTP 503 for order #?" in r.err or "HTTP 404 for order #?" in r.err
    assert "did you mean HandlerSignal?" in quredis("dlq", "rm", "mail", "--all", "--class", "HandlerSingal").err
