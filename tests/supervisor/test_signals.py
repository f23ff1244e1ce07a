"""Signals to the master, one by one."""
import os
import pathlib
import signal
import time

import pytest

from harness import alive, children_of, queue, wait_for
from harness.control import ask, status
from harness.messages import anywhere

IGNORED_BY_CHILDREN = ["INT", "HUP", "QUIT", "USR1", "USR2", "TSTP", "TTIN", "TTOU", "WINCH", "PIPE", "XFSZ"]

GATED = "read -r m; echo $m >>@LEDGER@; while ! [ -e @TMP@/go ]; do sleep 0.02; done; echo done-$m >>@LEDGER@"


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_idle_it_is_gone_at_once(quredisd, sig):
    d = quredisd(queues=[queue("mail", "/bin/true", workers=3), queue("other", "/bin/true")])
    wait_for(lambda: all(w["state"] == "idle" for w in status(d)["workers"]))
    below = children_of(d.pid)
    begin = time.monotonic()
    assert d.stop(sig) == 0
    assert time.monotonic() - begin < 10
    assert not any(map(alive, below))


def test_stop_is_an_exit_0_before_anything_is_up(quredisd, redis_server):
    d = quredisd(queues=[queue("mail", "/bin/true")], redis=redis_server(start=False), wait=False)
    d.wait_event("sweeper_started")
    assert d.stop() == 0


def test_repeated_term_changes_nothing_and_the_second_int_is_fast(redis, quredisd, handler, ledger, tmp):
    d = quredisd(queues=[queue("mail", handler(GATED), timeout="60s")], supervisor={"drain_timeout": "50s"})
    redis.client().lpush("ingress:mail", "a")
    wait_for(lambda: ledger.lines() == ["a"])
    for _ in range(3):
        d.signal(signal.SIGTERM)
        d.wait_event("signal_received", signal="SIGTERM")
    d.signal(signal.SIGINT)
    d.wait_event("signal_received", signal="SIGINT")
    assert len(d.events("stopping")) == 1 and d.events("stopping")[0]["how"] == "drain"
    assert d.running() and d.workers("mail")
    d.signal(signal.SIGINT)
    assert d.wait_exit() == 0
    assert d.events("stopping")[-1]["how"] == "fast"
    assert len(redis.client().lrange("ingress:mail", 0, -1)) == 1
    assert ledger.lines() == ["a"]


def test_tstp_fetches_nothing_until_cont(redis, quredisd, ledger):
    d = quredisd(queues=[queue("mail", ledger.recorder(), workers=2)])
    d.signal(signal.SIGTSTP)
    wait_for(lambda: status(d)["state"] == "quiet")
    wait_for(lambda: all(w["state"] == "waiting" for w in status(d)["workers"]))
    d.wait_event("queue_state", queue="mail", state="quiet")
    c = redis.client()
    c.lpush("ingress:mail", "a")
    before = [w["heartbeat_age_ms"] for w in status(d)["workers"]]
    wait_for(lambda: [w["heartbeat_age_ms"] for w in status(d)["workers"]] != before)
    assert c.llen("ingress:mail") == 1 and ledger.runs() == []
    d.signal(signal.SIGCONT)
    wait_for(lambda: len(ledger.runs()) == 1)
    assert status(d)["state"] == "running"
    d.wait_event("queue_state", queue="mail", state="running")


def test_cont_does_not_undo_a_stop(redis, quredisd, handler, ledger, tmp):
    d = quredisd(queues=[queue("mail", handler(GATED))])
    c = redis.client()
    c.lpush("ingress:mail", "a")
    wait_for(lambda: ledger.lines() == ["a"])
    d.signal(signal.SIGTERM)
    d.wait_event("stopping")
    c.lpush("ingress:mail", "b")
    for sig in (signal.SIGTSTP, signal.SIGCONT, signal.SIGHUP):
        d.signal(sig)
        d.wait_event("signal_received", signal=sig.name)
    assert status(d)["state"] == "draining"
    (tmp / "go").touch()
    assert d.wait_exit() == 0
    assert ledger.lines() == ["a", "done-a"] and c.lrange("ingress:mail", 0, -1) == [b"b"]
    assert not d.events("reload_done")


def test_usr1_opens_the_log_again_everywhere(redis, quredisd, tmp, ledger):
    log = tmp / "quredisd.log"
    d = quredisd(queues=[queue("mail", ledger.recorder())], log={"target": str(log)}, wait=False)
    wait_for(lambda: log.exists() and "event=ready" in log.read_text(), what="ready in the file")
    wait_for(lambda: status(d)["workers"][0]["state"] == "idle")
    old = tmp / "old.log"
    os.rename(log, old)
    d.signal(signal.SIGUSR1)
    wait_for(log.exists)

    def holds_old():
        return [pid for pid in [d.pid, *children_of(d.pid)]
                if any(os.path.realpath(f"/proc/{pid}/fd/{fd}") == str(old) for fd in os.listdir(f"/proc/{pid}/fd"))]
    wait_for(lambda: not holds_old(), what="nobody holds the old file")
    redis.client().lpush("ingress:mail", "a")
    wait_for(lambda: len(ledger.runs()) == 1)
    d.signal(signal.SIGUSR2)
    wait_for(lambda: "event=status_worker" in log.read_text())
    assert "status_worker" not in old.read_text()


def test_usr2_writes_a_line_a_queue_and_worker(quredisd):
    d = quredisd(queues=[queue("mail", "/bin/true", workers=2), queue("idle", "/bin/true", workers=0)])
    d.signal(signal.SIGUSR2)
    line = d.wait_event("status_queue", queue="mail")
    assert line["wanted"] == "2" and line["alive"] == "2" and line["done"] == "0" and line["state"]
    assert d.wait_event("status_queue", queue="idle")["alive"] == "0"
    assert d.wait_event("status_worker", worker="mail/0")["child"] == str(d.workers("mail")["mail/0"])
    d.wait_event("status_worker", worker="mail/1")
    assert d.wait_event("status")["workers"] == "2"


def test_what_a_terminal_sends_besides_is_ignored(quredisd):
    d = quredisd(queues=[queue("mail", "/bin/true")])
    for sig in (signal.SIGTTIN, signal.SIGTTOU, signal.SIGWINCH, signal.SIGPIPE):
        d.signal(sig)
    assert status(d)["state"] == "running"
    assert not d.events("signal_received")


def test_children_ignore_the_terminal(quredisd):
    """Blocked and never awaited: a handler then has nothing to undo."""
    d = quredisd(queues=[queue("mail", "/bin/true", workers=2)])
    wait_for(lambda: all(w["state"] == "idle" for w in status(d)["workers"]))
    before = d.children()
    assert len(before) == 3
    for pid in before:
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
        deaf = [int(line.split()[1], 16) for line in text.splitlines() if line.startswith(("SigIgn", "SigBlk"))]
        for name in IGNORED_BY_CHILDREN:
            assert (deaf[0] | deaf[1]) >> (getattr(signal, "SIG" + name) - 1) & 1, f"{before[pid]} hears {name}"
            os.kill(pid, getattr(signal, "SIG" + name))
        os.kill(pid, signal.SIGTERM)            # only makes it look at its order, which is to go on
    serials = [w["heartbeat_age_ms"] for w in status(d)["workers"]]
    wait_for(lambda: [w["heartbeat_age_ms"] for w in status(d)["workers"]] != serials)
    assert d.children() == before


def test_ctrl_c_reaches_everybody_and_still_drains(redis, quredisd, handler, ledger, tmp):
    """A terminal signals the whole foreground group; only the master may act on it."""
    d = quredisd(queues=[queue("mail", handler(GATED))])
    redis.client().lpush("ingress:mail", "a")
    wait_for(lambda: ledger.lines() == ["a"])
    for pid in [*d.children(), d.pid]:
        os.kill(pid, signal.SIGINT)
    d.wait_event("stopping")
    (tmp / "go").touch()
    assert d.wait_exit() == 0
    assert ledger.lines() == ["a", "done-a"]
    assert redis.client().keys("transit:*") == []


def test_signals_that_nobody_awaited_are_not_lost_when_inherited_as_ignored(quredisd, tmp):
    """nohup and shells leave HUP, INT and QUIT ignored; ours count all the same."""
    d = quredisd(queues=[queue("mail", "/bin/true")], start=False)
    old = {s: signal.signal(s, signal.SIG_IGN) for s in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)}
    try:
        d.start()
    finally:
        for s, h in old.items():
            signal.signal(s, h)
    d.signal(signal.SIGHUP)
    d.wait_event("reload_done")
    assert d.stop(signal.SIGINT) == 0


def test_stop_on_the_control_socket_drains(redis, quredisd, handler, ledger, tmp):
    d = quredisd(queues=[queue("mail", handler(GATED))])
    redis.client().lpush("ingress:mail", "a")
    wait_for(lambda: ledger.lines() == ["a"])
    assert ask(d, "stop") == {"ok": True}
    assert status(d)["state"] == "draining" and status(d)["workers"][0]["draining"]
    (tmp / "go").touch()
    assert d.wait_exit() == 0
    assert ledger.lines() == ["a", "done-a"]


def test_a_file_size_limit_ends_no_process(redis, quredisd, handler, ledger, tmp):
    """ulimit -f, as a full disk: it costs lines of the log and of the archive, and no process. A handler has the signal's default."""
    c = redis.client()
    (tmp / "archive").mkdir(mode=0o700)
    d = quredisd(queues=[queue("mail", handler("read -r m; grep SigIgn /proc/self/status >>@LEDGER@; head -c 300 /dev/zero | tr '\\0' x; exit 65"), workers=2,
                               dead_letter={"max_entries": 1, "archive": str(tmp / "archive")})],
                 log={"target": str(tmp / "log")}, metrics={"textfile": str(tmp / "quredis.prom")}, inside=["prlimit", "--fsize=20000"], start=False)
    d.start(wait=False)
    c.lpush("ingress:mail", *[f"m{i}".ljust(200, "x") for i in range(200)])
    wait_for(lambda: len(ledger.lines()) == 200 and not anywhere(c, "mail"), 60)
    wait_for(lambda: (tmp / "log").stat().st_size > 19500)
    assert {line.split()[1] for line in ledger.lines()} == {"0" * 16}
    wait_for(lambda: sum(f.stat().st_size for f in (tmp / "archive").iterdir()) > 15000)
    assert c.llen("escape:mail") > 0
    log = (tmp / "log").read_text()
    assert d.running() and "_died" not in log
    assert d.stop() == 0

