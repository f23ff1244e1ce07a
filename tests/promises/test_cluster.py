"""A Redis Cluster of one node, which serves all slots: with a hash tag in redis.prefix all works, without it the reason is shown."""
import json
import signal

import pytest

from harness import free_port, queue, wait_for
from harness.control import status
from harness.messages import stray_keys

FAILING = """
read -r m
echo "$m" >>@LEDGER@
case $m in
bad*) exit 1 ;;
once*) [ "$QUREDIS_ATTEMPT" -gt 1 ] || exit 75 ;;
large*) [ "$QUREDIS_ATTEMPT" -gt 1 ] || exit 75 ;;
esac
"""


@pytest.fixture
def cluster(redis_server):
    return redis_server(cluster=True, aof="always")


@pytest.fixture
def d(cluster, quredisd, handler):
    queues = [queue("mail", handler(FAILING), max_attempts=3, backoff={"base": "50ms"}, ttl="1h", done={"keep": 100},
                    dead_letter={"forward_to": "other", "ttl": "1h", "discard": True}),
              queue("other", handler("cat >/dev/null; exit 65"), workers=0),
              queue("shared", handler("cat >/dev/null; exit 1"), shared=True)]
    return quredisd(redis={"url": cluster.tcp_url, "prefix": "{a}"}, queues=queues, supervisor={"lease": "1s"},
                    health={"enabled": True, "interval": "1s"}, purge={"enabled": True, "interval": "1s"})


def run(d, *command):
    r = d.quredis(*command)
    assert r.code == 0, r
    return r.out


def errors(doctor, *checks):
    return [x for x in json.loads(doctor.out) if x["severity"] == "error" and x["check"] in checks]


def test_every_move(cluster, d, ledger):
    c = cluster.client()
    run(d, "push", "mail", "good")
    run(d, "push", "mail", "once")
    run(d, "push", "mail", "bad")
    assert run(d, "push", "mail", "--delay", "1s", "later") != ""
    assert d.quredis("push", "mail", input="large" + "x" * 200000).code == 0
    c.lpush("{a}ingress:shared", "s")
    wait_for(lambda: sorted(set(m[:5] for m in ledger.lines())) == ["bad", "good", "large", "later", "once"], 30)
    wait_for(lambda: c.llen("{a}escape:mail") == 1 and c.llen("{a}escape:shared") == 1 and c.llen("{a}ingress:other") == 1, 30, what="escape and forward_to")
    wait_for(lambda: json.loads(run(d, "stats", "mail", "--json"))["counters"]["done"] == 4, 30)
    assert ledger.lines().count("once") == 2 and ledger.lines().count("bad") == 3
    assert len(json.loads(run(d, "done", "ls", "mail", "--json"))) == 4
    assert len(json.loads(run(d, "peek", "mail", "escape", "--json"))) == 1
    assert len(json.loads(run(d, "dlq", "ls", "mail", "--json"))) == 1
    run(d, "dlq", "retry", "mail", "--all", "--yes")
    wait_for(lambda: ledger.lines().count("bad") == 6 and c.llen("{a}escape:mail") == 1, 30)
    run(d, "pause", "mail")
    wait_for(lambda: status(d)["queues"][0]["state"] == "paused", 20, "the workers to pause")
    run(d, "push", "mail", "waits")
    run(d, "purge", "mail", "ingress", "--yes")
    run(d, "resume", "mail")
    run(d, "stale")
    run(d, "health")
    run(d, "nodes")
    assert c.llen("{a}ingress:mail") == 0 and "waits" not in ledger.lines()
    assert stray_keys(c, "mail", "other", "shared", prefixes=["{a}"]) == []
    assert not [e for e in d.events() if e["event"] in ("redis_error", "queue_error", "registry_error", "secret_error", "redis_down")]


def test_doctor_rescue_and_destroy(cluster, d, ledger):
    c = cluster.client()
    rows = json.loads(d.quredis("doctor", "--json").out)
    assert [r for r in rows if r["severity"] == "error"] == []
    assert [(r["severity"], r["what"]) for r in rows if r["check"] == "cluster"] == [("ok", "Redis is a Cluster, and all keys are in its slot 15495")]
    c.rpush("{a}transit:mail", "theirs")        # of another consumer that died
    d.kill_tree()
    d.start()
    wait_for(lambda: "theirs" in ledger.lines(), 30)
    assert d.stop() == 0
    for name in ("mail", "other", "shared"):
        run(d, "destroy", name, "--yes", "--force")
    assert all(k.startswith(b"{a}quredis:") for k in c.keys()) and not c.exists("{a}quredis:queues"), c.keys()


def test_the_registry_forgets_a_queue_that_left(cluster, quredisd, ledger):
    c = cluster.client()
    c.zadd("{a}quredis:queues", {"old": 1})
    c.set("{a}quredis:queue:old", json.dumps({"name": "old", "ingress": "{a}ingress:old", "transit": "{a}transit:old", "escape": "{a}escape:old"}))
    quredisd(redis={"url": cluster.url, "prefix": "{a}"}, queues=[queue("mail", ledger.recorder())], supervisor={"lease": "1s"},
             purge={"enabled": True, "interval": "1s", "max_orphaned_age": "1s"})
    wait_for(lambda: c.zrange("{a}quredis:queues", 0, -1) == [b"mail"] and not c.exists("{a}quredis:queue:old"), 60)


@pytest.mark.parametrize("prefix", [None, "a:"])
def test_keys_in_several_slots_are_an_error_that_says_so(cluster, quredisd, ledger, quredis, prefix):
    d = quredisd(redis={"url": cluster.url, "prefix": prefix}, queues=[queue("mail", ledger.recorder())])
    reason = 'this Redis is a Cluster: set redis.prefix = "{NAME}", and use database 0'
    wait_for(lambda: [(q["state"], q["reason"]) for q in status(d)["queues"]] == [("error", reason)], 20)
    assert 'redis.prefix = "{NAME}"' in d.wait_event("redis_down")["advice"] and "CROSSSLOT" in d.wait_event("redis_error")["error"]
    r = d.quredis("ls")
    assert r.code == 78 and "CROSSSLOT" in r.err and "$QUREDIS_REDIS_PREFIX" in r.err
    r = d.quredis("doctor", "--json")
    rows = errors(r, "redis", "cluster")
    assert r.code == 2 and "this Redis is a Cluster" in errors(r, "supervisor")[0]["what"]
    assert [x["check"] for x in rows] == ["redis", "cluster", "cluster"], rows
    assert f"redis.prefix {'has no hash tag' if prefix else 'is not set'}" in rows[1]["what"] and "redis.prefix = \"{NAME}\"" in rows[1]["advice"]
    assert rows[2]["where"] == "mail" and (prefix or "ingress:mail in 9463, transit:mail in 1024, escape:mail in 5194" in rows[2]["what"])


def test_a_database_is_an_error_that_says_so(cluster, quredisd, ledger):
    d = quredisd(redis={"url": cluster.url + "?db=1", "prefix": "{a}"}, queues=[queue("mail", ledger.recorder())])
    wait_for(lambda: [q["state"] for q in status(d)["queues"]] == ["error"], 20)
    rows = errors(d.quredis("doctor", "--json"), "redis", "cluster")
    assert [x["check"] for x in rows] == ["redis", "cluster"] and "redis.url names database 1" in rows[1]["what"]
    refused = d.quredis("ls")
    assert refused.code == 78 and "remove the database from redis.url" in refused.err


@pytest.fixture
def other(cluster, redis_server):
    """A second node, which serves the slot of {a}, 15495."""
    bus = free_port()
    server = redis_server(tcp=True, config={"cluster-enabled": "yes", "cluster-port": bus, "cluster-allow-replica-migration": "no"})
    nodes = [cluster.client(), server.client()]
    nodes[0].execute_command("CLUSTER", "MEET", "127.0.0.1", server.port, bus)
    wait_for(lambda: all(len(n.execute_command("CLUSTER NODES")) == 2 for n in nodes), 20, "the nodes to meet")
    wait_for(lambda: nodes[1].execute_command("CLUSTER INFO")["cluster_state"] == "ok", 20, "the slots to be known")
    # who takes a slot that it imported takes a newer epoch, too: otherwise a heartbeat of the old owner can take the slot back
    nodes[1].execute_command("CLUSTER", "SETSLOT", 15495, "IMPORTING", nodes[0].execute_command("CLUSTER MYID").decode())
    for n in reversed(nodes):
        n.execute_command("CLUSTER", "SETSLOT", 15495, "NODE", nodes[1].execute_command("CLUSTER MYID").decode())
    return server


def test_moved_is_followed(cluster, other, quredisd, ledger):
    """redis.url names the wrong node; then the slot moves while the workers are connected. No worker exits."""
    d = quredisd(redis={"url": cluster.tcp_url, "prefix": "{a}"}, queues=[queue("mail", ledger.recorder())])
    before = d.wait_workers("mail", 1)
    other.client().lpush("{a}ingress:mail", "one")
    wait_for(lambda: len(ledger.runs()) == 1, 20)
    assert d.quredis("ls").code == 0
    nodes = [cluster.client(), other.client()]
    wait_for(lambda: not [k for k in nodes[1].scan_iter("*:[0-9]")], 20, "empty trays")
    move_slot(nodes[1], nodes[0], cluster.port)
    nodes[0].lpush("{a}ingress:mail", "two")
    wait_for(lambda: len(ledger.runs()) == 2, 30)
    assert d.wait_workers("mail", 1) == before


def test_redis_url_names_a_replica(cluster, redis_server, quredisd, ledger):
    """As after a rolling upgrade, in which the masters have become replicas."""
    bus = free_port()
    replica = redis_server(tcp=True, config={"cluster-enabled": "yes", "cluster-port": bus})
    master, follower = cluster.client(), replica.client()
    master.execute_command("CLUSTER", "MEET", "127.0.0.1", replica.port, bus)
    name = master.execute_command("CLUSTER MYID").decode()
    wait_for(lambda: name in str(follower.execute_command("CLUSTER NODES")), 20, "the nodes to meet")
    follower.execute_command("CLUSTER", "REPLICATE", name)
    wait_for(lambda: follower.role()[0] == b"slave" and follower.role()[3] == b"connected", 30, "the replica to follow")
    d = quredisd(redis={"url": replica.tcp_url, "prefix": "{a}"}, queues=[queue("mail", ledger.recorder())])
    master.lpush("{a}ingress:mail", "one")
    wait_for(lambda: len(ledger.runs()) == 1, 20)
    assert d.quredis("ls").code == 0 and not d.events("redis_down")


def test_a_fetch_is_ended_on_the_node_where_it_blocks(cluster, other, quredisd, ledger):
    """The number of a client means another client on the node that redis.url names."""
    d = quredisd(redis={"url": cluster.tcp_url, "prefix": "{a}"}, queues=[queue("mail", ledger.recorder())])
    wait_for(lambda: "blmove" in (cmds := [i["cmd"] for i in other.client().client_list()]) or "brpoplpush" in cmds, 30, "a worker that blocks")
    d.signal(signal.SIGTERM)
    assert d.wait_exit() == 0
    assert ["cmdstat_client|unblock" in s.client().info("commandstats") for s in (cluster, other)] == [False, True]


def move_slot(source, target, port, slot=15495):
    """A live resharding: the keys go one after the other, and the processes go on meanwhile."""
    ids = [n.execute_command("CLUSTER MYID").decode() for n in (source, target)]
    target.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0])
    source.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1])
    while keys := source.execute_command("CLUSTER GETKEYSINSLOT", slot, 100):
        source.execute_command("MIGRATE", "127.0.0.1", port, "", 0, 5000, "KEYS", *keys)
    for n in (target, source):
        n.execute_command("CLUSTER", "SETSLOT", slot, "NODE", ids[1])


def test_a_unix_socket_cannot_follow(cluster, other, quredisd, ledger):
    d = quredisd(redis={"url": cluster.url, "prefix": "{a}"}, queues=[queue("mail", ledger.recorder())])
    moved = f"MOVED 15495 127.0.0.1:{other.port}"
    assert moved in d.wait_event("redis_down")["reason"] and moved in d.wait_event("redis_error")["error"]
    r = d.quredis("ls")
    assert r.code == 69 and moved in r.err
    row, = [x for x in json.loads(d.quredis("doctor", "--json").out) if x["check"] == "redis"]
    assert moved in row["what"] and "set redis.url to the node" in row["advice"]
    d.write_conf(redis={"url": other.url, "prefix": "{a}"})
    assert d.quredis("reload").code == 0
    other.client().lpush("{a}ingress:mail", "one")
    wait_for(lambda: len(ledger.runs()) == 1, 20)
