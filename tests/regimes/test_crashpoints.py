"""Every system call is a crash point: a sample of `make crashpoints` over all processes, and whether its alarms ring.

The sample is another one each day; QUREDIS_CRASHPOINTS_SEED repeats one.
"""
import collections
import datetime
import errno
import os
import random
import subprocess

import pytest

from crashpoints import cycle, sweep, worker
from crashpoints.faults import KILLS
from crashpoints.lane import PROGRAMS
from crashpoints.traced import NEEDS_PTRACE, trace
from harness import QUREDISD, queue, render

SEED = os.environ.get("QUREDIS_CRASHPOINTS_SEED", str(datetime.date.today().toordinal()))


pytestmark = NEEDS_PTRACE


def faults_of(key):
    """All that are injected into this cycle."""
    return [f for k, f in sweep.sweeps() if k == key]


def show(result):
    return f"seed {SEED}, {result.fault} at {result.whens}: {result}\n{result.log}"


def try_sample(lane, key):
    chance = random.Random(f"{SEED} {key}")
    other = chance.choice([f for f in faults_of(key) if f != KILLS[0]])
    for fault in (KILLS[0], other):
        for result in sweep.sample(lane, key, fault, 1, SEED):
            assert not result.bad, show(result)
            assert result.calls or fault != KILLS[0] or result.fired, show(result)


@pytest.mark.verdict
@pytest.mark.parametrize("key", sweep.CYCLES)
def test_a_sample_of_all_points(lane, key):
    try_sample(lane, key)


@pytest.mark.verdict
@pytest.mark.parametrize("key", ["worker: exec, batches", "worker: exec, reconnect", "sweeper: start, recovery", "sweeper: reconnect", "master: a whole life"])
def test_a_sample_of_all_points_with_tls(tls_lane, key):
    try_sample(tls_lane, key)


@pytest.mark.parametrize("key, fault", [("keeper: keeper", "ENOMEM"), ("errand: archive, a batch", "EIO")])
def test_all_points_of_a_row_that_was_wrong(lane, key, fault):
    """An embedded Redis never started again; an archive was written through directories that nobody had judged."""
    [(key, fault)] = [(k, f) for k, f in sweep.sweeps() if k == key and f.name == fault]
    points, result = 0, None
    while result is None or result.fired:
        points += 1
        result = sweep.run_in(lane, key, fault, [points])
        assert not result.bad, show(result)
    assert points > 3


# ---- whether the alarms ring ----

@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(cycle, "HANG_S", 2)


class Losing(worker.One):
    """Another client removes a message from Redis."""
    queues = 1

    def prepare(self):
        super().prepare()
        self.client.lrem("ingress:q0", 1, "again b")


def test_a_lost_message_is_seen(lane, impatient):
    result = Losing(lane, KILLS[0], [0]).run()
    assert result.lost == ["q0: b'again b'"] and result.hang and result.bad


class Twice(worker.One):
    """A message runs again without a mark."""
    queues = 1

    def drive(self):
        self.until(self.ledger.complete, "all of it")
        self.client.lpush("ingress:q0", "ok a")
        self.until(lambda: len(self.ledger.starts()["q0", "a"]) == 2, "the second run")


def test_a_second_run_that_nobody_was_told_of_is_seen(lane):
    result = Twice(lane, KILLS[0], [0]).run()
    assert result.unflagged == ["q0: a"] and not result.lost and not result.hang


class Escaping(worker.One):
    """A dead letter that should not be one, and one that is not there."""
    queues = 1

    def prepare(self):
        super().prepare()
        self.ledger.messages[0].kind = "reject"

    def _end(self):
        self.until(lambda: self.ledger.has("done", "f"), "the last one")
        self.stop()


def test_a_wrong_escape_is_seen(lane):
    result = Escaping(lane, KILLS[0], [0]).run()
    assert any("escape lacks" in w for w in result.wrong) and not result.hang


class Leaving(worker.One):
    """A process of it stays."""
    queues = 1

    def drive(self):
        self.other = subprocess.Popen(["sleep", "100"], env={"QUREDIS_TEST_TAG": self.tag})

    def close(self):
        super().close()
        self.other.wait()


def test_a_process_that_stays_is_seen(lane, monkeypatch):
    monkeypatch.setattr(cycle, "LEAVE_S", 1)
    result = Leaving(lane, KILLS[0], [0]).run()
    assert any("left over" in w and "sleep" in w for w in result.wrong)


# ---- the tracer and the preloaded allocator ----

def test_the_tracer_kills_before_and_after_the_call(tmp):
    shell = ("/bin/sh", "-c", "echo a; echo b; echo c")
    for action, printed in (("kill", "a\n"), ("kill-after", "a\nb\n")):
        rows, out, status = trace(tmp, "-t", "0:2", "-a", action, "-f", "write", command=shell)
        assert rows[0][:4] == ["fired", "0", "2", "write"] and out == printed and status == -9


def test_the_tracer_finds_a_process_by_its_descent(tmp):
    shell = ("/bin/sh", "-c", "(echo a); (echo b; (echo c; echo d); echo e); echo f")
    rows, out, status = trace(tmp, "-t", "0.2.1:2", "-a", "kill", "-f", "write", command=shell)
    assert rows[0][:4] == ["fired", "0.2.1", "2", "write"] and out == "a\nb\nc\ne\nf\n" and status == 0
    rows, out, status = trace(tmp, "-t", "0.2.1:2", "-a", "kill-parent", "-f", "write", command=shell)
    assert rows[0][:4] == ["fired", "0.2.1", "2", "write"] and "e" not in out and "f" in out


def test_the_tracer_lets_calls_fail(tmp):
    shell = ("/bin/sh", "-c", f"echo a >{tmp}/x; echo b >{tmp}/y; cat </dev/null")
    rows, _, _ = trace(tmp, "-t", "0:1", "-a", str(errno.EMFILE), "-f", "openat@create", command=shell)
    assert rows[0][:5] == ["fired", "0", "1", "openat", "create"] and not (tmp / "x").exists() and (tmp / "y").exists()
    (tmp / "y").unlink()
    rows, _, _ = trace(tmp, "-t", "0:1", "-a", str(errno.EMFILE), "-f", "openat@create", "-d", "10000", command=shell)
    assert rows[-1] == ["calls", "0", "2", "2"] and not (tmp / "y").exists()


def test_allocations_fail(tmp):
    report = tmp / "report"
    env = {"LD_PRELOAD": str(PROGRAMS / "nomem.so"), "NOMEM_TARGETS": "0:3", "NOMEM_MS": "10000", "NOMEM_REPORT": str(report)}
    done = subprocess.run(["/usr/bin/sort", "/dev/null"], env=env, stderr=subprocess.PIPE, timeout=20)
    assert done.returncode != 0 and b"exhausted" in done.stderr
    assert report.read_text().startswith("fired 0 3 malloc -\n")


def test_a_configuration_without_memory_is_the_same_or_none(tmp):
    """Whichever allocation fails while it is read: nothing is left out of it in silence."""
    text = render({"redis": {"url": "unix:///x"}, "supervisor": {"node": "n", "lock_file": tmp / "lock", "control_socket": tmp / "c"},
                   "queues": [queue("mail", "/bin/cat", "-u", env=["A=b"], run_as={"umask": "027"}, backoff={"base": "2s"})]})
    (tmp / "conf").write_text(text)
    (tmp / "conf").chmod(0o644)
    report = tmp / "report"

    def read(n):
        report.write_text("")
        env = {"LD_PRELOAD": str(PROGRAMS / "nomem.so"), "NOMEM_TARGETS": f"0:{n}", "NOMEM_MS": "0", "NOMEM_REPORT": str(report)}
        done = subprocess.run([QUREDISD, "-c", tmp / "conf", "-T"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=20)
        return done.returncode, done.stdout, report.read_text()
    code, whole, _ = read(0)
    assert code == 0 and b"/bin/cat" in whole
    ends = collections.Counter()
    for n in range(1, 10000):
        code, out, told = read(n)
        if "fired" not in told:
            break
        assert code != 0 or out == whole, n
        assert code in (0, 71, 2) or "crash 0 " in told and " libconfig" in told, (n, code, told)
        ends[code] += 1
    print(f"\n{n - 1} allocations: {dict(ends)}")
    assert n > 50 and ends[71] > 20
