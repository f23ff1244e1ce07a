"""tests/harness/reach.py: what it says that programs use, they use. Without QUREDIS_TEST_REACH these tests see the unix socket."""
import json

import pytest

from harness import ROOT, queue, reach, wait_for
from harness.prefixed import with_prefix, without_prefix
from harness.redis_proxy import Once

ADDRESSES = {"": "unix", "tls": "tls", "sentinel": "tcp", "cluster": "tcp"}


def ways(server):
    """Name of a connection of quredis -> how it came."""
    c = server.client()
    ports = {server.tls_port or None: "tls", server.port or None: "tcp"}
    return {r["name"]: "unix" if r["addr"].startswith("/") else ports.get(int(r["laddr"].rsplit(":", 1)[1]), "?")
            for r in c.client_list() if r["name"].startswith("quredis")}


def test_daemon_and_commands_use_the_reach(redis, quredisd, quredis, ledger):
    d = quredisd(queues=[queue("mail", ledger.recorder()), queue("other", "/bin/false", workers=0, ingress="theirs")])
    wait_for(lambda: set(ways(redis).values()) == {ADDRESSES[reach.REACH]}, 20)
    wait_for(lambda: redis.client().exists("quredis:queue:mail", "quredis:queue:other") == 2, 20, "both queues in the registry, where push looks")
    assert quredis("push", "mail", "one").code == 0 and d.quredis("push", "mail", "two").code == 0
    wait_for(lambda: len(ledger.runs()) == 2, 20)
    text = d.conf.read_text()
    assert [word in text for word in ("rediss://", "sentinels", "prefix")] == [reach.REACH == r for r in reach.REACHES]
    redis.client().lpush("theirs", "three")
    assert [(q["ingress"], q["ingress_size"]) for q in json.loads(d.quredis("ls", "--json").out) if q["name"] == "other"] == [("theirs", 1)]
    keys = redis.cli("KEYS", "*")
    assert b"quredis:queues" in keys
    assert all(k.startswith(reach.PREFIX.encode()) for k in keys.split())


def test_a_proxy_stands_in_front_of_the_reach(redis, redis_proxy, quredisd, ledger):
    heard = []
    proxy = redis_proxy(redis, Once("DEL", "quredis:of:ingress:mail:delayed", lambda: None))
    proxy.tap.request = lambda pair, words: heard.append(words) or None
    quredisd(redis=proxy, queues=[queue("mail", ledger.recorder())])
    redis.client().lpush("ingress:mail", "one")
    wait_for(lambda: len(ledger.runs()) == 1, 20)
    assert any(b"ingress:mail" in words for words in heard) and proxy.connections > 0


@pytest.mark.parametrize("command, sent", [
    (["LPUSH", "a", "b", b"c"], ["LPUSH", "{p}a", "b", b"c"]),
    ([b"DEL", b"a", "b"], [b"DEL", b"{p}a", "{p}b"]),
    (["EVAL", "return 1", 2, "a", "b", "c"], ["EVAL", "return 1", 2, "{p}a", "{p}b", "c"]),
    (["SCAN", 0, "COUNT", 10], ["SCAN", 0, "COUNT", 10, "MATCH", "{p}*"]),
    (["SCAN", 0, b"MATCH", "a*"], ["SCAN", 0, b"MATCH", "{p}a*"]),
    (["RENAME", "a", "b"], ["RENAME", "{p}a", "{p}b"]),
    (["MEMORY USAGE", "a"], ["MEMORY USAGE", "{p}a"]),
    (["CONFIG SET", "a", "b"], ["CONFIG SET", "a", "b"]),
    (["PING"], ["PING"]),
])
def test_a_prefix_is_put_before_keys(command, sent):
    assert with_prefix("{p}", command) == sent


def test_a_command_that_nobody_described_is_an_error():
    with pytest.raises(AssertionError, match="PFADD"):
        with_prefix("{p}", ["PFADD", "a", "b"])


def test_a_prefix_is_taken_off_replies():
    assert without_prefix("{p}", [b"{p}a", ["{p}b", 1, None]]) == [b"a", ["b", 1, None]]


def test_what_is_absent_exists():
    """Each row of ABSENT names a test that is there."""
    for row in reach.ABSENT:
        text = (ROOT / "tests/promises" / row.file).read_text()
        assert set(row.reaches) <= set(reach.REACHES) and row.reason
        assert not row.name or f"\ndef {row.name}(" in text, row
