"""Death by lease: which looks prove it, over which connections and servers, and what is reported while no look can."""
import json

import pytest

from harness import queue, run_quredis, wait_for
from harness.control import status

LOST = "far.0123456789abcdef.3.1"


def register(c, *owners):
    """They have a message each, and no lease."""
    for owner in owners:
        c.hset("transit:mail:workers", owner, json.dumps({"lock": "elsewhere:1:1", "node": "far", "pid": 1, "since": 1}))
        c.lpush(f"transit:mail:{owner}:1", owner)


class Breaker:
    """Cuts each connection of the sweeper that it has seen before."""

    def __init__(self, c):
        self.c, self.seen, self.cut = c, set(), 0

    def __call__(self):
        for client in self.c.client_list():
            if not client["name"].endswith(":sweeper"):
                continue
            if client["id"] in self.seen:
                self.cut += self.c.client_kill_filter(_id=client["id"])
            self.seen.add(client["id"])


def test_a_redis_that_closes_idle_connections(redis_server, quredisd, handler, ledger):
    """No connection lasts for a lease, and all are to the same server."""
    redis = redis_server(config={"timeout": "1"})
    register(redis.client(), LOST)
    d = quredisd(redis=redis, queues=[queue("mail", handler("cat >>@LEDGER@; echo >>@LEDGER@"))], supervisor={"lease": "10s"})
    wait_for(lambda: ledger.lines() == [LOST], 100)
    assert d.events("owner_lost", incarnation=LOST) and len(d.events("redis_up")) >= 2


@pytest.mark.parametrize("hidden", [False, True])
def test_broken_connections(redis_server, quredisd, handler, ledger, hidden):
    """Broken connections prove nothing if Redis does not identify itself: this is reported everywhere until a connection lasts."""
    redis = redis_server(config={"rename-command INFO": ""} if hidden else {})
    c = redis.client()
    register(c, LOST)
    cut = Breaker(redis.client())
    d = quredisd(redis=redis, queues=[queue("mail", handler("cat >>@LEDGER@; echo >>@LEDGER@"))], supervisor={"lease": "1s"},
                 health={"enabled": True, "interval": "1s"})
    wait_for(lambda: cut() or d.events("rescue_undecided") or d.events("owner_lost"), 60)
    assert cut.cut >= 3
    if hidden:
        told = d.events("rescue_undecided", queue="mail", incarnation=LOST)[0]
        assert int(told["missed_ms"]) >= 4000 and "run_id" in told["reason"] and not d.events("owner_lost")
        assert d.events("redis_run_id_unknown")
        wait_for(lambda: cut() or status(d, "mail")["state"] == "running" and status(d, "mail")["reason"] == told["reason"])
        wait_for(lambda: cut() or any(told["reason"] in r["text"] for r in json.loads(c.hget("quredis:health", "mail") or '{"reasons":[]}')["reasons"]))
        node = status(d)["node"]
        wait_for(lambda: cut() or [q.get("undecided") for q in json.loads(c.get(f"quredis:node:{node}") or '{"queues":[]}')["queues"]] == [told["reason"]], 60)
        found = json.loads(run_quredis("-c", d.conf, "doctor", "--json").out)
        assert told["reason"] in json.dumps(found)
    wait_for(lambda: ledger.lines() == [LOST], 60)
    wait_for(lambda: status(d, "mail")["undecided"] is None and status(d, "mail")["reason"] is None)


def test_two_servers_behind_one_address(redis_server, redis_proxy, quredisd, handler, ledger):
    """A look at one and a look at the other are no two looks, though neither knows a lease."""
    servers = [redis_server(), redis_server()]
    clients = [s.client() for s in servers]
    for c in clients:
        register(c, LOST)
    proxy = redis_proxy(servers[0])
    d = quredisd(redis={"url": proxy.url}, queues=[queue("mail", handler("cat >>@LEDGER@; echo >>@LEDGER@"))], supervisor={"lease": "2s"})
    turns = 0

    def looks():
        return clients[turns % 2].info("commandstats").get("cmdstat_hgetall", {}).get("calls", 0)

    def alternate():
        nonlocal turns
        turns += 1
        before = looks()
        proxy.forward_to(servers[turns % 2])
        wait_for(lambda: looks() > before, 60)
        assert not d.events("owner_lost")
        return d.events("rescue_undecided")
    told = wait_for(alternate, 100)[0]
    assert turns >= 3 and "different servers" in told["reason"]
    assert all(c.llen(f"transit:mail:{LOST}:1") == 1 for c in clients)
    wait_for(lambda: ledger.lines() == [LOST], 60)        # one of them stays: there it is dead
    assert sorted(c.llen(f"transit:mail:{LOST}:1") for c in clients) == [0, 1]
