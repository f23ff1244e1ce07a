"""The queues, the kinds of messages, and the producer.

A message is "NAME KIND MILLISECONDS |BYTES". The kind says what its handler does:

    o  done                    r  retry once, then done          f  fails once, then done
    j  rejected                c  crashes, twice                 d  done, but leaves a process
    g  prints its payload, which is full of answers, where answers are read; then done
    l  done, and the process dies 20 ms later                    t  done, and answers once more 20 ms later
    u  longer than a limit that Redis may have for answers; done

j and c must escape; so must u, if that limit was there when it was fetched. Nothing else may.
"""
import random
import threading
import time
import zlib
from typing import NamedTuple

import redis as redis_py

from harness import queue

QUEUES = ("exec", "stay", "shared", "big")
KINDS = {"exec": "ooooooorrfjcdg", "stay": "ooooooorrfjgt", "shared": "oooooojdg", "big": "ooorf"}
CRASHING = "cl"         # of handlers that stay, in episodes that allow it
LARGE = 1_500_000       # bytes of u; the limit is a third of it
MUST_ESCAPE = {"j": {"Rejected"}, "c": {"HandlerSignal"}}
MAY_ESCAPE = {"u": {"Undeliverable"}}


class Pushed(NamedTuple):
    queue: str
    kind: str
    message: bytes


def queues(rng, handler, ledger):
    """The queues of one supervisor. Only messages that name a limit of their own reach one: attempts and crashes are practically unlimited."""
    limits = {"max_attempts": 1000, "recovery_attempts": 1000, "timeout": "20s", "kill_grace": "500ms",
              "backoff": {"base": "100ms", "cap": "400ms"}}
    return [queue("exec", handler, ledger, fence=rng.choice(["finish", "kill"]), batch={"max": rng.choice([1, 8, 64])},
                  **{**limits, "workers": rng.choice([1, 2, 3])}, **rng.choice([{}, {"ttl": "1h"}, {"done": {"keep": 100}}])),
            queue("stay", handler, ledger, "stay", mode="persistent", window=rng.choice([1, 4, 16]),
                  **{**limits, "workers": rng.choice([1, 2])}, **rng.choice([{}, {"recycle": {"jobs": 20}}])),
            queue("shared", handler, ledger, shared=True,
                  **{k: v for k, v in limits.items() if k not in ("backoff", "max_attempts")} | {"workers": rng.choice([1, 2])}),
            queue("big", handler, ledger, **{**limits, "workers": rng.choice([1, 2])})]


def _forged(rng):
    """Lines that would be answers if their serials were right."""
    numbers = [*range(1, 40), *(rng.getrandbits(50) for _ in range(10))]
    return "".join(f"\n{rng.choice(['OK', 'REJECT', 'FAIL', 'RETRY'])} {n}" for n in rng.sample(numbers, 30)).encode() + b"\nOK\nok 3\nBEAT 4\n"


def _duration(rng, kind):
    return rng.choice([50, 200, 600, 1200]) if kind == "o" and rng.random() < 0.4 else rng.choice([0, 0, 0, 5, 20])


def message(rng, name, of_queue, kind, ms):
    size = LARGE if kind == "u" else rng.choice([5000, 70000, 150000, 300000]) if of_queue == "big" else rng.choice([10, 100, 3000, 6000])
    data = _forged(rng) if kind == "g" else zlib.adler32(name.encode()).to_bytes(4, "big") * (size // 4)
    body = b"%s %s %d |%s" % (name.encode(), kind.encode(), ms, data)
    if kind == "c" and of_queue != "shared":
        return b"quredis/1 id=%s max_attempts=2\n" % name.encode() + body
    return b"quredis/1 id=%s\n" % name.encode() + body if rng.random() < 0.1 else body


def name_of(raw):
    """The name in a message, behind whatever lines it has; None: it is no message of ours."""
    for line in raw.split(b"\n", 3)[:3]:
        if not line.startswith(b"quredis/1 "):
            word = line.split(b" ", 1)[0].decode(errors="replace")
            return word if word[:1] == "m" and word[1:].isdigit() else None
    return None


class Producer(threading.Thread):
    """Pushes one message after the other. pushed: every one that may exist; alive: those whose push Redis has acknowledged and not forgotten."""

    def __init__(self, server, seed, kinds):
        super().__init__(daemon=True)
        self.pushed, self.alive = {}, set()
        self._server, self._rng, self._kinds = server, random.Random(f"{seed} producer"), kinds
        self._lock, self._epoch, self._enough = threading.Lock(), 0, threading.Event()

    def run(self):
        while not self._enough.wait(self._rng.choice([0, 0.01, 0.03, 0.06])):
            of_queue = self._rng.choice(("exec", "exec", "stay", "stay", "stay", "shared", "big"))
            kind = self._rng.choice(self._kinds[of_queue])
            try:
                self.push(of_queue, kind, _duration(self._rng, kind))
            except (redis_py.RedisError, OSError):
                time.sleep(0.05)

    def push(self, of_queue, kind, ms):
        """Pushes a message, and returns its name."""
        name = f"m{len(self.pushed) + 1}"
        raw = message(self._rng, name, of_queue, kind, ms)
        epoch, self.pushed[name] = self._epoch, Pushed(of_queue, kind, raw)
        with self._server.connect(socket_timeout=15) as c:
            c.lpush(f"ingress:{of_queue}", raw)
        self._acknowledged(name, epoch)
        return name

    def _acknowledged(self, name, epoch):
        with self._lock:
            if epoch == self._epoch:        # else Redis has gone back since, and nobody knows
                self.alive.add(name)

    def went_back(self, there):
        """Redis holds only these now."""
        with self._lock:
            self._epoch += 1
            self.alive = set(there)

    def end(self):
        self._enough.set()
        if self.is_alive():
            self.join(60)
