"""A Redis Cluster of several masters: the slot of quredis moves while its keys are on two nodes, or its owner dies."""
import threading

import pytest

from harness import free_port, queue, wait_for
from harness.cluster import Cluster
from harness.handlers import GATED


@pytest.fixture
def cluster(machine):
    machine.watched.append(Cluster(machine.tmp / "cluster", tag=machine.tag))
    return machine.watched[-1]


def push(cluster, *names):
    cluster.client().lpush("{a}ingress:mail", *names)


def test_an_opening_follows_moved(cluster, quredisd, ledger):
    """The first addresses of redis.url are a dead one and a node without the slot. That is no error, and costs no back-off."""
    others = [n for n in cluster.nodes[:3] if n is not cluster.owner()]
    d = quredisd(redis={"url": f"redis://127.0.0.1:{others[0].port},127.0.0.1:{free_port()}", "prefix": "{a}"}, queues=[queue("mail", ledger.recorder())])
    push(cluster, "one")
    wait_for(lambda: len(ledger.runs()) == 1, 20)
    assert d.quredis("ls").code == 0
    assert not d.events("redis_error") and not d.events("redis_down")


def test_a_dead_owner_is_named(cluster, quredis):
    """The nodes still name the dead owner for a while: the error says which node does not answer."""
    old = cluster.owner()
    other = next(n for n in cluster.nodes[:3] if n is not old)
    old.kill9()
    r = quredis("ls", url=f"redis://127.0.0.1:{other.port}", env={"QUREDIS_REDIS_PREFIX": "{a}"})
    assert r.code == 69 and f"at 127.0.0.1:{old.port}: Connection refused" in r.err, r


def test_a_handler_runs_once_across_a_move(cluster, quredisd, handler, ledger, tmp):
    """The slot stands open until the lease of the worker has expired. The handler is not run again, and its worker goes on."""
    d = quredisd(redis={"url": cluster.url, "prefix": "{a}"}, queues=[queue("mail", handler(GATED))], supervisor={"lease": "1s"})
    before = d.wait_workers("mail", 1)
    push(cluster, "one")
    wait_for(lambda: ledger.rows("start"), 20)
    source = cluster.owner()
    target = cluster.begin_move()
    wait_for(lambda: not any(n.client().keys("{a}transit:mail:lease:*") for n in (source, target)), 20, "the lease to expire")
    assert cluster.end_move() is target
    (tmp / "go").touch()
    push(cluster, "two")
    wait_for(lambda: len(ledger.rows("end")) == 2, 30)
    wait_for(lambda: not [k for k in target.client().keys("{a}transit:mail:*:[0-2]")], 20, "the acknowledgements")
    assert [row[:2] for row in ledger.rows("start")] == [["one", "0"], ["two", "0"]]
    assert d.wait_workers("mail", 1) == before and cluster.stray_keys() == []


def test_commands_wait_a_little_for_a_slot_that_moves(cluster, quredisd, ledger):
    d = quredisd(redis={"url": cluster.url, "prefix": "{a}"}, queues=[queue("mail", ledger.recorder(), workers=0)])
    assert d.quredis("push", "mail", "one").code == 0
    cluster.begin_move()
    r = d.quredis("push", "mail", "two")
    assert r.code == 75 and "a slot of this Redis Cluster moves to another node: try again when it has arrived" in r.err, r
    codes = []
    late = threading.Thread(target=lambda: codes.append(d.quredis("push", "mail", "three").code))
    late.start()
    cluster.end_move()
    late.join(60)
    assert codes == [0] and cluster.client().lrange("{a}ingress:mail", 0, -1) == [b"three", b"one"]
