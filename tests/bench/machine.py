"""Describes the machine and the versions of the programs."""
import os
import pathlib
import platform
import subprocess
import time


def _said(*argv):
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=20)
    except OSError:
        return None
    return done.stdout.strip().split("\n")[0] if done.returncode == 0 else None


def _first(path, key):
    for line in pathlib.Path(path).read_text().splitlines():
        if line.startswith(key):
            return line.split(":" if ":" in line else "=", 1)[1].strip().strip('"')
    return None


def _package(name):
    return _said("dpkg-query", "-W", "-f", "${Version}", name)


def facts(quredisd):
    found = {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "cpu": _first("/proc/cpuinfo", "model name"), "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(int(_first("/proc/meminfo", "MemTotal").split()[0]) / 1024 / 1024),
        "kernel": platform.release(), "system": _first("/etc/os-release", "PRETTY_NAME"),
        "libc": " ".join(platform.libc_ver()),
        "quredisd": _said(str(quredisd), "--version"), "redis": _said("redis-server", "--version"),
        "python": platform.python_version(), "node": _said("node", "--version"), "ruby": _said("ruby", "--version"),
        "load_before": [round(x, 2) for x in os.getloadavg()],
    }
    packages = {p: _package(p) for p in ("libhiredis0.14", "ruby-sidekiq", "python3-rq", "python3-celery", "gearman-tools")}
    return {k: v for k, v in {**found, **packages}.items() if v is not None}
