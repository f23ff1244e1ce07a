"""Several supervisors on one Redis: none takes messages of a living one, and messages of a dead host return."""
import signal

import pytest

from harness import alive, queue, wait_for
from harness.handlers import GATED
from harness.messages import anywhere, trays, unwrap


@pytest.mark.parametrize("same_name", [True, False])
def test_nobody_takes_a_living_ones_message(redis, quredisd, handler, ledger, tmp, tag, same_name):
    """Also not in a second container that has the first one's name."""
    c = redis.client()
    body = handler(GATED)
    a = quredisd(queues=[queue("mail", body)], supervisor={"lease": "1s"})
    c.lpush("ingress:mail", "m1")
    wait_for(lambda: len(ledger.rows("start")) == 1)
    c.lpush("ingress:mail", "m2")
    b = quredisd(queues=[queue("mail", body)], supervisor={"lease": "1s", "node": tag if same_name else tag + "b"})
    wait_for(lambda: len(ledger.rows("start")) == 2)
    # b's sweeper has looked at a's registration and lease more than twice by now
    ttl = len(b.events())
    b.signal(signal.SIGHUP)
    b.wait_event("reload_done", since=ttl)
    first = int(ledger.rows("start")[0][3])
    assert alive(first) and [s[:2] for s in ledger.rows("start")] == [["m1", "0"], ["m2", "0"]]
    b.restart(signal.SIGQUIT)                       # a start beside a living one
    wait_for(lambda: len(ledger.rows("start")) == 3)
    (tmp / "go").touch()
    wait_for(lambda: not anywhere(c, "mail"))
    assert [s[:2] for s in ledger.rows("start")] == [["m1", "0"], ["m2", "0"], ["m2", "1"]]
    assert sorted(line for line in ledger.lines() if line.startswith("end")) == ["end m1", "end m2"]
    assert a.stop() == 0 and b.stop() == 0
    assert not c.exists("transit:mail:workers")


def test_a_dead_hosts_message_comes_back(redis, quredisd, handler, ledger, tmp, tag):
    """The whole tree of one is gone for good; the other finds its lease has run out, twice."""
    c = redis.client()
    body = handler(GATED)
    a = quredisd(queues=[queue("mail", body)], supervisor={"lease": "1s"})
    c.lpush("ingress:mail", "m1")
    wait_for(lambda: len(ledger.rows("start")) == 1)
    b = quredisd(queues=[queue("mail", body)], supervisor={"lease": "1s", "node": tag + "b"})
    a.kill_tree()
    assert [unwrap(m)[1] for held in trays(c, "mail").values() for m in held] == [b"m1"]
    wait_for(lambda: len(ledger.rows("start")) == 2, 60)
    assert ledger.rows("start")[1][:2] == ["m1", "1"]
    (tmp / "go").touch()
    wait_for(lambda: not anywhere(c, "mail"))
    assert c.llen("escape:mail") == 0 and b.stop() == 0


def test_two_hosts_share_the_work(redis, quredisd, handler, ledger, tag):
    c = redis.client()
    body = handler('read -r m; echo "start $m $QUREDIS_REDELIVERED $QUREDIS_INCARNATION" >>@LEDGER@; sleep 0.01')
    a = quredisd(queues=[queue("mail", body, workers=2)])
    b = quredisd(queues=[queue("mail", body, workers=2)], supervisor={"node": tag + "b"})
    names = [f"m{i}" for i in range(200)]
    c.lpush("ingress:mail", *names)
    wait_for(lambda: len(ledger.rows("start")) == 200 and not anywhere(c, "mail"), 40)
    assert sorted(s[0] for s in ledger.rows("start")) == sorted(names)
    nodes = {s[2].split(".")[0] for s in ledger.rows("start")}
    assert nodes == {tag, tag + "b"}
    assert a.stop() == 0 and b.stop() == 0


def test_any_host_returns_what_a_dead_one_had(redis, quredisd, handler, ledger, tmp, tag):
    """Also of a queue it does not serve any more. What comes late under the dead name goes back, too; nothing is lost of it by waiting."""
    c = redis.client()
    body = handler(GATED)
    b = quredisd(queues=[queue("other", body), queue("mail", body, workers=0)], supervisor={"lease": "1s", "node": tag + "b"})
    a = quredisd(queues=[queue("mail", body)], supervisor={"lease": "1s"})
    c.lpush("ingress:mail", "m1")
    wait_for(lambda: len(ledger.rows("start")) == 1)
    b.reload(queues=[queue("other", body)])
    b.wait_event("reload_done")
    a.kill_tree()
    (dead,) = {k.decode().rsplit(":", 1)[0] for k in c.keys("transit:mail:*:[0-2]")}
    wait_for(lambda: c.llen("ingress:mail") == 1, 60)
    c.lpush(f"{dead}:2", "late")                # as a command of it that was on its way for long
    wait_for(lambda: c.llen("ingress:mail") == 2, 60)
    assert [(unwrap(m)[1], unwrap(m)[0].get("outages", 0), unwrap(m)[0]["redelivered"]) for m in c.lrange("ingress:mail", 0, -1)] == \
        [(b"m1", 1, 1), (b"late", 0, 1)]
    assert not trays(c, "mail") and c.llen("escape:mail") == 0
    a.start()
    wait_for(lambda: len(ledger.rows("start")) == 2)
    (tmp / "go").touch()
    wait_for(lambda: not anywhere(c, "mail"))
    assert sorted(s[:2] for s in ledger.rows("start")) == [["late", "1"], ["m1", "0"], ["m1", "1"]]
    assert a.stop() == 0 and b.stop() == 0
