"""The control socket: what it answers, and that nobody on it can hold the master up."""
import errno
import grp
import json
import os
import pwd
import re
import resource
import signal
import socket
import stat
import subprocess
import time

import pytest

from harness import descendants_of, open_files, queue, wait_for
from harness.control import Control, ask, status
from promises.test_idle import cpu_s


def test_status_has_its_shape(redis, quredisd, ledger):
    d = quredisd(queues=[queue("mail", ledger.recorder(seconds=0.05), workers=2), queue("none", "/bin/cat", workers=0)])
    for i in range(3):
        redis.client().lpush("ingress:mail", str(i))
    wait_for(lambda: status(d, "mail")["counters"]["done"] == 3)
    s = status(d)
    assert s["pid"] == d.pid and s["node"] == d.tag and re.fullmatch("[0-9a-f]{16}", s["boot"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", s["since"]) and s["uptime_ms"] >= 0
    assert s["state"] == "running" and s["version"] and s["config"] == str(d.conf)
    assert set(s["redis"]) == {"url", "embedded", "prefix", "target", "tls", "master", "connected", "address", "sentinel"}
    assert (s["redis"]["url"], s["redis"]["embedded"], s["redis"]["connected"]) == (redis.url, False, True) and s["keeper"] is None
    assert s["sweeper"]["pid"] == d.sweeper() and s["unconfirmed_deaths"] == 0
    assert [q["name"] for q in s["queues"]] == ["mail", "none"]
    mail, none = s["queues"]
    assert mail["state"] == "running" and mail["reason"] is None and mail["restarts"] == 0
    assert mail["workers"] == {"wanted": 2, "alive": 2, "draining": 0} and none["workers"]["wanted"] == 0
    assert mail["counters"]["fetched"] == 3 and mail["counters"]["escaped"] == 0
    assert sum(b["count"] for b in mail["durations"]) == 3
    assert sum(b["count"] for b in mail["durations"] if b["below_ms"] and b["below_ms"] <= 32) == 0
    assert [b["below_ms"] for b in mail["durations"]][:3] == [1, 2, 4] and mail["durations"][-1]["below_ms"] is None
    assert {w["name"]: w["pid"] for w in s["workers"]} == d.workers()
    for w in s["workers"]:
        assert re.fullmatch(rf"{d.tag}\.{s['boot']}\.{w['slot']}\.\d+", w["incarnation"])
        assert w["queue"] == "mail" and w["draining"] is False and w["redis"] is True and w["heartbeat_age_ms"] >= 0
    assert sum(w["serial"] for w in s["workers"]) == 3


def test_figures_of_the_dead_are_kept(redis, quredisd, ledger):
    d = quredisd(queues=[queue("mail", ledger.recorder())])
    c = redis.client()
    c.lpush("ingress:mail", "a")
    wait_for(lambda: status(d, "mail")["counters"]["done"] == 1)
    os.kill(d.workers("mail")["mail/0"], signal.SIGKILL)
    wait_for(lambda: status(d, "mail")["restarts"] == 1)
    c.lpush("ingress:mail", "b")
    wait_for(lambda: status(d, "mail")["counters"]["done"] == 2)
    assert sum(b["count"] for b in status(d, "mail")["durations"]) == 2


def test_without_descriptors_it_waits_for_one(redis, quredisd):
    """A client that the master cannot accept does not keep it busy, and is served as soon as possible."""
    d = quredisd(queues=[queue("mail", "/bin/cat")])
    soft, hard = resource.prlimit(d.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(d.pid, resource.RLIMIT_NOFILE, (max(open_files(d.pid)) + 1, hard))
    before = cpu_s(d.pid)
    with Control(d) as c:
        c.send(b'{"command":"status"}\n')
        since = time.monotonic()
        wait_for(lambda: time.monotonic() - since >= 1)         # what is measured, no synchronisation
        used = cpu_s(d.pid) - before
        assert used < 0.3
        resource.prlimit(d.pid, resource.RLIMIT_NOFILE, (soft, hard))
        assert json.loads(c.line())["ok"]


@pytest.mark.parametrize("line", [
    b"", b"x", b"{", b"[]", b"null", b"1", b'"status"', b'{"command":7}', b'{"command":"no such"}', b'{"command":"stop","fast":3}',
    b'{"command":"status","command":"stop"}', b"\xff\xfe\x00", b"[" * 3000, b'{"command":"restart","queue":["a"]}',
    b'{"command":"scale","queue":"mail"}', b'{"command":"scale","queue":"mail","workers":-1}', b'{"command":"scale","queue":"mail","workers":1017}',
    b'{"command":"scale","queue":"mail","workers":"2"}', b'{"command":"scale","workers":2}', b'{"command":"scale","queue":"mail","workers":1e300}',
    b'{"command":"quiet","queue":"nope"}',
])
def test_nonsense_gets_an_answer_and_the_next_line_too(quredisd, line):
    d = quredisd(queues=[queue("mail", "/bin/cat")])
    with Control(d) as c:
        c.send(line + b"\n")
        answer = json.loads(c.line())
        assert answer["ok"] is False and answer["error"]
        assert c.ask("status")["ok"] is True
    assert d.running()


def test_a_line_without_end_is_refused(quredisd):
    d = quredisd(queues=[queue("mail", "/bin/cat")])
    with Control(d) as c:
        c.send(b"x" * 4096)
        assert json.loads(c.line())["ok"] is False
        assert c.line() is None
    assert status(d)["ok"]


def test_several_requests_at_once_are_answered_in_order(quredisd):
    d = quredisd(queues=[queue("mail", "/bin/cat")])
    with Control(d) as c:
        c.send(b'{"command":"quiet"}\n{"command":"status"}\n{"command":"resume"}\n{"command":"sta')
        c.send(b'tus"}\n')
        assert json.loads(c.line()) == {"ok": True}
        assert json.loads(c.line())["state"] == "quiet"
        assert json.loads(c.line()) == {"ok": True}
        assert json.loads(c.line())["state"] == "running"


def test_a_client_that_only_sends_and_closes_its_side(quredisd):
    d = quredisd(queues=[queue(f"q{i}", "/bin/cat", workers=0) for i in range(300)])
    with Control(d) as c:
        c.send(b'{"command":"status"}\n')
        c.socket.shutdown(socket.SHUT_WR)
        assert len(json.loads(c.line())["queues"]) == 300        # far more than a socket takes at once


@pytest.mark.limit(180)
def test_those_who_stall_lose_their_place_not_ours(quredisd):
    d = quredisd(queues=[queue(f"q{i}", "/bin/cat", workers=0) for i in range(300)])
    files = len(open_files(d.pid))
    silent, half, deaf = Control(d), Control(d), Control(d)
    half.send(b'{"command":')
    deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    deaf.send(b'{"command":"status"}\n' * 50)
    for _ in range(20):
        assert status(d)["ok"]
    wait_for(lambda: len(open_files(d.pid)) <= files + 1, 60)      # the silent one may stay
    assert half.line() is None
    assert silent.ask("status")["ok"]
    for c in (silent, half, deaf):
        c.socket.close()
    wait_for(lambda: len(open_files(d.pid)) == files)


def test_many_clients(quredisd):
    d = quredisd(queues=[queue("mail", "/bin/cat")])
    files = len(open_files(d.pid))
    crowd = []
    for _ in range(100):
        crowd.append(Control(d))
        assert len(open_files(d.pid)) <= files + 20
    assert status(d)["ok"] and crowd[-1].ask("status")["ok"]
    for c in crowd:
        c.socket.close()
    wait_for(lambda: len(open_files(d.pid)) == files)
    begin = time.monotonic()
    for _ in range(300):
        ask(d, "status")
    assert time.monotonic() - begin < 60


def test_a_socket_that_replaced_ours_stays(quredisd):
    d = quredisd(queues=[queue("mail", "/bin/cat")])
    path = d.sections["supervisor"]["control_socket"]
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(f"{path}.new")
        os.rename(f"{path}.new", path)
        assert d.stop() == 0 and stat.S_ISSOCK(os.stat(path).st_mode)


def test_a_removed_socket_is_made_again(quredisd):
    d = quredisd(queues=[queue("mail", "/bin/cat")])
    path = d.sections["supervisor"]["control_socket"]
    for n in (1, 2):
        os.unlink(path)
        wait_for(lambda n=n: len(d.events("control_restored")) == n)
        assert status(d)["lock_removed"] is False
    assert d.stop() == 0 and not os.path.exists(path)


def test_a_full_disk_of_the_log_is_told(quredisd, tmp):
    """Of any process that writes to it; the event log_lines_lost comes only when there is room again."""
    def leave_room(size):
        for pid in (d.pid, *descendants_of(d.pid)):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    log = tmp / "full.log"
    d = quredisd(queues=[queue("mail", "/bin/cat")], log={"target": str(log), "level": "info"}, wait=False)
    wait_for(lambda: log.exists() and "event=worker_started" in log.read_text())
    assert status(d)["log"] == {"target": str(log), "lost": 0, "since": None, "error": None} and "Log:" not in d.quredis("status").out
    leave_room(log.stat().st_size)
    d.signal(signal.SIGUSR2)
    wait_for(lambda: status(d)["log"]["lost"] > 0)
    state = status(d)["log"]
    assert state["error"] == os.strerror(errno.EFBIG) and re.fullmatch(r"20.*Z", state["since"])
    assert f"Log: has taken no line since {state['since']}: File too large" in d.quredis("status").out
    assert f"it has taken no line since {state['since']} (File too large); lost lines: " in d.quredis("doctor").out
    leave_room(resource.RLIM_INFINITY)
    d.signal(signal.SIGUSR2)
    wait_for(lambda: status(d)["log"]["since"] is None)
    assert "it takes lines, but lost some since the supervisor started" in d.quredis("doctor").out


def test_a_removed_lock_is_an_alarm(quredisd):
    """Another supervisor may have started with the path since: then the socket is its own."""
    d = quredisd(queues=[queue("mail", "/bin/cat")])
    os.unlink(d.sections["supervisor"]["lock_file"])
    d.wait_event("lock_removed")
    assert status(d)["lock_removed"] is True
    assert "the supervisor's lock file was removed" in d.quredis("doctor").out
    os.unlink(d.sections["supervisor"]["control_socket"])
    mark = d.mark()
    d.signal(signal.SIGUSR2)
    d.wait_event("status", since=mark)
    assert not d.events("control_restored") and len(d.events("lock_removed")) == 1


def test_only_the_owner_and_its_group_may_connect(quredisd):
    d = quredisd(queues=[queue("mail", "/bin/cat")])
    path = d.sections["supervisor"]["control_socket"]
    mode = os.stat(path).st_mode
    assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o660


def as_user(uid, gid, groups, path):
    """What a process of that user gets from the socket: an answer, b"" or an error's name."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups(groups)
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
            with socket.socket(socket.AF_UNIX) as s:
                s.settimeout(20)
                s.connect(path)
                s.sendall(b'{"command":"nothing"}\n')
                os.write(write, s.recv(100))
        except OSError as e:
            os.write(write, type(e).__name__.encode())
        finally:
            os._exit(0)
    os.close(write)
    with open(read, "rb") as f:
        got = f.read()
    os.waitpid(pid, 0)
    return got


@pytest.mark.skipif(os.getuid() != 0, reason="needs to become others")
def test_whoever_gets_through_the_mode_is_asked_who_it_is(quredisd):
    d = quredisd(queues=[queue("mail", "/bin/cat")])
    path = str(d.sections["supervisor"]["control_socket"])
    nobody, nogroup, ours = pwd.getpwnam("nobody").pw_uid, grp.getgrnam("nogroup").gr_gid, os.getgid()
    assert as_user(nobody, nogroup, [], path) == b"PermissionError"
    os.chmod(path, 0o666)
    assert as_user(nobody, nogroup, [], path) in (b"", b"ConnectionResetError", b"BrokenPipeError")
    d.wait_event("control_denied")
    assert b'"ok":false' in as_user(nobody, ours, [], path)
    assert b'"ok":false' in as_user(nobody, nogroup, [nogroup, ours], path)


def send_as(uid, groups, path, request):
    """The answer to a request of a process with this user and these groups."""
    code = ("import socket, sys; s = socket.socket(socket.AF_UNIX); s.settimeout(60); s.connect(sys.argv[1]); "
            "s.sendall(sys.argv[2].encode() + b'\\n'); print(s.makefile().readline(), end='')")
    done = subprocess.run(["/usr/bin/python3", "-c", code, path, json.dumps(request)], user=uid, group=groups[0], extra_groups=groups, cwd="/",
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else done.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="needs to become others")
def test_members_of_the_control_group_read_and_give_no_orders(quredisd):
    nobody, nogroup, adm = pwd.getpwnam("nobody").pw_uid, grp.getgrnam("nogroup").gr_gid, grp.getgrnam("adm").gr_gid
    d = quredisd(queues=[queue("mail", "/bin/cat")], supervisor={"control_group": "adm"})
    path = d.sections["supervisor"]["control_socket"]

    def holds():
        assert path.stat().st_gid == adm and path.stat().st_mode & 0o777 == 0o660
        assert "PermissionError" in send_as(nobody, [nogroup], str(path), {"command": "status"})
        assert send_as(nobody, [nogroup, adm], str(path), {"command": "status"})["queues"][0]["name"] == "mail"
        refused = send_as(nobody, [nogroup, adm], str(path), {"command": "stop"})
        assert not refused["ok"] and "may read the status only" in refused["error"]
    holds()
    path.unlink()
    d.wait_event("control_restored")
    holds()
    assert send_as(0, [0], str(path), {"command": "quiet"}) == {"ok": True}
    assert d.stop() == 0


def test_a_socket_left_behind_is_replaced_anything_else_is_not(quredisd):
    d = quredisd(queues=[queue("mail", "/bin/cat")])
    path = d.sections["supervisor"]["control_socket"]
    d.kill9()
    assert path.exists()
    d.start()
    assert status(d)["ok"]
    assert d.stop() == 0
    assert not path.exists()
    path.write_text("precious")
    d.start(wait=False)
    assert d.wait_exit() == 73
    assert path.read_text() == "precious"
    assert "control_socket" in d.events("start_failed")[-1]["reason"]


def test_the_socket_of_another_supervisor_is_not_taken(quredisd, tmp):
    d = quredisd(queues=[queue("mail", "/bin/cat")])
    path = d.sections["supervisor"]["control_socket"]
    other = quredisd(queues=[queue("other", "/bin/cat")], supervisor={"control_socket": str(path), "lock_file": str(tmp / "other.lock")}, wait=False)
    assert other.wait_exit() == 75
    assert f"control socket {path}: another process answers there" in other.events("start_failed")[-1]["reason"]
    assert [q["name"] for q in status(d)["queues"]] == ["mail"] and d.stop() == 0


def test_quiet_one_queue(redis, quredisd, ledger):
    d = quredisd(queues=[queue("mail", ledger.recorder()), queue("other", ledger.recorder())])
    assert ask(d, "quiet", queue="mail") == {"ok": True}
    c = redis.client()
    wait_for(lambda: status(d, "mail")["state"] == "quiet")
    wait_for(lambda: [w["state"] for w in status(d)["workers"] if w["queue"] == "mail"] == ["waiting"])
    c.lpush("ingress:mail", "a")
    c.lpush("ingress:other", "b")
    wait_for(lambda: [r.payload for r in ledger.runs()] == [b"b"])
    assert status(d, "other")["state"] == "running"
    os.kill(d.workers("mail")["mail/0"], signal.SIGKILL)           # its replacement is told as well
    wait_for(lambda: status(d, "mail")["restarts"] == 1)
    wait_for(lambda: [w["state"] for w in status(d)["workers"] if w["queue"] == "mail"] == ["waiting"])
    assert c.llen("ingress:mail") == 1
    assert ask(d, "resume", queue="mail") == {"ok": True}
    wait_for(lambda: len(ledger.runs()) == 2)


def test_stop_keeps_the_connection_until_the_end(quredisd):
    d = quredisd(queues=[queue("mail", "/bin/cat")])
    with Control(d) as c:
        assert c.ask("stop", fast=True) == {"ok": True}
        assert c.line() is None
    assert d.wait_exit() == 0
    assert d.events("stopping")[0]["how"] == "fast"
