"""The case that led to operations: thousands failed for one reason. Their retry begins with a canary, keeps a pace, and is killed again and again."""
import random

import pytest

from harness import queue, wait_for
from harness.dead_letters import CAUSE, LETTERS, PATIENCE_S, SWITCH, fill, left_whole
from harness.queues import Queue

from .test_operations import begin


@pytest.mark.limit(2 * PATIENCE_S)
def test_killed_ten_times_with_a_canary_each_message_runs_once(quredisd, redis, handler, ledger):
    """Three times while the canary moves or runs, and seven times while the others follow. Only then does the command end."""
    Queue(redis.client())       # registers it: begin() has no configuration
    q, wanted = fill(redis.client())
    d = quredisd(queues=[queue("mail", handler(SWITCH), workers=4)])
    retry = ["dlq", "retry", "mail", "--all", "--cause", CAUSE, "--canary=50", "--rate", f"{LETTERS // 4}/s", "--yes", "--foreground"]
    chance = random.Random(11)

    def moved():
        return LETTERS - q.client.llen(q.escape)

    for kill in range(10):
        at = chance.randrange(1, 50) if kill < 3 else max(50, moved()) + chance.randrange(1, len(wanted) // 15)
        child = begin(redis.url, *retry)
        wait_for(lambda: moved() >= at or child.poll() is not None, 60, interval=0.0005)
        assert child.poll() is None, child.communicate()
        child.kill()
        child.communicate()
        assert kill >= 3 or moved() <= 50
    assert 50 < moved() < len(wanted)
    r = d.quredis(*retry)
    assert r.code == 0 and "continues the retry begun at" in r.err, r
    wait_for(lambda: len(ledger.lines()) == len(wanted), PATIENCE_S)
    ran = [m.encode() for m in ledger.lines()]
    assert sorted(ran) == sorted(wanted) and {*ran[:50]} == {*wanted[:50]}
    left_whole(q, wanted)
    assert d.stop() == 0
