"""
The runners of etc/runtimes, spoken to over pipes: the protocol of quredis-handler(7), nothing of ours between. One table of cases for all
languages: functions.py, functions.rb, … do the same, each in its language.
"""
import dataclasses
import errno
import fcntl
import hashlib
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import termios

import pytest

from harness import ROOT, alive, children_of, wait_for

HERE = pathlib.Path(__file__).parent
FILES = {"python": "py", "ruby": "rb", "perl": "pl", "php": "php", "node": "js"}
LANGUAGES = [x for x in FILES if (ROOT / f"etc/runtimes/quredis-{x}").exists()]
ISOLATED = [x for x in LANGUAGES if x != "node"]
MODES = [*((x, ()) for x in LANGUAGES), *((x, ("--isolate",)) for x in ISOLATED)]
INTERPRETER = {"python": "/usr/bin/python3"}
RAISED = {"python": "ValueError", "ruby": "ArgumentError", "perl": "die", "php": "InvalidArgumentException", "node": "RangeError"}
NEGATIVE = {**RAISED, "php": "ValueError"}
NOT_JSON = {"python": "JSONDecodeError", "ruby": "JSON::ParserError", "perl": "JSON::PP", "php": "JsonException", "node": "SyntaxError"}
NOT_TEXT = {"python": "UnicodeDecodeError", "ruby": "Encoding::InvalidByteSequenceError", "perl": "Encode", "php": "UnexpectedValueException",
            "node": "TypeError"}
NOTHING = {"python": "None", "ruby": "nil", "perl": "undef", "php": "false", "node": "undefined"}
TRUE = {"python": "True", "ruby": "true", "perl": "1", "php": "1", "node": "true"}
WAITS_AT = {"python": "in wait\n", "ruby": "wait'", "perl": "in main::wait_for at", "php": "in wait at"}
SEGV = {"ruby": ("SIGABRT", "SIGSEGV")}       # Ruby reports the crash; then it aborts, or, from 3.3 on, dies of it
VERDICT_PASSES = ("python", "ruby", "php")      # their usual way to catch an error does not catch a verdict
LARGE = 8 << 20


def name_of(value):
    return value if isinstance(value, str) else "isolated" if value == ("--isolate",) else "shared" if value == () else None


# A shell that asks Python to buffer nothing would hide a flush that is missing.
BUFFERED = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}


class Runner:
    def __init__(self, language, *arguments, tmp, env=(), program=None, first=(), stdin=subprocess.PIPE, **options):
        if shutil.which(INTERPRETER.get(language, language)) is None:
            pytest.skip(f"{language} is not installed")
        self.log = tmp / "log"
        self.program = program or ROOT / f"etc/runtimes/quredis-{language}"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([str(self.program), *map(str, first), *arguments], stdin=stdin, stdout=subprocess.PIPE, stderr=log,
                                            env={**BUFFERED, "QUREDIS_QUEUE": "mail", **dict(env)}, **options)
        self.serials, self.logged = [], []

    def write(self, *messages, keys=""):
        """In one write, so that the runner may have read them all before it runs the first."""
        jobs = []
        for message in messages:
            self.serials.append(b"%016d" % (1 << 40 | len(self.serials)))
            jobs.append(b"JOB %s 3 %d%s\n%s\n" % (self.serials[-1], len(message), keys.encode(), message))
        self.process.stdin.write(b"".join(jobs))
        self.process.stdin.flush()

    def answer(self):
        """(number of its message, the answer without its serial); lines of the log before it count as said."""
        while (line := self.process.stdout.readline().decode().rstrip("\n")).startswith("LOG "):
            _, serial, text = f"{line} ".split(" ", 2)
            self.logged.append((self.serials.index(serial.encode()), text.rstrip()))
        verb, serial, *rest = line.split(" ", 2)
        return self.serials.index(serial.encode()), " ".join([verb, *rest])

    def ask(self, *messages, keys=""):
        self.write(*messages, keys=keys)
        return self.answer()[1]

    def close(self):
        """(exit status, what it still wrote)"""
        self.process.stdin.close()
        with self.process.stdout as out:
            rest = out.read()
        return self.process.wait(60), rest

    def said(self):
        return self.log.read_text(errors="replace") + "".join(f"{text}\n" for _, text in self.logged)


@pytest.fixture
def start(tmp):
    """A runner that has said READY."""
    started = []

    def start(language, *arguments, function="handle", path=None, **options):
        path = path or HERE / f"functions.{FILES[language]}"
        runner = Runner(language, *arguments, f"{path}:{function}", tmp=tmp, **options)
        started.append(runner)
        assert runner.process.stdout.readline() == b"READY\n", runner.said()
        return runner

    yield start
    for runner in started:
        if runner.process.poll() is None:
            runner.process.kill()
            runner.process.wait()
        for pipe in (runner.process.stdin, runner.process.stdout):
            try:
                pipe.close()
            except BrokenPipeError:
                pass


@pytest.fixture
def run_text(start, tmp):
    """A runner of a file with this text."""
    def run_text(language, text, *arguments, **options):
        path = tmp / f"jobs.{FILES[language]}"
        path.write_text(text)
        return start(language, *arguments, path=path, **options)

    return run_text


@dataclasses.dataclass
class Case:
    """A message, its answer, and what the log then has."""
    message: bytes
    answer: str
    log: str = ""


def counted(message):
    digest = hashlib.sha1(message).hexdigest()
    return Case(message, f"REJECT class=Rejected {len(message)} {digest} sha1:{digest}")


def cases(language):
    file = rf"functions\.{FILES[language]}"
    return [
        Case(b"ok", "OK"), Case(b"", "OK"), Case(b"\0", "OK"), Case(b"JOB 1 1 5\nhello\n", "OK"),
        *map(counted, [b"count\n", b"count\0\0\n\0", b"count\nJOB 1 1 5\nhello\n", b"count" + bytes(range(256)), b"count" + b"\n" * LARGE]),
        Case(b"print", "OK", "OK 7\n(.*\n)*OK 8\n(.*\n)*OK 9\n"),
        Case(b"cat", "OK"),
        Case(b"retry", "RETRY 250ms class=SMTP later now"),
        Case(b"negative", rf"FAIL class={NEGATIVE[language]} retry\(.*after.*-1.*\): expected seconds, 0 or more.* \({file}:\d+ in .*decide\)"),
        Case(b"hold", "HOLD 250ms 429 now"), Case(b"holds", "HOLD 30000ms"),
        Case(b"below", rf"FAIL class={NEGATIVE[language]} hold\(.*after.*-1.*\): expected seconds, 0 or more.* \({file}:\d+ in .*decide\)"),
        Case(b"reject", "REJECT class=Bad_Mail no thing"),
        Case(b"fail", "FAIL class=HandlerFail later"),
        Case(b"rescue", "REJECT class=X no"),
        Case(b"swallow", "REJECT class=X no"),
        Case(b"raise", rf"FAIL class={RAISED[language]} bad thing here OK 1 \({file}:\d+ in .*decide\)", rf"{file}(.*\n)*.*handle"),
    ]


@pytest.mark.parametrize("language, mode", MODES, ids=name_of)
def test_answers(start, language, mode):
    """Each case alone, then all at once: every answer is that of its message."""
    runner = start(language, *mode)
    table = cases(language)
    for case in table:
        assert re.fullmatch(case.answer, runner.ask(case.message)), case.message[:50]
        assert re.search(case.log, runner.said()), case.message[:50]
    asked = len(runner.serials)
    runner.write(*(case.message for case in table if len(case.message) < 1000))
    for n, case in enumerate(case for case in table if len(case.message) < 1000):
        number, answer = runner.answer()
        assert number == asked + n
        assert re.fullmatch(case.answer, answer)
    assert runner.close() == (0, b"")
    assert "inherited" not in runner.said()
    assert f"quredis-{language}:" not in runner.said()          # no frames of the runner
    if language in VERDICT_PASSES:
        assert "swallowed" not in runner.said()
    assert runner.said().count("after fork\n") == (len(runner.serials) if mode else 0)


@pytest.mark.parametrize("language, mode", MODES, ids=name_of)
def test_job(start, language, mode):
    runner = start(language, *mode)
    tick = "2026-11-27T02:00:00.000Z"
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    keys = f" id=order-1 request_id=web.7 traceparent={trace} max_attempts=5 redelivered=1 schedule=nightly scheduled_at={tick} deadline=1700000000250 later=x"
    assert runner.ask(b"job", keys=keys) == (
        f"REJECT class=Rejected mail order-1 web.7 {trace} nightly {tick} 3 5 {TRUE[language]} 1700000000.250 {NOTHING[language]}")


@pytest.mark.parametrize("language, mode", MODES, ids=name_of)
def test_descriptor_of_answers(start, language, mode, tmp):
    """With reply_fd standard output stays what it was."""
    ours, theirs = os.pipe()
    out = os.open(tmp / "out", os.O_WRONLY | os.O_CREAT)

    def arrange():
        os.dup2(theirs, 3)
        os.dup2(out, 1)

    runner = Runner(language, *mode, str(HERE / f"functions.{FILES[language]}"), tmp=tmp, env={"QUREDIS_REPLY_FD": "3"}, close_fds=False,
                    preexec_fn=arrange)
    os.close(theirs)
    os.close(out)
    runner.process.stdout.close()
    runner.process.stdout = os.fdopen(ours, "rb")
    assert runner.process.stdout.readline() == b"READY\n", runner.said()
    assert runner.ask(b"print") == "OK"
    assert runner.ask(b"job", keys=" id=1 request_id=1 traceparent=t schedule=s scheduled_at=t deadline=1").endswith(NOTHING[language])
    assert runner.ask(b"cat") == "OK"
    assert runner.close() == (0, b"")
    assert re.search("OK 7\n(.*\n)*OK 8\n(.*\n)*OK 9\n", (tmp / "out").read_text())
    assert "inherited" not in (tmp / "out").read_text()


@pytest.mark.parametrize("language, mode", MODES, ids=name_of)
def test_signs_of_life_come_before_the_answer(start, language, mode, tmp):
    runner = start(language, *mode)
    runner.write(b"wait " + os.fsencode(tmp / "go"), b"ok")
    assert runner.answer() == (0, "BEAT")
    assert runner.answer() == (0, "PROGRESS 100 half way")
    (tmp / "go").touch()
    assert sorted([runner.answer(), runner.answer()]) == [(0, "OK"), (1, "OK")]
    assert runner.close() == (0, b"")


# slow: 300 ms. A message that names a file waits for it, for 10 s at most.
SLOW_BETWEEN_FAST = {
    "python": "import os, time\n\ndef handle(message, job):\n    if message == b'slow': time.sleep(0.3)\n    if message[:1] != b'/': return\n"
              "    for n in range(1000):\n        if os.path.exists(message): return\n        time.sleep(0.01)\n    job.reject('late')\n",
    "ruby": 'def handle(message, job)\n  sleep 0.3 if message == "slow"\n  return unless message.start_with?("/")\n'
            '  1000.times { File.exist?(message) ? return : sleep(0.01) }\n  job.reject("late")\nend\n',
    "perl": 'use Time::HiRes "sleep";\nsub handle { my ($m, $job) = @_; sleep 0.3 if $m eq "slow"; return if $m !~ m{^/}; '
            'for (1 .. 1000) { return if -e $m; sleep 0.01 } $job->reject("late") }\n1;\n',
    "php": '<?php\nfunction handle($m, $job) { $m === "slow" && usleep(300000); if ($m[0] !== "/") return; '
           'for ($n = 0; $n < 1000; $n++) { clearstatcache(); if (file_exists($m)) return; usleep(10000); } $job->reject("late"); }\n',
    "node": 'const sleep = (ms) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);\n'
            'exports.handle = (message, job) => {\n  if (String(message) === "slow") sleep(300);\n  if (message[0] !== 47) return;\n'
            '  for (let n = 0; n < 1000; n++) { if (require("fs").existsSync(String(message))) return; sleep(10); }\n  job.reject("late");\n};\n',
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_answers_do_not_wait_where_functions_are_slow(run_text, language, tmp):
    runner = run_text(language, SLOW_BETWEEN_FAST[language])
    assert runner.ask(b"slow") == "OK"
    for n in range(3):
        runner.write(*[b"fast"] * 9, os.fsencode(tmp / str(n)))
        assert [runner.answer()[1] for _ in range(9)] == ["OK"] * 9
        (tmp / str(n)).touch()
        assert runner.answer()[1] == "OK", "the answers came with that of the slow one"
    assert runner.close() == (0, b"")


@pytest.mark.parametrize("language", LANGUAGES)
def test_after_a_slow_function_answers_leave_together_again(run_text, language):
    """Once ten times as long has passed: other processes of the machine make a function slow, too."""
    runner = run_text(language, SLOW_BETWEEN_FAST[language])

    def writes():
        return int(re.search(r"syscw: (\d+)", pathlib.Path(f"/proc/{runner.process.pid}/io").read_text())[1])

    def together():
        before = writes()
        runner.write(*[b"fast"] * 400)
        assert [runner.answer()[1] for _ in range(400)] == ["OK"] * 400
        return writes() - before < 200
    wait_for(together, what="answers that leave together")
    assert runner.ask(b"slow") == "OK" and not together()
    wait_for(together, 2.8, "answers that leave together again")
    assert runner.close() == (0, b"")


@pytest.mark.parametrize("language", ["python", "node"])
def test_asynchronous_functions_run_at_once(start, language):
    runner = start(language, function="together")
    runner.write(b"first", b"second")
    first, second = (0, "REJECT class=Rejected first"), (1, "REJECT class=Rejected second")
    assert [runner.answer(), runner.answer()] in ([second, first], [first, second])
    assert runner.close() == (0, b"")


def test_node_cannot_isolate(tmp):
    runner = Runner("node", "--isolate", "x.js", tmp=tmp)
    assert runner.close() == (1, b"")
    assert "Node cannot fork" in runner.said() and 'mode = "exec"' in runner.said()


def test_node_as_the_interpreter(start, tmp):
    """Started as "node quredis-node", as quredisd does it, without the shell."""
    (tmp / "node").write_text(f"#!/bin/sh\nexec node {ROOT}/etc/runtimes/quredis-node \"$@\"\n")
    (tmp / "node").chmod(0o755)
    runner = start("node", program=tmp / "node")
    for message in (b"print", b"cat", b"ok"):
        assert runner.ask(message) == "OK"
    assert runner.close() == (0, b"")
    assert re.search("OK 7\n(.*\n)*OK 8\n(.*\n)*OK 9\n", runner.said())
    assert "inherited" not in runner.said()


def test_node_says_how_to_start_it(tmp):
    """A socket cannot be opened again."""
    ours, theirs = socket.socketpair()
    runner = Runner("node", str(HERE / "functions.js"), tmp=tmp, program="/usr/bin/node", stdin=theirs, first=[ROOT / "etc/runtimes/quredis-node"])
    theirs.close()
    ours.close()
    assert runner.process.wait(60) == 1
    assert "execute quredis-node itself, not node" in runner.said()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("language, mode", MODES, ids=name_of)
def test_order_to_end(start, language, mode, number):
    """The function that waits is interrupted. Those before it are answered; it and those after it are not."""
    runner = start(language, *mode)
    runner.write(b"ok", b"ok", b"wait", b"ok")
    seen = [runner.answer() for _ in range(4 if language != "node" else 5)]
    assert sorted(x for x in seen if x[0] < 3) == [(0, "OK"), (1, "OK"), (2, "BEAT"), (2, "PROGRESS 100 half way")]
    runner.process.send_signal(number)
    assert runner.process.wait(60) == 128 + number
    assert runner.process.stdout.read() == b""
    if language != "node":              # a promise cannot be interrupted
        assert "finally ran\n" in runner.said()
        assert WAITS_AT[language] in runner.said(), "where the function was"


HALF_A_LINE = """
import os, signal, threading
write_all, halves = os.write, []

def write(fd, data):
    if threading.current_thread() is not threading.main_thread():
        return len(data)
    if not halves:
        return write_all(fd, data)
    n = write_all(fd, data[:5])
    thread = threading.Thread(target=halves.pop().beat)
    thread.start()
    thread.join()
    signal.raise_signal(signal.SIGTERM)
    return n

def handle(message, job):
    halves.append(job)
    job.progress(1, 'text')

os.write = write
"""


# The file, the function and the message: an order comes while a function in C runs, so the interpreter handles it right behind the call.
ORDERED_AT_RETURN = {
    "python": ("from signal import raise_signal as handle\n", "handle", b"15"),
    "ruby": ("alias handle `\n", "handle", b"kill -TERM $PPID"),
    "perl": ('sub handle { @_ = ("TERM", $$); goto &CORE::kill }\n1;\n', "handle", b""),
    "php": ("<?php\n", "shell_exec", b"kill -TERM $PPID"),
    "node": ('exports.handle = (message) => { process.kill(process.pid, "SIGTERM") }\n', "handle", b""),
}


@pytest.mark.parametrize("language, mode", MODES, ids=name_of)
def test_order_at_the_moment_of_the_return(run_text, language, mode):
    """The function has returned, so its message is done."""
    text, function, message = ORDERED_AT_RETURN[language]
    runner = run_text(language, text, *mode, *(["--json"] if language == "python" else []), function=function)
    assert runner.ask(message) == "OK"
    if mode:                            # the signal of its own process is none of the runner
        assert runner.close() == (0, b"")
    assert runner.process.wait(60) == (0 if mode else 128 + signal.SIGTERM)


def test_order_in_an_eval_of_perl(tmp):
    """What the eval of the function catches is the order, not a fault of the runner."""
    (tmp / "jobs.pl").write_text("sub handle { my ($m, $job) = @_; eval { $job->beat; sleep 77 }; "
                                 "print 'caught ', ref $@, ' ', $@ =~ /read-only/, \"\\n\" }\n1;\n")
    runner = Runner("perl", f"{tmp}/jobs.pl", tmp=tmp)
    assert runner.process.stdout.readline() == b"READY\n", runner.said()
    runner.write(b"x")
    assert runner.answer()[1] == "BEAT"
    runner.process.terminate()
    assert runner.process.wait(60) == 128 + signal.SIGTERM
    assert "caught Quredis::Runner::Verdict" in runner.said(), runner.said()


ORDERED_EARLY = """
import os, signal
setpgid = os.setpgid

def ordered(*of):
    if of == (0, 0):                # the child, which still blocks the signal
        signal.raise_signal(signal.SIGTERM)
    setpgid(*of)

def handle(message):
    print("began")

os.setpgid = ordered
"""


def test_order_before_an_isolated_function_begins(tmp):
    """It was forgotten, so a stop or a timeout had to wait for kill_grace."""
    (tmp / "jobs.py").write_text(ORDERED_EARLY)
    runner = Runner("python", "--isolate", f"{tmp}/jobs.py", tmp=tmp)
    assert runner.process.stdout.readline() == b"READY\n", runner.said()
    assert runner.ask(b"x").startswith("FAIL exit_code=0")
    assert "began" not in runner.said()
    assert runner.close() == (0, b"")


def test_sign_of_life_of_a_thread_during_another(tmp):
    """An order to end comes while half of a line is written, behind one of a thread: the line stays whole."""
    (tmp / "jobs.py").write_text(HALF_A_LINE)
    runner = Runner("python", f"{tmp}/jobs.py", tmp=tmp)
    assert runner.process.stdout.readline() == b"READY\n", runner.said()
    runner.write(b"x")
    assert runner.process.wait(60) == 128 + signal.SIGTERM
    assert runner.process.stdout.read() == b"PROGRESS %s 1 text\n" % runner.serials[0], runner.said()


# The function starts a thread that beats as long as it runs; Perl copies all variables into a thread, so one that beats a few times.
BEATING_THREADS = {
    "python": "import threading\n\ndef beat(job):\n    while True:\n        job.beat()\n\ndef handle(message, job):\n"
              "    if message == b'thread':\n        threading.Thread(target=beat, args=(job,), daemon=True).start()\n",
    "ruby": 'def handle(message, job)\n  Thread.new { loop { job.beat } } if message == "thread"\nend\n',
    "perl": 'use threads;\nsub handle { my ($message, $job) = @_; threads->create(sub { $job->beat for 1 .. 9 })->join if $message eq "thread" }\n1;\n',
}
BEATING_FORKS = {
    "python": "import os\n\ndef handle(message, job):\n    if message == b'fork':\n        pid = os.fork()\n        if pid == 0:\n"
              "            job.beat()\n            os._exit(0)\n        os.waitpid(pid, 0)\n",
    "ruby": 'def handle(message, job) = message == "fork" && Process.wait(fork { job.beat; exit! })\n',
    "perl": 'use POSIX;\nsub handle { my ($m, $job) = @_; return if $m ne "fork"; my $pid = fork; '
            'if (!$pid) { $job->beat; POSIX::_exit(0) } waitpid $pid, 0 }\n1;\n',
    "php": '<?php\nfunction handle($message, $job) { if ($message !== "fork") return; $pid = pcntl_fork(); '
           'if ($pid === 0) { $job->beat(); posix_kill(getmypid(), SIGKILL); } pcntl_waitpid($pid, $status); }\n',
}


def answers_beside_beats(runner, serial, count):
    """Of so many jobs. The sign of life must be whole, and of the one job."""
    answers = []
    while len(answers) < count:
        line = runner.process.stdout.readline()
        if line != b"BEAT %s\n" % serial:
            answers.append(line)
    return answers


@pytest.mark.parametrize("language", BEATING_THREADS)
def test_answers_beside_a_thread_that_beats(run_text, language):
    """Each answer comes once and whole, though the pipe is always full."""
    runner = run_text(language, BEATING_THREADS[language])
    fcntl.fcntl(runner.process.stdout, fcntl.F_SETPIPE_SZ, 4096)
    batches = [[b"x"] * size for size in [900, *[200] * 100]]
    batches[0][50] = b"thread"
    for batch in batches:
        asked = len(runner.serials)
        runner.write(*batch)
        assert answers_beside_beats(runner, runner.serials[50], len(batch)) == [b"OK %s\n" % serial for serial in runner.serials[asked:]]


@pytest.mark.parametrize("language", BEATING_FORKS)
def test_answers_beside_a_fork_that_beats(run_text, language):
    """The fork has a copy of the answers that wait."""
    runner = run_text(language, BEATING_FORKS[language])
    for n in range(5):
        asked = len(runner.serials)
        runner.write(*[b"x"] * 20, b"fork")
        assert answers_beside_beats(runner, runner.serials[-1], 21) == [b"OK %s\n" % serial for serial in runner.serials[asked:]]
    assert runner.close() == (0, b"")


def unread(pipe):
    return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))[0]


TALKS = {
    "python": "def handle(message, job):\n    try:\n        for n in range(4000): job.progress(1, 'x' * 900)\n    finally: print('finally ran')\n",
    "ruby": 'def handle(message, job)\n  4000.times { job.progress(1, "x" * 900) }\nensure\n  puts "finally ran"\nend\n',
    "perl": 'package Guard { sub DESTROY { print "finally ran\\n" } }\n'
            'sub handle { my ($m, $job) = @_; my $guard = bless [], "Guard"; $job->progress(1, "x" x 900) for 1 .. 4000 }\n1;\n',
    "php": '<?php\nfunction handle($m, $job) { try { for ($n = 0; $n < 4000; $n++) $job->progress(1, str_repeat("x", 900)); } '
           'finally { echo "finally ran\\n"; } }\n',
}


@pytest.mark.parametrize("language, mode", [x for x in MODES if x[0] != "node"], ids=name_of)
def test_order_to_end_during_a_blocked_write(run_text, language, mode):
    """The worker is slow, not gone: all lines are whole, and the function is interrupted when it is read again."""
    runner = run_text(language, TALKS[language], *mode)
    runner.write(b"x")
    process = pathlib.Path(f"/proc/{runner.process.pid}/status")
    full = fcntl.fcntl(runner.process.stdout, fcntl.F_GETPIPE_SZ) * 3 // 4
    wait_for(lambda: unread(runner.process.stdout) > full and re.search("^State:\tS", process.read_text(), re.M), 60, "a blocked write")
    runner.process.terminate()
    wait_for(lambda: re.search("^ShdPnd:\t0+$", process.read_text(), re.M), 60, "the handler of the signal")
    lines = runner.process.stdout.read().splitlines(True)
    assert runner.process.wait(60) == 128 + signal.SIGTERM
    assert len(lines) < 4000 and set(lines) == {b"PROGRESS %s 1 %s\n" % (runner.serials[0], b"x" * 900)}
    assert "finally ran\n" in runner.said()


@pytest.mark.parametrize("language, mode", MODES, ids=name_of)
def test_order_to_end_while_nothing_runs(start, language, mode):
    runner = start(language, *mode)
    assert runner.ask(b"ok") == "OK"
    runner.process.terminate()
    assert runner.process.wait(60) == 128 + signal.SIGTERM
    assert runner.process.stdout.read() == b""


@pytest.mark.parametrize("code", [0, 3])
@pytest.mark.parametrize("language", LANGUAGES)
def test_exit_of_a_shared_function(start, language, code):
    runner = start(language)
    runner.write(*[b"ok"] * 9, b"exit %d" % code, b"ok")
    assert [runner.answer() for _ in range(9)] == [(n, "OK") for n in range(9)]
    if language in ("php", "node"):     # nothing of the language can stop its exit
        assert runner.process.wait(60) == code
        assert runner.process.stdout.read() == b""
        return
    assert runner.answer() == (9, f"FAIL exit_code={code} the function called exit: {code}")
    assert runner.answer() == (10, "OK")
    assert runner.close() == (0, b"")


ENDED = "the process of the function ended before the function"


@pytest.mark.parametrize("language", ISOLATED)
def test_end_of_a_child(start, language):
    runner = start(language, "--isolate")
    called = ENDED if language == "php" else "the function called exit: {}"
    ends = {b"segv": [f"signal={name}" for name in SEGV.get(language, ("SIGSEGV",))], b"kill": ["signal=SIGKILL"], b"quick": [f"exit_code=0 {ENDED}"],
            b"exit 0": [f"exit_code=0 {called.format(0)}"], b"exit 3": [f"exit_code=3 {called.format(3)}"]}
    for message, end in ends.items():
        assert runner.ask(message) in [f"FAIL {x}" for x in end]
        assert runner.ask(b"ok") == "OK"
    assert runner.close() == (0, b"")


# The function closes what it prints to, then it returns or raises.
CLOSES_OUTPUT = {
    "python": "import sys\n\ndef handle(message):\n    sys.stdout.close()\n    sys.stderr.close()\n    if message == b'raise': raise ValueError('bad')\n",
    "ruby": 'def handle(message)\n  $stdout.close\n  $stderr.close\n  raise ArgumentError, "bad" if message == "raise"\nend\n',
    "perl": 'sub handle { close STDOUT; close STDERR; die "bad" if $_[0] eq "raise" }\n1;\n',
    "php": '<?php\nfunction handle($message) { fclose(STDOUT); fclose(STDERR); $message === "raise" && throw new InvalidArgumentException("bad"); }\n',
    "node": 'const fs = require("fs");\n'
            'exports.handle = (message) => { fs.closeSync(1); fs.closeSync(2); if (String(message) === "raise") throw new RangeError("bad"); }\n',
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_long_trace_keeps_its_first_and_its_last_lines(start, language):
    runner = start(language)
    assert runner.ask(b"verbose").startswith(f"FAIL class={RAISED[language]} line 1 line 2 ")
    lines = [text for _, text in runner.logged]
    said = " ".join(lines)
    assert len(lines) == 201 and " line 60 " in said and " line 230 " in said and re.search(r" [.]{3} \d+ lines are left out ", said), lines
    assert " line 150 " not in said and re.search(r"\bline 300\b", said), lines


@pytest.mark.parametrize("message", [b"return", b"raise"])
@pytest.mark.parametrize("language, mode", MODES, ids=name_of)
def test_function_that_closes_its_output(run_text, language, mode, message):
    runner = run_text(language, CLOSES_OUTPUT[language], *mode)
    answer = runner.ask(message)
    assert answer == "OK" if message == b"return" else answer.startswith(f"FAIL class={RAISED[language]} bad"), answer
    assert runner.close() == (0, b"")


# The function closes what the runner has opened, so its child cannot answer. The runner alone does what the file registers for its end.
CLOSES_ALL = {
    "python": "import atexit, os\natexit.register(print, 'runner ended')\n\ndef handle(message):\n    os.closerange(3, 999)\n",
    "ruby": 'at_exit { puts "runner ended" }\ndef handle(message) = ObjectSpace.each_object(IO) { |x| x.close if !x.closed? && x.fileno > 2 }\n',
    "perl": 'use POSIX;\nEND { print "runner ended\\n" }\nsub handle { POSIX::close($_) for 3 .. 99 }\n1;\n',
    "php": '<?php register_shutdown_function(fn() => print("runner ended\\n"));\n'
           'function handle($message) { for ($fd = 3; $fd < 99; $fd++) { Quredis\\Libc::close($fd); } }\n',
}


@pytest.mark.parametrize("language", ISOLATED)
def test_child_that_cannot_answer(run_text, language):
    runner = run_text(language, CLOSES_ALL[language], "--isolate")
    for _ in range(3):
        assert runner.ask(b"x") == f"FAIL exit_code=1 {ENDED}"
    assert runner.close() == (0, b"")
    assert runner.said().count("runner ended") == 1, runner.said()


IGNORES_CHILDREN = {
    "python": "import os, signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
              "def handle(message):\n    if message == b'kill': os.kill(os.getpid(), 9)\n",
    "ruby": 'trap("CHLD", "IGNORE")\ndef handle(message) = message == "kill" && Process.kill("KILL", Process.pid) && sleep\n',
    "perl": '$SIG{CHLD} = "IGNORE";\nsub handle { kill "KILL", $$ if $_[0] eq "kill" }\n1;\n',
    "php": '<?php pcntl_signal(SIGCHLD, SIG_IGN);\nfunction handle($message) { $message === "kill" && posix_kill(getmypid(), SIGKILL); }\n',
}


@pytest.mark.parametrize("language", ISOLATED)
def test_end_of_a_child_of_a_file_that_ignores_children(run_text, language):
    runner = run_text(language, IGNORES_CHILDREN[language], "--isolate")
    assert runner.ask(b"kill") == "FAIL signal=SIGKILL"
    assert runner.ask(b"ok") == "OK"
    assert runner.close() == (0, b"")


STARTS_A_HELPER = {
    "python": "import subprocess\nhelper = subprocess.Popen(['sleep', '77'])\n\ndef handle(message): pass\n",
    "ruby": 'spawn("sleep", "77")\ndef handle(message) = nil\n',
    "perl": 'if (!fork) { exec "sleep", "77" }\nsub handle { }\n1;\n',
    "php": "<?php\n$helper = proc_open(['sleep', '77'], [], $pipes);\nfunction handle($message) { }\n",
}


@pytest.mark.parametrize("language", ISOLATED)
def test_what_the_file_starts_stays(run_text, language):
    runner = run_text(language, STARTS_A_HELPER[language], "--isolate")
    helpers = children_of(runner.process.pid)
    assert len(helpers) == 1
    assert [runner.ask(b"x") for _ in range(2)] == ["OK", "OK"]
    assert children_of(runner.process.pid) == helpers and alive(helpers[0])
    os.kill(helpers[0], signal.SIGKILL)
    assert runner.close() == (0, b"")


# A library that fails in place of the kernel, and says when a number is signalled that the kernel may have given to another process.
SHIM = r"""
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t reaped[64];
static int number_of_reaped, forks;

pid_t fork(void)
{
	const char *fails = getenv("FORK_FAILS"), *error = getenv("FORK_ERROR");

	if (fails != NULL && ++forks <= atoi(fails)) {
		dprintf(2, "no fork\n");
		errno = atoi(error);
		return -1;
	}
	return ((pid_t (*)(void))dlsym(RTLD_NEXT, "fork"))();
}

int kill(pid_t pid, int number)
{
	if (number == SIGKILL && getenv("NO_KILL")) {
		errno = EPERM;
		return -1;
	}
	for (int n = 0; n < number_of_reaped; n++)
		if (reaped[n] == abs(pid))
			dprintf(2, "signalled after its end\n");
	return syscall(SYS_kill, pid, number);
}

int killpg(pid_t group, int number)
{
	return kill(-group, number);
}

pid_t wait4(pid_t pid, int *status, int options, struct rusage *usage)
{
	pid_t ended = syscall(SYS_wait4, pid, status, options, usage);

	if (ended > 0 && number_of_reaped < 64)
		reaped[number_of_reaped++] = ended;
	if (ended > 0 && getenv("ORDER_AT_REAP"))
		raise(SIGTERM);
	return ended;
}

pid_t waitpid(pid_t pid, int *status, int options)
{
	return wait4(pid, status, options, NULL);
}
"""


@pytest.fixture
def shim(tmp):
    (tmp / "shim.c").write_text(SHIM)
    subprocess.run(["cc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", tmp / "shim.so", tmp / "shim.c", "-ldl"], check=True, timeout=60)
    return {"LD_PRELOAD": str(tmp / "shim.so")}


# PHP binds its extensions to the C library itself, but calls a function of the runner's namespace first.
SHIM_PHP = """<?php
namespace Quredis {
    function posix_kill($pid, $number)
    {
        file_exists("/proc/" . abs($pid)) || print "signalled after its end\\n";
        return \\posix_kill($pid, $number);
    }
}
namespace { require "%s"; }
""" % (HERE / "functions.php")


def functions_behind(php, language, tmp):
    """Path of the functions of the language; in PHP, of a file with this text that loads them."""
    path = HERE / f"functions.{FILES[language]}"
    if language == "php":
        path = tmp / "shim.php"
        path.write_text(php)
    return path


@pytest.mark.parametrize("language", ISOLATED)
def test_no_number_is_signalled_that_is_free(start, shim, language, tmp):
    """Neither at the end of a child, nor if an order comes when it has just been reaped."""
    path = functions_behind(SHIM_PHP, language, tmp)
    runner = start(language, "--isolate", path=path, env=shim)
    for message in (b"ok", b"daemon", b"linger"):
        assert runner.ask(message) == "OK"
    assert runner.close() == (0, b"")
    assert "signalled after its end" not in runner.said()
    runner = start(language, "--isolate", path=path, env={**shim, "ORDER_AT_REAP": "1"})
    assert runner.ask(b"ok") == "OK"
    assert runner.process.wait(60) == 128 + signal.SIGTERM
    assert "signalled after its end" not in runner.said()


@pytest.mark.parametrize("error", [errno.EAGAIN, errno.ENOMEM], ids=errno.errorcode.get)
@pytest.mark.parametrize("language", ISOLATED)
def test_fork_that_fails_is_tried_again(start, shim, language, error):
    """No message is the cause. An order ends the pause; the message goes back."""
    runner = start(language, "--isolate", env={**shim, "FORK_FAILS": "2", "FORK_ERROR": str(error)})
    for message in (b"ok", b"ok"):
        assert runner.ask(message) == "OK"
    assert runner.close() == (0, b"")
    said = 0 if (language, error) == ("ruby", errno.EAGAIN) else 1      # Ruby itself tries again, and is silent
    assert runner.said().count("fork failed, and is tried again: ") == said, runner.said()
    runner = start(language, "--isolate", env={**shim, "FORK_FAILS": "1000000", "FORK_ERROR": str(error)})
    runner.write(b"ok")
    wait_for(lambda: "no fork" in runner.said())
    runner.process.terminate()
    assert runner.process.wait(60) == 128 + signal.SIGTERM
    assert runner.process.stdout.read() == b""


NO_PERMISSION = """<?php
namespace Quredis { function posix_kill($pid, $number) { return $number !== SIGKILL && \\posix_kill($pid, $number); } }
namespace { require "%s"; }
""" % (HERE / "functions.php")


@pytest.mark.parametrize("language", ISOLATED)
def test_a_process_of_another_user_stays(start, shim, language, tmp):
    path = functions_behind(NO_PERMISSION, language, tmp)
    runner = start(language, "--isolate", path=path, env={**shim, "NO_KILL": "1"})
    for message in (b"ok", b"daemon", b"ok"):
        assert runner.ask(message) == "OK"
    left = children_of(runner.process.pid)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert len(left) == 1
    wait_for(lambda: runner.ask(b"ok") == "OK" and children_of(runner.process.pid) == [])       # reaped after its end
    assert runner.close() == (0, b"")


@pytest.mark.parametrize("language", ISOLATED)
def test_nothing_of_a_child_lives(start, language):
    """Also what has a session of its own, or keeps the pipe of the child open, is dead before the answer is written."""
    runner = start(language, "--isolate")
    for message in (b"daemon", b"linger", b"daemon"):
        assert runner.ask(message) == "OK"
        assert children_of(runner.process.pid) == []


@pytest.mark.parametrize("language, mode", [x for x in MODES if x[0] not in ("node", "python")], ids=name_of)
def test_fork_of_a_function_has_no_job(start, language, mode):
    """A fork of the function that raises, or returns, neither answers nor reads jobs."""
    runner = start(language, *mode)
    assert runner.ask(b"fork") == "OK"
    assert runner.ask(b"ok") == "OK"
    wait_for(lambda: not any(alive(pid) for pid in children_of(runner.process.pid)))
    assert runner.close() == (0, b"")


@pytest.mark.parametrize("language, mode", MODES, ids=name_of)
def test_decoded_messages(start, language, mode):
    runner = start(language, "--json", *mode, function="decoded")
    assert runner.ask(b'{"key": "\xc3\xa9"}') == "REJECT class=Rejected é"
    for wrong in (b'{"key"', b"", b"{}}"):
        assert runner.ask(wrong).startswith(f"REJECT class={NOT_JSON[language]} the message is not json: ")
    assert runner.ask(b'"\xff"').startswith("REJECT class=")
    assert runner.close() == (0, b"")
    runner = start(language, "--text", *mode, function="decoded")
    assert runner.ask("é\0x".encode()) == "REJECT class=Rejected é x"
    assert runner.ask(b"\xff").startswith(f"REJECT class={NOT_TEXT[language]} the message is not text: ")
    assert runner.close() == (0, b"")


@pytest.mark.parametrize("language, mode", MODES, ids=name_of)
def test_function_without_job(start, language, mode):
    runner = start(language, *mode, function="one")
    assert runner.ask(b"x") == "OK"
    assert "one ran\n" in runner.said()


WRONG = {"hande": "functions has no function hande (did you mean handle?)", "xxxxxxxxx": "functions has no function xxxxxxxxx\n",
         "three": "three must take (message) or (message, job), not (", "none": "none must take (message) or (message, job), not (",
         "generate": "generate has a yield, so its body would not run"}
LACKS = {"ruby": ["generate"], "perl": ["generate"]}


@pytest.mark.parametrize("language, function", [(x, f) for x in LANGUAGES for f in WRONG if f not in LACKS.get(x, [])])
def test_function_that_cannot_be_called(language, function, tmp):
    path = HERE / f"functions.{FILES[language]}"
    for more in ([], ["--check"]):
        runner = Runner(language, *more, f"{path}:{function}", tmp=tmp)
        assert runner.close() == (1, b"")
        assert f"quredis-{language}: {WRONG[function]}" in runner.said()


def test_check_does_not_wait_for_what_the_file_started(tmp):
    files = {"python": "import threading, time\nthreading.Thread(target=time.sleep, args=(77,)).start()\ndef handle(message): pass\n",
             "ruby": "Thread.new { sleep 77 }\ndef handle(message) = nil\n", "node": "setInterval(() => {}, 77)\nexports.handle = (message) => {}\n"}
    for language, text in files.items():
        path = tmp / f"jobs.{FILES[language]}"
        path.write_text(text)
        assert Runner(language, "--check", str(path), tmp=tmp).process.wait(60) == 0


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_change_of_equal_size_and_time_is_loaded(language, tmp):
    """As two releases of a reproducible archive, or a typo that is corrected within a second."""
    text = {"python": "def handle(message, job):\n    job.reject('v1')\n", "ruby": "def handle(message, job) = job.reject('v1')\n",
            "perl": "sub handle { $_[1]->reject('v1') } 1;\n", "php": "<?php function handle($message, $job) { $job->reject('v1'); }\n",
            "node": "exports.handle = (message, job) => job.reject('v1');\n"}[language]
    for version in "v1", "v2":
        path = tmp / f"jobs.{FILES[language]}"
        path.write_text(text.replace("v1", version))
        os.utime(path, (1700000000, 1700000000))
        runner = Runner(language, f"{path}:handle", tmp=tmp, program="/usr/bin/env", first=["-u", "PYTHONDONTWRITEBYTECODE",
                        ROOT / f"etc/runtimes/quredis-{language}"])
        assert runner.process.stdout.readline() == b"READY\n" and version in runner.ask(b"m")
        assert runner.close() == (0, b"")


# Calls of a function, each with the answer of its runner.
ARGUMENTS = {
    "python": [("job.reject('no path', 'Bad')", "REJECT class=Bad no path"), ("job.reject(reason='no path')", "REJECT class=Rejected no path"),
               ("job.retry(3, 'busy')", "RETRY 3000ms class=HandlerRetry busy"), ("job.hold(3, 'busy')", "HOLD 3000ms busy"),
               ("job.emit('q', {'a': 1})", r"FAIL class=TypeError emit: expected bytes or str, not dict \(.*"),
               ("job.retry(after='30s')", r"FAIL class=ValueError retry\(after='30s'\): expected seconds, 0 or more \(.*")],
    "ruby": [("job.reject('no path', error_class: 'Bad')", "REJECT class=Bad no path"), ("job.reject(reason: 'no path')", "REJECT class=Rejected no path"),
             ("job.fail(reason: 'no path')", "FAIL class=HandlerFail no path"), ("job.retry(3, 'busy')", "RETRY 3000ms class=HandlerRetry busy"),
             ("job.retry(after: 3, reason: 'busy')", "RETRY 3000ms class=HandlerRetry busy"), ("job.hold(3, 'busy')", "HOLD 3000ms busy"),
             ("job.hold(reason: 'busy')", "HOLD 30000ms busy")],
}


@pytest.mark.parametrize("language", ARGUMENTS)
def test_what_stands_first_may_be_named_too(run_text, language):
    for call, answer in ARGUMENTS[language]:
        text = {"python": f"def handle(message, job):\n    {call}\n", "ruby": f"def handle(message, job) = {call}\n"}[language]
        assert re.fullmatch(answer, run_text(language, text).ask(b"m")), call


@pytest.mark.parametrize("language", LANGUAGES)
def test_check_only_loads(language, tmp):
    path = HERE / f"functions.{FILES[language]}"
    runner = Runner(language, "--check", str(path), tmp=tmp)
    runner.write(b"kill")
    assert runner.close() == (0, b"READY\n")
    assert runner.said() == ""


# Files that cannot be loaded, and the last line that the runner then says, which `quredis status` shows.
FAILED_LOADS = {
    "python": ("import quredis_missing", "ModuleNotFoundError: No module named 'quredis_missing' (jobs.py:1 in <module>)",
               "raise ValueError('a\\nb')", "ValueError: a b (jobs.py:1 in <module>)", "def (", "SyntaxError: .* (@PATH@:1)", "exit(0)"),
    "ruby": ("require 'quredis_missing'", "LoadError: cannot load such file -- quredis_missing (jobs.rb:1 in <top (required)>)",
             'raise ArgumentError, "a\\nb"', "ArgumentError: a b (jobs.rb:1 in <top (required)>)", "def (", "SyntaxError: .*", "exit 0"),
    "perl": ("use Quredis::Missing;", "Can't locate Quredis/Missing.pm in @INC (you may need to install the Quredis::Missing module) at @PATH@ line 1.",
             "die 'a'", "a at @PATH@ line 1.", "sub (;", "Prototype not terminated .*", "exit 0"),
    "php": ("<?php require 'quredis_missing';", "Error: Failed opening required 'quredis_missing' (include_path='.*') (jobs.php:1 in require)",
            '<?php throw new ValueError("a\\nb");', "ValueError: a b (jobs.php:1 in require)", "<?php (", "ParseError: .* (@PATH@:2)", "<?php exit(0);"),
    "node": ("require('quredis_missing')", "Error: Cannot find module 'quredis_missing' Require stack: - @PATH@ (jobs.js:1 in Object.<anonymous>)",
             'throw new RangeError("a\\nb")', "RangeError: a b (jobs.js:1 in Object.<anonymous>)", "f((", "SyntaxError: .*", "process.exit(0)"),
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_directory_with_a_colon(language, tmp):
    (tmp / "v:1").mkdir()
    path = shutil.copy(HERE / f"functions.{FILES[language]}", tmp / "v:1")
    for function in ("", ":one"):
        runner = Runner(language, "--check", f"{path}{function}", tmp=tmp)
        assert (runner.close(), runner.said()) == ((0, b"READY\n"), "")
    runner = Runner(language, "--check", f"{path}:ones", tmp=tmp)
    assert runner.close() == (1, b"") and "functions has no function ones (did you mean one?)" in runner.said()


@pytest.mark.parametrize("language", LANGUAGES)
def test_file_that_cannot_be_loaded(language, tmp):
    path = tmp / f"jobs.{FILES[language]}"
    *texts, leaves = FAILED_LOADS[language]
    table = [*zip(texts[::2], texts[1::2]), (leaves, f"quredis-{language}: @PATH@ called exit while it was loaded.*")]
    for text, said in table:
        path.write_text(text + "\n")
        for more in ([], ["--check"]):
            runner = Runner(language, *more, str(path), tmp=tmp)
            assert runner.close() == (1, b"")
            form = re.escape(said.replace("@PATH@", str(path))).replace(r"\.\*", ".*")
            assert re.fullmatch(form, runner.said().splitlines()[-1]), runner.said()


@pytest.mark.skipif(os.getuid() != 0, reason="only root may give up the right to enter all directories")
@pytest.mark.parametrize("language", LANGUAGES)
def test_file_in_a_closed_directory(language, tmp):
    (tmp / "closed").mkdir(mode=0)
    path = f"{tmp}/closed/jobs.{FILES[language]}"
    runner = Runner(language, path, tmp=tmp, program="/usr/bin/env",
                    first=["setpriv", "--bounding-set=-dac_override,-dac_read_search", ROOT / f"etc/runtimes/quredis-{language}"])
    assert runner.close() == (1, b"")
    assert f"{path}: a directory above it may not be entered" in runner.said()


# A file that looks for another one when it runs, and the other one of a version.
LATE = {
    "python": ("def handle(m, job):\n    import late\n    job.reject(f'{late.V} {__file__}')\n", "late.py", "V = '@'\n"),
    "ruby": ('def handle(m, job)\n  require_relative "late"\n  require "later"\n  job.reject("#{V} #{__FILE__}")\nend\n', "late.rb", "V = '@'\n"),
    "perl": ('sub handle { my ($m, $job) = @_; require "late.pl"; $job->reject(v() . " " . __FILE__) }\n1;\n', "late.pl", "sub v { '@' }\n1;\n"),
    "php": ('<?php function handle($m, $job) { require_once __DIR__ . "/late.php"; $job->reject(V . " " . __FILE__); }\n', "late.php",
            "<?php const V = '@';\n"),
    "node": ('exports.handle = (m, job) => job.reject(`${require("./late").V} ${__filename}`);\n', "late.js", "exports.V = '@';\n"),
}


@pytest.mark.parametrize("language, mode", MODES, ids=name_of)
def test_what_is_loaded_late_belongs_to_the_release(start, language, mode, tmp):
    """A deploy moves the link in the path of the file to a release that does not load: the old code goes on."""
    text, other, version = LATE[language]
    for release in ("r1", "r2"):
        (tmp / release).mkdir()
        (tmp / release / f"jobs.{FILES[language]}").write_text(text)
        (tmp / release / other).write_text(version.replace("@", release))
        (tmp / release / "later.rb").write_text("")
    (tmp / "current").symlink_to("r1")
    runner = start(language, *mode, path=tmp / f"current/jobs.{FILES[language]}")
    (tmp / "next").symlink_to("r2")
    (tmp / "next").rename(tmp / "current")
    assert runner.ask(b"x") == f"REJECT class=Rejected r1 {tmp}/r1/jobs.{FILES[language]}"
    assert runner.close() == (0, b"")


# A function that leaves a part of a line in a buffer.
LEAVES_A_PART = {
    "python": "def handle(message):\n    print('half', end='')\n",
    "ruby": 'def handle(message)\n  $stdout.sync = false\n  print "half"\nend\n',
    "perl": 'sub handle { STDOUT->autoflush(0); print "half" }\n1;\n',
    "php": '<?php function handle($message) { ob_start(); echo "half"; }\n',
    "node": 'exports.handle = (message) => { process.stdout.write("half"); };\n',
}


@pytest.mark.parametrize("language, mode", MODES, ids=name_of)
def test_output_leaves_before_the_answer(run_text, language, mode):
    """The worker takes what comes later for that of another message."""
    runner = run_text(language, LEAVES_A_PART[language], *mode)
    for n in range(1, 4):
        assert runner.ask(b"x") == "OK" and runner.said() == n * "half"
    assert runner.close() == (0, b"")


@pytest.mark.parametrize("language", LANGUAGES)
def test_wrong_arguments(language, tmp):
    ending = FILES[language]
    (tmp / f"broken.{ending}").write_text("<?php\n(((\n")
    wrong = {(f"{tmp}/none.{ending}",): f"{tmp}/none.{ending}: no such file", (f"{tmp}/broken.{ending}",): f"broken.{ending}",
             ("--fast", "x"): "unknown option --fast\nusage: quredis-", (): "expected one function\nusage: quredis-",
             ("--json", "--text", "x"): "expected one function\nusage: quredis-"}
    for arguments, text in wrong.items():
        runner = Runner(language, *arguments, tmp=tmp)
        assert runner.close()[0] in (1, 255)
        assert text in runner.said()


# Exceptions of which a part, and not only its text, raises when it is shown.
CANNOT_BE_SHOWN = {
    "offset": "raise SyntaxError('m', ('f', 1, 'a', 't'))",
    "text": "e = SyntaxError('m')\n    e.text, e.filename, e.lineno = b'x', 'f', 1\n    raise e",
    "notes": "raise type('Odd', (Exception,), {'__notes__': property(lambda self: 1 / 0)})('m')",
    "str": "raise type('Odd', (Exception,), {'__str__': lambda self: 1 / 0})('m')",
}


@pytest.mark.parametrize("mode", [("shared",), ("async",), ("--isolate",)])
@pytest.mark.parametrize("odd", CANNOT_BE_SHOWN)
def test_an_exception_that_cannot_be_shown_fails_its_message_alone(run_text, mode, odd):
    begin = "async def" if mode == ("async",) else "def"
    runner = run_text("python", f"{begin} handle(message):\n    if message == b'good':\n        return\n    {CANNOT_BE_SHOWN[odd]}\n",
                      *(mode if mode == ("--isolate",) else ()))
    assert re.match(r"FAIL class=(SyntaxError|Odd) ", runner.ask(b"bad")) and runner.ask(b"good") == "OK"
    assert "jobs.py" in runner.said() and runner.close() == (0, b"")
