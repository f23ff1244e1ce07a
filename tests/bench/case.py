"""What is measured, and how: every case once a round, so that all of a round saw the same machine.

A case gives a value: messages a second, or microseconds. Only ratios of one round mean anything; what is
reported is the median of the rounds' ratios with the least and the most.
"""
import statistics
import sys
import time


class Case:
    """One line of the table. run(bench) measures one round and returns its value."""
    unit = "msg/s"
    loses = None        # how it can lose a message, of peers

    def __init__(self, group, name):
        self.group, self.name = group, name
        self.values = []
        self.facts = {}         # of the last round, for the reader
        self.rate = None        # expected: how many messages fill the time
        self.error = None

    def run(self, bench):
        raise NotImplementedError

    def messages(self, bench, at_least=200, at_most=1_500_000):
        rate = self.rate or 2000
        return int(max(bench.fewest(at_least), min(rate * bench.seconds, at_most)))

    def measure(self, bench):
        """Runs one round. A case that fails reports its error and does not run again."""
        if self.error:
            self.values.append(None)
            return
        try:
            value = self.run(bench)
        except Exception as e:
            if bench.strict:
                raise
            self.error = f"{type(e).__name__}: {e}".split("\n")[0][:200]
            value = None
        self.values.append(value)
        if value and self.unit == "msg/s":
            self.rate = value

    def median(self):
        good = [v for v in self.values if v is not None]
        return statistics.median(good) if good else None


class Function(Case):
    """A case whose value is computed by a function of bench."""

    def __init__(self, group, name, function, unit="msg/s"):
        super().__init__(group, name)
        self.function, self.unit = function, unit

    def run(self, bench):
        return self.function(bench, self)


def rounds(bench, cases, n):
    began = time.monotonic()
    for r in range(n):
        for i, case in enumerate(cases):
            case.measure(bench)
            if bench.verbose:
                value = case.values[-1]
                print(f"\r\033[K{r + 1}/{n} {i + 1}/{len(cases)} {time.monotonic() - began:4.0f} s  {case.group}: {case.name}: "
                      f"{case.error if value is None else format(value, ',.0f')}", end="\n" if case.error else "",
                      file=sys.stderr, flush=True)
        if r == 0:
            # the first tells how many messages fill the time: it was too short, or too long
            for case in cases:
                if n > 1 and not bench.quick and getattr(case, "calibrates", False) and not case.error:
                    case.values.pop()
                    case.measure(bench)
    if bench.verbose:
        print("\r\033[K", end="", file=sys.stderr)


class Ratio:
    """a over b by rounds. invert: of times, where less is better."""

    def __init__(self, a, b):
        pairs = [(x, y) for x, y in zip(a.values, b.values) if x and y]
        self.all = sorted(x / y for x, y in pairs)

    def __bool__(self):
        return bool(self.all)

    @property
    def median(self):
        return statistics.median(self.all)

    def __str__(self):
        return f"{self.median:.3g} ({self.all[0]:.3g}-{self.all[-1]:.3g})" if self.all else "-"
