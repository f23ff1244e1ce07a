"""quredis doctor: handlers, the unit, files and sockets here."""
import json
import os
import re
import shutil
import socket
import threading

import pytest

from harness import wait_for
from harness.clinic import USER

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

# ---- handlers ----

def script(clinic, text, mode=0o755, name="script"):
    path = clinic.tmp / name
    path.write_text(text)
    path.chmod(mode)
    clinic.configure(clinic.queue(handler=path))
    return path


@pytest.mark.parametrize("text, said, advice", [
    ("#!/bin/sh\r\nexit 0\r\n", "end with CR LF", "dos2unix"),
    ("#! /no/such/sh -e\n", "its interpreter /no/such/sh does not exist", "install it"),
    ("#!sh\n", "its interpreter sh is not in /, where the handler runs", "with the whole path of the interpreter"),
    ("#!/usr/bin/env no-such-program\n", "asks env for no-such-program", "install it"),
    ("exit 0\n", "neither a program nor a script", "#!/bin/sh"),
    ("", "neither a program nor a script", "#!/bin/sh"),
    ("#!\n", "names no interpreter", "#!/bin/sh"),
])
def test_handlers_first_line(clinic, text, said, advice):
    path = script(clinic, text)
    row = clinic.doctor().one("handlers", "error", "mail: ", said, advice=advice)
    assert row["where"] == str(path)


def test_handlers_that_are_good(clinic):
    for text in ("#!/bin/sh\nexit 0", "#! /bin/sh -e\n", "#!/usr/bin/env sh\n"):
        script(clinic, text)
        clinic.doctor().good("handlers")


@as_root
def test_handlers_that_their_user_may_not(clinic):
    path = script(clinic, "#!/bin/sh\n", 0o711)
    clinic.doctor().one("handlers", "error", "nobody may not read it", advice=f"chmod o+r {path}")
    inner = clinic.tmp / "inner"
    inner.mkdir(0o700)
    script(clinic, "#!/bin/sh\n", name="inner/script")
    clinic.doctor().one("handlers", "error", f"nobody may not enter {inner}", advice="chmod o+x")
    (clinic.tmp / "sh").write_text("#!/bin/sh\n")
    script(clinic, f"#!{clinic.tmp}/sh\n")
    clinic.doctor().one("handlers", "error", f"its interpreter {clinic.tmp}/sh: nobody may not execute it (mode 0644)", advice=f"chmod +x {clinic.tmp}/sh")
    clinic.configure(clinic.queue(handler=clinic.handler, run_as={"user": "nobody"}))
    os.chown(clinic.handler, 1, 1)
    os.chmod(clinic.handler, 0o700)
    clinic.doctor().one("handlers", "error", "nobody may not execute it (mode 0700)", advice=f"chmod +x {clinic.handler}")


def test_handlers_on_noexec(clinic, shim):
    clinic.doctor(env=shim).good("handlers")
    clinic.doctor(env={**shim, "LIE_NOEXEC": "1"}).one("handlers", "error", "mounted noexec", advice="elsewhere")


def test_a_handler_that_everybody_can_write(clinic):
    os.chmod(clinic.handler, 0o777)
    clinic.doctor().one("configuration", "error", f"every user can write {clinic.handler}", where="quredis.conf:")


@as_root
def test_a_user_that_is_gone(clinic):
    clinic.configure(clinic.queue(run_as={"user": "no-such-user"}))
    clinic.doctor().one("configuration", "error", 'user "no-such-user" does not exist')


# ---- the unit ----

UNIT = "Type=notify\nKillMode=mixed\nOOMPolicy=continue\nTimeoutStopSec=1min\nWatchdogSec=30s\n"


@pytest.mark.parametrize("change, severity, said, advice", [
    (("TimeoutStopSec=1min", "TimeoutStopSec=14s"), "note", "TimeoutStopSec=14s is not more than drain_timeout + kill_grace + 2 s (14s)", "TimeoutStopSec=19"),
    (("Type=notify\nKillMode=mixed\nOOMPolicy=continue\nTimeoutStopSec=1min\nWatchdogSec=30s",
      "KillMode=mixed\nOOMPolicy=continue\nTimeoutStopSec=5s"), "warning", "systemd kills a supervisor that still drains", "TimeoutStopSec=19"),
    (("WatchdogSec=30s", "WatchdogSec=500ms"), "warning", "WatchdogSec=500ms is so short", "WatchdogSec=30s"),
    (("KillMode=mixed\n", ""), "warning", "KillMode=control-group: at a stop", "KillMode=mixed"),
    (("KillMode=mixed", "KillMode=process"), "warning", "its handlers keep running", "KillMode=mixed"),
    (("OOMPolicy=continue\n", ""), "warning", "OOMPolicy=stop: if the kernel kills one handler", "OOMPolicy=continue"),
])
def test_systemd(clinic, change, severity, said, advice):
    assert change[0] in UNIT
    unit = clinic.unit(UNIT.replace(*change))
    row = clinic.doctor().one("systemd", severity, said, advice=advice)
    assert row["where"] == unit


@pytest.mark.parametrize("time, good", [("1min", True), ("1min 5s", True), ("0", True), ("infinity", True), ("2h", True), ("1d 2h 3min", True),
                                        ("14s 1ms", True), ("13s", False), ("900ms", False), ("13s 999ms 999us", False), ("nonsense", True)])
def test_systemd_times(clinic, time, good):
    clinic.unit(UNIT.replace("1min", time))
    assert (clinic.doctor().bad("systemd") == []) is good


def systemd(clinic):
    return next((r["severity"], r["what"]) for r in clinic.doctor().rows if r["check"] == "systemd")


def test_systemd_is_skipped(clinic):
    """Without systemd, without systemctl, without a unit, and where the unit runs another configuration."""
    assert systemd(clinic) == ("ok", "skipped: systemctl does not answer here")
    (clinic.bin / "systemctl").write_text("#!/no/such/interpreter\n")
    assert systemd(clinic) == ("ok", "skipped: systemctl does not answer here")
    for wrong in ({"loaded": False}, {"conf": "/etc/quredis/other.conf"}):
        clinic.unit("KillMode=none", **wrong)
        assert systemd(clinic) == ("ok", "no quredisd.service or quredisd@NAME.service runs this configuration")


def test_systemd_instance_of_the_template(clinic):
    """quredisd@a.service runs a.conf; no other name is looked at."""
    conf = clinic.conf.with_name("a.conf")
    shutil.copy(clinic.conf, conf)
    unit = clinic.unit(UNIT.replace("KillMode=mixed", "KillMode=process"), conf=conf, unit="quredisd@a")
    row = clinic.doctor("-c", conf).one("systemd", "warning", "its handlers keep running", advice="systemctl edit quredisd@a: [Service] KillMode=mixed")
    assert row["where"] == unit
    clinic.unit(UNIT.replace("KillMode=mixed", "KillMode=process"), conf=conf, unit="quredisd@b")
    assert clinic.doctor("-c", conf).bad("systemd") == []


def test_systemd_user_and_lock_file(clinic):
    clinic.configure(clinic.queue(run_as={"user": "nobody"}), supervisor={"lock_file": "/run/quredis-test/lock"})
    clinic.unit(UNIT + "User=daemon\nRuntimeDirectoryPreserve=yes\nRuntimeDirectory=quredis-test")
    clinic.doctor().one("systemd", "error", "User=daemon, but only root can run the handlers of mail as nobody")
    clinic.unit(UNIT + "RuntimeDirectory=quredis-test")
    clinic.doctor().one("systemd", "note", "each start makes a new lock file", advice="RuntimeDirectoryPreserve=yes")


def test_systemd_hides_paths(clinic):
    assert str(clinic.handler).startswith("/tmp/"), "these tests run below /tmp"
    clinic.unit(UNIT + "PrivateTmp=yes\n")
    rows = clinic.doctor().bad("systemd")
    assert {r["where"] for r in rows} == {str(clinic.server.socket), str(clinic.handler)}
    assert all(r["severity"] == "error" and "PrivateTmp=yes" in r["what"] and "PrivateTmp=no" in r["advice"] for r in rows)
    clinic.configure(clinic.queue(run_as={**USER.get("run_as", {}), "directory": "/root"}))
    clinic.unit(UNIT + "ProtectHome=tmpfs\n")
    clinic.doctor().one("systemd", "error", "ProtectHome=tmpfs", where="/root")
    clinic.unit(UNIT + "ProtectHome=read-only\nPrivateTmp=no")
    clinic.doctor().good("systemd")


def test_systemd_with_a_password(clinic):
    clinic.unit(UNIT + "Environment=A=1 QUREDIS_REDIS_URL=redis://:s3cret@10.0.0.1 B=2")
    r = clinic.doctor()
    r.one("systemd", "warning", "Environment= holds a password")
    assert "s3cret" not in json.dumps(r.rows)
    clinic.unit(UNIT + "Environment=QUREDIS_REDIS_URL=redis://user@10.0.0.1:6379 B=a:b@c")
    clinic.doctor().good("systemd")


# ---- the host ----

def test_a_password_that_others_can_read(clinic, tmp):
    (tmp / "pass").write_text("x\n")
    (tmp / "pass").chmod(0o644)
    clinic.configure(redis={"url": clinic.server.url, "password_file": tmp / "pass"})
    assert "can be read by others (mode 0644)" in clinic.doctor().bad("configuration")[0]["what"]


def test_control_without_a_supervisor(clinic):
    path = clinic.daemon.sections["supervisor"]["control_socket"]
    clinic.doctor().one("control", "warning", "no supervisor runs here", advice="start quredisd", where=str(path))
    with socket.socket(socket.AF_UNIX) as s:    # left over by one that was killed
        s.bind(str(path))
    path.chmod(0o660)
    clinic.unit(UNIT)
    clinic.doctor().one("control", "warning", "no supervisor runs here", advice="systemctl start quredisd")
    clinic.configure(extra="", queues=[])
    clinic.doctor().good("control")


def test_control_that_is_no_socket(clinic):
    clinic.daemon.sections["supervisor"]["control_socket"].write_text("x")
    clinic.doctor().one("control", "error", "it is not a socket", advice="remove it")


def test_control_of_everybody(clinic):
    clinic.configure(start=True)
    clinic.doctor().good("control")
    os.chmod(clinic.daemon.sections["supervisor"]["control_socket"], 0o666)
    clinic.doctor().one("control", "warning", "every user may connect to it (mode 0666)", advice="chmod 660")


@as_root
def test_control_of_another_owner(clinic):
    clinic.configure(start=True)
    clinic.unit(UNIT + "User=daemon")
    clinic.doctor().one("control", "warning", "belongs to uid 0, but the unit runs quredisd as daemon", advice="by hand")
    clinic.unit(UNIT)
    clinic.doctor().good("control")


def test_control_of_a_supervisor_that_hangs_up(clinic):
    with socket.socket(socket.AF_UNIX) as s:
        path = clinic.daemon.sections["supervisor"]["control_socket"]
        s.bind(str(path))
        path.chmod(0o660)
        s.listen()

        def hang_up():
            client = s.accept()[0]
            client.recv(1000)
            client.close()
        threading.Thread(target=hang_up, daemon=True).start()
        clinic.doctor().one("control", "error", "closed the connection", advice="log")


def test_control_of_another_configuration(clinic, tmp):
    clinic.configure(start=True)
    (tmp / "copy.conf").write_text(clinic.conf.read_text())
    r = clinic.doctor("-c", tmp / "copy.conf")
    r.one("control", "warning", f"runs {clinic.conf}, not {tmp}/copy.conf")
    assert r.advice("control") == [f"to check that one: quredis -c {clinic.conf} doctor"]
    os.unlink(tmp / "copy.conf")
    os.symlink(clinic.conf, tmp / "copy.conf")
    clinic.doctor("-c", tmp / "copy.conf").good("control")


def test_a_queue_that_was_scaled_to_no_workers(clinic):
    clinic.configure(clinic.queue(), start=True)
    clinic.daemon.quredis("scale", "mail", "0")
    wait_for(lambda: not clinic.daemon.workers("mail"))
    clinic.client.lpush("ingress:mail", "x")
    wait_for(lambda: "workers" in {r["check"] for r in clinic.doctor().rows if r["severity"] == "warning"})
    clinic.doctor().one("workers", "warning", "(scaled to 0 here)", advice="quredis reload, or quredis scale mail N")


def test_supervisor_with_queues_in_trouble(clinic):
    gone = clinic.tmp / "gone"
    shutil.copy(clinic.handler, gone)
    clinic.configure(clinic.queue(), clinic.queue("bad", gone), start=True)
    clinic.doctor().good("supervisor")
    gone.unlink()
    clinic.client.lpush("ingress:bad", "x")
    clinic.daemon.quredis("quiet", "mail")
    wait_for(lambda: "breaker" in clinic.daemon.quredis("status").out)
    rows = {r["where"]: r for r in clinic.doctor().bad("supervisor")}
    assert rows["mail"]["severity"] == "note" and rows["mail"]["what"].startswith("quiet: ")
    assert rows["bad"]["severity"] == "error" and rows["bad"]["what"].startswith("breaker: ") and "quredis run bad --from ingress;" in rows["bad"]["advice"]


def test_supervisor_that_was_not_reloaded(clinic):
    clinic.configure(start=True)
    clinic.daemon.write_conf(queues=[clinic.queue(), clinic.queue("new")])
    row = clinic.doctor().one("supervisor", "warning", "the supervisor does not run it", advice="quredis reload")
    assert row["where"] == "new"


# ---- the supervisor's server ----

def test_the_supervisor_has_another_server(clinic):
    """The file was changed and not loaded again, or the environment is another one: commands would look where no worker does."""
    d = clinic.configure(start=True).daemon
    clinic.doctor().good("control")
    env = {"QUREDIS_REDIS_PREFIX": "other:"}
    clinic.doctor(env=env).one("control", "error", 'redis.prefix ""', "says other:", advice="QUREDIS_REDIS_PREFIX")
    other = clinic.machine.server()
    d.write_conf(redis=other)
    row = clinic.doctor().one("control", "error", "the server unix://", f"says {other.url}", advice="restart quredisd")
    assert clinic.server.url in row["what"]
    d.reload()
    clinic.doctor().good("control")


def test_old_libraries(clinic, shim):
    """A vendor may have mended an older version, so nothing is proved."""
    clinic.doctor(env={**shim, "LIE_OPENSSL": "3.0.9"}).one("libraries", "note", "OpenSSL 3.0.9 is older than 3.0.22",
                                                               advice="security updates", where="OpenSSL")
    row = next(r for r in clinic.doctor(env={**shim, "LIE_OPENSSL": "3.5.1"}).rows if r["check"] == "libraries")
    assert row["severity"] == "ok" and re.match(r"hiredis [\d.]+, OpenSSL 3\.5\.1, jansson [\d.]+, libevent [\w.-]+$", row["what"]), row
