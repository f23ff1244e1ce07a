"""Redis behind Sentinels: they are asked for the master at each connection, and no message is lost when it changes."""
import json

import pytest

from harness import Authority, free_port, queue, wait_for
from harness.control import status
from harness.sentinels import Sentinel
from harness.names import needs_localhost

NOTE = 'read -r m; echo "start $m $QUREDIS_REDELIVERED" >>@LEDGER@; echo "end $m" >>@LEDGER@'


def push(watched, names):
    """Pushed, and held by a replica."""
    c = watched.client()
    for name in names:
        c.lpush("ingress:mail", name)
    watched.wait_replicated()


def ended(ledger, names):
    done = set(ledger.lines())
    return all(f"end {n}" in done for n in names)


def assert_once(ledger, names):
    found = ledger.flags()
    assert sorted(found) == sorted(names) and all(flags[0] == "0" and "0" not in flags[1:] for flags in found.values()), found


@pytest.mark.limit(240)
def test_work_goes_on_after_a_failover(sentinels, quredisd, handler, ledger):
    """Announced, then by the death of the master. The first Sentinel of the list is dead all the time, and no worker exits."""
    watched = sentinels()
    d = quredisd(redis=watched.redis(dead=[f"127.0.0.1:{free_port()}"]), queues=[queue("mail", handler(NOTE), workers=2)])
    before = d.wait_workers("mail", 2)
    first = [f"a{i}" for i in range(20)]
    push(watched, first)
    wait_for(lambda: ended(ledger, first), 30)
    watched.failover()
    second = [f"b{i}" for i in range(20)]
    watched.wait_in_sync()
    push(watched, second)
    wait_for(lambda: ended(ledger, second), 60)
    watched.kill_master()
    third = [f"c{i}" for i in range(20)]
    watched.wait_in_sync()
    push(watched, third)
    wait_for(lambda: ended(ledger, third), 60)
    assert_once(ledger, first + second + third)
    assert d.wait_workers("mail", 2) == before


def test_status_and_doctor_name_the_server(sentinels, quredisd):
    """The address, and which Sentinel named it. A command that is told another server than the supervisor's says so."""
    watched = sentinels()
    dead = f"127.0.0.1:{free_port()}"
    d = quredisd(redis=watched.redis(dead=[dead]), queues=[queue("mail", "/bin/true")])
    d.wait_workers("mail", 1)

    def shown():
        return status(d)["redis"]
    wait_for(lambda: shown()["connected"], 20)
    old = watched.master()
    s = shown()
    assert (s["address"], s["tls"], s["master"], s["prefix"]) == (f"127.0.0.1:{old.port}", False, watched.name, "")
    assert s["sentinel"] == watched.sentinels[0].address and s["target"] == f"redis master {watched.name}/0"
    assert d.quredis("status").out.splitlines()[1] == f"Redis: {s['address']}, the master {watched.name} by Sentinel {s['sentinel']}"
    row, = [x for x in json.loads(d.quredis("doctor", "--json").out) if x["check"] == "redis"]
    assert f"Redis answers at {s['address']}, the master {watched.name} by Sentinel 127.0.0.1:" in row["what"] and "each worker finds" in row["what"]
    new = watched.failover()
    wait_for(lambda: shown()["address"] == f"127.0.0.1:{new.port}", 60, "the sweeper to follow")
    for server in (new, old):
        server.kill9()
    wait_for(lambda: not shown()["connected"], 30)
    assert shown()["address"] is None and d.quredis("status").out.splitlines()[1] == f"Redis: redis master {watched.name}/0, not connected"


def test_another_server_than_the_supervisors(redis_server, quredisd):
    """Of two addresses the first one is taken; for a command it is another one than for the supervisor, which keeps its connection."""
    first, second = redis_server(tcp=True), redis_server(tcp=True)
    addresses = f"127.0.0.1:{first.port},127.0.0.1:{second.port}"
    first.stop()
    d = quredisd(redis={"url": f"redis://{addresses}"}, queues=[queue("mail", "/bin/true")])
    wait_for(lambda: status(d)["redis"]["address"] == f"127.0.0.1:{second.port}", 20)
    first.start()
    rows = [x for x in json.loads(d.quredis("doctor", "--json").out) if x["check"] == "redis"]
    assert [(x["severity"], f"the supervisor here is connected to 127.0.0.1:{second.port}, and this command to 127.0.0.1:{first.port}" in x["what"])
            for x in rows if x["severity"] != "ok"] == [("warning", True)], rows
    named = json.loads(d.quredis("-u", f"redis://127.0.0.1:{first.port}", "doctor", "--json").out)
    assert not [x for x in named if x["check"] == "redis" and x["severity"] != "ok"]


def test_an_isolated_master_is_left(sentinels, quredisd, handler, ledger):
    """The Sentinels name another master, and the old one is never told: it stays a master, and no connection to it ends."""
    watched = sentinels()
    d = quredisd(redis=watched.redis(), queues=[queue("mail", handler(NOTE))])
    before = d.wait_workers("mail", 1)
    push(watched, ["before"])
    wait_for(lambda: ended(ledger, ["before"]), 30)     # the worker is connected to the old master
    old, new = watched.servers
    new.promote()
    watched.watch(new)
    new.client().lpush("ingress:mail", "m")
    d.wait_event("redis_master_changed", to_port=str(new.port))
    wait_for(lambda: ended(ledger, ["m"]), 30)
    assert d.wait_workers("mail", 1) == before and old.client().role()[0] == b"master"


def test_a_sentinel_that_was_cut_off_is_outvoted(sentinels, quredisd, handler, ledger):
    """It names the old master, which says that it is one. Nobody goes there, and nobody reconnects."""
    watched = sentinels()
    old, new = watched.servers
    new.promote()
    cut_off, *others = watched.sentinels
    for sentinel in watched.sentinels:      # they forget that one server followed the other
        sentinel.ask("REMOVE", watched.name)
        sentinel.ask("MONITOR", watched.name, "127.0.0.1", (old if sentinel is cut_off else new).port, 2)
    d = quredisd(redis={"sentinels": [s.address for s in (*others, cut_off)], "master": watched.name}, queues=[queue("mail", handler(NOTE))])
    new.client().lpush("ingress:mail", "m")
    wait_for(lambda: ended(ledger, ["m"]), 30)
    event = d.wait_event("sentinel_outvoted", 60)
    assert (event["sentinel_port"], event["names_port"]) == (str(cut_off.port), str(old.port))
    cut_off.wait_asked()
    others[0].wait_asked()          # so what the other one answered was heeded
    assert d.events("redis_master_changed") == [] and len(d.events("sentinel_outvoted")) == 1
    assert not [i for i in old.client().client_list() if i["name"].endswith("mail/0")]


def test_a_worker_leaves_the_master_of_a_sentinel_that_was_cut_off(sentinels, quredisd, handler, ledger):
    """It asked that Sentinel while no other one answered. The connection to the old master does not end, and its own sweeper is right all the time."""
    watched = sentinels()
    old, new = watched.servers
    new.promote()
    cut_off, *others = watched.sentinels
    for sentinel in watched.sentinels:
        sentinel.ask("REMOVE", watched.name)
        sentinel.ask("MONITOR", watched.name, "127.0.0.1", (old if sentinel is cut_off else new).port, 2)
    d = quredisd(redis={"sentinels": [s.address for s in (*others, cut_off)], "master": watched.name}, queues=[queue("mail", handler(NOTE))])
    new.client().lpush("ingress:mail", "a")
    wait_for(lambda: ended(ledger, ["a"]), 30)
    for sentinel in others:
        sentinel.kill9()

    def worker_at(server):
        return [c for c in server.client().client_list() if c["name"].endswith("mail/0")]
    for client in worker_at(new):
        new.client().client_kill_filter(_id=client["id"])
    wait_for(lambda: worker_at(old), 30, "the worker to follow the Sentinel that is left")
    new.client().lpush("ingress:mail", "m")
    for sentinel in others:
        sentinel.resume()
    wait_for(lambda: ended(ledger, ["m"]), 60)
    assert not worker_at(old) and d.events("redis_master_changed") == []


def test_a_sentinel_that_is_down_is_logged_once(sentinels, quredisd):
    """Though the other one answers between the questions to it."""
    watched = sentinels(servers=1, sentinels=1)
    dead = f"127.0.0.1:{free_port()}"
    d = quredisd(redis=watched.redis(dead=[dead]), queues=[queue("mail", "/bin/true")])
    assert dead in d.wait_event("sentinel_silent", 60)["error"]
    for _ in range(3):
        watched.sentinels[0].wait_asked()
    assert len(d.events("sentinel_silent")) == 1


def test_an_outage_is_logged_once(redis_server, quredisd):
    """One address refuses, and the other one is a replica, so each attempt fails for another reason. A process logs each kind once, at most one a minute."""
    master, replica = redis_server(tcp=True), redis_server(tcp=True)
    replica.follow(master)
    d = quredisd(redis={"url": f"redis://127.0.0.1:{free_port()},127.0.0.1:{replica.port}"}, queues=[queue("mail", "/bin/true")],
                 supervisor={"lease": "1s"}, wait=False)
    wait_for(lambda: replica.client().info("commandstats").get("cmdstat_role", {}).get("calls", 0) >= 30, 60, "attempts")
    assert [1 <= len(d.events(name)) <= 2 for name in ("redis_down", "redis_error")] == [True, True], d.text()
    replica.promote()
    d.wait_event("redis_up", 60)
    d.wait_event("redis_error_cleared", 60)
    assert [len(d.events(name)) for name in ("redis_up", "redis_error_cleared")] == [1, 1]


@needs_localhost
def test_two_names_of_one_master(sentinels, quredisd, handler, ledger):
    """One Sentinel names the master by its host name, the other one by its address. Nothing reconnects."""
    watched = sentinels(servers=1, sentinels=2)
    first, second = watched.sentinels
    first.ask("REMOVE", watched.name)
    for option in ("resolve-hostnames", "announce-hostnames"):
        first.ask("CONFIG", "SET", option, "yes")
    first.ask("MONITOR", watched.name, "localhost", watched.servers[0].port, 2)
    assert first.ask("GET-MASTER-ADDR-BY-NAME", watched.name)[0] == b"localhost"
    d = quredisd(redis=watched.redis(), queues=[queue("mail", handler(NOTE))])
    watched.servers[0].client().lpush("ingress:mail", "m")
    wait_for(lambda: ended(ledger, ["m"]), 30)
    second.wait_asked()
    first.wait_asked()
    second.wait_asked()             # so what the first one answered was heeded
    assert d.events("redis_master_changed") == []


def test_a_reload_to_another_master(redis_server, quredisd, handler, ledger, tmp, tag):
    """The same Sentinel watches two servers. What lies on the second one is recovered, as after a change of redis.url."""
    servers = [redis_server(tcp=True) for _ in range(2)]
    sentinel = Sentinel(tmp / "sentinel", tag=tag)
    try:
        sentinel.start("first", servers[0], 1)
        sentinel.ask("MONITOR", "second", "127.0.0.1", servers[1].port, 1)
        d = quredisd(redis={"sentinels": [sentinel.address], "master": "first"}, queues=[queue("mail", handler(NOTE))])
        servers[1].client().lpush("transit:mail", "left there by a plain consumer")
        d.reload(redis={"sentinels": [sentinel.address], "master": "second"})
        wait_for(lambda: ended(ledger, ["left there by a plain consumer"]), 30)
    finally:
        sentinel.close()


def test_a_sentinel_in_the_url(sentinels, quredisd):
    """A Sentinel answers as Redis does, until it tells its role."""
    watched = sentinels(servers=1, sentinels=1)
    d = quredisd(redis={"url": f"redis://{watched.sentinels[0].address}"}, queues=[queue("mail", "/bin/true")], wait=False)
    assert "the server is a Sentinel" in d.wait_event("redis_down")["reason"]
    row, = [x for x in json.loads(d.quredis("doctor", "--json").out) if x["check"] == "redis"]
    assert "the server is a Sentinel" in row["what"] and "redis.sentinels" in row["advice"]


def test_sentinels_that_want_tls(redis_server, quredisd, tmp, tag):
    """They are asked in plain text: the reason names the key that is missing, in the log, on the command line and in doctor."""
    ca = Authority(tmp / "ca")
    certificate = ca.sign("server", "IP:127.0.0.1")
    server = redis_server(tls=certificate, config={"tls-ca-cert-file": ca.cert})
    sentinel = Sentinel(tmp / "sentinel", tag=tag, tls=(ca, certificate))
    try:
        sentinel.start("mail", server, 1)
        d = quredisd(redis={"url": "rediss:///0", "sentinels": [sentinel.address], "master": "mail", "ca_file": ca.cert,
                            "sentinel_tls": False},
                     queues=[queue("mail", "/bin/true")], wait=False)
        words = ["Sentinel 127.0.0.1", "redis.sentinel_tls"]
        wait_for(lambda: [e for e in d.events("redis_down") if all(w in e["reason"] for w in words)], 30)
        refused = d.quredis("ls")
        assert refused.code == 69 and all(w in refused.err for w in words), refused
        row, = [x for x in json.loads(d.quredis("doctor", "--json").out) if x["check"] == "redis"]
        assert all(w in row["what"] for w in words), row
    finally:
        sentinel.close()


def test_sentinels_with_a_password(sentinels, quredisd, handler, ledger, tmp):
    """The Sentinels' password is not Redis'."""
    watched = sentinels(server_options={"config": {"requirepass": "of-redis", "masterauth": "of-redis"}}, sentinel_config={
        "requirepass": "of-sentinel", "sentinel": "sentinel-pass of-sentinel"}, servers=1, sentinels=1)
    for name, text in (("p", "of-redis\n"), ("sp", "of-sentinel\n")):
        (tmp / name).write_text(text)
        (tmp / name).chmod(0o600)
    d = quredisd(redis={**watched.redis(), "password_file": tmp / "p", "sentinel_password_file": tmp / "sp"}, queues=[queue("mail", handler(NOTE))])
    watched.servers[0].client().lpush("ingress:mail", "m")
    wait_for(lambda: ended(ledger, ["m"]), 30)
    assert d.quredis("ls").code == 0
    (tmp / "sp").write_text("wrong\n")
    refused = d.quredis("ls")
    assert refused.code != 0 and "Sentinel 127.0.0.1" in refused.err and "WRONGPASS" in refused.err, refused
    watched.sentinels[0].kill9()
    assert "redis.sentinels and redis.master are right" in d.quredis("doctor").out


def test_sentinels_and_redis_over_tls(redis_server, quredisd, handler, ledger, tmp, tag):
    """With rediss:// both are verified: a certificate of another CA is refused, of the Sentinel and of Redis."""
    ca, other = Authority(tmp / "ca"), Authority(tmp / "other")
    certificate = ca.sign("server", "IP:127.0.0.1")
    server = redis_server(tls=certificate, config={"tls-ca-cert-file": ca.cert})
    sentinel = Sentinel(tmp / "sentinel", tag=tag, tls=(ca, certificate))
    try:
        sentinel.start("mail", server, 1)
        group = {"url": "rediss:///0", "sentinels": [sentinel.address], "master": "mail", "ca_file": ca.cert}
        d = quredisd(redis=group, queues=[queue("mail", handler(NOTE))])
        server.client().lpush("ingress:mail", "m")
        wait_for(lambda: ended(ledger, ["m"]), 30)
        d.write_conf(redis={**group, "ca_file": other.cert})
        refused = d.quredis("ls")
        assert refused.code == 69 and "Sentinel 127.0.0.1" in refused.err and "certificate" in refused.err, refused
        server.present(other.sign("server", "IP:127.0.0.1"))
        d.write_conf(redis=group)
        refused = d.quredis("ls")
        assert refused.code == 69 and "Sentinel" not in refused.err and "certificate" in refused.err, refused
        d.write_conf(redis={**group, "sentinel_tls": False})
        assert "redis.sentinel_tls = false: anyone who can redirect" in d.check().stderr
        rows = [r for r in json.loads(d.quredis("doctor", "--json").out) if "redis.sentinel_tls = false" in r["what"]]
        assert [r["severity"] for r in rows] == ["warning"]
    finally:
        sentinel.close()
