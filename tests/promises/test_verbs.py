"""What a handler replies, and what follows: quredis-handler(7)."""
import json
import os
import re
import signal

import pytest

from harness import ROOT, queue, wait_for
from harness.control import by_class, status
from harness.messages import record, unwrap

# A persistent handler that answers each message with the message, after its verb.
ECHO = """import sys
while head := sys.stdin.buffer.readline().split():
    serial, size = head[1], int(head[3])
    message = sys.stdin.buffer.read(size + 1)[:-1]
    open("@LEDGER@", "a").write(f"start {message.decode()}\\n")
    verb, _, rest = message.decode().partition(" ")
    print(verb, serial.decode(), rest, flush=True)
"""
# An exec handler that writes the message to its reply_fd. With "exit N: " before it, it exits so. "die: ", "hang: ": it does that
# afterwards; "trap: " also, and exits with 0 when it is stopped.
SAY = """import os, re, signal, sys, time
message = sys.stdin.buffer.read().decode()
open("@LEDGER@", "a").write(f"start {message}\\n")
how, _, reply = message.rpartition(": ") if re.match(r"(exit \\d+|die|hang|trap): ", message) else ("", "", message)
if how == "trap":
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
if reply:
    os.write(int(os.environ["QUREDIS_REPLY_FD"]), reply.encode() + b"\\n")
open("@LEDGER@", "a").write(f"replied {message}\\n")
if how == "die":
    os.kill(os.getpid(), signal.SIGKILL)
if how in ("hang", "trap"):
    time.sleep(1000)
sys.exit(int(how[5:] or 0))
"""
HANDLERS = {"persistent": (ECHO, {"mode": "persistent"}), "exec": (SAY, {"reply_fd": 3})}
BACKOFF = {"base": "10ms", "cap": "10ms", "jitter": 0.0}


def classes_of(d):
    return json.loads(d.quredis("--json", "stats", "mail").out)["classes"]


@pytest.fixture(params=sorted(HANDLERS))
def serve(request, handler, quredisd):
    """Starts quredisd with a handler that replies as each message says."""
    body, mode = HANDLERS[request.param]

    def serve(metrics={}, **keys):
        return quredisd(queues=[queue("mail", handler(body, "python"), **{"max_attempts": 3, "backoff": BACKOFF, **mode, **keys})], metrics=metrics)
    return serve


def test_a_rejected_message_is_not_retried(redis, serve, ledger):
    c = redis.client()
    d = serve()
    c.lpush("ingress:mail", b"REJECT no mail: \xc3\xa9")
    wait_for(lambda: c.llen("escape:mail") == 1)
    r = record(c, "mail")
    assert (r["error_class"], r["error_message"], r["attempts"]) == (b"Rejected", b"REJECT: no mail: \xc3\xa9", b"1")
    assert ledger.count("start REJECT no mail: é") == 1
    assert by_class(d, "mail") == {"Rejected": 1} and status(d, "mail")["counters"]["retried"] == 0


def test_a_failure_without_attempts_left(redis, serve, ledger):
    c = redis.client()
    d = serve()
    c.lpush("ingress:mail", b"FAIL no such user")
    wait_for(lambda: c.llen("escape:mail") == 1)
    r = record(c, "mail")
    assert (r["error_class"], r["error_message"], r["attempts"]) == (b"HandlerFail", b"FAIL: no such user", b"3")
    assert ledger.count("start FAIL no such user") == 3
    assert by_class(d, "mail") == {"HandlerFail": 1}


def test_a_class_that_the_handler_names(redis, serve, tmp):
    """It is in the record, in filters, counters, metrics and statistics."""
    c, page = redis.client(), tmp / "textfile/quredis.prom"
    page.parent.mkdir()
    d = serve(max_attempts=1, metrics={"textfile": str(page), "interval": "1s"})
    c.lpush("ingress:mail", "FAIL class=SMTPServerDisconnected away", "REJECT class=bad.json at byte 7", "FAIL class=SMTPServerDisconnected again",
            "FAIL class=a/b no class")
    wait_for(lambda: c.llen("escape:mail") == 4)
    named = {"SMTPServerDisconnected": 2, "bad.json": 1}
    assert by_class(d, "mail") == {**named, "HandlerFail": 1}
    wait_for(lambda: classes_of(d) == named, 30)
    listed = json.loads(d.quredis("--json", "dlq", "ls", "mail", "-C", "SMTPServerDisconnected").out)
    assert [r["error_message"] for r in listed] == ["FAIL: again", "FAIL: away"]
    causes = json.loads(d.quredis("--json", "dlq", "stats", "mail").out)
    assert {g["key"]: g["count"] for g in causes if g["by"] == "class"} == {**named, "HandlerFail": 1}
    wait_for(lambda: page.exists() and dict(re.findall(r'quredis_escaped_by_class_total\{queue="mail",class="([^"]+)"\} (\d+)', page.read_text())) ==
             {k: str(n) for k, n in named.items()}, 30, "the metric")
    assert {r[b"error_message"] for _, r in c.xrange("escape:mail:log") if r[b"error_class"] == b"HandlerFail"} == {b"FAIL: class=a/b no class"}


def test_a_retry_names_its_delay(redis, serve, ledger):
    c = redis.client()
    d = serve(max_attempts=1)
    c.lpush("ingress:mail", "RETRY 30s class=Busy come again")
    wait_for(lambda: c.zcard("quredis:of:ingress:mail:delayed") == 1)
    (_, due), = c.zrange("quredis:of:ingress:mail:delayed", 0, -1, withscores=True)
    seconds, micros = c.time()
    assert 20 < due / 1000 - seconds - micros / 1e6 <= 30
    assert d.wait_event("message_retried")["class"] == "Busy"
    assert status(d, "mail")["counters"]["retried"] == 1 and not c.exists("escape:mail")


def test_too_many_classes_are_counted_as_one(redis, serve):
    """A handler puts a number into its class: the records have it, the counters stay few, also in Redis and after a restart."""
    c = redis.client()
    d = serve(max_attempts=1)
    for start in (0, 100):
        c.lpush("ingress:mail", *[f"FAIL class=user{i} x" for i in range(start, start + 40)])
        wait_for(lambda n=(start // 100 + 1) * 40: c.llen("escape:mail") == n, 40)
        assert status(d, "mail")["classes"]["other"] == 8 and len(status(d, "mail")["classes"]) == 33
        assert d.stop() == 0        # a sweeper writes the last figures
        d.start()
    assert classes_of(d)["other"] == 48 and len(classes_of(d)) == 33
    assert sum(classes_of(d).values()) == 80


# what the handler does -> the class of the record (None: done), its error, its exit status, the number of attempts
ENDS = {
    "exit 0: REJECT class=json no mail": (b"json", b"REJECT: no mail", b"0", b"1"),
    "exit 1: REJECT no mail": (b"Rejected", b"REJECT: no mail", b"1", b"1"),
    "exit 65: FAIL try again": (b"HandlerFail", b"FAIL: try again", b"65", b"2"),
    "exit 0: FAIL": (b"HandlerFail", b"FAIL", b"0", b"2"),
    "exit 0: REJCT no mail": (
        b"HandlerFail", b"FAIL: unknown verb: expected RETRY, FAIL, REJECT, HOLD, BEAT or PROGRESS (did you mean REJECT?): REJCT no mail", b"0", b"2"),
    "die: REJECT no mail": (b"HandlerSignal", b"killed by SIGKILL", b"", b"2"),
    "hang: REJECT no mail": (b"HandlerTimeout", b"timed out after", b"", b"2"),
    "trap: REJECT no mail": (b"HandlerTimeout", b"timed out after", b"0", b"2"),
    "exit 3: words": (b"HandlerExit", b"exit status 3", b"3", b"2"),
    "exit 0: words": (None, None, None, None),
}


@pytest.mark.parametrize("message", ENDS, ids=lambda m: m.replace(" ", "-").replace(":", ""))
def test_a_verdict_and_the_end(redis, quredisd, handler, ledger, message):
    """The last verdict decides over any exit status; a signal and the timeout decide over the verdict."""
    c = redis.client()
    cls, error, code, attempts = ENDS[message]
    d = quredisd(queues=[queue("mail", handler(SAY, "python"), reply_fd=3, max_attempts=2, backoff=BACKOFF, timeout="2s")])
    c.lpush("ingress:mail", message)
    if cls is None:
        wait_for(lambda: status(d, "mail")["counters"]["done"] == 1)
        assert not c.exists("escape:mail")
        return
    wait_for(lambda: c.llen("escape:mail") == 1, 40)
    r = record(c, "mail")
    assert (r["error_class"], r["attempts"], r.get("exit_code", b"")) == (cls, attempts, code) and r["error_message"].startswith(error)
    assert ledger.count(f"start {message}") == int(attempts)


@pytest.mark.parametrize("how", ["hang", "trap"])
def test_a_stop_decides_over_the_verdict(redis, quredisd, handler, ledger, how):
    """The handler rejected its message, and was stopped before it ended, with 0 or by a signal: the message goes back, uncharged."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler(SAY, "python"), reply_fd=3, kill_grace="5s")], supervisor={"drain_timeout": "0s"})
    c.lpush("ingress:mail", f"{how}: REJECT no mail")
    wait_for(lambda: ledger.count(f"replied {how}: REJECT no mail") == 1)
    assert d.stop(signal.SIGQUIT) == 0
    (raw,) = c.lrange("ingress:mail", 0, -1)
    fields, body = unwrap(raw)
    assert body == f"{how}: REJECT no mail".encode() and fields["redelivered"] == 1 and "attempts" not in fields
    assert not c.exists("escape:mail")


GATED = {
    "persistent": ("""while read -r _ serial _ size _; do read -r m; echo "start" >>@LEDGER@; until [ -e @TMP@/go ]; do sleep 0.02; done
        echo "REJECT $serial no mail"; echo replied >>@LEDGER@; done""", {"mode": "persistent"}),
    "exec": ("""cat >/dev/null; echo "start" >>@LEDGER@; until [ -e @TMP@/go ]; do sleep 0.02; done
        echo "REJECT no mail" >&3; echo replied >>@LEDGER@""", {"reply_fd": 3}),
}


@pytest.mark.parametrize("mode", sorted(GATED))
def test_the_worker_dies_after_the_verdict(redis, quredisd, handler, ledger, tmp, mode):
    """The verdict was written, and not settled: the message runs again, and is not lost."""
    c, (body, keys) = redis.client(), GATED[mode]
    d = quredisd(queues=[queue("mail", handler(body), recovery_attempts=5, **keys)])
    c.lpush("ingress:mail", "m")
    wait_for(lambda: ledger.count("start") == 1)
    (pid,) = d.workers("mail").values()
    os.kill(pid, signal.SIGSTOP)
    (tmp / "go").touch()
    wait_for(lambda: ledger.count("replied") == 1)
    assert not c.exists("escape:mail")
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: c.llen("escape:mail") == 1, 40)
    assert ledger.count("start") == 2 and not c.llen("ingress:mail") and record(c, "mail")["error_class"] == b"Rejected"


@pytest.mark.parametrize("reply, why", [
    ("REJCT $s no mail", "FAIL: unknown verb: expected OK, RETRY, FAIL, REJECT, HOLD, BEAT, PROGRESS or LOG (did you mean REJECT?): REJCT "),
    ("OK 77", "timed out after "), ("ok $s", "timed out after "),
])
def test_the_record_says_what_was_no_answer(redis, quredisd, handler, reply, why):
    """A verb that is not known fails its own message at once. A line about no job is none, so the message times out, and its error shows the line."""
    c = redis.client()
    body = f"""while read -r _ s _ _; do read -r m; if [ $m = good ]; then echo "OK $s" >&3; else echo "{reply}" >&3; sleep 1000; fi; done"""
    d = quredisd(queues=[queue("mail", handler(body), mode="persistent", reply_fd=3, max_attempts=1, timeout="2s", kill_grace="1s")])
    c.lpush("ingress:mail", "bad")
    wait_for(lambda: c.llen("escape:mail") == 1)
    error = record(c, "mail")["error_message"].decode()
    assert error.startswith(why)
    if why.startswith("timed out"):
        assert "it wrote 1 line that is no answer: `" + reply.split()[0] in error
        assert ("(answers are in capitals)" in error) == (reply == "ok $s")
        assert not d.events("handler_desync")


def test_the_verdict_replaces_another(redis, quredisd, handler):
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler("echo REJECT no mail >&3; echo FAIL really >&3"), reply_fd=3)])
    c.lpush("ingress:mail", "m")
    wait_for(lambda: c.llen("escape:mail") == 1)
    assert record(c, "mail")["error_message"] == b"FAIL: really"
    event = d.wait_event("handler_verdict_replaced", queue="mail")
    assert (event["verdict"], event["by"]) == ("REJECT: no mail", "FAIL")


# ---- signs of life ----

# Says PROGRESS ten times a second for 3 s, then ends well.
WORKS = {
    "persistent": ("""while read -r _ s _ size _; do read -r m
        for i in $(seq 30); do echo "PROGRESS $s $i page $i"; sleep 0.1; done; echo "OK $s"; done""",
                   {"mode": "persistent"}),
    "exec": ("""cat >/dev/null; for i in $(seq 30); do echo "PROGRESS $i page $i" >&3; sleep 0.1; done""", {"reply_fd": 3}),
}
# Says it once, with a sequence that would clear a terminal.
SHOWS = {
    "persistent": (r"""while read -r _ s _ size _; do read -r m; printf 'PROGRESS %s 40 \033[2J page 2\n' "$s"
        until [ -e @TMP@/go ]; do sleep 0.05; done; echo "OK $s"; done""", {"mode": "persistent"}),
    "exec": (r"""cat >/dev/null; printf 'PROGRESS 40 \033[2J page 2\n' >&3; until [ -e @TMP@/go ]; do sleep 0.05; done""", {"reply_fd": 3}),
}


def progress_of(d):
    return [w["progress"] for w in status(d)["workers"] if w["queue"] == "mail"]


@pytest.mark.parametrize("mode", sorted(SHOWS))
def test_progress_is_shown(redis, quredisd, handler, tmp, mode):
    c, (body, keys) = redis.client(), SHOWS[mode]
    d = quredisd(queues=[queue("mail", handler(body), **keys)])
    assert progress_of(d) == [None]
    c.lpush("ingress:mail", "m")
    want = {"percent": 40, "text": "?[2J page 2"}
    wait_for(lambda: progress_of(d) == [want], what="the progress")
    shown = d.quredis("status", "mail").out
    assert "40% ?[2J page 2" in shown and "\033" not in shown
    running = wait_for(lambda: json.loads(c.get(f"quredis:node:{status(d)['node']}") or "{}").get("running"), 30, "the report of the node")
    assert running[0]["progress"] == want
    (tmp / "go").touch()
    wait_for(lambda: status(d, "mail")["counters"]["done"] == 1, 40)
    assert progress_of(d) == [None]


@pytest.mark.parametrize("mode, keys, done", [
    ("exec", {}, False), ("exec", {"max_duration": "1m"}, True), ("exec", {"max_duration": "1500ms"}, False),
    ("persistent", {}, True), ("persistent", {"max_duration": "1m"}, True), ("persistent", {"max_duration": "1500ms"}, False),
])
def test_a_sign_of_life_extends_the_timeout_where_it_may(redis, quredisd, handler, mode, keys, done):
    """The handler works for 3 s, and says so every 100 ms; its timeout is 1 s."""
    c, (body, own) = redis.client(), WORKS[mode]
    d = quredisd(queues=[queue("mail", handler(body), timeout="1s", kill_grace="5s", **own, **keys)])
    c.lpush("ingress:mail", "m")
    counters = wait_for(lambda: (n := status(d, "mail")["counters"])["done"] + n["escaped"] and n, 40)
    assert (counters["done"], counters["timed_out"]) == ((1, 0) if done else (0, 1))
    if not done:
        r = record(c, "mail")
        assert r["error_class"] == b"HandlerTimeout" and int(r["duration_ms"]) >= (1500 if "max_duration" in keys else 1000)
        assert (b"max_duration" in r["error_message"]) == ("max_duration" in keys)


def test_the_example_that_replies(redis, quredisd):
    """etc/handlers/mail.py: broken JSON is rejected, a dead mail server is tried again, each with its class."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", ["/usr/bin/python3", str(ROOT / "etc/handlers/mail.py")], reply_fd=3, env=["MAIL_SERVER=127.0.0.1:1"])])
    c.lpush("ingress:mail", "{no json", '{"to": "x@example.org", "text": "hi"}')
    wait_for(lambda: c.llen("escape:mail") == 1 and c.zcard("quredis:of:ingress:mail:delayed") == 1)
    r = record(c, "mail")
    assert r["error_class"] == b"BadMail" and r["error_message"].startswith(b"REJECT: JSONDecodeError")
    assert d.wait_event("message_retried", queue="mail")["class"] == "ConnectionRefusedError"
