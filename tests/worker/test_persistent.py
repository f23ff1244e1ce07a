"""
The handlers of etc/handlers, which stay. First spoken to over pipes: the protocol of quredis-handler(7), nothing of ours
between; then run by quredisd.
"""
import os
import shutil
import subprocess
import threading

import pytest

from harness import ROOT, queue, wait_for
from harness.messages import anywhere

HANDLERS = ROOT / "etc/handlers"
INTERPRETERS = {"py": "/usr/bin/python3", "rb": "ruby", "js": "node", "pl": "perl", "php": "php", "sh": "/bin/sh", "c": "cc"}
MIB = 1 << 20

MESSAGES = [
    b"hello", b"", b"\n", b"\0", bytes(range(256)), b"JOB 1 1 5\nhello\n", b"OK 3", b"\r\n", b"\xff\xfe", b"x" * 65535, b"x" * 65536,
    b"", os.urandom(MIB), b"\n" * 4097, b"\0" * MIB, b"%n%s\n\n", b"the end",
]


@pytest.fixture(params=sorted(INTERPRETERS))
def command(request, tmp):
    """How to start the example in one language, but for its argument."""
    source = HANDLERS / f"collect.{request.param}"
    interpreter = shutil.which(INTERPRETERS[request.param])
    if interpreter is None:
        pytest.skip(f"{INTERPRETERS[request.param]} is not installed")
    if request.param != "c":
        return [interpreter, str(source)]
    subprocess.run([interpreter, "-std=c17", "-Wall", "-Wextra", "-Werror", "-O2", "-o", str(tmp / "collect"), str(source)], check=True)
    return [str(tmp / "collect")]


class Handler:
    def __init__(self, command, path):
        self.process = subprocess.Popen([*command, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/")

    def write(self, serial, message, keys=""):
        self.process.stdin.write(b"JOB %d 1 %d%s\n%s\n" % (serial, len(message), keys.encode(), message))
        self.process.stdin.flush()

    def answer(self):
        return self.process.stdout.readline()

    def close(self):
        self.process.stdin.close()
        rest = self.process.stdout.read()
        self.process.stdout.close()
        return self.process.wait(60), rest


@pytest.fixture
def start(command, tmp):
    started = []

    def start(path=None):
        started.append(Handler(command, path or tmp / "collected"))
        return started[-1]
    yield start
    for h in started:
        h.process.kill()
        h.process.wait()


def right(serial, message):
    return b"OK %d\n" % serial if message else b"REJECT %d it is empty\n" % serial


def test_one_at_a_time(start, tmp):
    h = start()
    for serial, message in enumerate(MESSAGES, 7):
        h.write(serial, message)
        assert h.answer() == right(serial, message)
    assert h.close() == (0, b"")
    assert (tmp / "collected").read_bytes() == b"".join(MESSAGES)


def test_written_ahead(start, tmp):
    """All of them as fast as the pipe takes them, with all keys there are, and the end of file behind the last."""
    h = start()
    keys = " id=order-7 request_id=r:1 max_attempts=5 redelivered=1 deadline=1800000000000"
    serials = range(18446744073709551615 - len(MESSAGES), 18446744073709551615)

    def write():
        for serial, message in zip(serials, MESSAGES):
            h.write(serial, message, keys)
        h.process.stdin.close()
    writer = threading.Thread(target=write)
    writer.start()
    got = [h.answer() for _ in MESSAGES]
    writer.join()
    assert got == [right(serial, message) for serial, message in zip(serials, MESSAGES)]
    assert h.close() == (0, b"")
    assert (tmp / "collected").read_bytes() == b"".join(MESSAGES)


def test_many(start, tmp):
    h = start()
    n, window = 2000, 8
    for serial in range(n):
        h.write(serial, b"%d;" % serial)
        if serial >= window - 1:
            assert h.answer() == b"OK %d\n" % (serial - window + 1)
    assert h.close() == (0, b"".join(b"OK %d\n" % s for s in range(n - window + 1, n)))
    assert (tmp / "collected").read_bytes() == b"".join(b"%d;" % s for s in range(n))


def test_a_frame_that_comes_in_pieces(start):
    h = start()
    for piece in (b"JO", b"B 12 1 ", b"5", b"\n", b"he", b"llo", b"\nJOB 13 1 0\n", b"\n"):
        h.process.stdin.write(piece)
        h.process.stdin.flush()
    assert h.answer() == b"OK 12\n"
    assert h.answer() == b"REJECT 13 it is empty\n"
    assert h.close()[0] == 0


@pytest.mark.parametrize("half", [b"JOB 5 1 100\nonly this", b"JOB 5 1 9\nonly this", b"JOB 5 1 0\n"])
def test_half_a_frame_is_not_handled(start, tmp, half):
    """The state after a worker died while it wrote."""
    h = start()
    h.process.stdin.write(half)
    code, rest = h.close()
    assert rest == b"" and code is not None
    if "sh" not in h.process.args[0]:       # head writes as it reads
        assert (tmp / "collected").read_bytes() == b""


def test_what_cannot_be_written_is_not_done(start):
    """A full disk: tried again, or the handler's end, which is a failed attempt."""
    h = start("/dev/full")
    h.write(3, b"hello")
    answer = h.answer()
    assert answer.startswith(b"RETRY 3 10s ") or (answer == b"" and h.process.wait(60) != 0)


def test_run_by_quredisd(command, tmp, redis, quredisd):
    """One worker handles them in their order; the empty ones, which it refuses, escape."""
    c = redis.client()
    c.lpush("ingress:mail", *MESSAGES)
    d = quredisd(queues=[queue("mail", [*command, str(tmp / "collected")], workers=1, mode="persistent", window=4)])
    wait_for(lambda: c.llen("escape:mail") == MESSAGES.count(b"") and not c.llen("ingress:mail") and not c.keys("transit:mail:*:[0-2]"),
             60, "everything settled")
    assert (tmp / "collected").read_bytes() == b"".join(MESSAGES)
    assert set(c.lrange("escape:mail", 0, -1)) == {b""}
    assert all(b"it is empty" in r[b"error_message"] for _, r in c.xrange("escape:mail:log"))
    assert not {"exit", "signal"} & d.wait_event("message_escaped", queue="mail").keys()
    assert d.stop() == 0


def test_answers_that_are_not_flushed(redis, quredisd, handler):
    """The record names the usual mistake of a first handler: output that is not flushed."""
    mute = handler("import sys\nwhile head := sys.stdin.buffer.readline().split():\n"
                   "    sys.stdin.buffer.read(int(head[3]) + 1)\n    print('OK', head[1].decode())\n", "python")
    c = redis.client()
    c.lpush("ingress:mail", "x")
    quredisd(queues=[queue("mail", mute, mode="persistent", timeout="1s", kill_grace="1s")])
    wait_for(lambda: c.xlen("escape:mail:log"), 60, "a record")
    (_, record), = c.xrange("escape:mail:log")
    assert record[b"error_class"] == b"HandlerTimeout" and b"is its output flushed?" in record[b"error_message"]


def test_short_enough():
    sources = sorted(HANDLERS.glob("collect.*"))
    assert {s.suffix[1:] for s in sources} == set(INTERPRETERS)
    for source in sources:
        lines = source.read_text().splitlines()
        assert len(lines) <= 15, source
        assert max(map(len, lines)) <= 132, source
        assert source.suffix == ".c" or os.access(source, os.X_OK), source


SLEEPERS = """
import sys, threading, time
i, o, lock = sys.stdin.buffer, sys.stdout.buffer, threading.Lock()
running = most = 0
def job(serial):
    global running, most
    with lock:
        running += 1
        most = max(most, running)
    time.sleep(0.3)
    with lock:
        running -= 1
        open("@LEDGER@", "a").write(f"{most}\\n")
        o.write(b"OK %s\\n" % serial)
        o.flush()
while head := i.readline().split():
    i.read(int(head[3]) + 1)
    threading.Thread(target=job, args=(head[1],)).start()
"""


def test_a_window_is_filled_with_slow_messages(redis, quredisd, handler, ledger):
    """Eight at once, though each takes longer than batch.time."""
    c = redis.client()
    path = handler(SLEEPERS, lang="python")
    c.lpush("ingress:mail", *range(40))
    quredisd(queues=[queue("mail", path, mode="persistent", window=8)])
    wait_for(lambda: len(ledger.lines()) == 40 and not anywhere(c, "mail"), 60)
    assert max(map(int, ledger.lines())) == 8
