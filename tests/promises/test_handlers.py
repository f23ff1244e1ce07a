"""Handlers that behave badly, and what every handler is given: environment, user, limits, input, time."""
import collections
import json
import os
import pwd
import resource
import subprocess
import time

import pytest

from harness import alive, descendants_of, leave_one_descriptor, open_files, queue, wait_for
from harness.messages import anywhere, record, unwrap

QUICK = {"base": "1ms", "cap": "5ms", "jitter": 0.0}
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

NASTY = r'''
import ctypes, os, resource, signal, subprocess, sys, time
kind = os.environ["QUREDIS_ID"].split("-")[0]
if kind == "flood":                     # 10 MB on both outputs
    for _ in range(160):
        os.write(1, b"spam " * 13107 + b"\n")
        os.write(2, b"\0\x1b[31m%n" * 8192)
elif kind == "daemon":                  # forks twice, own session, closes everything, ignores what can be ignored
    if os.fork() == 0:
        os.setsid()
        if os.fork() > 0:
            os._exit(0)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        os.closerange(0, 256)
        time.sleep(600)
    time.sleep(0.1)
elif kind == "holder":                  # a child in another session keeps both outputs open
    subprocess.Popen(["setsid", "sleep", "600"])
elif kind == "deaf":                    # ignores TERM
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)
elif kind == "stopped":                 # stops itself: TERM alone would not reach it
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(600)
elif kind == "close":                   # closes stdin at once, lives on
    os.close(0)
    time.sleep(0.1)
elif kind == "blind":                   # exits without reading
    pass
elif kind == "mute":                    # closes both outputs, lives on
    os.close(1); os.close(2)
    time.sleep(0.1)
elif kind == "core":
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    os.chdir("@TMP@/cores")
    os.abort()
elif kind == "group":                   # kills its whole group
    os.kill(0, signal.SIGKILL)
else:
    time.sleep(0.2)                     # long enough that each idle worker gets one
    sys.stdin.buffer.read()
with open("@LEDGER@", "a") as f:
    f.write(os.environ["QUREDIS_ID"] + "\n")
'''
KINDS = "flood daemon holder deaf stopped close blind mute core group".split()
ENDLESS = {"deaf", "stopped"}       # only a timeout ends them


def descriptors(d):
    """worker -> how many, once none of them runs a handler."""
    return {name: len(open_files(pid)) for name, pid in d.workers("mail").items()}


@pytest.mark.limit(180)
def test_nasty_handlers(redis, quredisd, handler, ledger, tmp):
    (tmp / "cores").mkdir()
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler(NASTY, "python"), workers=2, timeout="60s", kill_grace="300ms")],
                 log={"level": "info"})
    d.wait_workers("mail", 2)
    good = [f"good-{i}" for i in range(6)]
    c.lpush("ingress:mail", *[f"quredis/1 id={g}\nx" for g in good[:4]])
    wait_for(lambda: set(good[:4]) <= set(ledger.lines()) and not anywhere(c, "mail"), 40)
    workers, before = d.workers("mail"), descriptors(d)
    threads = {n: len(os.listdir(f"/proc/{p}/task")) for n, p in workers.items()}

    body = b"b" * (1 << 20)
    for kind in KINDS:
        header = f"quredis/1 id={kind}-%d" + (" timeout=4s" if kind in ENDLESS else "") + "\n"
        for n in range(1 if kind in ENDLESS else 2):
            c.lpush("ingress:mail", (header % n).encode() + body)
    wait_for(lambda: not anywhere(c, "mail"), 120, "all of them settled")
    c.lpush("ingress:mail", *[f"quredis/1 id={g}\nx" for g in good[4:]])
    wait_for(lambda: set(good) <= set(ledger.lines()) and not anywhere(c, "mail"), 20, "good ones after the nasty")

    assert d.workers("mail") == workers                                     # no worker died of it
    assert [p for p in d.handlers() if alive(p)] == []
    assert descendants_of(workers["mail/0"]) == descendants_of(workers["mail/1"]) == []
    assert descriptors(d) == before
    assert {n: len(os.listdir(f"/proc/{p}/task")) for n, p in workers.items()} == threads
    escaped = collections.Counter(r[b"id"].decode().split("-")[0] for _, r in c.xrange("escape:mail:log"))
    assert escaped == {"deaf": 1, "stopped": 1, "core": 2, "group": 2}
    classes = {r[b"id"].decode().split("-")[0]: (r[b"error_class"], r[b"signal"]) for _, r in c.xrange("escape:mail:log")}
    assert classes == {"deaf": (b"HandlerTimeout", b"SIGKILL"), "stopped": (b"HandlerTimeout", b"SIGTERM"),
                       "core": (b"HandlerSignal", b"SIGABRT"), "group": (b"HandlerSignal", b"SIGKILL")}
    done = collections.Counter(ledger.lines())
    assert {k for k, n in done.items() if n != 1} == set()
    assert len(d.lines) < 20000 and d.events("handler_output_dropped")         # 20 MB did not all go to the log


def test_children_of_a_handler_are_gone_before_the_message_is_done(redis, quredisd, handler, tmp):
    c = redis.client()
    quredisd(queues=[queue("mail", handler(
        "setsid sh -c 'echo $$ >@TMP@/child; exec sleep 600' &\nwhile ! [ -s @TMP@/child ]; do sleep 0.01; done"))])
    c.lpush("ingress:mail", "x")
    wait_for(lambda: not anywhere(c, "mail") and (tmp / "child").exists())
    assert not alive(int((tmp / "child").read_text()))


def test_timeout_gives_grace(redis, quredisd, handler, tmp):
    """TERM first, and time to clean up."""
    c = redis.client()
    quredisd(queues=[queue("mail", handler(
        "trap 'sleep 0.3; echo cleaned >@TMP@/f; exit 1' TERM; while :; do sleep 0.02; done"),
                           timeout="1s", kill_grace="20s")])
    c.lpush("ingress:mail", "x")
    wait_for(lambda: c.llen("escape:mail") == 1)
    assert (tmp / "f").read_text() == "cleaned\n"
    r = record(c, "mail")
    assert r["error_class"] == b"HandlerTimeout" and 1300 <= int(r["duration_ms"]) < 20000


def test_output_goes_to_the_log_line_by_line(redis, quredisd, handler):
    d = quredisd(queues=[queue("mail", handler(r'printf "one\ntwo \"q\" \033[1m\nhalf" ; printf "err\n" >&2'))])
    redis.client().lpush("ingress:mail", "quredis/1 id=m1\nx")
    wait_for(lambda: len(d.events("handler_output", queue="mail", id="m1")) >= 4)
    lines = d.events("handler_output")
    texts = [next(v for k, v in e.items() if k in ("line", "text", "message")) for e in lines]
    assert sorted(texts)[:2] == ["err", "half"] and "one" in texts and any("two" in t for t in texts)
    assert not any("\x1b" in line for line in d.lines)


SHOW = r'''
import json, os, resource, signal, sys
status = open("/proc/self/status").read()
json.dump({
    "env": dict(os.environ), "argv": sys.argv[1:], "stdin": sys.stdin.buffer.read().decode(), "cwd": os.getcwd(),
    "uid": os.getresuid(), "gid": os.getresgid(), "groups": os.getgroups(),
    "umask": os.umask(0), "nice": os.nice(0),
    "sid": os.getsid(0) == os.getpid(), "pgid": os.getpgid(0) == os.getpid(),
    "fds": sorted(map(int, os.listdir("/proc/self/fd"))),
    "limits": {n: resource.getrlimit(getattr(resource, n)) for n in (
        "RLIMIT_DATA", "RLIMIT_NOFILE", "RLIMIT_NPROC", "RLIMIT_CPU", "RLIMIT_FSIZE")},
    "nnp": "NoNewPrivs:\t1" in status, "oom": open("/proc/self/oom_score_adj").read().strip(),
    "blocked": [l.split()[1] for l in status.split("\n") if l.startswith("SigBlk")][0],
    "ignored": [l.split()[1] for l in status.split("\n") if l.startswith("SigIgn")][0],
}, open("@TMP@/open/" + os.environ["QUREDIS_ID"] + ".new", "w"))
os.rename("@TMP@/open/" + os.environ["QUREDIS_ID"] + ".new", "@TMP@/open/" + os.environ["QUREDIS_ID"])
'''


def shown(redis, tmp, message=f"quredis/1 id=m1 request_id=r-7 traceparent={TRACEPARENT}\nhello"):
    redis.client().lpush("ingress:mail", message)
    wait_for((tmp / "open/m1").exists, 30)
    return json.loads((tmp / "open/m1").read_text())


@pytest.fixture
def show(handler, tmp):
    (tmp / "open").mkdir()
    (tmp / "open").chmod(0o777)
    return handler(SHOW, "python")


def test_what_a_handler_is_given(redis, quredisd, show, tmp, tag):
    d = quredisd(queues=[queue("mail", show, "--fast", "a b", env=["MODE=quick", "PASSED", "ABSENT"], timeout="77s",
                               max_attempts=4)],
                 env={"PASSED": "through", "SECRET": "s"})
    before = time.time()
    got = shown(redis, tmp)
    env = got["env"]
    assert (got["argv"], got["stdin"], got["cwd"]) == (["--fast", "a b"], "hello", "/")
    assert {k: env.get(k) for k in ("QUREDIS_QUEUE", "QUREDIS_ID", "QUREDIS_ATTEMPT", "QUREDIS_MAX_ATTEMPTS",
                                    "QUREDIS_REDELIVERED", "QUREDIS_REQUEST_ID", "QUREDIS_SIZE", "TRACEPARENT", "MODE", "PASSED")} == {
        "QUREDIS_QUEUE": "mail", "QUREDIS_ID": "m1", "QUREDIS_ATTEMPT": "1", "QUREDIS_MAX_ATTEMPTS": "4",
        "QUREDIS_REDELIVERED": "0", "QUREDIS_REQUEST_ID": "r-7", "QUREDIS_SIZE": "5", "TRACEPARENT": TRACEPARENT, "MODE": "quick", "PASSED": "through"}
    assert env["QUREDIS_INCARNATION"].startswith(tag + ".")
    assert before + 76 < int(env["QUREDIS_DEADLINE"]) / 1000 < time.time() + 78
    assert not {"SECRET", "ABSENT", "QUREDIS_TEST_TAG", "QUREDIS_BUILD", "NOTIFY_SOCKET"} & set(env)
    assert got["fds"][:3] == [0, 1, 2] and len(got["fds"]) <= 4           # and the one that lists them
    assert got["sid"] and got["pgid"] and got["nnp"] and got["umask"] == 0o077
    assert int(got["blocked"], 16) == 0
    python_ignores = {13, 25}                      # SIGPIPE, SIGXFSZ: Python's own doing
    assert {n for n in range(1, 65) if int(got["ignored"], 16) >> (n - 1) & 1} <= python_ignores
    assert d.running()


def test_the_log_names_the_trace_of_a_message(redis, quredisd, handler):
    d = quredisd(queues=[queue("mail", handler("echo tried; exit 1"), max_attempts=2, backoff=QUICK)])
    redis.client().lpush("ingress:mail", f"quredis/1 id=m1 traceparent={TRACEPARENT}\nhello", "quredis/1 id=m2 traceparent=00-0-0-01\nhello")
    wait_for(lambda: redis.client().llen("escape:mail") == 2)
    wait_for(lambda: len(d.events("message_escaped")) == 2)
    for event in ("handler_output", "message_retried", "message_escaped"):
        assert {(e["id"], e.get("traceparent")) for e in d.events(event)} == {("m1", TRACEPARENT), ("m2", None)}, event


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_run_as(redis, quredisd, show, tmp):
    nobody = pwd.getpwnam("nobody")
    quredisd(queues=[queue("mail", show, run_as={"user": "nobody", "directory": "/tmp", "umask": "027", "nice": 5})],
             env={"HOME": "/root", "USER": "root"})
    got = shown(redis, tmp)
    assert got["uid"] == [nobody.pw_uid] * 3 and got["gid"] == [nobody.pw_gid] * 3
    assert set(got["groups"]) <= {nobody.pw_gid} and 0 not in got["groups"]
    assert (got["cwd"], got["umask"], got["nice"]) == ("/tmp", 0o027, os.nice(0) + 5)
    assert (got["env"]["HOME"], got["env"]["USER"], got["env"]["LOGNAME"]) == (nobody.pw_dir, "nobody", "nobody")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_a_switched_user_that_may_not_enter_opens_the_breaker(redis, quredisd, handler, tmp):
    closed = tmp / "closed"
    closed.mkdir(mode=0o700)
    d = quredisd(queues=[queue("mail", handler("exit 0"), run_as={"user": "nobody", "directory": closed})])
    redis.client().lpush("ingress:mail", "x")
    line = d.wait_event("breaker_opened", 30)
    assert line["at"] == "chdir" and "ermission" in line["error"]
    closed.chmod(0o755)
    wait_for(lambda: not anywhere(redis.client(), "mail"), 60)
    assert redis.client().llen("escape:mail") == 0


def test_limits(redis, quredisd, show, tmp):
    quredisd(queues=[queue("mail", show, limits={"memory": "300M", "open_files": 77, "processes": 1000, "cpu": "30s",
                                                 "file_size": "1M", "oom_score_adj": 500})])
    got = shown(redis, tmp)
    limits = {k: v[0] for k, v in got["limits"].items()}
    assert limits == {"RLIMIT_DATA": 300 << 20, "RLIMIT_NOFILE": 77, "RLIMIT_NPROC": 1000, "RLIMIT_CPU": 30,
                      "RLIMIT_FSIZE": 1 << 20}
    assert got["oom"] == "500"


def test_the_limit_bites_the_handler_and_nobody_else(redis, quredisd, handler, ledger):
    eater = handler("import sys\nb = sys.stdin.read()\nif b == 'eat':\n    x = bytearray(200 << 20)\n"
                    "open('@LEDGER@', 'a').write(b + '\\n')", "python")
    c = redis.client()
    d = quredisd(queues=[queue("mail", eater, limits={"memory": "100M"})])
    workers = d.wait_workers("mail", 1)
    c.lpush("ingress:mail", "eat", "small")
    wait_for(lambda: not anywhere(c, "mail"), 30)
    assert ledger.lines() == ["small"] and c.lrange("escape:mail", 0, -1) == [b"eat"] and d.workers("mail") == workers
    assert b"MemoryError" in record(c, "mail")["stderr"]


def test_input_argv(redis, quredisd, show, handler, tmp):
    c = redis.client()
    quredisd(queues=[queue("mail", show, "--to", input="argv")])
    got = shown(redis, tmp, "quredis/1 id=m1\n$(reboot) 'x' \n*")
    assert (got["argv"], got["stdin"]) == (["--to", "$(reboot) 'x' \n*"], "")
    c.lpush("ingress:mail", b"a\0b", b"l" * (100 * 1024 + 1))
    wait_for(lambda: c.llen("escape:mail") == 2)
    assert [r[b"error_class"] for _, r in c.xrange("escape:mail:log")] == [b"Unrepresentable"] * 2
    c.lpush("ingress:mail", b"quredis/1 id=m2\n" + b"l" * (100 * 1024))
    wait_for((tmp / "open/m2").exists)
    assert len(json.loads((tmp / "open/m2").read_text())["argv"][1]) == 100 * 1024


def test_the_deadline_of_a_header_is_capped(redis, quredisd, handler):
    c = redis.client()
    quredisd(queues=[queue("mail", handler("exec sleep 600"), timeout="400ms", workers=2)])
    c.lpush("ingress:mail", "quredis/1 id=short timeout=100ms\nx", "quredis/1 id=long timeout=1h\nx")
    wait_for(lambda: c.llen("escape:mail") == 2)
    took = {r[b"id"]: int(r[b"duration_ms"]) for _, r in c.xrange("escape:mail:log")}
    assert 100 <= took[b"short"] < 400 + 4000 and 400 <= took[b"long"] < 8000 and took[b"short"] < took[b"long"]


def test_what_is_not_limited_is_inherited(redis, quredisd, handler):
    c = redis.client()
    quredisd(queues=[queue("mail", handler("ulimit -n >&2; exit 1"))])
    c.lpush("ingress:mail", "x")
    wait_for(lambda: c.llen("escape:mail") == 1)
    assert int(record(c, "mail")["stderr"]) == resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def test_no_handler_reaches_the_supervisors_descriptors(redis, quredisd, handler, tmp):
    """Neither Redis's socket nor the lock: nothing but 0-2 is open, also in a script's children."""
    quredisd(queues=[queue("mail", handler("ls -l /proc/self/fd >@TMP@/fds; cat >/dev/null"))])
    redis.client().lpush("ingress:mail", "x")
    wait_for(lambda: (tmp / "fds").exists() and not anywhere(redis.client(), "mail"))
    targets = [line.split(" -> ")[1] for line in (tmp / "fds").read_text().splitlines() if " -> " in line]
    assert not [t for t in targets if "socket" in t or "lock" in t], targets


def test_no_descriptors_left_for_a_handler(redis, quredisd, handler, ledger):
    """It is not started, the message waits where it is, and nothing is charged."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler('read -r m; echo "$m $QUREDIS_ATTEMPT $QUREDIS_REDELIVERED" >>@LEDGER@'))])
    worker = d.wait_workers("mail", 1)["mail/0"]
    c.lpush("ingress:mail", "first")
    wait_for(lambda: ledger.lines() and not anywhere(c, "mail"))
    leave_one_descriptor(worker)
    c.lpush("ingress:mail", "a")
    assert d.wait_event("handler_not_started")["error"]
    assert anywhere(c, "mail") == [b"a"]
    resource.prlimit(worker, resource.RLIMIT_NOFILE, (1024, 1024))
    wait_for(lambda: not anywhere(c, "mail"), 30)
    assert ledger.lines() == ["first 1 0", "a 1 0"] and d.workers("mail") == {"mail/0": worker}


@pytest.mark.parametrize("mode, window", [("exec", None), ("persistent", 4)], ids=["exec", "window"])
def test_a_worker_that_cannot_start_a_handler_leaves_its_messages_to_another(redis, quredisd, handler, ledger, mode, window):
    c = redis.client()
    body = 'read -r m; echo "$m $QUREDIS_REDELIVERED" >>@LEDGER@'
    if window:
        body = """while read -r _ serial rest; do
            read -r m
            case $rest in *redelivered=*) m="$m again";; esac
            echo "$m 0" >>@LEDGER@
            echo "OK $serial"
        done"""
    d = quredisd(queues=[queue("mail", handler(body), workers=2, mode=mode, window=window)])
    starved = d.wait_workers("mail", 2)["mail/0"]
    limits = leave_one_descriptor(starved)
    names = [f"m{i}" for i in range(12)]
    for name in names:
        c.lpush("ingress:mail", name)
    d.wait_event("handler_not_started", worker="mail/0")
    wait_for(lambda: sorted(ledger.lines()) == sorted(f"{n} 0" for n in names) and not anywhere(c, "mail"), 60)
    assert resource.prlimit(starved, resource.RLIMIT_NOFILE)[0] < limits[0] and c.llen("escape:mail") == 0


def test_a_log_that_nobody_reads_stops_nobody(redis, quredisd, handler, ledger):
    """A full pipe, then a closed one."""
    d = quredisd(queues=[queue("mail", handler('yes spam | head -c 1000000; read -r m; echo "$m" >>@LEDGER@'), workers=2)],
                 start=False)
    read, write = os.pipe()
    p = subprocess.Popen(d.command(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=write, env=d.environment(),
                         cwd="/")
    os.close(write)
    try:
        redis.client().lpush("ingress:mail", *[f"m{i}" for i in range(10)])
        wait_for(lambda: len(ledger.lines()) == 10, 60)
        os.close(read)
        redis.client().lpush("ingress:mail", "last")
        wait_for(lambda: ledger.count("last"), 30)
    finally:
        p.terminate()
        code = p.wait(30)
    assert code == 0


def test_unwrap_of_what_was_handed_back_is_what_was_pushed():
    assert unwrap(b"quredis/1 w=0123456789abcdef redelivered=1\nquredis/1 id=a\nb") == ({"redelivered": 1},
                                                                                      b"quredis/1 id=a\nb")
    assert unwrap(b"quredis/1 id=a\nb") == ({}, b"quredis/1 id=a\nb")
