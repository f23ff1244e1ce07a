"""What commands show of a registry that is damaged, and of queues that are only there."""
import json

import pytest

from harness import queue, wait_for
from harness.queues import Queue, incarnation


@pytest.mark.limit(150)
def test_a_damaged_registry_hides_no_queue_of_the_configuration(redis, quredisd, handler):
    """Every command shows what it can, names the key once, and what to do; and does not call unknown queues healthy."""
    c = redis.client()
    d = quredisd(health={"enabled": True, "interval": "1s"}, queues=[queue("mail", handler("cat"), workers=1)])
    wait_for(lambda: d.quredis("health").code == 0, 40)
    c.delete("quredis:queues")
    c.set("quredis:queues", "x")
    for command in ("ls", "stats", "nodes", "health", "top --once"):
        r = d.quredis(*command.split())
        assert "quredis: quredis:queues has the wrong type" in r.err and "RENAME" in r.err and r.err.count("\n") == 1, (command, r)
        assert ("mail" if command != "nodes" else "0.1") in r.out, (command, r)
        assert r.code == {"health": 3, "top --once": 0}.get(command, 78), (command, r)
    r = d.quredis("health", "--nagios")
    assert r.code == 3 and r.out.startswith("QUREDIS UNKNOWN - the registry has the wrong type")
    assert json.loads(d.quredis("health", "--json").out)["status"] == "unknown"
    r = d.quredis("peek", "other", "ingress")
    assert r.code == 78 and "queue other is not in the configuration, and the registry has the wrong type" in r.err and "no queue" not in r.err, r
    c.rename("quredis:queues", "kept")
    assert d.quredis("health").code == 0


@pytest.mark.limit(150)
def test_a_queue_that_no_supervisor_has_says_how_to_remove_it(redis, quredisd, handler):
    c = redis.client()
    works = [Queue(c, name) for name in ("old", "new", "led", "works")][-1]
    c.zadd("quredis:queues", {"new": c.time()[0], "led": 1})
    d = quredisd(health={"enabled": True, "interval": "1s"}, queues=[queue("mail", handler("cat"), workers=1)])
    wait_for(lambda: d.quredis("health").code == 0, 40)
    c.set("quredis:of:ingress:led:sweeper", "far:x")
    works.worker(incarnation(1))
    rows = {q["name"]: q for q in json.loads(d.quredis("ls", "--json").out)}
    said = {name: row["reasons"] for name, row in rows.items() if row["reasons"] and "no supervisor" in row["reasons"]}
    assert list(said) == ["old"] and "if it was removed for good: quredis destroy old" in said["old"], rows
    assert rows["old"]["health"] is None and "destroy old" in d.quredis("ls").out
    assert d.quredis("destroy", "old", "--yes").code == 0 and "destroy old" not in d.quredis("ls").out
