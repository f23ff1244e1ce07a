"""Traffic of every kind on a queue with a ttl, while clocks are set, hosts compete and processes die: nothing expires early.

TTL_MESSAGES, TTL_SEED and TTL_RATE change it; `make ttl-soak` is the long form.
"""
import collections
import datetime
import os
import random
import signal
import time

import pytest
import redis as redis_py

from harness import queue, wait_for
from harness.messages import anywhere, unwrap

MESSAGES = int(os.environ.get("TTL_MESSAGES", "6000"))
SEED = int(os.environ.get("TTL_SEED", "1"))
RATE = int(os.environ.get("TTL_RATE", "500"))
TTL_S = 2.0
EQUAL = [b"equal %d" % i for i in range(3)]

HANDLER = """import random, sys, time
out = open("@LEDGER@", "ab", 0)
while head := sys.stdin.buffer.readline():
    _, serial, _, size = head.split()[:4]
    body = sys.stdin.buffer.read(int(size) + 1)[:-1].split(b"\\n")[-1]
    time.sleep(random.random() * 0.005)
    x = random.random()
    verdict = "RETRY" if x < 0.15 else "FAIL" if x < 0.2 else "OK"
    out.write(b"%.3f\\t%s\\t%s\\n" % (time.time(), verdict.encode(), body))
    print(verdict, int(serial), *(["100ms"] if verdict == "RETRY" else []), flush=True)
"""


class Traffic:
    def __init__(self, machine, handler, ledger):
        self.machine, self.ledger, self.random = machine, ledger, random.Random(SEED)
        self.current = machine.server(clock=True)
        self.proxy = machine.proxy(self.current)
        self.c = redis_py.Redis(unix_socket_path=self.proxy.path, socket_timeout=20, retry=None)
        self.pushed = collections.defaultdict(list)     # body -> when, by our clock, before it was sent
        self.limit = {}                                 # body -> its own limit
        self.taken = collections.Counter()              # by foreign consumers and purges
        run = handler(HANDLER, "python")
        mail = queue("mail", run, mode="persistent", window=8, workers=2, ttl="2s", max_attempts=4, recovery_attempts=20,
                     backoff={"base": "100ms", "cap": "200ms"})
        self.hosts = [machine.daemon(redis=self.proxy, queues=[mail], supervisor={"node": f"host{i}", "lease": "4s"},
                                     log={"level": "info"}) for i in range(2)]

    def safely(self, do):
        """Redis may be away for a moment."""
        while True:
            try:
                return do()
            except redis_py.ConnectionError:
                time.sleep(0.05)

    # ---- what happens ----

    def push(self, n):
        kind, began = self.random.random(), time.time()         # before "enqueued"
        body = self.random.choice(EQUAL) if kind < 0.2 else b"m%d" % n
        message = body
        if kind > 0.9:
            self.limit[body] = self.random.choice((1.0, 1.5, 60.0))
            head = f"quredis/1 ttl={int(self.limit[body] * 1000)}ms"
            if kind > 0.95:
                seconds, micros = self.safely(self.c.time)
                head += f" enqueued={seconds * 1000 + micros // 1000}"
            message = head.encode() + b"\n" + body
        self.pushed[body].append(began)
        self.safely(lambda: self.c.lpush("ingress:mail", message))

    def foreign(self):
        for _ in range(self.random.randrange(1, 30)):
            raw = self.safely(lambda: self.c.rpop("ingress:mail"))
            if raw is not None:
                self.taken[unwrap(raw)[1].split(b"\n")[-1]] += 1

    def purge(self):
        everything = "local l = redis.call('LRANGE', KEYS[1], 0, -1) redis.call('DEL', KEYS[1]) return l"
        for raw in self.safely(lambda: self.c.eval(everything, 1, "ingress:mail")):
            self.taken[unwrap(raw)[1].split(b"\n")[-1]] += 1

    def kill(self):
        host = self.random.choice(self.hosts)
        pids = list(host.workers("mail").values()) + [host.sweeper()]
        pid = self.random.choice([p for p in pids if p])
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def pause(self):
        self.safely(lambda: self.c.set("quredis:of:ingress:mail:paused", "1", px=self.random.randrange(4000, 6000)))

    def set_clock(self):
        ahead = self.random.choice((-3600, 3600, 0, -20, 20, 0.7, -0.7))
        self.current.set_clock(ahead)

    def reload(self):
        host = self.random.choice(self.hosts)
        mail = dict(host.sections["queues"][0])
        mail["timeout"] = f"{self.random.randrange(60, 600)}s"
        host.reload(queues=[mail])

    def restart(self):
        """A supervisor dies with all it has; the next one goes on with what it knew of the clock, if that was not set meanwhile."""
        host = self.random.choice(self.hosts)
        host.kill_tree()
        if self.random.random() < 0.5:
            self.set_clock()
        host.start(wait=False)

    def cut(self):
        self.proxy.cut()

    def small_event(self):
        self.random.choice((self.foreign, self.foreign, self.kill, self.reload, self.cut))()

    def run(self):
        # A step makes all wait anew, so that there is time between two; and a pause for a backlog, however fast the machine is.
        regular = {self.set_clock: (8, 14), self.pause: (7, 12), self.purge: (8, 25), self.restart: (4, 9), self.small_event: (0.3, 1.2)}
        began = time.monotonic()
        due = {event: self.random.uniform(*every) for event, every in regular.items()}
        due[self.pause] = 1.0
        for n in range(MESSAGES):
            self.push(n)
            now = time.monotonic() - began
            for event, every in regular.items():
                if now > due[event]:
                    due[event] = now + self.random.uniform(*every)
                    event()
            ahead = n / RATE - now
            if ahead > 0.002:
                time.sleep(ahead)

    # ---- what became of it ----

    def records(self):
        start = "-"
        while rows := self.c.xrange("escape:mail:log", start, count=500):
            yield from (fields for _, fields in rows)
            start = "(" + rows[-1][0].decode()

    def retries(self):
        """body -> when its handler asked for another attempt."""
        found, handled = collections.defaultdict(list), collections.Counter()
        for line in self.ledger.lines():
            when, verdict, body = line.split("\t")
            (found[body.encode()].append(float(when)) if verdict != "OK" else None)
            handled[body.encode()] += verdict == "OK"
        return found, handled

    def check(self):
        retries, handled = self.retries()
        expired, escaped, early = collections.defaultdict(list), collections.Counter(), []
        for r in self.records():
            body = r[b"message"].split(b"\n")[-1]
            escaped[body] += 1
            if r[b"error_class"] != b"TTLExpired":
                continue
            at = datetime.datetime.fromisoformat(r[b"failed_at"].decode().replace("Z", "+00:00")).timestamp()
            expired[body].append(at)
            if body in EQUAL:
                continue
            attempts, limit = int(r[b"attempts"]), min(TTL_S, self.limit.get(body, TTL_S))
            since = self.pushed[body][0]
            if attempts > 0 and body not in self.limit:
                since = sorted(retries[body])[attempts - 1]        # it waits anew
            if at - since < limit - 0.002:                          # times are cut to milliseconds
                early.append((body, at - since, limit, r[b"error_message"], attempts))
        for body in EQUAL:                      # of equal ones the k-th cannot be expired before the k-th is old enough
            pushed = sorted(self.pushed[body])
            early += [(body, at, pushed[k]) for k, at in enumerate(sorted(expired[body])) if at - pushed[k] < TTL_S - 0.002]
        assert not early, early[:20]
        lost = {b: (len(t), handled[b], escaped[b], self.taken[b]) for b, t in self.pushed.items()
                if handled[b] + escaped[b] + self.taken[b] < len(t)}
        assert not lost, list(lost.items())[:20]
        return sum(map(len, expired.values())), sum(handled.values()), sum(self.taken.values()), sum(len(v) for v in retries.values())


@pytest.mark.verdict
@pytest.mark.limit(240 + MESSAGES // 50)
def test_nothing_expires_early(machine, handler, ledger):
    t = Traffic(machine, handler, ledger)
    t.run()
    t.safely(lambda: t.c.delete("quredis:of:ingress:mail:paused"))
    t.current.set_clock(7200)           # what is delayed is so by the clock of Redis
    wait_for(lambda: not t.safely(lambda: anywhere(t.c, "mail")), 120, "everything settled")
    expired, handled, taken, retried = t.check()
    steps = sum(len(h.events("server_clock_set")) for h in t.hosts)
    print(f"\n{MESSAGES} messages: {expired} expired, {handled} handled, {taken} taken by others, {retried} attempts failed; {steps} steps of the clock seen")
    assert expired > 100 and handled > 100 and taken > 0 and steps > 0
    for host in t.hosts:
        assert host.stop() == 0
