"""quredis status, reload, restart, quiet, stop, and what else needs a supervisor."""
import concurrent.futures
import json
import os
import re
import signal
import subprocess
import time

import pytest

from harness import QUREDIS, alive, queue, wait_for
from harness.queues import Queue, strip
from harness.messages import sealed
from harness.redis_proxy import Tap


def status(d):
    return json.loads(d.quredis("status", "--json").out)


def test_no_supervisor(quredis, redis, tmp):
    conf = tmp / "quredis.conf"
    conf.write_text(f'supervisor = {{ control_socket = "{tmp}/none"; }};\n')
    for words in (["status"], ["reload"], ["stop"], ["restart", "mail"], ["quiet"]):
        r = quredis(*words, conf=conf)
        assert (r.code, r.out) == (69, "") and r.err == f"quredis: no supervisor answers at {tmp}/none\n"


def test_status(quredisd, redis, handler):
    d = quredisd(queues=[queue("mail", handler("cat >/dev/null; exit 3"), workers=2), queue("idle", handler("cat"))])
    Queue(redis.client(), register=False).client.lpush("ingress:mail", "a", "b", "c")
    wait_for(lambda: redis.client().llen("escape:mail") == 3)
    s = status(d)
    assert "ok" not in s and s["pid"] == d.pid and s["state"] == "running"
    by_name = {q["name"]: q for q in s["queues"]}
    assert by_name["mail"]["workers"]["wanted"] == 2 and len(s["workers"]) == 3
    out = d.quredis("status").out.splitlines()
    assert out[0].startswith("quredisd ") and f"pid {d.pid}" in out[0]
    assert out[1] == f"Redis: {redis.socket}" and s["redis"]["address"] == str(redis.socket) and s["redis"]["connected"]
    assert out[3].split() == "Queue State Workers Alive Done Failed Escaped Restarts Reason".split()
    rows = {line.split()[0]: line.split() for line in out[4:6]}
    assert rows["mail"][1:4] == ["running", "2", "2"] and rows["mail"][6] == "3"
    header = next(i for i, line in enumerate(out) if "Incarnation" in line)
    assert {line.split()[0] for line in out[header + 1:]} == {"mail/0", "mail/1", "idle/0"}


def test_errors_of_the_file_are_said_before_that_no_supervisor_answers(quredis, tmp):
    """It may be that it listens elsewhere, by what cannot be read."""
    conf = tmp / "quredis.conf"
    for text, error in ((f'supervisor = {{ control_socket = "{tmp}/none"; }};\nx = = 3;\n', "quredis.conf:2: syntax error"),
                        (f'supervisor = {{ control_socket = "{tmp}/none"; }};\nquues = ();\n', "quredis.conf:2: unknown key 'quues'")):
        conf.write_text(text)
        for words in (["status"], ["status", "--json"], ["reload"], ["stop"], ["restart", "mail"], ["quiet"], ["status", "-s", f"{tmp}/none"],
                      ["reload", "-s", f"{tmp}/none"]):
            r = quredis(*words, conf=conf)
            assert (r.code, r.out) == (69, "") and r.err.count(error) == 1 and r.err.index(error) < r.err.index("no supervisor answers"), (words, r)


@pytest.mark.parametrize("text", ["x = = 3;\n", "quues = ();\n"])
def test_what_reads_redis_says_why_it_cannot_without_a_good_file(quredis, redis, tmp, text):
    (tmp / "quredis.conf").write_text(text)
    for words in (["health"], ["health", "--json"], ["nodes"], ["nodes", "--json"], ["ls"]):
        r = quredis(*words, conf=tmp / "quredis.conf", url=redis.url)
        assert (r.code, r.out) == (78, "") and "quredis.conf:1: " in r.err and "it is not known for certain which Redis is meant, and which prefix" in r.err, r
    r = quredis("health", "--nagios", conf=tmp / "quredis.conf")
    assert r.code == 3 and r.out.startswith("QUREDIS UNKNOWN - the configuration has errors: ") and "quredis.conf:1: " in r.out, r


def test_errors_in_the_file_do_not_disable_what_asks_only_the_supervisor(quredisd, handler):
    """It runs with the configuration that it read. The file is then half edited, or gone."""
    d = quredisd(queues=[queue("mail", handler("cat >/dev/null"))])
    good, words = d.conf.read_text(), (["status"], ["quiet", "mail"], ["quiet", "mail", "--off"], ["scale", "mail", "2"], ["restart", "mail"])
    d.wait_event("queue_recovered", queue="mail")
    d.conf.write_text(good.replace("queues", "\nquues", 1))
    for w in words:
        r = d.quredis(*w)
        assert r.code == 0 and "warning: " in r.err and "unknown key 'quues'" in r.err, (w, r)
    r = d.quredis("reload")
    assert r.code == 78 and "the running one is kept" in r.err and r.err.count("unknown key 'quues'") == 1, r
    r = d.quredis("reload", "--dry-run")
    assert r.code == 0 and r.err.count("unknown key 'quues'") == 1, r
    r = d.quredis("ls")
    assert r.code == 78 and "-s SOCKET" in r.err and "quiet, reload, restart, scale, status, stop" in r.err, r
    socket = re.search(r'control_socket = "([^"]+)"', good).group(1)
    d.conf.write_text("x = = 3;\n" + good)              # nothing of it can be read
    for w in words:
        r = d.quredis(*w, "-s", socket)
        assert r.code == 0 and "syntax error" in r.err, (w, r)
    r = d.quredis("status")
    assert r.code == 69 and "-s SOCKET" in r.err, r
    d.conf.unlink()
    assert "mail" in d.quredis("status", "-s", socket).out
    assert d.quredis("stop", "--fast", "-s", socket).code == 0
    assert d.wait_exit() == 0


@pytest.mark.parametrize("answers", [None, b"quredis:health"], ids=["nothing", "until health is asked for"])
def test_status_does_not_wait_for_a_redis_that_hangs(quredisd, redis, redis_proxy, handler, terminal, answers):
    """Redis only adds a line about health, on a terminal."""
    proxy = redis_proxy(redis)
    d = quredisd(queues=[queue("mail", handler("cat"))], redis={"url": proxy.url})
    wait_for(lambda: status(d)["redis"]["address"])
    proxy.stall() if answers is None else proxy.stall_after(answers)
    begun = time.monotonic()
    t = terminal("status", "-c", str(d.conf), url=proxy.url)
    code, took = t.end(), time.monotonic() - begun
    proxy.resume()
    assert code == 0 and "mail" in t.text and took < 10, (t.text, took)


class Stops(Tap):
    """Stops Redis before it gets the first of these commands."""

    def __init__(self, redis, name):
        self.redis, self.name, self.stopped = redis, name, False

    def request(self, pair, words):
        if words[0] == self.name and not self.stopped:
            self.stopped = True
            self.redis.signal(signal.SIGSTOP)


@pytest.mark.parametrize("words, name", [("stats", b"HGETALL"), ("doctor", b"SCAN")])
def test_a_redis_that_falls_silent_ends_a_command_that_only_looks(quredis, redis, redis_proxy, words, name):
    """After 5 s, at the first silence: it does not wait again for what it would ask next."""
    Queue(redis.client()), Queue(redis.client(), "news")
    tap = Stops(redis, name)
    begun = time.monotonic()
    try:
        r = quredis(words, url=redis_proxy(redis, tap).url)
    finally:
        redis.signal(signal.SIGCONT)
    took = time.monotonic() - begun
    assert tap.stopped and r.code == 69 and "no answer in time" in r.out + r.err and 5 <= took < 30, (r, took)


class Late(Tap):
    """Redis answers the first command behind the opening of a connection, which ends with a script, only after so many seconds."""

    def __init__(self, seconds):
        self.seconds, self.wait_of = seconds, {}

    def request(self, pair, words):
        if pair in self.wait_of:
            wait, self.wait_of[pair] = self.wait_of[pair], None
            return wait
        if words[0] == b"EVALSHA":
            self.wait_of[pair] = self.seconds
        return None


LOOKS = ["peek mail ingress", "dlq ls mail", "dlq show mail 1-0", "dlq stats mail", "dlq export mail", "done ls mail", "ls", "nodes", "stats", "trend mail"]
CHANGES = ["pause mail"]


def test_only_a_command_that_changes_something_waits_for_a_late_answer(quredis, redis, redis_proxy):
    Queue(redis.client())
    silent, late = redis_proxy(redis, Late(100)).url, redis_proxy(redis, Late(6)).url
    with concurrent.futures.ThreadPoolExecutor(len(LOOKS) + len(CHANGES)) as pool:
        looks = [pool.submit(quredis, *words.split(), url=silent) for words in LOOKS]
        changes = [pool.submit(quredis, *words.split(), url=late) for words in CHANGES]
        looks, changes = [r.result() for r in looks], [r.result() for r in changes]
    assert {words: (r.code, r.err) for words, r in zip(LOOKS, looks) if r.code != 69 or "no answer in time" not in r.err} == {}
    assert {words: (r.code, r.err) for words, r in zip(CHANGES, changes) if "no answer in time" in r.err} == {}


def test_status_of_one_queue(quredisd, handler):
    d = quredisd(queues=[queue("mail", handler("cat"), workers=2), queue("spare", handler("cat"))])
    wait_for(lambda: len(status(d)["workers"]) == 3)
    s = json.loads(d.quredis("status", "mail", "--json").out)
    assert [q["name"] for q in s["queues"]] == ["mail"] and {w["name"] for w in s["workers"]} == {"mail/0", "mail/1"}
    assert "spare" not in d.quredis("status", "mail").out and "spare/0" in d.quredis("status", "spare").out
    for name, said in (("mial", "the supervisor here has no queue mial (did you mean mail?)"), ("other", "the supervisor here has no queue other")):
        r = d.quredis("status", name)
        assert (r.code, r.out, r.err) == (66, "", f"quredis: {said}\n")


def test_workers_stand_in_the_order_of_their_queues(quredisd, redis, handler):
    """Also when the first queue has got new workers, in slots behind those of the others."""
    names = ["one/0", "one/1", "two/0", "two/1"]
    d = quredisd(queues=[queue("one", handler("cat"), workers=2), queue("two", handler("cat"), workers=2)])
    wait_for(lambda: [w["name"] for w in status(d)["workers"]] == names)
    before = d.workers("one")
    assert d.quredis("restart", "one").code == 0
    wait_for(lambda: len(d.workers("one")) == 2 and not set(d.workers("one").values()) & set(before.values()))
    workers = status(d)["workers"]
    assert [w["name"] for w in workers] == names and workers[0]["slot"] > workers[2]["slot"]


def test_reload(quredisd, redis, handler):
    d = quredisd(queues=[queue("mail", handler("cat"))])
    d.write_conf(queues=[queue("mail", handler("cat")), queue("new", handler("cat"))])
    assert d.quredis("reload", "--dry-run").code == 0 and len(status(d)["queues"]) == 1
    assert d.quredis("reload").code == 0
    assert {q["name"] for q in status(d)["queues"]} == {"mail", "new"}
    d.write_conf(queues=[queue("mail", handler("cat"), window=3)])
    r = d.quredis("reload")
    assert r.code == 0 and re.search("^(quredis: )?warning: .*window has no effect", r.err, re.M)


def test_reload_shows_what_is_wrong(quredisd, redis, handler, tmp):
    d = quredisd(queues=[queue("mail", handler("cat"))])
    good = d.conf.read_text()
    # the command line can still find the supervisor; the supervisor's own file has two errors
    other = tmp / "other.conf"
    other.write_text(good)
    d.write_conf(queues=[queue("mail", "such/handler", wrokers=3)])
    r = subprocess.run([QUREDIS, "-c", other, "reload"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert r.returncode == 78 and r.stdout == "" and "wrokers" in r.stderr and "such/handler" in r.stderr
    assert d.running() and len(d.workers()) == 1


def test_restart(quredisd, redis, handler):
    d = quredisd(queues=[queue("mail", handler("cat"), workers=2), queue("other", handler("cat"))])
    before, other = d.wait_workers("mail", 2), d.wait_workers("other", 1)
    assert d.quredis("restart", "mail", "--dry-run").code == 0 and d.workers("mail") == before
    assert d.quredis("restart", "mail").code == 0
    wait_for(lambda: not any(alive(p) for p in before.values()) and len(d.workers("mail")) == 2)
    assert d.workers("other") == other
    assert d.quredis("restart", "nope").code == 66
    for command in ("restart", "quiet"):
        r = d.quredis(command, "mial")
        assert r.code == 66 and "no such queue (did you mean mail?)" in r.err


def test_scale(quredisd, redis, handler, tmp):
    """More workers start at once; fewer remain as they finish; a reload applies the number of the file again."""
    c = redis.client()
    slow = handler("cat >/dev/null; while ! test -e @TMP@/go; do sleep 0.05; done")
    d = quredisd(queues=[queue("mail", slow, workers=1, timeout="60s"), queue("other", handler("cat"))])
    mail, other = d.wait_workers("mail", 1), d.wait_workers("other", 1)

    def wanted():
        return {q["name"]: (q["workers"]["wanted"], q["reason"]) for q in status(d)["queues"]}["mail"]

    def running():
        return sum(w["queue"] == "mail" and w["running_ms"] is not None for w in status(d)["workers"])

    wait_for(lambda: wanted() == (1, None), what="the sweeper to look for messages of dead workers")
    assert d.quredis("scale", "mail", "4", "--dry-run").code == 0 and wanted() == (1, None)
    assert d.quredis("scale", "mail", "4").out == "mail: 4 workers here until the next reload or start\n" and wanted() == (4, None)
    more = d.wait_workers("mail", 4)
    assert mail.items() <= more.items() and d.workers("other") == other
    c.lpush("ingress:mail", *"abcd")
    wait_for(lambda: running() == 4)
    wait_for(lambda: json.loads(c.get(f"quredis:node:{status(d)['node']}"))["queues"][0]["wanted"] == 4, 30)
    assert d.quredis("scale", "mail", "0").code == 0
    wait_for(lambda: wanted() == (0, "scaled to no workers, until a reload"))
    assert running() == 4
    (tmp / "go").touch()
    wait_for(lambda: not d.workers("mail"))
    assert c.hget("quredis:of:ingress:mail:stats", "failed") is None and not c.llen("ingress:mail")
    assert [(e["workers"], e["before"]) for e in d.events("queue_scaled", queue="mail")] == [("4", "1"), ("0", "4")]
    assert d.quredis("reload").code == 0 and wanted() == (1, None)
    d.wait_workers("mail", 1)
    assert d.workers("other") == other
    for word in ("-1", "1001", "2x", ""):
        r = d.quredis("scale", "mail", word)
        assert r.code == 64 and ("whole number" in r.err or "option" in r.err), r.err
    r = d.quredis("scale", "mial", "2")
    assert r.code == 66 and "no such queue (did you mean mail?)" in r.err
    assert d.quredis("scale", "other", "1000", "--dry-run").code == 0
    assert d.quredis("scale", "other", "20").code == 0 and d.quredis("scale", "other", "1").code == 0
    assert d.stop() == 0


def test_quiet(quredisd, redis, handler):
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler("cat")), queue("other", handler("cat"))])
    assert d.quredis("quiet", "mail").code == 0
    wait_for(lambda: {q["name"]: q["state"] for q in status(d)["queues"]} == {"mail": "quiet", "other": "running"})
    c.lpush("ingress:mail", "a")
    c.lpush("ingress:other", "b")
    wait_for(lambda: c.llen("ingress:other") == 0)
    assert c.llen("ingress:mail") == 1
    assert d.quredis("quiet", "mail", "--off").code == 0
    wait_for(lambda: c.llen("ingress:mail") == 0)
    assert d.quredis("quiet").code == 0 and status(d)["state"] == "quiet"
    assert d.quredis("quiet", "--off").code == 0 and status(d)["state"] == "running"
    assert d.quredis("quiet", "nope").code == 66


@pytest.mark.parametrize("more", [[], ["--fast"]])
def test_stop_waits(quredisd, redis, handler, ledger, more):
    d = quredisd(queues=[queue("mail", ledger.recorder(seconds=1, note_start=True), timeout="9s")])
    redis.client().lpush("ingress:mail", "a")
    wait_for(lambda: ledger.runs("start"))
    assert d.quredis("stop", "--dry-run").code == 0 and d.running()
    r = d.quredis("stop", *more)
    assert (r.code, r.out) == (0, "the supervisor is stopped\n")
    assert [strip(m) for m in redis.client().lrange("ingress:mail", 0, -1)] == ([b"a"] if more else [])
    assert len(ledger.runs()) == (0 if more else 1)
    assert d.wait_exit() == 0


def test_stop_without_waiting(quredisd, redis, handler, tmp):
    d = quredisd(queues=[queue("mail", handler("cat >/dev/null; while ! test -e @TMP@/go; do sleep 0.05; done"), timeout="9s")])
    redis.client().lpush("ingress:mail", "a")
    wait_for(lambda: d.handlers())
    assert d.quredis("stop", "--no-wait").out == "the supervisor is stopping\n"
    assert d.running() and status(d)["state"] == "draining"
    (tmp / "go").touch()
    assert d.wait_exit() == 0


def test_peek_at_what_runs(quredisd, redis, handler, tmp):
    d = quredisd(queues=[queue("mail", handler("cat >/dev/null; while ! test -e @TMP@/go; do sleep 0.05; done"), timeout="60s")])
    redis.client().lpush("ingress:mail", "a")
    wait_for(lambda: d.handlers())
    row, = json.loads(d.quredis("peek", "mail", "transit", "--json").out)
    worker, = status(d)["workers"]
    assert row["worker"] == worker["incarnation"] and row["pid"] == worker["pid"] and row["alive"] and row["elapsed_ms"] >= 0
    # a live claim is left alone by whatever an operator does in good faith
    for words in (["purge", "mail", "transit"], ["retry", "mail", "transit"]):
        r = d.quredis(*words)
        assert r.code == 0 and "0 messages of transit" in r.out and "1 message with live workers" in r.err
    assert d.quredis("destroy", "mail", "--yes").code == 75
    (tmp / "go").touch()
    wait_for(lambda: status(d)["queues"][0]["counters"]["done"] == 1)
    assert d.stop() == 0


def test_elapsed_is_that_worker_s(quredisd, redis, handler, tmp):
    wait = handler("cat >/dev/null; while ! test -e @TMP@/go; do sleep 0.05; done")
    d = quredisd(queues=[queue("first", wait, timeout="60s"), queue("second", wait, timeout="60s")])

    def running(name):
        return next(w["running_ms"] for w in status(d)["workers"] if w["queue"] == name)
    redis.client().lpush("ingress:first", "a")
    wait_for(lambda: (running("first") or 0) > 1000)
    redis.client().lpush("ingress:second", "b")
    wait_for(lambda: running("second") is not None)
    row, = json.loads(d.quredis("peek", "second", "transit", "--json").out)
    assert row["elapsed_ms"] <= running("second")
    (tmp / "go").touch()


def test_pause_is_seen(quredisd, redis, handler):
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler("cat"))])
    assert d.quredis("pause", "mail").code == 0
    wait_for(lambda: status(d)["queues"][0]["state"] == "paused")
    c.lpush("ingress:mail", "a")
    assert d.quredis("resume", "mail").code == 0
    wait_for(lambda: c.llen("ingress:mail") == 0 and status(d)["queues"][0]["state"] == "running")


def test_the_whole_way_of_a_dead_letter(quredisd, redis, handler, tmp):
    """A message is pushed, fails and is shown; the handler is corrected; the message is retried and done."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler("cat >/dev/null; test -e @TMP@/mended || { echo no such user >&2; exit 3; }"))])
    message = b"quredis/1 id=order-5\n\x00\xffbinary\n"
    assert d.quredis("push", "mail", input=message).code == 0
    wait_for(lambda: c.llen("escape:mail") == 1)
    row, = json.loads(d.quredis("dlq", "ls", "mail", "--json").out)
    assert row["id"] == "order-5" and row["error_class"] == "HandlerExit" and row["exit_code"] == 3
    shown = json.loads(d.quredis("dlq", "show", "mail", "--json", "order-5").out)
    assert shown["stderr"] == "no such user\n" and shown["size"] == len(message)
    assert c.lrange("escape:mail", 0, -1) == [message]
    (tmp / "mended").touch()
    assert d.quredis("dlq", "retry", "mail", row["record"]).code == 0
    wait_for(lambda: status(d)["queues"][0]["counters"]["done"] == 1)
    assert not c.exists("escape:mail") and c.xlen("escape:mail:log") == 0


def test_push_delayed_comes_in_time(quredisd, redis, handler, ledger):
    d = quredisd(queues=[queue("mail", ledger.recorder())])
    assert d.quredis("push", "mail", "later", "--delay", "1s").code == 0
    assert d.quredis("push", "mail", "now").code == 0
    wait_for(lambda: len(ledger.runs()) == 2)
    assert [r.payload for r in ledger.runs()] == [b"now", b"later"]


# ---- run: no supervisor needed ----

def write_conf(tmp, redis, *queues):
    from harness import render
    conf = tmp / "quredis.conf"
    conf.write_text(render({"redis": {"url": redis.url}, "queues": list(queues)}))
    return conf


def test_run_is_not_refused_because_of_another_queue(quredis, redis, handler, tmp):
    good, bad = handler("cat >/dev/null", name="good"), handler("cat", name="bad")
    conf = write_conf(tmp, redis, queue("mail", good), queue("fax", bad), queue("tube", good, run_as={"user": "nobody-of-that-name"}))
    os.unlink(bad)
    assert quredis("run", "mail", "message", conf=conf).code == 0
    r = quredis("run", "fax", "message", conf=conf)
    assert r.code == 78 and f"execve {bad}: No such file or directory" in r.out + r.err and "nobody-of" not in r.err
    r = quredis("run", "tube", "message", conf=conf)
    assert r.code == 78 and "nobody-of-that-name" in r.err


@pytest.mark.parametrize("body, outcome, code", [
    ("cat >/dev/null", "done", 0), ("exit 75", "retry", 75), ("exit 65", "escape", 65), ("exit 3", "failed attempt", 1),
    ("kill -9 $$", "failed attempt", 1), ("exec sleep 100", "failed attempt", 1)])
def test_run(quredis, redis, handler, tmp, body, outcome, code):
    conf = write_conf(tmp, redis, queue("mail", handler(body), timeout="500ms", kill_grace="500ms"))
    r = quredis("run", "mail", "message", "--json", conf=conf)
    assert (r.code, json.loads(r.out)["outcome"]) == (code, outcome), r.err
    assert redis.client().keys() == []


ANSWERS = {
    "ok": ("print('OK', serial, flush=True)", "done", 0, "OK"),
    "retry": ("print('RETRY', serial, '5s', 'busy', flush=True)", "retry", 75, "RETRY: busy"),
    "fail": (r"sys.stdout.buffer.write(b'FAIL %d \\xff\\n' % serial); sys.stdout.flush()", "failed attempt", 1, None),
    "reject": ("print('REJECT', serial, 'no mail', flush=True)", "escape", 65, "REJECT: no mail"),
    "exit": ("sys.exit(3)", "breaker", 1, "it ended before it answered: exit status 3"),
    "stray": ("print('OK', 7, flush=True)", "failed attempt", 1,
              "no answer within its timeout: it wrote 1 line that is no answer: `OK 7` (it names no unanswered job, or is malformed)"),
    "small": ("print('ok 4', flush=True)", "failed attempt", 1,
              "no answer within its timeout: it wrote 1 line that is no answer: `ok 4` (answers are in capitals)"),
    "silent": ("time.sleep(100)", "failed attempt", 1, "no answer within its timeout: is its output flushed?"),
}
SAYS = {    # of an exec handler, on its reply_fd
    "echo 'RETRY 5s class=Busy later' >&3": ("retry", 75, "RETRY: later", "Busy"),
    "echo 'REJECT no mail' >&3; exit 1": ("escape", 65, "REJECT: no mail", None),
    "echo FAIL >&3": ("failed attempt", 1, "FAIL", None),
    "echo REJECT >&3; kill -9 $$": ("failed attempt", 1, "killed by SIGKILL", None),
}


@pytest.mark.parametrize("body", SAYS)
def test_run_a_handler_that_replies(quredis, redis, handler, tmp, body):
    conf = write_conf(tmp, redis, queue("mail", handler(body), reply_fd=3))
    r = quredis("run", "mail", "message", "--json", conf=conf)
    seen = json.loads(r.out)
    assert (seen["outcome"], r.code, seen["reason"], seen.get("class")) == SAYS[body], r.err


HOLD = "HOLD 2m too many"
DELAYS = {"RETRY 90s busy": 90000, "RETRY busy": None, HOLD: 120000, "HOLD busy": 30000, "HOLD 9d busy": 86400000, "FAIL busy": None}


@pytest.mark.parametrize("stays", [False, True])
def test_run_shows_the_delay_that_a_handler_asks_for(quredis, redis, handler, tmp, stays):
    """As a worker would take it."""
    c = redis.client()
    for said, delay in DELAYS.items():
        verb, _, rest = said.partition(" ")
        body = STAYS.replace("@ANSWER@", f"print('{verb}', serial, '{rest}', flush=True)") if stays else f"echo {said} >&3"
        conf = write_conf(tmp, redis, queue("mail", handler(body), **({"mode": "persistent"} if stays else {"reply_fd": 3})))
        seen = json.loads(quredis("run", "mail", "message", "--json", conf=conf).out)
        assert seen.get("delay_ms") == delay and (said != HOLD or (seen["outcome"], seen["reason"]) == ("hold", "HOLD: too many")), (said, seen)
        assert said != HOLD or re.search(r"^ *delay +2m00s$", quredis("run", "mail", "message", conf=conf).out, re.M)
    assert not c.exists("quredis:of:ingress:mail:paused")


EMITS = r"printf 'EMIT thumbs 5\n1.png\nEMIT fax 3 delay=90s\n\377\000x\n' >&3; "


@pytest.mark.parametrize("end", ["exit 0", "exit 75", "echo RETRY >&3"])
def test_run_shows_what_a_handler_emits(quredis, redis, handler, tmp, end):
    """If its message is done: otherwise a worker pushes nothing."""
    good = handler("cat >/dev/null", name="good")
    mail = queue("mail", handler(EMITS + end), reply_fd=3, emit={"queues": ["thumbs", "fax"]})
    conf = write_conf(tmp, redis, mail, queue("thumbs", good), queue("fax", good))
    seen = json.loads(quredis("run", "mail", "message", "--json", conf=conf).out)
    table = quredis("run", "mail", "message", conf=conf).out
    if end == "exit 0":
        assert seen["emitted"] == [{"queue": "thumbs", "delay_ms": 0, "size": 5, "message": "1.png"},
                                   {"queue": "fax", "delay_ms": 90000, "size": 3, "message_base64": "/wB4"}]
        assert re.search(r"^ *thumbs +- +5 +1\.png$", table, re.M) and re.search(r"^ *fax +1m30s +3 ", table, re.M)
    else:
        assert not seen.get("emitted") and seen["outcome"] == "retry" and "thumbs" not in table
    assert redis.client().keys() == []


STAYS = """exec /usr/bin/python3 -c "
import sys, time
for head in sys.stdin.buffer:
    word, serial, attempt, size = head.split()[:4]
    serial, body = int(serial), sys.stdin.buffer.read(int(size) + 1)[:-1]
    sys.stderr.write('body %r attempt %s\\n' % (body, attempt.decode()))
    @ANSWER@
" """


@pytest.mark.parametrize("answer", ANSWERS)
def test_run_a_persistent_handler(quredis, redis, handler, tmp, answer):
    body, outcome, code, reason = ANSWERS[answer]
    conf = write_conf(tmp, redis, queue("mail", handler(STAYS.replace("@ANSWER@", body)), mode="persistent", timeout="3s", kill_grace="500ms"))
    r = quredis("run", "mail", "message", "--json", conf=conf)
    seen = json.loads(r.out)
    assert (r.code, seen["outcome"], seen.get("reason")) == (code, outcome, reason), r.err
    assert "reason_base64" in seen or reason
    assert "body b'message' attempt 1" in r.err and redis.client().keys() == []


def test_run_a_persistent_handler_that_stays_when_told_to_go(quredis, redis, handler, tmp):
    body = "print('OK', serial, flush=True); open('@TMP@/pid', 'w').write(str(__import__('os').getpid())); time.sleep(1000)"
    conf = write_conf(tmp, redis, queue("mail", handler(STAYS.replace("@ANSWER@", body)), mode="persistent", kill_grace="500ms"))
    assert quredis("run", "mail", "message", conf=conf).code == 0
    assert not alive(int((tmp / "pid").read_text()))


def test_run_sees_what_a_worker_would_show(quredis, redis, handler, ledger, tmp):
    conf = write_conf(tmp, redis, queue("mail", ledger.recorder(exit=3), env=["COLOUR=red"], max_attempts=5))
    payload = os.urandom(3000)
    assert quredis("run", "mail", conf=conf, input=b"quredis/1 id=order-5\n" + payload).code == 1
    run, = ledger.runs()
    assert run.payload == payload and run.id == "order-5" and run.queue == "mail" and run.attempt == "1"
    assert run.env["COLOUR"] == "red" and run.env["QUREDIS_MAX_ATTEMPTS"] == "5"


@pytest.mark.parametrize("which", ["ingress", "escape", "delayed"])
def test_run_on_a_copy(quredis, redis, ledger, tmp, which):
    from harness.queues import dumps
    c = redis.client()
    q = Queue(c)
    conf = write_conf(tmp, redis, queue("mail", ledger.recorder()))
    r = quredis("run", "mail", "--from", which, conf=conf)
    assert r.code == 66 and "there is no message" in r.err
    wrapped = sealed(c, b"quredis/1 w=00000000000000aa attempts=2\nbody")
    if which == "delayed":
        c.zadd(q.delayed, {wrapped: 9e12})
    else:
        c.lpush(getattr(q, which), "older", wrapped)
    before = dumps(c)
    assert quredis("run", "mail", "--from", which, conf=conf).code == 0
    run, = ledger.runs()
    assert run.payload == b"body" and run.attempt == "3" and dumps(c) == before


def letters_of(c):
    """Three dead letters, the newest last, and their record ids."""
    q = Queue(c)
    q.dead_letters(b"quredis/1 id=order-1\none", b"quredis/1 id=order-2\ntwo")
    q.record(b"quredis/1 id=order-3\nthree")
    q.client.lpush(q.escape, b"quredis/1 id=order-3\nthree")
    return q, [i.decode() for i, _ in c.xrange(q.log)]


@pytest.mark.parametrize("by", ["record", "message"])
def test_run_on_a_dead_letter_that_is_named(quredis, redis, ledger, tmp, by):
    from harness.queues import dumps
    c = redis.client()
    q, records = letters_of(c)
    conf = write_conf(tmp, redis, queue("mail", ledger.recorder()))
    before = dumps(c)
    named = records[1] if by == "record" else c.xrange(q.log, records[1], records[1])[0][1][b"id"].decode()
    r = quredis("run", "mail", "--from", "escape", "--id", named, "--dry-run", conf=conf)
    assert r.code == 0 and "would run" in r.err and f"record {records[1]}" in r.err and ledger.runs() == []
    r = quredis("run", "mail", "--from", "escape", "--id", named, conf=conf)
    run, = ledger.runs()
    assert r.code == 0 and (run.payload, run.id) == (b"two", "order-2") and dumps(c) == before
    said = (f"for real, with all its effects, on a copy of message order-2, record {records[1]} (3 bytes). The message stays in escape: "
            f"if the handler succeeds, delete it: quredis dlq rm mail {records[1]}")
    assert said in r.err.splitlines()[0], r.err


def test_run_says_what_it_takes_from_a_list(quredis, redis, ledger, tmp):
    c = redis.client()
    letters_of(c)
    c.lpush("ingress:mail", b"quredis/1 id=order-9\nnine")
    conf = write_conf(tmp, redis, queue("mail", ledger.recorder()))
    r = quredis("run", "mail", "--from", "escape", conf=conf)
    assert "on a copy of message order-3 (5 bytes). The message stays in escape: if the handler succeeds, delete it: quredis dlq rm mail order-3" in r.err
    r = quredis("run", "mail", "--from", "ingress", conf=conf)
    assert "on a copy of message order-9 (4 bytes). The message stays in ingress: a worker runs it again when its turn comes" in r.err
    assert "for real" not in quredis("run", "mail", "x", conf=conf).err


def test_run_names_a_function_and_not_its_interpreter(quredis, redis, tmp):
    (tmp / "jobs.py").write_text("def handle(message):\n    pass\n")
    conf = write_conf(tmp, redis, {"name": "mail", "function": f"{tmp}/jobs.py:handle"})
    r = quredis("run", "mail", "x", "--dry-run", conf=conf)
    assert r.code == 0 and f"would run {tmp}/jobs.py:handle on a message of 1 bytes" in r.err


def test_run_on_a_dead_letter_that_does_not_exist(quredis, redis, ledger, tmp):
    c = redis.client()
    q, records = letters_of(c)
    c.xadd(q.log, {"id": "invoice-2026-11-24", "error_class": "HandlerExit", "sha1": "0" * 40, "size": "1", "message": ""})
    conf = write_conf(tmp, redis, queue("mail", ledger.recorder()))
    wrong = next(one for digit in "0123456789" if (one := records[0][:-4] + digit + records[0][-3:]) not in records)
    for named, said in [("invoice-2026-11-25", "has no record or message invoice-2026-11-25 (did you mean invoice-2026-11-24?)"),
                        ("invoice", "has no record or message invoice (did you mean invoice-2026-11-24?)"),
                        ("something-else", "has no record or message something-else\n"), (wrong, f"has no record {wrong} (did you mean {records[0][:8]}"),
                        ("5-5", "has no record 5-5\n")]:
        for command in (["run", "mail", "--from", "escape", "--id", named], ["dlq", "show", "mail", named], ["dlq", "retry", "mail", named]):
            r = quredis(*command, conf=conf)
            assert r.code == 66 and said in r.err, r
    assert ledger.runs() == []


def test_run_refused(quredis, redis, handler, tmp):
    conf = write_conf(tmp, redis, queue("mail", handler("cat")))
    assert quredis("run", "nope", "x", conf=conf).code == 66
    assert quredis("run", "mail", "x", "--from", "ingress", conf=conf).code == 64
    assert quredis("run", "mail", "--from", "transit", conf=conf).code == 64
    for args in (["--id", "1-1"], ["x", "--id", "1-1"], ["--from", "ingress", "--id", "1-1"]):
        r = quredis("run", "mail", *args, conf=conf, input=b"")
        assert r.code == 64 and "requires --from escape" in r.err
    conf = write_conf(tmp, redis, queue("mail", "/no/such/handler"))
    r = quredis("run", "mail", "x", conf=conf)
    assert r.code == 78 and "/no/such/handler" in r.out


def test_run_leaves_no_process(quredis, redis, handler, tmp):
    conf = write_conf(tmp, redis, queue("mail", handler("setsid sleep 1000 & echo $! >@TMP@/pid; exit 0")))
    assert quredis("run", "mail", "x", conf=conf).code == 0
    assert not alive(int((tmp / "pid").read_text()))


def test_run_interrupted(redis, handler, tmp):
    import signal
    conf = write_conf(tmp, redis, queue("mail", handler("echo $$ >@TMP@/pid; exec sleep 1000"), timeout="60s", kill_grace="60s"))
    p = subprocess.Popen([QUREDIS, "-c", conf, "run", "mail", "x"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    pid = int(wait_for(lambda: (tmp / "pid").exists() and (tmp / "pid").read_text().strip()))
    p.send_signal(signal.SIGINT)
    out, _ = p.communicate(timeout=30)
    assert p.returncode == -signal.SIGINT and b"interrupted" in out and not alive(pid)
