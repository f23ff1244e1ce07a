"""What systemd is told, against a socket of our own."""
import os
import re
import shutil
import signal
import socket
import subprocess
import time

import pytest

from harness import QUREDIS, QUREDISD, ROOT, children_of, environment_of, queue, title_of, wait_for
from harness.control import ask

GATED = "read -r m; echo $m >>@LEDGER@; while ! [ -e @TMP@/go ]; do sleep 0.02; done"


def test_ready_comes_once_and_after_the_workers(quredisd):
    d = quredisd(queues=[queue("mail", "/bin/true", workers=2)], notify=True)
    d.notify.wait_for("READY", "1")
    assert len(d.workers("mail")) == 2 and d.sweeper()
    assert "2 workers" in d.notify.wait_for("STATUS")["STATUS"]
    ask(d, "status")
    assert sum("READY" in m for m in d.notify.messages()) == 1


def test_a_descriptor_gets_one_newline_and_its_end(quredisd):
    """No child may hold the descriptor: its reader would wait for the end."""
    pipe, write_end = os.pipe()
    d = quredisd(queues=[queue("mail", "/bin/true", workers=2)], start=False)
    process = subprocess.Popen(d.command("--ready-fd", str(write_end)), pass_fds=[write_end], stderr=subprocess.DEVNULL)
    os.close(write_end)
    try:
        assert os.read(pipe, 10) == b"\n"
        wait_for(lambda: len([p for p in children_of(process.pid) if "worker" in title_of(p)]) == 2)
        assert os.read(pipe, 10) == b""
        assert process.poll() is None
    finally:
        process.terminate()
        assert process.wait(60) == 0
        os.close(pipe)


@pytest.mark.parametrize("value", ["1", "x", "900", "for reading"])
def test_a_descriptor_that_cannot_be_written_is_wrong(value):
    with open("/dev/null", "rb") as null:
        value = str(null.fileno()) if value == "for reading" else value
        done = subprocess.run([QUREDISD, "-t", "--ready-fd", value], pass_fds=[null.fileno()], capture_output=True, text=True, timeout=60)
    assert done.returncode == 64 and f"--ready-fd {value}: expected a descriptor above 2" in done.stderr


def test_reload_says_so_with_its_time(quredisd):
    d = quredisd(queues=[queue("mail", "/bin/true")], notify=True)
    d.notify.wait_for("READY", "1")
    begin = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    d.signal(signal.SIGHUP)
    m = d.notify.wait_for("RELOADING", "1")
    assert begin <= int(m["MONOTONIC_USEC"]) <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    wait_for(lambda: sum("READY" in m for m in d.notify.messages()) == 2)
    d.reload(queues=[{"name": "mail", "handler": "not a list"}])          # a failed one ends as well
    wait_for(lambda: sum("READY" in m for m in d.notify.messages()) == 3)


def test_stopping_and_more_time_while_draining(redis, quredisd, handler, ledger, tmp):
    d = quredisd(queues=[queue("mail", handler(GATED), timeout="60s")], supervisor={"drain_timeout": "50s"}, notify=True)
    redis.client().lpush("ingress:mail", "a")
    wait_for(lambda: ledger.lines() == ["a"])
    assert not any("EXTEND_TIMEOUT_USEC" in m for m in d.notify.messages())
    d.signal(signal.SIGTERM)
    d.notify.wait_for("STOPPING", "1")
    wait_for(lambda: len([m for m in d.notify.messages() if "EXTEND_TIMEOUT_USEC" in m]) >= 2, 60)
    assert int(d.notify.wait_for("EXTEND_TIMEOUT_USEC")["EXTEND_TIMEOUT_USEC"]) >= 10_000_000
    (tmp / "go").touch()
    assert d.wait_exit() == 0
    assert sum("STOPPING" in m for m in d.notify.messages()) == 1


def test_watchdog_at_half_its_time(quredisd):
    d = quredisd(queues=[queue("mail", "/bin/true")], notify=True, env={"WATCHDOG_USEC": "400000"})
    wait_for(lambda: len([m for m in d.notify.messages() if "WATCHDOG" in m]) >= 6, 40)


def test_a_watchdog_for_somebody_else_is_not_fed(quredisd):
    d = quredisd(queues=[queue("mail", "/bin/true")], notify=True,
                 env={"WATCHDOG_USEC": "200000", "WATCHDOG_PID": "1"})
    d.notify.wait_for("READY", "1")
    for _ in range(5):
        mark = d.mark()
        d.signal(signal.SIGUSR2)
        d.wait_event("status", since=mark)
    d.stop()
    assert not any("WATCHDOG" in m for m in d.notify.messages())


def test_no_watchdog_unless_asked(quredisd):
    d = quredisd(queues=[queue("mail", "/bin/true")], notify=True)
    d.notify.wait_for("READY", "1")
    d.stop()
    assert not any("WATCHDOG" in m for m in d.notify.messages())


def test_an_abstract_socket(quredisd, tag):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind(f"\0{tag}")
        s.settimeout(20)
        d = quredisd(queues=[queue("mail", "/bin/true")], env={"NOTIFY_SOCKET": f"@{tag}"})
        got = s.recv(4096)
        while b"READY=1" not in got:
            got = s.recv(4096)
        d.stop()


@pytest.mark.parametrize("where", ["", "relative", "/does/not/exist", "/" + "x" * 200, "@"])
def test_a_socket_that_is_none_changes_nothing(quredisd, where):
    d = quredisd(queues=[queue("mail", "/bin/true")], env={"NOTIFY_SOCKET": where, "WATCHDOG_USEC": "none"})
    assert d.stop() == 0


def test_a_full_socket_holds_nobody_up(quredisd, tmp):
    d = quredisd(queues=[queue("mail", "/bin/true")], notify=True, env={"WATCHDOG_USEC": "2000"})
    for _ in range(300):                       # far more than its buffer takes; nobody reads
        mark = d.mark()
        d.signal(signal.SIGUSR2)
        d.wait_event("status", since=mark)
    assert d.stop() == 0


def test_handlers_know_nothing_of_it(redis, quredisd, ledger):
    d = quredisd(queues=[queue("mail", ledger.recorder(), env=["NOTIFY_SOCKET", "WATCHDOG_USEC"])], notify=True,
                 env={"WATCHDOG_USEC": "60000000"})
    redis.client().lpush("ingress:mail", "a")
    run = wait_for(ledger.runs)[0]
    assert "NOTIFY_SOCKET" not in run.env and "WATCHDOG_USEC" not in run.env
    assert b"NOTIFY_SOCKET" not in environment_of(run.pid)
    assert os.path.exists(d.notify.path)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("name", ["quredisd.service", "quredisd@.service"])
def test_the_unit_is_clean(tmp, name):
    text = (ROOT / "etc/systemd" / name).read_text()
    assert "/usr/local/sbin/quredisd " in text and "/usr/local/bin/quredis " in text
    unit = tmp / name
    unit.write_text(text.replace("/usr/local/sbin/quredisd", str(QUREDISD)).replace("/usr/local/bin/quredis ", f"{QUREDIS} "))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    for line in ("KillMode=mixed", "OOMPolicy=continue", "Type=notify", "RuntimeDirectoryPreserve=yes"):
        assert line in text.splitlines()


def test_the_template_is_the_unit_with_an_instance():
    """Only what must not be shared by two instances differs: the configuration and the directories."""
    def settings(name):
        return [line for line in (ROOT / "etc/systemd" / name).read_text().splitlines() if not line.startswith("#")]
    unit, template = settings("quredisd.service"), settings("quredisd@.service")
    assert len(unit) == len(template)
    assert [b for a, b in zip(unit, template) if a != b] == [
        "Description=Redis queue supervisor %i", "ExecStart=/usr/local/sbin/quredisd -c /etc/quredis/%i.conf",
        "ExecReload=/usr/local/bin/quredis -c /etc/quredis/%i.conf reload --no-wait", "RuntimeDirectory=quredis-%i", "StateDirectory=quredis-%i"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_the_unit_exposes_little():
    done = subprocess.run(["systemd-analyze", "security", "--offline=yes", str(ROOT / "etc/systemd/quredisd.service")],
                          capture_output=True, text=True, timeout=60)
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd-analyze looks at no file")
    level = float(re.search(r"exposure level for quredisd.service: ([0-9.]+)", done.stdout)[1])
    assert level <= 2.5, done.stdout


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_each_line_of_the_drop_in_is_good(tmp):
    """It is documentation until it is copied: every setting, uncommented, is one systemd knows."""
    text = (ROOT / "etc/systemd/quredisd-handlers.conf").read_text()
    settings = re.sub(r"(?m)^#([A-Za-z]+=)", r"\1", text)
    assert settings.count("\n[Service]\n") == 1 and len(re.findall(r"(?m)^[A-Z][A-Za-z]+=", settings)) > 8
    unit = tmp / "quredisd.service"
    unit.write_text((ROOT / "etc/systemd/quredisd.service").read_text().replace("/usr/local/sbin/quredisd", str(QUREDISD))
                    .replace("/usr/local/bin/quredis ", f"{QUREDIS} "))
    (tmp / "quredisd.service.d").mkdir()
    (tmp / "quredisd.service.d/handlers.conf").write_text(settings)
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
