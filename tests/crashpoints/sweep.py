"""N = 1, 2, ... until runs end without a fault; or a sample of them."""
import collections
import concurrent.futures
import dataclasses
import itertools
import os
import pathlib
import random
import shutil
import tempfile

from harness.processes import become_subreaper, children_heed_signals

from . import errand, master, rules, shared, sweeper, worker
from .cycle import Result
from .faults import DISKS, ERRNOS, KILLS, NOMEM, SPIN, Fault
from .lane import Lane

LASTING_STEP = 5    # what lasts is begun at every fifth point: it covers the next ones, too
QUIET_RUNS = 2      # so many runs in a row without a fault end a sweep: a wait may have saved one of them a call

CYCLES = {f"{c.role}: {c.name}": c for c in [*worker.CYCLES, *sweeper.CYCLES, *shared.CYCLES, *rules.CYCLES, *errand.CYCLES, *master.CYCLES]}
# where errnos and failing allocations are injected: one whole cycle, or two, of each role
ERRNO_CYCLES = [worker.Batch, worker.HandBack, worker.Persistent, worker.Newborn, sweeper.Recovery, sweeper.Deaths, shared.Shared,
                rules.Archive, *errand.FILES, master.Life, master.Reload, master.Keeper]
NOMEM_CYCLES = [worker.Batch, worker.Persistent, shared.Shared, sweeper.Recovery, sweeper.Deaths, rules.Archive, *errand.FILES, master.Life, master.Reload]


def key_of(cycle):
    return f"{cycle.role}: {cycle.name}"


def sweeps(only=None, faults=None):
    """All (cycle's key, fault) that there are."""
    # what an errand did others see only in its files, which its next call finds as they are
    found = [(key, f) for key, c in CYCLES.items() for f in KILLS if f.what == "kill" or c.role != "errand"]
    found += [(key, Fault("kill-parent")) for key, c in CYCLES.items() if c.role in ("handler", "errand")]
    found += [(key_of(c), f) for c in ERRNO_CYCLES for f in ERRNOS]
    found += [(key_of(c), f) for c in errand.FILES for f in DISKS]
    found += [(key_of(c), f) for c in NOMEM_CYCLES for f in NOMEM]
    return [(key, f) for key, f in found if (not only or any(o in key for o in only)) and (not faults or f.name in faults)]


def width(key):
    """How many points one run takes."""
    return len(CYCLES[key].targets())


# ---- in a process of its own ----

_lane = None


def _open_lane(directory, tls):
    global _lane
    become_subreaper()
    children_heed_signals()
    for key in [k for k in os.environ if k.startswith("QUREDIS_") and k != "QUREDIS_BUILD"]:
        del os.environ[key]
    _lane = Lane(tempfile.mkdtemp(prefix="l", dir=directory), tls)


def run_in(lane, key, fault, whens):
    result = CYCLES[key](lane, fault, whens).run()
    if fault.lasting and fault.what in ("EMFILE", "ENOMEM", "ENOSPC", "EIO", "EDQUOT") and result.injected > SPIN:
        result.wrong.append(f"a failing call was tried {result.injected} times: a spin")
    return result


def _run(key, fault, whens):
    return run_in(_lane, key, fault, whens)


class Lanes:
    """Processes that run points side by side, each in a lane of its own."""

    def __init__(self, jobs, tls=False):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="qc."))
        os.chmod(self.dir, 0o755)
        self.jobs = jobs
        self.pool = concurrent.futures.ProcessPoolExecutor(jobs, initializer=_open_lane, initargs=(self.dir, tls))

    def submit(self, *point):
        return self.pool.submit(_run, *point)

    def close(self):
        self.pool.shutdown()
        shutil.rmtree(self.dir, ignore_errors=True)


# ---- all of them ----

@dataclasses.dataclass
class Row:
    """What came of one sweep."""
    key: str
    fault: str
    points: int = 0
    runs: int = 0
    lost: int = 0
    hangs: int = 0
    flagged: int = 0
    unflagged: int = 0
    wrong: int = 0
    seconds: float = 0.0
    longest: float = 0.0
    crashes: collections.Counter = dataclasses.field(default_factory=collections.Counter)

    def add(self, r: Result):
        self.points += len(r.fired)
        self.runs += 1
        self.lost += len(r.lost)
        self.hangs += bool(r.hang)
        self.flagged += len(r.flagged)
        self.unflagged += len(r.unflagged)
        self.wrong += len(r.wrong)
        self.seconds += r.seconds
        self.longest = max(self.longest, r.seconds)
        self.crashes.update(r.crashes)


def sweep(lanes, key, fault, on_result):
    """From the first call to the first that none makes. One run after the other; others run beside it."""
    row, quiet, first = Row(key, fault.name), 0, 1
    n, step = width(key), LASTING_STEP if fault.lasting else 1
    while quiet < QUIET_RUNS:
        result = lanes.submit(key, fault, list(range(first, first + n * step, step))).result()
        row.add(result)
        quiet = quiet + 1 if not result.fired else 0
        first += n * step
        on_result(result)
    return row


def sweep_all(lanes, chosen, on_result, on_row):
    """As many sweeps beside each other as there are lanes: rows in the order of chosen."""
    def one(point):
        row = sweep(lanes, *point, on_result)
        on_row(row)
        return row
    with concurrent.futures.ThreadPoolExecutor(lanes.jobs) as threads:
        return list(threads.map(one, chosen))


def sample(lane, key, fault, n, seed):
    """n runs at points drawn from all there are, which a run without a fault tells: Results."""
    counted = run_in(lane, key, fault, [0] * width(key))
    yield counted
    chance = random.Random(f"{seed} {key} {fault.name}")
    last = max([1, *counted.calls.values()])      # there may be no such call in this cycle
    for _ in range(n):
        yield run_in(lane, key, fault, [chance.randint(1, last) for _ in range(width(key))])


def table(rows):
    """Lines of the table of all sweeps, and their sum."""
    head = ("role: scenario", "fault", "points", "runs", "lost", "hangs", "again, flagged", "again, not flagged", "else wrong", "longest s")
    body = [(r.key, r.fault, r.points, r.runs, r.lost, r.hangs, r.flagged, r.unflagged, r.wrong, f"{r.longest:.1f}") for r in rows]
    total = ("all", "", *(sum(row[i] for row in body) for i in range(2, 9)), f"{max((r.longest for r in rows), default=0):.1f}")
    lines = [[str(c) for c in row] for row in [head, *body, total]]
    widths = [max(len(row[i]) for row in lines) for i in range(len(head))]
    out = ["| " + " | ".join(c.ljust(w) if i < 2 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))) + " |" for row in lines]
    out.insert(1, "|" + "|".join("-" * (w + 2) if i < 2 else "-" * (w + 1) + ":" for i, w in enumerate(widths)) + "|")
    return out


def by_fault(rows):
    """Rows of one role and kind of fault summed up: what docs/crashpoints.md shows."""
    def group(r):
        return r.key, "kill" if r.fault.startswith("kill") else "allocation" if r.fault.startswith("nomem") else "errno"
    out = []
    for (key, kind), members in itertools.groupby(sorted(rows, key=group), key=group):
        total = Row(key, kind)
        for r in members:
            for field in ("points", "runs", "lost", "hangs", "flagged", "unflagged", "wrong", "seconds"):
                setattr(total, field, getattr(total, field) + getattr(r, field))
            total.longest = max(total.longest, r.longest)
        out.append(total)
    return out
