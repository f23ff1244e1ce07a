"""Compares two builds in the same rounds, so that the load of the machine affects both."""
import copy
import pathlib
import statistics

import harness.daemon
import harness.program
from case import Ratio

LIMIT = 0.97
# What small messages cost in each way of running them, batches of about 1 MiB, and the moves of large messages.
ROWS = ("c64_w2", "c64_w4", "c1_w2", "c1_single_w1", "c1_single_w8", "py64_w2", "c64_1k", "c64_16k", "c64_fails", "c1_single_fails", "tiny_w2", "tiny_w8",
        "large_retried", "large_put_back")


class Pair:
    """A case of both builds; one round of it is one round of each, and the first one alternates."""

    def __init__(self, case, builds):
        self.case, self.builds = case, builds
        self.sides = {name: copy.copy(case) for name in builds}
        for side in self.sides.values():
            side.values, side.cpu = [], []
        self.rounds = 0

    def measure(self, bench):
        for name in sorted(self.builds, reverse=self.rounds % 2 == 1):
            harness.daemon.QUREDISD, harness.program.QUREDIS = (self.builds[name] / p for p in ("quredisd", "quredis"))
            side = self.sides[name]
            side.measure(bench)
            side.cpu.append(sum(side.facts.get(k, 0) for k in ("cpu_us", "redis_cpu_us")))
        self.rounds += 1

    # what rounds() looks at
    group = property(lambda self: self.case.group)
    name = property(lambda self: self.case.name)
    calibrates = property(lambda self: getattr(self.case, "calibrates", False))
    error = property(lambda self: next((s.error for s in self.sides.values() if s.error), None))

    @property
    def values(self):
        return _Both([s.values for s in self.sides.values()], self.ratio)

    @property
    def ratio(self):
        return Ratio(self.sides["after"], self.sides["before"])


class _Both:
    """The values of both sides as one list that can be shortened."""

    def __init__(self, lists, ratio):
        self.lists, self.ratio = lists, ratio

    def pop(self):
        for values in self.lists:
            values.pop()

    def __getitem__(self, i):
        return self.lists[-1][i]


def pairs(found, only, before, after):
    builds = {"before": pathlib.Path(before).resolve() / "build/release", "after": after}
    for build in builds.values():
        if not (build / "quredisd").exists():
            raise SystemExit(f"{build} has no quredisd: make it first")
    return {k: Pair(c, builds) for k, c in found.items() if (k in only if only else k in ROWS)}


def table(compared):
    lines = [f"{'after / before':76} {'before':>12} {'after':>12}   {'ratio (least-most)':24} CPU us a message: before, after"]
    for p in compared.values():
        if p.error or not p.ratio:
            lines.append(f"  {p.name:74} {p.error or 'not run'}")
            continue
        below = "" if p.ratio.median >= LIMIT else f"   BELOW {LIMIT}"
        cpu = ", ".join(f"{statistics.median(p.sides[s].cpu):.2f}" for s in ("before", "after")) if any(p.sides["after"].cpu) else ""
        before, after = (p.sides[s].median() for s in ("before", "after"))
        lines.append(f"  {p.name:74} {before:12,.0f} {after:12,.0f}   {str(p.ratio):24} {cpu}{below}")
    return "\n".join(lines)


def document(compared):
    return {k: {"name": p.name, "before": p.sides["before"].values, "after": p.sides["after"].values, "ratios": p.ratio.all, "error": p.error}
            for k, p in compared.items()}
