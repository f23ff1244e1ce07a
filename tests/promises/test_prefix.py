"""redis.prefix as a namespace: several supervisors on one server, with queues of the same names."""
import json
import re

import pytest

from harness import queue, wait_for
from harness.messages import stray_keys

PREFIXES = ("a:", "b:", "{c}")
# notes who ran what; "hold..." waits for a file
NOTING = """
read -r m
echo "$WHO $m" >>@LEDGER@
case $m in
bad*) exit 1 ;;
hold*) while ! [ -e @TMP@/go ]; do sleep 0.02; done ;;
esac
"""


class Family:
    """A supervisor for each prefix, on one server."""

    def __init__(self, redis, quredisd, handler, **sections):
        self.client = redis.client()
        self.body = handler(NOTING)
        self.by = {p: quredisd(redis={"url": redis.url, "prefix": p}, supervisor={"lease": "1s"}, health={"enabled": True, "interval": "1s"},
                               queues=[queue("mail", self.body, env=[f"WHO={p}"], timeout="60s")], **sections) for p in PREFIXES}

    def push(self, prefix, *messages):
        for m in messages:
            assert self.by[prefix].quredis("push", "mail", m).code == 0

    def json(self, prefix, *command):
        r = self.by[prefix].quredis(*command, "--json")
        assert r.code == 0, r
        return json.loads(r.out)

    def done(self, prefix):
        return self.json(prefix, "stats", "mail")["counters"]["done"]

    def keys(self, prefix):
        """Without those that a running supervisor writes again and again."""
        return {k: self.client.dump(k) for k in self.client.scan_iter(match=prefix + "*", count=1000)
                if not re.search(b":(sweeper|lease|stats|rate|backlog|workers)|quredis:(?!of:)", k)}


@pytest.fixture
def family(redis, quredisd, handler):
    return Family(redis, quredisd, handler)


def test_each_runs_its_own_messages(family, ledger):
    for p in PREFIXES:
        family.push(p, *[f"{p}{i}" for i in range(5)])
    family.client.lpush("{c}ingress:mail", "from a producer")
    wait_for(lambda: len(ledger.lines()) == 16, 30)
    ran = [line.split(" ", 1) for line in ledger.lines()]
    assert sorted(ran) == sorted([[p, f"{p}{i}"] for p in PREFIXES for i in range(5)] + [["{c}", "from a producer"]])
    assert stray_keys(family.client, "mail", prefixes=PREFIXES) == []


def test_registry_lead_health_and_statistics_are_apart(family, ledger):
    c = family.client
    family.push("b:", "one", "two")
    wait_for(lambda: family.done("b:") == 2, 30)
    wait_for(lambda: all(c.exists(f"{p}quredis:health") for p in PREFIXES), 30)
    for p in PREFIXES:
        assert c.zrange(f"{p}quredis:queues", 0, -1) == [b"mail"]
        assert json.loads(c.get(f"{p}quredis:queue:mail"))["ingress"] == f"{p}ingress:mail"
        assert [q["ingress"] for q in family.json(p, "ls")] == [f"{p}ingress:mail"]
        assert [h["queue"] for h in family.json(p, "health")["queues"]] == ["mail"]
        assert len(family.json(p, "nodes")) == 1
    assert len({c.get(f"{p}quredis:of:ingress:mail:sweeper") for p in PREFIXES} - {None}) == 3
    assert len({c.get(f"{p}quredis:secret") for p in PREFIXES} - {None}) == 3
    assert [family.done(p) for p in ("a:", "{c}")] == [0, 0]


def test_dead_letters_are_apart(family, ledger):
    c = family.client
    for p in PREFIXES:
        family.push(p, "bad1", "bad2")
    wait_for(lambda: all(c.llen(f"{p}escape:mail") == 2 and c.xlen(f"{p}escape:mail:log") == 2 for p in PREFIXES), 30)
    others = family.keys("b:"), family.keys("{c}")
    assert family.by["a:"].quredis("dlq", "retry", "mail", "--all", "--yes").code == 0
    wait_for(lambda: ledger.lines().count("a: bad1") == 2 and c.llen("a:escape:mail") == 2, 30)
    assert family.by["a:"].quredis("purge", "mail", "escape", "--yes").code == 0
    assert family.json("a:", "dlq", "ls", "mail") == [] and len(family.json("b:", "dlq", "ls", "mail")) == 2
    assert (family.keys("b:"), family.keys("{c}")) == others


def test_doctor_sees_its_own_keys_only(family):
    """Messages in a tray without an owner are an error, but not one of another prefix."""
    c = family.client
    c.rpush("a:transit:mail:gone.000000000000dead.0.1:0", "lost")
    r = {p: json.loads(family.by[p].quredis("doctor", "--json").out) for p in PREFIXES}
    bad = {p: [x for x in rows if x["severity"] == "error"] for p, rows in r.items()}
    assert [x["check"] for x in bad["a:"]] == ["lost"] and bad["b:"] == bad["{c}"] == [], bad


def test_a_dead_supervisor_is_rescued_by_its_own_prefix_only(family, ledger, tmp):
    c = family.client
    family.push("a:", "hold")
    wait_for(lambda: "a: hold" in ledger.lines(), 20)
    a = family.by["a:"]
    a.kill_tree()
    wait_for(lambda: not c.keys("a:transit:mail:lease:*"), 20, what="the lease to expire")
    for p in ("b:", "{c}"):                     # both look at all workers they know of meanwhile
        family.push(p, f"after {p}")
    wait_for(lambda: {"b: after b:", "{c} after {c}"} <= set(ledger.lines()), 20)
    assert len(c.keys("a:transit:mail:*:[012]")) == 1 and c.llen("a:ingress:mail") == 0
    (tmp / "go").touch()
    a.start()
    wait_for(lambda: ledger.lines().count("a: hold") == 2, 30)


def test_destroy_leaves_the_others(family, ledger):
    c = family.client
    for p in PREFIXES:
        family.push(p, "bad", "good")
    wait_for(lambda: all(c.llen(f"{p}escape:mail") == 1 for p in PREFIXES) and len(ledger.lines()) == 6, 30)
    others = family.keys("b:"), family.keys("{c}")
    a = family.by["a:"]
    assert a.stop() == 0
    assert a.quredis("destroy", "mail", "--yes").code == 0
    left = {k.decode() for k in c.scan_iter(match="a:*", count=1000)}
    assert left <= {"a:quredis:secret", "a:quredis:schema", "a:quredis:health"} | {k for k in left if k.startswith("a:quredis:node:")}, left
    assert (family.keys("b:"), family.keys("{c}")) == others
    for p in ("b:", "{c}"):
        family.push(p, "still")
    wait_for(lambda: {"b: still", "{c} still"} <= set(ledger.lines()), 30)


def test_a_command_without_a_file_takes_it_from_the_environment(family, redis, quredis):
    assert quredis("ls", "--json", url=redis.url).out == "[]\n"
    r = quredis("push", "mail", "hello", url=redis.url)
    assert r.code == 66 and "no queue mail" in r.err
    for p in PREFIXES:
        assert quredis("push", "mail", "hello", url=redis.url, env={"QUREDIS_REDIS_PREFIX": p}).code == 0
        wait_for(lambda: family.done(p) == 1, 20)


def test_a_list_that_is_named_gets_no_prefix(redis, quredisd, ledger):
    quredisd(redis={"url": redis.url, "prefix": "a:"}, queues=[queue("mail", ledger.recorder(), ingress="theirs")])
    c = redis.client()
    c.lpush("theirs", "one")
    wait_for(lambda: [r.payload for r in ledger.runs()] == [b"one"], 20)
    names = json.loads(c.get("a:quredis:queue:mail"))
    assert (names["ingress"], names["transit"], names["escape"]) == ("theirs", "a:transit:mail", "a:escape:mail")


def test_it_cannot_change_by_a_reload(redis, quredisd, ledger):
    d = quredisd(redis={"url": redis.url, "prefix": "a:"}, queues=[queue("mail", ledger.recorder())])
    d.write_conf(redis={"url": redis.url, "prefix": "b:"})
    r = d.quredis("-u", redis.url, "reload")
    assert r.code == 78 and "redis.prefix cannot change while quredisd runs: restart it" in r.err
    redis.client().lpush("a:ingress:mail", "one")
    wait_for(lambda: len(ledger.runs()) == 1, 20)


def test_a_user_who_may_only_reach_keys_of_the_prefix(redis_server, quredisd, handler, ledger):
    """No process reads or writes any other key: Redis would refuse it."""
    server = redis_server(tcp=True, aof="always")
    c = server.client()
    c.execute_command("ACL", "SETUSER", "only", "on", ">pw", "~a:*", "&*", "+@all")
    env = {"QUREDIS_REDIS_URL": f"redis://only:pw@127.0.0.1:{server.port}/0"}
    d = quredisd(redis={"prefix": "a:"}, env=env, supervisor={"lease": "1s"}, health={"enabled": True, "interval": "1s"},
                 purge={"enabled": True, "interval": "1s"},
                 queues=[queue("mail", handler(NOTING), max_attempts=2, backoff={"base": "50ms"}, ttl="1h", dead_letter={"forward_to": "other"}),
                         queue("other", handler("cat >/dev/null"))])
    for m in ("good", "bad"):
        assert d.quredis("push", "mail", m, env=env).code == 0
    wait_for(lambda: c.llen("a:escape:mail") == 1 and c.hget("a:quredis:of:ingress:other:stats", "done") == b"1" and c.exists("a:quredis:health"), 30)
    rows = json.loads(d.quredis("doctor", "--json", env=env).out)
    assert [r for r in rows if r["check"] in ("redis", "registry", "types", "rights", "keys", "lost", "records") and r["severity"] == "error"] == []
    for command in (["ls"], ["nodes"], ["health"], ["stats"], ["stale"], ["dlq", "ls", "mail"], ["dlq", "rm", "mail", "--all", "--yes"]):
        assert d.quredis(*command, env=env).code == 0
    assert not [e for e in d.events() if e["event"] in ("redis_error", "queue_error", "registry_error", "secret_error", "redis_down")]
    assert c.execute_command("ACL", "LOG") == []
