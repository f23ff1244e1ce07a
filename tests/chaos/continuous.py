"""Continuous pushes while servers change: what the regimes of failovers and of a Cluster share.

A push that is confirmed was acknowledged and is held by a replica, so it must be done at the end. A run is known by its message and its attempt;
it may happen a second time only if a fault came between. handler.c writes down each of them.
"""
import collections
import itertools
import os
import pathlib
import statistics
import subprocess
import threading
import time
import zlib
from typing import NamedTuple

import redis as redis_py

HERE = pathlib.Path(__file__).resolve().parent
FRAME = HERE.parent / "harness/regime_handler.c"
BACKLOG_MAX = 4
CLOSE_S = 0.5           # a silence that begins so shortly before an event belongs to it


class Event(NamedTuple):
    """Something that happened to the servers, between two times of time.monotonic(). may_repeat: messages may run twice around it."""
    kind: str
    begun: float
    ended: float
    may_repeat: bool


def build_handler(directory, source=HERE / "handler.c"):
    """Compiles this handler and its frame, once."""
    handler = directory / "handler"
    if not handler.exists():
        compiler = os.environ.get("CC", "cc").split()
        subprocess.run([*compiler, "-O2", "-Wall", "-Wextra", "-Werror", "-o", handler, source, FRAME], check=True)
    return handler


def body(name, size=0):
    """A message for handler.c, with so many more bytes."""
    data = os.urandom(size)
    return name.encode() + (b" %08x %s" % (zlib.adler32(data), data) if size else b"")


class Producer(threading.Thread):
    """Pushes without end what `supply` yields: (key, name, bytes). confirmed, doubtful: names; in doubt is what may have been pushed or not."""

    def __init__(self, supply):
        super().__init__(daemon=True)
        self.supply, self.confirmed, self.doubtful, self.enough = supply, [], [], threading.Event()

    def connect(self):
        """A connection to the server that takes pushes now; None: there is none."""
        raise NotImplementedError

    def push(self, connection, key, message):
        """Whether replicas have it. An error means that nobody knows."""
        raise NotImplementedError

    def _connection(self):
        try:
            return self.connect()
        except (redis_py.RedisError, OSError):
            return None

    def run(self):
        connection = None
        while not self.enough.is_set():
            connection = connection or self._connection()
            if connection is None:
                continue
            key, name, message = next(self.supply)
            try:
                (self.confirmed if self.push(connection, key, message) else self.doubtful).append(name)
            except redis_py.RedisError:
                self.doubtful.append(name)
                connection.close()
                connection = None

    def wait_for_room(self, length):
        """Handlers keep up: what waits when a master dies is done on both sides of it."""
        while length() > BACKLOG_MAX and not self.enough.wait(0.01):
            pass

    def end(self):
        self.enough.set()
        if self.is_alive():
            self.join(30)


class Runs:
    """What handler.c wrote down. begun: (name, attempt) -> times, in order. outcomes: name -> words. ended: times."""

    def __init__(self, ledger):
        self.begun, self.outcomes, self.ended = collections.defaultdict(list), collections.defaultdict(set), []
        for word, name, run, *more in (line.split() for line in ledger.read_text().splitlines()):
            if word == "b":
                self.begun[name, int(more[0])].append(int(run.split(":")[1]) / 1e6)
            elif word == "e":
                self.outcomes[name].add(more[0])
                self.ended.append(int(more[1]) / 1e6)
        self.ended.sort()

    def twice(self):
        return {key: at for key, at in self.begun.items() if len(at) > 1}

    def unexplained(self, events, grace_s):
        """Names that ran twice although nothing came between that may repeat. An event ends when the last process has reconnected: grace_s after it."""
        return sorted({name for (name, _), at in self.twice().items() for a, b in itertools.pairwise(at)
                       if not any(e.may_repeat and a <= e.ended + grace_s and b >= e.begun for e in events)})

    def silence(self, event, grace_s, before):
        """The longest time without the end of a handler that began between the event and another time, or grace_s after its end; and how much of it
        was after the end of the event."""
        gaps = [(b - a, b) for a, b in itertools.pairwise(self.ended) if b > event.begun and a < min(event.ended + grace_s, before)]
        longest, until = max(gaps, default=(0.0, 0.0))
        return longest, min(longest, max(0.0, until - event.ended))


def silences(runs, events, grace_s, until=float("inf")):
    """Rows of a table: for each kind of event, how long handlers were silent, in all and after its end. until: when the pushes ended."""
    rows, next_begun = [], [*(e.begun - CLOSE_S for e in events[1:]), until - CLOSE_S]
    for kind in sorted({e.kind for e in events}):
        silent = [runs.silence(e, grace_s, before) for e, before in zip(events, next_begun) if e.kind == kind]
        for what, seconds in zip((f"silence, {kind}", "    after its end"), zip(*silent)):
            rows.append((f"{what}: p50, maximum", f"{statistics.median(seconds):.2f} s, {max(seconds):.2f} s"))
    return rows


def render(rows):
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def timed(kind, may_repeat, act):
    """Lets it happen; returns the Event."""
    begun = time.monotonic()
    act()
    return Event(kind, begun, time.monotonic(), may_repeat)
