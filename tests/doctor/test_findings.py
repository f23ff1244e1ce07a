"""quredis doctor: a healthy system, how findings are shown, the configuration, asking, and strangers."""
import contextlib
import fcntl
import json
import os
import pty
import re
import socket
import struct
import termios
import time

import pytest

from harness import ROOT, queue, run_quredis, wait_for
from harness.clinic import GONE, HOUR_MS, USER
from harness.queues import Queue, dumps, incarnation, now_ms, sha1

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

# ---- a healthy system ----

def test_healthy(clinic, quredis):
    """A supervisor that runs, with work done, one delayed and one failed: nothing is wrong, and every check says so."""
    fail = clinic.tmp / "fail"
    fail.write_text("#!/bin/sh\ncat >/dev/null\nexit 3\n")
    fail.chmod(0o755)
    clinic.configure(clinic.queue(workers=2), clinic.queue("bad", fail), start=True)
    clinic.unit((ROOT / "etc/systemd/quredisd.service").read_text().replace("PrivateTmp=yes\n", ""))
    clinic.client.lpush("ingress:mail", *[b"m%d" % i for i in range(20)])
    clinic.client.lpush("ingress:bad", b"x", b"x")
    clinic.client.zadd("quredis:of:ingress:mail:delayed", {"later": now_ms() + HOUR_MS})
    wait_for(lambda: clinic.client.llen("escape:bad") == 2 and not clinic.client.llen("ingress:mail"))
    # a lease is renewed before the trays of the last messages are empty
    wait_for(lambda: not [k for k in clinic.client.keys("transit:*:[012]")])
    before = {k for k in clinic.client.keys("*")}
    r = clinic.doctor()
    assert [row["what"] for row in r.bad()] == []
    assert r.code == 0 and r.err == "no problem found\n"
    assert [x["check"] for x in r.rows] == documented_checks()      # also the order of findings with one severity
    assert {k for k in clinic.client.keys("*")} == before, "the rehearsal leaves nothing"
    table = clinic.run(json=False)
    assert (table.code, table.out, table.err) == (0, f"  {len(documented_checks())} checks are fine (-v lists them)\n", "no problem found\n")
    for flag in "-v", "--verbose":
        table = clinic.run(flag, json=False)
        assert table.code == 0 and len(table.out.splitlines()) == len(r.rows) + 1
        assert table.out.split()[:6] == ["Severity", "Check", "Where", "What", "What", "to"]


def documented_checks():
    page = (ROOT / "man/quredis.1").read_text()
    return re.findall(r"^\.It Sy (\w+)$", page.split(".Sh WHAT DOCTOR CHECKS")[1].split("\n.Sh ")[0], re.M)


def test_every_finding_says_what_to_do(clinic, tmp):
    """One object per finding in JSON, the worst first. Foreign text cannot control the terminal."""
    clinic.server.config_set("appendonly", "no")
    clinic.server.config_set("maxmemory-policy", "allkeys-lru")
    clinic.client.zadd("quredis:queues", {b"\x1b[2J\0\xff": 1})
    r = clinic.doctor()
    assert r.code == 2 and [x["severity"] for x in r.rows] == sorted((x["severity"] for x in r.rows),
                                                                     key=["error", "warning", "note", "ok"].index)
    assert all(set(x) == {"severity", "check", "queue", "where", "what", "advice", "fixable", "fixed"} for x in r.rows)
    assert all(x["advice"] for x in r.bad())
    assert re.search(r"^1 error, \d warnings$", r.err.strip()), r.err
    out = clinic.run(json=False).raw
    assert b"\x1b" not in out and b"\\033[2J" in out


def test_usage(clinic):
    for words, code in ((["mail"], 64), (["--class", "x"], 64), (["-n", "x"], 64)):
        r = clinic.run(*words)
        assert (r.code, r.out) == (code, "") and r.err.count("\n") == 1
    r = run_quredis("doctor", "-u", clinic.server.url, "-H", "127.0.0.1")
    assert r.code == 64 and "-u cannot be combined" in r.err and r.out == ""


# ---- the table ----

def table_of(text):
    """The rows of a table, each a list of cells, with what stands above it."""
    above, _, rows = text.partition("  Severity ")
    return above, [re.split(r"  +", row.strip()) for row in rows.splitlines()[1:]]


def strip_colours(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


@pytest.fixture
def sick(clinic):
    """Twelve queues that are paused, two of them not registered, and a worker of one that is lost with its messages."""
    clinic.configure(*[clinic.queue(f"q{i:02}") for i in range(12)])
    for i in range(12):
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 60 * (i + 10)))
        clinic.client.set(f"quredis:of:ingress:q{i:02}:paused", json.dumps({"user": "ann", "uid": 1, "host": "web3", "since": since}))
        if i < 10:
            clinic.registered(f"q{i:02}")
            clinic.client.lpush(f"ingress:q{i:02}", *["x"] * (i + 1))
    clinic.client.rpush(f"transit:q03:{GONE}:0", "x")
    return clinic


def test_the_worst_is_last_and_what_is_fine_is_hidden(sick):
    r = sick.run(json=False)
    above, rows = table_of(r.out)
    json_rows = sick.doctor().rows
    order = ["fixed", "note", "warning", "error"]
    fine = [x["check"] for x in json_rows if x["severity"] == "ok"]
    assert above == f"  {len(set(fine))} checks are fine (-v lists them)\n"
    assert [x[0] for x in rows] == sorted((x[0] for x in rows), key=order.index) and rows[-1][0] == "error"
    assert rows[-1][1:3] == ["lost", f"q03: {GONE}"] and f"quredis -c {sick.conf} doctor --fix" in rows[-1][-1]
    assert not {x[1] for x in rows} & set(fine) and all(x[-1] != "-" for x in rows)
    assert r.err == "1 error, {} warnings, 12 notes\n".format(sum(x["severity"] == "warning" for x in json_rows))


def test_findings_alike_are_one_row(sick):
    """Of a table without -v: the rows of -v, and JSON, are as many as there are findings."""
    _, rows = table_of(sick.run(json=False).out)
    paused, = [x for x in rows if x[1] == "paused"]
    assert paused[0] == "note" and paused[2] == "q00, q01, q02, q03, q04 and 7 more"
    assert re.fullmatch(r"paused for 10m\d\ds to 21m\d\ds, by ann on web3, with 0 to 10 messages waiting", paused[3])
    assert paused[4] == f"quredis -c {sick.conf} resume QUEUE"
    missing, = [x for x in rows if x[1] == "registry"]
    assert missing[2] == "q10 and q11"
    _, rows = table_of(sick.run("-v", json=False).out)
    json_rows = sick.doctor().rows
    order = ["ok", "note", "warning", "error"]
    assert len(rows) == len(json_rows) and [x[0] for x in rows] == sorted((x["severity"] for x in json_rows), key=order.index)
    assert [x[2] for x in rows if x[1] == "paused"] == [f"q{i:02}" for i in range(12)]
    assert [x["queue"] for x in json_rows if x["check"] == "paused"] == [f"q{i:02}" for i in range(12)]
    assert next(x[4] for x in rows if x[1:3] == ["paused", "q07"]) == f"quredis -c {sick.conf} resume q07"


def test_severities_have_colours(sick):
    """They are never the only sign."""
    plain, coloured = sick.run(json=False), sick.run("--color=always", json=False)
    assert "\x1b" not in plain.err + plain.out
    assert "\x1b[1;31m1 error\x1b[0m, \x1b[33m" in coloured.err and "12 notes\x1b[0m" in coloured.err
    assert strip_colours(coloured.err) == plain.err
    assert [x[0] for x in table_of(strip_colours(coloured.out))[1]] == [x[0] for x in table_of(plain.out)[1]]
    found = re.findall(r"^  \x1b\[([0-9;]+)m(note|warning|error)\x1b\[0m  ", coloured.out, re.M)
    assert set(found) == {("2", "note"), ("33", "warning"), ("1;31", "error")} and len(found) == len(table_of(plain.out)[1])
    fixed = sick.run("--color=always", "--fix", "--yes", "-v", json=False).out
    assert re.search(r"^  \x1b\[32mfixed\x1b\[0m ", fixed, re.M) and re.search(r"^  \x1b\[32mok\x1b\[0m ", fixed, re.M)


def test_what_was_fixed_is_above_what_needs_action(sick):
    r = sick.run("--fix", "--yes", json=False)
    _, rows = table_of(r.out)
    assert [x[1] for x in rows if x[0] == "fixed"] == ["registry", "lost"] == [x[1] for x in rows[:2]]
    assert rows[0][2] == "q10 and q11" and rows[0][-1] == "fixed: write the registry entry from the configuration"
    assert "3 fixed; " in r.err and "error" not in r.err
    fixed = [x for x in sick.doctor("--fix").rows if x["fixed"]]
    assert fixed == []


# ---- configuration ----

def test_configuration_with_errors(clinic):
    clinic.conf.write_text(f'redis = {{ url = "{clinic.server.url}"; }};\nqueues = ( {{ name = "mail"; wrokers = 3; }} );\n')
    clinic.registered("other").client.lpush("ingress:other", "x")
    r = clinic.doctor()
    row = r.bad("configuration")[0]
    assert r.code == 2 and row["severity"] == "error" and "workers" in row["what"] and row["where"] == f"{clinic.conf}:2"
    assert "quredisd -t" in row["advice"]
    assert "not checked" in r.one("redis", "note")["what"]
    # Redis is known all the same
    r = clinic.doctor("-u", clinic.server.url)
    assert r.bad("configuration") and r.one("workers", "warning", "1 message waiting")["queue"] == "other"


def test_configuration_that_is_not_there(clinic):
    r = clinic.doctor("-c", clinic.tmp / "none.conf")
    assert r.code == 2 and "does not exist" in r.bad("configuration")[0]["what"]


def test_configuration_as_the_supervisor_reads_it(clinic):
    clinic.configure(clinic.queue(handler="/no/such/program"))
    r = clinic.doctor()
    assert r.code == 2 and "it does not exist" in r.one("handlers", "error", where="/no/such/program")["what"]


def test_configuration_with_warnings(clinic):
    clinic.configure(clinic.queue(timeout="1h"))
    clinic.registered()
    r = clinic.doctor()
    r.one("configuration", "warning", "timeout 1h is longer than supervisor.drain_timeout 10s")
    assert r.code == 1


@as_root
def test_configuration_of_another_user(clinic, tmp):
    """If only the supervisor's user can check something, others get a note."""
    clinic.configure(clinic.queue(run_as={"user": "nobody"}))
    s = socket.socket(socket.AF_UNIX)
    s.bind(str(clinic.daemon.sections["supervisor"]["control_socket"]))
    os.chown(clinic.daemon.sections["supervisor"]["control_socket"], 1, 1)
    s.close()
    (tmp / "none").mkdir()
    clinic.configure(clinic.queue(run_as={"user": "no-such-user"}), supervisor={"control_socket": clinic.daemon.dir / "c"})
    rows = clinic.doctor().bad("configuration")
    row, = [row for row in rows if "\"no-such-user\" does not exist" in row["what"]]
    assert {row["severity"] for row in rows} == {"note"}
    assert "runuser -u daemon" in row["advice"] and "checked as root, but quredisd runs as daemon" in row["advice"]


# ---- asking ----

def on_a_terminal(argv, answer, columns=200):
    """What is seen there, as one line, and the exit status."""
    pid, fd = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        os.execve(argv[0], argv, {**os.environ, "TERM": "xterm"})
    seen, answered = b"", False
    with contextlib.suppress(OSError):      # the end of a terminal
        while data := os.read(fd, 65536):
            seen += data
            if b"[y/N]" in seen and not answered:
                os.write(fd, answer)
                answered = True
    os.close(fd)
    return seen.decode(), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_fix_asks_on_a_terminal(clinic):
    seen, code = on_a_terminal(clinic.command("--fix"), b"n\n")
    assert "mail: write the registry entry" in seen and "Apply this fix? [y/N]" in seen and "nothing was done" in seen and code == 1
    assert not clinic.client.exists("quredis:queues")
    seen, code = on_a_terminal(clinic.command("--fix"), b"y\n")
    assert "1 fixed" in seen and code == 1 and clinic.client.exists("quredis:queues")
    seen, code = on_a_terminal(clinic.command("--fix"), b"")
    assert "[y/N]" not in seen, "there is nothing to ask"


def blocks_of(text):
    """The first line of each block, without colours, with the lines below it."""
    lines = strip_colours(text).replace("\r", "").splitlines()
    heads = [i for i, line in enumerate(lines) if re.match(r"  (note|warning|error|fixed|ok)  \w+ ", line)]
    return {lines[i].strip(): lines[i + 1:end] for i, end in zip(heads, [*heads[1:], len(lines) - 1])}


def test_findings_are_blocks_on_a_terminal(sick):
    """Each has the whole width: where, what and what to do; words and commands are whole, and the worst is last."""
    q = Queue(sick.client, "q00", register=False)
    record, = q.dead_letters(b"m")
    sick.client.hset(f"{q.escape}:operations", mapping={f"{sha1(b'dlq retry')[:16]}:{k}": v for k, v in {
        "what": "dlq retry", "begun": now_ms() - 65_000, "options": json.dumps({"text": "connection, refused; by the peer", "rate": "50/s"})}.items()})
    seen, code = on_a_terminal(sick.command(), b"", 80)
    blocks = blocks_of(seen)
    last, text = list(blocks.items())[-1]
    assert last == f"error  lost  q03: {GONE}" and any(line.startswith(f"    What to do: quredis -c {sick.conf} doctor --fix: ") for line in text), blocks
    assert [h.split()[0] for h in blocks] == sorted((h.split()[0] for h in blocks), key=["note", "warning", "error"].index)
    paused = next(h for h in blocks if "  paused  " in h)
    assert paused == "note  paused  q00, q01, q02, q03, q04 and 7 more" and blocks[paused][-1] == f"    What to do: quredis -c {sick.conf} resume QUEUE"
    command = f"quredis -c {sick.conf} dlq retry q00 --all --text 'connection, refused; by the peer' --rate 50/s"
    assert f"    {command}" in [line for b in blocks.values() for line in b], blocks
    lines = [line for h, b in blocks.items() for line in (h, *b)]
    assert all(len(line) <= 80 for line in lines if line.strip() != command) and "..." not in seen
    assert "\x1b[1;31merror\x1b[0m  \x1b[1mlost\x1b[0m  q03" in seen
    report = sick.doctor()
    error, = [r for r in report.rows if r["severity"] == "error"]
    assert " ".join(line.strip() for line in text) == f"{error['what']} What to do: {report.advice(error['check'])[0]}"


def test_a_narrow_terminal_cuts_nothing(clinic):
    """Text that does not fit continues below."""
    wide, _ = on_a_terminal(clinic.command(), b"", 400)
    narrow, _ = on_a_terminal(clinic.command(), b"", 80)
    lines = narrow.replace("\r", "").split("\n")
    assert all(len(re.sub(r"\x1b\[\d*m", "", line)) <= 80 for line in lines) and len(lines) > len(wide.split("\n"))
    assert "..." not in narrow
    words = {w for line in wide.split("\n") for w in line.split() if len(w) < 12 and not w.isdigit()}     # ages and sizes differ
    assert words <= set(narrow.split())


# ---- strangers ----

def test_hostile_data_everywhere(clinic, tag):
    """All keys of a queue hold unexpected data: doctor ends, reports it, and changes nothing that it does not know."""
    c = clinic.client
    Queue(c, "mail")
    c.lpush("quredis:of:ingress:mail:delayed", "x")
    c.hset("transit:mail:workers", mapping={b"\xff" * 3000: b"\0", f"{GONE}:rescue": "x", GONE: b'{"died_at":true}', "a.b": "{"})
    c.set("escape:mail", "x")
    c.xadd("escape:mail:log", {b"\xff": b"\0"})
    c.sadd("quredis:of:ingress:mail:paused", "x")
    for i in range(50):
        c.zadd("quredis:queues", {os.urandom(20): 1})
        c.set(b"transit:mail:" + os.urandom(12), "x")
    c.set(f"transit:mail:lease:{incarnation(5)}", "x")
    c.rpush(f"transit:mail:{incarnation(6)}:0", *[os.urandom(100) for _ in range(100)])
    before, workers = dumps(c), c.hgetall("transit:mail:workers")
    r = clinic.doctor("--fix", "--dry-run")
    assert r.code == 2 and dumps(c) == before
    assert {"types", "registry", "leases", "lost"} <= {x["check"] for x in r.bad()}
    table = clinic.run("--fix", "--yes", json=False)
    assert table.code == 2 and not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", table.raw)
    assert c.llen("ingress:mail") == 100 and not c.exists(f"transit:mail:{incarnation(6)}:0")
    touched = {b"ingress:mail", f"transit:mail:{incarnation(6)}:0".encode(), b"transit:mail:workers",
               b"quredis:secret", b"quredis:schema"}      # what is put back is sealed
    assert {k: v for k, v in dumps(c).items() if k not in touched} == {k: v for k, v in before.items() if k not in touched}
    assert c.hgetall("transit:mail:workers") == workers


def test_many_queues_are_quick(clinic):
    for i in range(200):
        Queue(clinic.client, f"q{i}").worker(incarnation(i))
    clinic.registered()
    start = time.monotonic()
    assert clinic.doctor().code == 1 and time.monotonic() - start < 20
