"""quredis:schema: two versions of quredis on one Redis work side by side, or the one that does not understand the keys leaves them alone.

The other version has the same sources, with another number and another layout: `make other-version`, seconds."""
import json
import time

import pytest
import redis as redis_py

from harness import queue, wait_for
from harness.control import status
from harness.messages import anywhere, sealed
from harness.other_version import OtherQuredisd, Version
from harness.program import run_quredis
from harness.queues import dumps
from harness.redis_proxy import script_text

SCHEMA, SECRET, NONE = "quredis:schema", "quredis:secret", "quredis:secret:none"
REASON = "another version of quredis wrote the keys in Redis"
NOTE = """read -r m
echo "start $m $QUREDIS_REDELIVERED $QUREDIS_ATTEMPT" >>@LEDGER@
case $m in fails*) [ $QUREDIS_ATTEMPT -gt 1 ] || exit 75;; esac
echo "end $m @HOST@" >>@LEDGER@"""


@pytest.fixture
def other_quredisd(machine, redis):
    """quredisd of another version, as a host of its own."""
    def make(version, node="other", **options):
        options["supervisor"] = {"node": node, **options.get("supervisor", {})}
        machine.daemons.append(OtherQuredisd(version, machine.tmp / f"d{len(machine.daemons)}", tag=machine.tag, redis=redis, **options))
        return machine.daemons[-1].start()
    return make


@pytest.fixture
def redis(redis_server):
    return redis_server(aof="always")


def starts(ledger):
    """message -> the redelivered flags of its starts."""
    found = {}
    for message, redelivered, _ in ledger.rows("start"):
        found.setdefault(message, []).append(redelivered)
    return found


def ends(ledger, host=None):
    return {m for m, h in ledger.rows("end") if host in (None, h)}


# ---- two daemons ----

def test_side_by_side(redis, quredisd, other_quredisd, handler, ledger, tmp):
    """A newer version that lets this one work beside it: messages, retries and a kill -9 of either, on one queue."""
    newer = Version(tmp / "v9", "9.0.0", 3, 2, 2)
    keys = {"max_attempts": 3, "backoff": {"base": "200ms", "cap": "200ms"}, "workers": 2}
    with_host = [handler(NOTE.replace("@HOST@", host), name=f"on_{host}") for host in ("ours", "newer")]
    d = quredisd(queues=[queue("mail", with_host[0], **keys)], supervisor={"lease": "1s"})
    other = other_quredisd(newer, queues=[queue("mail", with_host[1], **keys)], supervisor={"lease": "1s"})
    c = redis.client()
    wait_for(lambda: c.get(SCHEMA) == b"3 2", 20)
    names = []

    def push_some():
        some = [f"{'fails' if i % 3 == 0 else 'm'}{len(names) + i}" for i in range(150)]
        names.extend(some)
        c.lpush("ingress:mail", *some)

    for victim in (d, other):
        push_some()
        wait_for(lambda: len(ends(ledger)) > len(names) - 100, 30)
        victim.kill9()
        push_some()
        victim.start()
    wait_for(lambda: ends(ledger) == set(names) and not anywhere(c, "mail"), 60)
    assert ends(ledger, "ours") and ends(ledger, "newer")
    unmarked = {m: flags for m, flags in starts(ledger).items() if flags.count("0") > (2 if m.startswith("fails") else 1)}
    assert not unmarked, unmarked
    assert c.get(SCHEMA) == b"3 2" and not d.events("schema_refused")
    nodes = {row["node"]: row["version"] for row in json.loads(d.quredis("nodes", "--json").out)}
    assert nodes["other"] == "9.0.0" != nodes[d.tag]


def test_a_newer_version_that_excludes_this_one(redis, quredisd, other_quredisd, handler, ledger, tmp):
    """It starts while this one works: this one stops touching the keys, loses nothing, and works again once they are of its layout."""
    newer = Version(tmp / "v10", "10.0.0", 3, 3, 2)
    gated = NOTE.replace("echo \"end", f"[ \"$m\" != held ] || while ! [ -e {tmp}/go ]; do sleep 0.05; done\necho \"end")
    d = quredisd(queues=[queue("mail", handler(gated.replace("@HOST@", "ours"), name="a"), workers=2)], supervisor={"lease": "1s"})
    c = redis.client()
    c.lpush("ingress:mail", "before", "held")
    wait_for(lambda: ends(ledger) == {"before"} and "held" in starts(ledger), 20)
    other = other_quredisd(newer, queues=[queue("mail", handler(NOTE.replace("@HOST@", "newer"), name="b"))], supervisor={"lease": "1s"})
    wait_for(lambda: [(q["state"], (q["reason"] or "").partition(": ")[0]) for q in status(d)["queues"]] == [("error", REASON)], 30)
    event = d.wait_event("schema_refused")
    assert "layout 3 for programs of layout 3 or later (quredis:schema); this program has layout 2" in event["reason"] and "docs/versions.md" in event["advice"]
    (tmp / "go").touch()
    wait_for(lambda: "held" in ends(ledger, "newer"), 60)
    before = set(ends(ledger, "ours"))

    r = d.quredis("push", "mail", "no")
    assert (r.code, r.out) == (78, "") and "SCHEMA the keys in Redis have layout 3" in r.err and "docs/versions.md" in r.err
    assert d.quredis("ls").code == 78
    r = d.quredis("doctor", "--json")
    wrong = [f for f in json.loads(r.out) if f["severity"] == "error" and f["check"] == "redis"]
    assert r.code == 2 and len(wrong) == 1 and "another version of quredis wrote its keys: " in wrong[0]["what"] and wrong[0]["advice"]
    assert "SCHEMA the keys" in wrong[0]["what"]
    assert newer.run("-c", str(other.conf), "push", "mail", "after").returncode == 0
    wait_for(lambda: "after" in ends(ledger, "newer") and not anywhere(c, "mail"), 30)
    assert ends(ledger, "ours") == before <= {"before", "held"}
    assert starts(ledger)["held"][1:] == ["1"] and starts(ledger)["after"] == ["0"]

    other.stop()
    c.delete(SCHEMA)
    c.lpush("ingress:mail", "back")
    wait_for(lambda: "back" in ends(ledger, "ours"), 60)
    assert c.get(SCHEMA) == b"2 2"
    wait_for(lambda: [q["state"] for q in status(d)["queues"]] == ["running"], 60)
    assert d.wait_event("redis_up")


@pytest.mark.parametrize("value, said", [
    (b"3 3", "layout 3 for programs of layout 3 or later"), (b"1 1", "layout 1 for programs of layout 1 or later (quredis:schema); this program has layout 2"),
    (b"something", "does not hold two numbers"), (b"", "does not hold two numbers"),
    (b"12345678901 1", "does not hold two numbers"), (["a list"], "is a list, not a string")])
def test_a_start_on_keys_of_another_layout_changes_nothing(redis, quredisd, quredis, handler, ledger, value, said):
    c = redis.client()
    c.lpush("ingress:mail", sealed(c, b"quredis/1 w=1 attempts=1\nwrapped"), "plain")
    c.rpush(SCHEMA, *value) if isinstance(value, list) else c.set(SCHEMA, value)
    before = dumps(c)
    d = quredisd(queues=[queue("mail", handler(NOTE))])
    assert said in d.wait_event("schema_refused")["reason"]
    assert said in d.wait_event("redis_error", at="connection")["error"]
    r = quredis("push", "mail", "x", conf=d.conf)
    assert r.code == 78 and said in r.err
    wait_for(lambda: [q["state"] for q in status(d)["queues"]] == ["error"], 20)
    d.stop()
    assert dumps(c) == before and not ledger.lines()


# ---- the key ----

def test_a_key_that_was_lost_or_went_back_is_restored(redis, quredisd, handler, ledger):
    d = quredisd(queues=[queue("mail", handler(NOTE))])
    c = redis.client()
    wait_for(lambda: c.get(SCHEMA) == b"2 2", 20)
    c.delete(SCHEMA)
    wait_for(lambda: c.get(SCHEMA) == b"2 2", 30)          # without a new connection
    assert not d.events("redis_down")


def test_looking_writes_no_layout(redis, quredis):
    c = redis.client()
    assert quredis("ls", url=redis.url).code == 0 and c.keys("*") == []


def layout(c, *, own, lowest, reads, write=True):
    """What the script answers to a program with this layout: None, or why it is refused."""
    try:
        keys, fresh = [NONE, SECRET, SCHEMA, "quredis:queues", "quredis:health"], "a" * 64 if write else ""
        c.eval(script_text("secret"), len(keys), *keys, fresh, "", own, lowest, reads, "", "hash")
        return None
    except redis_py.ResponseError as e:
        return str(e)


@pytest.mark.parametrize("there, program, after", [
    (None, (1, 1, 1), b"1 1"),
    (None, (3, 2, 3), b"3 2"),
    (b"1 1", (3, 1, 1), b"3 1"),            # it raises the layout, and lets 1 work beside it
    (b"3 1", (1, 1, 1), b"3 1"),            # which raises nothing
    (b"3 1", (2, 2, 1), b"3 2"),
    (b"3 2", (1, 1, 1), None),              # too old for the keys
    (b"1 1", (3, 1, 2), None),              # the keys are too old for it
    (b"2 1 and more", (2, 1, 1), b"2 1"),
    (b"2 1x", (2, 1, 1), None),
])
def test_the_numbers_only_rise(redis, there, program, after):
    c = redis.client()
    if there is not None:
        c.set(SCHEMA, there)
        c.set(SECRET, "b" * 64)             # keys with a layout have a secret
    own, lowest, reads = program
    said = layout(c, own=own, lowest=lowest, reads=reads, write=False)
    assert c.get(SCHEMA) == there and bool(c.exists(SECRET)) == (there is not None)
    assert layout(c, own=own, lowest=lowest, reads=reads) == said and (said is None) == (after is not None)
    assert c.get(SCHEMA) == (after or there) and bool(c.exists(SECRET)) == ((after or there) is not None)


def test_keys_without_a_layout_are_of_the_first_release(redis):
    c = redis.client()
    c.set(SECRET, "b" * 64)
    assert "the keys in Redis have layout 2" in layout(c, own=3, lowest=1, reads=3) and not c.exists(SCHEMA)
    assert layout(c, own=3, lowest=2, reads=2) is None and c.get(SCHEMA) == b"3 2"


def test_a_full_redis_takes_the_layout(redis):
    c = redis.client()
    redis.config_set("maxmemory", "1")
    with pytest.raises(redis_py.ResponseError):
        c.set("x", "y")
    assert layout(c, own=1, lowest=1, reads=1) is None and c.get(SCHEMA) == b"1 1"


def test_the_layout_of_a_prefix(redis, quredisd, handler, ledger):
    """Two supervisors with prefixes of their own are two sets of keys."""
    c = redis.client()
    c.set("b:" + SCHEMA, "9 9")
    d = quredisd(redis={"url": redis.url, "prefix": "a:"}, queues=[queue("mail", handler(NOTE))])
    wait_for(lambda: c.get("a:" + SCHEMA) == b"2 2" and not c.exists(SCHEMA), 20)
    assert not d.events("schema_refused")
