"""Redis dies, hangs, or loses answers: no message is lost, each second run is marked as redelivered, and no worker exits."""
import collections
import os
import signal
import threading
import time

import pytest
import redis as redis_py

from harness import queue, wait_for
from harness.messages import anywhere, in_transit, stray_keys, trays
from harness.redis_proxy import CUT, Tap

NOTE = 'read -r m; echo "start $m $QUREDIS_REDELIVERED" >>@LEDGER@; echo "end $m" >>@LEDGER@'
SLOW = 'read -r m; echo "start $m $QUREDIS_REDELIVERED" >>@LEDGER@; sleep 0.02; echo "end $m" >>@LEDGER@'


def check_runs(runs, acknowledged):
    assert set(acknowledged) <= set(runs), sorted(set(acknowledged) - set(runs))[:10]
    unflagged = {n: f for n, f in runs.items() if "0" in f[1:]}
    assert not unflagged, unflagged


class Producer(threading.Thread):
    """Pushes p0, p1, ... each acknowledged or not; over outages it connects again."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.acknowledged, self.doubtful, self.enough = server, [], [], threading.Event()

    def run(self):
        n = 0
        c = self.server.connect(socket_timeout=10)
        while not self.enough.wait(0.005):
            n += 1
            try:
                c.lpush("ingress:mail", f"p{n}")
                self.acknowledged.append(f"p{n}")
            except redis_py.RedisError:
                self.doubtful.append(f"p{n}")
        c.close()


def test_a_server_that_starts_late_is_used_at_once(redis_server, quredisd, handler, ledger):
    """Each process has backed off for long, and one that is served again leaves none of the others behind."""
    server = redis_server()
    server.kill9()
    d = quredisd(redis=server, queues=[queue("mail", handler(NOTE), workers=4)], wait=False)
    d.wait_event("redis_down")
    until = time.monotonic() + 20       # the back-off is the random part of up to 25 s by then
    wait_for(lambda: time.monotonic() > until, 60, "the back-off to grow")
    server.start()
    began = time.monotonic()
    client = server.client()

    def connected():
        return {c["name"].rpartition(":")[2] for c in client.client_list()} >= {"sweeper", *(f"mail/{i}" for i in range(4))}
    wait_for(connected, 30, "all processes to use the server")
    assert time.monotonic() - began < 6


@pytest.mark.limit(240)
def test_redis_killed_ten_times_during_work(redis_server, quredisd, handler, ledger):
    server = redis_server(aof="always")
    d = quredisd(redis=server, queues=[queue("mail", handler(SLOW), workers=4)])
    before = d.wait_workers("mail", 4)
    sweeper = d.sweeper()
    producer = Producer(server)
    producer.start()
    for _ in range(10):
        seen = len(ledger.lines())
        wait_for(lambda: len(ledger.lines()) >= seen + 40, 60, "work between two kills")
        server.restart()
    producer.enough.set()
    producer.join(30)
    c = server.client()
    wait_for(lambda: not anywhere(c, "mail"), 60, "everything done")
    runs = ledger.flags()
    twice = {n: f for n, f in runs.items() if len(f) > 1}
    print(f"\n{len(producer.acknowledged)} acknowledged, {len(producer.doubtful)} doubtful, {len(twice)} ran twice")
    check_runs(runs, producer.acknowledged)
    assert c.llen("escape:mail") == 0
    assert d.workers("mail") == before and d.sweeper() == sweeper
    assert not twice                # no worker died: acknowledgements were held, handlers not run again
    assert stray_keys(c, "mail") == []


def test_retries_and_escapes_survive_outages(redis_server, quredisd, handler, ledger):
    """Every message fails twice (once back to delayed, then escape) while Redis is killed."""
    server = redis_server(aof="always")
    names = [f"m{i}" for i in range(120)]
    server.client().lpush("ingress:mail", *names)
    quredisd(redis=server, queues=[queue("mail", handler(SLOW + "; exit 1"), workers=4, max_attempts=2,
                                         backoff={"base": "1ms", "cap": "5ms"})])
    for _ in range(3):
        seen = len(ledger.lines())
        wait_for(lambda: len(ledger.lines()) >= seen + 40, 60)
        server.restart()
    c = server.client()
    wait_for(lambda: not anywhere(c, "mail"), 60)
    assert collections.Counter(m.decode() for m in c.lrange("escape:mail", 0, -1)) == collections.Counter(names)
    assert [r[b"attempts"] for _, r in c.xrange("escape:mail:log")] == [b"2"] * len(names)
    assert {n: len(f) for n, f in ledger.flags().items()} == {n: 2 for n in names}


def test_handler_finishes_while_redis_is_away(redis_server, quredisd, handler, ledger, tmp):
    """The acknowledgement is held; the handler does not run again."""
    server = redis_server(aof="always")
    body = NOTE.replace("; echo \"end", "; while ! [ -e @TMP@/go ]; do sleep 0.02; done; echo \"end")
    d = quredisd(redis=server, queues=[queue("mail", handler(body), workers=2)])
    workers = d.wait_workers("mail", 2)
    server.client().lpush("ingress:mail", "a", "b")
    wait_for(lambda: len(ledger.flags()) == 2)
    server.kill9()
    (tmp / "go").touch()
    wait_for(lambda: ledger.count("end a") == ledger.count("end b") == 1)
    server.start()
    c = server.client()
    wait_for(lambda: not in_transit(c, "mail"), 60)
    c.lpush("ingress:mail", "c")
    wait_for(lambda: ledger.count("end c"), 60)
    assert ledger.flags() == {"a": ["0"], "b": ["0"], "c": ["0"]} and d.workers("mail") == workers


LOSSES = [b"BRPOPLPUSH", b"DEL", b"EVALSHA", b"PEXPIRE"]


@pytest.mark.parametrize("what", ["lose_request", "lose_reply"])
@pytest.mark.parametrize("command", LOSSES, ids=lambda c: c.decode())
def test_a_lost_request_or_answer(redis, redis_proxy, quredisd, handler, ledger, what, command):
    """Each kind of command, lost on its way there or back, one at a time."""
    proxy = redis_proxy(redis)
    c = redis.client()
    d = quredisd(redis=proxy, queues=[queue("mail", handler('read -r m; echo "start $m $QUREDIS_REDELIVERED" >>@LEDGER@; '
                                                            'case $m in f*) exit 1;; esac'), workers=2)],
                 supervisor={"lease": "2s"})
    workers = d.wait_workers("mail", 2)
    names = []
    for i in range(3):
        lost = proxy.lost
        getattr(proxy, what)(command)
        batch = [f"{x}{i}" for x in "abcf"]
        names += batch
        c.lpush("ingress:mail", *batch)
        wait_for(lambda: proxy.lost > lost, 20, "the loss")
        wait_for(lambda: set(batch) <= set(ledger.flags()) and not anywhere(c, "mail"), 40, "everything done")
    assert ledger.flags() == {n: ["0"] for n in names}
    assert sorted(m.decode() for m in c.lrange("escape:mail", 0, -1)) == ["f0", "f1", "f2"]
    assert d.workers("mail") == workers


def test_a_network_that_swallows(redis, redis_proxy, quredisd, handler, ledger):
    """Nothing is closed, nothing arrives, for longer than the lease: the workers start afresh and nothing runs twice
    without being told."""
    proxy = redis_proxy(redis)
    c = redis.client()
    d = quredisd(redis=proxy, queues=[queue("mail", handler(SLOW), workers=2)], supervisor={"lease": "1s"})
    workers = d.wait_workers("mail", 2)
    names = [f"m{i}" for i in range(200)]
    c.lpush("ingress:mail", *names)
    wait_for(lambda: len(ledger.flags()) >= 20)
    proxy.stall()
    wait_for(lambda: not c.keys("transit:mail:lease:*"), 20, "the leases to run out")
    seen = len(ledger.flags())
    assert seen < len(names)
    proxy.resume()
    wait_for(lambda: set(ledger.flags()) == set(names) and not anywhere(c, "mail"), 60)
    check_runs(ledger.flags(), names)
    assert d.workers("mail") == workers


def test_redis_stopped_for_a_while(redis, quredisd, handler, ledger):
    """SIGSTOP, longer than the lease and every answer's time: the same workers go on."""
    d = quredisd(queues=[queue("mail", handler(SLOW), workers=2)], supervisor={"lease": "1s"})
    workers = d.wait_workers("mail", 2)
    c = redis.client()
    names = [f"m{i}" for i in range(100)]
    c.lpush("ingress:mail", *names)
    wait_for(lambda: len(ledger.flags()) >= 10)
    redis.signal(signal.SIGSTOP)
    try:
        d.wait_event("redis_error", 30, queue="mail")
    finally:
        redis.signal(signal.SIGCONT)
    wait_for(lambda: set(ledger.flags()) == set(names) and not anywhere(c, "mail"), 60)
    check_runs(ledger.flags(), names)
    assert d.workers("mail") == workers


# The first message of a tray is retried, so that the lease has counted a move. The others wait until they are told to end.
LARGE = """
m=$(head -c 9 | tr -d x); cat >/dev/null; echo "start $m $QUREDIS_REDELIVERED" >>@LEDGER@
case $m in moved*) exit 75;; *) until [ -e @TMP@/go ]; do sleep 0.02; done; exit @EXIT@;; esac
"""


@pytest.mark.parametrize("status,moved", [(75, "delayed"), (65, "escape")])
def test_a_large_message_outlives_the_lease_of_its_worker(redis, quredisd, handler, ledger, tmp, status, moved):
    """
    The lease expires while Redis stands still, with all that it has counted, so a script cannot tell whether a message lies at the place that its worker
    names. That is no lost claim: the worker reads its tray, finds the message, and moves it. It runs once.
    """
    c = redis.client()
    d = quredisd(supervisor={"lease": "240s"}, queues=[queue("mail", handler(LARGE.replace("@EXIT@", str(status))), workers=1, max_attempts=9, timeout="60s",
                                                           backoff={"base": "1h", "cap": "1h"})])
    d.wait_event("queue_recovered", queue="mail")
    for n in range(3):          # one in each tray
        c.lpush("ingress:mail", f"moved{n}".ljust(6000, "x"))
        wait_for(lambda n=n: c.zcard("quredis:of:ingress:mail:delayed") == n + 1, 30)
    before = c.zcard("quredis:of:ingress:mail:delayed")
    c.lpush("ingress:mail", "last".ljust(6000, "x"))
    wait_for(lambda: "last" in ledger.flags(), 30)
    (lease,) = c.keys("transit:mail:lease:*")
    c.delete(lease)             # before a renewal finds that out
    (tmp / "go").touch()
    wait_for(lambda: not trays(c, "mail"), 60)
    assert (c.zcard("quredis:of:ingress:mail:delayed") - before, c.llen("escape:mail")) == ((1, 0) if moved == "delayed" else (0, 1))
    assert ledger.flags()["last"] == ["0"] and not d.events("claim_lost") and d.events("incarnation_renewed")


def test_a_worker_stopped_longer_than_its_lease(redis, quredisd, handler, ledger, tmp):
    """Its lease runs out; nobody takes its message (it is not dead), or whoever does says so."""
    d = quredisd(queues=[queue("mail", handler(NOTE.replace("; echo \"end", "; sleep 0.3; echo \"end")), workers=1)],
                 supervisor={"lease": "1s"})
    c = redis.client()
    worker = d.wait_workers("mail", 1)["mail/0"]
    c.lpush("ingress:mail", "a")
    wait_for(lambda: "a" in ledger.flags())
    os.kill(worker, signal.SIGSTOP)
    try:
        wait_for(lambda: not c.keys("transit:mail:lease:*"), 20)
    finally:
        os.kill(worker, signal.SIGCONT)
    c.lpush("ingress:mail", "b")
    wait_for(lambda: ledger.count("end b"), 40)
    wait_for(lambda: not anywhere(c, "mail"))
    check_runs(ledger.flags(), ["a", "b"])
    assert d.workers("mail") == {"mail/0": worker}


def test_a_lease_that_somebody_ended_is_not_revived(redis, quredisd, handler, ledger, tmp):
    """A sweeper ended the lease, perhaps wrongly. The worker takes a new name and does not revive the old one; the running handler continues."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler('read -r m; echo "start $m $QUREDIS_REDELIVERED" >>@LEDGER@; '
                                               'until [ -e @TMP@/go ]; do sleep 0.02; done'))], supervisor={"lease": "2s"})
    worker = d.wait_workers("mail", 1)
    c.lpush("ingress:mail", "a")
    wait_for(lambda: ledger.flags())
    (lease,) = c.keys("transit:mail:lease:*")
    c.delete(lease)
    d.wait_event("incarnation_renewed", queue="mail")
    wait_for(lambda: c.keys("transit:mail:lease:*") not in ([], [lease]), 20, "another lease")
    (tmp / "go").touch()
    wait_for(lambda: not anywhere(c, "mail"))
    assert ledger.flags() == {"a": ["0"]} and not c.exists(lease) and d.workers("mail") == worker


def test_equal_messages_and_lost_answers(redis, redis_proxy, quredisd, handler, ledger):
    """The worker sends an acknowledgement together with the fetch of an equal message. Redis executes both and neither is answered. The message in
    the tray is the new one, which never ran."""
    proxy, c = redis_proxy(redis), redis.client()
    quredisd(redis=proxy, queues=[queue("mail", handler("cat >/dev/null; echo $QUREDIS_REDELIVERED >>@LEDGER@; sleep 0.02"),
                                        batch={"max": 1})], supervisor={"lease": "2s"})
    for n in range(6):
        c.lpush("ingress:mail", *["x"] * 10)
        wait_for(lambda: len(ledger.lines()) > 10 * n)
        lost = proxy.lost
        proxy.lose_reply(b"DEL")
        wait_for(lambda: proxy.lost > lost and not anywhere(c, "mail"), 40, "all done")
        assert ledger.lines() == ["0"] * (10 * n + 10)


def test_starts_before_redis(redis_server, quredisd, handler, ledger):
    server = redis_server(start=False)
    d = quredisd(redis=server, queues=[queue("mail", handler(NOTE))], wait=False)
    d.wait_event("redis_error", 30)
    server.start()
    server.client().lpush("ingress:mail", "a")
    wait_for(lambda: ledger.count("end a"), 60)


def test_scripts_flushed(redis, quredisd, handler, ledger):
    d = quredisd(queues=[queue("mail", handler(NOTE + "; exit 1"))])
    workers = d.wait_workers("mail", 1)
    c = redis.client()
    c.lpush("ingress:mail", "a")
    wait_for(lambda: c.llen("escape:mail") == 1)
    c.script_flush()
    c.lpush("ingress:mail", "b")
    wait_for(lambda: c.llen("escape:mail") == 2, 30)
    assert ledger.flags() == {"a": ["0"], "b": ["0"]} and d.workers("mail") == workers


def test_connections_killed_all_the_time(redis, quredisd, handler, ledger):
    d = quredisd(queues=[queue("mail", handler(NOTE), workers=3)])
    workers = d.wait_workers("mail", 3)
    c = redis.client()
    names = [f"m{i}" for i in range(600)]
    for i in range(0, 600, 30):
        c.lpush("ingress:mail", *names[i:i + 30])
        c.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    wait_for(lambda: set(ledger.flags()) == set(names) and not anywhere(c, "mail"), 60)
    assert all(f == ["0"] for f in ledger.flags().values())
    assert d.workers("mail") == workers and stray_keys(c, "mail") == []


@pytest.mark.parametrize("how", ["FLUSHALL", "restart"])
def test_all_data_vanishes(redis, quredisd, handler, ledger, how):
    """What was in work is gone with it, and said so; what comes later runs."""
    d = quredisd(queues=[queue("mail", handler(NOTE.replace("; echo \"end", "; sleep 1; echo \"end")), workers=2)],
                 supervisor={"lease": "1s"})
    workers = d.wait_workers("mail", 2)
    redis.client().lpush("ingress:mail", "a", "b")
    wait_for(lambda: len(ledger.flags()) == 2)
    if how == "FLUSHALL":
        redis.client().flushall()
    else:
        redis.restart()
    wait_for(lambda: ledger.count("end a") == ledger.count("end b") == 1)
    redis.client().lpush("ingress:mail", "c")
    wait_for(lambda: ledger.count("end c"), 30)
    wait_for(lambda: not anywhere(redis.client(), "mail"))
    assert len(d.events("claim_lost", queue="mail")) == 2 and d.workers("mail") == workers
    assert ledger.flags() == {"a": ["0"], "b": ["0"], "c": ["0"]}


def test_what_vanishes_while_it_waits_behind_another_is_not_run(redis, quredisd, handler, ledger, tmp):
    """Another process may have it by now."""
    gated = NOTE.replace('; echo "end', '; until [ ${m#w} = $m ] || [ -e @TMP@/go ]; do sleep 0.01; done; echo "end')
    d = quredisd(queues=[queue("mail", handler(gated), workers=1, batch={"max": 4, "time": "1s"})], start=False)
    c = redis.client()
    c.lpush("ingress:mail", "a", "b", "c", "w1", "w2", "w3")       # fetched one, two and then four at a time
    d.start()
    wait_for(lambda: "w1" in ledger.flags())
    wait_for(lambda: sorted(in_transit(c, "mail")) == [b"w1", b"w2", b"w3"])
    with c.pipeline() as both:
        both.flushall().execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").execute()
    wait_for(lambda: len(d.events("claim_lost", queue="mail")) == 3, 10, "all three to be missed")
    (tmp / "go").touch()
    c.lpush("ingress:mail", "z")
    wait_for(lambda: ledger.count("end z") and not anywhere(c, "mail"))
    assert ledger.flags() == {m: ["0"] for m in ("a", "b", "c", "w1", "z")}


def test_a_server_that_closes_idle_connections(redis, quredisd, handler, ledger):
    redis.client().config_set("timeout", 1)
    d = quredisd(queues=[queue("mail", handler(NOTE.replace("; echo \"end", "; sleep 3; echo \"end")), workers=2)])
    workers = d.wait_workers("mail", 2)
    redis.client().lpush("ingress:mail", "a", "b")
    wait_for(lambda: ledger.count("end a") and ledger.count("end b") and not anywhere(redis.client(), "mail"), 30)
    assert ledger.flags() == {"a": ["0"], "b": ["0"]} and d.workers("mail") == workers


# ---- commands that arrive late ----

class Late(Tap):
    """What a network delivers late: once told to keep some, a worker's next command of each kind is not passed on, and its
    connection cut."""

    def __init__(self, **kinds):
        self.kinds, self.kept, self.keep = kinds, {}, False

    def request(self, pair, words):
        for name, is_it in self.kinds.items():
            if self.keep and pair.name.endswith(b"mail/0") and name not in self.kept and is_it(words):
                self.kept[name] = words
                return CUT
        return None


def is_renewal(words):
    return words[0] == b"EVALSHA" and any(w.startswith(b'{"lock"') for w in words)


def test_a_renewal_arrives_after_the_one_that_repeats_it(redis, redis_proxy, quredisd, handler, ledger, tmp):
    """A fetch of the connection before last comes first: what that brought is under the old name, and must not be moved in
    among what the worker has by then."""
    proxy, c = redis_proxy(redis), redis.client()
    proxy.tap = tap = Late(fetch=lambda words: words[0] == b"BRPOPLPUSH", renewal=is_renewal)
    d = quredisd(redis=proxy, supervisor={"lease": "2s"}, queues=[
        queue("mail", handler('read -r m; echo "$m" >>@LEDGER@; until [ -e @TMP@/go ]; do sleep 0.01; done'), batch={"max": 1})])
    d.wait_event("queue_recovered", queue="mail")
    tap.keep = True                         # the next fetch, then the renewal that follows its loss
    wait_for(lambda: tap.kept.keys() == {"fetch", "renewal"}, 20)
    c.lpush("ingress:mail", "running")
    wait_for(lambda: ledger.count("running"))
    c.lpush("ingress:mail", "late")
    assert c.execute_command(*tap.kept["fetch"]) == b"late"
    c.execute_command(*tap.kept["renewal"])
    (tmp / "go").touch()
    c.lpush("ingress:mail", *(f"m{i}" for i in range(6)))        # each tray is used again
    wait_for(lambda: not anywhere(c, "mail"), 60, "all done")
    assert sorted(ledger.lines()) == sorted(["running", "late", *(f"m{i}" for i in range(6))])
