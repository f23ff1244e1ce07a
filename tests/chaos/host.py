"""One supervisor with all below it, and what can happen to it. Every fault goes into the ledger when it is over.

What can happen returns False if there was nobody it could happen to.
"""
import os
import random
import signal
import subprocess
import threading
import time

from harness import processes, wait_for
from harness.control import ask
from harness.processes import open_child, signal_opened

from .ledger import now_us

MOMENT_S = 2            # how long somebody is looked for, of a host that is ready
# how a master may end without being told to: killed, told to before it listened, the lock was not free in time
ENDS = {0, 75, -signal.SIGKILL, -signal.SIGTERM, -signal.SIGQUIT, -signal.SIGHUP, -signal.SIGTSTP}


class Host:
    def __init__(self, daemon, ledger, lease_s, seed):
        self.daemon, self.ledger, self.lease_s = daemon, ledger, lease_s
        self.node = daemon.sections["supervisor"]["node"]
        self.rng = random.Random(seed)
        self._stopped = set()               # pids
        self._timers = []
        self._ready = 0                     # the last of its runs that was
        self._life, self._over = threading.Lock(), False

    # ---- it lives ----

    def up(self):
        """Waits until quredisd is ready. The host starts it again after a kill, as an init system would."""
        wait_for(self._is_up, 300, f"{self.node} to be ready")

    def _is_up(self):
        with self._life:
            if self._over:
                return True
            if self.daemon.running():
                if self._ready != self.daemon.runs and self.daemon.ready():
                    self._ready = self.daemon.runs
                return self._ready == self.daemon.runs
            code = self.daemon.wait_exit()
            self.daemon.start(wait=False)
            self._ended(code)
            return False

    def _ended(self, code):
        assert code in ENDS, f"{self.node} ended with {code}: " + "\n".join(self.daemon.lines[-20:])

    def stop(self):
        """Stops the host for good, and returns the exit status."""
        for timer in self._timers:
            timer.join()
        with self._life:
            self._over = True
            return self.daemon.stop()

    # ---- victims: (pid, parent) ----

    def _workers(self):
        return self._children(self.daemon.workers().values()) if self.daemon.running() else []

    def _sweeper(self):
        return self._children([self.daemon.sweeper()]) if self.daemon.running() else []

    def _handlers(self):
        workers = {pid for pid, _ in self._workers()}
        return [(pid, parent) for pid, parent in processes.parents().items() if parent in workers]

    def _children(self, pids):
        return [(pid, self.daemon.pid) for pid in pids if pid]

    def _soon(self, done):
        """Waits until done() is true. False: it did not become true although the host was ready."""
        if done():
            return True
        self.up()
        until = time.monotonic() + MOMENT_S
        while not (is_done := done()) and time.monotonic() < until:
            time.sleep(0.02)
        return bool(is_done)

    def _strike(self, kind, find, named):
        """Sends SIGKILL to one of these processes. named: the record of the fault contains its pid."""
        def struck():
            if not self.daemon.running():
                self.up()
            family = find()
            victim = self.rng.choice(family) if family else None
            fd = victim and open_child(*victim)
            if not fd:
                return False
            at, hit = now_us(), signal_opened(fd, signal.SIGKILL)
            os.close(fd)
            if hit:
                self.ledger.fault(kind, at, **({"node": self.node, "pid": victim[0]} if named else {}))
            return hit
        return self._soon(struck)

    # ---- kills ----

    def kill_handler(self):
        return self._strike("kill_handler", self._handlers, True)

    def kill_worker(self):
        return self._strike("kill_worker", self._workers, True)

    def kill_sweeper(self):
        return self._strike("kill_sweeper", self._sweeper, False)

    def kill_master(self):
        self.up()
        at = now_us()
        self._ended(self.daemon.kill9())
        self.ledger.fault("kill_master", at, node=self.node)
        self.daemon.start(wait=False)

    def kill_tree(self):
        self.up()
        at = now_us()
        self.daemon.kill_tree()
        self.ledger.fault("kill_tree", at, node=self.node)
        self.daemon.start(wait=False)

    # ---- stops: they go on after a tenth of a lease to three ----

    def _stop(self, kind, family, **whom):
        """Stops a family of processes, [(pid, parent)], in this order, and continues them in reverse order. Returns whether there was one."""
        opened = [fd for fd in (open_child(*member) for member in family) if fd]
        pids, at = {pid for pid, _ in family}, now_us()
        self._stopped |= pids
        for fd in opened:
            signal_opened(fd, signal.SIGSTOP)

        def go_on():
            for fd in reversed(opened):
                signal_opened(fd, signal.SIGCONT)
                os.close(fd)
            self._stopped -= pids
            self.ledger.fault(kind, at, **whom)
        if opened:
            self._timers.append(threading.Timer(self.lease_s * self.rng.uniform(0.1, 3), go_on))
            self._timers[-1].start()
        return bool(opened)

    def _stop_one(self, kind, find, named):
        def stopped():
            if not self.daemon.running():
                self.up()
            family = [v for v in find() if v[0] not in self._stopped]
            victim = self.rng.choice(family) if family else None
            return victim and self._stop(kind, [victim], **({"node": self.node, "pid": victim[0]} if named else {}))
        return self._soon(stopped)

    def stop_worker(self):
        return self._stop_one("stop_worker", self._workers, True)

    def stop_sweeper(self):
        return self._stop_one("stop_sweeper", self._sweeper, False)

    def stop_tree(self):
        self.up()
        master, parents = self.daemon.pid, processes.parents()
        return self._stop("stop_tree", [(pid, parents.get(pid)) for pid in [master, *processes.descendants_of(master)]], node=self.node)

    # ---- orders ----

    def reload(self):
        self.up()
        at, queues = now_us(), self.daemon.sections["queues"]
        self.rng.choice(queues)["timeout"] = f"{self.rng.randrange(20, 60)}s"
        self.daemon.reload()
        self.ledger.fault("reload", at, node=self.node)

    def restart_queue(self):
        self.up()
        at = now_us()
        try:
            ask(self.daemon, "restart", queue=self.rng.choice(self.daemon.sections["queues"])["name"])
        except (OSError, AssertionError, ValueError):       # it just ends
            pass
        self.ledger.fault("restart_queue", at, node=self.node)

    def _end(self, kind, sig):
        self.up()
        at = now_us()
        self._ended(self.daemon.stop(sig))
        self.ledger.fault(kind, at, node=self.node)
        self.daemon.start(wait=False)

    def drain(self):
        self._end("drain", signal.SIGTERM)

    def fast_stop(self):
        self._end("fast_stop", signal.SIGQUIT)

    def quiet(self):
        """Makes the host quiet for a moment, so that it does not fetch."""
        self.up()
        at = now_us()
        self.daemon.signal(signal.SIGTSTP)
        time.sleep(self.rng.uniform(0.05, 0.5))
        self.daemon.signal(signal.SIGCONT)
        self.ledger.fault("quiet", at, node=self.node)

    def pause(self):
        """Pauses one queue on all hosts with the command line."""
        at, name = now_us(), self.rng.choice(self.daemon.sections["queues"])["name"]
        for command in ("pause", "resume"):
            def obeyed():
                try:
                    return self.daemon.quredis(command, name).code == 0
                except subprocess.TimeoutExpired:
                    return False
            wait_for(obeyed, 120, f"{command} {name}")
        self.ledger.fault("pause", at)
