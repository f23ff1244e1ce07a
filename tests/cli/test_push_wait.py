"""quredis push --wait: what Redis confirms, and what is said when it does not.

`here` is the server of this system. The others are those of Debian 13, which have WAITAOF; `make servers` fetches them."""
import json
import re
import signal
import threading

import pytest
import redis

from harness import BUILD, ROOT, render, wait_for
from harness.paths import SERVER
from harness.queues import Queue
from harness.redis_proxy import CUT, Tap

DEBIAN_13 = BUILD.parent / "servers"
AGAIN = "; pushing again may duplicate it\n"


def use(monkeypatch, name):
    """The server that tests start from now on."""
    path = SERVER if name == "here" else str(DEBIAN_13 / name)
    if name != "here" and not (DEBIAN_13 / name).exists():
        pytest.skip("no servers of Debian 13: `make servers` fetches them, or says what is missing")
    monkeypatch.setattr("harness.redis_server.SERVER", path)


def has_waitaof(server):
    try:
        return bool(server.client().execute_command("WAITAOF", 0, 0, 1))
    except redis.ResponseError:
        return False


@pytest.fixture
def old_server(monkeypatch, redis_server):
    """One without WAITAOF."""
    def make(**options):
        server = redis_server(**options)
        if has_waitaof(server):
            pytest.skip("this server has WAITAOF")
        return server
    return make


@pytest.fixture(params=["redis-server", "valkey-server"])
def server_8(request, monkeypatch, redis_server):
    use(monkeypatch, request.param)
    return redis_server


def pushed(server):
    return server.client().llen("ingress:mail")


def start_queue(server):
    Queue(server.client())
    return server


def node_of_pair(make, aof):
    return make(tcp=True, aof=aof, config={"repl-diskless-sync-delay": "0"})


def pair_of(make, aof):
    master = start_queue(node_of_pair(make, aof))
    replica = node_of_pair(make, aof).follow(master)
    master.wait_replicated()
    return master, replica


# ---- where WAITAOF is there ----

@pytest.mark.parametrize("fsync", ["everysec", "always"])
def test_on_disk(server_8, quredis, fsync):
    server = start_queue(server_8(aof=fsync))
    r = quredis("push", "mail", "x", "--wait", url=server.url)
    assert (r.code, r.out, r.err) == (0, "pushed 1 message, on disk\n", "")
    r = quredis("push", "mail", "--wait", "--lines", "--delay", "1h", "--json", url=server.url, input=b"a\nb\n" * 3000)
    row = json.loads(r.out)
    assert (r.code, r.err, row["count"]) == (0, "", 6000)
    assert {k: row[k] for k in ("confirmed", "on_disk", "replicas", "replicas_on_disk")} == {
        "confirmed": True, "on_disk": True, "replicas": 0, "replicas_on_disk": True}
    server.restart()
    assert pushed(server) == 1 and server.client().zcard("quredis:of:ingress:mail:delayed") == 6000


def test_on_the_disk_of_a_replica(server_8, quredis):
    master, replica = pair_of(server_8, "everysec")
    r = quredis("push", "mail", "x", "--wait=1", url=master.url)
    assert (r.code, r.out, r.err) == (0, "pushed 1 message, on disk and on disk of 1 replica\n", "")
    master.kill9()
    replica.restart()
    assert pushed(replica) == 1


def test_a_replica_without_a_file(server_8, quredis):
    master, _ = pair_of(server_8, "always")
    other = node_of_pair(server_8, None).follow(master)
    r = quredis("push", "mail", "x", "--wait=2", "--wait-timeout", "3s", url=master.url)
    assert (r.code, r.out) == (75, "pushed 1 message\n") and pushed(master) == 1
    assert r.err == ("quredis: pushed, not confirmed: 1 of 2 replicas have it on disk (one without appendonly yes never has), after 3s" + AGAIN)
    assert pushed(other) == 1


def test_a_disk_that_is_late(server_8, quredis):
    server = start_queue(server_8(aof="everysec"))
    server.config_set("appendfsync", "no")          # the kernel decides: never within 100 ms
    r = quredis("push", "mail", "x", "--wait", "--wait-timeout", "100ms", url=server.url)
    assert (r.code, r.out, pushed(server)) == (75, "pushed 1 message\n", 1)
    assert r.err == "quredis: pushed, not confirmed: Redis has not synced its append-only file, after 100ms" + AGAIN


def test_no_append_only_file(server_8, quredis):
    server = start_queue(server_8())
    r = quredis("push", "mail", "x", "--wait", url=server.url)
    assert (r.code, r.out, pushed(server)) == (78, "", 0)
    assert r.err.startswith("quredis: nothing was pushed: Redis cannot confirm that a message is on its disk: WAITAOF: ERR WAITAOF cannot be used")
    master, _ = pair_of(server_8, None)
    r = quredis("push", "mail", "x", "--wait=1", url=master.url)
    assert (r.code, r.out) == (0, "pushed 1 message, in memory of 1 replica\n")


# ---- where it is not ----

def test_always_needs_no_waitaof(old_server, quredis):
    server = start_queue(old_server(aof="always"))
    r = quredis("push", "mail", "x", "--wait", "--json", url=server.url)
    row = json.loads(r.out)
    assert (r.code, r.err, row["confirmed"], row["on_disk"]) == (0, "", True, True)
    server.config_set("appendfsync", "everysec")
    r = quredis("push", "mail", "x", "--wait", url=server.url)
    assert (r.code, r.out, pushed(server)) == (78, "", 1)
    assert "WAITAOF: ERR unknown command" in r.err and r.err.startswith("quredis: nothing was pushed: ") and "--wait=N" in r.err


def test_in_the_memory_of_a_replica(old_server, quredis):
    master, replica = pair_of(old_server, "everysec")
    r = quredis("push", "mail", "x", "--wait=1", url=master.url)
    assert (r.code, r.out, r.err) == (0, "pushed 1 message, in memory of 1 replica\n", "")
    master.kill9()
    assert pushed(replica) == 1


# ---- with any server ----

@pytest.fixture(params=["here", "redis-server", "valkey-server"])
def server(request, monkeypatch, redis_server):
    use(monkeypatch, request.param)
    return redis_server


def test_too_few_replicas_before_the_push(server, quredis):
    master, _ = pair_of(server, "always")
    r = quredis("push", "mail", "x", "--wait=2", "--wait-timeout", "2s", url=master.url)
    assert (r.code, r.out, pushed(master)) == (69, "", 0)
    assert r.err == "quredis: nothing was pushed: 1 of 2 replicas answered within 2s\n"


class AtPush(Tap):
    """Calls back once Redis has answered the push."""

    def __init__(self, act):
        self.act, self.was_pushed = act, False

    def reply(self, pair, words, reply):
        if words[0] == b"LPUSH" and not self.was_pushed:
            self.was_pushed = True
            self.act()


class BeforePush(Tap):
    """Calls back before Redis gets the push."""

    def __init__(self, act):
        self.act = act

    def request(self, pair, words):
        if words[0] == b"LPUSH":
            self.act()


class CutsWaits(AtPush):
    def __init__(self):
        super().__init__(lambda: None)

    def request(self, pair, words):
        return CUT if self.was_pushed and words[0] in (b"WAIT", b"WAITAOF") else None


def test_a_connection_lost_after_the_push(server, redis_proxy, quredis):
    master, _ = pair_of(server, "always")
    proxy = redis_proxy(master, CutsWaits())
    r = quredis("push", "mail", "x", "--wait=1", "--json", url=proxy.url)
    assert r.code == 75 and json.loads(r.out)["count"] == 1 and json.loads(r.out)["confirmed"] is False
    assert r.err.startswith("quredis: pushed, not confirmed: Redis: ") and r.err.endswith(AGAIN)
    assert pushed(master) == 1 and proxy.connections == 1


def test_a_connection_lost_in_the_push(server, redis_proxy, quredis):
    """As without --wait: nobody knows whether Redis has the message."""
    master, _ = pair_of(server, "always")
    proxy = redis_proxy(master)
    proxy.lose_reply(b"LPUSH")
    r = quredis("push", "mail", "x", "--wait=1", url=proxy.url)
    assert (r.code, r.out) == (69, "") and r.err.startswith("quredis: Redis: ")
    proxy.lose_request(b"line 7")
    r = quredis("push", "mail", "--lines", "--wait=1", url=proxy.url, input=b"".join(b"line %d\n" % i for i in range(10)))
    assert r.code == 69 and "0 messages were pushed, not confirmed; Redis had not answered 10 more" in r.err


def test_a_replica_lost_before_it_has_the_push(server, redis_proxy, quredis):
    master, replica = pair_of(server, "always")
    master.config_set("repl-timeout", "3600")
    proxy = redis_proxy(master, BeforePush(lambda: replica.signal(signal.SIGSTOP)))
    try:
        r = quredis("push", "mail", "x", "--wait=1", "--wait-timeout", "3s", url=proxy.url)
    finally:
        replica.signal(signal.SIGCONT)
    assert (r.code, r.out) == (75, "pushed 1 message\n") and "0 of 1 replicas have it" in r.err and r.err.endswith("after 3s" + AGAIN)


def test_demoted_after_the_push(server, redis_proxy, quredis):
    master, replica = pair_of(server, "always")

    def demote():
        replica.promote()
        with master.connect() as c:
            c.execute_command("REPLICAOF", "127.0.0.1", replica.port)
    proxy = redis_proxy(master, AtPush(demote))
    r = quredis("push", "mail", "x", "--wait=1", url=proxy.url)
    assert r.code == 75 and r.err.startswith("quredis: pushed, not confirmed: ") and r.err.endswith(AGAIN)


def test_demoted_and_promoted_after_the_push(server, redis_proxy, quredis):
    """The connection lasts, and a WAIT for later data would succeed: but the message is gone."""
    master, other = start_queue(node_of_pair(server, "always")), node_of_pair(server, "always")
    done = threading.Event()

    def switch():
        master.follow(other)
        master.promote()
        done.set()
    proxy = redis_proxy(master, AtPush(switch))
    r = quredis("push", "mail", "x", "--wait", url=proxy.url)
    wait_for(done.is_set, 20)
    assert pushed(master) == 0 and r.code == 75
    assert r.err.startswith("quredis: pushed, not confirmed: ") and r.err.endswith(AGAIN)


@pytest.mark.parametrize("refused, replicas, said", [
    (["-waitaof", "-config"], "", "WAITAOF: "), (["-wait"], "=1", "WAIT: "), (["-wait", "-waitaof"], "=1", "WAIT: ")])
def test_a_user_without_the_right(server, quredis, refused, replicas, said):
    if replicas:
        master, _ = pair_of(server, None)
    else:
        master = start_queue(server(aof="always"))
    known = [f for f in refused if f != "-waitaof" or has_waitaof(master)]
    master.client().execute_command("ACL", "SETUSER", "default", *known)
    r = quredis("push", "mail", "x", f"--wait{replicas}", url=master.url)
    assert (r.out, pushed(master)) == ("", 0) and r.err.startswith("quredis: nothing was pushed: ") and said in r.err
    assert r.code == 77 or not has_waitaof(master)


def test_a_user_with_few_rights(server, quredis):
    """WAITAOF is refused, but WAIT and the CONFIG of an `always` answer the same."""
    master, _ = pair_of(server, "always")
    if has_waitaof(master):
        master.client().execute_command("ACL", "SETUSER", "default", "-waitaof", "-info")
    r = quredis("push", "mail", "x", "--wait=1", url=master.url)
    assert (r.code, r.out, r.err) == (0, "pushed 1 message, on disk and in memory of 1 replica\n", "")


def test_the_operator_of_the_manual(server, quredis):
    """docs/operating.md: its access list is enough for --wait."""
    s = start_queue(server(aof="always", tcp=True))
    rights = re.search(r"ACL SETUSER operator on >PASSWORD (.*)", (ROOT / "docs/operating.md").read_text()).group(1)
    s.client().execute_command("ACL", "SETUSER", "operator", "on", ">pw", *rights.split())
    r = quredis("push", "mail", "x", "--wait", url=s.tcp_url.replace("redis://", "redis://operator:pw@"))
    assert (r.code, r.out, pushed(s)) == (0, "pushed 1 message, on disk\n", 1), r


def test_a_service_that_hides_its_settings(server, quredis):
    """Redis syncs each push, and nobody can know it."""
    s = start_queue(server(aof="always"))
    s.client().execute_command("ACL", "SETUSER", "default", "-config", *(["-waitaof"] if has_waitaof(s) else []))
    r = quredis("push", "mail", "x", "--wait", url=s.url)
    assert (r.out, pushed(s)) == ("", 0)
    assert "; and this Redis user lacks CONFIG GET, so appendfsync cannot be read: ACL SETUSER USER +config|get" in r.err


def test_with_prefix_in_a_cluster(server, quredis, tmp):
    node = server(cluster=True, aof="always")
    conf = tmp / "quredis.conf"
    conf.write_text(f'redis = {{ url = "{node.url}"; prefix = "{{a}}"; }};\nqueues = ( {{ name = "mail"; handler = ["/bin/true"]; }} );\n')
    r = quredis("push", "mail", "x", "--wait", conf=conf)
    assert (r.code, r.out, r.err) == (0, "pushed 1 message, on disk\n", "")
    assert node.client().llen("{a}ingress:mail") == 1


def test_survives_a_failover(sentinels, quredis, tmp):
    watched = sentinels()
    conf = tmp / "quredis.conf"
    conf.write_text(render({"redis": watched.redis(), "queues": [{"name": "mail", "handler": ["/bin/true"]}]}))
    r = quredis("push", "mail", "a", "--wait=1", conf=conf)
    assert r.code == 0 and "1 replica\n" in r.out, r
    watched.kill_master()
    assert watched.client().lrange("ingress:mail", 0, -1) == [b"a"]


def test_dry(server, quredis):
    s = start_queue(server(aof="always"))
    r = quredis("push", "mail", "x", "--wait", "--dry-run", url=s.url)
    assert (r.code, r.out, pushed(s)) == (0, "would push 1 message\n", 0)
    r = quredis("push", "mail", "x", "--wait=1", "--wait-timeout", "50ms", "--dry-run", url=s.url)
    assert (r.code, r.out) == (69, "")


@pytest.mark.parametrize("words, said", [
    (["x", "--wait=0"], "--wait: 0 is not a number from 1 to 1000"),
    (["x", "--wait=some"], "--wait: some is not a number"),
    (["--wait", "1"], "--wait 1: write --wait=1; a number that is an operand must not follow --wait"),
    (["x", "--wait-timeout", "1s"], "--wait-timeout is only for --wait"),
    (["x", "--wait", "--wait-timeout", "0s"], "--wait-timeout is not between 1ms and 1h"),
    (["x", "--wait", "--wait-timeout", "2h"], "--wait-timeout is not between 1ms and 1h"),
    (["x", "--wat"], "did you mean --wait?"),
])
def test_usage(redis_server, quredis, words, said):
    server = start_queue(redis_server())
    r = quredis("push", "mail", *words, url=server.url)
    assert (r.code, r.out, pushed(server)) == (64, "", 0) and said in r.err and r.err.count("\n") == 1


def test_a_number_before_it_is_the_message(old_server, quredis):
    server = start_queue(old_server(aof="always"))
    assert quredis("push", "mail", "1", "--wait", url=server.url).code == 0
    assert server.client().lrange("ingress:mail", 0, -1) == [b"1"]
