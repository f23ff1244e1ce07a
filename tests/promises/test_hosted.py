"""Hosted services refuse commands: the work goes on without those that quredis can do without, and an error names one that it needs."""
import json
import signal

import pytest

from harness import queue, wait_for
from harness.control import status
from harness.messages import in_transit, stray_keys

REFUSED = ["CONFIG", "CLIENT", "ROLE", "CLUSTER", "COMMAND", "MONITOR", "BRPOPLPUSH", "SELECT"]

FAILING = """
read -r m
echo "$m" >>@LEDGER@
case $m in
bad*) exit 1 ;;
once* | large*) [ "$QUREDIS_ATTEMPT" -gt 1 ] || exit 75 ;;
esac
"""
TROUBLE = ("redis_error", "queue_error", "registry_error", "secret_error", "redis_down")


def refusing(how, *commands):
    """Arguments of a server that does not have these commands, or whose access list refuses them."""
    return {"refuse": commands} if how == "removed" else {"deny": [x.lower() for x in commands]}


@pytest.fixture(params=["removed", "denied"])
def service(request, redis_server):
    return redis_server(aof="always", **refusing(request.param, *REFUSED))


@pytest.fixture
def d(service, quredisd, handler):
    queues = [queue("mail", handler(FAILING), max_attempts=3, backoff={"base": "50ms"}, ttl="1h", done={"keep": 100},
                    dead_letter={"forward_to": "other", "ttl": "1h", "discard": True}),
              queue("other", handler("cat >/dev/null; exit 65"), workers=0),
              queue("shared", handler("cat >/dev/null; exit 1"), shared=True)]
    return quredisd(redis=service, queues=queues, supervisor={"lease": "1s"},
                    health={"enabled": True, "interval": "1s"}, purge={"enabled": True, "interval": "1s"})


def run(d, *command):
    r = d.quredis(*command)
    assert r.code == 0, r
    return r.out


def trouble(d):
    return [e for e in d.events() if e["event"] in TROUBLE]


def test_every_move(service, d, ledger):
    c = service.client()
    run(d, "push", "mail", "good")
    run(d, "push", "mail", "once")
    run(d, "push", "mail", "bad")
    run(d, "push", "mail", "--delay", "1s", "later")
    assert d.quredis("push", "mail", input="large" + "x" * 200000).code == 0
    c.lpush("ingress:shared", "s")
    wait_for(lambda: sorted(set(m[:5] for m in ledger.lines())) == ["bad", "good", "large", "later", "once"], 30)
    wait_for(lambda: c.llen("escape:mail") == 1 and c.llen("escape:shared") == 1 and c.llen("ingress:other") == 1, 30, what="escape and forward_to")
    wait_for(lambda: json.loads(run(d, "stats", "mail", "--json"))["counters"]["done"] == 4, 30)
    assert ledger.lines().count("once") == 2 and ledger.lines().count("bad") == 3
    run(d, "dlq", "retry", "mail", "--all", "--yes")
    wait_for(lambda: ledger.lines().count("bad") == 6 and c.llen("escape:mail") == 1, 30)
    run(d, "pause", "mail")
    wait_for(lambda: status(d)["queues"][0]["state"] == "paused", 20, "the workers to pause")
    run(d, "push", "mail", "waits")
    run(d, "purge", "mail", "ingress", "--yes")
    run(d, "resume", "mail")
    for command in ("stale", "health", "nodes", "ls"):
        run(d, command)
    assert c.llen("ingress:mail") == 0 and "waits" not in ledger.lines()
    assert stray_keys(c, "mail", "other", "shared") == [] and trouble(d) == []
    d.reload()
    run(d, "push", "mail", "reloaded")
    wait_for(lambda: "reloaded" in ledger.lines(), 30)
    assert d.stop() == 0 and trouble(d) == []


@pytest.mark.parametrize("how", ["removed", "denied"])
def test_a_killed_supervisor_and_a_restarted_server_lose_nothing(redis_server, quredisd, handler, ledger, tmp, how):
    """A server without SELECT cannot read its own append-only file."""
    service = redis_server(aof="always", **refusing(how, *(x for x in REFUSED if x != "SELECT")))
    c = service.client()
    d = quredisd(redis=service, queues=[queue("mail", handler("read -r m; echo $m >>@LEDGER@; [ -e @TMP@/go ] || exec sleep 60"), workers=2)],
                 supervisor={"lease": "1s"})
    c.lpush("ingress:mail", "a", "b", "c")
    wait_for(lambda: len(ledger.lines()) == 2)
    d.kill_tree()
    (tmp / "go").touch()
    service.restart()
    d.start()
    wait_for(lambda: set(ledger.lines()) == {"a", "b", "c"} and not in_transit(service.client(), "mail"), 60)
    assert service.client().llen("ingress:mail") == 0 and d.stop() == 0


def test_a_stop_ends_when_the_blocked_fetch_ends(service, quredisd, ledger):
    """CLIENT UNBLOCK is refused, so the worker waits for the end of its fetch: at most two seconds."""
    d = quredisd(redis=service, queues=[queue("mail", ledger.recorder())])
    d.wait_event("queue_recovered", queue="mail")
    c = service.client()
    wait_for(lambda: c.info("clients")["blocked_clients"] == 1, 20, "the worker to fetch")
    d.signal(signal.SIGTERM)
    assert d.wait_exit() == 0 and trouble(d) == []
    assert not service.client().exists("transit:mail:workers")


def errors(d, *checks):
    return [x for x in json.loads(d.quredis("doctor", "--json").out) if x["severity"] == "error" and x["check"] in checks]


SAID = {"removed": "it refuses", "denied": "the Redis user default lacks"}


def shown(d):
    return [(q["state"], q["reason"]) for q in status(d)["queues"]]


REASONS = {"removed": ("error", "Redis refuses %s, which quredis needs: this server lacks it or has renamed it"),
           "denied": ("error", "Redis does not permit this user %s: ACL SETUSER")}


@pytest.mark.parametrize("how", ["removed", "denied"])
def test_a_service_without_streams_is_named_by_its_missing_command(redis_server, quredisd, ledger, how):
    service = redis_server(**refusing(how, "XADD"))
    d = quredisd(redis=service, queues=[queue("mail", ledger.recorder())])
    state, reason = REASONS[how]
    wait_for(lambda: [r for _, r in shown(d)] == [reason % "XADD"], 20)
    e = d.wait_event("queue_error", queue="mail")
    assert "write the record" in e["error"] and "quredis needs XADD" in e["advice"]
    found = errors(d, "rights")
    assert len(found) == 1 and "write the record" in found[0]["what"] and "quredis needs XADD" in found[0]["advice"], found
    assert reason % "XADD" in d.quredis("status").out + d.quredis("doctor").out


@pytest.mark.parametrize("how", ["removed", "denied"])
def test_a_service_without_scripts_is_named_by_its_missing_command(redis_server, quredisd, ledger, how):
    service = redis_server(**refusing(how, "SCRIPT"))
    d = quredisd(redis=service, queues=[queue("mail", ledger.recorder())])
    # while the command is denied, the time of the next attempt follows
    wait_for(lambda: [r.partition("; next attempt")[0] for _, r in shown(d)] == [REASONS[how][1] % "SCRIPT"], 20)
    assert "quredis needs SCRIPT" in d.wait_event("redis_down")["advice"] and "quredis needs SCRIPT" in d.wait_event("redis_error")["advice"]
    r = d.quredis("ls")
    assert r.code == 77 and "quredis needs SCRIPT" in r.err, r
    assert "SCRIPT" in errors(d, "redis")[0]["what"]


def test_a_command_that_is_refused_later_is_named(redis, quredisd, ledger):
    """Of a script, also by Redis 7.0, which names only the line."""
    d = quredisd(queues=[queue("mail", ledger.recorder())], health={"enabled": True, "interval": "1s"})
    d.wait_event("queue_recovered", queue="mail")
    redis.client().execute_command("ACL SETUSER", "default", "-lpush")
    run(d, "push", "mail", "--delay", "1s", "later")
    wait_for(lambda: shown(d) == [("error", REASONS["denied"][1] % "LPUSH")], 30)
    wait_for(lambda: REASONS["denied"][1] % "LPUSH" in d.quredis("health", "--json").out, 30)
    redis.client().execute_command("ACL SETUSER", "default", "-zadd")
    r = d.quredis("push", "mail", "--delay", "1s", "never")
    assert r.code == 77 and "quredis needs ZADD: grant it to the Redis user with ACL SETUSER" in r.err, r
    redis.client().execute_command("ACL SETUSER", "default", "+lpush")
    wait_for(lambda: len(ledger.lines()) == 1 and shown(d)[0][0] == "running", 60)


def test_doctor_says_what_cannot_be_known(service, d, request):
    said = SAID[request.node.callspec.params["service"]]
    rows = json.loads(d.quredis("doctor", "--json").out)
    assert [x for x in rows if x["severity"] == "error"] == []
    notes = [x["what"] for x in rows if x["check"] == "commands"]
    assert [x.split(":")[0] for x in notes] == [f"{said} {x}" for x in ("CLIENT", "CONFIG", "ROLE")], notes
    assert any("appendfsync cannot be read" in x["what"] for x in rows if x["check"] == "persistence")


@pytest.mark.parametrize("how", ["removed", "denied"])
def test_doctor_names_what_a_service_lacks(redis_server, quredisd, ledger, how):
    service = redis_server(**refusing(how, "XADD", "BRPOPLPUSH", "BLMOVE"))
    d = quredisd(redis=service, queues=[queue("mail", ledger.recorder())])
    found = errors(d, "commands", "rights")
    said = [x["what"] for x in found if x["check"] == "commands"]
    assert said[-1] == f"{SAID[how]} BRPOPLPUSH and BLMOVE, of which quredis needs one to fetch", found
    assert ("use a service" in str(found)) == (how == "removed"), found
    if how == "removed":                        # the access list counts only for a whole command, as the check "rights" sends it
        assert said[0] == "it refuses XADD, which quredis needs", found
    assert any(x["check"] == "rights" for x in found)


@pytest.mark.parametrize("how", ["removed", "denied"])
def test_a_replica_that_refuses_role_is_found_by_its_info(redis_server, quredis, how):
    """It takes writes, which the next synchronization deletes."""
    master, replica = redis_server(tcp=True), redis_server(tcp=True, config={"replica-read-only": "no"}, **refusing(how, "ROLE"))
    assert quredis("ls", url=replica.url).code == 0        # still a master
    replica.follow(master)
    r = quredis("ls", url=replica.url)
    assert r.code == 69 and "the server is a replica, not a master" in r.err, r


@pytest.mark.parametrize("how", ["removed", "denied", "one database"])
def test_a_database_is_an_error_that_says_so(redis_server, quredisd, ledger, how):
    service = redis_server(config={"databases": "1"}) if how == "one database" else redis_server(**refusing(how, "SELECT"))
    d = quredisd(redis={"url": service.url + "?db=3"}, queues=[queue("mail", ledger.recorder())])
    refused = "Redis refuses SELECT: write no database into redis.url"
    wait_for(lambda: [r.split("; next attempt in")[0] for _, r in shown(d) if r] == [refused], 20)
    e = d.wait_event("redis_down")
    assert "database 3, which redis.url names" in e["reason"] and "use database 0" in e["advice"]
    r = d.quredis("ls")
    assert r.code == 77 and "database 3" in r.err and "use database 0" in r.err, r
    assert "use database 0" in errors(d, "redis")[0]["advice"]


@pytest.mark.parametrize("how", ["removed", "denied"])
def test_a_service_without_info_works(redis_server, quredisd, handler, ledger, how):
    service = redis_server(**refusing(how, "INFO", "ROLE", "CONFIG", "CLIENT"))
    d = quredisd(redis=service, queues=[queue("mail", handler(FAILING), max_attempts=3, backoff={"base": "50ms"})], supervisor={"lease": "1s"})
    run(d, "push", "mail", "once")
    run(d, "push", "mail", "bad")
    wait_for(lambda: ledger.lines().count("once") == 2 and service.client().llen("escape:mail") == 1, 30)
    assert d.wait_event("redis_policy_unknown") and d.wait_event("redis_run_id_unknown") and errors(d, "commands", "redis", "rights") == []
    assert d.stop() == 0 and trouble(d) == []
