"""Everything dies at random, for a while: nothing acknowledged is lost, each second run was told, nothing is left.

CHAOS_S says for how long (25), CHAOS_SEED which dice.
"""
import collections
import os
import random
import signal
import threading
import time

import pytest
import redis as redis_py

from harness import alive, queue, wait_for
from harness.messages import anywhere, stray_keys, unwrap

SECONDS = float(os.environ.get("CHAOS_S", "25"))
SEED = int(os.environ.get("CHAOS_SEED", "1"))

# what the first letter asks for: d done, f fails for good, r once more later, s takes a while
BODY = r"""
read -r m
echo "start $m $QUREDIS_REDELIVERED $QUREDIS_ATTEMPT $$" >>@LEDGER@
case $m in
f*) exit 1 ;;
r*) [ "$QUREDIS_ATTEMPT" -gt 1 ] || exit 75 ;;
s*) sleep 0.1 ;;
esac
echo "end $m" >>@LEDGER@
"""


class Producer(threading.Thread):
    def __init__(self, server, rng):
        super().__init__(daemon=True)
        self.server, self.rng, self.enough = server, rng, threading.Event()
        self.acknowledged, self.doubtful = set(), set()

    def run(self):
        c = redis_py.Redis(unix_socket_path=str(self.server.socket), socket_timeout=10)
        n = 0
        while not self.enough.wait(0.004):
            try:
                if n % 16 == 0 and c.llen("ingress:mail") > 200:
                    self.enough.wait(0.05)
                    continue
                n += 1
                name = self.rng.choice("ddddfrs") + str(n)
                c.lpush("ingress:mail", name)
                self.acknowledged.add(name)
            except redis_py.RedisError:
                self.doubtful.add(name)
        c.close()


def kill9(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Chaos:
    def __init__(self, server, daemon, rng):
        self.server, self.daemon, self.rng, self.done = server, daemon, rng, collections.Counter()

    def worker(self):
        for pid in self.daemon.workers().values():
            kill9(pid)
            return

    def workers(self):
        for pid in self.daemon.workers().values():
            kill9(pid)

    def handler(self):
        for pid in self.daemon.handlers()[:1]:
            kill9(pid)

    def sweeper(self):
        pid = self.daemon.sweeper()
        if pid:
            kill9(pid)

    def master(self):
        if self.rng.random() < 0.5:
            self.daemon.kill9()
        else:
            self.daemon.kill_tree()
        self.daemon.start(wait=False)

    def stop(self, sig=signal.SIGTERM):
        assert self.daemon.stop(sig) == 0
        self.daemon.start(wait=False)

    def quick_stop(self):
        self.stop(signal.SIGQUIT)

    def redis(self):
        self.server.kill9()
        pause = time.monotonic() + self.rng.choice([0, 0, 0.3])
        wait_for(lambda: time.monotonic() >= pause)
        self.server.start()

    def connections(self):
        c = self.server.client()
        c.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        c.close()

    def pause_worker(self):
        """Longer than its lease."""
        for pid in self.daemon.workers().values():
            try:
                os.kill(pid, signal.SIGSTOP)
                until = time.monotonic() + self.rng.uniform(0.1, 2)
                wait_for(lambda: time.monotonic() >= until)
            finally:
                try:
                    os.kill(pid, signal.SIGCONT)
                except ProcessLookupError:
                    pass
            return

    def reload(self):
        queues = self.daemon.sections["queues"]
        queues[0]["timeout"] = f"{self.rng.randrange(20, 60)}s"
        self.daemon.reload()

    EVENTS = {"worker": 8, "workers": 2, "handler": 6, "sweeper": 4, "master": 4, "stop": 2, "quick_stop": 3, "redis": 4,
              "connections": 6, "pause_worker": 2, "reload": 3}

    def one(self):
        name = self.rng.choices(list(self.EVENTS), weights=self.EVENTS.values())[0]
        self.done[name] += 1
        getattr(self, name)()


@pytest.mark.limit(int(SECONDS) + 240)
def test_chaos(redis_server, quredisd, handler, ledger):
    rng = random.Random(SEED)
    server = redis_server(aof="always")
    d = quredisd(redis=server, queues=[queue("mail", handler(BODY), workers=3, recovery_attempts=1000, timeout="30s",
                                             backoff={"base": "10ms", "cap": "50ms"})],
                 supervisor={"lease": "1s", "kill_grace": "500ms", "drain_timeout": "5s"}, log={"level": "info"})
    producer = Producer(server, random.Random(SEED + 1))
    producer.start()
    chaos, until = Chaos(server, d, rng), time.monotonic() + SECONDS
    while time.monotonic() < until:
        chaos.one()
        pause = time.monotonic() + rng.uniform(0, 0.3)
        wait_for(lambda: time.monotonic() >= pause)
    producer.enough.set()
    producer.join(30)
    if not d.running():
        d.start(wait=False)
    c = server.client()
    wait_for(lambda: not anywhere(c, "mail"), 150, "everything settled")

    runs, ends = collections.defaultdict(list), collections.Counter()
    for line in ledger.lines():
        what, name, *rest = line.split()
        if what == "start":
            runs[name].append((rest[0], int(rest[1])))
        else:
            ends[name] += 1
    escaped = collections.Counter(unwrap(m)[1].decode() for m in c.lrange("escape:mail", 0, -1))
    killed = chaos.done["handler"]
    print(f"\n{dict(chaos.done)}: {len(producer.acknowledged)} acknowledged, {len(producer.doubtful)} doubtful, "
          f"{sum(len(r) for r in runs.values())} runs, {len(escaped)} escaped")

    lost = {n for n in producer.acknowledged if not ends[n] and not escaped[n]}
    assert not lost, sorted(lost)[:20]
    assert set(runs) <= producer.acknowledged | producer.doubtful
    # a second run of the same attempt was flagged; a later attempt need not be
    untold = {}
    for name, starts in runs.items():
        seen = set()
        for flag, attempt in starts:
            if attempt in seen and flag == "0":
                untold[name] = starts
            seen.add(attempt)
    assert not untold, untold
    # in escape is what failed, once; and of the others only those whose handler was killed
    assert max(escaped.values(), default=1) == 1, escaped.most_common(5)
    unexpected = [n for n in escaped if not n.startswith("f")]
    assert len(unexpected) <= killed + chaos.done["master"] * 3, unexpected
    assert {n for n in producer.acknowledged if n.startswith("f")} <= set(escaped)
    assert c.xlen("escape:mail:log") == len(escaped) and stray_keys(c, "mail") == []
    assert d.stop() == 0
    assert not c.keys("transit:mail:lease:*") and not any(alive(p) for p in d.handlers())
