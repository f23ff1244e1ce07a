#!/usr/bin/python3
"""family.py IN OUT COMMAND...: runs it with these two descriptors as its 3 and 4, and ends everything it leaves behind when it ends, when told to, or when
its parent dies.

A browser is a crowd whose members outlive those that started them; here nobody else gets to see them.
"""
import ctypes
import fcntl
import os
import pathlib
import signal
import sys

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def children():
    return [int(p) for t in pathlib.Path("/proc/self/task").iterdir() for p in (t / "children").read_text().split()]


def end_all():
    while left := children():
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        os.wait()


def told(signum, frame):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    end_all()
    os._exit(0)


def pass_pipe(read, write):
    """A browser reads commands from 3 and writes answers to 4."""
    copies = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in (read, write)]       # either may be 3 or 4 itself
    for fd in (read, write):
        os.close(fd)
    for fd, copy in zip((3, 4), copies):
        os.dup2(copy, fd)


def main():
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, told)
    prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    pass_pipe(int(sys.argv[1]), int(sys.argv[2]))
    command = os.spawnvp(os.P_NOWAIT, sys.argv[3], sys.argv[3:])
    while True:
        pid, _ = os.wait()
        if pid == command:
            end_all()
            return


if __name__ == "__main__":
    main()
