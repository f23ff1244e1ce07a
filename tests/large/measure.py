#!/usr/bin/python3
"""What another client of Redis sees, which command of Redis took longest, and how large processes became.

measure.py SOCKET: pings Redis each 5 ms, in a process of its own, so that nothing of the test delays it. Each line on its
standard input is answered by the longest wait for a PONG since the line before, in seconds.
"""
import contextlib
import os
import pathlib
import re
import select
import socket
import subprocess
import sys
import threading
import time

INTERVAL_S = 0.005
SAMPLE_S = 0.05


class Pinger:
    """worst(): the longest wait for a PONG since the last call, in seconds."""

    def __init__(self, server):
        self._process = subprocess.Popen([sys.executable, __file__, str(server.socket)], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, text=True)
        self.worst()

    def worst(self):
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self):
        self._process.stdin.close()
        self._process.wait(20)
        self._process.stdout.close()


def ping_for_ever(path):
    with contextlib.suppress(OSError):
        os.nice(-10)                    # others who use this machine must not look like a slow Redis
    redis = socket.socket(socket.AF_UNIX)
    redis.connect(path)
    worst = 0.0
    while True:
        sent = time.monotonic()
        redis.sendall(b"PING\r\n")
        if not redis.recv(64):
            return
        worst = max(worst, time.monotonic() - sent)
        if select.select([0], [], [], INTERVAL_S)[0]:
            if not os.read(0, 1):
                return
            print(worst, flush=True)
            worst = 0.0


class PeakMemory:
    """The largest resident set that each process of some kind had, in bytes; sampled, since they may be killed at any time.

    find: kind -> list of pids. Processes that live at the start begin with what they have then.
    """

    def __init__(self, find):
        self.find, self.peaks = find, {}
        self._over = threading.Event()
        for pids in find().values():
            for pid in pids:
                with contextlib.suppress(OSError):
                    pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self):
        while not self._over.wait(SAMPLE_S):
            self._sample()

    def _sample(self):
        for kind, pids in self.find().items():
            for pid in pids:
                with contextlib.suppress(OSError, TypeError):
                    text = pathlib.Path(f"/proc/{pid}/status").read_text()
                    peak = int(re.search(r"VmHWM:\s+(\d+)", text)[1]) * 1024
                    self.peaks[kind] = max(peak, self.peaks.get(kind, 0))

    def close(self):
        self._over.set()
        self._thread.join()
        self._sample()
        return self.peaks


def longest_command(client):
    """(seconds, what) of the longest command since SLOWLOG RESET, without those of the test itself."""
    from harness.redis_proxy import SCRIPTS         # not above: the pinger has only this file
    slowest = max((e for e in client.slowlog_get(128) if not e["command"].startswith((b"KEYS", b"SLOWLOG"))),
                  key=lambda e: e["duration"], default=None)
    if not slowest:
        return 0.0, ""
    words = slowest["command"].decode(errors="replace").split(" ")
    what = SCRIPTS.get(words[1].encode(), "script") if words[0] == "EVALSHA" else words[0]
    return slowest["duration"] / 1e6, what


if __name__ == "__main__":
    ping_for_ever(sys.argv[1])
