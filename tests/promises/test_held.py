"""A handler has succeeded, and Redis will not hear of it: the acknowledgement is held and asked for again. The handler is not
run again, and nothing is fetched meanwhile. In both modes, one message at a time and many."""
import collections
import time

import pytest

from harness import Watch, queue, wait_for
from harness.messages import anywhere, in_transit

# Notes its start; the one called "gate" ends when it is told to
EXEC = """
read -r m
echo "start $m $QUREDIS_REDELIVERED" >>@LEDGER@
[ "$m" != gate ] || until [ -e @TMP@/go ]; do sleep 0.01; done
echo "end $m" >>@LEDGER@
"""
STAYS = """
while read -r _ serial attempt size keys; do
	read -r m
	again=0
	case " $keys " in *" redelivered=1 "*) again=1 ;; esac
	echo "start $m $again" >>@LEDGER@
	[ "$m" != gate ] || until [ -e @TMP@/go ]; do sleep 0.01; done
	echo "end $m" >>@LEDGER@
	echo "OK $serial"
done
"""
LARGE = {"max": 64, "time": "60s"}
MODES = {
    "exec": (EXEC, {"batch": {"max": 1, "time": "60s"}}),
    "exec-batch": (EXEC, {"batch": LARGE}),
    "persistent": (STAYS, {"mode": "persistent", "batch": {"max": 1, "time": "60s"}}),
    "persistent-batch": (STAYS, {"mode": "persistent", "window": 4, "batch": LARGE}),
}
FETCHES = (b"BRPOPLPUSH", b"RPOPLPUSH")
NAMES = [f"m{i}" for i in range(12)] + ["gate"] + [f"n{i}" for i in range(120)]


class Scene:
    """A worker with "gate" in work, and what else its batch brought: done and not yet acknowledged, or waiting."""

    def __init__(self, mode, redis, redis_proxy, quredisd, handler, ledger, tmp):
        self.c, self.ledger, self.tmp, self.watch = redis.client(), ledger, tmp, Watch("mail/0")
        self.proxy = redis_proxy(redis, self.watch)
        body, keys = MODES[mode]
        self.d = quredisd(redis=self.proxy, queues=[queue("mail", handler(body), **keys)], supervisor={"lease": "2s"})
        self.workers = self.d.wait_workers("mail", 1)
        self.d.wait_event("queue_recovered", queue="mail")
        self.c.lpush("ingress:mail", *NAMES)
        wait_for(lambda: ledger.count("start gate 0"), 30, "the gate")

    def go(self):
        """The gate ends."""
        (self.tmp / "go").touch()
        wait_for(lambda: self.ledger.count("end gate"))

    def fetches(self):
        """How often it asked for messages, one or many at a time."""
        said = [word in FETCHES for word in [b"", *self.watch.said]]
        return sum(now and not before for before, now in zip(said, said[1:]))

    def all_done_once(self):
        wait_for(lambda: not anywhere(self.c, "mail"), 60, "all to be settled")
        assert collections.Counter(self.ledger.lines()) == collections.Counter(x for n in NAMES for x in (f"start {n} 0", f"end {n}"))
        assert not self.c.exists("escape:mail") and self.d.workers("mail") == self.workers and not self.d.events("claim_lost")


@pytest.fixture(params=MODES)
def scene(request, redis, redis_proxy, quredisd, handler, ledger, tmp):
    return Scene(request.param, redis, redis_proxy, quredisd, handler, ledger, tmp)


def refused_for_a_while(scene):
    """The acknowledgement is refused, and asked for again; for messages the worker asks in the same write, and then no more."""
    wait_for(lambda: scene.watch.said[-1] not in FETCHES, 20)
    before = scene.fetches()
    scene.go()
    scene.d.wait_event("redis_error", 20, queue="mail", at="settle")
    tries = scene.watch.count(b"DEL", b"LREM")
    wait_for(lambda: scene.watch.count(b"DEL", b"LREM") >= tries + 2, 30, "it is asked for again")
    assert scene.fetches() - before <= 1 and in_transit(scene.c, "mail")


def test_not_enough_replicas(scene):
    scene.c.config_set("min-replicas-to-write", 1)
    refused_for_a_while(scene)
    scene.c.config_set("min-replicas-to-write", 0)
    scene.all_done_once()


def test_not_enough_replicas_for_longer_than_the_lease(scene):
    """Then the name is renewed, too."""
    scene.c.config_set("min-replicas-to-write", 1)
    scene.go()
    wait_for(lambda: not scene.c.keys("transit:mail:lease:*"), 20, "the lease to run out")
    fetches = scene.fetches()
    renewals = scene.watch.count(b"EVALSHA")
    wait_for(lambda: scene.watch.count(b"EVALSHA") >= renewals + 2, 30, "it asks for another name")
    assert scene.fetches() == fetches
    scene.c.config_set("min-replicas-to-write", 0)
    scene.all_done_once()


def test_no_right_to_acknowledge(scene):
    """Redis refuses the acknowledgement only."""
    scene.c.execute_command("ACL", "SETUSER", "default", "-del", "-lrem")
    refused_for_a_while(scene)
    left = scene.c.llen("ingress:mail")
    scene.c.execute_command("ACL", "SETUSER", "default", "+del", "+lrem")
    scene.all_done_once()
    assert left > 0


@pytest.mark.parametrize("what", ["lose_request", "lose_reply"])
def test_the_connection_goes_with_the_acknowledgement(scene, what):
    """After the reconnect the worker checks whether Redis executed the acknowledgement, before it fetches."""
    lost = scene.proxy.lost
    getattr(scene.proxy, what)(b"\r\nDEL\r\n")
    scene.go()
    wait_for(lambda: scene.proxy.lost > lost)
    scene.all_done_once()
    # what was said after the first of the two connections: the secrets, which server it is, a name, three trays, and only then the rest
    second = scene.watch.said[len(scene.watch.said) - scene.watch.said[::-1].index(b"CLIENT SETNAME"):]
    first_words = [w for w in second if not w.startswith((b"SCRIPT", b"CLIENT", b"ROLE"))][:7]
    assert first_words == [b"EVALSHA", b"INFO", b"INFO", b"EVALSHA", b"LRANGE", b"LRANGE", b"LRANGE"], first_words


@pytest.mark.parametrize("longer", [False, True], ids=["short", "longer-than-the-lease"])
def test_handlers_end_while_there_is_no_connection(scene, longer):
    scene.proxy.refuse()
    scene.proxy.cut()
    scene.go()
    if longer:
        wait_for(lambda: not scene.c.keys("transit:mail:lease:*"), 20, "the lease to run out")
    scene.proxy.refuse(False)
    scene.all_done_once()


@pytest.mark.parametrize("scene", ["exec-batch", "persistent"], indirect=True)
def test_an_answer_that_comes_too_late(scene):
    """Redis executes the command and answers too late. Meanwhile the worker reconnects and learns the result."""
    scene.watch.before[b"DEL"] = lambda: 8
    since = time.monotonic()
    scene.go()
    wait_for(lambda: scene.watch.count(b"EVALSHA") > 1, 30, "the next connection")
    scene.all_done_once()
    wait_for(lambda: time.monotonic() > since + 8.5, 20)        # the late answer has gone nowhere
    assert not anywhere(scene.c, "mail") and scene.d.workers("mail") == scene.workers
