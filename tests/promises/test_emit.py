"""What a handler emits is pushed with the acknowledgement of its message: both or neither, whatever fails between."""
import json
import os
import signal

import pytest

from harness import queue, wait_for
from harness.control import by_class
from harness.messages import in_transit, record, unwrap
from harness.redis_proxy import CUT, SCRIPTS, Once

# Does what its message says: a list of ["emit", QUEUE, BODY, DELAY], ["raw", BYTES] (@: the serial and a blank), ["wait"], ["die"], ["verdict", LINE], and
# ["pad", TEXT], which does nothing.
OBEY = r"""
import json, os, signal, sys, time
def note(word):
    with open("@LEDGER@", "a") as f:
        f.write(word + "\n")
def say(data):
    while data:
        data = data[os.write(FD, data):]
def obey(message, serial, redelivered):
    verdict = None
    note(f"start {redelivered}")
    for word, *args in json.loads(message):
        if word == "emit":
            body = args[1].encode("latin-1")
            say(" ".join(["EMIT", *serial, args[0], str(len(body)), *("delay=" + d for d in args[2:])]).encode() + b"\n" + body + b"\n")
        elif word == "raw":
            say(args[0].replace("@", "".join(s + " " for s in serial)).encode("latin-1"))
        elif word == "wait":
            note("waits")
            while not os.path.exists("@TMP@/go"):
                time.sleep(0.01)
        elif word == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        elif word == "verdict":
            verdict = args[0]
    return verdict
"""
EXEC = OBEY + r"""
FD = int(os.environ["QUREDIS_REPLY_FD"])
verdict = obey(sys.stdin.buffer.read(), [], os.environ["QUREDIS_REDELIVERED"])
if verdict:
    say(verdict.encode() + b"\n")
"""
STAYS = OBEY + r"""
FD = int(os.environ["QUREDIS_REPLY_FD"])
while head := sys.stdin.buffer.readline().split():
    serial, size = head[1].decode(), int(head[3])
    verdict = obey(sys.stdin.buffer.read(size + 1)[:-1], [serial], "1" if b"redelivered=1" in head else "0") or "OK"
    verb, _, rest = verdict.partition(" ")
    say(f"{verb} {serial} {rest}".rstrip().encode() + b"\n")
"""
HANDLERS = {"exec": (EXEC, {"reply_fd": 3}), "persistent": (STAYS, {"mode": "persistent", "reply_fd": 3})}
BACKOFF = {"base": "10ms", "cap": "10ms", "jitter": 0.0}
EMIT = {"queues": ["thumbs", "shared"], "max": 4, "max_bytes": "1K", "max_depth": 3}
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def split(handler, mode, **keys):
    body, more = HANDLERS[mode]
    return queue("split", handler(body, "python"), **{"workers": 1, "emit": EMIT, "backoff": BACKOFF, **more, **keys})


def targets(idle):
    """No worker fetches from them, so what is pushed stays to be seen."""
    return [queue("thumbs", idle, workers=0, message_max="1K"), queue("shared", idle, workers=0, shared=True, message_max="1K")]


@pytest.fixture(params=sorted(HANDLERS))
def mode(request):
    return request.param


@pytest.fixture
def serve(mode, quredisd, handler):
    def serve(redis=None, **keys):
        more = {} if redis is None else {"redis": redis}
        return quredisd(queues=[split(handler, mode, **keys), *targets(handler("cat"))], **more)
    return serve


def push(c, *commands, header=b""):
    c.lpush("ingress:split", header + json.dumps(commands).encode())


def done(d):
    return json.loads(d.quredis("--json", "stats", "split").out)["counters"]["done"]


def pushed(c, name="thumbs"):
    """The one that is fetched first comes first."""
    return [unwrap(raw) for raw in reversed(c.lrange(f"ingress:{name}", 0, -1))]


def bodies(c, name="thumbs"):
    return [body for _, body in pushed(c, name)]


def said(c, name="split", index=0):
    """What the newest record tells, as text."""
    return {k: v.decode(errors="replace") if isinstance(v, bytes) else v for k, v in record(c, name, index).items()}


def settled(c):
    return not c.llen("ingress:split") and not in_transit(c, "split")


def nothing_emitted(c):
    return not c.exists("ingress:thumbs", "ingress:shared", "quredis:of:ingress:thumbs:delayed")


# ---- both ----

def test_what_is_emitted_is_pushed_with_the_acknowledgement(redis, serve):
    c = redis.client()
    d = serve()
    push(c, ["emit", "thumbs", "one"], ["emit", "shared", "bare"], ["emit", "thumbs", "\0\nOK 1\n\xff"], ["emit", "thumbs", "later", "1h"],
         header=b"quredis/1 id=order-7 traceparent=" + TRACE.encode() + b"\n")
    wait_for(lambda: c.zcard("quredis:of:ingress:thumbs:delayed") == 1)
    wait_for(lambda: settled(c))
    assert bodies(c) == [b"one", b"\0\nOK 1\n\xff"]
    assert c.lrange("ingress:shared", 0, -1) == [b"bare"]
    [(raw, due)] = c.zrange("quredis:of:ingress:thumbs:delayed", 0, -1, withscores=True)
    assert unwrap(raw)[1] == b"later" and 3500e3 < due - int(c.time()[0]) * 1000 < 3700e3
    for line, _ in [*pushed(c), unwrap(raw)]:
        assert (line["root"], line["depth"], line["traceparent"]) == ("order-7", 1, TRACE)
    assert not c.exists("escape:split") and d.stop() == 0


def test_what_is_pushed_is_counted(redis, serve):
    c = redis.client()
    d = serve(max_attempts=1)
    push(c, ["emit", "thumbs", "never"], ["verdict", "FAIL no"])
    push(c, ["emit", "thumbs", "one"], ["emit", "thumbs", "later", "1h"])
    push(c, ["emit", "shared", "bare"])
    wait_for(lambda: done(d) == 2 and c.llen("escape:split") == 1, 30)
    assert json.loads(d.quredis("--json", "stats", "split").out)["counters"]["emitted"] == 3


def test_a_delayed_one_comes_when_it_is_due(redis, serve):
    c = redis.client()
    serve()
    push(c, ["emit", "thumbs", "soon", "100ms"])
    wait_for(lambda: bodies(c) == [b"soon"], 30)
    assert pushed(c)[0][0]["depth"] == 1 and not c.exists("quredis:of:ingress:thumbs:delayed")


def test_a_long_message_is_found_by_its_place(redis, serve):
    c = redis.client()
    serve()
    push(c, ["emit", "thumbs", "one"], ["pad", "x" * 10000])
    wait_for(lambda: bodies(c) == [b"one"])
    wait_for(lambda: settled(c))


def test_the_history_has_the_message(redis, serve):
    c = redis.client()
    serve(done={"keep": 10})
    push(c, ["emit", "thumbs", "one"], header=b"quredis/1 id=order-7\n")
    wait_for(lambda: c.xlen("quredis:of:ingress:split:done") == 1)
    assert bodies(c) == [b"one"] and c.xrange("quredis:of:ingress:split:done")[0][1][b"id"] == b"order-7"


def test_many_messages(redis, serve):
    c = redis.client()
    d = serve(emit={"queues": ["thumbs"], "max": 50, "max_bytes": "64K"})
    for n in range(20):
        push(c, *(["emit", "thumbs", f"{n}.{i}"] for i in range(50)))
    wait_for(lambda: c.llen("ingress:thumbs") == 1000, 60)
    wait_for(lambda: settled(c))
    assert sorted(bodies(c)) == sorted(f"{n}.{i}".encode() for n in range(20) for i in range(50))
    wait_for(lambda: done(d) == 20)


# ---- neither ----

@pytest.mark.parametrize("verdict", ["RETRY 1h", "FAIL no", "REJECT no", "HOLD 1h"])
def test_other_verdicts_emit_nothing(redis, serve, verdict):
    c = redis.client()
    serve(max_attempts=2)
    push(c, ["emit", "thumbs", "one"], ["emit", "thumbs", "two", "1h"], ["verdict", verdict])
    if verdict.startswith("FAIL"):
        wait_for(lambda: c.llen("escape:split") == 1)
    elif verdict.startswith("REJECT"):
        wait_for(lambda: said(c)["error_class"] == "Rejected" if c.exists("escape:split:log") else False)
    else:
        wait_for(lambda: c.zcard("quredis:of:ingress:split:delayed") == 1)
    assert nothing_emitted(c)


def test_a_death_emits_nothing(redis, serve):
    c = redis.client()
    d = serve()
    push(c, ["pad", ""])        # before any answer the handler itself could be the cause of its death
    wait_for(lambda: settled(c) and done(d) == 1, 60)
    push(c, ["emit", "thumbs", "one"], ["raw", "EMIT @thumbs 5\nab"], ["die"])
    wait_for(lambda: c.llen("escape:split") == 1, 60)
    assert nothing_emitted(c)


def test_a_timeout_emits_nothing(redis, serve):
    c = redis.client()
    serve(timeout="3s", kill_grace="0s")
    push(c, ["emit", "thumbs", "one"], ["wait"])
    wait_for(lambda: c.llen("escape:split") == 1, 60)
    assert nothing_emitted(c) and said(c)["error_class"] == "HandlerTimeout"


REFUSED = [
    (["emit", "tumbs", "x"], 'EMIT: queue "tumbs" is not in emit.queues'),
    (["emit", "split", "x"], 'EMIT: queue "split" is not in emit.queues'),
    (["emit", "thumbs", "x" * 1025], 'EMIT: a message of 1025 bytes is longer than message_max = "1K" of queue thumbs'),
    (["emit", "shared", "x", "1s"], "EMIT: queue shared is shared with other programs, so it has no delayed messages"),
    (["raw", "EMIT @thumbs -5\nhello\n"], 'EMIT: expected QUEUE LENGTH [delay=DURATION], not "thumbs -5"'),
    (["raw", "EMIT @thumbs five\nhello\n"], 'EMIT: expected QUEUE LENGTH [delay=DURATION], not "thumbs five"'),
    (["raw", "EMIT @thumbs 999999999999\nhello\n"], 'EMIT: expected QUEUE LENGTH [delay=DURATION], not "thumbs 999999999999"'),
    (["raw", "EMIT @thumbs 18446744073709551617\nhello\n"], 'EMIT: expected QUEUE LENGTH [delay=DURATION], not "thumbs 18446744073709551617"'),
    (["raw", "EMIT @thumbs 3\nhello\n"], "EMIT: expected a newline behind the bytes of the message"),
    (["raw", "EMIT @thumbs 5 delay=later\nhello\n"], 'EMIT: expected QUEUE LENGTH [delay=DURATION], not "thumbs 5 delay=later"'),
]


@pytest.mark.parametrize("command,why", REFUSED, ids=[w[6:40] for _, w in REFUSED])
def test_what_is_not_allowed_fails_the_attempt(redis, serve, command, why):
    c = redis.client()
    d = serve(max_attempts=2)
    push(c, ["emit", "thumbs", "one"], command)
    wait_for(lambda: c.llen("escape:split") == 1)
    r = said(c)
    assert (r["error_class"], r["error_message"], r["attempts"]) == ("EmitRefused", why, "2")
    assert nothing_emitted(c) and by_class(d, "split") == {"EmitRefused": 1}
    push(c, ["emit", "thumbs", "two"])          # the handler goes on
    wait_for(lambda: bodies(c) == [b"two"])


def test_more_than_max_fails_the_attempt(redis, serve):
    c = redis.client()
    serve()
    push(c, *[["emit", "thumbs", "x"]] * 5)
    wait_for(lambda: c.llen("escape:split") == 1)
    assert said(c)["error_message"] == "EMIT: more than emit.max = 4 messages"
    push(c, *[["emit", "thumbs", "x" * 600]] * 2)
    wait_for(lambda: c.llen("escape:split") == 2)
    assert said(c)["error_message"] == 'EMIT: more than emit.max_bytes = "1K" in all' and nothing_emitted(c)


def test_bytes_that_are_missing_fail_the_attempt(redis, quredisd, handler):
    """The end of an exec handler says that it is done. One that stays can say nothing while its bytes are awaited."""
    c = redis.client()
    quredisd(queues=[split(handler, "exec"), *targets(handler("cat"))])
    push(c, ["raw", "EMIT @thumbs 100\nhello\n"])
    wait_for(lambda: c.llen("escape:split") == 1)
    assert said(c)["error_message"] == "EMIT: the handler ended before the last byte of the message" and nothing_emitted(c)


def test_bytes_that_never_come_end_with_the_timeout(redis, quredisd, handler):
    c = redis.client()
    quredisd(queues=[split(handler, "persistent", timeout="3s", kill_grace="0s"), *targets(handler("cat"))])
    push(c, ["raw", "EMIT @thumbs 100\nhello\n"])
    wait_for(lambda: c.llen("escape:split") == 1, 60)
    assert said(c)["error_class"] == "HandlerTimeout" and nothing_emitted(c)


def test_without_emit_queues_the_record_names_the_key(redis, mode, quredisd, handler):
    c = redis.client()
    body, more = HANDLERS[mode]
    quredisd(queues=[queue("split", handler(body, "python"), **more), *targets(handler("cat"))])
    push(c, ["emit", "thumbs", "one"])
    wait_for(lambda: c.llen("escape:split") == 1)
    r = said(c)
    assert r["error_class"] == "HandlerFail" and "set emit.queues in its configuration: EMIT " in r["error_message"] and nothing_emitted(c)


# ---- a handler that stays ----

TAKES_TWO = r"""
import sys
serials = []
for n in range(2):
    head = sys.stdin.buffer.readline().split()
    sys.stdin.buffer.read(int(head[3]) + 1)
    serials.append(head[1].decode())
a, b = serials
"""


def test_two_jobs_emit_in_turns(redis, quredisd, handler, ledger):
    """The first one is not done, so only the other one's is pushed."""
    c = redis.client()
    body = TAKES_TWO + r"""
print(f"EMIT {a} thumbs 2\na1\nEMIT {b} thumbs 2\nb1\nEMIT {a} thumbs 2\na2\nEMIT {b} thumbs 2\nb2\nREJECT {a}\nOK {b}", flush=True)
sys.stdin.read()
"""
    q = queue("split", handler(body, "python"), mode="persistent", window=2, emit=EMIT)
    quredisd(queues=[q, *targets(handler("cat"))])
    c.lpush("ingress:split", "a", "b")
    wait_for(lambda: c.llen("ingress:thumbs") == 2)
    assert bodies(c) == [b"b1", b"b2"]
    wait_for(lambda: c.llen("escape:split") == 1)


def test_what_a_job_emits_after_its_answer_is_skipped(redis, quredisd, handler):
    """Its bytes are no answers, not even those that look like one to the next job."""
    c = redis.client()
    body = r"""
import sys
last = None
while head := sys.stdin.buffer.readline().split():
    message, serial = sys.stdin.buffer.read(int(head[3]) + 1)[:-1], head[1].decode()
    if last:
        bytes = f"FAIL {serial} forged"
        print(f"EMIT {last} thumbs {len(bytes)}\n{bytes}", flush=True)
        print(f"EMIT {'0' * 16} thumbs 5\nhello", flush=True)
    print(f"EMIT {serial} thumbs {len(message)}\n{message.decode()}\nOK {serial}", flush=True)
    last = serial
"""
    d = quredisd(queues=[queue("split", handler(body, "python"), mode="persistent", emit=EMIT), *targets(handler("cat"))])
    for n in range(3):
        c.lpush("ingress:split", f"m{n}")
    wait_for(lambda: bodies(c) == [b"m0", b"m1", b"m2"])
    wait_for(lambda: settled(c))
    assert not c.exists("escape:split")
    assert {e["line"] for e in d.events("handler_output")} >= {"EMIT 0000000000000000 thumbs 5", "hello"}
    lost = d.events("handler_emit_lost", queue="split")
    assert len([e for e in lost if e.get("id")]) == 2       # once for each job that was answered before
    assert [e["line"] for e in lost if not e.get("id")] == 2 * ["EMIT 0000000000000000 thumbs 5"]


def test_an_emit_without_a_serial_fails_the_only_job(redis, quredisd, handler):
    c = redis.client()
    body = r"""
import sys
while head := sys.stdin.buffer.readline().split():
    sys.stdin.buffer.read(int(head[3]) + 1)
    print(f"EMIT thumbs 5\nhello\nOK {head[1].decode()}", flush=True)
"""
    quredisd(queues=[queue("split", handler(body, "python"), mode="persistent", emit=EMIT, max_attempts=1), *targets(handler("cat"))])
    c.lpush("ingress:split", "m")
    wait_for(lambda: c.llen("escape:split") == 1)
    r = said(c)
    assert r["error_class"] == "EmitRefused" and r["error_message"] == 'EMIT: expected SERIAL QUEUE LENGTH [delay=DURATION], not "EMIT thumbs 5"'
    assert nothing_emitted(c)


def test_an_emit_without_a_serial_is_logged_while_two_jobs_are_unanswered(redis, quredisd, handler):
    c = redis.client()
    body = TAKES_TWO + r"""
print(f"EMIT thumbs 2\nb1\nOK {a}\nOK {b}", flush=True)
sys.stdin.read()
"""
    d = quredisd(queues=[queue("split", handler(body, "python"), mode="persistent", window=2, emit=EMIT), *targets(handler("cat"))])
    c.lpush("ingress:split", "a", "b")
    wait_for(lambda: settled(c))
    assert [e["line"] for e in d.events("handler_emit_lost", queue="split")] == ["EMIT thumbs 2"]


def test_a_handler_on_stdout_without_emit_queues_fails(redis, quredisd, handler):
    """The serial proves that the line is meant, whatever the verb."""
    c = redis.client()
    body = r"""
import sys
while head := sys.stdin.buffer.readline().split():
    sys.stdin.buffer.read(int(head[3]) + 1)
    print(f"EMIT {head[1].decode()} thumbs 5\nhello\nOK {head[1].decode()}", flush=True)
"""
    quredisd(queues=[queue("split", handler(body, "python"), mode="persistent", max_attempts=1), *targets(handler("cat"))])
    c.lpush("ingress:split", "m")
    wait_for(lambda: c.llen("escape:split") == 1)
    assert "set emit.queues in its configuration: EMIT " in said(c)["error_message"]


def test_a_late_emission_without_its_newline_harms_no_other_job(redis, quredisd, handler):
    """The second job is in the middle of its own emissions."""
    c = redis.client()
    body = TAKES_TWO + r"""
print(f"OK {a}\nEMIT {b} thumbs 2\nb1\nEMIT {a} thumbs 2\nabc\nEMIT {b} thumbs 2\nb2\nOK {b}", flush=True)
sys.stdin.read()
"""
    quredisd(queues=[queue("split", handler(body, "python"), mode="persistent", window=2, emit=EMIT), *targets(handler("cat"))])
    c.lpush("ingress:split", "a", "b")
    wait_for(lambda: settled(c))
    assert bodies(c) == [b"b1", b"b2"] and not c.exists("escape:split")


# ---- faults ----

def emit_hash():
    return next(sha1 for sha1, name in SCRIPTS.items() if name == "emit")


def test_a_worker_that_dies_before_the_move_emits_once(redis, mode, redis_proxy, quredisd, handler, ledger):
    c = redis.client()
    workers = {}
    kill = Once("emit", "ingress:thumbs", lambda: (os.kill(workers["split/0"], signal.SIGKILL), CUT)[1])
    d = quredisd(redis=redis_proxy(redis, kill), queues=[split(handler, mode), *targets(handler("cat"))])
    workers.update(d.wait_workers("split", 1))
    push(c, ["emit", "thumbs", "one"], ["emit", "thumbs", "two", "1h"])
    wait_for(lambda: bodies(c) == [b"one"], 60)
    wait_for(lambda: settled(c))
    assert kill.act is None and ledger.lines() == ["start 0", "start 1"] and c.zcard("quredis:of:ingress:thumbs:delayed") == 1


@pytest.mark.parametrize("what", ["lose_request", "lose_reply"])
def test_a_lost_connection_emits_once(redis, mode, redis_proxy, quredisd, handler, ledger, what):
    """The worker reads whether Redis has executed the move, before it sends it again: the handler does not run again."""
    c = redis.client()
    proxy = redis_proxy(redis)
    d = quredisd(redis=proxy, queues=[split(handler, mode), *targets(handler("cat"))])
    d.wait_workers("split", 1)
    getattr(proxy, what)(emit_hash())
    push(c, ["emit", "thumbs", "one"])
    push(c, ["emit", "thumbs", "two"])
    wait_for(lambda: proxy.lost == 1)
    wait_for(lambda: bodies(c) == [b"one", b"two"], 60)
    wait_for(lambda: settled(c))
    assert ledger.lines() == ["start 0", "start 0"] and not c.exists("escape:split")


def test_a_message_that_another_process_took_emits_nothing(redis, serve, ledger, tmp):
    c = redis.client()
    d = serve()
    push(c, ["emit", "thumbs", "one"], ["wait"])
    wait_for(lambda: "waits" in ledger.lines())
    [tray] = [k for k in c.keys("transit:split:*:[0-2]")]
    c.delete(tray)
    (tmp / "go").touch()
    d.wait_event("claim_lost", queue="split")
    push(c, ["emit", "thumbs", "two"])
    wait_for(lambda: bodies(c) == [b"two"])


def test_a_target_of_another_type_fails_the_attempt(redis, serve):
    c = redis.client()
    d = serve(max_attempts=3)
    c.set("ingress:thumbs", "text")
    push(c, ["emit", "shared", "zero"], ["emit", "thumbs", "one"])
    wait_for(lambda: c.llen("escape:split") == 1)
    r = said(c)
    assert r["error_class"] == "EmitRefused" and r["attempts"] == "3"
    assert r["error_message"].startswith("EMIT: Redis refuses the push: WRONGTYPE ") and r["error_message"].endswith(", push to ingress:thumbs")
    assert "duration_ms" in r and not c.exists("ingress:shared")
    c.delete("ingress:thumbs")
    push(c, ["emit", "thumbs", "two"])
    wait_for(lambda: bodies(c) == [b"two"])
    assert by_class(d, "split") == {"EmitRefused": 1}


def test_a_target_without_rights_fails_the_attempt(redis, serve):
    c = redis.client()
    d = serve()
    d.wait_event("queue_recovered", queue="split")
    c.execute_command("ACL", "SETUSER", "default", "resetkeys", "%R~*", "~*split*", "~quredis:*", "~transit:*", "~escape:*", "~delayed:*", "~*shared*")
    push(c, ["emit", "thumbs", "one"])
    wait_for(lambda: c.llen("escape:split") == 1)
    c.execute_command("ACL", "SETUSER", "default", "allkeys")
    assert said(c)["error_class"] == "EmitRefused" and "EMIT: Redis refuses the push: " in said(c)["error_message"]
    assert nothing_emitted(c)


def test_a_target_from_which_nothing_may_be_taken_back_fails_the_attempt(redis, serve):
    c = redis.client()
    d = serve()
    d.wait_event("queue_recovered", queue="split")
    c.execute_command("ACL", "SETUSER", "default", "-ltrim", "(+ltrim ~*escape:*)")
    push(c, ["emit", "shared", "zero"], ["emit", "thumbs", "one"])
    wait_for(lambda: c.llen("escape:split") == 1)
    assert said(c)["error_class"] == "EmitRefused" and "'LTRIM'" in said(c)["error_message"]
    assert nothing_emitted(c)


def test_a_target_of_another_type_opens_the_breaker(redis, serve):
    c = redis.client()
    d = serve(breaker={"failures": 2})
    c.set("ingress:thumbs", "text")
    for n in range(4):
        push(c, ["emit", "thumbs", "one"], ["pad", str(n)])
    d.wait_event("breaker_opened", queue="split")
    assert not d.events("message_done")


# All rights to the keys of the queue and its targets, but none to its trays.
NO_TRAY = ["resetkeys", "%R~*", "~ingress:*", "~quredis:*", "~escape:*", "~delayed:*", "~transit:split:lease:*", "~transit:split:workers"]


@pytest.mark.parametrize("refused", ["type", "script", "key"])
def test_where_its_own_tray_is_refused_it_waits(redis, serve, ledger, tmp, refused):
    """Neither its key nor the right to a script is the fault of a target: the handler does not run again."""
    c = redis.client()
    d = serve()
    push(c, ["emit", "thumbs", "one"], ["wait"])
    wait_for(lambda: "waits" in ledger.lines())
    [tray] = [k for k in c.keys("transit:split:*:[0-2]")]
    if refused == "type":
        c.rename(tray, "kept")
        c.set(tray, "text")
    elif refused == "key":
        c.execute_command("ACL", "SETUSER", "default", *NO_TRAY)
    else:
        c.execute_command("ACL", "SETUSER", "default", "-evalsha", "-eval")
    (tmp / "go").touch()
    d.wait_event("redis_error", 20, queue="split", at="settle")
    assert nothing_emitted(c) and not c.exists("escape:split", "quredis:of:ingress:split:delayed")
    if refused == "type":
        c.delete(tray)
        c.rename("kept", tray)
    else:
        c.execute_command("ACL", "SETUSER", "default", "+@all", "allkeys")
    wait_for(lambda: bodies(c) == [b"one"], 60)
    wait_for(lambda: settled(c))
    assert ledger.count("start 0") == 1 and not c.exists("escape:split")


def test_where_memory_is_full_it_waits(redis, serve, ledger, tmp):
    c = redis.client()
    d = serve()
    push(c, ["emit", "thumbs", "one"], ["wait"])
    wait_for(lambda: "waits" in ledger.lines())
    c.config_set("maxmemory", 1)
    (tmp / "go").touch()
    error = d.wait_event("redis_error", 20, queue="split", at="settle")["error"]
    assert "OOM" in error and nothing_emitted(c) and in_transit(c, "split")
    c.config_set("maxmemory", 0)
    wait_for(lambda: bodies(c) == [b"one"], 60)
    wait_for(lambda: settled(c))
    assert ledger.count("start 0") == 1 and not c.exists("escape:split")


def test_after_a_stop_it_is_emitted_once(redis, serve, ledger, tmp):
    """The handler ends in the time to drain."""
    c = redis.client()
    d = serve()
    push(c, ["emit", "thumbs", "one"], ["wait"])
    wait_for(lambda: "waits" in ledger.lines())
    os.kill(d.pid, signal.SIGTERM)
    d.wait_event("stopping")
    (tmp / "go").touch()
    assert d.wait_exit() == 0
    assert bodies(c) == [b"one"] and settled(c)


# ---- root and depth ----

CHAIN = {
    "exec": (r"""
echo "$QUREDIS_ROOT $QUREDIS_DEPTH $TRACEPARENT" >>@LEDGER@
read -r m
echo "EMIT loop 1" >&3
echo x >&3
""", {"reply_fd": 3}),
    "persistent": (r"""
while read -r _ serial attempt size keys; do
	read -r m
	root= depth= traceparent=
	for key in $keys; do case $key in root=*|depth=*|traceparent=*) eval "$key" ;; esac; done
	echo "$root $depth $traceparent" >>@LEDGER@
	printf 'EMIT %s loop 1\nx\nOK %s\n' $serial $serial
done
""", {"mode": "persistent"})}


def test_a_chain_ends_at_max_depth(redis, mode, quredisd, handler, ledger):
    c = redis.client()
    body, more = CHAIN[mode]
    quredisd(queues=[queue("loop", handler(body), emit={"queues": ["loop"], "max_depth": 2}, **more)])
    c.lpush("ingress:loop", f"quredis/1 id=order-7 traceparent={TRACE}\nx\n" if mode == "exec" else f"quredis/1 id=order-7 traceparent={TRACE}\nx")
    wait_for(lambda: c.llen("escape:loop") == 1)
    assert said(c, "loop")["error_message"] == "EMIT: deeper than emit.max_depth = 2"
    assert ledger.lines() == [f"  {TRACE}", f"order-7 1 {TRACE}", f"order-7 2 {TRACE}"]


def test_a_retry_keeps_root_and_depth(redis, quredisd, handler, ledger):
    c = redis.client()
    idle = handler("cat")
    leaf = handler('cat >/dev/null; echo "$QUREDIS_ATTEMPT $QUREDIS_ROOT $QUREDIS_DEPTH" >>@LEDGER@; [ "$QUREDIS_ATTEMPT" = 3 ]')
    first = handler('cat >/dev/null; printf "EMIT thumbs 1\\nx\\n" >&3')
    quredisd(queues=[queue("split", first, reply_fd=3, emit={"queues": ["thumbs"]}), queue("thumbs", leaf, max_attempts=3, backoff=BACKOFF),
                     queue("other", idle)])
    c.lpush("ingress:split", b"quredis/1 id=order-7\nx")
    wait_for(lambda: len(ledger.lines()) == 3, 60)
    assert ledger.lines() == ["1 order-7 1", "2 order-7 1", "3 order-7 1"]


def test_without_an_id_the_root_is_the_sum_of_the_message(redis, serve):
    c = redis.client()
    serve()
    push(c, ["emit", "thumbs", "one"])
    wait_for(lambda: pushed(c))
    assert pushed(c)[0][0]["root"].startswith("sha1:")


# ---- configuration ----

def test_a_reload_takes_the_limit_of_a_target(redis, mode, quredisd, handler):
    """Only the target changes. The workers that emit to it are replaced."""
    c = redis.client()
    idle = handler("cat")
    first = split(handler, mode, emit={**EMIT, "max_bytes": "4K"})
    d = quredisd(queues=[first, *targets(idle)])
    for n, limit in enumerate(["2K", "1K"], 1):
        d.reload(queues=[first, queue("thumbs", idle, workers=0, message_max=limit), targets(idle)[1]])
        wait_for(lambda: len(d.events("worker_exited")) == n)
        push(c, ["emit", "thumbs", "x" * 2048])
        wait_for(lambda: settled(c))
    wait_for(lambda: c.llen("escape:split") == 1)
    assert len(bodies(c)) == 1 and "longer than message_max" in said(c)["error_message"]
