"""quredis on a terminal: questions, widths, colours, progress."""
import fcntl
import json
import os
import re
import signal
import struct
import termios
import time
from pathlib import Path

import pytest

from harness import queue, wait_for
from harness.processes import children_of, name_of
from harness.queues import Queue, dumps, incarnation, sha1, strip


# ---- questions ----

@pytest.mark.parametrize("words, question", [
    ("purge mail escape", r"Delete 2 messages of mail escape\? \[y/N\]"),
    ("retry mail escape", r"Move 2 messages of mail escape back to ingress\? \[y/N\]"),
    ("dlq rm mail --all", r"Delete 2 messages of mail escape\? \[y/N\]"),
])
def test_asks_and_takes_no(terminal, redis, words, question):
    c = redis.client()
    Queue(c).dead_letters(b"a", b"b")
    before = dumps(c)
    for answer in ("n\n", "\n", "yess\n", "\x04"):
        t = terminal(*words.split())
        t.expect(question)
        t.type(answer)
        assert t.end() == 1 and "nothing was done" in t.text and dumps(c) == before
    t = terminal(*words.split())
    t.expect(question)
    t.type("y\n")
    assert t.end() == 0 and not c.exists("escape:mail")


def test_asks_also_if_the_first_is_not_there(terminal, redis):
    c = redis.client()
    ids = Queue(c).dead_letters(b"a", b"b")
    before = dumps(c)
    for there, question in (ids[:1], f"Delete dead letter {ids[0]} of mail?"), (ids, "Delete 2 dead letters of mail?"):
        t = terminal("dlq", "rm", "mail", "1-1", *there)
        t.expect(re.escape(question))
        t.type("n\n")
        assert t.end() == 1 and "no record 1-1" in t.text and dumps(c) == before


def test_yes_asks_nothing(terminal, redis):
    c = redis.client()
    Queue(c).dead_letters(b"a")
    t = terminal("purge", "mail", "escape", "--yes")
    assert t.end() == 0 and "?" not in t.text and not c.exists("escape:mail")
    assert terminal("purge", "mail", "escape").end() == 0       # nothing to ask about


def test_asks_also_when_output_is_a_file(terminal, redis, tmp):
    """The question depends on standard input and standard error only."""
    Queue(redis.client()).dead_letters(b"a")
    with open(tmp / "out", "w") as out:
        t = terminal("purge", "mail", "escape", stdout=out)
        t.expect(r"\[y/N\]")
        t.type("n\n")
        assert t.end() == 1
    with open(os.devnull) as nothing:
        t = terminal("purge", "mail", "escape", stdin=nothing)
        assert t.end() == 0 and not redis.client().exists("escape:mail")


def test_interrupt_at_the_question(terminal, redis):
    c = redis.client()
    Queue(c).dead_letters(b"a")
    before = dumps(c)
    t = terminal("retry", "mail", "escape")
    t.expect(r"\[y/N\]")
    t.type("\x03")
    assert t.end() == -signal.SIGINT and dumps(c) == before


def test_destroy_wants_the_name(terminal, redis):
    c = redis.client()
    q = Queue(c)
    c.lpush(q.ingress, "a")
    before = dumps(c)
    for answer in ("y\n", "yes\n", "mai\n", "mailx\n", "\n", "\x04"):
        t = terminal("destroy", "mail")
        t.expect("its 1 messages\\..*Type its name")
        t.type(answer)
        assert t.end() == 1 and dumps(c) == before
    t = terminal("destroy", "mail")
    t.expect("Type its name")
    t.type("mail\n")
    assert t.end() == 0 and dumps(c) == {}


# ---- tables ----

def rows(text):
    return [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in text.replace("\r", "").splitlines()]


@pytest.mark.parametrize("columns", [30, 60, 80, 200])
def test_columns_are_cut_to_the_terminal(terminal, redis, columns):
    c = redis.client()
    q = Queue(c, "mail", "a-rather-long-name-of-a-list:in", "a-rather-long-name-of-a-list:at-work", "a-rather-long-name-of-a-list:out")
    c.lpush(q.ingress, b"x" * 500, "ü".encode() * 500, "漢".encode() * 500)
    for words in (["ls"], ["peek", "mail", "ingress"]):
        t = terminal(*words, columns=columns)
        assert t.end() == 0
        lines = rows(t.text)
        wide = max(sum(2 if ord(ch) > 0x3000 else 1 for ch in line) for line in lines)
        if columns >= 60:
            assert wide <= columns, (wide, lines)
        # below its row each message has its id, and on the narrowest terminal its text; ls says which columns had no room
        assert len(lines) == (2 + 3 * (columns == 30) if words == ["ls"] else 5 if columns == 200 else 8 if columns > 30 else 11), lines
        assert ("..." in t.text) == (words == ["peek", "mail", "ingress"])
        assert words != ["ls"] or (" (3)" in t.text and " (0)" in t.text if columns == 200 else lines[1].split()[:2] == ["mail", "3"])


def test_ls_has_numbers_where_keys_have_no_room(terminal, redis):
    q = Queue(redis.client(), "transactions")
    redis.client().lpush(q.ingress, *range(1234))
    redis.client().set(q.paused, "{}")
    t = terminal("ls")
    assert t.end() == 0
    assert rows(t.text) == ["  Name          Ingress  Transit  Escape  Delayed  Paused",
                            "  transactions     1234        0       0        0  yes"]
    t = terminal("ls", columns=113)
    assert t.end() == 0 and "  ingress:transactions (1234)  transit:transactions (0)  escape:transactions (0)        0  yes" in t.text
    redis.client().set(q.escape, "no list")
    t = terminal("ls")
    assert t.end() == 78 and rows(t.text)[1] == "  transactions     1234        0  wrong type        0  yes"


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_ids_of_records_are_never_cut(terminal, redis, columns):
    """The operator copies them into `dlq show`."""
    q = Queue(redis.client())
    ids = q.dead_letters(b"m1", b"m2", error_message="a long story " * 20)
    entry = redis.client().xadd("quredis:of:ingress:mail:done", {"id": "x" * 60, "message": "m" * 200}).decode()
    t = terminal("dlq", "ls", "mail", columns=columns)
    assert t.end() == 0 and all(re.search(rf"^  {i} ", t.text, re.M) for i in ids)
    t = terminal("done", "ls", "mail", columns=columns)
    assert t.end() == 0 and re.search(rf"^  {entry} ", t.text, re.M) and "..." in t.text


def test_nothing_is_cut_in_a_pipe(quredis, redis):
    c = redis.client()
    q = Queue(c)
    c.lpush(q.ingress, b"x" * 5000)
    out = quredis("peek", "mail", "ingress", env={"COLUMNS": "40"}).out
    assert "x" * 5000 in out and "\x1b" not in out


def test_colour_only_on_a_terminal_that_wants_it(terminal, redis):
    Queue(redis.client())
    coloured = terminal("ls")
    assert coloured.end() == 0 and "\x1b[1m" in coloured.text
    for env, words, colours in (({"NO_COLOR": "1"}, [], False), ({"NO_COLOR": ""}, [], True), ({"TERM": "dumb"}, [], False), ({"TERM": ""}, [], False),
                                ({}, ["--color=never"], False), ({"NO_COLOR": "1", "TERM": "dumb"}, ["--color", "always"], True),
                                ({"NO_COLOR": "1"}, ["--color=auto"], False)):
        t = terminal("ls", *words, env=env)
        assert t.end() == 0 and ("\x1b[1m" in t.text) == colours and ("\x1b" in t.text) == colours, (env, words)
        assert rows(t.text) == rows(coloured.text)
    for words in ([], ["--color=always"]):
        json = terminal("ls", "--json", *words)
        assert json.end() == 0 and "\x1b" not in json.text


def test_colour_in_a_pipe(quredis, redis):
    Queue(redis.client())
    plain = quredis("ls").out
    assert "\x1b" not in plain and quredis("ls", "--color=auto").out == plain == quredis("ls", "--color", "never").out
    coloured = quredis("ls", "--color=always", env={"NO_COLOR": "1", "TERM": "dumb"}).out
    assert "\x1b[1m" in coloured and re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain
    assert quredis("ls", "--color=always", "--json").out == quredis("ls", "--json").out


def test_foreign_bytes_cannot_steer_the_terminal(terminal, redis):
    c = redis.client()
    q = Queue(c)
    evil = b"\x1b]0;title\x07\x1b[2J\r\n\x9b31m\x7f\xc2\x9b31m"
    text = "\x1b[2J\x9b31m\x7f".encode()       # UTF-8, which JSON may hold
    c.lpush(q.ingress, evil, text)
    q.dead_letters(evil, text, stderr=evil, error_message=evil, node=evil)
    q.worker(incarnation(0), t0=[evil])
    for words in ("peek mail ingress", "peek mail transit", "dlq ls mail", f"dlq show mail sha1:{sha1(evil)}", "peek mail ingress --json",
                  "dlq ls mail --json", "dlq export mail", f"dlq show mail --json sha1:{sha1(text)}"):
        t = terminal(*words.split(), env={"NO_COLOR": "1"}, columns=300)
        assert t.end() == 0, t.text
        shown = t.text.replace("\r\n", "\n")
        assert "\ufffd" not in shown
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", shown), repr(shown)


def test_names_of_keys_cannot_steer_the_terminal(terminal, redis):
    c = redis.client()
    q = Queue(c, ingress="in\x1b[2J\x9b31m\\n", escape="out\x1b[2J")
    c.set(q.ingress, "no list")
    c.set(q.escape, "no list")
    for words in ("purge mail ingress", "peek mail escape", "retry mail escape"):
        t = terminal(*words.split(), env={"NO_COLOR": "1"}, columns=300)
        assert t.end() == 78, t.text
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", t.text.replace("\r\n", "\n")), repr(t.text)
        assert "\\033[2J" in t.text


def test_a_name_from_the_registry_cannot_steer_the_terminal(terminal, redis):
    Queue(redis.client(), "a\x1b[2J\x9b31m")
    for words in (["pause"], ["pause"], ["resume", "--dry-run"], ["resume"], ["destroy", "--dry-run"]):
        t = terminal(words[0], "a\x1b[2J\x9b31m", *words[1:], env={"NO_COLOR": "1"}, columns=300)
        assert t.end() == 0, t.text
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", t.text.replace("\r\n", "\n")), repr(t.text)
        assert "a\\033[2J" in t.text


# ---- progress ----

def many(client, q, n):
    pipe = client.pipeline(transaction=False)
    for i in range(0, n, 1000):
        pipe.lpush(q.escape, *[b"%08d" % j for j in range(i, i + 1000)])
    pipe.execute()


@pytest.mark.limit(300)
def test_progress_and_interruption(terminal, redis):
    c = redis.client()
    q = Queue(c)
    many(c, q, 200000)
    t = terminal("retry", "mail", "escape", "--yes", columns=120)
    m = t.expect(r"retry mail escape  \[#*\.+\] +\d+%  (\d+)/200000  \d+/s")
    assert 0 < int(m[1]) < 200000
    t.type("\x03")
    assert t.end() == -signal.SIGINT
    moved = c.llen(q.ingress)
    assert f"retried {moved} dead letters of mail" in t.text and "run the command again to continue" in t.text
    assert moved < 200000 and c.llen(q.escape) == 200000 - moved
    assert [strip(m) for m in q.fetched()[:50]] == [b"%08d" % i for i in range(50)]


def test_a_second_interrupt_ends_at_once(redis, terminal):
    """Also when Redis does not answer."""
    q = Queue(redis.client())
    many(redis.client(), q, 300000)     # a fast machine is done with 50,000 before it shows anything
    t = terminal("retry", "mail", "escape", "--yes")
    t.expect("retry mail escape")
    redis.signal(signal.SIGSTOP)
    try:
        t.type("\x03")
        time.sleep(0.2)     # the first is noticed between two batches: there is nothing to wait for
        t.type("\x03")
        assert t.end(20) == -signal.SIGINT
    finally:
        redis.signal(signal.SIGCONT)


def test_no_progress_in_a_pipe(quredis, redis):
    q = Queue(redis.client())
    many(redis.client(), q, 30000)
    r = quredis("retry", "mail", "escape", timeout=100)
    assert r.err == "" and r.out.count("\n") == 1


# ---- top ----

COOKED = termios.ICANON | termios.ECHO
ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"


class Top:
    """quredis top on a terminal whose modes can be looked at."""

    def __init__(self, terminal, conf, under=()):
        self.t = terminal("-c", str(conf), "top", columns=120, env={"TERM": "xterm", "NO_COLOR": "1"}, under=under)
        self.keep = os.open(self.t.name, os.O_RDWR | os.O_NOCTTY)

    def modes(self):
        return termios.tcgetattr(self.keep)[3] & (termios.ICANON | termios.ECHO)

    def resize(self, rows, columns):
        fcntl.ioctl(self.keep, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def end(self):
        os.close(self.keep)
        return self.t.end()


def stopped(pid):
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"


def last_page(text):
    return text[text.rindex("\x1b[H"):]


@pytest.fixture
def busy(redis, quredisd, handler, tmp):
    slow = handler("cat >/dev/null; while [ ! -e @TMP@/go ]; do sleep 0.1; done")
    d = quredisd(queues=[queue("mail", slow, workers=2, timeout="60s"), queue("fax", handler("cat"), workers=1)],
                 health={"enabled": True, "interval": "1s"}, supervisor={"node": "here"})
    c = redis.client()
    c.lpush("ingress:mail", *"abc")
    wait_for(lambda: len(json.loads(c.get("quredis:node:here") or '{"running": []}')["running"]) == 2 and c.hget("quredis:health", "mail"), 40)
    return c, d


@pytest.fixture
def calm(quredisd, handler):
    return quredisd(queues=[queue("mail", handler("cat"), workers=0)])


def test_top_page(busy, quredis):
    """In a pipe one page, of what ls, health, stats and nodes say."""
    c, d = busy
    r = d.quredis("top")
    assert r.code == 0 and "\x1b" not in r.out
    lines = r.out.splitlines()
    assert re.match(r"  [0-9T:-]+ UTC   1 node   2 queues   health: healthy   by health$", lines[0])
    rows = {x.split()[0]: x.split() for x in lines[2:] if x}
    titles = lines[2].split()
    assert titles[:6] == ["Queue", "State", "Health", "Ingress", "Oldest", "Transit"]
    mail = dict(zip(titles, rows["mail"]))
    assert (mail["State"], mail["Health"], mail["Ingress"], mail["Transit"], mail["Running"], mail["Workers"]) == ("running", "healthy", "1", "2", "2", "2")
    assert rows["fax"][-1] == "1"
    runs = [x.split() for x in lines if " here." in x]
    assert len(runs) == 2 and all(x[1:3] == ["mail", "here"] for x in runs)
    once = json.loads(d.quredis("top", "--once", "--json").out)
    assert {q["name"] for q in once["queues"]} == {"mail", "fax"} and once["nodes"] and once["stats"] and once["health"]
    gone = quredis("top", url="redis://127.0.0.1:1")
    assert gone.code == 69 and "Redis" in gone.err and gone.out == ""


@pytest.mark.parametrize("columns, missing", [(130, ""), (110, "Escaped/s"), (100, "Escaped/s Workers"), (80, "Escaped/s Workers Oldest Running"),
                                              (60, "Escaped/s Workers Oldest Running Delayed Failed/s"),
                                              (50, "Escaped/s Workers Oldest Running Delayed Failed/s Health")])
def test_top_uses_the_width_there_is(busy, terminal, columns, missing):
    """A column without room is left out completely; columns whose content another column repeats go first; no cell is cut."""
    c, d = busy
    t = terminal("top", "--once", "-c", str(d.conf), columns=columns)
    assert t.end() == 0 and "..." not in t.text.split("Runs for")[0]
    lines = rows(t.text)
    wanted = "Queue State Health Ingress Oldest Transit Escape Delayed Running Done/s Failed/s Escaped/s Workers".split()
    assert lines[2].split() == [w for w in wanted if w not in missing.split()] and max(map(len, lines[2:5])) <= columns
    assert len(lines[3].split()) == len(lines[2].split())


def test_top_is_live_and_q_gives_the_terminal_back(busy, terminal, tmp):
    c, d = busy
    top = Top(terminal, d.conf)
    top.t.expect(r"mail +running +healthy +1 ")
    assert ENTER in top.t.text and LEAVE not in top.t.text and top.modes() == 0
    c.lpush("quredis:of:ingress:fax:delayed:x", "y")
    c.lpush("ingress:mail", *"defg")
    top.t.expect(r"mail +running +healthy +5 ")
    (tmp / "go").touch()
    top.t.expect(r"mail +running +healthy +0 ")
    top.t.expect(r"mail .* 0\.[1-9]")                       # what it did in the last seconds
    top.resize(5, 40)
    wait_for(lambda: top.t.read() and last_page(top.t.text).count("\r\n") <= 4, 20)
    top.t.type("q")
    top.t.expect(re.escape(LEAVE))
    assert top.modes() == COOKED
    assert top.end() == 0


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGSEGV", "SIGABRT"])
def test_top_gives_the_terminal_back_when_it_is_killed(calm, terminal, name):
    top = Top(terminal, calm.conf)
    top.t.expect(r"mail +(-|running)")
    assert top.modes() == 0
    os.kill(top.t.process.pid, getattr(signal, name))
    top.t.expect(re.escape(LEAVE))
    wait_for(lambda: top.modes() == COOKED)
    assert top.end() == -getattr(signal, name)


def test_top_can_be_stopped_and_goes_on(calm, terminal, tmp):
    """Ctrl-Z stops top in a shell with job control, and fg continues it."""
    script = f'"$@"; while [ ! -e {tmp}/back ]; do sleep 0.05; done; fg >/dev/null'
    top = Top(terminal, calm.conf, under=["bash", "-mc", script, "bash"])
    top.t.expect(r"mail +(-|running)")
    assert top.modes() == 0
    pid = next(p for p in children_of(top.t.process.pid) if name_of(p) == "quredis")
    top.t.type("\x1a")
    top.t.expect(re.escape(LEAVE))
    wait_for(lambda: stopped(pid))
    assert top.modes() == COOKED
    seen = len(top.t.text)
    (tmp / "back").touch()
    wait_for(lambda: top.t.read() and ENTER in top.t.text[seen:] and "mail" in top.t.text[seen:], 20)
    assert top.modes() == 0
    top.t.type("q")
    assert top.end() == 0 and top.t.text.rindex(LEAVE) > top.t.text.rindex(ENTER)


def test_top_while_redis_is_away(calm, redis, terminal):
    """The last page stays and shows the error; keys work while Redis does not answer."""
    top = Top(terminal, calm.conf)
    top.t.expect(r"mail +(-|running)")
    redis.signal(signal.SIGSTOP)
    top.t.expect(r"waiting for Redis \(showing data of \d+ s ago\)")
    redis.signal(signal.SIGCONT)
    redis.stop()
    top.t.expect(r"Redis: .*\(showing data of \d+ s ago\)", 60)
    redis.start()
    seen = len(top.t.text)
    wait_for(lambda: top.t.read() and re.search(r"mail +running|mail +no redis|mail +-", top.t.text[seen:]) and "s old" not in last_page(top.t.text), 60)
    redis.signal(signal.SIGSTOP)
    top.t.type("q")
    try:
        assert top.end() == 0
    finally:
        redis.signal(signal.SIGCONT)
