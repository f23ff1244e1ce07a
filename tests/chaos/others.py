"""Another program that consumes a shared queue: as the Ruby gem does, BRPOPLPUSH into a list of its own, and away from there when it
is done. What it has done ends in a list of the test, so that no lost answer hides it. It looks at what it would get next, too."""
import collections
import random
import threading
import time

import redis

from . import load

SHARE = 0.2             # of what was pushed it takes at most so much


class Consumer(threading.Thread):
    """pushed: returns the number of messages pushed so far."""

    def __init__(self, server, name, pushed, ledger, seed):
        super().__init__(daemon=True)
        self.wrong = []                             # names, and what is wrong with them
        self._ingress, self._own, self._done = f"ingress:{name}", f"transit:{name}", f"others:{name}"
        self._server, self._pushed, self._ledger, self._rng = server, pushed, ledger, random.Random(seed)
        self._held, self._taken, self._in_doubt = None, collections.Counter(), False
        self._enough = threading.Event()

    def end(self):
        self._enough.set()
        if self.is_alive():
            self.join(60)

    def run(self):
        c = self._server.connect(socket_timeout=20)
        while not self._enough.is_set() or self._held is not None or self._in_doubt:
            try:
                self._turn(c)
            except redis.RedisError:
                self._in_doubt = True
                time.sleep(0.02)
        c.close()

    def _turn(self, c):
        """Handles the messages in its own list, which no other process may touch, whatever happened to the answer of the fetch."""
        next_ones = c.lrange(self._ingress, -10, -1)
        self.wrong += [f"waits: {raw[:80]!r}" for raw in next_ones if raw not in load.forms(load.name_of(raw))]
        there = c.lindex(self._own, -1)
        if self._held is not None and there != self._held:
            if there is not None or not self._in_doubt:
                self.wrong.append(f"{load.name_of(self._held)}:gone")
            self._held = None
        elif there is not None and self._held is None:
            self._take(there)
        self._in_doubt = False
        if self._held is not None:
            time.sleep(self._rng.uniform(0, 0.02))
            c.rpoplpush(self._own, self._done)
            self._held = None
        elif sum(self._taken.values()) < SHARE * self._pushed() and not self._enough.is_set():
            c.brpoplpush(self._ingress, self._own, 1)
        else:
            time.sleep(0.02)

    def _take(self, raw):
        self._held = raw
        self._taken[raw] += 1
        name = load.name_of(raw)
        self._ledger.taken(name, load.sha1(raw).decode())
        if raw not in load.forms(name):
            self.wrong.append(f"{name}:{raw[:40]!r}")

    def look(self, c):
        """Compares the messages that it took with those that are done, and returns what differs."""
        done = collections.Counter(c.lrange(self._done, 0, -1))
        self.wrong += [f"{load.name_of(raw)}:{done[raw]} times for {self._taken[raw]}" for raw in done | self._taken
                       if done[raw] != self._taken[raw]]
        return self.wrong
