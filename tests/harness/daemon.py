"""quredisd under test."""
import contextlib
import fcntl
import os
import pathlib
import re
import socket
import subprocess
import threading
import time
from signal import SIGCONT, SIGHUP, SIGKILL, SIGQUIT, SIGSTOP, SIGTERM

from . import processes, reach
from .config import render
from .paths import QUREDISD
from .program import run_quredis
from .waiting import wait_for

F_SETPIPE_SZ = 1031        # fcntl.F_SETPIPE_SZ since Python 3.10
_FIELD = re.compile(r'([A-Za-z0-9_.]+)=("(?:\\.|[^"\\])*"|\S*)')
_TITLE = re.compile(r"quredisd: (worker ([A-Za-z0-9._-]+)/(\d+)|sweeper|keeper)")
_SANITIZER = re.compile(r"Sanitizer|runtime error:")


def parse_line(line):
    """A logfmt line as a dict; a value's quotes and the escapes of quotes and backslashes are undone."""
    out = {}
    for key, value in _FIELD.findall(line):
        if value.startswith('"'):
            value = re.sub(r"\\([\"\\])", r"\1", value[1:-1])
        out[key] = value
    return out


class FakeNotifySocket:
    """What systemd would be told: datagrams of sd_notify."""

    def __init__(self, path):
        self.path = str(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.path)
        self._socket.setblocking(False)
        self._messages = []

    def messages(self):
        """All so far, each a dict of its lines."""
        while True:
            try:
                data = self._socket.recv(65536)
            except BlockingIOError:
                return list(self._messages)
            self._messages.append(dict(line.split("=", 1) for line in data.decode().splitlines() if "=" in line))

    def wait_for(self, key, value=None, timeout=20):
        """The first message that has key (with this value)."""
        def found():
            return [m for m in self.messages() if key in m and (value is None or m[key] == value)]
        return wait_for(found, timeout, f"{key} on the notify socket")[0]

    def close(self):
        self._socket.close()


class Quredisd:
    """One supervisor: its configuration, process and log.

    Sections are keyword arguments with the names of the file: queues, supervisor, log, defaults,
    dead_letter, ... A RedisServer or a dict as redis. Further text: extra. inside: what its command begins
    with (containers.py); pid is the daemon's all the same.
    """

    def __init__(self, directory, *, tag, redis, queues=(), args=(), env=None, notify=False, extra="", inside=(), **sections):
        self.dir = pathlib.Path(directory)
        self.dir.mkdir(parents=True, exist_ok=True)
        self.conf = self.dir / "quredis.conf"
        self.tag = tag
        self.args = list(args)
        self.env = dict(env or {})
        self.notify = FakeNotifySocket(self.dir / "n") if notify else None
        self.lines = []
        self.stdout = self.dir / "stdout"
        self.runs = 0
        self._process = None
        self._pid = None
        self._reader = None
        self._inside = list(inside)
        redis = {"url": redis.url} if hasattr(redis, "url") else redis      # what reaches it, write_conf() puts there
        supervisor = {
            "node": tag, "lock_file": self.dir / "lock", "control_socket": self.dir / "c",
            "drain_timeout": "10s", "kill_grace": "2s", **sections.pop("supervisor", {}),
        }
        self.sections = {"redis": redis, "supervisor": supervisor,
                         "log": {"level": "debug", **sections.pop("log", {})}, **sections, "queues": list(queues)}
        self.extra = extra
        self.write_conf()

    # ---- configuration ----

    def write_conf(self, **changes):
        """Writes the file, with these sections replaced; reload() tells the daemon."""
        self.sections.update(changes)
        aside = self.conf.with_suffix(".new")
        aside.write_text(render(reach.configured(self.sections)) + self.extra)
        os.chmod(aside, 0o644)
        os.rename(aside, self.conf)

    def reload(self, **changes):
        self.write_conf(**changes)
        self.signal(SIGHUP)

    # ---- process ----

    @property
    def pid(self):
        assert self._process is not None, "not running"
        if self._pid is None:
            self._pid = wait_for(self._find, 20, "quredisd to be started")
        return self._pid

    def _find(self):
        """What it runs inside of may have forked."""
        tree = [self._process.pid, *(processes.descendants_of(self._process.pid) if self._inside else [])]
        return next((p for p in tree if not self._inside or processes.name_of(p) == "quredisd"), None)

    def command(self, *args):
        return [str(QUREDISD), "-c", str(self.conf), *self.args, *args]

    def environment(self):
        clean = {k: v for k, v in os.environ.items()
                 if not k.startswith("QUREDIS_") and k not in ("NOTIFY_SOCKET", "JOURNAL_STREAM", "WATCHDOG_USEC")}
        notify = {"NOTIFY_SOCKET": self.notify.path} if self.notify else {}
        return {**clean, "QUREDIS_TEST_TAG": self.tag, **notify, **self.env}

    def start(self, wait=True):
        assert self._process is None, "already running"
        self.runs += 1
        self._first_line = len(self.lines)
        with open(self.stdout, "ab") as out:
            self._process = subprocess.Popen([*processes.WITH_US, *self._inside, *self.command()], stdin=subprocess.DEVNULL,
                                             stdout=out, stderr=subprocess.PIPE, env=self.environment(), cwd="/")
        with contextlib.suppress(OSError):      # quredisd loses lines rather than wait for a slow reader
            fcntl.fcntl(self._process.stderr, F_SETPIPE_SZ, 1 << 20)
        self._pid = None
        self._reader = threading.Thread(target=self._read, args=(self._process.stderr,), daemon=True)
        self._reader.start()
        if wait:
            self.wait_ready()
        return self

    def _read(self, stream):
        with stream:
            for raw in stream:
                self.lines.append(reach.seen(raw.decode(errors="replace").rstrip("\n")))

    def check(self, *args):
        """quredisd -t (or other arguments) on this configuration: a CompletedProcess with text."""
        return subprocess.run(self.command(*(args or ("-t",))), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, timeout=30, env=self.environment(), stdin=subprocess.DEVNULL)

    def wait_ready(self, timeout=30):
        def ready():
            code = self._process.poll()
            if code is not None:
                self._reader.join(5)
                raise AssertionError(f"quredisd ended with {code}:\n" + self.text())
            return self.ready()
        wait_for(ready, timeout, "the event `ready`")
        return self

    def ready(self):
        """Whether it has said so since it was started last."""
        return self.events("ready", since=self._first_line)

    def running(self):
        return self._process is not None and self._process.poll() is None

    def signal(self, sig):
        os.kill(self.pid, sig)

    def wait_exit(self, timeout=40):
        """The exit status (negative: signal). Its log is complete then."""
        code = self._process.wait(timeout)
        self._process = None
        # a handler's orphan may hold the pipe; what the daemon itself wrote is there
        self._reader.join(2)
        return code

    def stop(self, sig=SIGTERM, timeout=60):
        """Sends sig, waits, returns the exit status."""
        self.signal(sig)
        return self.wait_exit(timeout)

    def kill9(self):
        """Kills the master with SIGKILL."""
        self.signal(SIGKILL)
        return self.wait_exit()

    def kill_tree(self, spare=()):
        """The master and all below it but `spare`, at once: stopped first, so that none acts on the deaths of others."""
        tree = [p for p in [self.pid, *processes.descendants_of(self.pid)] if p not in spare]
        for sig in (SIGSTOP, SIGKILL):
            for pid in tree:
                try:
                    os.kill(pid, sig)
                except ProcessLookupError:
                    pass
        self.wait_exit()
        wait_for(lambda: not any(processes.alive(p) for p in tree), 20, "the tree to be gone")

    def restart(self, sig=SIGTERM):
        assert self.stop(sig) == 0, self.text()
        return self.start()

    # ---- its processes ----

    def children(self):
        """pid -> title of the master's living children. A child that was forked a moment ago still has the master's title."""
        deadline = time.monotonic() + 5
        while True:
            found = {pid: processes.title_of(pid) for pid in processes.children_of(self.pid)}
            if processes.title_of(self.pid) not in found.values() or time.monotonic() > deadline:
                return found
            time.sleep(0.005)

    def workers(self, queue=None):
        """"mail/0" -> pid of the master's children, of one queue or all."""
        found = {}
        for pid, title in self.children().items():
            m = _TITLE.match(title)
            if m and m[2] and (queue is None or m[2] == queue):
                found[f"{m[2]}/{m[3]}"] = pid
        return found

    def wait_workers(self, queue, n, timeout=20):
        return wait_for(lambda: (w := self.workers(queue)) and len(w) == n and w, timeout, f"{n} workers of {queue}")

    def sweeper(self):
        """Its pid, or None."""
        for pid, title in self.children().items():
            m = _TITLE.match(title)
            if m and m[1] == "sweeper":
                return pid
        return None

    def handlers(self):
        """Living processes that carry an incarnation of this daemon's node."""
        node = str(self.sections["supervisor"]["node"]).encode()
        return [p for p in processes.pids() if processes.alive(p)
                and processes.environment_of(p).get(b"QUREDIS_INCARNATION", b"").startswith(node + b".")]

    # ---- its log ----

    def text(self):
        return "\n".join(self.lines)

    def events(self, name=None, since=0, **fields):
        """Log lines with this event and these fields (compared as text), as dicts."""
        rows = [parse_line(line) for line in list(self.lines)[since:] if name is None or name in line]     # most lines need no parsing
        want = {**({"event": name} if name else {}), **{k: str(v) for k, v in fields.items()}}
        return [r for r in rows if all(r.get(k) == v for k, v in want.items())]

    def wait_event(self, name, timeout=20, since=0, **fields):
        return wait_for(lambda: self.events(name, since, **fields), timeout, f"event {name} {fields}")[0]

    def mark(self):
        """A place in the log for since=."""
        return len(self.lines)

    def sanitizer_lines(self):
        return [line for line in self.lines if _SANITIZER.search(line)]

    # ---- the rest ----

    def _try_signal(self, sig):
        try:
            self.signal(sig)
        except ProcessLookupError:
            pass

    def quredis(self, *args, **options):
        """The command line with this configuration."""
        return run_quredis("-c", self.conf, *args, tag=self.tag, **options)

    def close(self):
        """At the end of a test: fast stop of what still runs. Returns what was wrong, or None."""
        wrong = None
        if self.running():
            for sig in (SIGCONT, SIGQUIT):
                self._try_signal(sig)
            try:
                code = self._process.wait(30)
                if code != 0:
                    wrong = f"quredisd ended with {code} after SIGQUIT"
            except subprocess.TimeoutExpired:
                wrong = "quredisd did not end within 30 s of SIGQUIT"
                self._process.kill()
                self._process.wait(20)
        if self._reader is not None:
            self._reader.join(2)
        if self.notify:
            self.notify.close()
        return wrong


def wait_gone(tag, own, timeout):
    """The processes of a test that are left after at most timeout seconds."""
    deadline = time.monotonic() + timeout
    while True:
        processes.reap_adopted(own)
        left = processes.belonging_to(tag, own)
        if not left or time.monotonic() >= deadline:
            return left
        time.sleep(0.02)
