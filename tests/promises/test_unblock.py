"""A worker that waits in Redis for a message is stopped at once, and the message that comes in that moment is neither lost nor run."""
import random
import signal
import time

import pytest

from harness import Watch, queue, wait_for
from harness.control import ask
from harness.messages import in_transit, stray_keys

NOTE = 'read -r m; echo "$m $QUREDIS_REDELIVERED" >>@LEDGER@'
FETCH, UNBLOCK = b"BRPOPLPUSH", b"CLIENT UNBLOCK"       # a fetch waits two seconds


def waits(watch):
    """Right after this a worker has begun to wait."""
    before = watch.count(FETCH)
    wait_for(lambda: watch.count(FETCH) > before, 20, "the next fetch", interval=0.001)


def blocked(c):
    return [x for x in c.client_list() if "b" in x["flags"]]


@pytest.fixture
def watch():
    return Watch("mail/0")


@pytest.fixture
def begin(redis, redis_proxy, quredisd, handler, watch):
    def begin(**options):
        proxy = redis_proxy(redis, watch)
        d = quredisd(redis=proxy, queues=[queue("mail", handler(NOTE), **options)])
        d.wait_event("queue_recovered", queue="mail")
        return d, proxy
    return begin


def stop(d):
    """Returns how long it took."""
    began = time.monotonic()
    assert d.stop() == 0, d.text()
    return time.monotonic() - began


def left_as_it_was(c, ledger, *messages):
    """Nothing ran, nothing is registered, and these wait as they were pushed."""
    assert c.lrange("ingress:mail", 0, -1) == list(messages) and not in_transit(c, "mail") and ledger.lines() == []
    assert not c.exists("transit:mail:workers") and not c.keys("transit:mail:lease:*") and stray_keys(c, "mail") == []


@pytest.mark.parametrize("how", ["TERM", "QUIT", "quiet", "restart"])
def test_it_does_not_wait_for_the_end_of_the_block(redis, ledger, begin, watch, how):
    d, _ = begin()
    waits(watch)
    began = time.monotonic()
    if how in ("TERM", "QUIT"):
        assert d.stop(getattr(signal, f"SIG{how}")) == 0
    else:
        ask(d, how, queue="mail")
        wait_for(lambda: d.events("worker_exited") if how == "restart" else watch.count(UNBLOCK) and not blocked(redis.client()))
    took = time.monotonic() - began
    print(f"\n{how}: {took:.3f} s; a fetch waits for 2 s")
    assert took < 1 and watch.count(UNBLOCK) == 1


def test_a_redis_that_holds_up_writes_survives_a_stop(redis, ledger, begin):
    """As during FAILOVER. Redis 7.0 aborts if such a client is woken."""
    d, _ = begin()
    c = redis.client()
    worker = wait_for(lambda: blocked(c))[0]
    c.execute_command("CLIENT", "PAUSE", 5000, "WRITE")
    c.execute_command("CLIENT", "UNBLOCK", worker["id"])        # so its next fetch is held up
    wait_for(lambda: [x for x in c.client_list() if x["id"] == worker["id"] and int(x["idle"]) == 0 and x["cmd"] != "client"])
    d.signal(signal.SIGTERM)
    assert d.wait_exit() == 0, d.text()
    assert redis.answers() and not in_transit(c, "mail")


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_message_comes_in_that_moment(redis, ledger, begin, watch, when):
    """Before: Redis gives it to the fetch that is to be ended. After: it stays where it is."""
    d, _ = begin()
    c, answers = redis.client(), []
    message = b"quredis/1 id=x\nin that moment"
    if when == "before":
        watch.before[UNBLOCK] = lambda: c.lpush("ingress:mail", message) and None
        watch.after[UNBLOCK] = answers.append
    else:
        watch.before[UNBLOCK] = lambda: watch.after.update({FETCH: lambda answer: answers.append(answer) or c.lpush("ingress:mail", message)})
    waits(watch)
    assert stop(d) < 5
    # the message may be there, and the connection closed, before the answer is
    assert answers in ([[], [b":0\r\n"]] if when == "before" else [[b"*-1\r\n"], [b"$-1\r\n"]])
    left_as_it_was(c, ledger, message)


def test_whenever_a_message_comes(redis, ledger, begin, watch):
    """A hundred times: quiet, a push at about the same time, resume. Each runs once, as if nothing had been."""
    d, _ = begin()
    c, rng = redis.client(), random.Random(7)
    for i in range(100):
        wait_for(lambda: blocked(c), 20, "a fetch that waits", interval=0.001)
        pushed = False
        at = time.monotonic() + rng.uniform(0, 0.004)
        if rng.random() < 0.5:
            c.lpush("ingress:mail", f"m{i}")
            pushed = True
        ask(d, "quiet", queue="mail")
        while time.monotonic() < at:
            pass
        if not pushed:
            c.lpush("ingress:mail", f"m{i}")
        if rng.random() < 0.5:
            wait_for(lambda: not blocked(c), interval=0.001)
        ask(d, "resume", queue="mail")
        wait_for(lambda: len(ledger.lines()) == i + 1 and not in_transit(c, "mail"), 20, f"m{i}", interval=0.001)
    assert ledger.lines() == [f"m{i} 0" for i in range(100)] and watch.count(UNBLOCK) > 0


@pytest.mark.parametrize("how", ["closed", "nobody-listens"])
def test_the_second_connection_is_refused(redis, ledger, begin, watch, how):
    """Then it waits for the end of the block."""
    d, proxy = begin()
    waits(watch)
    if how == "closed":
        proxy.refuse()
    else:
        proxy.leave()
    d.signal(signal.SIGTERM)
    d.wait_event("stopping")
    redis.client().lpush("ingress:mail", "a")
    assert d.wait_exit() == 0
    left_as_it_was(redis.client(), ledger, b"a")
    assert watch.count(UNBLOCK) == 0


@pytest.mark.parametrize("at", [b"CLIENT ID", b"ROLE", UNBLOCK])
def test_the_second_connection_falls_silent(redis, ledger, begin, watch, at):
    d, _ = begin()
    watch.before[at] = lambda: 60
    waits(watch)
    took = stop(d)
    print(f"\n{took:.3f} s")
    left_as_it_was(redis.client(), ledger)
    assert watch.count(at) >= 1


@pytest.mark.parametrize("right", ["client", "client|unblock", "client|id", "client|setname"])
def test_a_user_who_may_not(redis, ledger, begin, watch, right):
    """Without the right to name or wake a connection quredis works as well; a stop then waits until the block ends."""
    c = redis.client()
    c.execute_command("ACL", "SETUSER", "default", f"-{right}")
    d, _ = begin()
    c.lpush("ingress:mail", "first")
    wait_for(lambda: ledger.lines() == ["first 0"])
    wait_for(lambda: not in_transit(c, "mail"))
    watch.said.clear()
    waits(watch)
    d.signal(signal.SIGTERM)
    d.wait_event("stopping")
    c.lpush("ingress:mail", "a")
    assert d.wait_exit() == 0
    assert c.lrange("ingress:mail", 0, -1) == [b"a"] and ledger.lines() == ["first 0"]
    assert not c.exists("transit:mail:workers") and not in_transit(c, "mail")
    assert not d.events("redis_error") and not d.events("redis_down")
