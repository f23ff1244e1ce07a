"""What changes while the sweeper looks, and two sweepers that both think they lead: nothing early, nothing lost, nothing twice."""
import collections
import json

from crashpoints.letters import Letters, message_of
from harness import queue, wait_for
from harness.messages import anywhere, unwrap
from harness.queues import now_ms
from harness.redis_proxy import CUT, Once

HOUR = 3600 * 1000


def header(**keys):
    return ("quredis/1 " + " ".join(f"{k}={v}" for k, v in keys.items()) + "\n").encode()


def idle(handler, name="mail", **keys):
    return queue(name, handler("cat"), workers=0, **keys)


def between(redis, redis_proxy, quredisd, what, key, act, **sections):
    """A supervisor; act() is called before the first script, or command, of this name that names this key. Returns whether it was."""
    done = []
    d = quredisd(redis=redis_proxy(redis, Once(what, key, lambda: done.append(act()) or done[0])), **sections)
    wait_for(lambda: done, 30, f"{what} on {key}")
    return d


def escaped(c):
    return [unwrap(m)[1] for m in c.lrange("escape:mail", 0, -1)]


def test_what_another_took_is_not_purged(redis, redis_proxy, quredisd, handler):
    c, taken = redis.client(), []
    old = [header(id=f"o{i}", enqueued=now_ms() - 2 * HOUR) + b"x" for i in range(3)]
    c.lpush("ingress:mail", *old)
    d = between(redis, redis_proxy, quredisd, "escape", "ingress:mail", lambda: taken.append(c.rpop("ingress:mail")),
                queues=[idle(handler)], purge={"enabled": True, "max_message_age": "1h"})
    d.wait_event("purge_done", queue="mail")
    assert taken == old[:1] and escaped(c) == [old[2], old[1]] and c.xlen("escape:mail:log") == 2
    assert d.stop() == 0


def test_what_another_moved_from_the_delayed_ones_is_not_purged(redis, redis_proxy, quredisd, handler):
    c = redis.client()
    old = [header(id=f"o{i}", enqueued=now_ms() - 2 * HOUR) + b"x" for i in range(3)]
    c.zadd("quredis:of:ingress:mail:delayed", {m: now_ms() + HOUR + i for i, m in enumerate(old)})
    d = between(redis, redis_proxy, quredisd, "expire_delayed", "quredis:of:ingress:mail:delayed", lambda: c.zrem("quredis:of:ingress:mail:delayed",
        old[0]) and None,
                queues=[idle(handler)], purge={"enabled": True, "max_message_age": "1h"})
    d.wait_event("purge_done", queue="mail")
    assert escaped(c) == [old[2], old[1]] and c.xlen("escape:mail:log") == 2 and not c.exists("quredis:of:ingress:mail:delayed")
    assert d.stop() == 0


def test_one_that_came_in_place_of_an_old_one_is_young(redis, redis_proxy, quredisd, handler):
    """The message is equal and at the same place, but its time is another."""
    c, pushed = redis.client(), []

    def another():
        c.delete("ingress:mail")
        c.lpush("ingress:mail", b"same")
        pushed.append(int(c.time()[0] * 1000 + c.time()[1] / 1000))
    c.lpush("ingress:mail", b"same", b"newer")
    d = between(redis, redis_proxy, quredisd, "escape", "ingress:mail", another, queues=[idle(handler, ttl="1s")])
    wait_for(lambda: c.llen("escape:mail") == 1, 30)
    assert int(c.xrange("escape:mail:log")[0][0].split(b"-")[0]) >= pushed[0] + 1000 - 10
    assert escaped(c) == [b"same"] and d.stop() == 0


def test_a_copy_that_did_not_arrive_is_made_again(redis, redis_proxy, quredisd, handler):
    """The connection goes before the push: what was to be copied is not passed over."""
    c = redis.client()
    letters = Letters(c, "mail", 60)
    letters.fill(*[b"m%d" % i for i in range(60)])
    d = between(redis, redis_proxy, quredisd, "LPUSH", "ingress:failures", lambda: CUT,
                queues=[idle(handler, dead_letter={"forward_to": "failures"}), idle(handler, "failures")])
    ids = [i.decode() for i, _ in letters.records()]
    wait_for(lambda: c.get("escape:mail:forwarded") == ids[-1].encode(), 30)
    assert [json.loads(m)["record"] for m in reversed(c.lrange("ingress:failures", 0, -1))] == ids
    assert d.stop() == 0


def test_two_that_both_think_they_lead(redis, quredisd, handler, tmp):
    """The lead is taken away again and again, so that both have it: each does what the other does."""
    c = redis.client()
    queues = [idle(handler, "mail", dead_letter={"max_entries": 5, "archive": tmp, "archive_size": "4K"}),
              idle(handler, "capped", dead_letter={"max_entries": 5, "discard": True}),
              idle(handler, "copied", dead_letter={"forward_to": "failures"}), idle(handler, "failures"),
              idle(handler, "brief", ttl="1s"), idle(handler, "old")]
    both = [quredisd(queues=queues, purge={"enabled": True, "interval": "1s", "max_message_age": "1h"},
                     supervisor={"node": node, "lease": "2s"}) for node in ("a", "b")]
    mail, capped, copied = Letters(c, "mail", 5, tmp), Letters(c, "capped", 5), Letters(c, "copied", 200)
    pushed = [b"m%d" % i for i in range(200)]

    def while_both_lead(condition, what):
        """Lets both sweepers hold the lead: the key is deleted again and again, so that each finds it free."""
        wait_for(lambda: c.delete(*[f"quredis:of:ingress:{q['name']}:sweeper" for q in queues]) is not None and condition(), 60, what)

    while_both_lead(lambda: all(d.events("lead_taken", queue=q["name"]) for d in both for q in queues if q["name"] != "failures"), "both leads")
    for part in range(0, 200, 40):
        some = pushed[part:part + 40]
        for letters in (mail, capped, copied):
            letters.fill(*some)
        c.lpush("ingress:brief", *some)
        c.lpush("ingress:old", *(header(id=m.decode(), enqueued=now_ms() - 2 * HOUR) + m for m in some), b"young%d" % part)
        while_both_lead(lambda: mail.settled() and capped.settled(), "bounds to be kept")
    ids = [i.decode() for i, _ in copied.records()]
    while_both_lead(lambda: c.get("escape:copied:forwarded") == ids[-1].encode() and c.llen("escape:brief") == c.llen("escape:old") == 200,
                    "copies and what is too old")
    assert [d.stop() for d in both] == [0, 0]
    assert not mail.lost() and not capped.wrong(True) and copied.settled()
    # each has a file of its own, so what both wrote at one moment is in both; never twice in one, nor in the list as well
    lines = mail.archived()
    for node in "ab":
        own = [a["record"] for p in mail.files() if p.name.split("@")[1].split(".")[0] == node for a in map(json.loads, p.read_text().splitlines())]
        assert len(own) == len(set(own)), node
    assert not {a["record"] for a in lines} & {i.decode() for i, _ in mail.records()}
    assert {message_of(a) for a in lines} == set(pushed[:-5]) and mail.listed() == pushed[:-6:-1]
    assert set(ids) == {json.loads(unwrap(m)[1])["record"] for m in c.lrange("ingress:failures", 0, -1)}
    assert collections.Counter(c.lrange("escape:brief", 0, -1)) == collections.Counter(pushed) and c.xlen("escape:brief:log") == 200
    assert c.xlen("escape:old:log") == 200 == len(set(c.lrange("escape:old", 0, -1))) and len(anywhere(c, "old")) == 5
