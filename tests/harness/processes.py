"""What /proc tells: who lives, whose child it is, whose test it belongs to.

The test process is a child subreaper: whatever a dead daemon leaves behind becomes its child, so no
orphan can hide. A zombie counts as gone.
"""
import contextlib
import ctypes
import os
import pathlib
import resource
import signal
import time

_PR_SET_CHILD_SUBREAPER = 36

# In front of a command: it ends with the test process, however that ends.
WITH_US = ["setpriv", "--pdeathsig", "KILL"]


def become_subreaper():
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def children_heed_signals():
    """What we were told to ignore (nohup, a shell's &) is not handed on: a handler, unlike SIG_IGN, ends at exec."""
    for sig in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(sig) == signal.SIG_IGN:
            signal.signal(sig, lambda signum, frame: None)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def nothing_to_read():
    """Our standard input is at its end, and so is that of every child: tests are the same at a terminal, behind a pipe, and with none."""
    null = os.open(os.devnull, os.O_RDONLY)
    if null != 0:
        os.dup2(null, 0)
        os.close(null)
    else:
        os.set_inheritable(0, True)


def _stat(pid):
    """(state, ppid, pgid, sid) or None."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:      # of all processes at each look: pathlib and text take thrice the time
            text = file.read().decode(errors="replace")
    except OSError:
        return None
    fields = text[text.rindex(")") + 2:].split()
    return fields[0], int(fields[1]), int(fields[2]), int(fields[3])


def pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def alive(pid):
    stat = _stat(pid)
    return stat is not None and stat[0] not in "ZX"


def parents():
    """pid -> parent's pid of all that live, at one look."""
    return {p: s[1] for p in pids() if (s := _stat(p)) and s[0] not in "ZX"}


def children_of(pid):
    """Living direct children."""
    return [p for p, parent in parents().items() if parent == pid]


def zombies_of(pid):
    """Direct children that it has not reaped."""
    return [p for p in pids() if (s := _stat(p)) and s[0] == "Z" and s[1] == pid]


def descendants_of(pid):
    """Living descendants, parents first."""
    found, level, everybody = [], {pid}, parents()
    while level:
        level = {p for p, parent in everybody.items() if parent in level}
        found += level
    return found


def open_child(pid, parent):
    """A descriptor of this process, for signal_opened(); None if it is gone, or its number is another's by now."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    stat = _stat(pid)
    if stat and stat[0] not in "ZX" and stat[1] == parent:
        return fd
    os.close(fd)
    return None


def signal_opened(fd, sig):
    """False if it is gone."""
    try:
        signal.pidfd_send_signal(fd, sig)
    except ProcessLookupError:
        return False
    return True


def title_of(pid):
    """The process title or command line; "" if it is gone."""
    try:
        raw = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return ""
    return raw.replace(b"\0", b" ").decode(errors="replace").strip()


def environment_of(pid):
    """The environment it was started with, bytes to bytes; {} if that cannot be read."""
    try:
        raw = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    return dict(e.split(b"=", 1) for e in raw.split(b"\0") if b"=" in e)


def name_of(pid):
    """The name of its program; "" if it is gone."""
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def leave_one_descriptor(pid):
    """Too few for the pipes of a handler. Returns the limits before."""
    taken = {int(fd) for fd in os.listdir(f"/proc/{pid}/fd")}
    second_free = [fd for fd in range(1024) if fd not in taken][1]
    return resource.prlimit(pid, resource.RLIMIT_NOFILE, (second_free, 1024))


def open_files(pid):
    """Descriptor -> what it points to."""
    out = {}
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return out
    for name in names:
        try:
            out[int(name)] = os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:
            pass
    return out


def pss_kib(pid, what="Pss"):
    """Proportional set size; of file pages it changes as other tests start and end the same program, "Anonymous" does not."""
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1])
    raise AssertionError(f"no {what} of {pid}")


def high_water_kib(pid):
    """The most memory that a process had; 0: it has ended."""
    with contextlib.suppress(OSError):
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    return 0


lasting = set()     # pids of what outlives a test, such as a browser


def reap_adopted(own):
    """Waits for zombies that became our children; never for those in own (pids of Popen objects)."""
    for pid in zombies_of(os.getpid()):
        if pid not in own and pid not in lasting:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def belonging_to(tag, own=()):
    """Living processes of a test: by tag, by incarnation, or adopted by this process. All are below it, since it adopts."""
    found = []
    for pid in descendants_of(os.getpid()):
        if pid in own or pid in lasting:
            continue
        env = environment_of(pid)
        if (env.get(b"QUREDIS_TEST_TAG") == tag.encode()
                or env.get(b"QUREDIS_INCARNATION", b"").startswith(tag.encode())
                or any(p == os.getpid() for p in [(_stat(pid) or (0, 0))[1]])):
            found.append(pid)
    return found


def kill_and_wait(targets, timeout=10.0):
    """SIGKILL to each, until they are gone."""
    deadline = time.monotonic() + timeout
    while targets and time.monotonic() < deadline:
        for pid in targets:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.02)
        targets = [p for p in targets if alive(p)]
    return targets
