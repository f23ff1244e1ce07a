"""Refusals of the server: memory, types, policies, rights. Each is reported clearly, loses no message, and ends when the cause is corrected."""
import collections
import os
import re
import signal

import pytest

from harness import queue, wait_for
from harness.control import status
from harness.messages import anywhere, in_transit, unwrap

NOTE = 'read -r m; echo "$m" >>@LEDGER@; case $m in fail*) exit 1;; again*) [ "$QUREDIS_ATTEMPT" -gt 1 ] || exit 75;; esac'
QUICK = {"base": "1ms", "cap": "5ms"}


def counts(ledger):
    return collections.Counter(ledger.lines())


def fill(server):
    """At maxmemory, whatever is freed: everything that Redis refuses at maxmemory is refused."""
    c = server.client()
    c.set("junk", b"x" * (4 << 20))
    c.config_set("maxmemory-policy", "noeviction")
    c.config_set("maxmemory", "1mb")


def mend(server):
    server.client().config_set("maxmemory", "0")


def test_maxmemory_while_running(redis, quredisd, handler, ledger):
    c = redis.client()
    names = [f"m{i}" for i in range(60)] + [f"fail{i}" for i in range(20)] + [f"again{i}" for i in range(20)]
    d = quredisd(queues=[queue("mail", handler(NOTE), workers=3, max_attempts=1, backoff=QUICK)], supervisor={"lease": "1s"})
    d.wait_workers("mail", 3)
    workers = d.workers("mail")
    d.quredis("pause", "mail")
    c.lpush("ingress:mail", *names)
    fill(redis)
    assert d.quredis("resume", "mail").code == 0
    wait_for(lambda: c.llen("escape:mail") == 20 and not anywhere(c, "mail"), 60, "everything settled at maxmemory")
    with pytest.raises(Exception, match="OOM|maxmemory"):       # redis-py 4, 6
        c.lpush("ingress:mail", "refused")
    trouble = d.wait_event("redis_error", 20)
    assert "OOM" in trouble["error"]
    mend(redis)
    c.lpush("ingress:mail", "after")
    wait_for(lambda: ledger.count("after"), 30)
    assert counts(ledger) == collections.Counter({**{n: 2 if n.startswith("again") else 1 for n in names}, "after": 1})
    assert d.workers("mail") == workers and len(d.events("redis_error")) < 30       # one line a change


def test_start_at_maxmemory(redis, quredisd, handler, ledger):
    c = redis.client()
    c.lpush("ingress:mail", "a", "b")
    c.lpush("transit:mail", "left by a plain consumer")
    fill(redis)
    d = quredisd(queues=[queue("mail", handler(NOTE))], wait=False)
    wait_for(lambda: len(ledger.lines()) == 3 and not anywhere(c, "mail"), 60)
    mend(redis)
    c.lpush("ingress:mail", "c")
    wait_for(lambda: ledger.count("c"))
    assert counts(ledger) == collections.Counter(["a", "b", "c", "left by a plain consumer"]) and d.running()


def test_full_and_restarted(redis_server, quredisd, handler, ledger):
    """Full, and the connections are lost: registration of new incarnations is not refused."""
    server = redis_server()
    c = server.client()
    d = quredisd(redis=server, queues=[queue("mail", handler(NOTE), workers=2)])
    workers = d.wait_workers("mail", 2)
    fill(server)
    c.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    c.config_set("maxmemory", "0")
    c.lpush("ingress:mail", *"abcdef")
    c.config_set("maxmemory", "1mb")
    wait_for(lambda: counts(ledger) == collections.Counter("abcdef") and not in_transit(c, "mail"), 40)
    assert d.workers("mail") == workers


# key -> value of a wrong type
WRONG = {
    "ingress:mail": ("set", "x"), "escape:mail": ("set", "x"), "escape:mail:log": ("set", "x"),
    "quredis:of:ingress:mail:delayed": ("set", "x"), "transit:mail:workers": ("set", "x"), "transit:mail": ("set", "x"),
    "quredis:of:ingress:mail:sweeper": ("lpush", "x"), "quredis:queues": ("set", "x"), "quredis:queue:mail": ("lpush", "x"),
}


@pytest.mark.parametrize("when", ["before", "during"])
@pytest.mark.parametrize("key", WRONG)
def test_wrong_types(redis, quredisd, handler, ledger, key, when):
    c = redis.client()
    sick = ["fine", "fail", "again"]
    options = dict(queues=[queue("mail", handler(NOTE), workers=2, backoff=QUICK), queue("news", handler(NOTE))],
                   supervisor={"lease": "1s"})
    if when == "during":
        d = quredisd(**options)
        d.wait_workers("mail", 2)
    both = c.pipeline()             # in one step: the sweeper may be writing the key just now
    both.delete(key)
    getattr(both, WRONG[key][0])(key, WRONG[key][1])
    both.execute()
    if when == "before":
        d = quredisd(wait=False, **options)
    if key != "ingress:mail":
        c.lpush("ingress:mail", *sick)
    c.lpush("ingress:news", "news")
    wait_for(lambda: ledger.count("news"), 40, "the other queue to work")
    # said so, with what to mend: if this key matters at all to what is done
    harmless = key in ("quredis:queue:mail", "quredis:of:ingress:mail:sweeper") or (when == "during" and key in (
        "transit:mail", "quredis:queues", "transit:mail:workers"))
    if not harmless:
        def told():
            return [e for e in d.events() if e.get("level") in ("warning", "error")
                    and ("WRONGTYPE" in str(e) or "type" in e.get("error", "") + e.get("advice", ""))]
        line = wait_for(told, 30, "a line about the wrong type")[0]
        print(f"\n{key}: {line}")
        assert "mail" in str(line) or key.startswith("quredis:queues")
    c.delete(key)
    if key == "ingress:mail":
        c.lpush("ingress:mail", *sick)
    wait_for(lambda: not anywhere(c, "mail") and c.lrange("escape:mail", 0, -1) == [b"fail"], 60, "it heals")
    runs = counts(ledger)
    assert runs["fine"] == 1 and runs["again"] == 2 and runs["fail"] == 1
    assert d.running()


def test_the_end_of_a_workers_error_leaves_the_sweepers(redis, quredisd, handler, ledger):
    """Status shows the sweeper's error as long as it lasts, whatever becomes of a worker's connection."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler(NOTE))])
    d.wait_event("queue_recovered", queue="mail")
    wrong = "one of its keys has the wrong type"
    c.set("quredis:of:ingress:mail:delayed", "x")
    wait_for(lambda: (status(d, "mail")["reason"] or "").startswith(wrong), 30)
    worker = [x["id"] for x in c.client_list() if ":mail/" in x["name"]]
    assert worker
    for n in worker:
        c.client_kill_filter(_id=n)
    d.wait_event("redis_error", queue="mail")
    d.wait_event("redis_error_cleared", queue="mail")
    assert status(d, "mail")["reason"].startswith(wrong)
    c.delete("quredis:of:ingress:mail:delayed")
    wait_for(lambda: status(d, "mail")["reason"] is None, 30)


def test_a_dead_worker_leaves_no_error(redis, quredisd, handler, ledger):
    """Its error cannot end by itself any more."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler(NOTE))])
    workers = d.wait_workers("mail", 1)
    wait_for(lambda: [x for x in c.client_list() if x["cmd"] in ("brpoplpush", "blmove")], 30, "the worker to fetch")
    c.set("ingress:mail", "x")
    for client in [x["id"] for x in c.client_list() if ":mail/" in x["name"]]:      # it fetches anew
        c.client_kill_filter(_id=client)
    d.wait_event("redis_error", queue="mail", at="fetch")
    for pid in workers.values():
        os.kill(pid, signal.SIGSTOP)
    c.delete("ingress:mail")
    for pid in workers.values():
        os.kill(pid, signal.SIGKILL)
    c.lpush("ingress:mail", "fine")
    wait_for(lambda: ledger.count("fine"), 30)
    wait_for(lambda: status(d, "mail")["state"] == "running", 30)


def test_the_end_of_one_workers_error_leaves_anothers(redis, quredisd, handler, ledger):
    """Each worker reports its own error: the queue has none only when no worker has one."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler(NOTE), workers=2)])
    workers = d.wait_workers("mail", 2)
    wait_for(lambda: len([x for x in c.client_list() if x["cmd"] in ("brpoplpush", "blmove")]) == 2, 30, "both workers to fetch")
    c.set("ingress:mail", "x")
    for client in [x["id"] for x in c.client_list() if ":mail/" in x["name"]]:      # they fetch anew
        c.client_kill_filter(_id=client)
    for worker in workers:
        d.wait_event("redis_error", queue="mail", worker=worker, at="fetch")
    os.kill(workers["mail/0"], signal.SIGSTOP)
    c.delete("ingress:mail")
    c.lpush("ingress:mail", "fine")
    wait_for(lambda: ledger.count("fine"), 30)
    d.wait_event("redis_error_cleared", queue="mail", worker="mail/1")
    wait_for(lambda: len(d.events("queue_error_cleared")) == len(d.events("queue_error")), 30, "no error of the sweeper is left")
    assert status(d, "mail")["reason"].startswith("one of its keys has the wrong type")
    os.kill(workers["mail/0"], signal.SIGCONT)
    wait_for(lambda: status(d, "mail")["state"] == "running", 30)


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
def test_an_evicting_policy_is_refused_until_mended(redis_server, quredisd, handler, ledger, policy):
    server = redis_server(config={"maxmemory-policy": policy, "maxmemory": "500mb"})
    c = server.client()
    c.lpush("ingress:mail", "a")
    d = quredisd(redis=server, queues=[queue("mail", handler(NOTE))], wait=False)

    def told():
        return [e for e in d.events() if e.get("level") in ("warning", "error") and policy in str(e)]
    line = wait_for(told, 30, "a line that names the policy")[0]
    print(f"\n{line}")
    assert "noeviction" in str(line)
    assert ledger.lines() == [] and c.llen("ingress:mail") == 1
    c.config_set("maxmemory-policy", "noeviction")
    wait_for(lambda: ledger.count("a"), 60, "it heals")


def test_an_evicting_policy_can_be_accepted(redis_server, quredisd, handler, ledger):
    server = redis_server(config={"maxmemory-policy": "allkeys-lru", "maxmemory": "500mb"})
    server.client().lpush("ingress:mail", "a")
    quredisd(redis={"url": server.url, "allow_eviction": True}, queues=[queue("mail", handler(NOTE))])
    wait_for(lambda: ledger.count("a"))


def test_password_missing_and_wrong(redis_server, quredisd, handler, ledger, tmp):
    server = redis_server(config={"requirepass": "secret word"})
    server.client().lpush("ingress:mail", "a")
    d = quredisd(redis=server, queues=[queue("mail", handler(NOTE))], wait=False)
    line = d.wait_event("redis_error", 30)
    assert "NOAUTH" in line["error"] and "password_file" in line.get("advice", "")
    password = tmp / "pass"
    password.write_text("secret word\n")
    password.chmod(0o600)
    d.reload(redis={"url": server.url, "password_file": password})
    wait_for(lambda: ledger.count("a"), 60)
    assert "secret word" not in d.text()


def rejected(client, command):
    return client.info("commandstats").get(f"cmdstat_{command}", {}).get("rejected_calls", 0)


@pytest.mark.parametrize("message, right", [("fail", "lrem"), ("again", "lrem"), ("again", "zremrangebyrank"), ("fail", "lpush"),
                                            ("again", "zadd")])
def test_a_right_is_missing(redis, quredisd, handler, ledger, message, right):
    """Taken away while running. However often a move is tried without it, it leaves no copies."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler(NOTE), backoff=QUICK)])
    workers = d.wait_workers("mail", 1)
    d.wait_event("queue_recovered", queue="mail")       # which tries every right
    with c.pipeline(transaction=False) as at_once:      # else the handler may end before the right is gone
        at_once.lpush("ingress:mail", message)
        at_once.execute_command("ACL", "SETUSER", "default", f"-{right}")
        at_once.execute()
    wait_for(lambda: rejected(c, right) >= 4, 40, "four attempts")

    def told():
        return [e for e in d.events() if e["event"] in ("redis_error", "queue_error")
                and any(word in e.get("advice", "") for word in ("access list", "grant"))]
    assert re.search("run this command|ACL failure", wait_for(told, 20)[0]["error"])       # Redis 7.0, 8.0
    assert len(anywhere(c, "mail")) == 1 and c.llen("escape:mail") == 0
    c.execute_command("ACL", "SETUSER", "default", f"+{right}")
    wait_for(lambda: not anywhere(c, "mail"), 60, "it heals")
    assert c.lrange("escape:mail", 0, -1) == ([b"fail"] if message == "fail" else [])
    assert counts(ledger) == {message: 2 if message == "again" else 1} and d.workers("mail") == workers


def test_a_read_only_replica(redis, redis_server, quredisd, handler, ledger):
    """Made a replica: nothing is lost; promoted again: work goes on."""
    d = quredisd(queues=[queue("mail", handler(NOTE))])
    workers = d.wait_workers("mail", 1)
    c = redis.client()
    other = redis_server(start=False, tcp=True)
    c.execute_command("REPLICAOF", "127.0.0.1", other.port)       # nobody there: it keeps its data
    d.wait_event("redis_error", 30)
    c.execute_command("REPLICAOF", "NO", "ONE")
    c.lpush("ingress:mail", "a")
    wait_for(lambda: ledger.count("a"), 60)
    assert d.workers("mail") == workers


@pytest.mark.parametrize("message, key", [("fail", "escape:mail"), ("again", "quredis:of:ingress:mail:delayed")])
def test_a_stop_while_a_move_is_refused(redis, quredisd, handler, ledger, message, key):
    """A failed message cannot move to escape: it returns to ingress, marked as redelivered, and no crash is charged."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler(NOTE), backoff=QUICK)])
    d.wait_event("queue_recovered", queue="mail")
    c.set(key, "not a list")
    c.lpush("ingress:mail", message)
    d.wait_event("redis_error", 20, at="settle")
    assert d.stop(signal.SIGQUIT) == 0
    (raw,) = anywhere(c, "mail")
    wrapper, left = unwrap(raw)
    assert left == message.encode() and wrapper.get("crashes", 0) == 0 and wrapper.get("attempts", 0) <= 1
    c.delete(key)
    d.start()
    wait_for(lambda: not anywhere(c, "mail"), 40)
    assert c.lrange("escape:mail", 0, -1) == ([b"fail"] if message == "fail" else [])


def test_a_refused_move_is_told_once(redis, quredisd, handler, ledger):
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler(NOTE))])
    d.wait_event("queue_recovered", queue="mail")
    c.set("escape:mail", "not a list")
    c.lpush("ingress:mail", "fail", *[f"m{i}" for i in range(20)])

    def tries():
        """The script asks first whether it may take back what it is about to push."""
        return c.info("commandstats").get("cmdstat_ltrim", {}).get("failed_calls", 0)
    wait_for(lambda: tries() >= 6, 40, "six tries")
    assert len(d.events("redis_error", queue="mail")) <= 3, d.events("redis_error")
    c.delete("escape:mail")
    wait_for(lambda: not anywhere(c, "mail") and c.llen("escape:mail") == 1, 40)
    assert counts(ledger) == collections.Counter(["fail"] + [f"m{i}" for i in range(20)])
