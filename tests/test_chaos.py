"""Everything at once: kills, reloads, stops and a Redis that goes away, under load. Nothing is lost."""
import os
import random
import signal
import time

import pytest

from harness import queue, wait_for
from harness.control import ask
from harness.messages import in_transit

DURATION_S = 15
HANDLER = 'read -r m; sleep 0.0$(($$ % 5)); echo "$m $QUREDIS_REDELIVERED" >>@LEDGER@'


def configuration(handler, n):
    body = handler(HANDLER, name="chaos")
    return [queue("mail", body, workers=3, recovery_attempts=1000, max_attempts=1 + n % 2),
            queue("other", body, workers=2, recovery_attempts=1000)]


def disturb(d, redis, chance, handler):
    """One of the things that happen."""
    what = chance.choice(["worker"] * 4 + ["sweeper", "master", "master", "hup", "change", "redis", "quit", "usr1", "restart"])
    victims = {"worker": list(d.workers().values()), "sweeper": [d.sweeper()] if d.sweeper() else []}.get(what)
    if victims:
        try:
            os.kill(chance.choice(victims), signal.SIGKILL)
        except ProcessLookupError:
            pass
    elif what == "master":
        d.kill9()
        d.start()
    elif what in ("hup", "usr1"):
        d.signal(signal.SIGHUP if what == "hup" else signal.SIGUSR1)
    elif what == "change":
        d.reload(queues=configuration(handler, chance.randint(0, 9)))
    elif what == "redis":
        redis.restart()
    elif what == "quit":
        d.restart(signal.SIGQUIT)
    elif what == "restart":
        assert ask(d, "restart", queue="mail") == {"ok": True}


@pytest.mark.limit(300)
@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_is_lost_and_what_runs_twice_is_told_so(redis_server, quredisd, handler, ledger, seed):
    chance = random.Random(seed)
    redis = redis_server(aof="always")
    d = quredisd(queues=configuration(handler, 0), redis=redis, log={"level": "info"},
                 supervisor={"kill_grace": "500ms", "lease": "4s"})
    sent, begin = 0, time.monotonic()
    while time.monotonic() - begin < DURATION_S:
        c = redis.client()
        for _ in range(chance.randint(1, 20)):
            c.lpush(chance.choice(["ingress:mail", "ingress:other"]), f"m{sent}")
            sent += 1
        disturb(d, redis, chance, handler)
    c = redis.client()

    def missing():
        return {f"m{i}" for i in range(sent)} - {line.split()[0] for line in ledger.lines()}
    wait_for(lambda: not missing(), 120)
    wait_for(lambda: not any(c.llen(f"ingress:{q}") or in_transit(c, q) for q in ("mail", "other")), 60)
    seen = set()
    for line in ledger.lines():
        message, redelivered = line.split()
        assert message not in seen or redelivered == "1", line
        seen.add(message)
    assert c.llen("escape:mail") == c.llen("escape:other") == 0
    assert d.stop() == 0
