"""The units in a booted Debian: what systemd does with quredisd, and quredisd with what systemd says.

`make systemd-root` makes the root once; `make check-systemd` runs this and accepts no skip. Without a root, or where
systemd-nspawn may not boot one, it is skipped.
"""
import json
import os
import re
import shutil
import subprocess
import time

import pytest

from harness import BUILD, ROOT, Authority, wait_for
from harness.booted import NSPAWN, Booted
from harness.config import render

MACHINE = BUILD.parent / "systemd-root"
CONF = "/etc/quredis/quredis.conf"
# notes "start NAME REDELIVERED PID", waits for /test/go, notes "end NAME"; with something in a session of its own
GATED = """#!/bin/sh
read -r m
setsid sleep 1000 >/dev/null 2>&1 &
echo "start $m $QUREDIS_REDELIVERED $$ $!" >>/test/ledger
while ! [ -e /test/go ]; do sleep 0.05; done
echo "end $m" >>/test/ledger
"""


def unavailable(why):
    if os.environ.get("QUREDIS_SYSTEMD") == "required":
        pytest.fail(why)
    pytest.skip(why)


class Container(Booted):
    """A booted root. What is written in it is forgotten with it; /test is shared."""

    def __init__(self, directory, stage):
        self.shared = directory
        super().__init__(directory / "console", [*NSPAWN, "-D", str(MACHINE), "--volatile=overlay", f"--bind-ro={stage}/usr/local:/usr/local",
                                                 f"--bind={directory}:/test"])

    def redis(self, *command):
        return self.run("redis-cli", *command).stdout.strip()


@pytest.fixture(scope="module")
def container(tmp_path_factory):
    if os.geteuid() != 0:
        unavailable("needs root")
    if any(shutil.which(tool) is None for tool in ("systemd-nspawn", "nsenter")):
        unavailable("needs systemd-nspawn (systemd-container)")
    if not MACHINE.is_dir():
        unavailable(f"{MACHINE} does not exist: `make systemd-root` makes it")
    directory = tmp_path_factory.mktemp("systemd")
    os.chmod(directory, 0o755)
    stage = directory / "stage"
    subprocess.run(["make", "-s", "-C", ROOT, f"BUILD={BUILD.parent}", f"DESTDIR={stage}", "prefix=/usr/local", "install"], check=True,
                   stdout=subprocess.DEVNULL)
    c = Container(directory, stage)
    try:
        c.wait_booted(unavailable)
        yield c
    finally:
        c.close()


class Service:
    """quredisd in the container, as systemd sees it."""

    def __init__(self, container):
        self.c = container
        self.ledger = container.shared / "ledger"

    def configure(self, text=None, **queue):
        queues = [{"name": "mail", "handler": ["/test/handler"], "run_as": {"user": "nobody"}, **queue}]
        self.c.write(CONF, text or render({"redis": {"url": "redis://127.0.0.1:6379"}, "queues": queues,
                                           "supervisor": {"drain_timeout": "60s", "kill_grace": "2s"}}))

    def drop_in(self, **settings):
        lines = "".join(f"{k}={v}\n" for k, v in settings.items())
        self.c.write("/etc/systemd/system/quredisd.service.d/test.conf", f"[Service]\n{lines}")
        self.c.run("systemctl", "daemon-reload")

    def systemctl(self, *args, check=True):
        return self.c.run("systemctl", *args, check=check)

    def show(self, *names):
        text = self.systemctl("show", "quredisd", "--timestamp=unix", "-p", ",".join(names)).stdout
        values = dict(line.split("=", 1) for line in text.splitlines())
        return values[names[0]] if len(names) == 1 else values

    def status(self):
        return json.loads(self.c.run("quredis", "-c", CONF, "status", "--json").stdout)

    def push(self, name):
        self.c.redis("LPUSH", "ingress:mail", name)

    def rows(self, what):
        return [line.split() for line in self.ledger.read_text().splitlines() if line.startswith(what + " ")]

    def go(self, open_it=True):
        (self.c.shared / "go").touch() if open_it else (self.c.shared / "go").unlink(missing_ok=True)

    def alive(self, pid):
        return self.c.run("kill", "-0", pid, check=False).returncode == 0


@pytest.fixture
def service(container):
    s = Service(container)
    s.ledger.write_text("")
    s.ledger.chmod(0o666)
    s.go(False)
    (container.shared / "handler").write_text(GATED)
    (container.shared / "handler").chmod(0o755)
    s.configure()
    container.redis("FLUSHALL")
    s.systemctl("start", "quredisd")
    yield s
    s.go()
    s.systemctl("stop", "quredisd", check=False)
    print(container.run("journalctl", "-u", "quredisd", "--no-pager", "-o", "cat", "-n", "60", check=False).stdout)
    s.drop_in()
    s.systemctl("reset-failed", "quredisd", check=False)


def test_start(service):
    s = service.show("ActiveState", "Type", "StatusText", "MainPID", "NRestarts")
    assert (s["ActiveState"], s["Type"], s["NRestarts"]) == ("active", "notify", "0") and "1 workers" in s["StatusText"]
    umask = service.c.run("sh", "-c", f"grep Umask /proc/{s['MainPID']}/status").stdout.split()[1]
    assert umask == "0027"
    service.go()
    service.push("m")
    wait_for(lambda: service.rows("end"))
    (run,) = service.rows("start")
    wait_for(lambda: not service.alive(run[4]), what="what the handler left to be killed")
    assert service.c.redis("LLEN", "escape:mail") == "0"


def test_doctor_reads_the_unit(service):
    """The form of systemctl show, which other tests of doctor imitate."""
    def said():
        rows = json.loads(service.c.run("quredis", "-c", CONF, "doctor", "--json", check=False).stdout)
        return [r["what"] for r in rows if r["check"] == "systemd"]
    service.drop_in(TimeoutStopSec="61s", KillMode="process")
    assert any("TimeoutStopSec=1min 1s is not more than" in s for s in said()) and any("KillMode=process" in s for s in said())
    service.drop_in()
    assert not any("KillMode" in s or "skipped" in s or "no quredisd.service" in s for s in said())


def test_reload(service):
    pid = service.show("MainPID")
    service.configure(workers=3)
    service.systemctl("reload", "quredisd")
    wait_for(lambda: service.status()["queues"][0]["workers"]["alive"] == 3)
    service.configure(text="queues = ( nonsense")
    assert service.systemctl("reload", "quredisd", check=False).returncode != 0
    s = service.show("ActiveState", "SubState", "MainPID", "NRestarts")
    assert s == {"ActiveState": "active", "SubState": "running", "MainPID": pid, "NRestarts": "0"}
    service.configure(workers=2)
    service.systemctl("reload", "quredisd")
    wait_for(lambda: service.status()["queues"][0]["workers"]["alive"] == 2)


def test_the_master_is_killed(service):
    """systemd starts another one; nothing of the first lives beside it, and its message runs again at once."""
    service.push("m")
    first = wait_for(lambda: service.rows("start"))[0]
    pid = service.show("MainPID")
    service.systemctl("kill", "--kill-who=main", "--signal=KILL", "quredisd")
    second = wait_for(lambda: len(service.rows("start")) == 2 and service.rows("start")[1], 60)
    assert not any(service.alive(p) for p in (pid, first[3], first[4]))
    assert second[:3] == ["start", "m", "1"]
    s = service.show("ActiveState", "NRestarts", "MainPID")
    assert (s["ActiveState"], s["NRestarts"]) == ("active", "1") and s["MainPID"] != pid
    service.go()
    wait_for(lambda: service.rows("end") == [["end", "m"]])


def test_watchdog(service):
    """A master that stands still is replaced."""
    service.systemctl("stop", "quredisd")
    service.drop_in(WatchdogSec="2s", TimeoutAbortSec="1s")
    service.systemctl("start", "quredisd")
    pid = service.show("MainPID")
    service.systemctl("kill", "--kill-who=main", "--signal=STOP", "quredisd")
    wait_for(lambda: service.show("NRestarts") == "1" and service.show("ActiveState") == "active", 60)
    assert service.show("MainPID") != pid
    service.go()
    service.push("m")
    wait_for(lambda: service.rows("end"))
    journal = service.c.run("journalctl", "-u", "quredisd", "--no-pager", "-o", "cat").stdout
    assert "Watchdog timeout" in journal


def test_drain(service):
    """A stop lets the handler finish, for longer than TimeoutStopSec, and starts nothing else."""
    service.drop_in(TimeoutStopSec="2s")
    service.push("m")
    wait_for(lambda: service.rows("start"))
    since = time.monotonic()
    service.systemctl("stop", "--no-block", "quredisd")
    wait_for(lambda: service.show("ActiveState") == "deactivating")
    service.push("n")
    wait_for(lambda: time.monotonic() - since > 5, what="more than TimeoutStopSec to pass")
    assert service.show("ActiveState") == "deactivating"
    service.go()
    wait_for(lambda: service.show("ActiveState") == "inactive", 60)
    assert service.show("Result") == "success"
    assert service.rows("end") == [["end", "m"]] and len(service.rows("start")) == 1
    assert service.c.redis("LRANGE", "ingress:mail", "0", "-1") == "n"


def test_redis_is_restarted(service):
    """With a message in work: it is done once, and quredisd stays."""
    service.push("m")
    wait_for(lambda: service.rows("start"))
    pid = service.show("MainPID")
    service.c.redis("SAVE")
    service.systemctl("restart", "redis-server")
    service.go()
    wait_for(lambda: service.rows("end"), 60)
    service.push("n")
    wait_for(lambda: len(service.rows("end")) == 2, 60)
    wait_for(lambda: service.c.run("sh", "-c", "redis-cli --scan --pattern 'transit:mail:*:[0-9]*' | wc -l").stdout.strip() == "0")
    assert [r[1] for r in service.rows("start")] == ["m", "n"]
    assert service.show("MainPID") == pid and service.show("NRestarts") == "0"


@pytest.mark.parametrize("text", ["queues = ( nonsense", "queues = ();\nredis = { urll = \"x\"; };\n"], ids=["syntax", "key"])
def test_a_bad_configuration_is_not_tried_again(service, text):
    service.systemctl("stop", "quredisd")
    service.configure(text=text)
    assert service.systemctl("start", "quredisd", check=False).returncode != 0
    s = service.show("ActiveState", "SubState", "Result", "ExecMainStatus", "NRestarts")
    assert s == {"ActiveState": "failed", "SubState": "failed", "Result": "exit-code", "ExecMainStatus": "78", "NRestarts": "0"}
    assert "quredis.conf:" in service.c.run("journalctl", "-u", "quredisd", "--no-pager", "-o", "cat", "-n", "20").stdout
    service.configure()
    service.systemctl("start", "quredisd")
    assert service.show("ActiveState") == "active"


# ---- supervisor.user ----

USER = "quredis"
SERVER_PORT = "6390"
KILL, SETGID, SETUID = 5, 6, 7
# notes "start NAME", and "end NAME USER"; a message "slow..." waits for /test/go in between
NAMING = """#!/bin/sh
read -r m
echo "start $m" >>/test/ledger
case $m in slow*) while ! [ -e /test/go ]; do sleep 0.05; done ;; esac
echo "end $m $(id -un)" >>/test/ledger
"""


class OwnUser(Service):
    """supervisor.user: files that only root may read, a log and an archive in a directory of that user."""

    def __init__(self, container):
        super().__init__(container)
        container.run("sh", "-c", f"id {USER} >/dev/null 2>&1 || useradd --system --no-create-home {USER}; mkdir -p /etc/quredis/tls")
        ca = Authority(container.shared / "ca")
        server = ca.sign("server", "IP:127.0.0.1")
        for source in (ca.cert, server.cert, server.key):
            container.write(f"/etc/quredis/tls/{source.name}", source.read_text(), "600")
        container.write("/etc/quredis/password", "open sesame\n", "600")
        self.names = {"ca": ca.cert.name, "cert": server.cert.name, "key": server.key.name}
        container.run("redis-server", "--port", "0", "--tls-port", SERVER_PORT, "--daemonize", "yes", "--requirepass", "open sesame", "--save", "",
                      *(f for n, f in zip(("--tls-ca-cert-file", "--tls-cert-file", "--tls-key-file"), self.files()) for f in (n, f)))
        container.write("/test/handler", NAMING, "755")

    def files(self):
        return [f"/etc/quredis/tls/{self.names[n]}" for n in ("ca", "cert", "key")]

    def redis(self, *command):
        ca, cert, key = self.files()
        return self.c.run("redis-cli", "-p", SERVER_PORT, "--tls", "--cacert", ca, "--cert", cert, "--key", key, "--no-auth-warning", "-a", "open sesame",
                          *command).stdout.strip()

    def push(self, queue, message):
        self.redis("LPUSH", f"ingress:{queue}", message)

    def configure(self, redis=None, **supervisor):
        ca, cert, key = self.files()
        queues = [{"name": "plain", "handler": ["/test/handler"]}, {"name": "other", "handler": ["/test/handler"], "run_as": {"user": "nobody"}}]
        tls = {"url": f"rediss://127.0.0.1:{SERVER_PORT}", "password_file": "/etc/quredis/password", "ca_file": ca, "cert_file": cert, "key_file": key}
        self.c.write(CONF, render({
            "redis": redis or tls, "queues": [{**q, "timeout": "20s", "recovery_attempts": 5} for q in queues],
            "supervisor": {"user": USER, "drain_timeout": "60s", "kill_grace": "2s", **supervisor}, "log": {"target": "/var/lib/quredis/log"},
            "dead_letter": {"archive": "/var/lib/quredis/archive", "max_entries": 1000}}))

    def processes(self):
        """{title: user, effective capabilities, no_new_privs} of each process of quredisd, if none of them appears twice."""
        found = []
        for line in self.c.run("ps", "-ww", "-eo", "pid=,args=").stdout.splitlines():
            pid, title = line.strip().split(None, 1)
            if not title.startswith("quredisd: ") and "unixsocket:/var/lib/quredis" not in title:
                continue
            text = self.c.run("cat", f"/proc/{pid}/status", check=False).stdout
            lines = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
            sets = {lines.get(n) for n in ("CapPrm", "CapEff")}
            user = self.c.run("id", "-un", lines["Uid"].split()[0]).stdout.strip() if lines and len(set(lines["Uid"].split())) == 1 else None
            name = "redis" if "unixsocket:" in title else title.removeprefix("quredisd: ").split(" (")[0]
            found.append((name, (user, int(sets.pop() or "0", 16), lines.get("NoNewPrivs")) if len(sets) == 1 else None))
        return dict(found) if len(dict(found)) == len(found) else None

    def logged(self, event):
        text = self.c.run("sh", "-c", "cat /var/lib/quredis/log*").stdout
        return [line for line in text.splitlines() if f" event={event} " in line]


@pytest.fixture
def own_user(container):
    s = OwnUser(container)
    s.ledger.write_text("")
    s.ledger.chmod(0o666)
    advice = re.findall(r"^#\t(\w+)=(.*)$", (ROOT / "etc/systemd/quredisd.service").read_text(), re.M)
    assert [name for name, _ in advice] == ["StateDirectory", "ExecStartPre"]
    s.drop_in(**dict(advice))
    container.run("install", "-d", "-o", USER, "-g", USER, "-m", "700", "/var/lib/quredis/archive")
    yield s
    s.go()
    s.systemctl("stop", "quredisd", check=False)
    print(container.run("journalctl", "-u", "quredisd", "--no-pager", "-o", "cat", "-n", "60", check=False).stdout)
    print(container.run("sh", "-c", "cat /var/lib/quredis/log*; rm -rf /var/lib/quredis", check=False).stdout)
    s.redis("SHUTDOWN", "NOSAVE")
    s.drop_in()
    s.systemctl("reset-failed", "quredisd", check=False)


def bits(*capabilities):
    return sum(1 << c for c in capabilities)


def test_supervisor_user(own_user):
    """Only the master, and what ends processes of other users, keep something; secrets that only root reads, the log, the archive and /run work."""
    s = own_user
    keeps = {"master": ("root", bits(KILL, SETGID, SETUID), "1"), "sweeper": (USER, 0, "1"), "sweeper search": (USER, bits(KILL), "1"),
             "worker plain/0": (USER, 0, "1"), "worker other/0": (USER, bits(KILL, SETGID, SETUID), "1")}
    s.configure()
    s.systemctl("start", "quredisd")
    wait_for(lambda: s.processes() == keeps, what="each process to keep what it needs")
    s.push("plain", "a")
    s.push("other", "b")
    wait_for(lambda: sorted(s.rows("end")) == [["end", "a", USER], ["end", "b", "nobody"]])
    s.c.run("mv", "/var/lib/quredis/log", "/var/lib/quredis/log.1")
    s.systemctl("kill", "--kill-who=main", "--signal=USR1", "quredisd")
    s.configure(lease="29s")
    s.systemctl("reload", "quredisd")
    wait_for(lambda: len(s.logged("sweeper_exited")) == 1 and s.processes() == keeps, what="a reload to replace them")
    s.go(False)
    s.push("plain", "slow-c")
    s.push("other", "slow-d")
    wait_for(lambda: len(s.rows("start")) == 4)
    s.systemctl("kill", "--kill-who=main", "--signal=KILL", "quredisd")
    wait_for(lambda: len(s.rows("start")) == 6, 60, "both to run again under the next master")
    s.go()
    wait_for(lambda: len(s.rows("end")) == 4 and s.processes() == keeps)
    assert s.show("NRestarts") == "1"
    s.systemctl("stop", "quredisd")
    assert s.show("Result") == "success" and s.processes() == {}
    assert [s.redis("LLEN", f"{kind}:{name}") for kind in ("ingress", "escape") for name in ("plain", "other")] == ["0"] * 4
    assert not s.logged("leftovers_alive") and not s.logged("queue_error") and not s.logged("privileges_kept")
    assert not [line for line in s.logged("config_problem") if "/var/lib/quredis" in line]
    owners = s.c.run("sh", "-c", "stat -c %U /var/lib/quredis/log* /run/quredis/quredisd.lock").stdout.split()
    assert owners == [USER, USER, "root"]


def test_supervisor_user_of_an_embedded_redis(own_user):
    s = own_user
    s.configure(redis={"embedded": True, "dir": "/var/lib/quredis/redis"})
    for name in ("a", "b"):                                # its directory is made, and found
        s.systemctl("start", "quredisd")
        wait_for(lambda: [(s.processes() or {}).get(k) for k in ("keeper", "redis")] == [(USER, 0, "1")] * 2)
        wait_for(lambda: s.c.run("quredis", "-c", CONF, "push", "plain", name, check=False).returncode == 0)
        wait_for(lambda: s.rows("end")[-1:] == [["end", name, USER]])
        s.systemctl("stop", "quredisd")
    assert s.show("Result") == "success" and s.processes() == {}


# ---- quredisd@.service ----

NAMES = ("a", "b", "c")
# notes "INSTANCE NAME"; a message "slow..." then waits for /test/go
NOTING = """#!/bin/sh
read -r m
echo "start @NAME@ $m" >>/test/ledger
case $m in slow*) while ! [ -e /test/go ]; do sleep 0.05; done ;; esac
echo "end @NAME@ $m" >>/test/ledger
"""


class Instances:
    """Three instances of the template, each with a prefix of its own on one server."""

    def __init__(self, container):
        self.c = container
        self.ledger = container.shared / "ledger"

    def configure(self, name, **queue):
        (self.c.shared / f"handler-{name}").write_text(NOTING.replace("@NAME@", name))
        (self.c.shared / f"handler-{name}").chmod(0o755)
        run = f"/run/quredis-{name}"
        self.c.write(f"/etc/quredis/{name}.conf", render({
            "redis": {"url": "redis://127.0.0.1:6379", "prefix": f"{name}:"},
            "supervisor": {"lock_file": f"{run}/quredisd.lock", "control_socket": f"{run}/control.sock", "drain_timeout": "30s",
                           "kill_grace": "2s"},
            "queues": [{"name": "mail", "handler": [f"/test/handler-{name}"], "run_as": {"user": "nobody"}, **queue}]}))

    def systemctl(self, verb, *names, check=True):
        return self.c.run("systemctl", verb, *(f"quredisd@{n}" for n in names), check=check)

    def show(self, name, *properties):
        text = self.c.run("systemctl", "show", f"quredisd@{name}", "-p", ",".join(properties)).stdout
        return dict(line.split("=", 1) for line in text.splitlines())

    def pids(self):
        return {n: self.show(n, "MainPID")["MainPID"] for n in NAMES}

    def states(self):
        return {n: self.show(n, "ActiveState")["ActiveState"] for n in NAMES}

    def status(self, name):
        return json.loads(self.c.run("quredis", "-c", f"/etc/quredis/{name}.conf", "status", "--json").stdout)

    def push(self, message):
        """The same to each instance, as a producer that knows nothing of quredis."""
        for name in NAMES:
            self.c.redis("LPUSH", f"{name}:ingress:mail", f"{message}-{name}")

    def wait_each(self, what, message):
        """Each instance has started, or ended, its own message once, and no other."""
        wait_for(lambda: sorted(r[1:] for r in self.rows(what) if r[2].startswith(f"{message}-")) == [[n, f"{message}-{n}"] for n in NAMES], 60,
                 f"{what} {message}")

    def rows(self, what):
        return [line.split() for line in self.ledger.read_text().splitlines() if line.startswith(f"{what} ")]

    def go(self, open_it=True):
        (self.c.shared / "go").touch() if open_it else (self.c.shared / "go").unlink(missing_ok=True)


@pytest.fixture
def instances(container):
    made = Instances(container)
    made.ledger.write_text("")
    made.ledger.chmod(0o666)
    made.go(False)
    container.redis("FLUSHALL")
    for name in NAMES:
        made.configure(name)
    made.systemctl("start", *NAMES)
    yield made
    made.go()
    made.systemctl("stop", *NAMES, check=False)
    print(container.run("journalctl", "-u", "quredisd@*", "--no-pager", "-o", "cat", "-n", "90", check=False).stdout)
    made.systemctl("reset-failed", *NAMES, check=False)


def test_three_instances(instances):
    """One unit a supervisor: what happens to one changes nothing of the others, and each handles its own messages only."""
    assert instances.states() == dict.fromkeys(NAMES, "active") and len(set(instances.pids().values())) == 3
    for name in NAMES:
        s = instances.status(name)
        assert (s["config"], s["redis"]["prefix"], str(s["pid"])) == (f"/etc/quredis/{name}.conf", f"{name}:", instances.pids()[name])
        assert f"quredis-{name}" in instances.show(name, "RuntimeDirectory")["RuntimeDirectory"]
    instances.push("first")
    instances.wait_each("end", "first")

    before = instances.pids()
    instances.configure("a", workers=3)
    instances.systemctl("reload", "a")
    wait_for(lambda: instances.status("a")["queues"][0]["workers"]["alive"] == 3)
    assert instances.pids() == before
    assert [instances.status(n)["queues"][0]["workers"]["wanted"] for n in NAMES] == [3, 1, 1]

    instances.systemctl("restart", "b")
    after = instances.pids()
    assert after["b"] != before["b"] and (after["a"], after["c"]) == (before["a"], before["c"])
    instances.push("second")
    instances.wait_each("end", "second")

    instances.push("slow")
    instances.wait_each("start", "slow")
    instances.c.run("systemctl", "kill", "--kill-who=main", "--signal=KILL", "quredisd@c")
    wait_for(lambda: instances.show("c", "NRestarts", "ActiveState") == {"NRestarts": "1", "ActiveState": "active"}, 60, "systemd to start c again")
    wait_for(lambda: [r[1] for r in instances.rows("start") if r[2] == "slow-c"] == ["c", "c"], 60, "the message to run again")
    assert {n: p for n, p in instances.pids().items() if n != "c"} == {n: p for n, p in after.items() if n != "c"}
    assert [instances.show(n, "NRestarts")["NRestarts"] for n in NAMES] == ["0", "0", "1"]
    instances.go()
    instances.wait_each("end", "slow")

    instances.systemctl("stop", "b")
    assert instances.states() == {"a": "active", "b": "inactive", "c": "active"}
    for name in NAMES:
        instances.c.redis("LPUSH", f"{name}:ingress:mail", f"third-{name}")
    wait_for(lambda: sorted(r[1:] for r in instances.rows("end") if r[2].startswith("third-")) == [["a", "third-a"], ["c", "third-c"]], 60)
    assert instances.c.redis("LRANGE", "b:ingress:mail", "0", "-1") == "third-b"
    assert all(r[2].endswith(f"-{r[1]}") for r in instances.rows("start"))
    assert [instances.c.redis("LLEN", f"{n}:escape:mail") for n in NAMES] == ["0"] * 3


def test_doctor_reads_the_unit_of_an_instance(instances):
    for name in NAMES:
        rows = json.loads(instances.c.run("quredis", "-c", f"/etc/quredis/{name}.conf", "doctor", "--json", check=False).stdout)
        assert [(r["check"], r["what"]) for r in rows if r["check"] in ("systemd", "control") and r["severity"] == "error"] == []
        assert not any("no quredisd" in r["what"] or "skipped" in r["what"] for r in rows if r["check"] == "systemd")
