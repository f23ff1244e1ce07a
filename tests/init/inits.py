"""Init systems that run quredisd by the files of etc/init, without being the init of the machine.

Each class answers the same questions. Its files are copied below the directory of the test, with the paths of an
installation replaced by paths there; nothing else of them is changed.
"""
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess

from harness import QUREDIS, QUREDISD, ROOT, descendants_of, wait_for
from harness.daemon import parse_line
from harness.paths import BUILD
from harness.processes import WITH_US, alive, name_of

FETCHED = BUILD.parent / "tools/init"


def fetched(*folders):
    return [str(FETCHED / folder) for folder in folders if (FETCHED / folder).is_dir()]


def environment(**more):
    """With the programs that `make inits` fetched, if it did, before those of the system."""
    libraries = [str(p) for p in FETCHED.glob("usr/lib/*-linux-*")] + [str(p) for p in FETCHED.glob("lib/*-linux-*")]
    path = [*fetched("usr/bin", "usr/sbin", "bin", "sbin"), os.environ["PATH"], "/usr/sbin", "/sbin"]
    found = {**os.environ, "PATH": ":".join(path), **more}
    if libraries:
        found["LD_LIBRARY_PATH"] = ":".join(libraries)
        found["PYTHONPATH"] = str(FETCHED / "usr/lib/python3/dist-packages")
    return found


def find_program(name):
    return shutil.which(name, path=environment()["PATH"])


class Init:
    """quredisd under one init system. d: the daemon's configuration; the init system starts and ends it, not d."""

    name = None             # the folder of etc/init
    needs = ()              # programs
    log = "log"             # what it makes of /var/log/quredisd

    def __init__(self, directory, d, tag):
        self.dir, self.d, self.tag, self.process = directory, d, tag, None
        self.run = directory / "run"
        (directory / "bin").mkdir(parents=True)
        self.starts_file = directory / "starts"
        self.starts_file.touch()
        # Handlers and workers are recognised by it, also where the init system clears the environment.
        self._write_program("quredisd", f"export QUREDIS_TEST_TAG={tag}\ncase \" $* \" in *' -T '*) ;; *) echo $$ >>{self.starts_file} ;; esac\n"
                            f"exec {QUREDISD} \"$@\"\n")
        self._write_program("quredis", f"exec {QUREDIS} \"$@\"\n")
        self.install()

    def _write_program(self, name, body):
        path = self.dir / "bin" / name
        path.write_text("#!/bin/sh\n" + body)
        path.chmod(0o755)

    def copy(self, source, target):
        """A file of etc/init, with the paths of this test."""
        text = (ROOT / "etc/init" / self.name / source).read_text()
        for old, new in (("/usr/local/sbin/quredisd", self.dir / "bin/quredisd"), ("/usr/local/bin/quredis", self.dir / "bin/quredis"),
                         ("/etc/quredis/quredis.conf", self.d.conf), ("/run/quredis", self.run), ("/var/log/quredisd", self.dir / "log")):
            text = text.replace(old, str(new))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        target.chmod(0o755 if os.access(ROOT / "etc/init" / self.name / source, os.X_OK) else 0o644)
        return target

    def break_usage(self):
        """From now on quredisd is started with an option that it does not have."""
        self._write_program("quredisd", f"echo $$ >>{self.starts_file}\nexec {QUREDISD} --no-such-option \"$@\"\n")

    def launch(self, *command, **env):
        with open(self.dir / "init.out", "ab") as out:
            self.process = subprocess.Popen([*WITH_US, *map(str, command)], stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                            env=environment(**env), cwd="/")

    def ask(self, *command, timeout=120):
        return subprocess.run([*map(str, command)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=timeout, env=environment(), cwd="/")

    # ---- what all of them answer ----

    def install(self):
        raise NotImplementedError

    def start(self):
        """Starts the init system, which starts quredisd. Does not wait for it."""
        raise NotImplementedError

    def is_ready(self):
        """What the init system says."""
        raise NotImplementedError

    def sees_it_run(self):
        """What the init system says of a program that it has started, ready or not; where it cannot tell these apart, True."""
        return True

    def expect_failure(self):
        """quredisd will not start: where the init system waits long for that, it waits for less."""

    def reload(self):
        raise NotImplementedError

    def stop(self):
        """Tells the init system to stop quredisd. Does not wait for it."""
        raise NotImplementedError

    def has_stopped(self):
        """The init system says that quredisd is down, and is to stay so."""
        raise NotImplementedError

    def has_given_up(self):
        """The init system says that it starts quredisd no more."""
        return self.has_stopped()

    def wait_ready(self):
        return wait_for(self.is_ready, 60, "the init system to say ready")

    # ---- quredisd ----

    def starts(self):
        """The pids of all starts. What the init system does not reap has become a child of this process, which does."""
        pids = [int(line) for line in self.starts_file.read_text().split()]
        for pid in pids:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        return pids

    def master(self):
        """The pid of the master, or None."""
        pid = (self.starts() or [0])[-1]
        return pid if pid and alive(pid) and name_of(pid) == "quredisd" else None

    def log_file(self):
        return self.dir / self.log

    def text(self):
        path = self.log_file()
        return path.read_text(errors="replace") if path.is_file() else ""

    def events(self, name, **fields):
        rows = [parse_line(line) for line in self.text().splitlines() if name in line]
        return [r for r in rows if r.get("event") == name and all(r.get(k) == v for k, v in fields.items())]

    def wait_event(self, name, count=1, **fields):
        return wait_for(lambda: len(self.events(name, **fields)) >= count, 60, f"{count} x {name} {fields} in {self.log_file()}")

    def processes(self):
        """The init system, quredisd, and all below them."""
        roots = [p for p in (self.process.pid, self.master()) if p]
        return [p for p in dict.fromkeys([*roots, *(c for r in roots for c in descendants_of(r))]) if alive(p)]

    def signal_all(self, sig):
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, sig)

    def close(self):
        print(f"---- {self.name}: {(self.dir / 'init.out').read_text(errors='replace') if self.process else 'not started'}")
        print(f"---- log\n{self.text()}")
        if self.process is None:
            return
        self.process.poll()
        for sig in (signal.SIGSTOP, signal.SIGKILL):
            self.signal_all(sig)
        self.process.wait(30)


class S6(Init):
    name, needs, log = "s6", ("/usr/bin/s6-supervise", "s6-svscan", "s6-svwait", "s6-log"), "log/current"      # s6-svscan has that path

    def install(self):
        self.service = self.dir / "scan/quredisd"
        for file in ("run", "finish", "notification-fd", "log/run"):
            self.copy(file, self.service / file)

    def start(self):
        self.launch("s6-svscan", self.service.parent)

    def is_ready(self):
        return self.ask("s6-svwait", "-U", "-t", "500", self.service).returncode == 0

    def sees_it_run(self):
        return self.ask("s6-svstat", "-o", "up,ready", self.service).stdout.split() == ["true", "false"]

    def reload(self):
        assert self.ask("s6-svc", "-h", self.service).returncode == 0

    def stop(self):
        assert self.ask("s6-svc", "-d", self.service).returncode == 0

    def has_stopped(self):
        return self.ask("s6-svstat", "-o", "up,wantedup", self.service).stdout.split() == ["false", "false"]


class Runit(Init):
    name, needs, log = "runit", ("runsvdir", "sv", "svlogd"), "log/current"

    def install(self):
        self.service = self.dir / "service/quredisd"
        for file in ("run", "check", "finish", "log/run"):
            self.copy(file, self.service / file)

    def start(self):
        self.launch("runsvdir", "-P", self.service.parent)

    def sv(self, *arguments):
        return self.ask("sv", *arguments, self.service)

    def is_ready(self):
        done = self.sv("-w", "1", "check")
        return done.returncode == 0 and done.stdout.startswith("ok: run:")

    def sees_it_run(self):
        return self.sv("status").stdout.startswith("run:")

    def reload(self):
        assert self.sv("hup").returncode == 0

    def stop(self):
        assert self.sv("down").returncode == 0

    def has_stopped(self):
        state = self.sv("status").stdout.split(";")[0]
        return state.startswith("down:") and "want up" not in state


class Supervisord(Init):
    name, needs, log = "supervisord", ("supervisord", "supervisorctl"), "log.log"

    def install(self):
        program = self.copy("quredisd.conf", self.dir / "conf.d/quredisd.conf")
        self.conf = self.dir / "supervisord.conf"
        self.conf.write_text(f"""
[unix_http_server]
file={self.dir}/s
[supervisord]
logfile={self.dir}/supervisord.log
pidfile={self.dir}/supervisord.pid
[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface
[supervisorctl]
serverurl=unix://{self.dir}/s
[include]
files = {program}
""")

    def start(self):
        self.launch(find_program("supervisord"), "-n", "-c", self.conf)

    def ctl(self, *arguments):
        return self.ask(find_program("supervisorctl"), "-c", self.conf, *arguments).stdout

    def state(self):
        return (self.ctl("status", "quredisd").split() + ["", ""])[1]

    def is_ready(self):
        """As its file advises."""
        ready = self.run / "ready"
        return ready.exists() and ready.stat().st_size > 0 and self.state() == "RUNNING"

    def sees_it_run(self):
        return self.state() == "RUNNING"

    def reload(self):
        assert "signalled" in self.ctl("signal", "HUP", "quredisd")

    def stop(self):
        """supervisorctl waits for the end of the program."""
        self.stopping = subprocess.Popen([find_program("supervisorctl"), "-c", str(self.conf), "stop", "quredisd"], env=environment(),
                                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def has_stopped(self):
        return self.state() == "STOPPED" and self.stopping.wait(60) == 0

    def has_given_up(self):
        return self.state() in ("FATAL", "EXITED")


class Monit(Init):
    """It looks once a second here; its default is two minutes."""
    name, needs, log = "monit", ("monit", "setsid"), "log.log"

    def install(self):
        self.program = self.copy("quredisd", self.dir / "conf.d/quredisd")
        self.conf = self.dir / "monitrc"
        self.conf.write_text(f"""
set daemon 1
set log {self.dir}/monit.log
set pidfile {self.dir}/monit.pid
set idfile {self.dir}/monit.id
set statefile {self.dir}/monit.state
set httpd unixsocket {self.dir}/s allow tester:tester
include {self.program}
""")
        self.conf.chmod(0o600)

    def expect_failure(self):
        text = self.program.read_text()
        self.program.write_text(text.replace("timeout 30 seconds", "timeout 3 seconds"))
        assert self.program.read_text() != text

    def start(self):
        self.launch("monit", "-I", "-c", self.conf)

    def monit(self, *arguments):
        return self.ask("monit", "-c", self.conf, *arguments)

    def state(self, service="quredisd"):
        """The word behind "status"."""
        lines = [line.split(maxsplit=1) for line in self.monit("status", service).stdout.splitlines()]
        return next((words[1] for words in lines if words[0:1] == ["status"]), "")

    def is_ready(self):
        return self.state() == "OK" and self.state("quredisd_ready") == "OK"

    def reload(self):
        done = self.ask(self.dir / "bin/quredis", "-c", self.d.conf, "reload")
        assert done.returncode == 0, done.stdout

    def stop(self):
        assert self.monit("stop", "quredisd").returncode == 0

    def has_stopped(self):
        return self.master() is None and self.state() == "Not monitored"

    def close(self):
        super().close()
        print(f"---- monit\n{(self.dir / 'monit.log').read_text() if (self.dir / 'monit.log').exists() else ''}")


class OpenRC(Init):
    """In a mount namespace with a /run, an /etc/init.d and, where OpenRC was fetched, a /lib and a /sbin of its own. It was never booted."""
    daemon = None
    name, needs, log = "openrc", ("openrc-run", "supervise-daemon", "rc-service", "unshare", "nsenter"), "log.log"

    def install(self):
        self.copy("quredisd", self.dir / "init.d/quredisd")
        localmount = self.dir / "init.d/localmount"          # a service that each system with OpenRC has
        localmount.write_text("#!/sbin/openrc-run\nstart() { :; }\n")
        localmount.chmod(0o755)
        folders = " ".join(f"/run/openrc/{d}" for d in ("daemons", "exclusive", "failed", "hotplugged", "inactive", "options", "scheduled", "started",
                                                        "starting", "stopping", "tmp", "wasinactive"))
        overlays = "".join(f"mount -t overlay -o lowerdir={FETCHED}/{d}:/usr/{d} overlay /usr/{d}\n" for d in ("lib", "sbin") if (FETCHED / d).is_dir())
        self.setup = self.dir / "boot"
        self.setup.write_text(f"set -e\nmount -t tmpfs none /run\n{overlays}mount --bind {self.dir}/init.d /etc/init.d\n"
                              f"mkdir -p {folders}\ntouch /run/openrc/softlevel\necho booted\nread -r _\n")

    def start(self):
        with open(self.dir / "init.out", "ab") as out:
            self.process = subprocess.Popen([*WITH_US, "unshare", "--mount", "--propagation", "private", "sh", str(self.setup)], stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, stderr=out, env=environment(), cwd="/")
        assert self.process.stdout.readline() == b"booted\n", (self.dir / "init.out").read_text()
        self.starting = self.begin("start")

    def inside(self, *command):
        return ["nsenter", "--mount", f"--target={self.process.pid}", *command]

    def begin(self, order):
        """rc-service waits for what it orders; the test need not."""
        with open(self.dir / "init.out", "ab") as out:
            return subprocess.Popen(self.inside("rc-service", "quredisd", order), stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment(), cwd="/")

    def service(self, order):
        return self.ask(*self.inside("rc-service", "quredisd", order))

    def supervise_daemon(self):
        """Its pid, or None. It has become a child of this process, which reaps it: rc-service stop waits for the end of a zombie."""
        with contextlib.suppress(OSError, ValueError):
            self.daemon = int(pathlib.Path(f"/proc/{self.process.pid}/root/run/quredisd.pid").read_text())
        if self.daemon:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.daemon, os.WNOHANG)
        return self.daemon if self.daemon and alive(self.daemon) else None

    def processes(self):
        extra = [p for p in [self.supervise_daemon()] if p]
        return [*super().processes(), *(c for p in extra for c in [p, *descendants_of(p)])]

    def sees_it_run(self):
        """rc-service start waits in start_post, or has returned."""
        return self.supervise_daemon() is not None and (self.starting.poll() is not None or "sleep" in map(name_of, descendants_of(self.starting.pid)))

    def is_ready(self):
        """rc-service start has returned, and since: the file that it waits for."""
        ready = self.run / "ready"
        return self.starting.poll() == 0 and ready.exists() and ready.stat().st_size > 0 and self.service("status").returncode == 0

    def reload(self):
        done = self.service("reload")
        assert done.returncode == 0, done.stdout

    def stop(self):
        self.stopping = self.begin("stop")

    def has_stopped(self):
        return self.supervise_daemon() is None and self.stopping.poll() == 0

    def has_given_up(self):
        return self.starting.poll() not in (None, 0) or (self.starting.poll() == 0 and self.supervise_daemon() is None)
