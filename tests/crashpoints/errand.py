"""Cycles of which an errand's calls are counted: what the sweeper has done by a child, since it may block (sweeper/core/subprocess.c)."""
from .letters import line
from .rules import Archive, Figures, Questions, Ruled


class Errand(Ruled):
    """Every call counts."""
    role = "errand"
    gated = False

    def drive(self):
        """Nothing to do: everything happens without further input."""


class ArchiveErrand(Errand, Archive):
    """The log reports the error of the disk, and its end."""

    def _alarms(self):
        return [e["event"] for e in self.d.events() if e.get("event") in ("queue_error", "queue_error_cleared") and e["queue"] == "mail"]

    def complete(self):
        return super().complete() and self._alarms()[-1:] != ["queue_error"]

    def judge(self):
        super().judge()
        if self.result.fired and self.fault.what in ("kill", "ENOSPC", "EIO", "EDQUOT", "torn") and "queue_error" not in self._alarms():
            self.result.wrong.append("no alarm")


class FirstBatch(ArchiveErrand):
    """Into a new file."""
    name = "archive, a batch"
    errand = 2


class SecondBatch(ArchiveErrand):
    """The file is full, and put aside."""
    name = "archive, a full file"
    errand = 3


class LastBatch(ArchiveErrand):
    """A batch that was written and not removed, and a torn line behind it."""
    name = "archive, the last batch"

    def fill(self):
        letters = self.letters()
        messages = [b"m%d" % (i // 2) for i in range(6)]
        letters.fill(*messages)
        ids = [i.decode() for i, _ in letters.records()]
        lines = [line(i, m, ids[0]) for i, m in zip(ids[:3], messages)]
        (self.archive / f"mail@{self.tag}.ndjson").write_text("".join(lines) + lines[0][:40])


class TextFileErrand(Errand, Figures):
    """The file for Prometheus."""
    name = "text file"


class NameErrand(Errand, Figures):
    """The name of statsd's host. If it cannot be resolved, the sweeper asks again after half a minute."""
    name = "name of a host"
    errand = 2
    host = "localhost"

    def __init__(self, lane, fault, whens):
        super().__init__(lane, fault, whens)
        self.datagrams.awaited = False


class Question(Errand, Questions):
    """The first question, until the command has ended."""
    name = "purge, a question"


FILES = [FirstBatch, SecondBatch, LastBatch, TextFileErrand]
CYCLES = [*FILES, NameErrand, Question]
