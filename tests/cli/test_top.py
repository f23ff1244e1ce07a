"""quredis top on a terminal: order, keys, the page of a queue, sizes, and many queues."""
import fcntl
import json
import os
import re
import signal
import struct
import termios
import time

import pytest

from harness import queue
from harness.queues import Queue, incarnation, now_ms

DOWN, UP, PAGE_DOWN, PAGE_UP, HOME, END = "\x1b[B", "\x1b[A", "\x1b[6~", "\x1b[5~", "\x1b[H", "\x1b[F"


def judged(client, name, status="healthy", reasons=(), **figures):
    """A queue with a health that nothing changes: no node confirms it, but it is too new for a doubt, however slow the machine is."""
    now = now_ms()
    document = {"queue": name, "status": status, "since": "", "since_ms": now - 300000, "at": "", "at_ms": now + 600000, "interval_ms": 3600000, "node": "here",
                "reasons": [{"code": "ingress", "status": status, "value": 7, "limit": 5, "text": r} for r in reasons], **figures}
    Queue(client, name)
    client.hset("quredis:health", name, json.dumps(document))


class Screen:
    """quredis top, and what its terminal shows."""

    def __init__(self, terminal, *words, rows=24, columns=120, **options):
        self.t = terminal(*words, "top", columns=columns, env={"TERM": "xterm", "NO_COLOR": "1", **options.pop("env", {})}, **options)
        self.keep = os.open(self.t.name, os.O_RDWR | os.O_NOCTTY)
        self.resize(rows, columns)
        self.start = 0

    def resize(self, rows, columns):
        self.rows = rows
        fcntl.ioctl(self.keep, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def page(self):
        """The lines of the last page that is complete; the last one is the note."""
        pages = re.findall(r"\x1b\[H([^\x00]*?)\x1b\[%d;1H(.*?)\x1b\[K" % self.rows, self.t.text[self.start:])
        if not pages:
            return []
        return [*re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", pages[-1][0]).replace("\r", "").split("\n"), pages[-1][1]]

    def until(self, condition, what):
        """Waits for a page that fulfils the condition."""
        deadline = time.monotonic() + 40
        while time.monotonic() < deadline:
            page = self.page()
            if page and condition(page):
                return page
            self.t.read()
        raise AssertionError(f"waited in vain for {what}; the last page: " + "\n".join(self.page()))

    def press(self, keys, condition=lambda page: True):
        """Presses keys, and waits until a page that came later fulfils the condition."""
        self.t.read()
        self.start = len(self.t.text)
        self.t.type(keys)
        return self.until(condition, f"the effect of {keys!r}")

    def end(self):
        os.close(self.keep)
        return self.t.end()


def names(page):
    """The queues of a list."""
    rows = [line[2:].split() for line in page if re.match(r"[ >] q?\w+ +(-|paused|running)", line)]
    return [row[0] for row in rows]


def selected(page):
    """The name in the row that is marked."""
    marked = [line for line in page if line.startswith(">")]
    return marked[0][1:].split()[0] if len(marked) == 1 else marked


# ---- order ----

def test_the_sickest_are_first(redis, quredis):
    c = redis.client()
    for name, status in ("a", "healthy"), ("z", "degraded"), ("b", "degraded"), ("y", "unhealthy"):
        judged(c, name, status, ["too many"] if status != "healthy" else [])
    judged(c, "d", "healthy")
    c.set("quredis:of:ingress:d:paused", "x")
    out = quredis("top", "--once").out.splitlines()
    assert names(out) == ["y", "b", "z", "d", "a"] and out[0].endswith("by health")
    assert names(quredis("top").out.splitlines()) == names(out), "without a terminal it is the same page"


def test_colours_say_what_words_say(redis, quredis, terminal):
    judged(redis.client(), "a", "degraded", ["too many"])
    redis.client().set("quredis:of:ingress:a:paused", "x")
    plain = quredis("top", "--once", "--color=never").out
    coloured = quredis("top", "--once", "--color=always").out
    assert "\x1b" not in plain and "health: \x1b[33mdegraded\x1b[0m" in coloured.splitlines()[0]
    assert re.search(r"^  a +\x1b\[33mpaused\x1b\[0m +\x1b\[33mdegraded\x1b\[0m +0 ", coloured, re.M), coloured
    assert [line.split()[-9:] for line in re.sub(r"\x1b\[[0-9;]*m", "", coloured).splitlines()[1:]] == [line.split()[-9:] for line in plain.splitlines()[1:]]
    t = terminal("top", "--once", columns=50)
    assert t.end() == 0 and "health: \x1b[33mdegraded\x1b[0m  by health" in t.text


def test_sort_option(redis, quredis):
    c = redis.client()
    for i, name in enumerate(["a", "b", "c"]):
        judged(c, name, ingress={"size": 5, "oldest_age": 30 - i * 10}, rates={"failed": [60, 6000, 600][i]})
        c.lpush(f"ingress:{name}", *["x"] * (i + 1))
        c.zadd(f"quredis:of:ingress:{name}:delayed", {str(j): now_ms() for j in range([2, 1, 5][i])})
        c.lpush(f"escape:{name}", *["x"] * (3 if name == "b" else 1))
    judged(c, "d")
    for key, wanted in (("name", "abcd"), ("ingress", "cbad"), ("oldest", "abcd"), ("delayed", "cabd"), ("escape", "bacd"), ("failed", "bcad"),
                        ("health", "abcd")):
        out = quredis("top", "--once", "--sort", key).out.splitlines()
        assert names(out) == list(wanted) and out[0].endswith(f"by {key}"), key
    r = quredis("top", "--once", "--sort", "oldst")
    assert (r.code, r.out) == (64, "") and r.err == ("quredis: --sort: expected health, name, ingress, oldest, transit, delayed, escape or failed, not oldst "
                                                     "(did you mean oldest?)\n")
    assert "expected health" in quredis("top", "--sort=").err and quredis("ls", "--sort", "name").code == 64


# ---- keys ----

@pytest.fixture
def many(redis):
    """Sixty queues, more than fit."""
    c = redis.client()
    for i in range(60):
        judged(c, f"q{i:02}", "degraded" if i in (40, 50) else "healthy", ["too many"] if i in (40, 50) else [])
        c.lpush(f"ingress:q{i:02}", *["x"] * (i + 1))
    return c


def test_scrolling(many, terminal):
    s = Screen(terminal)
    page = s.until(lambda p: len(names(p)) > 5, "the list")
    shown = names(page)
    assert shown[:3] == ["q40", "q50", "q00"] and len(shown) == 20 and selected(page) == "q40"
    assert page[-1].startswith(f"  1-20 of 60 queues")
    assert selected(s.press(DOWN, lambda p: selected(p) != "q40")) == "q50"
    assert selected(s.press("jj", lambda p: selected(p) == "q01")) == "q01"
    assert selected(s.press("k" + UP + UP + UP + UP, lambda p: selected(p) == "q40")) == "q40"
    page = s.press(PAGE_DOWN, lambda p: selected(p) != "q40")
    assert selected(page) == names(page)[-1] == "q18" and names(page)[0] == "q50"
    page = s.press("\x1bOF", lambda p: selected(p) == "q59")       # End, as in application mode
    assert names(page)[-1] == "q59" and page[-1].startswith("  41-60 of 60")
    assert selected(s.press(PAGE_UP, lambda p: selected(p) != "q59")) == "q37"
    page = s.press(HOME, lambda p: selected(p) == "q40")
    assert names(page) == shown
    s.press("G", lambda p: selected(p) == "q59")
    s.press("g", lambda p: selected(p) == "q40")
    s.t.type("q")
    assert s.end() == 0


def test_a_sequence_in_pieces(many, terminal):
    """Also an unknown one, bytes that are no keys, and a sequence with a modifier, have no other effect."""
    s = Screen(terminal)
    s.until(names, "the list")
    for piece in "\x1b", "[", "B":
        s.t.type(piece)
    s.until(lambda p: selected(p) == "q50", "the row below")
    s.press("\x1b[99~\x1b[1;99Z\xc3\xa4\x1b[1;5B", lambda p: selected(p) == "q00")
    s.t.type("q")
    assert s.end() == 0


def test_sort_keys(many, terminal):
    s = Screen(terminal, "--sort", "name")
    assert names(s.until(names, "the list"))[:2] == ["q00", "q01"]
    page = s.press("i", lambda p: "by ingress" in p[0])
    assert names(page)[:2] == ["q59", "q58"] == [selected(page), "q58"]
    page = s.press("r", lambda p: "by ingress, reversed" in p[0])
    assert names(page)[:2] == ["q00", "q01"]
    assert names(s.press("n", lambda p: p[0].endswith("by name")))[:2] == ["q00", "q01"]
    assert names(s.press("r", lambda p: "by name, reversed" in p[0]))[:2] == ["q59", "q58"]
    s.press("s", lambda p: p[0].endswith("by ingress"))
    assert names(s.press("h", lambda p: p[0].endswith("by health")))[:2] == ["q40", "q50"]
    for key, name in zip("odteif", ("oldest", "delayed", "transit", "escape", "ingress", "failed")):
        s.press(key, lambda p, name=name: p[0].endswith(f"by {name}"))
    s.t.type("q")
    assert s.end() == 0


def test_the_selection_follows_its_queue(many, terminal):
    """The first row stays the first row, whichever queue is there."""
    s = Screen(terminal)
    s.until(names, "the list")
    s.press("jj", lambda p: selected(p) == "q00")
    judged(many, "q00", "unhealthy", ["too many"])
    s.until(lambda p: names(p)[0] == "q00" and selected(p) == "q00", "q00 at the top")
    s.press(HOME)
    judged(many, "q33", "unhealthy", ["too many"])
    judged(many, "q00")
    s.until(lambda p: names(p)[0] == "q33" and selected(p) == "q33", "q33 at the top")
    s.press("jjjj", lambda p: selected(p) == "q01")
    many.zrem("quredis:queues", "q01")
    s.until(lambda p: "q01" not in names(p) and selected(p) == "q02", "another row")
    s.t.type("q")
    assert s.end() == 0


def test_help(many, terminal):
    s = Screen(terminal)
    s.until(names, "the list")
    page = s.press("?", lambda p: "Keys" in p[0])
    assert any("reverse" in line for line in page) and any("oldest" in line for line in page)
    assert names(s.press("q", names))
    s.t.type("q")
    assert s.end() == 0


# ---- the page of a queue ----

def test_page_of_a_queue(redis, quredisd, handler, terminal, tmp):
    slow = handler("cat >/dev/null; echo 'PROGRESS 45 page 3 of 7' >&3; while [ ! -e @TMP@/go ]; do sleep 0.1; done")
    d = quredisd(queues=[queue("mail", slow, workers=2, timeout="60s", reply_fd=3), queue("broken", "/bin/false", workers=1)],
                 health={"enabled": True, "interval": "1s", "thresholds": {"ingress_max": 3}}, supervisor={"node": "here"})
    c = redis.client()
    Queue(c, "mail").dead_letters(b"a", error_class="HandlerExit", error_message="550 no such user\nmore")
    c.lpush("ingress:mail", *["x"] * 9)
    s = Screen(terminal, "-c", str(d.conf), rows=45)
    s.until(lambda p: any(re.match(r". mail +running +(degraded|unhealthy) ", line) for line in p), "mail to be sick")
    page = s.press("\r", lambda p: any("45%" in line for line in p) and any("HandlerExit" in line for line in p))
    text = "\n".join(page)
    assert page[0].startswith("  mail ") and re.search(r"Ingress +7\n +Oldest +\d", text) and "Escape    " in text
    assert re.search(r"Failures +0 of 0 attempts in 10m00s \(0%\)$", text, re.M), text       # as the sweeper writes it: with fractions
    assert re.search(r"(degraded|unhealthy) +7 messages.* 3", text), text       # the reason, its figure and its limit
    assert re.search(r"here +running +2 +2 +0 +2 running", text) and text.count("45% page 3 of 7") == 2 and len(re.findall(r"here\.\w+\.", text)) == 2
    assert re.search(r"ago +HandlerExit +\S+ +550 no such user$", text, re.M)
    s.press("\x1b", lambda p: "by health" in p[0])
    s.press("\n", lambda p: p[0].startswith("  mail "))
    assert names(s.press("q", names))[0] == "mail"
    (tmp / "go").touch()
    s.t.type("q")
    assert s.end() == 0


def test_colours_of_the_page_of_a_queue(redis, terminal):
    judged(redis.client(), "mail", "unhealthy", ["too many"])
    Queue(redis.client(), "mail").worker(incarnation(0, node="here"))
    redis.client().set("quredis:node:here", json.dumps({"node": "here", "pid": 1, "at_ms": now_ms(), "queues": [{"name": "mail", "state": "breaker"}]}))
    for env, words, coloured in ({}, [], False), ({"NO_COLOR": ""}, [], True), ({}, ["--color=always"], True), ({"NO_COLOR": ""}, ["--color=never"], False):
        s = Screen(terminal, *words, rows=30, env=env)
        s.until(lambda p: any(re.match(r". mail +breaker +unhealthy ", line) for line in p), "the list")
        page = s.press("\r", lambda p: p[0].startswith("  mail "))
        assert re.search(r"State +breaker\n  Health +unhealthy\n  Health since +5m\d\ds ago\n", "\n".join(page))
        bad = r"\x1b\[1;31m%s\x1b\[0m" if coloured else "%s"
        for line in "  State +" + bad % "breaker", "  Health +" + bad % "unhealthy", "  " + bad % "unhealthy" + " +too many", "  here +" + bad % "breaker":
            assert re.search(line, s.t.text[s.start:]), (line, s.t.text[s.start:])
        assert ("\x1b[1;31m" in s.t.text) == coloured
        s.t.type("qq")
        assert s.end() == 0


def test_figures_with_fractions(redis, terminal):
    """As the report of health has them: ages in seconds, and counts a minute."""
    c = redis.client()
    judged(c, "a", failures={"attempts": 40, "failed": 12, "window": 600.0}, growth={"arrivals": 12.25, "completions": 3.0, "window": 60.5, "growing": 90.25})
    judged(c, "b", failures={"attempts": 1, "failed": "x", "window": -1.5}, growth={"arrivals": 1e300, "completions": 1.0})
    for keys, failures, backlog in (("\r", r"12 of 40 attempts in 10m00s \(30%\)", r"12\.\d arrive a minute, 3\.0 leave; it has grown for 1m30s"),
                                    (DOWN + "\r", "-", "-")):
        s = Screen(terminal, rows=30)
        s.until(names, "the list")
        text = "\n".join(s.press(keys, lambda p: any(re.match("  Backlog", line) for line in p)))
        assert re.search(f"Failures +{failures}$", text, re.M) and re.search(f"Backlog +{backlog}$", text, re.M), text
        s.t.type("qq")
        assert s.end() == 0


def test_page_of_a_queue_with_an_open_breaker(redis, quredisd, tmp, terminal):
    program = tmp / "h"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    d = quredisd(queues=[queue("mail", program, workers=1)], health={"enabled": True, "interval": "1s"}, supervisor={"node": "here"})
    redis.client().lpush("ingress:mail", "x")
    s = Screen(terminal, "-c", str(d.conf), rows=40)
    s.until(lambda p: any(re.match(r". mail +breaker", line) for line in p), "the breaker")
    page = s.press("\r", lambda p: p[0].startswith("  mail "))
    assert any(re.match(r"  here +(-|[0-9.hms]+) +.*interpreter.*: No such file", line) for line in page), page
    s.t.type("qq")
    assert s.end() == 0


def test_page_of_a_queue_that_goes_away(many, terminal):
    s = Screen(terminal, rows=10)
    s.until(names, "the list")
    page = s.press("\r", lambda p: p[0].startswith("  q40 "))
    assert "lines 1-9 of" in page[-1]
    s.press(END, lambda p: not p[0].startswith("  q40 "))
    s.press(HOME, lambda p: p[0].startswith("  q40 "))
    many.zrem("quredis:queues", "q40")
    s.until(lambda p: "no such queue" in p[0], "the end of the queue")
    s.press("\x1b", names)
    s.t.type("q")
    assert s.end() == 0


# ---- sizes, and many queues ----

@pytest.mark.parametrize("rows, columns", [(5, 20), (1, 1), (2, 10), (3, 200), (11, 40), (60, 300)])
def test_any_size(many, terminal, rows, columns):
    s = Screen(terminal)
    s.until(names, "the list")
    s.start = len(s.t.text)
    s.resize(rows, columns)
    for keys in ("jjG", "\r", "?", "x", "q", "g"):
        page = s.press(keys)
        assert len(page) <= max(rows, 2) and all(len(line) <= columns for line in page), page
    if rows >= 5:
        page = s.until(lambda p: selected(p), "a selected row")
        assert selected(page).startswith("q4") and page[-1].startswith("  1-"[:columns])
    s.resize(24, 120)
    s.press("G", lambda p: selected(p) == "q59")
    s.t.type("q")
    assert s.end() == 0


def test_five_hundred_queues_are_quick(redis, terminal):
    """A key is answered from the last look: it waits for no Redis. The bound is far above what it takes."""
    c = redis.client()
    for i in range(500):
        judged(c, f"q{i:03}", "degraded" if i == 321 else "healthy", ["too many"] if i == 321 else [])
    s = Screen(terminal)
    assert selected(s.until(names, "the list")) == "q321"
    redis.signal(signal.SIGSTOP)
    try:
        start = time.monotonic()
        for _ in range(20):
            s.press("G", lambda p: selected(p) == "q499")
            s.press("g", lambda p: selected(p) == "q321")
        spent = time.monotonic() - start
        assert spent < 20, spent
    finally:
        redis.signal(signal.SIGCONT)
    s.t.type("q")
    assert s.end() == 0 and "\x1b[?1049l" in s.t.text
