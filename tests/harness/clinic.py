"""What the tests of quredis doctor have in common: a system to break, and what is said of it."""
import contextlib
import json
import os
import re
import select
import socket
import subprocess
import threading

from .config import queue
from .control import status
from .paths import QUREDIS
from .program import run_quredis
from .queues import Queue, incarnation
from .waiting import wait_for

HOUR_MS = 3600 * 1000
LEASE_S = 1
USER = {"run_as": {"user": "nobody"}} if os.geteuid() == 0 else {}
UNIT_DEFAULTS = {    # of systemd, as systemctl show prints them
    "Type": "simple", "TimeoutStopUSec": "1min 30s", "WatchdogUSec": "0", "KillMode": "control-group", "OOMPolicy": "stop", "User": "",
    "RuntimeDirectory": "", "RuntimeDirectoryPreserve": "no", "ProtectHome": "no", "PrivateTmp": "no", "Environment": ""}
GONE = incarnation(0, node="gone", boot=0xdead)     # a worker of a host that is no more

_SHIM = r"""
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <time.h>
int fstatfs(int fd, struct statfs *fs)
{
	int r = ((int (*)(int, struct statfs *))dlsym(RTLD_NEXT, "fstatfs"))(fd, fs);
	if (getenv("LIE_FS")) fs->f_type = 0x6969;
	return r;
}
int statvfs(const char *path, struct statvfs *fs)
{
	int r = ((int (*)(const char *, struct statvfs *))dlsym(RTLD_NEXT, "statvfs"))(path, fs);
	if (getenv("LIE_NOEXEC")) fs->f_flag |= ST_NOEXEC;
	return r;
}
int clock_gettime(clockid_t c, struct timespec *t)
{
	int r = ((int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime"))(c, t);
	if (c == CLOCK_REALTIME && getenv("LIE_CLOCK")) t->tv_sec += atoi(getenv("LIE_CLOCK"));
	return r;
}
const char *OpenSSL_version(int what)
{
	return getenv("LIE_OPENSSL") ? getenv("LIE_OPENSSL") : ((const char *(*)(int))dlsym(RTLD_NEXT, "OpenSSL_version"))(what);
}
"""


def make_shim(directory):
    """Builds a library for LD_PRELOAD that returns false answers: LIE_FS=1 and LIE_NOEXEC=1 about file systems, LIE_CLOCK=SECONDS about the time,
    LIE_OPENSSL=VERSION about that library. Returns the environment."""
    (directory / "shim.c").write_text(_SHIM)
    subprocess.run(["cc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", directory / "shim.so", directory / "shim.c", "-ldl"], check=True)
    return {"LD_PRELOAD": str(directory / "shim.so")}


@contextlib.contextmanager
def meanwhile(clinic, change):
    """change(client, n) over and over, until the block is left."""
    stop = threading.Event()

    def run():
        client, n = clinic.server.client(), 0
        while not stop.is_set():
            n += 1
            change(client, n)
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


class Report:
    """The output of one run. In rows commands of quredis have no options of the connection, in advice() they are whole."""

    def __init__(self, result):
        assert result.out, result.err
        self.code, self.err, self.out = result.code, result.err, result.out
        self.rows = json.loads(re.sub(r"quredis( -[cuHP] \S+)+", "quredis", result.out))

    def advice(self, check):
        return [r["advice"] for r in json.loads(self.out) if r["check"] == check and r["severity"] != "ok"]

    def bad(self, check=None):
        return [r for r in self.rows if r["severity"] != "ok" and check in (None, r["check"])]

    def one(self, check, severity, *said, advice=None, where=None):
        """The only finding of this check: what it says and advises is in it."""
        rows = self.bad(check)
        assert len(rows) == 1, self.rows
        row = rows[0]
        assert row["severity"] == severity and all(s in row["what"] for s in said), row
        assert row["advice"] and (advice is None or advice in row["advice"]), row
        assert where is None or where in row["where"], row
        return row

    def good(self, check):
        assert [r["severity"] for r in self.rows if r["check"] == check] == ["ok"], self.rows


class Clinic:
    """A Redis that keeps what it acknowledges, a configuration, and nothing running unless asked for."""

    def __init__(self, machine, handler, tmp):
        self.machine, self.tmp = machine, tmp
        self.bin = tmp / "systemd"
        self.bin.mkdir()
        self.no_systemd()
        self.server = machine.server(aof="always")
        self.client = self.server.client()
        self.handler = handler("cat >/dev/null")
        self.daemon = None
        self.configure()

    def configure(self, *queues, start=False, **sections):
        """One daemon a test: its configuration is written anew."""
        queues = list(queues) or [self.queue()]
        own = {"user": "nobody"} if os.geteuid() == 0 else {}
        supervisor = {"lease": f"{LEASE_S}s", **own, **sections.pop("supervisor", {})}
        options = {"redis": self.server, "queues": queues, "supervisor": supervisor, **sections}
        self.daemon = self.machine.daemon(start=False, **options)
        self.conf = self.daemon.conf
        if start:
            self.daemon.start()
            wait_for(lambda: not any(q["state"] == "recovering" for q in status(self.daemon)["queues"]), what="recovery to be over")
        return self

    def queue(self, name="mail", handler=None, **keys):
        return queue(name, handler or self.handler, **{"timeout": "5s", **USER, **keys})

    def no_systemd(self):
        self._systemctl("echo 'System has not been booted with systemd as init system (PID 1).' >&2; exit 1")

    def unit(self, text="", conf=None, loaded=True, unit="quredisd"):
        """systemctl shows a unit with these settings, written as in a unit file; all others are the defaults of systemd."""
        shown = {**UNIT_DEFAULTS, "LoadState": "loaded" if loaded else "not-found", "FragmentPath": f"/etc/systemd/system/{unit}.service",
                 "ExecStart": f"{{ path=/usr/local/sbin/quredisd ; argv[]=/usr/local/sbin/quredisd -c {conf or self.conf} ; ignore_errors=no ; pid=0 }}"}
        for name, value in re.findall(r"^(\w+)=(.*)$", text, re.M):
            name = re.sub(r"Sec$", "USec", name)
            if name in shown and name != "ExecStart":
                shown[name] = value
        (self.bin / "shown").write_text("".join(f"{k}={v}\n" for k, v in shown.items()))
        self._systemctl(f'[ "$1 $2" = "show {unit}.service" ] && exec cat {self.bin}/shown; [ "$1" = show ] && echo LoadState=not-found')
        return shown["FragmentPath"]

    def _systemctl(self, script):
        path = self.bin / "systemctl"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def run(self, *args, json=True, **options):
        env = {"PATH": f"{self.bin}:{os.environ['PATH']}", **options.pop("env", {})}
        where = [] if "-c" in args else ["-c", self.conf]
        return run_quredis(*where, "doctor", *(["--json"] if json else []), *args, tag=self.machine.tag, env=env, **options)

    def doctor(self, *args, **options):
        return Report(self.run(*args, **options))

    def command(self, *args):
        """The same, but returns the process."""
        return [str(QUREDIS), "-c", str(self.conf), "doctor", *args]

    def registered(self, name="mail", **lists):
        """Leaves the queue in Redis as a supervisor would, without starting one."""
        return Queue(self.client, name, **lists)


class InfoProxy:
    """Between quredis and Redis: what INFO says is edited, a pattern of bytes replaced by others."""

    def __init__(self, path, server, pattern, text):
        self.url, self._server, self._pattern, self._text = f"unix://{path}", server, pattern, text
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        os.chmod(path, 0o777)
        self._listener.listen(8)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        with contextlib.suppress(OSError):
            while True:
                self._serve(self._listener.accept()[0])

    def _serve(self, client):
        upstream = socket.socket(socket.AF_UNIX)
        upstream.connect(str(self._server.socket))
        held = b""
        with client, upstream:
            while True:
                ready = select.select([client, upstream], [], [])[0]
                if client in ready:
                    data = client.recv(1 << 16)
                    if not data:
                        return
                    upstream.sendall(data)
                if upstream in ready:
                    held += upstream.recv(1 << 16)
                    held = self._pass_on(held, client)

    def _pass_on(self, held, client):
        m = re.match(rb"\$(\d+)\r\n# Server", held)
        if m:
            end = held.index(b"\r\n") + 2
            size = int(m[1])
            if len(held) < end + size + 2:
                return held
            info = re.sub(self._pattern, self._text, held[end:end + size])
            held = b"$%d\r\n%s" % (len(info), info) + held[end + size:]
        client.sendall(held)
        return b""

    def close(self):
        self._listener.close()
