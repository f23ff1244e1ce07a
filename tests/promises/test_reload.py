"""SIGHUP, a hundred times under load: what did not change does not notice."""
import collections
import copy
import pathlib
import threading
from signal import SIGHUP

import pytest

from harness import SANITIZED, descendants_of, open_files, queue, wait_for
from harness.messages import anywhere

NOTE = 'read -r m; [ "$m" != slow ] || exec sleep 0.2; echo "$QUREDIS_QUEUE $m" >>@LEDGER@'


def rss_kib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError(f"no VmRSS of {pid}")


class Load(threading.Thread):
    """Pushes to each queue, a few at a time and never far ahead."""

    def __init__(self, client, names):
        super().__init__(daemon=True)
        self.client, self.names, self.pushed, self.enough = client, names, 0, threading.Event()

    def run(self):
        while not self.enough.wait(0.01):
            for name in self.names:
                if self.client.llen(f"ingress:{name}") < 20:
                    self.client.lpush(f"ingress:{name}", f"p{self.pushed}")
            self.pushed += 1


@pytest.mark.limit(240)
def test_100_reloads_under_load(redis, quredisd, handler, ledger):
    c = redis.client()
    note = handler('[ $QUREDIS_REDELIVERED = 0 ] || again=" again"; ' + NOTE.replace('$m" >>', '$m$again" >>'))
    queues = [queue("same", note, workers=2), queue("changing", note, workers=1, timeout="10s")]
    d = quredisd(queues=queues)
    unchanged = d.wait_workers("same", 2)
    for _ in range(2):      # both have run something: what is made once is made
        c.lpush("ingress:same", "slow", "slow")
        wait_for(lambda: not anywhere(c, "same"))
    load = Load(redis.client(), ["same", "changing"])

    def reload(n):
        new = copy.deepcopy(queues)
        new[1]["timeout"] = f"{10 + n % 2}s"
        mark = d.mark()
        d.reload(queues=new)
        d.wait_event("reload_done", 30, since=mark)

    def figures():
        return len(open_files(d.pid)), {n: len(open_files(p)) for n, p in unchanged.items()}, rss_kib(d.pid)
    for n in range(10):
        reload(n)
    wait_for(lambda: len(descendants_of(d.pid)) == 2 + 1 + 1, 30, "workers and one sweeper")
    fds, worker_fds, rss = figures()
    load.start()
    for n in range(10, 100):
        reload(n)
    load.enough.set()
    load.join(20)
    wait_for(lambda: not anywhere(c, "same") and not anywhere(c, "changing"), 60)
    wait_for(lambda: len(descendants_of(d.pid)) == 2 + 1 + 1, 30, "the old generations to be gone")
    now_fds, now_worker_fds, now_rss = figures()
    print(f"\nmaster: {fds} -> {now_fds} descriptors, {rss} -> {now_rss} KiB; "
          f"workers {worker_fds} -> {now_worker_fds}; {load.pushed} messages a queue at most")
    assert d.workers("same") == unchanged
    assert abs(now_fds - fds) <= 1
    assert now_worker_fds == worker_fds
    if not SANITIZED:
        assert now_rss <= rss * 1.1 + 256
    runs = collections.Counter(ledger.lines())
    assert runs and set(runs.values()) == {1} and not c.exists("escape:same", "escape:changing")
    assert c.hlen("transit:same:workers") == 2


def test_a_storm_of_signals(redis, quredisd, handler, ledger):
    """As many as can be sent: coalesced, never lost."""
    c = redis.client()
    d = quredisd(queues=[queue("same", handler(NOTE), workers=2)])
    workers = d.wait_workers("same", 2)
    for n in range(300):
        d.signal(SIGHUP)
        if n % 10 == 0:
            c.lpush("ingress:same", f"p{n}")
    mark = d.mark()
    d.reload()
    d.wait_event("reload_done", 30, since=mark)
    wait_for(lambda: len(ledger.lines()) == 30 and not anywhere(c, "same"))
    assert d.workers("same") == workers


def test_queues_come_and_go(redis, quredisd, handler, ledger):
    c = redis.client()
    note = handler(NOTE)
    d = quredisd(queues=[queue("a", note), queue("b", note)])
    workers = d.wait_workers("a", 1)
    d.reload(queues=[queue("a", note), queue("c", note)])
    d.wait_workers("c", 1)
    wait_for(lambda: not d.workers("b"))
    assert d.workers("a") == workers
    c.lpush("ingress:b", "waits")
    c.lpush("ingress:c", "x")
    wait_for(lambda: ledger.lines() == ["c x"])
    d.reload(queues=[queue("a", note), queue("b", note), queue("c", note)])
    wait_for(lambda: "b waits" in ledger.lines())
    assert d.workers("a") == workers


def test_workers_more_and_fewer(redis, quredisd, handler):
    note = handler("exit 0")
    d = quredisd(queues=[queue("a", note, workers=2)])
    two = d.wait_workers("a", 2)
    d.reload(queues=[queue("a", note, workers=4)])
    four = d.wait_workers("a", 4)
    assert two.items() <= four.items()
    d.reload(queues=[queue("a", note, workers=1)])
    one = d.wait_workers("a", 1)
    assert one.items() <= two.items()
    d.reload(queues=[queue("a", note, workers=0)])
    wait_for(lambda: not d.workers("a"))
    redis.client().lpush("ingress:a", "x")
    d.reload(queues=[queue("a", note, workers=1)])
    wait_for(lambda: not anywhere(redis.client(), "a"))


def test_a_running_handler_finishes_under_its_old_configuration(redis, quredisd, handler, ledger, tmp):
    c = redis.client()
    gated = handler('read -r m; echo "start $m $MODE" >>@LEDGER@\n'
                    'while ! [ -e @TMP@/go ]; do sleep 0.02; done; echo "end $m $MODE" >>@LEDGER@')
    d = quredisd(queues=[queue("a", gated, env=["MODE=old"])])
    c.lpush("ingress:a", "m1")
    wait_for(lambda: "start m1 old" in ledger.lines())
    d.reload(queues=[queue("a", gated, env=["MODE=new"])])
    d.wait_event("reload_done")
    c.lpush("ingress:a", "m2")
    wait_for(lambda: "start m2 new" in ledger.lines(), what="the new worker works while the old one finishes")
    (tmp / "go").touch()
    wait_for(lambda: not anywhere(c, "a"))
    assert sorted(ledger.lines()) == ["end m1 old", "end m2 new", "start m1 old", "start m2 new"]


def test_another_server(redis, redis_server, quredisd, handler, ledger):
    other = redis_server()
    d = quredisd(queues=[queue("mail", handler(NOTE), workers=2)])
    redis.client().lpush("ingress:mail", "a")
    wait_for(lambda: ledger.lines() == ["mail a"])
    d.reload(redis={"url": other.url})
    d.wait_event("reload_done")
    other.client().lpush("ingress:mail", "b")
    wait_for(lambda: ledger.lines() == ["mail a", "mail b"], 30)
    wait_for(lambda: not redis.client().keys("transit*"), 20, "the old ones to have deregistered")
