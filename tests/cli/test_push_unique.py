"""quredis push --urgent and --unique: before all that wait, and at most once for a time."""
import concurrent.futures
import hashlib
import json
import re

import pytest
import redis as redis_py

from harness import ROOT, queue, reach, wait_for
from harness.manual import access_lists
from harness.queues import Queue
from harness.redis_proxy import script_text

UNIQUE = "unique:mail:report-17"
ONCE = ("--unique", "report-17", "--for", "1h")


@pytest.fixture(autouse=True)
def registered(redis):
    """Both queues are in the registry."""
    Queue(redis.client()), Queue(redis.client(), "other")


def test_an_urgent_message_is_the_next_to_run(quredis, redis, quredisd, handler, ledger):
    assert quredis("pause", "mail").code == 0
    for words in (["a"], ["b"], ["first", "--urgent"]):
        assert quredis("push", "mail", *words).out == "pushed 1 message\n"
    quredisd(queues=[queue("mail", handler("cat >>@LEDGER@; echo >>@LEDGER@"), workers=1)])
    assert quredis("resume", "mail").code == 0
    assert wait_for(lambda: len(ledger.lines()) == 3 and ledger.lines()) == ["first", "a", "b"]


def test_of_many_urgent_ones_the_last_is_the_first(quredis, redis):
    q = Queue(redis.client())
    quredis("push", "mail", "old")
    assert quredis("push", "mail", "--urgent", "--lines", input=b"a\nb\n").out == "pushed 2 messages\n"
    assert q.fetched() == [b"b", b"a", b"old"]


def test_a_key_is_pushed_once_for_its_time(quredis, redis):
    c = redis.client()
    q = Queue(c)
    assert quredis("push", "mail", "x", *ONCE, "--id", "order:7").out == "pushed 1 message\n"
    said = quredis("push", "mail", "y", *ONCE)
    assert said.code == 0 and said.out.startswith("pushed 0 messages: order:7 was pushed with this key ") and "which stays for 59m" in said.out
    assert quredis("push", "mail", "y", *ONCE, "--dry-run").out.startswith("would push 0 messages: order:7 was pushed")
    found = json.loads(quredis("push", "mail", "y", *ONCE, "--json").out)
    assert (found["count"], found["found"], found["found_id"]) == (0, True, "order:7") and 3_500_000 < found["found_left_ms"] <= 3_600_000
    assert quredis("push", "mail", "y", "--unique", "report-18", "--for", "1h").out == "pushed 1 message\n"     # other keys, and
    assert quredis("push", "other", "y", *ONCE).out == "pushed 1 message\n"                                    # other queues
    assert q.fetched() == [b"quredis/1 id=order:7\nx", b"y"]
    c.pexpire(UNIQUE, 1)
    wait_for(lambda: not c.exists(UNIQUE))
    assert quredis("push", "mail", "z", *ONCE, "--urgent").out == "pushed 1 message\n" and q.fetched()[0] == b"z"


@pytest.mark.parametrize("message, id", [("x", f"sha1:{hashlib.sha1(b'x').hexdigest()}"), ("quredis/1 id=order:9\nx", "order:9")])
def test_a_message_without_the_option_is_named_by_the_id_that_handlers_see(quredis, redis, message, id):
    assert quredis("push", "mail", message, *ONCE).out == "pushed 1 message\n"
    assert quredis("push", "mail", "y", *ONCE).out.startswith(f"pushed 0 messages: {id} was pushed with this key ")
    assert json.loads(quredis("push", "mail", "y", *ONCE, "--json").out)["found_id"] == id
    assert json.loads(quredis("peek", "mail", "ingress", "--json").out)[0]["id"] == id


def test_a_dry_run_sees_an_ingress_of_the_wrong_type(quredis, redis):
    redis.client().set("ingress:mail", "x")
    for words in ((), ("--dry-run",)):
        r = quredis("push", "mail", "x", *ONCE, *words)
        assert (r.code, r.out) == (78, "") and "WRONGTYPE" in r.err, (words, r)
    assert not redis.client().exists(UNIQUE)


def test_a_dry_run_takes_no_key(quredis, redis):
    assert quredis("push", "mail", "x", *ONCE, "--dry-run").out == "would push 1 message\n"
    assert not redis.client().exists(UNIQUE, "ingress:mail")


def test_of_twenty_at_once_one_pushes(quredis, redis):
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        counts = [json.loads(r.out)["count"] for r in pool.map(lambda n: quredis("push", "mail", str(n), *ONCE, "--json"), range(20))]
    assert sum(counts) == 1 and redis.client().llen("ingress:mail") == 1


@pytest.mark.parametrize("value", [b"\x1b[2J\xff", b"1", b"17 --all", b"99999999999999999999 x", b"-5", b"", b"1764355179123 \x1b]0;x"])
def test_what_a_producer_wrote_in_the_key_is_only_text(quredis, redis, value):
    c = redis.client()
    c.set(UNIQUE, value)
    said = quredis("push", "mail", "x", *ONCE)
    assert said.code == 0 and said.out.startswith("pushed 0 messages: a message of unknown id was pushed with ") and said.out.endswith("which has no end\n")
    assert "\x1b" not in said.out and "--all" not in said.out and not c.exists("ingress:mail")


def test_a_key_of_another_type_pushes_nothing_and_is_named(quredis, redis):
    c = redis.client()
    c.lpush(UNIQUE, "x")
    said = quredis("push", "mail", "x", *ONCE)
    assert said.code == 78 and UNIQUE in said.err and not c.exists("ingress:mail")


def test_a_push_that_is_refused_keeps_no_key(quredis, redis):
    c = redis.client()
    c.set("ingress:mail", "x")
    assert quredis("push", "mail", "x", *ONCE).code == 78 and not c.exists(UNIQUE)


def as_user(server, name, *rules):
    """The address of the server for a user with these rules."""
    server.client().execute_command("ACL", "SETUSER", name, "on", ">secret", *rules)
    return f"redis://{name}:secret@127.0.0.1:{server.port}"


def test_a_push_is_taken_back_if_the_key_is_refused(redis_server, quredis):
    """Without the right to write the key, the message would come again and again."""
    server = redis_server(tcp=True)     # the address of a unix socket has no user
    c = server.client()
    Queue(c)
    url = as_user(server, "half", "resetkeys", "+@all", "~ingress:*", "~quredis:*", "%R~unique:*")
    said = quredis("push", "mail", "x", *ONCE, url=url)
    assert said.code == 77 and not c.exists("ingress:mail", UNIQUE), said


def test_an_answer_that_is_lost_shows_at_the_next_try(machine, redis, quredis):
    proxy = machine.proxy(redis)
    proxy.lose_reply(UNIQUE.encode())
    words = "push", "mail", "x", *ONCE, "--id", "order:7"
    assert quredis(*words, url=proxy.url).code == 69
    found = json.loads(quredis(*words, "--json", url=proxy.url).out)
    assert (found["count"], found["found_id"], redis.client().llen("ingress:mail")) == (0, "order:7", 1)


@pytest.mark.skipif(reach.REACH != "", reason="the users log in at the server itself")
@pytest.mark.parametrize("rights", ["+del", ""])
def test_a_refused_push_of_a_producer_leaves_no_key(redis, rights):
    """Without the right to delete it, it is gone a millisecond later."""
    c = redis.client()
    c.set("ingress:mail", "x")
    c.execute_command("ACL", "SETUSER", "some", "on", ">secret", "resetkeys", "-@all", "+eval", "+time", "+set", "+get",
                      "+pttl", "+lpush", "~*", *rights.split())
    some = redis_py.Redis(unix_socket_path=str(redis.socket), username="some", password="secret")
    with pytest.raises(redis_py.exceptions.ResponseError, match="WRONGTYPE"):
        some.eval(script_text("unique"), 2, UNIQUE, "ingress:mail", 3600_000, "LPUSH", "", "x")
    wait_for(lambda: not c.exists(UNIQUE))


@pytest.mark.skipif(reach.REACH != "", reason="the users log in at the server itself")
def test_users_need_only_what_the_manual_gives_them(redis_server, quredis):
    server = redis_server(tcp=True)
    c = server.client()
    Queue(c)
    text = (ROOT / "docs/operating.md").read_text()
    rules = re.search(r"urgent messages gets `([^`]*)`.*\n`([^`]*)` and `([^`]*)`, and `([^`]*)`", text).groups()
    c.execute_command("ACL", "SETUSER", "producer", "on", ">secret", "resetkeys", "-@all", *re.findall(r"\([^)]*\)|\S+", " ".join(rules)))
    producer = redis_py.Redis(unix_socket_path=str(server.socket), username="producer", password="secret")
    script, keys = script_text("unique"), (UNIQUE, "ingress:mail")
    assert producer.eval(script, 2, *keys, 3600_000, "LPUSH", "", "x") == [1] and producer.eval(script, 2, *keys, 3600_000, "LPUSH", "", "y")[0] == 0
    for wrong in "0.5", "3600s", "-1", "99999999999999999999":
        with pytest.raises(redis_py.exceptions.ResponseError):
            producer.eval(script, 2, "unique:mail:wrong", "ingress:mail", wrong, "LPUSH", "", "z")
    producer.rpush("ingress:mail", "urgent")
    for name, *arguments in (("get", "quredis:secret"), ("set", "ingress:mail", "x"), ("lpush", UNIQUE, "x"), ("get", "escape:mail")):
        with pytest.raises(redis_py.exceptions.NoPermissionError):
            getattr(producer, name)(*arguments)
    boss = as_user(server, "boss", *access_lists()["operator"])
    assert quredis("push", "mail", "z", "--unique", "report-18", "--for", "1h", "--urgent", url=boss).code == 0
    assert Queue(c).fetched() == [b"z", b"urgent", b"x"]


@pytest.mark.parametrize("words, error", [
    (["--unique", "a"], "--unique KEY and --for TIME belong together"),
    (["--for", "1h"], "--unique KEY and --for TIME belong together"),
    (["--unique", "a b", "--for", "1h"], "--unique: expected 1 to 128 letters"),
    (["--unique", "a", "--for", "0s"], "--for: expected a time of more than 0"),
    (["--unique", "a", "--for", "106751991167d"], "and of at most 36500 days"),
    (["--unique", "a", "--for", "1h", "--delay", "1m"], "--unique cannot be combined with --delay"),
    (["--urgent", "--at", "02:00"], "--urgent cannot be combined with --at"),
])
def test_usage(quredis, redis, words, error):
    r = quredis("push", "mail", "x", *words)
    assert r.code == 64 and error in r.err and not redis.client().exists(UNIQUE, "unique:mail:a", "ingress:mail")


def test_usage_of_many(quredis, redis):
    r = quredis("push", "mail", *ONCE, "--lines", input=b"a\nb\n")
    assert r.code == 64 and "--unique is for one message" in r.err and not redis.client().exists(UNIQUE, "ingress:mail")
