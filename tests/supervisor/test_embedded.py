"""Embedded Redis: its keeper ends after every process that uses Redis, and not later."""
import os
import pathlib
import shutil
import signal
import subprocess

import pytest
import redis as redis_py

from harness import SERVER, alive, children_of, descendants_of, open_files, queue, title_of, wait_for
from harness.control import ask, status


def embedded(quredisd, tmp, queues, **options):
    server = {} if SERVER == "redis-server" else {"server": shutil.which(SERVER)}
    return quredisd(queues=queues, redis={"embedded": True, "dir": tmp / "data", **server}, **options)


def client(tmp):
    return redis_py.Redis(unix_socket_path=str(tmp / "data" / "redis.sock"), retry=None)


def answers(tmp):
    try:
        with client(tmp) as c:
            return c.ping()
    except redis_py.RedisError:
        return False


def keeper(d):
    return status(d)["keeper"]


def redis_pid(d):
    return wait_for(lambda: (k := keeper(d)) and k["redis_pid"])


def push(tmp, *messages):
    wait_for(lambda: answers(tmp))
    with client(tmp) as c:
        for m in messages:
            c.lpush("ingress:mail", m)


def test_no_warning_before_it_can_be_up(quredisd, tmp, ledger):
    """Its first start takes a moment. If it does not come, a warning does."""
    slow = tmp / "slow"
    slow.write_text(f"#!/bin/sh\nsleep 1.5\nexec {shutil.which(SERVER)} \"$@\"\n")
    slow.chmod(0o755)
    d = quredisd(queues=[queue("mail", ledger.recorder())], redis={"embedded": True, "dir": tmp / "data", "server": slow})
    push(tmp, "a")
    wait_for(ledger.runs)
    warnings = [e for e in d.events() if e["level"] != "info" and e["event"] in ("redis_down", "redis_error", "queue_state")]
    assert warnings == []
    os.kill(redis_pid(d), signal.SIGKILL)
    d.wait_event("redis_exited")
    d.wait_event("redis_down")


def test_a_first_start_that_takes_too_long_is_a_warning(quredisd, tmp, ledger):
    never = tmp / "never"
    never.write_text(f"#!/bin/sh\nwhile [ ! -e {tmp}/go ]; do sleep 0.1; done\n")
    never.chmod(0o755)
    d = quredisd(queues=[queue("mail", ledger.recorder())], redis={"embedded": True, "dir": tmp / "data", "server": never})
    d.wait_event("redis_down", 40)
    d.wait_event("redis_error", 40)
    (tmp / "go").touch()


def test_it_starts_private_and_safe(quredisd, tmp, ledger):
    d = embedded(quredisd, tmp, [queue("mail", ledger.recorder())])
    push(tmp, "a")
    assert wait_for(ledger.runs)[0].payload == b"a"
    s = status(d)
    assert (s["redis"]["url"], s["redis"]["embedded"]) == (f"unix://{tmp}/data/redis.sock", True)
    assert os.stat(tmp / "data").st_mode & 0o777 == 0o700
    assert os.stat(tmp / "data" / "redis.sock").st_mode & 0o777 == 0o700
    with client(tmp) as c:
        for key, value in {"port": "0", "appendonly": "yes", "appendfsync": "everysec", "save": "",
                           "maxmemory-policy": "noeviction"}.items():
            assert c.config_get(key) == {key: value}
    k = keeper(d)
    assert title_of(k["pid"]) == "quredisd: keeper" and os.getsid(k["pid"]) == k["pid"] != os.getsid(d.pid)
    assert (tmp / "data" / "redis.log").exists()
    assert d.stop() == 0
    assert not alive(k["pid"]) and not alive(k["redis_pid"])


def test_what_was_pushed_survives_a_restart(quredisd, tmp, ledger):
    d = embedded(quredisd, tmp, [queue("mail", ledger.recorder(), workers=0)])
    push(tmp, "a", "b")
    assert d.stop() == 0
    d.write_conf(queues=[queue("mail", ledger.recorder())])
    d.start()
    wait_for(lambda: [r.payload for r in ledger.runs()] == [b"a", b"b"])


@pytest.mark.parametrize("lost", ["appendonlydir", "appendonlydir/appendonly.aof.manifest"])
def test_data_that_vanished_is_not_taken_for_a_first_start(quredisd, tmp, ledger, lost):
    """Redis would begin with nothing, and overwrite what returns later: neither a new start nor the keeper of a dead Redis lets it."""
    d = embedded(quredisd, tmp, [queue("mail", ledger.recorder(), workers=0)])
    push(tmp, "a", "b")
    assert d.stop() == 0
    data, kept = tmp / "data", tmp / "kept"
    lost = data / (lost if (data / "appendonlydir").exists() else "appendonly.aof")        # Redis 6 has one file
    lost.rename(kept)
    d.write_conf(queues=[queue("mail", ledger.recorder())])
    mark = d.mark()
    d.start()
    for _ in range(2):
        event, mark = d.wait_event("keeper_failed", since=mark), d.mark()
        assert "its append-only file is missing" in event["reason"] and event["dir"] == str(data)
        assert not lost.exists() and not answers(tmp)
    kept.rename(lost)
    wait_for(lambda: [r.payload for r in ledger.runs()] == [b"a", b"b"], 60)
    lost.rename(kept)
    mark = d.mark()
    os.kill(redis_pid(d), signal.SIGKILL)
    d.wait_event("keeper_failed", since=mark)
    assert not lost.exists() and d.stop() == 0
    (data / "quredis.lock").unlink()
    d.start()
    wait_for(lambda: answers(tmp), 60)                         # an operator wants an empty one


def test_data_that_cannot_be_examined_is_not_taken_for_a_first_start(quredisd, tmp, ledger):
    """The look fails, and says nothing about the data: Redis has written some, and may find nothing."""
    d = embedded(quredisd, tmp, [queue("mail", ledger.recorder(), workers=0)])
    push(tmp, "a")
    assert d.stop() == 0
    data, kept = tmp / "data", tmp / "kept"
    lost = data / ("appendonlydir" if (data / "appendonlydir").exists() else "appendonly.aof")        # Redis 6 has one file
    lost.rename(kept)
    (data / "appendonlydir").write_text("")         # ENOTDIR
    d.write_conf(queues=[queue("mail", ledger.recorder())])
    mark = d.mark()
    d.start()
    event = d.wait_event("keeper_failed", since=mark)
    assert event["reason"] == "its append-only file cannot be examined" and event["dir"] == str(data)
    assert not d.events("redis_started", since=mark) and not answers(tmp)
    (data / "appendonlydir").unlink()
    kept.rename(lost)
    wait_for(lambda: [r.payload for r in ledger.runs()] == [b"a"], 60)
    assert d.stop() == 0


def test_redis_goes_last(quredisd, tmp, handler, ledger):
    """A message in work when the stop comes is settled in it."""
    d = embedded(quredisd, tmp, [queue("mail", handler("read -r m; echo $m >>@LEDGER@; sleep 1; echo done >>@LEDGER@"))])
    push(tmp, "a")
    wait_for(lambda: ledger.lines() == ["a"])
    assert d.stop() == 0
    assert ledger.lines() == ["a", "done"]
    d.write_conf(queues=[queue("mail", "/bin/cat", workers=0)])
    d.start()
    wait_for(lambda: answers(tmp))
    with client(tmp) as c:
        assert c.keys("*mail*:[012]") == [] and c.llen("ingress:mail") == 0


def test_a_killed_master_leaves_redis_until_the_workers_are_done(quredisd, tmp, handler, ledger):
    d = embedded(quredisd, tmp, [queue("mail", handler("trap '' TERM; read -r m; echo $m >>@LEDGER@; sleep 1000"))],
                 supervisor={"kill_grace": "6s"})
    push(tmp, "a")
    wait_for(lambda: ledger.lines() == ["a"])
    k, below = keeper(d), descendants_of(d.pid)
    worker = d.workers()["mail/0"]
    d.kill9()
    assert alive(worker) and alive(k["redis_pid"])
    wait_for(lambda: not any(map(alive, below)), 40)
    d.write_conf(queues=[queue("mail", "/bin/cat", workers=0)])
    d.start()
    wait_for(lambda: answers(tmp))
    with client(tmp) as c:
        wait_for(lambda: c.llen("ingress:mail") == 1)          # it was handed back into that Redis


def test_a_start_while_the_last_redis_still_lives_waits_for_it(quredisd, tmp, handler, ledger):
    d = embedded(quredisd, tmp, [queue("mail", ledger.recorder())])
    push(tmp, "a")
    wait_for(lambda: status(d, "mail")["counters"]["done"] == 1)
    wait_for(lambda: [w["state"] for w in status(d)["workers"]] == ["idle"])       # it is acknowledged
    old = keeper(d)
    os.kill(old["redis_pid"], signal.SIGSTOP)                  # it takes its time to end
    d.kill9()
    d.start()
    d.wait_event("keeper_waiting")
    assert alive(old["redis_pid"]) and keeper(d)["redis_pid"] == 0
    os.kill(old["redis_pid"], signal.SIGCONT)
    assert redis_pid(d) != old["redis_pid"]
    push(tmp, "b")
    wait_for(lambda: [r.payload for r in ledger.runs()] == [b"a", b"b"])


def test_a_dead_redis_is_started_again(quredisd, tmp, ledger):
    d = embedded(quredisd, tmp, [queue("mail", ledger.recorder())])
    push(tmp, "a")
    wait_for(ledger.runs)
    workers, old = d.workers(), redis_pid(d)
    os.kill(old, signal.SIGKILL)
    assert d.wait_event("redis_exited")["signal"] == "SIGKILL"
    wait_for(lambda: (k := keeper(d)) and k["redis_pid"] not in (0, old))
    push(tmp, "b")
    wait_for(lambda: len(ledger.runs()) == 2, 40)
    assert d.workers() == workers                              # no worker died of it


def test_a_dead_keeper_is_replaced_and_its_redis_ends_first(quredisd, tmp, ledger):
    d = embedded(quredisd, tmp, [queue("mail", ledger.recorder())])
    push(tmp, "a")
    wait_for(ledger.runs)
    workers, old = d.workers(), keeper(d)
    os.kill(old["pid"], signal.SIGKILL)
    d.wait_event("keeper_died")
    wait_for(lambda: not alive(old["redis_pid"]))
    wait_for(lambda: (k := keeper(d)) and k["redis_pid"] not in (0, old["redis_pid"]))
    push(tmp, "b")
    wait_for(lambda: len(ledger.runs()) == 2, 40)
    assert d.workers() == workers
    assert "ready to accept" in (tmp / "data" / "redis.log").read_text().lower()


def test_redis_ends_with_a_keeper_that_nobody_replaces(quredisd, tmp, ledger):
    d = embedded(quredisd, tmp, [queue("mail", ledger.recorder())])
    push(tmp, "a")
    wait_for(ledger.runs)
    old = keeper(d)
    os.kill(d.pid, signal.SIGSTOP)                             # it cannot help
    os.kill(old["pid"], signal.SIGKILL)
    wait_for(lambda: not alive(old["redis_pid"]))
    os.kill(d.pid, signal.SIGCONT)


def test_a_worker_that_dies_does_not_take_redis_along(quredisd, tmp, handler, ledger):
    d = embedded(quredisd, tmp, [queue("mail", handler("read -r m; echo $m >>@LEDGER@; sleep 1000"), recovery_attempts=0)])
    push(tmp, "a")
    wait_for(lambda: ledger.lines() == ["a"])
    before = keeper(d)
    os.kill(d.workers()["mail/0"], signal.SIGKILL)
    d.wait_event("worker_died")
    wait_for(lambda: status(d)["unconfirmed_deaths"] == 0)
    assert keeper(d) == before and answers(tmp)


def test_handlers_hold_neither_lock_nor_pipe(quredisd, tmp, handler, ledger):
    """A process that escapes all cleanup must not keep Redis running for ever."""
    d = embedded(quredisd, tmp, [queue("mail", handler("read -r m; echo $$ >>@LEDGER@; sleep 1000"))])
    push(tmp, "a")
    pid = int(wait_for(ledger.lines)[0])
    held = {f for f in open_files(pid).values() if not f.startswith("/dev/")}
    ours = set(open_files(d.pid).values())
    # its own three pipes, and none that the master has
    assert not {f for f in held if f.startswith("pipe:")} & ours
    assert not any("lock" in f for f in held)
    lock = str(tmp / "data" / "quredis.lock")
    holders = [p for p in [d.pid, *descendants_of(d.pid)] if lock in open_files(p).values()]
    k = keeper(d)
    assert sorted(holders) == sorted([k["pid"], k["redis_pid"]])
    assert str(d.dir / "lock") not in open_files(k["pid"]).values()


@pytest.mark.parametrize("wrong", ["open to others", "a file", "too long"])
def test_a_directory_that_will_not_do_is_refused(quredisd, tmp, wrong):
    data = tmp / "data"
    if wrong == "open to others":
        data.mkdir(mode=0o755)
    elif wrong == "a file":
        data.write_text("")
    else:
        data = tmp / ("x" * 100)
    d = quredisd(queues=[queue("mail", "/bin/cat")], redis={"embedded": True, "dir": data}, wait=False)
    assert d.wait_exit() == 78
    assert "redis.dir" in d.text() and (wrong == "too long" or str(data) in d.text())
    if wrong == "open to others":
        assert "0700" in d.text() and os.stat(data).st_mode & 0o777 == 0o755


def test_a_server_that_cannot_be_started_is_said_and_tried_again(quredisd, tmp, handler):
    flag = tmp / "works"
    server = handler(f"[ -e {flag} ] || exit 7; exec {SERVER} \"$@\"")
    d = quredisd(queues=[queue("mail", "/bin/cat")], redis={"embedded": True, "dir": tmp / "data", "server": server})
    assert d.wait_event("redis_exited")["exit"] == "7"
    wait_for(lambda: status(d, "mail")["state"] in ("no redis", "recovering"))
    flag.touch()
    wait_for(lambda: answers(tmp), 60)
    wait_for(lambda: status(d, "mail")["state"] == "running", 60)


def test_it_cannot_be_switched_while_running(quredisd, tmp):
    d = embedded(quredisd, tmp, [queue("mail", "/bin/cat")])
    d.write_conf(redis={"embedded": True, "dir": tmp / "other"})
    answer = ask(d, "reload")
    assert answer["ok"] is False and "redis.dir cannot change" in answer["problems"][0]
    assert not (tmp / "other").exists()


def test_reloads_do_not_touch_it(quredisd, tmp, ledger):
    d = embedded(quredisd, tmp, [queue("mail", ledger.recorder())])
    push(tmp, "a")
    before = keeper(d)
    for n in range(2, 5):
        mark = d.mark()
        d.reload(queues=[queue("mail", ledger.recorder(), max_attempts=n)])
        d.wait_event("reload_done", since=mark)
    push(tmp, "b")
    wait_for(lambda: len(ledger.runs()) == 2)
    assert keeper(d) == before


def test_terminal_signals_do_not_reach_redis(quredisd, tmp, ledger):
    d = embedded(quredisd, tmp, [queue("mail", ledger.recorder())])
    push(tmp, "a")
    k = keeper(d)
    assert os.getpgid(k["pid"]) != os.getpgid(d.pid) and os.getpgid(k["redis_pid"]) != os.getpgid(d.pid)
    for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        os.kill(k["pid"], sig)
    assert answers(tmp) and keeper(d) == k
    blocked = pathlib.Path(f"/proc/{k['redis_pid']}/status").read_text()
    assert int(next(x for x in blocked.splitlines() if x.startswith("SigBlk")).split()[1], 16) == 1 << (signal.SIGTERM - 1)
    assert children_of(k["pid"]) == [k["redis_pid"]]
    assert subprocess.run(["redis-cli", "-s", str(tmp / "data" / "redis.sock"), "ping"], capture_output=True).returncode == 0


def test_the_keeper_follows_a_rotated_log(quredisd, tmp, ledger):
    log, old = tmp / "log", tmp / "old.log"
    d = embedded(quredisd, tmp, [queue("mail", ledger.recorder())], log={"target": str(log)}, wait=False)
    push(tmp, "a")
    wait_for(ledger.runs)
    os.rename(log, old)
    d.signal(signal.SIGUSR1)
    wait_for(log.exists)
    wait_for(lambda: str(old) not in open_files(keeper(d)["pid"]).values())
    os.kill(keeper(d)["redis_pid"], signal.SIGKILL)
    wait_for(lambda: "event=redis_exited" in log.read_text())
