"""Each key of the table in docs/design.md, section 2, with another type than it says: status and doctor name it, and messages still run."""
import os
import re
import signal
import time

import pytest

from harness import queue, wait_for
from harness.control import status
from harness.paths import ROOT

TYPES = {"list": "list", "string": "string", "hash": "hash", "stream": "stream", "sorted set": "zset"}
# names that hold more than a queue or a time: other tests give them another type
UNBOUNDED = re.compile(r"INC|NONCE|:ID|:KEY|:THROTTLE|scratch")
SHUT = {"ingress:mail", "transit:mail", "escape:mail", "transit:mail:workers"}
STOP = {"quredis:of:ingress:mail:seats"}         # no message of the queue starts
REPLACED = {"quredis:queue:mail", "quredis:node:NODE", "quredis:node:NODE:clock"}       # quredisd writes them as a whole: its next report replaces them
OWN_TESTS = {"quredis:secret", "quredis:secret:aside", "quredis:schema"}


def documented():
    """key -> its type."""
    section = (ROOT / "docs/design.md").read_text().split("\n## 2. ")[1].split("\n## 3. ")[0]
    keys = {}
    for names, types in re.findall(r"^\| (`.*?) \| (.*?) \|", section, re.M):
        of = [t.strip() for t in types.replace("sorted set, string", "sorted set/string").replace(", expires", "").split("/")]
        found = re.findall(r"`([^`]+)`", names)
        for i, name in enumerate(found):
            if ":" in name.strip(":") and (of[0] in TYPES) and not UNBOUNDED.search(name):
                keys[name] = TYPES[of[min(i, len(of) - 1)]]
    return keys


ALL = documented()
OF_A_QUEUE = {key: kind for key, kind in ALL.items() if "mail" in key}
COMMON = {key: kind for key, kind in ALL.items() if "mail" not in key and key not in OWN_TESTS}


def test_the_table_is_read():
    assert len(OF_A_QUEUE) >= 20 and COMMON.keys() >= {"quredis:queues", "quredis:health", "quredis:node:NODE"}, (OF_A_QUEUE, COMMON)
    assert set(ALL.values()) == set(TYPES.values()) and SHUT < ALL.keys()


def keys_now(c, key, name):
    """The keys that the row means now, for the queue of this name."""
    key = re.sub("mail", name, key)
    minute = c.time()[0] // 60
    if "MINUTE" in key:
        return [key.replace("MINUTE", str(minute + i)) for i in range(-1, 5)]
    return [key.replace("HOUR", str(minute // 60 + i)) for i in (0, 1)] if "HOUR" in key else [key]


def damage(c, keys, kind):
    for key in keys:
        c.delete(key)
        c.rpush(key, "oops") if kind == "string" else c.set(key, "oops")


def wait_none(find):
    """Waits until find() finds nothing; its last value is in the error."""
    try:
        wait_for(lambda: not find(), 90)
    except AssertionError:
        assert not find()


def names_one(text, keys):
    return any(re.search(re.escape(key) + r"(?![\w:])", text or "") for key in keys)


def test_each_key_of_a_queue(redis, quredisd, handler, ledger):
    """One queue for each key: before the start, and once more while the queues run."""
    c = redis.client()
    queues = {f"q{i}": (key, kind) for i, (key, kind) in enumerate(OF_A_QUEUE.items())}
    wrong = {name: keys_now(c, key, name) for name, (key, kind) in queues.items()}
    for name, (key, kind) in queues.items():
        damage(c, wrong[name], kind)
    run = handler('echo "$QUREDIS_QUEUE $(cat)" >>@LEDGER@')
    d = quredisd(queues=[queue(name, run, workers=1, **({"max_in_flight": 9} if ":seats" in key else {}))
                         for name, (key, kind) in queues.items()])
    works = {name for name, (key, kind) in queues.items() if key not in SHUT | STOP and key != "transit:mail:aside"}
    for name in works:
        c.lpush(f"ingress:{name}", "first")
    wait_none(lambda: [queues[name][0] for name in works if f"{name} first" not in ledger.lines()])

    def unnamed():
        seen = {q["name"]: q for q in status(d)["queues"]}
        return {key: seen[name].get("reason") for name, (key, kind) in queues.items()
                if not names_one(seen[name].get("reason"), wrong[name]) and not is_replaced(key, wrong[name], kind)}

    def is_replaced(key, keys, kind):
        return key in REPLACED and {c.type(k).decode() for k in keys} <= {kind, "none"}
    wait_none(unnamed)
    doctor = d.quredis("doctor", "--json").out
    assert not [key for name, (key, kind) in queues.items() if not names_one(doctor, wrong[name]) and not is_replaced(key, wrong[name], kind)]

    for keys in wrong.values():
        c.delete(*keys)
    wait_none(lambda: {queues[q["name"]][0]: q.get("reason") for q in status(d)["queues"] if q["state"] != "running"})
    for name, (key, kind) in queues.items():
        if key not in SHUT:
            wrong[name] = keys_now(c, key, name)
            damage(c, wrong[name], kind)
    os.kill(d.sweeper(), signal.SIGKILL)        # the next one looks at once
    wait_for(lambda: not {k: v for k, v in unnamed().items() if k not in SHUT}, 90, unnamed)
    for name in works:
        c.lpush(f"ingress:{name}", "second")
    wait_none(lambda: [queues[name][0] for name in works if f"{name} second" not in ledger.lines()])


@pytest.mark.parametrize("row", COMMON)
def test_each_key_that_queues_share(redis, quredisd, handler, ledger, row):
    c = redis.client()
    key, kind = row.replace("NODE", "here"), COMMON[row]
    damage(c, [key], kind)
    d = quredisd(supervisor={"node": "here"}, queues=[queue("mail", handler("cat >>@LEDGER@; echo >>@LEDGER@"), workers=1)])
    c.lpush("ingress:mail", "runs")
    wait_for(lambda: ledger.lines() == ["runs"], 60)

    def alarms():
        return key in (status(d, "mail").get("reason") or "") and (key in d.quredis("doctor").out)
    wait_for(lambda: alarms() or (row in REPLACED and c.type(key).decode() in (kind, "none")), 60)


def test_a_layout_of_another_type(redis, quredisd, handler, ledger):
    """It may be the form of a later version: nothing runs until it is repaired, and the reason names it."""
    c = redis.client()
    c.rpush("quredis:schema", "oops")
    c.lpush("ingress:mail", "waits")
    d = quredisd(wait=False, queues=[queue("mail", handler("cat >>@LEDGER@; echo >>@LEDGER@"))])
    wait_for(lambda: "quredis:schema is a list" in d.quredis("status", "--json").out, 60)
    assert "quredis:schema is a list" in d.quredis("doctor").out and not ledger.lines()
    c.delete("quredis:schema")
    wait_for(lambda: ledger.lines() == ["waits"], 90)
