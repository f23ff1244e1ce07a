"""A Redis Cluster of several masters: the slot of quredis moves while its keys are on two nodes, or its owner dies."""
import pytest

from harness import free_port, queue, wait_for
from harness.cluster import Cluster


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
