"""What can happen in an episode. A fault is one row of FAULTS and a method of Faults with its name.

    reruns    messages in flight may run a second time, marked as redelivered
    charges   the run of a message may count as a failed attempt, or as a crash
    back      Redis returns to an earlier state
    silent    workers cannot reach Redis for longer than a lease; with fence = "kill" their handlers end

What has none of these is no fault in the sense of docs/reliability.md: no message runs twice, and none is charged.
"""
import contextlib
import os
import signal
import subprocess
import time
from typing import NamedTuple

import redis as redis_py

from harness import processes, wait_for
from harness.control import ask

from .load import LARGE, QUEUES, name_of

# A master that is stopped before it is ready may end with 75, if the lock was not free in time, or by the signal, before it has begun to hold signals.
CODES = {0, 75, -signal.SIGTERM, -signal.SIGQUIT}


class Fault(NamedTuple):
    name: str
    reruns: bool = False
    charges: bool = False
    back: bool = False
    silent: bool = False


FAULTS = {row.name: row for row in (
    Fault("cut_connections"), Fault("pause_clients", silent=True), Fault("slow_redis", silent=True), Fault("kill_redis", silent=True), Fault("memory_full"),
    Fault("forget_scripts"), Fault("delete_secret"), Fault("replace_secret"), Fault("limit_answers"), Fault("slow_names", silent=True),
    Fault("deploy"), Fault("two_deploys"), Fault("empty_deploy"), Fault("restart_queue"), Fault("scale"), Fault("pause"), Fault("quiet"),
    Fault("drain"), Fault("second_host"),
    Fault("kill_handler", reruns=True, charges=True), Fault("kill_worker", reruns=True, charges=True), Fault("kill_sweeper"),
    Fault("kill_master", reruns=True, charges=True), Fault("kill_tree", reruns=True, charges=True),
    Fault("stop_worker", reruns=True, charges=True), Fault("stop_sweeper"), Fault("stop_tree", reruns=True, charges=True),
    Fault("fast_stop", reruns=True), Fault("signal_all", reruns=True), Fault("signal_all_late", reruns=True),
    Fault("lose_secret", reruns=True, charges=True),
    Fault("roll_back", reruns=True, charges=True, back=True),
)}
CLEAN = [n for n, f in FAULTS.items() if not f.reruns and not f.back]
ORDERED = CLEAN + [n for n, f in FAULTS.items() if f.reruns and not f.charges]       # runs may be cut short; no message may be charged
HARD = [n for n, f in FAULTS.items() if f.reruns and not f.back]


def draw(rng, mode):
    """The faults of an episode of this mode, by their names."""
    if mode == "clean":
        return rng.sample(CLEAN, 5)
    if mode == "ordered":
        return rng.sample(CLEAN, 3) + ["fast_stop", rng.choice(["signal_all", "signal_all_late"])]
    if mode == "hard":
        return rng.sample(CLEAN, 2) + rng.sample(HARD, 4)
    return rng.sample(CLEAN, 2) + rng.sample(HARD, 2) + ["roll_back"]


class Faults:
    """Lets one fault after the other happen. host: both supervisors; the first one is up again after each fault."""

    def __init__(self, episode):
        self.episode, self.rng, self.server = episode, episode.rng, episode.server
        self.first, self.second = episode.hosts
        self.copies, self.counts, self.wrong = [], {}, []

    def happen(self, name):
        self.counts[name] = self.counts.get(name, 0) + 1
        with contextlib.suppress(redis_py.RedisError, OSError, subprocess.TimeoutExpired, ValueError):
            getattr(self, name)()
        self._up()

    def _up(self):
        for host in (self.first, self.second):
            if host.started and not host.running():
                if host.ended_itself():
                    self._check_end(host, host.wait_exit())
                host.start(wait=False)

    def _check_end(self, host, code, after="no order"):
        if code not in CODES:
            self.wrong.append(f"{host.dir.name} ended with {code} after {after}")

    def _pick(self, found):
        return self.rng.choice(sorted(found)) if found else None

    def _signal(self, pids, sig):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, sig)

    def _stand_still(self, pids):
        """For less than a lease, or for more."""
        self._signal(pids, signal.SIGSTOP)
        time.sleep(self.rng.choice([0.3, 1.3, 2.5]) * self.episode.lease_s)
        self._signal(reversed(pids), signal.SIGCONT)

    def _stop(self, host, sig):
        if host.running():
            self._check_end(host, host.stop(sig), signal.Signals(sig).name)

    # ---- Redis and the way to it ----

    def cut_connections(self):
        with self.server.connect() as c:
            c.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    def pause_clients(self):
        with self.server.connect() as c:
            ms = self.rng.choice([100, 700, 2500, 6500])
            c.execute_command("CLIENT", "PAUSE", ms, self.rng.choice(["ALL", "WRITE"]))
        time.sleep(min(ms / 1000, 2.5))

    def slow_redis(self):
        self._signal([self.server.pid], signal.SIGSTOP)
        time.sleep(self.rng.choice([0.2, 1, 2.6, 4]))
        self._signal([self.server.pid], signal.SIGCONT)

    def kill_redis(self):
        self.server.kill9()
        time.sleep(self.rng.choice([0, 0.3, 1.5, 3]))
        self.server.start()

    def memory_full(self):
        with self.server.connect() as c:
            c.config_set("maxmemory", max(1, c.info("memory")["used_memory"] - 100000))
        time.sleep(self.rng.choice([0.3, 1]))
        with self.server.connect() as c:
            c.config_set("maxmemory", 0)

    def forget_scripts(self):
        with self.server.connect() as c:
            c.script_flush()

    def delete_secret(self):
        """Processes that know it write it back."""
        if self.first.running() and self.first.ready():
            with self.server.connect() as c:
                c.delete("quredis:secret")

    def replace_secret(self):
        """Lines with both seals lie in Redis then. Processes that know the first one write it back beside the other."""
        if self.first.running() and self.first.ready():
            self.episode.secrets.append(b"%064x" % self.rng.getrandbits(256))
            with self.server.connect() as c:
                c.set("quredis:secret", self.episode.secrets[-1])

    def limit_answers(self):
        """Redis closes a connection whose answer is longer than this."""
        with self.server.connect() as c:
            c.config_set("client-output-buffer-limit", f"normal {LARGE // 3} 0 0")

    def slow_names(self):
        self.episode.resolver.take(self.rng.choice([1, 4]))
        self.cut_connections()
        time.sleep(self.rng.choice([0.2, 2]))
        self.episode.resolver.take(0)

    def roll_back(self):
        if not self.copies:
            return
        copy = self.rng.choice(self.copies[-3:])
        self.server.kill9()
        time.sleep(self.rng.choice([0, 0.2, 2]))
        self.server.go_back(copy)
        with self.server.connect() as c:
            self.episode.producer.went_back(names_in(c))

    def keep(self):
        """A copy to which Redis may return."""
        self._signal([self.server.pid], signal.SIGSTOP)
        try:
            self.copies.append(self.server.keep(f"copy{len(self.copies)}"))
        finally:
            self._signal([self.server.pid], signal.SIGCONT)

    # ---- orders ----

    def _change(self):
        q = self.rng.choice(self.first.sections["queues"])
        q["timeout"] = f"{self.rng.randrange(20, 60)}s"
        self.first.reload()

    def deploy(self):
        self._change()

    def two_deploys(self):
        self._change()
        time.sleep(self.rng.choice([0, 0.1, 0.6]))
        self._change()

    def empty_deploy(self):
        """A configuration without queues is refused."""
        kept = self.first.sections["queues"]
        self.first.reload(queues=[])
        time.sleep(self.rng.choice([0, 0.2]))
        self.first.reload(queues=kept)

    def restart_queue(self):
        for _ in range(self.rng.choice([1, 2])):
            ask(self.first, "restart", queue=self.rng.choice(QUEUES))

    def scale(self):
        name = self.rng.choice(QUEUES)
        ask(self.first, "scale", queue=name, workers=self.rng.choice([0, 1, 4]))
        time.sleep(0.4)
        ask(self.first, "scale", queue=name, workers=2)

    def pause(self):
        name = self.rng.choice(QUEUES)
        self.first.quredis("pause", name, timeout=25)
        time.sleep(self.rng.choice([0.1, 0.6]))
        self.first.quredis("resume", name, timeout=25)

    def quiet(self):
        ask(self.first, "quiet")
        time.sleep(self.rng.choice([0.1, 0.8]))
        ask(self.first, "resume")

    def drain(self):
        self._stop(self.first, signal.SIGTERM)

    def fast_stop(self):
        self._stop(self.first, signal.SIGQUIT)

    def second_host(self):
        if self.second.running():
            self.second.started = False
            self._stop(self.second, signal.SIGTERM)
        else:
            self.second.start(wait=False)

    def _signal_all(self, wait_s):
        """As killall5, or a pod whose runtime signals every process, in any order."""
        host = self.first
        if not host.running():
            return
        pids = [host.pid, *processes.descendants_of(host.pid)]
        order = self.rng.choice(["down", "up", "any"])
        pids = pids[::-1] if order == "up" else self.rng.sample(pids, len(pids)) if order == "any" else pids
        if wait_s:
            host.signal(signal.SIGTERM)
            time.sleep(wait_s)
        self._signal(pids, signal.SIGTERM)
        self._check_end(host, host.wait_exit(60), "a SIGTERM to every process")

    def signal_all(self):
        self._signal_all(0)

    def signal_all_late(self):
        self._signal_all(0.05)

    # ---- deaths ----

    def kill_handler(self):
        workers = set(self.first.workers().values())
        victim = self._pick({p for p, parent in processes.parents().items() if parent in workers})
        self._signal([victim] if victim else [], signal.SIGKILL)

    def kill_worker(self):
        victim = self._pick(set(self.first.workers().values()))
        self._signal([victim] if victim else [], signal.SIGKILL)

    def kill_sweeper(self):
        victim = self.first.sweeper()
        self._signal([victim] if victim else [], signal.SIGKILL)

    def _end_tree(self, host):
        host.kill_tree()
        time.sleep(self.rng.choice([0, 1]))
        host.start(wait=False)

    def kill_master(self):
        self.first.kill9()
        time.sleep(self.rng.choice([0, 0.3, 1.5]))
        self.first.start(wait=False)

    def kill_tree(self):
        self._end_tree(self.first)

    def stop_worker(self):
        victim = self._pick(set(self.first.workers().values()))
        self._stand_still([victim] if victim else [])

    def stop_sweeper(self):
        victim = self.first.sweeper()
        self._stand_still([victim] if victim else [])

    def stop_tree(self):
        self._stand_still([self.first.pid, *processes.descendants_of(self.first.pid)])

    def lose_secret(self):
        """No process is left that knows it. episode.py restores it at the end."""
        for host in (self.first, self.second):
            if host.running():
                host.kill_tree()
        with self.server.connect() as c:
            c.delete("quredis:secret")
        self.first.start(wait=False)


def names_in(client):
    """The names of all messages that Redis holds."""
    found = set()
    for key in client.keys("*"):
        kind = client.type(key)
        entries = client.lrange(key, 0, -1) if kind == b"list" else client.zrange(key, 0, -1) if kind == b"zset" else []
        found |= {name_of(entry) for entry in entries}
    return found - {None}
