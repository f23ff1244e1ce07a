"""Redis users with nothing but their own access list: what a producer may write stops no queue, and the supervisor needs no more than its list."""
import json

import pytest
import redis as redis_py

from harness import queue, reach, wait_for
from harness.control import status
from harness.manual import access_lists

pytestmark = pytest.mark.skipif(reach.REACH != "", reason="the users log in at the server itself")

RUN = """read -r m || :
echo "$m" >>@LEDGER@
case $m in again*) [ $QUREDIS_ATTEMPT -gt 1 ] || exit 75;; fails*) exit 65;; esac"""
SUFFIXES = ["paused", "delayed", "delayed:apart", "stats", "done", "sweeper", "notes", "aside", "rate:1", "workers", "scratch:x"]


def of_a_producer(redis):
    """The connection of a user with the list that the manual gives a producer of the queue mail."""
    c = redis.client()
    c.execute_command("ACL", "SETUSER", "producer", "on", ">producer", *access_lists()["producer"])
    return redis_py.Redis(unix_socket_path=str(redis.socket), username="producer", password="producer")


def mail(handler, **keys):
    return queue("mail", handler(RUN), workers=1, max_attempts=2, backoff={"base": "100ms", "cap": "100ms"}, ttl="1h", done={"keep": 10}, **keys)


def test_the_tests_push_as_a_producer(redis):
    c = redis.client()
    c.lpush("ingress:mail", "x")
    c.zadd("delayed:mail", {"x": 1})
    assert {(x["user"], x["cmd"]) for x in c.client_list() if x["cmd"] in ("lpush", "zadd")} == {("pushes", "zadd")}
    with pytest.raises(redis_py.exceptions.NoPermissionError):
        c.producer.get("quredis:secret")


@pytest.mark.parametrize("when", ["before the start", "while it runs"])
def test_a_wide_list_stops_no_queue(redis, quredisd, handler, ledger, when):
    """A producer with +lpush ~ingress:* makes every key that was once private, and more: all messages run, retries too."""
    c = redis.client()
    c.execute_command("ACL", "SETUSER", "wide", "on", ">wide", "resetkeys", "~ingress:*", "+lpush")
    wide = redis_py.Redis(unix_socket_path=str(redis.socket), username="wide", password="wide")

    def attack():
        for suffix in SUFFIXES:
            wide.lpush(f"ingress:mail:{suffix}", "evil")
    if when == "before the start":
        attack()
    d = quredisd(queues=[mail(handler)])
    d.wait_event("queue_recovered", queue="mail")
    attack()
    wide.lpush("ingress:mail", "a", "again", "fails", "b")
    wait_for(lambda: sorted(ledger.lines()) == ["a", "again", "again", "b", "fails"] and c.llen("escape:mail") == 1, 60)
    assert status(d, "mail")["state"] == "running" and not status(d, "mail").get("reason")


def test_a_producer_needs_only_its_list(redis, quredisd, handler, ledger):
    producer = of_a_producer(redis)
    d = quredisd(queues=[mail(handler)])
    producer.lpush("ingress:mail", "now")
    seconds = redis.client().time()[0]
    producer.zadd("delayed:mail", {"past": seconds - 5, "fraction": seconds + 0.5, "later": seconds + 3600})
    wait_for(lambda: sorted(ledger.lines()) == ["fraction", "now", "past"], 60)
    ls = d.quredis("ls", "--json")
    assert '"delayed_size":1' in ls.out.replace(" ", "") and redis.client().zrange("delayed:mail", 0, -1) == [b"later"]
    for make in (lambda: producer.zadd("ingress:mail", {"x": 1}), lambda: producer.lpush("delayed:mail", "x")):
        with pytest.raises(redis_py.exceptions.NoPermissionError):      # a key of the wrong type would stop its queue
            make()
    for key in ("quredis:of:ingress:mail:delayed", "quredis:secret", "escape:mail", "transit:mail"):
        with pytest.raises(redis_py.exceptions.NoPermissionError):
            producer.lpush(key, "x")


def test_delayed_pushes_are_bytes_of_strangers(redis, quredisd, handler, ledger):
    """Whatever time and bytes they have: what is due runs as it is, and nothing stops."""
    c = redis.client()
    raw = b"quredis/1 w=00000000000000aa apart=1\n"
    c.zadd("delayed:mail", {"minus": float("-inf"), "zero": 0, "never": float("inf"), "milliseconds": c.time()[0] * 1000, raw: 1, b"x" * 3000000: 2})
    c.zadd("delayed:mail", {f"m{i}": 3 for i in range(250)})
    quredisd(queues=[queue("mail", handler("wc -c >>@LEDGER@"), workers=2, batch={"max": 50}, message_max="4M")])
    wait_for(lambda: len(ledger.lines()) == 254, 60)
    sizes = sorted(int(n) for n in ledger.lines())
    assert sizes[-2:] == [len(raw), 3000000] and sizes.count(5) == 1 and sizes.count(4) == 151
    assert set(c.zrange("delayed:mail", 0, -1)) == {b"never", b"milliseconds"}


def test_due_pushes_do_not_stand_before_others(redis, quredisd, handler, ledger):
    """A producer makes thousands due at one moment: another one's push, and its retry, do not wait for all of them."""
    c = redis.client()
    n = 20000
    c.zadd("delayed:mail", {f"due {i}": 1 for i in range(n)})
    quredisd(queues=[mail(handler)])
    wait_for(lambda: len(ledger.lines()) > 100, 60)
    c.lpush("ingress:mail", "again")
    wait_for(lambda: ledger.lines().count("again") == 2, 120)
    assert len(ledger.lines()) < n / 2 and c.zcard("delayed:mail") > n / 4


def test_waiting_messages_do_not_hold_up_due_pushes(redis, quredisd, handler, ledger):
    """A long ingress slows down delayed pushes that are due, and does not stop them."""
    c = redis.client()
    c.lpush("ingress:mail", *(f"waiting {i}" for i in range(10000)))
    c.zadd("delayed:mail", {f"due {i}": 1 for i in range(200)})
    quredisd(queues=[mail(handler)])
    left = wait_for(lambda: c.zcard("delayed:mail") == 0 and c.llen("ingress:mail"), 120)
    assert left > 1000


@pytest.mark.parametrize("key", ["delayed:mail", *(f"quredis:of:ingress:mail:{s}" for s in ("paused", "delayed", "stats", "done", "notes", "sweeper")),
                                 "escape:mail:log"])
def test_a_key_of_another_type_closes_no_gate(redis, quredisd, handler, ledger, key):
    """Before the start: an operator's mistake, or a producer's. It counts as absent, and doctor names it."""
    c = redis.client()
    c.lpush(key, "oops")
    d = quredisd(queues=[mail(handler)])
    c.lpush("ingress:mail", "a", "b")
    wait_for(lambda: sorted(ledger.lines()) == ["a", "b"], 60)
    if key in ("delayed:mail", "quredis:of:ingress:mail:paused"):
        c.zadd("quredis:of:ingress:mail:delayed", {"due": 1})
        wait_for(lambda: "due" in ledger.lines(), 60)
    if key in ("delayed:mail", "quredis:of:ingress:mail:paused", "quredis:of:ingress:mail:delayed"):
        wait_for(lambda: key in (status(d, "mail").get("reason") or ""), 60)
    assert key in d.quredis("doctor").out


def test_a_supervisor_needs_only_its_list(redis_server, quredisd, handler, ledger, tmp):
    redis = redis_server(tcp=True)      # the address of a unix socket has no user
    c = redis.client()
    producer = of_a_producer(redis)
    lists = access_lists()
    for name in ("supervisor", "operator", "reader"):
        c.execute_command("ACL", "SETUSER", name, "on", ">same", *lists[name])
    (tmp / "password").write_text("same\n")
    (tmp / "password").chmod(0o600)

    def url(name):
        return f"redis://{name}@127.0.0.1:{redis.port}"
    d = quredisd(redis={"url": url("supervisor"), "password_file": tmp / "password"}, queues=[mail(handler)], health={"enabled": True, "interval": "1s"},
                 purge={"enabled": True, "interval": "1s", "max_message_age": "1d"})
    producer.lpush("ingress:mail", "a", "again", "fails", "b")
    producer.zadd("delayed:mail", {"later": 1})
    wait_for(lambda: sorted(ledger.lines()) == ["a", "again", "again", "b", "fails", "later"] and c.llen("escape:mail") == 1, 60)
    wait_for(lambda: c.exists("quredis:health"), 30)
    assert status(d, "mail")["state"] == "running" and not status(d, "mail").get("reason")
    for command in (["ls"], ["peek", "mail", "escape"], ["dlq", "ls", "mail"], ["stats", "mail"], ["health"], ["pause", "mail"], ["resume", "mail"],
                    ["push", "mail", "p"], ["push", "mail", "--delay", "1s", "q"], ["dlq", "retry", "mail", "--all"], ["retry", "mail", "delayed"],
                    ["dlq", "rm", "mail", "--all", "-y"], ["nodes"], ["trend", "mail"]):
        r = d.quredis(*command, env={"QUREDIS_REDIS_URL": url("operator")})
        assert r.code in (0, 1), (command, r)
        assert "NOPERM" not in r.out + r.err, (command, r)
    for command in (["ls"], ["peek", "mail", "ingress"], ["dlq", "ls", "mail"], ["stats", "mail"], ["health"], ["nodes"], ["trend", "mail"]):
        r = d.quredis(*command, env={"QUREDIS_REDIS_URL": url("reader")})
        assert r.code in (0, 1) and "NOPERM" not in r.out + r.err, (command, r)
    assert refused_of_quredis(c) == []


def refused_of_quredis(c):
    """The entries of ACL LOG, without a call that newer clients of Python send unasked, and whose refusal they ignore."""
    entries = [dict(zip(e[::2], e[1::2])) for e in c.execute_command("ACL", "LOG")]
    return [e for e in entries if e[b"object"] != b"client|setinfo"]


def test_push_needs_no_more_than_a_producer_has(redis_server, quredisd, handler, ledger):
    """A queue of the configuration, and a message as it is. What needs more says so, and leaves nothing behind."""
    redis = redis_server(tcp=True)
    of_a_producer(redis)
    d = quredisd(redis={"url": f"redis://127.0.0.1:{redis.port}"}, queues=[mail(handler)])
    d.wait_event("queue_recovered", queue="mail")
    own = {"QUREDIS_REDIS_URL": f"redis://producer:producer@127.0.0.1:{redis.port}"}
    r = d.quredis("push", "mail", "one", env=own)
    assert (r.code, r.out, r.err) == (0, "pushed 1 message\n", ""), r
    assert d.quredis("push", "mail", "--lines", input="two\nthree\n", env=own).out == "pushed 2 messages\n"
    wait_for(lambda: sorted(ledger.lines()) == ["one", "three", "two"], 60)
    for more in (["push", "mail", "--delay", "1h", "x"], ["push", "mail", "--at", "02:00", "x"], ["push", "mail", "--ttl", "1h", "x"],
                 ["push", "mail", "--wait", "x"], ["ls"]):
        r = d.quredis(*more, env=own)
        assert (r.code, r.out) == (77, "") and "or use the Redis user of an operator (docs/operating.md)" in r.err, (more, r)
    assert redis.client().zcard("quredis:of:ingress:mail:delayed") == 0
    r = d.quredis("push", "other", "x", env=own)
    assert r.code == 77 and "no queue other in this configuration" in r.err and "name the queue in the configuration" in r.err, r
    assert "grant" not in r.err, "a producer needs no right to read"


def test_doctor_names_a_producer_that_may_write_too_much(redis, quredisd, handler):
    c = redis.client()
    of_a_producer(redis)
    for name, rules in {"wide": ["~ingress:*", "+lpush"], "greedy": ["~*", "+lpush"], "curious": ["~ingress:mail", "~quredis:secret", "+lpush",
        "+get"]}.items():
        c.execute_command("ACL", "SETUSER", name, "on", ">its-password", "resetkeys", *rules)
    d = quredisd(queues=[mail(handler)])
    found = [f for f in json.loads(d.quredis("doctor", "--json").out) if f["check"] == "access"]
    assert {(f["severity"], f["where"]) for f in found} == {("warning", "greedy"), ("warning", "curious")}
    for i in range(210):        # "greedy" and "wide" stand in the list before them, or behind: nothing of them is asserted
        c.execute_command("ACL", "SETUSER", f"many{i}", "on", ">its-password", "resetkeys", "+lpush", "~ingress:mail")
    many = [f for f in json.loads(d.quredis("doctor", "--json").out) if f["check"] == "access" and f["severity"] == "note"]
    users = len(c.execute_command("ACL", "LIST"))
    assert [f["what"] for f in many] == [f"the first 200 users of Redis were checked, and {users - 200} more were not"], many
    assert "(+lpush ~ingress:mail) (+zadd ~delayed:mail)" in found[0]["advice"] and "its-password" not in str(found) and "#" not in str(found)
