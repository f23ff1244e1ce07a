"""The queues, what is pushed into them, and the producers.

A message is a letter and a number. The letter says what its handler does:

    d  done at once            r  asked for once more at the first attempt, then done
    s  takes 50 to 300 ms      e  as d, one of a few bodies that are pushed again and again
    f  fails, twice            x  fails for good at the first attempt
    c  its handler crashes, twice               p  kills its worker, until it escapes
    k  as s, in a queue with fence = "kill": never twice at a time
    b  as d, followed by random bytes, up to 1 MiB, and their checksum

f, x, c and p are to escape, and nothing else is.

A capital letter means the same in a queue that another program consumes, too (others.py). There is one attempt there: so R
escapes as well, and whatever was alone in a handler that was killed.
"""
import collections
import hashlib
import math
import random
import socket
import threading
import time
import zlib

from harness import queue

FAILING = {"f": {"HandlerExit", "HandlerFail", "HandlerSignal"}, "x": {"Rejected", "HandlerSignal"},
           "c": {"HandlerExit", "HandlerSignal"}, "p": {"WorkerLost"}}       # and the classes they may escape with
FAILING |= {letter.upper(): classes | {"HandlerSignal"} for letter, classes in FAILING.items()} | {"R": FAILING["f"]}
EQUAL = 40              # bodies of e, of each queue
MIB = 1 << 20

# share: of all messages. kinds: letter -> weight. most: that may wait in ingress. together: pushes in one write
Load = collections.namedtuple("Load", "share kinds most together")
LOADS = {
    "mass": Load(0.928, {"d": 9500, "r": 200, "e": 150, "s": 150, "f": 20, "x": 20, "c": 0.5}, 4000, 100),
    "each": Load(0.035, {"d": 55, "s": 25, "r": 10, "f": 5, "x": 5}, 200, 10),
    "sole": Load(0.005, {"k": 1}, 40, 5),
    "big": Load(0.002, {"b": 1, "r": 1}, 20, 1),
    "poison": Load(0.00002, {"p": 1}, 2, 1),
    "shared.mass": Load(0.025, {"D": 600, "S": 300, "E": 100, "F": 20, "X": 20, "R": 20, "C": 2}, 400, 20),
    "shared.each": Load(0.005, {"D": 30, "S": 50, "E": 10, "F": 5, "X": 5, "R": 5}, 100, 10),
    "shared.poison": Load(0.00001, {"P": 1}, 2, 1),
}
SHARED = [name for name in LOADS if name.startswith("shared.")]


def queues(handler, runs):
    """The queues. Attempts and crashes are practically unlimited, so that only those messages escape that should."""
    patient = {"max_attempts": 1000, "recovery_attempts": 1000, "timeout": "30s", "backoff": {"base": "50ms", "cap": "200ms"}}
    shared = {**patient, "max_attempts": 1, "shared": True}
    return [queue("mass", handler, runs, "stay", mode="persistent", window=16, workers=3, **patient),
            queue("each", handler, runs, workers=2, **patient),
            queue("sole", handler, runs, fence="kill", kill_grace="200ms", **patient),
            queue("big", handler, runs, "stay", mode="persistent", window=2, workers=1, **patient),
            queue("poison", handler, runs, workers=1, **{**patient, "recovery_attempts": 1}),
            queue("shared.mass", handler, runs, "stay", mode="persistent", window=16, workers=2, **shared),
            queue("shared.each", handler, runs, workers=1, done={"keep": 100}, **shared),
            queue("shared.poison", handler, runs, workers=1, **{**shared, "recovery_attempts": 1})]


def sha1(raw):
    """The SHA-1 of a message, in the form that records use."""
    return hashlib.sha1(raw).hexdigest().encode()


def name_of(raw):
    """Returns the name in a message as it was pushed."""
    body = raw.split(b"\n", 1)[1] if raw.startswith(b"quredis/1 ") else raw
    return body.split(b" ", 1)[0].decode(errors="replace")


def forms(name):
    """Returns the bytes in which a message of this name was pushed to a shared queue."""
    return name.encode(), f"quredis/1 id={name}\n{name}".encode()


def _random_bytes(rng):
    size = MIB - 64 if rng.random() < 0.1 else int(1024 * 64 ** rng.random())
    data = b"\0\n" + rng.randbytes(size)
    return b" %08x %s" % (zlib.adler32(data), data)


def supplies(seed, without=""):
    """(queue, its messages) each, but for those with nothing left to push."""
    for name, of in LOADS.items():
        kinds = {letter: weight for letter, weight in of.kinds.items() if letter not in without}
        if kinds:
            yield name, messages(name, kinds, random.Random(f"{seed} {name}"))


def messages(name, kinds, rng):
    """(name, bytes) without end. kinds: letter -> weight."""
    kinds, weights = zip(*kinds.items())
    number = list(LOADS).index(name)
    first = EQUAL * number
    while True:
        for kind in rng.choices(kinds, weights, k=100):
            number += len(LOADS)                    # no two queues use the same
            equal = rng.randrange(EQUAL) + first if kind in "eE" else None
            what = f"{kind}{number if equal is None else equal}"
            header = {"f": " max_attempts=2", "c": " max_attempts=2"}.get(kind, "")
            if kind == "x" and name == "mass":
                header = " max_attempts=1"
            if header or (kind in "dD" and rng.random() < 0.01):
                header = f"quredis/1 id={what}{header}\n"
            yield what, header.encode() + what.encode() + (_random_bytes(rng) if name == "big" else b"")


class Producer(threading.Thread):
    """Pushes target messages into one queue, so fast as it may, and more if that is allowed; ledger and counts say what became
    of each push."""

    def __init__(self, server, name, supply, target, allowed, ledger):
        super().__init__(daemon=True)
        self.name_of_queue, self.target = name, target
        self.acknowledged = 0
        self._load, self._path, self._supply, self._allowed, self._ledger = LOADS[name], str(server.socket), supply, allowed, ledger
        self._socket, self._stream = None, None
        self._enough = threading.Event()

    def share(self):
        return self.acknowledged / self.target

    def end(self):
        self._enough.set()
        if self.is_alive():
            self.join(60)

    def run(self):
        while not self._enough.is_set():
            room = min(self._load.together, math.ceil(self.target * self._allowed()) - self.acknowledged)
            try:
                if room <= 0 or self._command(b"LLEN") >= self._load.most or not self._push([next(self._supply) for _ in range(room)]):
                    time.sleep(0.01)
            except OSError:                         # of LLEN: whatever it was, it is asked again
                self._close()
                time.sleep(0.02)
        self._close()

    def _push(self, batch):
        """Pushes, and returns whether Redis acknowledged every message."""
        fates = []
        try:
            self._send(b"".join(self._request(b"LPUSH", raw) for _, raw in batch))
            for _ in batch:
                fates.append("refused" if self._reply() is None else "ack")
        except OSError:
            self._close()
        fates += ["doubt"] * (len(batch) - len(fates))
        self.acknowledged += fates.count("ack")
        self._ledger.pushed((name, fate) for (name, _), fate in zip(batch, fates))
        return fates.count("ack") == len(batch)

    # ---- just enough of the protocol: every push has an answer of its own ----

    def _request(self, verb, *arguments):
        words = (verb, b"ingress:" + self.name_of_queue.encode(), *arguments)
        return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)

    def _command(self, verb):
        self._send(self._request(verb))
        answer = self._reply()
        if answer is None:
            raise OSError("refused")
        return answer

    def _send(self, data):
        if self._socket is None:
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.settimeout(20)
            self._socket.connect(self._path)
            self._stream = self._socket.makefile("rb")
        self._socket.sendall(data)

    def _reply(self):
        """Returns the integer in the answer. None: Redis refused."""
        line = self._stream.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError
        return int(line[1:]) if line[:1] == b":" else None

    def _close(self):
        if self._socket is not None:
            self._socket.close()
        self._socket = None
