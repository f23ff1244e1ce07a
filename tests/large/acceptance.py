"""All cells, held against what is promised, as one table. A figure that breaks its promise has a * behind it."""
import os
import shutil
import time

from harness import SANITIZED

from .cells import FATES, MIB, Cell, Scale

LONG = Scale(rate=2_000_000, message_max=8 * MIB, lease_s=3.0, slack_s=3.0)
SIZES = [0, 1, 1024, 64 * 1024, MIB, 8 * MIB, 8 * MIB + 1, 64 * MIB, 256 * MIB]

PING_S = 0.1
ABOVE_NATIVE = 1.25     # what a machine with others on it makes of one command and the next
MEMORY = 8 * MIB        # beyond two messages
ON_ITS_WAY = 256 * 1024     # of a message that nobody reads so much may be in buffers of the kernel already
COUNTED = MIB           # of smaller ones the link carries more else than payload

HEAD = ("size", "fate", "settled s", "limit s", "PING ms", "native ms", "longest command", "worker MiB", "sweeper MiB", "crossed",
        "neighbour s", "without s")


def shown_size(size):
    if size is None:
        return "none"
    for unit, name in ((MIB, "MiB"), (1024, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}" + (f" + {size % unit}" if size % unit else "")
    return f"{size} B"


class Acceptance:
    """say: is told of each cell as it ends."""

    def __init__(self, directory, tag, scale, sizes, fates, say=lambda text: None, strict=True):
        self.dir, self.tag, self.scale, self.sizes, self.fates = directory, tag, scale, sizes, fates
        self.say, self.strict = say, strict
        self.rows, self.problems, self.alone, self.cells = [], [], {}, 0

    def _cell(self, fate, size):
        self.cells += 1
        cell = Cell(self.dir / f"c{self.cells}", self.tag, self.scale, fate, size)
        try:
            result = cell.run()
        except AssertionError as e:     # the cells after it are still of interest
            cell.problems.append(str(e).splitlines()[0])
            result = None
        wrong = cell.problems + cell.close()
        self.problems += [f"{shown_size(size)}, {fate}: {w}" for w in wrong]
        if not wrong:
            shutil.rmtree(cell.dir)
        return result

    def _judge(self, fate, size, r):
        """Which of the columns break a promise."""
        times = 1 if self.strict else 10        # beside other tests nothing is measured, only noticed
        payload = size if size <= self.scale.message_max else 0
        alone_s = self.alone.get(fate)
        return {
            "settled s": r.settled_s > r.limit_s * times,
            "PING ms": r.ping_s > max(PING_S, r.native_s * ABOVE_NATIVE) * times,
            "worker MiB": not SANITIZED and r.worker > 2 * payload + MEMORY,
            "sweeper MiB": not SANITIZED and r.sweeper > 2 * payload + MEMORY,
            "crossed": size >= COUNTED and r.crossed > payload * FATES[fate].runs + ON_ITS_WAY,
            "neighbour s": None not in (r.neighbour_s, alone_s) and r.neighbour_s > alone_s * times + self.scale.lease_s / 2 + 1,
        }

    def _row(self, fate, size, r):
        broken = self._judge(fate, size, r)
        values = (
            shown_size(size), fate, f"{r.settled_s:.2f}", f"{r.limit_s:.2f}", f"{r.ping_s * 1000:.0f}",
            f"{r.native_s * 1000:.0f}", f"{r.command[1]} {r.command[0] * 1000:.0f}" if r.command[1] else "",
            f"{r.worker / MIB:.1f}", f"{r.sweeper / MIB:.1f}", f"{r.crossed / size:.2f}" if size >= COUNTED else "",
            "" if r.neighbour_s is None else f"{r.neighbour_s:.2f}", f"{self.alone[fate]:.2f}" if self.alone.get(fate) else "")
        row = [v + ("*" if broken.get(column) else "") for column, v in zip(HEAD, values)]
        self.problems += [f"{shown_size(size)}, {fate}: {column} is {v}" for column, v in zip(HEAD, row) if v.endswith("*")]
        return row

    def run(self):
        """The table; self.problems says what is wrong."""
        for fate in self.fates:
            if FATES[fate].kills and (r := self._cell(fate, None)):
                self.alone[fate] = r.neighbour_s
        for size in self.sizes:
            for fate in self.fates:
                if size <= self.scale.message_max or FATES[fate].unread:
                    begun = time.monotonic()
                    if r := self._cell(fate, size):
                        self.rows.append(self._row(fate, size, r))
                        self.say("  ".join(self.rows[-1]) + f"  ({time.monotonic() - begun:.0f} s)")
        return self.table()

    def table(self):
        rows = [HEAD, *self.rows]
        widths = [max(len(r[i]) for r in rows) for i in range(len(HEAD))]
        return "\n".join("  ".join(v.ljust(w) if i < 2 else v.rjust(w) for i, (v, w) in enumerate(zip(r, widths))).rstrip() for r in rows)


def from_environment(directory, tag, say):
    """LARGE_SIZES="0 1048576", LARGE_FATES="done,host killed", LARGE_RATE=2000000 instead of all."""
    sizes = [int(s) for s in os.environ.get("LARGE_SIZES", "").split()] or SIZES
    fates = [f for f in os.environ.get("LARGE_FATES", "").split(",") if f] or list(FATES)
    scale = LONG._replace(rate=int(os.environ.get("LARGE_RATE", LONG.rate)))
    return Acceptance(directory, tag, scale, sizes, fates, say)
