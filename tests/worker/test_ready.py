"""Handlers that say READY, and functions, as quredisd runs them."""
import os
import pwd
import signal
import time

import pytest

from harness import BUILD, alive, children_of, queue, wait_for
from harness.control import status

LOADS = """
import os, sys, time
while not os.path.exists("@TMP@/load"):
    time.sleep(0.01)
if os.path.exists("@TMP@/broken"):
    sys.exit("no module PIL")
print("READY", flush=True)
while head := sys.stdin.buffer.readline().split():
    message = sys.stdin.buffer.read(int(head[3]) + 1)[:-1]
    open("@LEDGER@", "ab").write(message + b"\\n")
    print("OK", head[1].decode(), flush=True)
"""


def state(d, name="mail"):
    return next(q for q in status(d)["queues"] if q["name"] == name)


@pytest.fixture
def loading(quredisd, handler):
    def start(**more):
        return quredisd(queues=[queue("mail", handler(LOADS, "python"), mode="persistent", ready=True, workers=1, **more)])
    return start


def test_no_message_is_given_before_ready(redis, loading, ledger, tmp):
    d = loading(timeout="200ms")
    c = redis.client()
    wait_for(lambda: state(d)["state"] == "loading", 30)
    assert state(d)["reason"] == "its handler loads, and is not ready yet"
    assert d.quredis("push", "mail", "early").code == 0
    load_ms = d.wait_event("queue_state", queue="mail", state="loading")
    assert load_ms and c.llen("ingress:mail") == 1 and d.events("handler_ended") == []      # in spite of its timeout
    (tmp / "load").touch()
    wait_for(lambda: ledger.lines() == ["early"], 30)
    wait_for(lambda: state(d)["state"] == "running", 30)
    assert int(d.wait_event("handler_ready", queue="mail")["load_ms"]) >= 0
    assert d.stop() == 0


def test_an_end_before_ready_opens_the_breaker_with_the_last_words(redis, loading, ledger, tmp):
    (tmp / "load").touch()
    (tmp / "broken").touch()
    d = loading()
    wait_for(lambda: state(d)["state"] == "breaker", 30)
    reason = "its handler ended before it was ready, with exit status 1: no module PIL"
    wait_for(lambda: (state(d)["reason"] or "").startswith(reason), 30)
    assert d.quredis("push", "mail", "waits").code == 0
    (tmp / "broken").unlink()
    wait_for(lambda: ledger.lines() == ["waits"], 60)
    d.wait_event("breaker_closed", queue="mail")
    assert redis.client().llen("escape:mail") == 0 and d.stop() == 0


def test_a_load_that_takes_too_long_is_ended(loading, ledger, tmp):
    d = loading(start_timeout="200ms")
    wait_for(lambda: (state(d)["reason"] or "").startswith("its handler was not ready within start_timeout"), 30)
    assert d.wait_event("handler_ended", queue="mail")["reason"] == "start_timeout"
    assert d.quredis("push", "mail", "waits").code == 0
    (tmp / "load").touch()
    wait_for(lambda: ledger.lines() == ["waits"], 60)
    assert d.stop() == 0


def test_a_stop_does_not_wait_for_a_load(loading):
    d = loading(kill_grace="1m")
    wait_for(lambda: state(d)["state"] == "loading", 30)
    assert d.stop() == 0


def test_a_handler_that_ended_is_started_again_before_there_is_a_message(loading, ledger, tmp):
    (tmp / "load").touch()
    d = loading(recycle={"jobs": 1})
    d.wait_event("handler_ready", queue="mail")
    assert d.quredis("push", "mail", "first").code == 0
    wait_for(lambda: len(d.events("handler_ready")) == 2, 30)
    assert ledger.lines() == ["first"] and d.stop() == 0


# ---- a function ----

FUNCTION = """
import os, signal, subprocess, sys
def handle(message, job):
    if message == b"print":
        print("OK 7")
        os.write(1, b"OK 99\\n")
    elif message == b"segv":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif message == b"exit":
        os._exit(3)
    elif message == b"raise":
        raise KeyError("a\\nb\\0c")
    elif message == b"reject":
        try:
            job.reject("wrong", error_class="Wrong")
        except Exception:
            pass
    elif message == b"daemon":
        p = subprocess.Popen(["setsid", "sleep", "77"])
        open("@TMP@/daemon", "w").write(str(p.pid))
    with open("@LEDGER@", "ab") as f:
        f.write(message + b" " + job.id.encode() + b"\\n")
"""


@pytest.fixture
def function(tmp):
    def write(text):
        (tmp / "jobs.py").write_text(text.replace("@TMP@", str(tmp)).replace("@LEDGER@", str(tmp / "ledger")))
        return f"{tmp}/jobs.py:handle"
    return write


@pytest.mark.parametrize("isolate", [False, True], ids=["shared", "isolated"])
def test_a_function_is_a_whole_queue(redis, quredisd, function, ledger, tmp, isolate):
    d = quredisd(queues=[dict(name="mail", function=function(FUNCTION), isolate=isolate, workers=1)])
    bad = ["raise", "reject"] + (["segv", "exit"] if isolate else [])
    good = ["one", "print", "daemon", "two"]
    for message in ["one", *bad, "print", "daemon", "two"]:
        assert d.quredis("push", "mail", message).code == 0
    c = redis.client()
    wait_for(lambda: len(ledger.lines()) == len(good) and c.llen("escape:mail") == len(bad), 60)
    assert [line.split()[0] for line in ledger.lines()] == good
    assert all(line.split()[1].startswith("sha1:") and len(line.split()[1]) == 45 for line in ledger.lines())
    shown = d.quredis("dlq", "ls", "mail").out
    assert "KeyError" in shown and "Wrong" in shown, shown
    if isolate:
        assert "HandlerSignal" in shown and "SIGSEGV" in shown and "HandlerExit" in shown, shown
        assert not alive(int((tmp / "daemon").read_text()))
    said = [e["line"] for e in d.events("handler_output") if e["stream"] == "stdout"]
    assert "OK 7" in said and "OK 99" in said
    assert d.stop() == 0


def test_a_function_that_cannot_be_loaded_says_why(quredisd, function):
    d = quredisd(queues=[dict(name="mail", function=function("import quredis_missing\n"))])
    wait_for(lambda: "ModuleNotFoundError: No module named 'quredis_missing'" in (state(d)["reason"] or ""), 30)
    assert d.stop() == 0


def test_a_handler_that_ends_after_ready_is_started_after_growing_pauses(quredisd, handler):
    d = quredisd(queues=[queue("mail", handler("echo READY"), mode="persistent", ready=True)])
    begun = time.monotonic()
    wait_for(lambda: len(d.events("handler_ended")) >= 4, 60)
    assert time.monotonic() - begun > 1     # 0.5 s, 1 s and 2 s on average, and half of that at least
    assert d.stop() == 0


HOSTILE = """
import sys
def numbers():
    yield 1
def handle(message, job):
    if message == b"retry":
        job.retry(reason="503 days not there")
    elif message == b"raise":
        raise RuntimeError("exit_code=7 of convert")
    elif message == b"fail":
        job.fail("signal=SIGKILL was sent")
    elif message == b"reject":
        job.reject("class=Forged by a message")
    elif message == b"generator":
        return numbers()
    elif message == b"swallow":
        try:
            job.reject("swallowed")
        except BaseException:
            return
    elif message == b"closed":
        sys.stdout.close()
"""


@pytest.mark.parametrize("isolate", [False, True], ids=["shared", "isolated"])
def test_texts_of_a_function_are_no_arguments(redis, quredisd, function, isolate):
    d = quredisd(queues=[dict(name="mail", function=function(HOSTILE), isolate=isolate, workers=1, shared=True)])
    for message in ["retry", "raise", "fail", "reject", "generator", "swallow", "closed"]:
        assert d.quredis("push", "mail", message).code == 0
    classes = {}

    def escaped():
        for e in d.events("message_escaped"):
            classes[e["id"]] = e["class"]
        return len(classes) == 6
    wait_for(escaped, 60)
    assert sorted(classes.values()) == ["HandlerFail", "HandlerFail", "Rejected", "Rejected", "RuntimeError", "TypeError"], classes
    shown = d.quredis("dlq", "ls", "mail").out
    assert "503 days not there" in shown and "exit_code=7 of convert" in shown and "class=Forged by a message" in shown, shown
    wait_for(lambda: redis.client().llen("ingress:mail") == 0, 30)
    assert redis.client().llen("escape:mail") == 6 and d.stop() == 0


def test_messages_that_crash_before_the_first_answer_hold_up_no_other_for_long(redis, quredisd, function, ledger):
    """Eight of them would cost more than a minute if each made the next start wait for longer."""
    crash = "import os\ndef handle(message):\n    if message != b'good':\n        os._exit(3)\n    open('@LEDGER@', 'ab').write(message + b'\\n')\n"
    d = quredisd(start=False, queues=[dict(name="mail", function=function(crash), workers=1)])
    redis.client().lpush("ingress:mail", *[f"bad {n}" for n in range(8)], "good")
    d.start()
    wait_for(lambda: ledger.lines() == ["good"], 40)
    assert d.stop() == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_handler_of_another_user_can_open_its_own_input_and_output(redis, quredisd, handler, ledger):
    """Pipes belong to the user of the worker. Node opens its input again, to keep it from the function."""
    run_as = {"user": "nobody"}
    script = "cat /dev/stdin > /dev/stderr\necho through stdout > /dev/stdout\n"
    d = quredisd(queues=[queue("mail", handler(script), run_as=run_as)])
    assert d.quredis("push", "mail", "through stderr").code == 0
    wait_for(lambda: sorted(e["line"] for e in d.events("handler_output")) == ["through stderr", "through stdout"], 30)
    assert d.stop() == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.skipif(not all(path.stat().st_mode & 1 for path in BUILD.parents), reason="no other user may enter this tree")
def test_a_function_in_javascript_is_one_process(redis, quredisd, tmp):
    (tmp / "jobs.js").write_text("exports.handle = (message) => console.log(`pid ${process.pid} ${process.getuid()}`);\n")
    d = quredisd(queues=[dict(name="mail", function=f"{tmp}/jobs.js", workers=1, run_as={"user": "nobody"})])
    assert d.quredis("push", "mail", "x").code == 0
    wait_for(lambda: any(e["line"].startswith("pid ") for e in d.events("handler_output")), 30)
    _, pid, user = d.wait_event("handler_output")["line"].split()
    assert int(user) == pwd.getpwnam("nobody").pw_uid
    assert d.handlers() == [int(pid)] and children_of(int(pid)) == []


# ---- several workers ----

LOCKED = """
import fcntl, os, sys, time
open("@TMP@/starts", "a").write("%.3f\\n" % time.monotonic())
lock = open("@TMP@/lock", "a")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    sys.exit("another one has it")
"""

ONE_WORKS = LOCKED + """
print("READY", flush=True)
while head := sys.stdin.buffer.readline().split():
    message = sys.stdin.buffer.read(int(head[3]) + 1)[:-1]
    open("@LEDGER@", "ab").write(message + b"\\n")
    print("OK", head[1].decode(), flush=True)
"""


def starts(tmp):
    return [float(line) for line in (tmp / "starts").read_text().split()] if (tmp / "starts").exists() else []


def test_workers_that_cannot_load_do_not_slow_down_one_that_can(quredisd, handler, ledger, tmp):
    d = quredisd(queues=[queue("mail", handler(ONE_WORKS, "python"), mode="persistent", ready=True, workers=3)])
    d.wait_event("handler_ready", queue="mail")
    closed = len(d.events("breaker_opened"))        # one may have failed before the other was ready
    pushed = 0
    while len(starts(tmp)) < 9:                     # 1, and 4 of each of the others: after 0.25 to 0.5 s, 0.5 to 1, 1 to 2
        assert d.quredis("push", "mail", str(pushed)).code == 0
        pushed += 1
        wait_for(lambda: len(ledger.lines()) == pushed, 5)
    assert starts(tmp)[-1] - starts(tmp)[0] > 1.7
    assert state(d)["state"] == "running" and len(d.events("breaker_opened")) == closed <= 1
    assert d.stop() == 0


SLOW_TO_FAIL = LOCKED + """
if os.path.exists("@TMP@/slow"):
    time.sleep(1.5)
sys.exit("no module PIL")
"""


def test_after_a_failed_start_one_worker_loads_at_a_time(quredisd, handler, tmp):
    d = quredisd(queues=[queue("mail", handler(SLOW_TO_FAIL, "python"), mode="persistent", ready=True, workers=4)])
    wait_for(lambda: state(d)["state"] == "breaker" and len(d.events("handler_ended")) >= 4, 30)
    (tmp / "slow").touch()
    first = len(starts(tmp))
    begun = time.monotonic()
    wait_for(lambda: len(starts(tmp)) >= first + 5, 60)
    assert time.monotonic() - begun > 4     # each load took longer than the pauses
    assert len(d.events("breaker_opened")) == 1
    later = [e["line"] for e in d.events("handler_output") if e["stream"] == "stderr"][first:]
    assert set(later) == {"no module PIL"}, later
    assert d.stop() == 0


def test_a_worker_whose_handler_was_killed_keeps_no_message(redis, quredisd, handler, ledger, tmp):
    """Its fetch was under way. Its next handler loads for ever, and the handler of the other worker is ready."""
    (tmp / "load").touch()
    d = quredisd(queues=[queue("mail", handler(LOADS, "python"), mode="persistent", ready=True, workers=2)])
    wait_for(lambda: state(d)["state"] == "running" and len(d.handlers()) == 2 and len(d.events("handler_ready")) == 2, 30)
    (tmp / "load").unlink()
    os.kill(d.handlers()[0], signal.SIGKILL)
    d.wait_event("handler_ended")
    texts = [f"m{i}" for i in range(6)]
    for text in texts:
        redis.client().lpush("ingress:mail", text)
    wait_for(lambda: sorted(ledger.lines()) == texts, 30)
    assert d.events("breaker_opened") == [] and state(d)["state"] == "running"
    assert d.stop() == 0


def test_a_lone_handler_that_was_killed_idle_is_back_when_the_next_one_is_ready(redis, quredisd, handler, ledger, tmp):
    (tmp / "load").touch()
    d = quredisd(queues=[queue("mail", handler(LOADS, "python"), mode="persistent", ready=True, workers=1)])
    d.wait_event("handler_ready")
    os.kill(d.handlers()[0], signal.SIGKILL)
    assert d.wait_event("breaker_opened", 30)["error"] == "it ended while it had no message"
    wait_for(lambda: state(d)["state"] == "running", 30)
    assert len(d.events("handler_ready")) == 2 and d.quredis("push", "mail", "m").code == 0
    wait_for(lambda: ledger.lines() == ["m"], 30)
    assert d.stop() == 0
