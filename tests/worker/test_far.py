"""A Redis that is far away: each answer takes longer than a local one ever does."""
import threading
import time

import pytest

from harness import queue, wait_for
from harness.messages import anywhere, unwrap
from harness.unix_front import UnixFront, end

WAY_S = 0.003
MESSAGES = 400
HANDLER = """
import sys
i, o = sys.stdin.buffer, sys.stdout.buffer
while head := i.readline().split():
    i.read(int(head[3]) + 1)
    o.write(b"OK %s\\n" % head[1])
    o.flush()
"""


class FarAway(UnixFront):
    """Passes on what it reads WAY_S later, each way."""

    def serve(self, client, redis):
        for source, sink in ((client, redis), (redis, client)):
            threading.Thread(target=self._pass_on, args=(source, sink), daemon=True).start()

    def _pass_on(self, source, sink):
        try:
            while data := source.recv(1 << 20):
                time.sleep(WAY_S)
                sink.sendall(data)
        except OSError:
            pass
        end(source, sink)


@pytest.fixture
def far(tmp, redis):
    front = FarAway(tmp / "far", redis)
    yield front
    front.close()


def blocking_fetches(c):
    return sum(c.info("commandstats").get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("brpoplpush", "blmove"))


def test_a_full_queue_is_fetched_in_batches(redis, far, quredisd, handler):
    """Not one message in each round trip."""
    c = redis.client()
    c.lpush("ingress:mail", *range(MESSAGES))
    d = quredisd(redis={"url": far.url}, queues=[queue("mail", handler(HANDLER, lang="python"), mode="persistent", workers=1)])
    wait_for(lambda: anywhere(c, "mail") == [], 60)
    assert blocking_fetches(c) < MESSAGES / 4
    assert d.stop() == 0


def test_a_stop_keeps_the_order(redis, far, quredisd, handler):
    """The next messages are on their way while those before them go back."""
    c = redis.client()
    slower = HANDLER.replace("    o.write", "    time.sleep(0.0001)\n    o.write").replace("import sys", "import sys, time")
    c.lpush("ingress:mail", *range(20000))
    d = quredisd(redis={"url": far.url}, queues=[queue("mail", handler(slower, lang="python"), mode="persistent", workers=1)])
    for most in (19500, 18000, 16500):
        wait_for(lambda most=most: c.llen("ingress:mail") < most)
        assert d.stop() == 0
        left = [int(unwrap(m)[1]) for m in c.lrange("ingress:mail", 0, -1)]
        assert left == sorted(left, reverse=True) != []
        d.start()
