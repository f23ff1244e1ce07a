"""quredis doctor: keys, workers and messages of a queue."""
import json
import os
import re
import signal
import socket
import subprocess
import time

import pytest

from harness import wait_for
from harness.clinic import GONE, HOUR_MS, meanwhile
from harness.queues import Queue, dumps, incarnation, now_ms, sha1
from harness.redis_proxy import Once, Tap
from harness.messages import sealed
from harness.paths import QUREDIS



# ---- one queue ----

def interrupted(clinic, *args):
    """Begins a retry or a deletion of dead letters, and kills it."""
    before = clinic.client.llen("escape:mail")
    child = subprocess.Popen([str(QUREDIS), "-u", clinic.server.url, "dlq", *args, "--yes"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
    wait_for(lambda: clinic.client.llen("escape:mail") < before, interval=0.001)
    return child


def end_holds(clinic):
    """As after some seconds: nobody has the operations."""
    fields = [k for k in clinic.client.hkeys("escape:mail:operations") if k.endswith(b":held")]
    clinic.client.hset("escape:mail:operations", mapping=dict.fromkeys(fields, 1))


def test_an_unfinished_retry(clinic, quredis):
    clinic.registered()
    q = Queue(clinic.client, register=False)
    q.dead_letters(*(b"%d" % i for i in range(50)), error_class="HTTP503")
    child = interrupted(clinic, "retry", "mail", "--all", "--class", "HTTP503", "--rate", "20/s")
    assert not [r for r in clinic.doctor().rows if r["check"] == "operations" and r["severity"] != "ok"]       # it is at work
    child.kill()
    child.wait()
    done = 50 - clinic.client.llen(q.escape)
    end_holds(clinic)
    begun = next(k for k in clinic.client.hkeys("escape:mail:operations") if k.endswith(b":begun"))
    clinic.client.hset("escape:mail:operations", begun, now_ms() - 190_000)
    clinic.doctor().one("operations", "note", "unfinished: dlq retry class=HTTP503, begun 3m", f"s ago, {done} of 50 messages done",
                        advice=f"to continue it, run quredis dlq retry mail --all --class HTTP503 --rate 20/s", where=q.escape)
    child = interrupted(clinic, "retry", "mail", "--all", "--class", "HTTP503", "--rate", "10/s", "--max-failures", "3")
    child.kill()
    child.wait()
    end_holds(clinic)
    clinic.doctor().one("operations", "note", "unfinished: dlq retry class=HTTP503, begun ",
                        advice=f"to continue it, run quredis dlq retry mail --all --class HTTP503 --rate 10/s --max-failures 3", where=q.escape)
    whole = {k.decode().partition(":")[2]: v for k, v in clinic.client.hgetall(f"{q.escape}:operations").items() if k.startswith(begun[:16])}
    for strange in "x", "", "z" * 99, "A" * 16, "a" * 15:          # no id of quredis
        clinic.client.hset(f"{q.escape}:operations", mapping={f"{strange}:{k}": v for k, v in {**whole, "what": "dlq retry class=Other"}.items()})
    clinic.client.hset(f"{q.escape}:operations", mapping={"a" * 16 + ":what": b"\x1b[31m", "b" * 16 + ":begun": "1"})      # not whole
    assert sum(r["check"] == "operations" and r["severity"] == "note" for r in clinic.doctor().rows) == 1


@pytest.mark.parametrize("login, shown", [(":s3cr:t@", "@"), ("on:s3cr%40t@", "on@")])
def test_a_command_to_continue_has_no_password(clinic, redis_server, login, shown):
    server = redis_server(tcp=True, config={"requirepass": "s3cr:t"})
    server.client().execute_command("ACL", "SETUSER", "on", "on", "nopass", "allkeys", "allcommands")
    Queue(server.client()).dead_letters(b"m", error_class="HTTP503")
    now, what = now_ms(), "dlq retry class=HTTP503"
    server.client().hset("escape:mail:operations", mapping={f"{sha1(what.encode())[:16]}:{k}": v for k, v in {
        "what": what, "begun": now - 60_000, "options": json.dumps({"class": "HTTP503"}), "bound": f"{now}-0", "total": 1}.items()})
    advice, = clinic.doctor("-u", f"redis://{login}127.0.0.1:{server.port}").advice("operations")
    assert advice.endswith(f"to continue it, run quredis -c {clinic.conf} -u redis://{shown}127.0.0.1:{server.port} dlq retry mail --all --class HTTP503")


def test_commands_of_quredis_find_the_same_redis(clinic):
    """On a host with two supervisors a command without -c would act on the other Redis."""
    clinic.registered()
    clinic.client.set("quredis:of:ingress:mail:paused", "1")
    advice, = clinic.doctor("-u", clinic.server.url).advice("paused")
    assert advice == f"quredis -c {clinic.conf} -u {clinic.server.url} resume mail"
    env = {**os.environ, "PATH": f"{QUREDIS.parent}:{os.environ['PATH']}"}
    assert subprocess.run(advice, shell=True, env=env, capture_output=True).returncode == 0 and not clinic.client.exists("quredis:of:ingress:mail:paused")


def test_the_command_that_continues_an_unfinished_one(clinic):
    """It is in the table as a shell needs it, with filter and pace; each different one has a row."""
    clinic.registered()
    q = Queue(clinic.client, register=False)
    q.dead_letters(*(b"%d" % i for i in range(50)), error_class="HTTP503", error_message="it's down; $HOME \"x\"")
    q.dead_letters(*(b"n%d" % i for i in range(50)), error_class="HTTP504")
    words = ["retry", "mail", "--all", "--text", "it's down; $HOME \"", "--canary", "--rate", "40/s", "--max-failures", "7"]
    for args in words, *(["retry", "mail", "--all", "--class", c, "--rate", "1/s"] for c in ("HTTP503", "HTTP504")):
        child = interrupted(clinic, *args)
        child.kill()
        child.wait()
    end_holds(clinic)
    table = clinic.run(json=False).out
    commands, dlq = re.findall(r"to continue it, run (.*)", table), f"quredis -c {clinic.conf} dlq retry mail --all"
    assert sorted(commands) == [f"{dlq} --class HTTP503 --rate 1/s", f"{dlq} --class HTTP504 --rate 1/s",
                                dlq + """ --text 'it'"'"'s down; $HOME "' --canary --rate 40/s --max-failures 7"""], table
    done = subprocess.run(["sh", "-c", max(commands) + " --dry-run"], capture_output=True, text=True,
                          env={"PATH": f"{QUREDIS.parent}:/usr/bin:/bin", "QUREDIS_REDIS_URL": clinic.server.url})
    assert done.returncode == 0 and "continues the retry begun at" in done.stderr, done
    key = f"{q.escape}:operations"
    field = next(k for k, v in clinic.client.hgetall(key).items() if k.endswith(b":options") and b"HTTP504" in v)
    for strange in b"", b"x", b"{}", b"[]", b'{"class":7}', b'{"class":"x","config":"/tmp/x"}', b'{"class":"\\u001b[2J"}', b'{"class":"a\\\\b"}':
        clinic.client.hset(key, field, strange)
        advice = [r["advice"] for r in clinic.doctor().rows if r["check"] == "operations" and "HTTP504" in r["what"]]
        assert len(advice) == 1 and advice[0].endswith("to continue it, run the same command again"), (strange, advice)


KEYS = {"ingress:mail": "list", "transit:mail": "list", "escape:mail": "list", "escape:mail:log": "stream",
        "quredis:of:ingress:mail:delayed": "zset", "transit:mail:workers": "hash", "quredis:of:ingress:mail:done": "stream",
        "quredis:of:ingress:mail:stats": "hash", "quredis:of:ingress:mail:notes": "hash", "transit:mail:rescue": "list",
        "transit:mail:aside": "list", "quredis:of:ingress:mail:delayed:apart": "hash", "transit:mail:aside:log": "stream",
        "escape:mail:claimed": "hash", "escape:mail:operations": "hash"}


@pytest.mark.parametrize("key", KEYS)
def test_types(clinic, key):
    clinic.registered()
    clinic.client.set(key, "precious")
    before = dumps(clinic.client)
    r = clinic.doctor("--fix")
    r.one("types", "error", "it is a string, but quredis needs a " + KEYS[key], advice="rename or delete it", where=key)
    assert r.code == 2 and dumps(clinic.client) == before


def test_types_of_strings_and_trays(clinic):
    q = clinic.registered()
    clinic.client.lpush("quredis:of:ingress:mail:paused", "x")
    clinic.client.lpush("quredis:of:ingress:mail:sweeper", "x")
    q.worker(incarnation(0))
    clinic.client.set(f"transit:mail:{incarnation(0)}:1", "x")
    rows = {r["where"]: r["what"] for r in clinic.doctor().bad("types")}
    assert set(rows) == {"quredis:of:ingress:mail:paused", "quredis:of:ingress:mail:sweeper", f"transit:mail:{incarnation(0)}:1"}
    clinic.client.delete("quredis:queue:mail")
    clinic.client.lpush("quredis:queue:mail", "x")
    assert "quredis:queue:mail" in {r["where"] for r in clinic.doctor().bad("types")}


@pytest.mark.parametrize("without, said", [("-lrem", '"hand back"'), ("-xadd", '"write the record"'),
                                           ("-pexpire", '"register"'), ("-zadd", '"retry"')])
def test_rights(clinic, without, said):
    server = clinic.machine.server(tcp=True, aof="always")      # an address of a unix socket has no user
    c = server.client()
    Queue(c)
    c.execute_command("ACL", "SETUSER", "limited", "on", ">x", "~*", "+@all", without)
    (clinic.tmp / "pass").write_text("x\n")
    (clinic.tmp / "pass").chmod(0o600)
    clinic.configure(redis={"url": f"redis://limited@127.0.0.1:{server.port}", "password_file": clinic.tmp / "pass"})
    before = dumps(c)
    r = clinic.doctor()
    r.one("rights", "error", "Redis does not allow the user limited", said, advice="ACL SETUSER")
    assert r.code == 2 and dumps(c) == before
    # nothing is written with --dry-run, so nothing is tried
    assert clinic.doctor("--dry-run").bad("rights") == []


def test_keys_without_the_right_to_look(clinic):
    clinic.registered()
    clinic.client.execute_command("ACL", "SETUSER", "default", "-scan")
    r = clinic.doctor()
    clinic.client.execute_command("ACL", "SETUSER", "default", "+scan")
    r.one("keys", "note", "may not scan keys", advice="SCAN (-u)")
    assert not [x for x in r.rows if x["check"] in ("leases", "lost")]


def test_keys_beyond_the_limit(clinic):
    clinic.registered()
    pipe = clinic.client.pipeline()
    for i in range(5000):
        pipe.set(f"transit:zz{i}", "x")
    pipe.execute()
    clinic.doctor().good("keys")
    clinic.doctor("-n", 1000).one("keys", "note", "more keys than the scan read (1000)", advice="--limit")


def test_registrations_without_lease(clinic):
    q = clinic.registered()
    q.worker(GONE, alive=False, pid=4711, t0=["a", "b"], rescue=["c"])
    q.worker(incarnation(1))
    row = clinic.doctor("--fix").one("registrations", "warning", "(pid 4711 on gone)", "but without a lease", "with 3 messages in its trays", where=GONE,
                                     advice="quredis retry mail transit")
    assert row["queue"] == "mail" and not row["fixable"]
    assert clinic.client.llen(f"transit:mail:{GONE}:0") == 2
    clinic.client.hset(q.workers, GONE, json.dumps({"node": "w", "pid": 1, "since": now_ms() - 26 * HOUR_MS, "lock": "l"}))
    clinic.doctor().one("registrations", "warning", "registered 1d02h ago")


def dead(clinic, q, inc, hours):
    q.worker(inc, alive=False)
    clinic.client.hset(q.workers, inc, json.dumps({"node": "w", "pid": 1, "since": 1, "lock": "l",
                                                   "died_at": now_ms() - int(hours * HOUR_MS)}))
    return inc


def test_registrations_of_the_dead(clinic):
    q = clinic.registered()
    young, old = dead(clinic, q, incarnation(1), 0.5), dead(clinic, q, incarnation(2), 3)
    clinic.client.hset(q.workers, f"{old}:rescue", 1)
    row = clinic.doctor().one("registrations", "note", "it died 3h00m ago", where=old, advice="--fix")
    assert row["fixable"] and clinic.run().code == 1      # nobody runs
    before = dumps(clinic.client)
    assert "would fix" in clinic.doctor("--fix", "--dry-run").bad("registrations")[0]["advice"]
    assert dumps(clinic.client) == before
    assert clinic.doctor("--fix").bad("registrations")[0]["fixed"]
    assert clinic.client.hkeys(q.workers) == [young.encode()]


def test_registrations_of_the_dead_with_messages(clinic):
    q = clinic.registered()
    old = dead(clinic, q, incarnation(2), 3)
    clinic.client.rpush(f"transit:mail:{old}:2", "late")
    row = clinic.doctor("--fix").one("registrations", "warning", "it died 3h00m ago, with 1 message in its trays")
    assert not row["fixable"] and clinic.client.hexists(q.workers, old) and clinic.client.llen(f"transit:mail:{old}:2") == 1


@pytest.mark.parametrize("value", [b"", b"x", b"[]", b"\xff\0", b'{"died_at": 1e300}', b'{"died_at": -1e300}', b'{"died_at": "x"}',
                                   b'{"since": -9223372036854775808}', b'{"node": 7, "pid": "x"}', b'{"died_at": 9e18}'])
def test_registrations_nobody_can_read(clinic, value):
    q = clinic.registered()
    clinic.client.hset(q.workers, GONE, value)
    clinic.client.hset(q.workers, b"\0\x1b[1m", "x")
    clinic.doctor().one("registrations", "warning", where=GONE)
    # a live one stays whatever its registration says
    clinic.client.set(f"transit:mail:lease:{GONE}", 1, px=60000)
    clinic.run("--fix")
    assert clinic.client.hexists(q.workers, GONE) and clinic.client.exists(f"transit:mail:lease:{GONE}")


def test_registrations_while_they_change(clinic):
    """Workers start and stop while doctor reads in several steps. It must not report living workers as dead or their messages as lost."""
    q = clinic.registered()

    def come_and_go(c, n):
        new, old = (incarnation(1, generation=g) for g in (n, max(n - 100, 0)))
        with c.pipeline(transaction=True) as pipe:
            pipe.hset(q.workers, new, "{}")
            pipe.set(f"{q.transit}:lease:{new}", 1, px=60000)
            pipe.rpush(f"{q.transit}:{new}:0", "x")
            pipe.delete(f"{q.transit}:{old}:0", f"{q.transit}:lease:{old}")
            pipe.hdel(q.workers, old)
            pipe.execute()
    with meanwhile(clinic, come_and_go):
        for _ in range(10):
            r = clinic.doctor()
            r.good("registrations")
            r.good("leases")
            r.good("lost")


def test_leases_without_registration(clinic):
    q = clinic.registered()
    q.worker(GONE, t1=["a", "b"])
    clinic.client.hdel(q.workers, GONE)
    clinic.doctor("--fix").one("leases", "warning", "is not registered", "(2 messages)", advice="quredis restart mail", where=GONE)
    assert clinic.client.llen(f"transit:mail:{GONE}:1") == 2
    clinic.doctor().good("lost")


def test_leases_that_never_end(clinic):
    q = clinic.registered()
    q.worker(GONE)
    clinic.client.persist(f"transit:mail:lease:{GONE}")
    clinic.doctor().one("registrations", "error", "its lease never expires", advice="quredis restart mail", where=GONE)


def test_keys_of_others_are_left_alone(clinic):
    clinic.registered()
    for name in (b"transit:mail:\xff\0:0", b"transit:mail:x", f"transit:mail:{GONE}:7".encode(), b"transit:mail:" + b"x" * 5000):
        clinic.client.rpush(name, "x")
    clinic.client.rpush("transit:mail:scratch:00000000000000aa:workers", "x")
    clinic.client.rpush("transit:mailbox:x", "other")
    before = dumps(clinic.client)
    clinic.doctor("--fix").good("lost")
    assert dumps(clinic.client) == before


def test_lost_with_a_name_of_patterns(clinic):
    """A queue name with pattern characters matches only itself; lists with similar names belong to other queues."""
    clinic.configure(clinic.queue(ingress="in[a]*", transit="tr[a]*?\\", escape="es"))
    Queue(clinic.client, "mail", "in[a]*", "tr[a]*?\\", "es")
    clinic.client.rpush(f"tr[a]*?\\:{GONE}:0", "x")
    clinic.client.rpush(f"traxy:{GONE}:0", "x")
    clinic.doctor().one("lost", "error", "1 message in trays of a worker that is not registered", where=GONE)


def test_lost_with_one_transit_below_another(clinic):
    clinic.configure(clinic.queue(), clinic.queue("b", transit="transit:mail2"))
    clinic.registered()
    Queue(clinic.client, "b", None, "transit:mail2")
    Queue(clinic.client, "c", None, "transit:mail:c")       # of the registry: nobody checked that names do not meet
    clinic.client.rpush(f"transit:mail2:{GONE}:0", "x")
    clinic.client.rpush(f"transit:mail:c:{GONE}:1", "x", "y")
    rows = clinic.doctor().bad("lost")
    assert {(r["queue"], r["what"][:1]) for r in rows} == {("b", "1"), ("c", "2")}


def test_leftovers(clinic):
    q = clinic.registered()
    clinic.client.rpush("transit:mail", "a")
    clinic.client.rpush("transit:mail:rescue", "b", "c")
    q.worker(GONE, alive=False, rescue=["d"])
    rows = {r["where"]: r for r in clinic.doctor().bad("leftovers")}
    assert rows["transit:mail"]["severity"] == "note" and "1 message in flight at a consumer outside quredis" in rows["transit:mail"]["what"]
    assert "2 messages half way back" in rows["transit:mail:rescue"]["what"]
    assert rows[f"transit:mail:{GONE}:rescue"]["severity"] == "warning" and len(rows) == 3


def test_leftovers_that_are_just_on_their_way(clinic):
    clinic.registered()
    clinic.client.rpush("transit:mail:rescue", "d")
    clinic.client.config_resetstat()
    process = subprocess.Popen(clinic.command("--json"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    wait_for(lambda: "cmdstat_type" in clinic.client.info("commandstats"))      # the lists have been read
    clinic.client.delete("transit:mail:rescue")
    rows = json.loads(process.communicate(timeout=30)[0])
    assert [r["severity"] for r in rows if r["check"] == "leftovers"] == ["ok"]


def age_record(clinic, q, message, hours):
    """Streams take ids in their order: the older ones first."""
    fields = {"id": "x", "sha1": sha1(message), "size": len(message), "message": message}
    return clinic.client.xadd(q.log, fields, id=f"{now_ms() - int(hours * HOUR_MS)}-0").decode()


def test_records_without_entries(clinic):
    q = clinic.registered()
    gone = age_record(clinic, q, b"gone", 50)
    kept = age_record(clinic, q, b"kept", 40)
    young = age_record(clinic, q, b"young", 2)
    clinic.client.lpush(q.escape, b"kept")
    q.dead_letters(b"a", b"b", b"a")
    clinic.client.xadd(q.log, {"foreign": "1"})
    row = clinic.doctor().one("records", "note", "records without a dead letter: 2;", advice="--fix", where=q.log)
    assert row["fixable"]
    before = dumps(clinic.client)
    clinic.doctor("--fix", "--dry-run")
    assert dumps(clinic.client) == before
    assert clinic.doctor("--fix").bad("records")[0]["fixed"]
    ids = [i.decode() for i, _ in clinic.client.xrange(q.log)]
    assert gone not in ids and kept in ids and young in ids and len(ids) == 6
    clinic.doctor().one("records", "note", "records without a dead letter: 1;", advice="younger than purge.max_orphaned_age")


def test_entries_without_records(clinic):
    q = clinic.registered()
    q.dead_letters(*[b"m%d" % i for i in range(300)])
    clinic.doctor().good("records")
    clinic.client.lpush(q.escape, b"foreign", b"m7")
    clinic.doctor().one("records", "note", "dead letters without a record: 2 of 302", advice="quredis peek mail escape")
    rows = clinic.doctor("-n", 100).bad("records")
    assert any("only the oldest" in r["what"] for r in rows)
    clinic.configure(clinic.queue(dead_letter={"enabled": False}))
    clinic.doctor().good("records")


def test_records_while_they_come(clinic):
    q = clinic.registered()
    q.dead_letters(*[b"old%d" % i for i in range(200)])

    def fail(c, n):
        with c.pipeline(transaction=True) as pipe:
            pipe.lpush(q.escape, b"new%d" % n)
            pipe.xadd(q.log, {"sha1": sha1(b"new%d" % n)})
            pipe.execute()
    with meanwhile(clinic, fail):
        for _ in range(10):
            clinic.doctor().good("records")


def test_records_while_they_go(clinic):
    """Retries remove dead letters from the old end. Doctor does not take a record of another dead letter for an orphan, nor delete it."""
    q = clinic.registered()
    left = [(b"m%d" % i, f"{now_ms() - 100 * HOUR_MS + i}-0") for i in range(4000)]
    with clinic.client.pipeline(transaction=False) as pipe:
        for m, i in left:
            pipe.xadd(q.log, {"sha1": sha1(m)}, id=i)
        pipe.lpush(q.escape, *[m for m, _ in left])
        pipe.execute()

    def retry(c, n):
        with c.pipeline(transaction=True) as pipe:
            pipe.rpop(q.escape)
            pipe.xdel(q.log, left.pop(0)[1])
            pipe.execute()
        time.sleep(0.0005)
    with meanwhile(clinic, retry):
        for _ in range(5):
            said = clinic.doctor("--fix").bad("records")
            assert all("being removed right now" in r["what"] for r in said)
    assert left and clinic.client.lrange(q.escape, 0, -1) == [m for m, _ in reversed(left)]
    assert [i.decode() for i, _ in clinic.client.xrange(q.log)] == [i for _, i in left]
    clinic.doctor().good("records")


def test_bounds(clinic, tmp):
    clinic.registered()
    Queue(clinic.client, register=False).dead_letters(*[b"%d" % i for i in range(11)])
    clinic.doctor().good("bounds")
    clinic.configure(clinic.queue(dead_letter={"max_entries": 10}))
    clinic.doctor().one("bounds", "warning", "11 messages in escape, but dead_letter.max_entries is 10; without archive or discard none is removed",
                        advice="set dead_letter.archive or dead_letter.discard")
    clinic.configure(clinic.queue(dead_letter={"max_entries": 10, "archive": tmp}))
    clinic.doctor().good("bounds")
    clinic.client.lpush("escape:mail", *range(1000))
    clinic.doctor().one("bounds", "warning", "1011 messages in escape, but dead_letter.max_entries is 10", advice="look for queue_error of mail")
    clinic.configure(clinic.queue(dead_letter={"max_entries": 1011}))
    clinic.doctor().good("bounds")


def test_paused(clinic):
    clinic.registered()
    clinic.client.lpush("ingress:mail", "x")
    clinic.daemon.quredis("pause", "mail")
    clinic.doctor().one("paused", "note", "paused for", "with 1 message waiting", advice="quredis resume mail")
    since = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() - 5 * 3600))
    clinic.client.set("quredis:of:ingress:mail:paused", json.dumps({"user": "ann", "uid": 1, "host": "web3", "since": since}))
    clinic.doctor().one("paused", "warning", "paused for 5h00m, by ann on web3, with 1 message waiting", advice="quredis resume mail")
    for value in (b"1", b"\xff\0", b'{"since": 7}', b'{"since": "yesterday", "user": "x"}', b"[]"):
        clinic.client.set("quredis:of:ingress:mail:paused", value)
        clinic.doctor().one("paused", "warning", "paused for an unknown time, with 1 message")
    clinic.doctor().good("workers")


def test_a_producer_that_delays_by_milliseconds(clinic):
    now = clinic.client.time()[0]
    clinic.client.zadd("delayed:mail", {"a": now - 10, "b": now + 86400, "c": 0})
    clinic.doctor().good("delayed")
    clinic.client.zadd("delayed:mail", {"ms": now * 1000, "never": float("inf")})
    clinic.doctor().one("delayed", "warning", "2 messages delayed by a producer for more than 100 years", advice="correct the producer")


def test_delayed(clinic):
    clinic.registered()
    clinic.client.zadd("quredis:of:ingress:mail:delayed", {"a": now_ms() - 10000, "b": now_ms() + HOUR_MS})
    clinic.doctor().good("delayed")
    clinic.client.zadd("quredis:of:ingress:mail:delayed", {"a": now_ms() - 2 * HOUR_MS})
    clinic.doctor().one("delayed", "warning", "has been due for 2h00m", advice="quredis retry mail delayed")
    clinic.client.delete("quredis:of:ingress:mail:delayed")
    for score in ("inf", "-inf", "-5"):
        clinic.client.execute_command("ZADD", "quredis:of:ingress:mail:delayed", score, "a")
        clinic.doctor().one("delayed", "warning", "is not a time in ms")


def test_payloads_without_lines(clinic):
    """Large messages that are delayed have their payloads in lists of their own: nobody looks for those whose lines were deleted."""
    clinic.registered()
    clinic.client.hset("quredis:of:ingress:mail:delayed:apart", "0123456789abcdef", 100000)
    clinic.doctor().one("delayed", "warning", "payloads of large messages: 1, but", advice="quredis purge mail delayed",
        where="quredis:of:ingress:mail:delayed:apart")
    clinic.client.zadd("quredis:of:ingress:mail:delayed", {"line": now_ms() + HOUR_MS})
    clinic.doctor().good("delayed")


def test_a_large_message_that_becomes_delayed_meanwhile(clinic, redis_proxy):
    """Its payload is there when the doctor counts payloads, and its line was not yet there when the doctor surveyed the queue."""
    clinic.registered()
    counted = []

    def delay():
        clinic.client.zadd("quredis:of:ingress:mail:delayed", {"line": now_ms() + HOUR_MS})
        counted.append(clinic.client.hset("quredis:of:ingress:mail:delayed:apart", "0123456789abcdef", 100000))
    proxy = redis_proxy(clinic.server, Once("apart_count", "quredis:of:ingress:mail:delayed:apart", delay))
    clinic.doctor("-u", proxy.url).good("delayed")
    assert counted == [1]


class AfterTheFirstCount(Tap):
    """act() between the first answer about payloads that are stored apart and the next command."""

    def __init__(self, act):
        self.act, self.counts = act, 0

    def request(self, pair, words):
        if self.counts == 1:
            self.counts += 1
            if pair.asked:
                pair.redis.recv(1, socket.MSG_PEEK)     # waits until Redis has answered
            self.act()
        elif self.counts == 0 and words[0] in (b"HLEN", b"EVALSHA") and b"quredis:of:ingress:mail:delayed:apart" in words:
            self.counts += 1
            return 0            # Redis gets this command alone
        return None


def test_a_large_message_that_becomes_due_meanwhile(clinic, redis_proxy):
    """A sweeper moves it to ingress while the doctor counts: neither its payload nor its line is left."""
    clinic.registered()
    clinic.client.zadd("quredis:of:ingress:mail:delayed", {"line": now_ms() + HOUR_MS})
    clinic.client.hset("quredis:of:ingress:mail:delayed:apart", "0123456789abcdef", 100000)
    moved = []
    proxy = redis_proxy(clinic.server, AfterTheFirstCount(lambda: moved.append(
        clinic.client.delete("quredis:of:ingress:mail:delayed", "quredis:of:ingress:mail:delayed:apart"))))
    clinic.doctor("-u", proxy.url).good("delayed")
    assert moved == [2]


def test_a_lost_secret_explains_why_no_worker_is_alive(clinic):
    q = clinic.registered()
    clinic.client.lpush(q.ingress, "x")
    clinic.client.hset("transit:mail:workers", "a.trace", "of quredis")
    clinic.client.delete("quredis:secret")
    said = clinic.doctor()
    said.one("secret", "error", "is missing, but quredis was here")
    said.good("workers")


def test_workers(clinic):
    q = clinic.registered()
    clinic.client.lpush(q.ingress, "x", "y")
    clinic.client.zadd(q.delayed, {"later": now_ms() + HOUR_MS})
    clinic.doctor().one("workers", "warning", "2 messages waiting, and 1 delayed, but no worker is alive", advice="start quredisd")
    q.worker(incarnation(0))
    clinic.doctor().good("workers")
    clinic.client.delete(f"transit:mail:lease:{incarnation(0)}")
    clinic.configure(clinic.queue(workers=0))
    clinic.doctor().one("workers", "note", "(workers = 0 here)")
    clinic.configure(clinic.queue("other"))
    clinic.doctor().one("workers", "warning", "(this configuration does not have the queue)", advice="quredis destroy mail")


# ---- shared ----

def test_what_other_programs_would_not_understand(clinic):
    clinic.configure(clinic.queue(shared=True, workers=0))
    c = clinic.registered().client
    clinic.doctor().good("shared")
    c.lpush("ingress:mail", "raw", sealed(c, b"quredis/1 w=0000000000000001 own=1\nwrapped"), *["raw"] * 300, sealed(c, b"quredis/1 w=0000000000000002\nwrapped"))
    c.zadd("quredis:of:ingress:mail:delayed", {b"quredis/1 w=0000000000000003\nd": now_ms() + HOUR_MS})
    before = dumps(c)
    r = clinic.doctor("--fix")
    r.one("shared", "warning", "2 messages", "shared with other programs", where="ingress:mail", advice="shared = true")
    r.one("delayed", "warning", "1 message", "shared with other programs", where="quredis:of:ingress:mail:delayed")
    assert dumps(c) == before


def test_the_right_to_read_notes(clinic):
    server = clinic.machine.server(tcp=True, aof="always")
    c = server.client()
    Queue(c)
    c.execute_command("ACL", "SETUSER", "limited", "on", ">x", "~*", "+@all", "-hmget")
    (clinic.tmp / "pass").write_text("x\n")
    (clinic.tmp / "pass").chmod(0o600)
    where = {"url": f"redis://limited@127.0.0.1:{server.port}", "password_file": clinic.tmp / "pass"}
    clinic.configure(redis=where)
    clinic.doctor().good("rights")
    clinic.configure(clinic.queue(shared=True), redis=where)
    before = dumps(c)
    clinic.doctor().one("rights", "error", "does not allow the user limited", '"read notes"')
    assert dumps(c) == before


def test_a_supervisor_that_drains_is_one_finding(clinic):
    """Not one more for each of its queues."""
    started, go = clinic.tmp / "started", clinic.tmp / "go"
    slow = clinic.tmp / "slow"
    slow.write_text(f"#!/bin/sh\ntouch {started}\nwhile ! [ -e {go} ]; do sleep 0.05; done\n")
    slow.chmod(0o755)
    clinic.configure(clinic.queue(handler=slow, run_as=None, timeout="5m"), clinic.queue("news", run_as=None), start=True,
                     supervisor={"user": None, "drain_timeout": "5m"})
    clinic.client.lpush("ingress:mail", "x")
    wait_for(started.exists)
    os.kill(clinic.daemon.pid, signal.SIGTERM)
    clinic.daemon.wait_event("stopping")
    r = clinic.doctor()
    assert [row["what"] for row in r.rows if "drain" in row["what"]] == ["the supervisor drains, and then stops"], r.rows
    go.touch()
