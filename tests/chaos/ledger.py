"""What is written down during a run: one directory, a file for each kind, a line for each thing.

    pushes   NAME ack|refused|doubt                 what a push was answered: done, an error, nothing
    runs     as handler.c says                      by the handlers themselves
    faults   {"kind", "from_us", "to_us", ...}      JSON; node, pid: whom it hit; neither: nobody in particular
    escaped  NAME CLASS|- NODE MICROSECONDS         what lay in escape at the end; - : it has no record; the rest: who failed, when
    taken    NAME MICROSECONDS SHA1                 what other programs took from shared queues, and when
    noted    SHA1 QUEUE NOTE                        what was remembered beside messages of shared queues at the end
    end      {...}                                  JSON: what else was seen at the end

Times are microseconds of CLOCK_MONOTONIC, which all processes share.
"""
import collections
import json
import pathlib
import threading
import time

Fault = collections.namedtuple("Fault", "kind from_us to_us node pid")
Escape = collections.namedtuple("Escape", "name why node at_us", defaults=("-", 0))
Taken = collections.namedtuple("Taken", "name at_us sha1")


def now_us():
    return time.monotonic_ns() // 1000


class Ledger:
    def __init__(self, directory):
        self.dir = pathlib.Path(directory)
        self.dir.mkdir(parents=True, exist_ok=True)
        self.runs = self.dir / "runs"
        self._lock = threading.Lock()

    def _append(self, file, lines):
        with self._lock, open(self.dir / file, "a") as f:
            f.write("".join(line + "\n" for line in lines))

    def lines(self, file):
        """Whole lines; a file that was never written has none."""
        path = self.dir / file
        if path.exists():
            with open(path) as f:
                yield from (line.rstrip("\n") for line in f if line.endswith("\n"))

    def pushed(self, fates):
        """(name, fate) each"""
        self._append("pushes", [f"{name} {fate}" for name, fate in fates])

    def fault(self, kind, from_us, node=None, pid=None, to_us=None):
        """Records a fault that began at from_us and ended at to_us, or now."""
        self._append("faults", [json.dumps(Fault(kind, from_us, to_us or now_us(), node, pid)._asdict())])

    def faults(self):
        return [Fault(**json.loads(line)) for line in self.lines("faults")]

    def escaped(self, entries):
        """Escape each; or name and class are enough."""
        self._append("escaped", [f"{e.name} {e.why or '-'} {e.node} {e.at_us}" for e in (Escape(*entry) for entry in entries)])

    def in_escape(self):
        for line in self.lines("escaped"):
            name, why, node, at_us = line.split(" ")
            yield Escape(name, None if why == "-" else why, node, int(at_us))

    def taken(self, name, sha1):
        self._append("taken", [f"{name} {now_us()} {sha1}"])

    def takings(self):
        for line in self.lines("taken"):
            name, at_us, sha1 = line.split(" ")
            yield Taken(name, int(at_us), sha1)

    def noted(self, entries):
        """(sha1, queue, note) each"""
        self._append("noted", [" ".join(entry) for entry in entries])

    def end(self, **what):
        (self.dir / "end").write_text(json.dumps(what))

    def ended(self):
        """The record of the end. None: the run did not come to it."""
        path = self.dir / "end"
        return json.loads(path.read_text()) if path.exists() else None
