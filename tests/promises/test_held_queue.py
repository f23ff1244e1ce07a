"""HOLD: a handler that is told "too many requests" holds its queue on all hosts. Its message is retried at the end, and no attempt is charged."""
import json
import os
import signal
import time

import pytest

from harness import CUT, queue, wait_for
from harness.control import status
from harness.redis_proxy import SCRIPTS, Tap

PAUSED = "quredis:of:ingress:mail:paused"
DELAYED = b"quredis:of:ingress:mail:delayed"
# Both reply with the message if that is a verdict that they have not given for it before. One that begins with "slow" runs until "go" is there.
COMMON = """import os, sys, time
def run(message, attempt, answer):
    open("@LEDGER@", "a").write(f"start {message} attempt {attempt} at {time.time():.3f}\\n")
    said = "@LEDGER@." + message.replace(" ", "_").replace("/", "_")
    if message.startswith("slow"):
        open(said + ".worker", "w").write(str(os.getppid()))
    while message.startswith("slow") and not os.path.exists("@LEDGER@.go"):
        time.sleep(0.01)
    words = message.removeprefix("slow ")
    if words.split()[0] in ("HOLD", "RETRY") and not os.path.exists(said):
        open(said, "w").close()
        answer(words)
    elif message.startswith("ALWAYS "):
        answer(message[7:])
    else:
        answer("OK")
    open("@LEDGER@", "a").write(f"end {message}\\n")
"""
PERSISTENT = COMMON + """import threading
def answers(serial):
    def answer(text):
        verb, _, rest = text.partition(" ")
        os.write(1, f"{verb} {serial} {rest}".rstrip().encode() + b"\\n")
    return answer
while head := sys.stdin.buffer.readline().split():
    message = sys.stdin.buffer.read(int(head[3]) + 1)[:-1].decode()
    threading.Thread(target=run, args=(message, head[2].decode(), answers(head[1].decode())), daemon=True).start()
"""
EXEC = COMMON + """
def answer(text):
    if text != "OK":
        os.write(int(os.environ["QUREDIS_REPLY_FD"]), text.encode() + b"\\n")
run(sys.stdin.read(), os.environ["QUREDIS_ATTEMPT"], answer)
"""
HANDLERS = {"persistent": (PERSISTENT, {"mode": "persistent", "window": 4}), "exec": (EXEC, {"reply_fd": 3})}


@pytest.fixture(params=sorted(HANDLERS))
def serve(request, handler, quredisd):
    """Starts quredisd with a handler that holds its queue as each message says."""
    body, mode = HANDLERS[request.param]

    def serve(supervisor={}, **keys):
        return quredisd(queues=[queue("mail", handler(body, "python"), **{"max_attempts": 2, **mode, **keys})], supervisor=supervisor)
    serve.persistent = "window" in mode
    return serve


def starts(ledger, message):
    """When it started, and as which attempt."""
    return [(float(x.split()[-1]), int(x.split()[-3])) for x in ledger.lines() if x.startswith(f"start {message} attempt ")]


def held_until(c):
    """The end of the hold, by the clock of this host, which is that of Redis, too."""
    left = wait_for(lambda: max(c.pttl(PAUSED), 0), 30, "the hold")
    return time.time() + left / 1000


def test_nothing_starts_before_the_end(redis, serve, ledger):
    """Also what is pushed meanwhile. At the end all of it runs, the message of the hold as the same attempt."""
    c = redis.client()
    d = serve(workers=2)
    c.lpush("ingress:mail", "HOLD 4s too many requests")
    end = held_until(c)
    c.lpush("ingress:mail", *(f"m{i}" for i in range(20)))
    said = wait_for(lambda: status(d, "mail")["reason"] and "too many" in status(d, "mail")["reason"] and status(d, "mail"), 30)
    assert said["state"] == "held" and said["reason"].startswith("its handler asked for a hold until 20") and said["reason"].endswith("Z: too many requests")
    wait_for(lambda: len([x for x in ledger.lines() if x.startswith("end ")]) == 22, 60, "all to run")
    first, again = starts(ledger, "HOLD 4s too many requests")
    began = [starts(ledger, f"m{i}") for i in range(20)]
    assert first[1] == again[1] == 1 and all(len(b) == 1 for b in began)
    assert min(at for (at, _), in began) > end - 0.05 and again[0] > end - 0.05, "no message started before"
    assert min(at for (at, _), in began) < end + 5, "the workers did not sleep through the end"
    counted = status(d, "mail")["counters"]
    assert (counted["held"], counted["failed"], counted["retried"], counted["escaped"]) == (1, 0, 0, 0)
    wait_for(lambda: status(d, "mail")["state"] == "running", 30)
    assert d.wait_event("message_held", queue="mail")["reason"] == "too many requests"
    assert d.wait_event("queue_held", queue="mail")["reason"] == "too many requests" and d.wait_event("queue_resumed", queue="mail")


def test_what_was_fetched_does_not_start(redis, serve, ledger):
    """Messages behind the one that holds the queue go back from the tray, uncharged and unmarked."""
    c = redis.client()
    d = serve(**({"window": 1} if serve.persistent else {}))
    d.quredis("pause", "mail")
    wait_for(lambda: status(d, "mail")["state"] == "paused", 30)
    c.lpush("ingress:mail", "HOLD 3s busy", *(f"m{i}" for i in range(50)))
    d.quredis("resume", "mail")
    end = held_until(c)
    wait_for(lambda: len([x for x in ledger.lines() if x.startswith("end ")]) == 52, 60, "all to run")
    began = [starts(ledger, f"m{i}") for i in range(50)]
    assert all(len(b) == 1 and b[0][0] > end - 0.05 and b[0][1] == 1 for b in began), (end, began[:3])


def test_a_hold_is_no_attempt(redis, serve, ledger):
    """A message with two attempts is held more often, and each hold ends by itself."""
    c = redis.client()
    serve()
    c.lpush("ingress:mail", "ALWAYS HOLD 100ms busy")
    wait_for(lambda: len(starts(ledger, "ALWAYS HOLD 100ms busy")) >= 5, 60, "it is retried")
    assert {attempt for _, attempt in starts(ledger, "ALWAYS HOLD 100ms busy")} == {1} and c.llen("escape:mail") == 0


def test_a_delay_has_a_range(redis, serve):
    """One outside of it counts as its nearest end, and the log says what the handler asked for."""
    c = redis.client()
    d = serve()
    for asked, delay in (("0", 100), ("9d", 86_400_000)):
        c.lpush("ingress:mail", f"HOLD {asked} busy")
        e = wait_for(lambda: [e for e in d.events("message_held") if e["delay_ms"] == str(delay)], 30)[0]
        assert e["asked_ms"] == str(777600000 if asked == "9d" else 0)
    assert 86_000_000 < c.pttl(PAUSED) <= 86_400_000


def test_resume_ends_it(redis, serve, ledger):
    c = redis.client()
    d = serve()
    c.lpush("ingress:mail", "HOLD 1h api is down")
    held_until(c)
    wait_for(lambda: "api is down" in d.quredis("nodes", "--json").out, 30, "the report of the node")
    waits, = json.loads(d.quredis("peek", "mail", "delayed", "--json").out)
    assert (waits["error_class"], waits["error_message"], waits["attempts"]) == ("HandlerHold", "HOLD: api is down", 0)
    c.lpush("ingress:mail", "m")
    hold = json.loads(c.get(PAUSED))
    held = f"held by its handler on {hold['node']} until {hold['until']}: api is down\n"
    assert d.quredis("resume", "mail", "--dry-run").out == f"would resume mail; it is {held}"
    assert d.quredis("pause", "mail", "--dry-run").out == f"would pause mail; it is {held}"
    said = d.quredis("resume", "mail")
    assert said.out == f"mail is running; it was {held}"
    assert f"the message that asked for the hold stays delayed until {hold['until']}; quredis retry mail delayed " in said.err
    wait_for(lambda: starts(ledger, "m"), 30, "the queue to go on")
    wait_for(lambda: status(d, "mail")["state"] == "running", 30)
    assert c.zcard("quredis:of:ingress:mail:delayed") == 1, "its message waits for its own time"


@pytest.mark.limit(120)
def test_each_face_says_why_and_until_when(redis, handler, quredisd):
    """Also health, once the hold lasts for longer than a pause may."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler("[ \"$(cat)\" = m ] || echo HOLD 1h api is down >&3"), reply_fd=3)],
                 health={"enabled": True, "interval": "1s", "thresholds": {"paused_max": "1s"}})
    c.lpush("ingress:mail", "x")
    held_until(c)
    c.lpush("ingress:mail", "m")
    said = "api is down", json.loads(c.get(PAUSED))["until"]
    faces = ("status", "status --json", "nodes --json", "top --once", "ls", "health", "health --json", "doctor", "pause mail --dry-run")
    for face in faces:
        wait_for(lambda: all(words in d.quredis(*face.split()).out for words in said), 30, face)
    wait_for(lambda: all(words in d.quredis("health").out for words in ("paused for", *said)), 30, "the reason of health")


def test_a_pause_of_an_operator_stays(redis, serve, ledger):
    """A hold neither ends nor shortens it. An operator who pauses during a hold takes its place."""
    c = redis.client()
    d = serve()
    c.lpush("ingress:mail", "HOLD 1s busy")
    wait_for(lambda: c.exists(PAUSED), 30)
    d.quredis("pause", "mail")
    why = c.get(PAUSED)
    assert c.pttl(PAUSED) == -1 and json.loads(why)["user"]
    assert d.quredis("pause", "mail").out.startswith("mail was already paused by ")
    wait_for(lambda: status(d, "mail")["state"] == "paused", 30)
    d.quredis("resume", "mail")
    c.lpush("ingress:mail", "slow")
    wait_for(lambda: starts(ledger, "slow"), 30)
    d.quredis("pause", "mail")
    why = c.get(PAUSED)
    open(f"{ledger.path}.go", "w").close()
    wait_for(lambda: "end slow" in ledger.lines(), 30)
    assert (c.get(PAUSED), c.pttl(PAUSED)) == (why, -1)


def test_a_longer_hold_counts(redis, serve, ledger):
    """Of two holds the one that ends later."""
    c = redis.client()
    serve(workers=2)
    for message in ("slow HOLD 1h first", "slow HOLD 10s second"):
        c.lpush("ingress:mail", message)
        wait_for(lambda: starts(ledger, message), 30, "it to run")
    open(f"{ledger.path}.go", "w").close()
    wait_for(lambda: c.zcard("quredis:of:ingress:mail:delayed") == 2, 30, "both to be delayed")
    assert c.pttl(PAUSED) > 3_000_000


def test_other_hosts_hold_too(redis, serve, ledger):
    """A message that is pushed for another host waits until the end."""
    c = redis.client()
    serve({"node": "a"})
    other = serve({"node": "b"})
    c.lpush("ingress:mail", "HOLD 6s busy")
    end = held_until(c)
    wait_for(lambda: status(other, "mail")["state"] == "held", 30, "the other host to know")
    c.lpush("ingress:mail", "m")
    wait_for(lambda: starts(ledger, "m"), 60)
    assert starts(ledger, "m")[0][0] > end - 0.05


class CutHolds(Tap):
    """The worker with the message of a hold loses its connection with each move."""

    cut = 0

    def request(self, pair, words):
        if words[0] == b"EVALSHA" and SCRIPTS.get(words[1]) == "retry" and DELAYED in words:     # that of the rehearsal passes
            self.cut += 1
            return CUT
        return None


def test_a_hold_that_redis_does_not_know_holds_its_host(redis, redis_proxy, handler, quredisd, ledger):
    """The sweeper looks at an idle queue each four seconds, and finds no hold. The other worker starts nothing before the end."""
    c, proxy = redis.client(), redis_proxy(redis, CutHolds())
    d = quredisd(redis=proxy, queues=[queue("mail", handler(EXEC, "python"), workers=2, reply_fd=3)])
    c.lpush("ingress:mail", "HOLD 9s busy")
    wait_for(lambda: "end HOLD 9s busy" in ledger.lines(), 30)
    [(at, _)] = starts(ledger, "HOLD 9s busy")
    c.lpush("ingress:mail", "m")
    wait_for(lambda: starts(ledger, "m"), 60)
    assert starts(ledger, "m")[0][0] > at + 9 and proxy.tap.cut > 1 and not c.exists(PAUSED)
    wait_for(lambda: status(d, "mail")["state"] == "running", 30)
    proxy.tap.request = lambda pair, words: None
    held_until(c)


def test_a_hold_ends_with_its_worker_if_redis_does_not_know_it(redis, redis_proxy, handler, quredisd, ledger):
    c, proxy = redis.client(), redis_proxy(redis, CutHolds())
    d = quredisd(redis=proxy, queues=[queue("mail", handler(EXEC, "python"), workers=2, reply_fd=3)])
    c.lpush("ingress:mail", "HOLD 1h busy")
    wait_for(lambda: proxy.tap.cut > 0, 30)
    for pid in d.workers("mail").values():
        os.kill(pid, signal.SIGKILL)
    proxy.tap.request = lambda pair, words: None
    c.lpush("ingress:mail", "m")
    wait_for(lambda: starts(ledger, "m"), 30)


def test_a_hold_outlives_another_worker_of_its_queue(redis, redis_proxy, handler, quredisd, ledger):
    """Both ask for one that Redis does not know. The worker dies whose hold ends later: that of the other one goes on."""
    c, proxy = redis.client(), redis_proxy(redis, CutHolds())
    d = quredisd(redis=proxy, queues=[queue("mail", handler(EXEC, "python"), workers=2, reply_fd=3)])
    asked = {"slow HOLD 1h busy": 0, "slow HOLD 25s busy": 0}
    c.lpush("ingress:mail", *asked)
    wait_for(lambda: all(starts(ledger, m) for m in asked), 30)
    at = time.time()
    open(f"{ledger.path}.go", "w").close()
    wait_for(lambda: sum(x.startswith("end ") for x in ledger.lines()) == 2 and proxy.tap.cut > 1, 20)
    os.kill(int(open(f"{ledger.path}.slow_HOLD_1h_busy.worker").read()), signal.SIGKILL)
    c.lpush("ingress:mail", "m")
    wait_for(lambda: starts(ledger, "m"), 60)
    assert starts(ledger, "m")[0][0] > at + 25


class CutAnswers(Tap):
    """Redis holds the queue, and its answer is lost."""

    cut = 0

    def reply(self, pair, words, reply):
        if words[0] == b"EVALSHA" and SCRIPTS.get(words[1]) == "retry" and DELAYED in words and self.cut == 0:
            self.cut = 1
            return 0
        return None


def test_resume_ends_a_hold_whose_answer_was_lost(redis, redis_proxy, handler, quredisd, ledger):
    c, proxy = redis.client(), redis_proxy(redis, CutAnswers())
    d = quredisd(redis=proxy, queues=[queue("mail", handler(EXEC, "python"), workers=1, reply_fd=3)])
    c.lpush("ingress:mail", "HOLD 1h busy")
    held_until(c)
    assert proxy.tap.cut == 1
    wait_for(lambda: c.zcard("quredis:of:ingress:mail:delayed") == 1 and status(d, "mail")["state"] == "held", 30)
    assert d.quredis("resume", "mail").code == 0
    c.lpush("ingress:mail", "m")
    wait_for(lambda: starts(ledger, "m"), 30)


def test_a_shared_queue_has_no_holds(redis, serve, ledger):
    """Nothing may delay a message there; the handler has failed it, as with RETRY."""
    c = redis.client()
    serve(shared=True, max_attempts=1)
    c.lpush("ingress:mail", "HOLD 10s busy")
    wait_for(lambda: c.llen("escape:mail") == 1, 30)
    (_, record), = c.xrange("escape:mail:log")
    assert record[b"error_message"].decode() == "HOLD: busy (asked for a hold: there is none in a shared queue)" and not c.exists(PAUSED)


def test_the_words_of_a_handler_are_no_order(redis, serve, ledger):
    """They are bounded, and control characters are taken out."""
    c = redis.client()
    d = serve()
    c.lpush("ingress:mail", b'ALWAYS HOLD 1h \x1b[31m"} ' + b"x" * 5000)
    held_until(c)
    hold = json.loads(c.get(PAUSED))["hold"]
    assert hold.startswith('?[31m"} xxx') and len(hold) == 200
    assert "\x1b" not in d.quredis("status").out


def test_a_hold_is_logged_once(redis, serve, ledger):
    """However long its words are, and by a supervisor that starts meanwhile, which does not take it for the pause of an operator."""
    c = redis.client()
    d = serve()
    c.lpush("ingress:mail", ("HOLD 1h " + "\u00e9" * 110).encode())
    d.wait_event("queue_held", queue="mail")
    d.stop()
    again = serve()
    again.wait_event("queue_held", queue="mail")
    c.zadd("quredis:of:ingress:mail:delayed", {"1 x": 0})
    wait_for(lambda: c.zcard("quredis:of:ingress:mail:delayed") == 1, 30, "a further look")
    c.zadd("quredis:of:ingress:mail:delayed", {"2 x": 0})
    wait_for(lambda: c.zcard("quredis:of:ingress:mail:delayed") == 1, 30, "a further look")
    assert status(again, "mail")["state"] == "held" and len(again.events("queue_held", queue="mail")) == 1
    assert not again.events("queue_paused", queue="mail")
