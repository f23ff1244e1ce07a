"""quredis doctor: Redis, what it promises, and the registry."""
import json
import os
import subprocess

import pytest

from harness import wait_for
from harness.queues import Queue



# ---- Redis ----

def test_redis_away(clinic):
    clinic.server.stop()
    r = clinic.doctor()
    assert r.code == 69
    row = r.one("redis", "error", "it cannot be reached", where=clinic.server.url)
    assert clinic.server.url not in row["what"] and "check that it runs" in row["advice"]
    r.good("handlers")
    assert not [x for x in r.rows if x["check"] in ("types", "lost", "eviction")]


def test_redis_that_goes_away_meanwhile(clinic, redis_proxy):
    proxy = redis_proxy(clinic.server)
    proxy.lose_reply(b"MATCH")
    clinic.registered()
    r = clinic.doctor("-u", proxy.url)
    assert r.code == 69
    r.one("keys", "error", "the check failed", advice="run doctor again when Redis is back")
    assert not [x for x in r.rows if x["check"] in ("lost", "records")]


def test_redis_password(clinic, redis_server):
    r = clinic.doctor("-u", f"redis://:s3cret@127.0.0.1:{redis_server(tcp=True).port}")
    r.one("redis", "error", "it refuses this user", "without any password configured", advice="redis.password_file")
    clinic.server.config_set("requirepass", "s3cret")
    r = clinic.doctor()
    r.one("redis", "error", "it refuses this user", "NOAUTH", advice="redis.password_file")
    assert r.code == 2


def test_redis_that_hides_info(clinic):
    clinic.registered()
    clinic.client.execute_command("ACL", "SETUSER", "default", "-info")
    r = clinic.doctor()
    clinic.client.execute_command("ACL", "SETUSER", "default", "+info")
    r.one("redis", "note", "the Redis user default lacks INFO", advice="ACL SETUSER default +info")
    assert not [x for x in r.rows if x["check"] in ("version", "eviction", "memory", "persistence", "writes", "clients")]
    r.good("lost")


def test_role_replica(clinic):
    clinic.client.execute_command("REPLICAOF", "127.0.0.1", "1")
    r = clinic.doctor()
    r.one("redis", "error", "replica", advice="master")
    assert r.code == 2


def test_role_with_replicas(clinic, redis_server, edited):
    url = edited(rb"connected_slaves:0", b"connected_slaves:2")
    clinic.registered()
    clinic.doctor("-u", url).one("role", "note", "min-replicas-to-write is 0, with 2 replicas", advice="min-replicas-to-write 1")
    clinic.server.config_set("min-replicas-to-write", "1")
    assert clinic.doctor("-u", url).bad("role") == []


def test_version(clinic, edited):
    r = clinic.doctor("-u", edited(rb"redis_version:[\d.]+", b"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1"))
    assert next(x["what"] for x in r.rows if x["check"] == "version") == "Valkey 8.0.1, compatible with Redis 7.2.4"


def test_eviction(clinic):
    clinic.server.config_set("maxmemory-policy", "volatile-ttl")
    clinic.doctor().one("eviction", "error", "maxmemory-policy is volatile-ttl", "quredisd runs no queue", advice="noeviction")
    clinic.configure(redis={"url": clinic.server.url, "allow_eviction": True})
    clinic.doctor().one("eviction", "warning", "redis.allow_eviction accepts", advice="noeviction")


def test_a_full_server_is_no_lack_of_rights(clinic):
    clinic.server.config_set("maxmemory", clinic.client.info("memory")["used_memory"] // 2)
    r = clinic.doctor()
    r.one("memory", "error", "it is full", "refuses producers", advice="quredis ls")
    r.good("rights")


def test_commands_for_redis_are_whole(clinic, redis_server):
    """They name the server that was checked, and run as they are printed."""
    clinic.server.config_set("appendonly", "no")
    advice = clinic.doctor().one("persistence", "warning")["advice"]
    first, second, rest = advice.split("; ")
    assert (first, second) == tuple(f"redis-cli -s {clinic.server.socket} CONFIG SET {s}" for s in ("appendonly yes", "appendfsync always")), advice
    assert subprocess.run(first, shell=True, capture_output=True, text=True).stdout == "OK\n"
    server = redis_server(tcp=True)
    clinic.doctor("-u", server.tcp_url).one("persistence", "warning", advice=f"redis-cli -h 127.0.0.1 -p {server.port} CONFIG SET appendonly yes; ")


def test_commands_for_redis_name_the_server_that_answered(clinic, redis_server):
    """Of several addresses the one that is connected; redis-cli takes IPv6 without brackets. A shell does not expand the user."""
    server = redis_server(tcp=True, config={"bind": "127.0.0.1 ::1"})
    server.client().execute_command("ACL", "SETUSER", "on$call", "on", "nopass", "allkeys", "allcommands", "allchannels")
    url = f"redis://on$call:x@[::1]:{server.port},[::1]:1"
    command = clinic.doctor("-u", url).one("persistence", "warning")["advice"].split("; ")[0]
    assert command == f"redis-cli -h ::1 -p {server.port} --user 'on$call' --askpass CONFIG SET appendonly yes"


def test_persistence_that_cannot_be_read(clinic):
    clinic.client.execute_command("ACL", "SETUSER", "default", "-config")
    r = clinic.doctor()
    clinic.client.execute_command("ACL", "SETUSER", "default", "+config")
    r.one("persistence", "note", "appendfsync cannot be read", advice="ACL SETUSER default +config|get")


@pytest.mark.parametrize("right", ["config", "config|set"])
def test_settings_that_this_user_may_not_change(clinic, edited, right):
    """A right that an administrator of Redis can grant is no service: the advice stays, for a user that has the right."""
    replicas = edited(rb"connected_slaves:0", b"connected_slaves:2")
    clinic.registered()
    clinic.client.config_set("maxmemory-policy", "volatile-ttl")
    clinic.client.config_set("appendonly", "no")
    ours = clinic.doctor("-u", replicas)
    clinic.client.execute_command("ACL", "SETUSER", "default", f"-{right}")
    limited = clinic.doctor("-u", replicas)
    clinic.client.execute_command("ACL", "SETUSER", "default", "+config")
    checks = {"eviction", "persistence"} | ({"role"} if right == "config|set" else set())     # without CONFIG GET the least number of replicas is unknown
    for check in checks:
        assert ours.one(check, ours.bad(check)[0]["severity"], advice="CONFIG SET")
        assert limited.one(check, ours.bad(check)[0]["severity"], advice="the Redis user default lacks CONFIG SET; with a user that has it: redis-cli ")
    assert "this setting is the service's" not in str(limited.rows)


def test_a_user_that_lacks_config_is_not_in_the_command(clinic, redis_server):
    server = redis_server(tcp=True)
    server.client().execute_command("ACL", "SETUSER", "limited", "on", ">x", "~*", "+@all", "-config|set")
    advice = clinic.doctor("-u", f"redis://limited:x@127.0.0.1:{server.port}").one("persistence", "warning")["advice"]
    assert f"with a user that has it: redis-cli -h 127.0.0.1 -p {server.port} CONFIG SET appendonly yes; " in advice


def test_settings_of_a_service(clinic, redis_server):
    """Where the server lacks CONFIG, nothing advises CONFIG SET: no user has it."""
    server = redis_server(refuse=["CONFIG"], config={"maxmemory-policy": "volatile-ttl"})
    r = clinic.doctor("-u", server.url)
    for check, severity in (("eviction", "error"), ("persistence", "warning")):
        r.one(check, severity, advice="this setting is the service's, which refuses CONFIG")
    assert "CONFIG SET" not in " ".join(r["advice"] or "" for r in r.rows)
    assert r.one("commands", "note", "it refuses CONFIG", advice="settings of the service")


def test_commands_that_this_user_lacks(clinic):
    clinic.doctor().good("commands")
    clinic.client.execute_command("ACL", "SETUSER", "default", "-config", "-client", "-role", "-memory")
    r = clinic.doctor()
    clinic.client.execute_command("ACL", "SETUSER", "default", "+@all")
    found = {x["what"].split(":")[0]: x for x in r.bad("commands")}
    lacks = "the Redis user default lacks "
    assert sorted(found) == [lacks + x for x in ("CLIENT", "CONFIG", "MEMORY", "ROLE")] and {x["severity"] for x in found.values()} == {"note"}
    assert "appendfsync" in found[lacks + "CONFIG"]["what"] and found[lacks + "CONFIG"]["advice"].startswith("ACL SETUSER default +config|get; ")
    assert found[lacks + "MEMORY"]["advice"].startswith("ACL SETUSER default +memory|usage; ")


def test_writes(clinic):
    os.mkdir(clinic.server.dir / "dump.rdb")
    clinic.client.bgsave()
    wait_for(lambda: clinic.client.info("persistence")["rdb_last_bgsave_status"] == "err")
    clinic.doctor().one("writes", "error", "its last snapshot failed", advice="full disk")


def test_answers(clinic):
    """Redis closes a connection rather than send a message that is longer than these limits."""
    clinic.doctor().good("answers")
    clinic.server.config_set("client-output-buffer-limit", "normal 1048576 0 0")
    rows = clinic.doctor().bad("answers")
    assert rows and all("message_max is 8388608" in r["what"] and "client-output-buffer-limit of Redis is 1048576" in r["what"] for r in rows), rows
    clinic.server.config_set("client-output-buffer-limit", "normal 16777216 0 0")
    clinic.doctor().good("answers")


def test_clock(clinic, shim):
    clinic.doctor(env={**shim, "LIE_CLOCK": "20"}).one("clock", "note", "its clock is", "behind this host's", advice="NTP")
    clinic.doctor(env={**shim, "LIE_CLOCK": "-4000"}).one("clock", "warning", "ahead of this host's")
    clinic.doctor(env=shim).good("clock")


# ---- the registry ----

def test_registry_without_the_queue(clinic):
    r = clinic.doctor()
    row = r.one("registry", "warning", "not in the registry", advice="quredis doctor --fix")
    assert row["queue"] == "mail" and row["fixable"] and not row["fixed"] and not clinic.client.exists("quredis:queues")
    r = clinic.doctor("--fix")
    assert r.bad("registry")[0]["fixed"] and "1 fixed" in r.err
    clinic.doctor().good("registry")
    assert json.loads(clinic.client.get("quredis:queue:mail")) == {
        "name": "mail", "ingress": "ingress:mail", "transit": "transit:mail", "escape": "escape:mail"}
    assert clinic.client.zrange("quredis:queues", 0, -1) == [b"mail"]


@pytest.mark.parametrize("garbage", [b"", b"[1]", b'{"ingress": 3}', b"\xff\0", b'{"ingress":"a"'])
def test_registry_garbage(clinic, garbage):
    clinic.registered()
    clinic.client.set("quredis:queue:mail", garbage)
    clinic.client.zadd("quredis:queues", {"other": 1})
    clinic.client.set("quredis:queue:other", garbage)
    rows = {r["where"]: r for r in clinic.doctor().bad("registry")}
    assert rows["quredis:queue:mail"]["fixable"] and "cannot be read" in rows["quredis:queue:mail"]["what"]
    assert not rows["quredis:queue:other"]["fixable"] and "ZREM" in rows["quredis:queue:other"]["advice"]
    assert clinic.run("--fix").code == 1
    assert {r["where"] for r in clinic.doctor().bad("registry")} == {"quredis:queue:other"}


def test_registry_with_other_lists(clinic):
    clinic.registered(ingress="in:mail", transit="tr:mail", escape="ou:mail")
    clinic.doctor().one("registry", "warning", "names other lists (in:mail, tr:mail, ou:mail)", "they are empty", advice="--fix")
    clinic.client.lpush("in:mail", "a", "b")
    row = clinic.doctor("--fix").one("registry", "error", "they hold messages or workers: 2", advice="empty the old ones")
    assert not row["fixable"] and b"in:mail" in clinic.client.get("quredis:queue:mail")
    clinic.client.delete("in:mail")
    clinic.doctor("--fix")
    clinic.doctor().good("registry")


def test_registry_names(clinic):
    clinic.registered()
    clinic.client.zadd("quredis:queues", {"": 1, b"a\0b": 1, "x" * 65: 1, "a b": 1, "lost": 1})
    rows = clinic.doctor().bad("registry")
    assert len(rows) == 5 and all(r["severity"] == "warning" for r in rows)
    assert sum("not a valid name of a queue" in r["what"] for r in rows) == 4
    assert "no entry for it" in next(r["what"] for r in rows if r["where"] == "quredis:queue:lost")


def test_registry_of_a_renamed_queue(clinic):
    clinic.registered()
    Queue(clinic.client, "post", "ingress:mail", "transit:mail", "escape:mail")
    row = clinic.doctor().one("registry", "warning", "it has the same lists as mail", advice="do not destroy it")
    assert row["queue"] == "post" and "ZREM quredis:queues post" in row["advice"]


def test_registry_of_another_type(clinic):
    clinic.client.set("quredis:queues", "x")
    rows = clinic.doctor().bad("registry")
    assert any(r["severity"] == "error" and "WRONGTYPE" in r["what"] and r["where"] == "quredis:queues" for r in rows)
