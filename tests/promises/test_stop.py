"""Stopping: what runs is waited for or given back, and nothing is left."""
import signal
import time

import pytest

from harness import alive, descendants_of, queue, wait_for
from harness.handlers import GATED
from harness.messages import anywhere, in_transit, stray_keys, unwrap


def ends(ledger):
    return sorted(name for (name,) in ledger.rows("end"))


def nothing_left(d, below):
    return not any(alive(p) for p in below) and d.handlers() == []


@pytest.mark.parametrize("stubborn", [False, True], ids=["plain", "ignores-TERM"])
def test_quit_hands_everything_back(redis, quredisd, handler, ledger, tmp, stubborn):
    c = redis.client()
    body = handler(("trap '' TERM\n" if stubborn else "") + GATED)
    d = quredisd(queues=[queue("mail", body, workers=2, max_attempts=3)], supervisor={"kill_grace": "500ms"})
    c.lpush("ingress:mail", "a", "b")
    wait_for(lambda: len(ledger.rows("start")) == 2)
    c.lpush("ingress:mail", b"quredis/1 id=waiting\nc")
    below = descendants_of(d.pid)
    assert d.stop(signal.SIGQUIT) == 0
    assert nothing_left(d, below)

    back = [unwrap(m) for m in c.lrange("ingress:mail", 0, -1)]
    assert {m for _, m in back} == {b"a", b"b", b"quredis/1 id=waiting\nc"} and len(back) == 3
    wrappers = {m: w for w, m in back}
    assert wrappers.pop(b"quredis/1 id=waiting\nc") == {}                # never started: as it was
    assert all(w == {"redelivered": 1} for w in wrappers.values())       # no attempt, no crash
    assert not in_transit(c, "mail") and c.llen("escape:mail") == 0
    assert not c.exists("transit:mail:workers") and not c.keys("transit:mail:lease:*") and stray_keys(c, "mail") == []

    (tmp / "go").touch()
    d.start()
    wait_for(lambda: ends(ledger) == ["a", "b", "c"])
    assert sorted(s[:3] for s in ledger.rows("start")[2:]) == [["a", "1", "1"], ["b", "1", "1"], ["c", "0", "1"]]


def test_handed_back_ones_run_first(redis, quredisd, handler, ledger, tmp):
    """Messages that are handed back go to the pop end, so they do not wait behind the others again."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler(GATED))])
    c.lpush("ingress:mail", "first", "second", "third")
    wait_for(lambda: ledger.rows("start"))
    assert d.stop(signal.SIGQUIT) == 0
    assert [unwrap(m)[1] for m in c.lrange("ingress:mail", 0, -1)] == [b"third", b"second", b"first"]


def test_a_batch_that_is_handed_back_keeps_its_order(redis, quredisd, handler, ledger):
    c = redis.client()
    body = 'read -r m; echo "$m" >>@LEDGER@; [ "$m" != m20 ] || while :; do sleep 1; done'
    d = quredisd(queues=[queue("mail", handler(body), batch={"max": 64, "time": "60s"})], supervisor={"kill_grace": "500ms"})
    d.wait_workers("mail", 1)
    c.lpush("ingress:mail", *[f"m{i}" for i in range(60)])
    wait_for(lambda: ledger.count("m20") and len(in_transit(c, "mail")) > 10)
    assert d.stop(signal.SIGQUIT) == 0
    assert [unwrap(m)[1].decode() for m in c.lrange("ingress:mail", 0, -1)] == [f"m{i}" for i in range(59, 19, -1)]


def test_term_waits_for_handlers(redis, quredisd, handler, ledger, tmp):
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler(GATED), workers=2)], supervisor={"drain_timeout": "60s"})
    c.lpush("ingress:mail", "a", "b")
    wait_for(lambda: len(ledger.rows("start")) == 2)
    c.lpush("ingress:mail", "c")
    d.signal(signal.SIGTERM)
    d.wait_event("stopping")
    d.signal(signal.SIGTERM)         # again: nothing changes
    (tmp / "go").touch()
    assert d.wait_exit() == 0
    assert ends(ledger) == ["a", "b"]
    assert c.lrange("ingress:mail", 0, -1) == [b"c"] and not in_transit(c, "mail")


def test_drain_timeout_ends_the_wait(redis, quredisd, handler, ledger):
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler(GATED))], supervisor={"drain_timeout": "300ms", "kill_grace": "300ms"})
    c.lpush("ingress:mail", "a")
    wait_for(lambda: ledger.rows("start"))
    assert d.stop() == 0
    assert [unwrap(m) for m in c.lrange("ingress:mail", 0, -1)] == [({"redelivered": 1}, b"a")]
    assert ends(ledger) == []


def test_a_handler_that_finishes_after_its_TERM_is_done(redis, quredisd, handler, tmp):
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler(
        "trap 'echo finished >>@TMP@/f; exit 0' TERM; touch @TMP@/up; while :; do sleep 0.02; done"))])
    c.lpush("ingress:mail", "a")
    wait_for((tmp / "up").exists)
    assert d.stop(signal.SIGQUIT) == 0
    assert (tmp / "f").read_text() == "finished\n" and not anywhere(c, "mail") and c.llen("escape:mail") == 0


@pytest.mark.parametrize("workers", [1, 8])
def test_term_while_idle_is_quick(redis, quredisd, handler, workers):
    d = quredisd(queues=[queue("mail", handler("exit 0"), workers=workers), queue("news", handler("exit 0"), workers=workers)])
    wait_for(lambda: len(redis.client().client_list()) >= 2 * workers + 1)
    since = time.monotonic()
    assert d.stop() == 0
    took = time.monotonic() - since
    print(f"\nTERM while idle, {2 * workers} workers: {took:.3f} s (promised: 1 s)")
    assert took < 10
    assert not redis.client().exists("transit:mail:workers", "transit:news:workers")


def test_int_drains_and_a_second_one_does_not(redis, quredisd, handler, ledger):
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler(GATED))], supervisor={"drain_timeout": "60s", "kill_grace": "300ms"})
    c.lpush("ingress:mail", "a")
    wait_for(lambda: ledger.rows("start"))
    d.signal(signal.SIGINT)
    d.wait_event("stopping")
    assert d.running()
    d.signal(signal.SIGINT)
    assert d.wait_exit() == 0
    assert [unwrap(m)[1] for m in c.lrange("ingress:mail", 0, -1)] == [b"a"]


def test_tstp_fetches_nothing_until_cont(redis, quredisd, handler, ledger, tmp):
    (tmp / "go").touch()
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler(GATED), workers=2)])
    d.signal(signal.SIGTSTP)
    wait_for(lambda: not [x for x in c.client_list() if x["cmd"] in ("brpoplpush", "blmove")], what="no blocked fetch")
    c.lpush("ingress:mail", "a", "b")
    d.signal(signal.SIGUSR2)
    d.wait_event("status")            # it has turned a whole loop since
    assert ledger.rows("start") == [] and c.llen("ingress:mail") == 2
    d.signal(signal.SIGCONT)
    wait_for(lambda: ends(ledger) == ["a", "b"])


@pytest.mark.limit(60)
def test_stops_also_while_redis_is_away(redis_server, quredisd, handler):
    server = redis_server()
    d = quredisd(redis=server, queues=[queue("mail", handler("exit 0"), workers=2)], supervisor={"drain_timeout": "1s"})
    server.kill9()
    assert d.stop() == 0


def test_a_message_done_while_redis_is_away_at_the_stop_is_not_lost(redis_server, quredisd, handler, ledger, tmp):
    server = redis_server(aof="always")
    d = quredisd(redis=server, queues=[queue("mail", handler(GATED))], supervisor={"drain_timeout": "1s"})
    server.client().lpush("ingress:mail", "a")
    wait_for(lambda: ledger.rows("start"))
    server.kill9()
    (tmp / "go").touch()
    wait_for(lambda: ends(ledger) == ["a"])
    d.stop()
    server.start()
    d.start()
    wait_for(lambda: not anywhere(server.client(), "mail"))
    assert [s[:2] for s in ledger.rows("start")][1:] in ([], [["a", "1"]])       # done, or once more and told so
