"""A stop whose SIGTERM reaches every process, in any order: what runs goes back, and no message is charged."""
import os
import signal

import pytest

from harness import descendants_of, queue, wait_for
from harness.messages import anywhere, in_transit, record, unwrap

JOBS = r'''
import os, sys, time
fd = os.open("@LEDGER@", os.O_WRONLY | os.O_APPEND)
while head := sys.stdin.buffer.readline().split():
    message = sys.stdin.buffer.read(int(head[3]) + 1)
    os.write(fd, b"start " + message)
    if message != b"warm\n":
        time.sleep(int("@SECONDS@"))
    print("OK", head[1].decode(), flush=True)
'''
NOTE = 'read -r m; echo "start $m" >>@LEDGER@; [ "$m" != warm ] || exit 0; '
MODES = {
    "exec": ("sh", NOTE + "exec sleep 60", {}),
    "exec-143": ("sh", "trap 'exit 143' TERM; " + NOTE + "sleep 60 & wait $!; exit 143", {}),
    "shared": ("sh", NOTE + "exec sleep 60", {"shared": True}),
    "persistent": ("python", JOBS.replace("@SECONDS@", "60"), {"mode": "persistent"}),
    "window": ("python", JOBS.replace("@SECONDS@", "60"), {"mode": "persistent", "window": 4}),
}


def send(pids, sig=signal.SIGTERM):
    for pid in pids:
        try:
            os.kill(pid, sig)
        except ProcessLookupError:
            pass


def handlers_first(d):
    send([*sorted(descendants_of(d.pid), reverse=True), d.pid])


def master_first(d):
    send([d.pid, *descendants_of(d.pid)])


def workers_first(d):
    below = descendants_of(d.pid)
    workers = d.workers().values()
    send([*workers, *(p for p in below if p not in workers), d.pid])


def after_the_stop_began(d):
    below = descendants_of(d.pid)
    d.signal(signal.SIGTERM)
    d.wait_event("stopping")
    send(below)


def killed_at_the_end(d):
    """As systemd does when its time is over; the master hears of nothing else."""
    d.signal(signal.SIGTERM)
    d.wait_event("stopping")
    send(d.handlers(), signal.SIGKILL)


ORDERS = [handlers_first, master_first, workers_first, after_the_stop_began, killed_at_the_end]


@pytest.mark.parametrize("order", ORDERS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("mode", MODES)
def test_what_runs_goes_back(redis, quredisd, handler, ledger, mode, order):
    lang, body, options = MODES[mode]
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler(body, lang), workers=2, max_attempts=1, breaker={"failures": 1}, **options)],
                 supervisor={"drain_timeout": "60s"})
    d.wait_workers("mail", 2)
    c.lpush("ingress:mail", *["warm"] * 4)      # a persistent handler that has answered is charged for its death
    wait_for(lambda: not anywhere(c, "mail"))
    c.lpush("ingress:mail", "a", "b", "c")
    wait_for(lambda: len({"start a", "start b"} & set(ledger.lines())) == 2)
    order(d)
    assert d.wait_exit() == 0
    assert c.llen("escape:mail") == 0 and not in_transit(c, "mail")
    assert sorted(unwrap(m)[1] for m in c.lrange("ingress:mail", 0, -1)) == [b"a", b"b", b"c"]
    assert not d.events("breaker_opened")


def test_a_stray_signal_ends_no_worker(redis, quredisd, handler, ledger):
    """SIGTERM tells a worker and the sweeper to read their orders: without one they go on."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler('read -r m; sleep 0.2; echo "$m" >>@LEDGER@'), workers=2)])
    workers, sweeper = d.wait_workers("mail", 2), d.sweeper()
    c.lpush("ingress:mail", *[f"m{i}" for i in range(6)])
    while len(ledger.lines()) < 6:
        for sig in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGUSR1):
            send([*workers.values(), sweeper], sig)
        wait_for(lambda n=len(ledger.lines()): len(ledger.lines()) > n)
    assert d.workers() == workers and d.sweeper() == sweeper and d.running()


def test_a_signal_without_a_stop_is_the_messages(redis, quredisd, handler, ledger):
    """Nothing else explains it once a stop would have arrived, and other messages go on meanwhile."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler('read -r m; case $m in evil*) kill -TERM $$;; esac; echo "$m" >>@LEDGER@'), workers=2, max_attempts=1)])
    d.wait_workers("mail", 2)
    c.lpush("ingress:mail", "evil1", "good1", "evil2", "good2")
    wait_for(lambda: not anywhere(c, "mail"))
    assert sorted(ledger.lines()) == ["good1", "good2"] and c.llen("escape:mail") == 2
    assert record(c, "mail")["error_message"] == b"killed by SIGTERM"
