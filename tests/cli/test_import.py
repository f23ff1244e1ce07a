"""quredis dlq import: the messages of an archive come back, each once."""
import json
import os
import re
import signal
import subprocess

import pytest

from crashpoints.traced import NEEDS_PTRACE, trace
from harness import QUREDIS, wait_for
from harness.queues import Queue, dumps


def lines(n, start=0):
    return [json.dumps({"record": f"{i}-1", "id": f"m{i}", "message": f"message {i}"}) for i in range(start, start + n)]


def written(path, rows):
    path.write_text("".join(row + "\n" for row in rows))
    return path


def test_what_export_writes_comes_back(quredis, redis, tmp):
    c = redis.client()
    q = Queue(c)
    messages = [b"plain", b"\x00\xff\x80 bytes", b"quredis/1 id=x\nwith a header", b"", b"line\nline\n", "é\u0000".encode(),
                b"large " * 300000, os.urandom(900000), b'{"message": "\\u0000 \\ud800"}', b"\xed\xa0\x80", "\ufeff\u2028\r".encode()]
    q.dead_letters(*messages)
    path = tmp / "a.ndjson"
    path.write_text(quredis("dlq", "export", "mail").out)
    r = quredis("dlq", "import", "mail", str(path))
    assert (r.code, r.out) == (0, "pushed 11 messages\n") and q.fetched() == messages and c.llen(q.escape) == 11
    r = quredis("dlq", "import", "mail", str(path), "--json")
    assert r.code == 0 and json.loads(r.out)["count"] == 0 and q.fetched() == messages      # each once
    path.rename(tmp / "b.ndjson")                                                          # as the archive renames a full file
    with open(tmp / "b.ndjson", "a") as more:
        more.write(lines(1)[0] + "\n")
    assert quredis("dlq", "import", "mail", str(tmp / "b.ndjson")).out == "pushed 1 message\n"
    assert q.fetched() == messages + [b"message 0"]
    assert quredis("dlq", "import", "mail", "--anew", str(tmp / "b.ndjson")).out == "pushed 12 messages\n"


@pytest.mark.parametrize("broken, why", [
    ("{", "not a line of JSON"), ("[1]", "no dead letter"), ('{"message": 5}', "no dead letter"), ("", "not a line of JSON"),
    ('{"message": "a", "message_base64": "YQ=="}', "no dead letter"),
    ('{"message_base64": "%%"}', "\"message_base64\" is not base64"), ('{"id": "x"}', "no dead letter"),
])
def test_a_broken_line_is_named(quredis, redis, tmp, broken, why):
    q = Queue(redis.client())
    path = written(tmp / "a", [*lines(3), broken, *lines(3, 3)])
    for pushed in ("pushed 3 messages\n", ""):          # the second time it begins behind them, and ends at the same line
        r = quredis("dlq", "import", "mail", str(path))
        assert r.code == 65 and r.out == pushed and f"{path}:4: {why}" in r.err and len(q.fetched()) == 3, r
        assert r.err.endswith(": --skip leaves out such lines\n"), r
    r = quredis("dlq", "import", "mail", str(path), "--skip")
    assert r.code == 0 and r.out == "pushed 3 messages\n" and f"{path}:4: {why}" in r.err
    assert q.fetched() == [b"message %d" % i for i in range(6)]


@pytest.mark.parametrize("options", [[], ["--skip"]])
def test_a_line_that_is_cut_is_no_message_until_it_is_complete(quredis, redis, tmp, options):
    q, path = Queue(redis.client()), tmp / "a"
    whole = "".join(row + "\n" for row in lines(3)).encode()
    done = whole.index(b"\n", whole.index(b"\n") + 1) + 1      # two lines
    for at in range(done, len(whole)):          # the same file grows, byte by byte
        path.write_bytes(whole[:at])
        r = quredis("dlq", "import", "mail", str(path), *options)
        cut = done < at < len(whole) - 1
        assert r.code == (65 if cut and not options else 0) and (f"{path}:3: the line is incomplete" in r.err) == cut, (at, r)
        assert q.fetched() == [b"message %d" % i for i in range(2 if at < len(whole) - 1 else 3)], at
    path.write_bytes(whole + lines(1, 3)[0].encode() + b"\n")
    assert quredis("dlq", "import", "mail", str(path)).out == "pushed 1 message\n"
    assert q.fetched() == [b"message %d" % i for i in range(4)]


def test_standard_input(redis, tmp):
    q, data = Queue(redis.client()), "".join(row + "\n" for row in lines(70)).encode()

    def run(given):
        p = subprocess.run([QUREDIS, "-u", redis.url, "dlq", "import", "mail", "-"], input=given, capture_output=True, timeout=60, check=False)
        return p.returncode, p.stdout, p.stderr
    assert run(data + b"{") == (65, b"pushed 70 messages\n", b"quredis: standard input:71: the line is incomplete\n")
    assert run(data)[:2] == run(b"")[:2] == (0, b"pushed 0 messages\n")
    assert q.fetched() == [b"message %d" % i for i in range(70)]
    path = tmp / "a"
    path.write_bytes(data + lines(1, 70)[0].encode())
    p = subprocess.run([QUREDIS, "-u", redis.url, "dlq", "import", "mail", str(path)], capture_output=True, timeout=60, check=True)
    assert p.stdout == b"pushed 1 message\n"


def test_records_without_a_message(quredis, redis, tmp):
    path = written(tmp / "a", [*lines(1), '{"record": "5-1", "message": null, "orphan": true}'])
    Queue(redis.client())
    r = quredis("dlq", "import", "mail", str(path))
    assert r.code == 0 and r.out == "pushed 1 message\n" and "1 line is a record without a message" in r.err


def test_a_file_that_changed_is_refused(quredis, redis, tmp):
    q = Queue(redis.client())
    path = written(tmp / "a", lines(3))
    assert quredis("dlq", "import", "mail", str(path)).code == 0
    written(path, [lines(1)[0], *lines(5, 7)])
    before = dumps(redis.client())
    r = quredis("dlq", "import", "mail", str(path))
    assert r.code == 65 and "has changed up to line 3" in r.err and "--anew" in r.err and dumps(redis.client()) == before
    assert q.fetched() == [b"message %d" % i for i in range(3)]


def test_the_beginning_of_an_imported_file_is_another_file(quredis, redis, tmp):
    q = Queue(redis.client())
    assert quredis("dlq", "import", "mail", str(written(tmp / "whole", lines(5)))).code == 0
    path = written(tmp / "part", lines(3))
    r = quredis("dlq", "import", "mail", str(path))
    assert r.code == 65 and "begins with the same line as a file that was imported further than its 3 lines: --anew" in r.err, r
    assert len(q.fetched()) == 5


def test_a_change_anywhere_before_the_position_is_seen(quredis, redis, tmp):
    """The first line and the last imported one are equal: taken for the same file, the command would skip messages that were never pushed."""
    q = Queue(redis.client())
    path = written(tmp / "a", lines(3))
    assert quredis("dlq", "import", "mail", str(path)).code == 0
    written(path, [lines(1)[0], lines(1, 7)[0], *lines(3, 2)])
    r = quredis("dlq", "import", "mail", str(path))
    assert r.code == 65 and "has changed up to line 3" in r.err and len(q.fetched()) == 3, r


@pytest.mark.parametrize("change", [lambda rows: rows[1:], lambda rows: lines(1, 9) + rows, lambda rows: [rows[0].replace("m0", "other"), *rows[1:]]])
def test_a_known_file_with_another_first_line_is_not_pushed_again(quredis, redis, tmp, change):
    """Its beginning was cut off or edited, or it stands behind another file: the record that was imported last is still in it."""
    q = Queue(redis.client())
    assert quredis("dlq", "import", "mail", str(written(tmp / "a", lines(300)))).code == 0
    rows = change(lines(303))
    path, before = written(tmp / "b", rows), dumps(redis.client())
    r = quredis("dlq", "import", "mail", str(path))
    known = rows.index(lines(1, 299)[0]) + 1
    assert r.code == 65 and f"{path}:{known}: an earlier import ended with this line" in r.err and "--anew" in r.err, r
    assert dumps(redis.client()) == before
    assert quredis("dlq", "import", "mail", "--anew", str(path)).code == 0 and len(q.fetched()) == 300 + len(rows)
    plain = [json.dumps({"message": text}) for text in ("a", "b", "a")]         # by hand: without a record, equal lines prove nothing
    for name, some in (("c", plain[:2]), ("d", plain[1:])):
        assert quredis("dlq", "import", "mail", str(written(tmp / name, some))).out == "pushed 2 messages\n"


def test_an_interrupt_on_the_way_to_the_position_pushes_nothing(redis, tmp):
    """The first line is read at once, before the program knows that it was imported."""
    c = redis.client()
    q, data = Queue(c), "".join(row + "\n" for row in lines(4)).encode()
    command = [QUREDIS, "-u", redis.url, "dlq", "import", "mail", "-"]
    assert subprocess.run(command, input=data, stdout=subprocess.PIPE, timeout=60, check=True).stdout == b"pushed 4 messages\n"
    before, asked = dumps(c), c.info("commandstats")["cmdstat_hget"]["calls"]
    p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    p.stdin.write(data[:data.index(b"\n", 100)])
    p.stdin.flush()
    wait_for(lambda: c.info("commandstats")["cmdstat_hget"]["calls"] > asked, 60)
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=60)
    assert out == b"pushed 0 messages\n" and dumps(c) == before, (p.returncode, out, err)


def test_nothing_is_written_without_a_reason(quredis, redis, tmp):
    Queue(redis.client())
    before = dumps(redis.client())
    assert quredis("dlq", "import", "mail", "--dry-run", str(written(tmp / "a", lines(250)))).out == "would push 250 messages\n"
    r = quredis("dlq", "import", "mail", str(tmp / "none"))
    assert r.code == 66 and "No such file" in r.err
    assert quredis("dlq", "import", "mail", str(written(tmp / "b", []))).out == "pushed 0 messages\n"
    assert dumps(redis.client()) == before


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGKILL])
def test_interrupted_anywhere_it_pushes_each_message_once(quredis, redis, tmp, sig):
    n, c = 20000, redis.client()
    q = Queue(c)
    path = written(tmp / "a", lines(n))
    for at in (1, 5000, 12000):
        p = subprocess.Popen([QUREDIS, "-u", redis.url, "dlq", "import", "mail", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(lambda at=at: c.llen(q.ingress) >= at, 60)
        os.kill(p.pid, sig)
        p.wait(60)
    assert quredis("dlq", "import", "mail", str(path), timeout=120).code == 0
    assert q.fetched() == [b"message %d" % i for i in range(n)]


@pytest.mark.parametrize("action", [pytest.param(action, marks=NEEDS_PTRACE) for action in ("kill", "kill-after")])
def test_killed_at_each_call_it_pushes_each_message_once(redis, tmp, action):
    c = redis.client()
    q = Queue(c)
    path, n, fired = written(tmp / "a", lines(200)), 1, True
    command = [QUREDIS, "-u", redis.url, "dlq", "import", "mail", path]
    while fired:
        c.delete(q.ingress, f"{q.escape}:operations")
        report, _, _ = trace(tmp, "-t", f"0:{n}", "-a", action, "-f", "sendto@socket,read@socket,read@file", command=command)
        fired = any(row[0] == "fired" for row in report)
        pushed = c.llen(q.ingress)
        out = subprocess.run(command, stdout=subprocess.PIPE, timeout=60, check=True).stdout
        assert out.split()[1] == b"%d" % (200 - pushed) and q.fetched() == [b"message %d" % i for i in range(200)], (n, pushed, out)
        n += 1
    assert n > 20


def test_without_its_note_no_message_stays(quredis, redis, tmp):
    """An access list that lacks HSET: the push is undone, or a repeated command would push the messages again."""
    c = redis.client()
    q = Queue(c)
    c.lpush(q.ingress, "before")
    c.execute_command("ACL", "SETUSER", "default", "-hset")
    r = quredis("dlq", "import", "mail", str(written(tmp / "a", lines(70))))
    c.execute_command("ACL", "SETUSER", "default", "+hset")
    assert (r.code, r.out) == (77, "") and re.search("can't run this command|needs HSET", r.err) and q.fetched() == [b"before"], r


def test_two_at_once_push_each_message_once(quredis, redis, tmp):
    n, q = 20000, Queue(redis.client())
    path = written(tmp / "a", lines(n))
    command = [QUREDIS, "-u", redis.url, "dlq", "import", "mail", "--json", path]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    ends = [(*p.communicate(timeout=120), p.returncode) for p in both]
    # 65: it saw no position of this file, and a moment later the note of the other one, which it must take for another import
    assert {code for *_, code in ends} <= {0, 65, 75} and 0 in {code for *_, code in ends}, ends
    assert all(b"an earlier import ended with this line" in err for _, err, code in ends if code == 65), ends
    assert sum(json.loads(out)["count"] for out, _, _ in ends if out) == n, ends       # each counts only what it pushed itself
    assert q.fetched() == [b"message %d" % i for i in range(n)]
