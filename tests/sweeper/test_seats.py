"""Seats of max_in_flight: what the leading sweeper does for their hash, and the workers that wait for one."""
import json

from harness import queue, wait_for
from harness.control import status

from .test_metrics import parse


def hash_of(name):
    return f"quredis:of:ingress:{name}:seats"


def test_the_leader_keeps_a_hash_while_seats_are_taken(redis, quredisd, handler):
    """A message may run for days, and its worker asks for nothing meanwhile. A hash without a seat may go."""
    c = redis.client()
    d = quredisd(queues=[queue(name, handler("cat"), workers=0, max_in_flight=5) for name in ("free", "mail")], supervisor={"lease": "5s"})
    for name in ("free", "mail"):
        d.wait_event("queue_recovered", queue=name)
        c.hset(hash_of(name), mapping={"limit": "1 5 far"} | ({"far.0123456789abcdef.3.1": "1 mail"} if name == "mail" else {}))
        c.expire(hash_of(name), 1000)
    for _ in range(2):                  # at the second look the one before has ended, also that at the other queue
        wait_for(lambda: c.ttl(hash_of("mail")) > 80000, 40)
        assert 0 < c.ttl(hash_of("free")) <= 1000
        c.expire(hash_of("mail"), 1000)
    assert c.hget(hash_of("mail"), "far.0123456789abcdef.3.1") == b"1 mail"        # nobody has registered that name, so it is not dead
    assert d.stop() == 0


def test_workers_that_wait_for_a_seat_are_counted(redis, quredisd, handler, console, tmp):
    """In the status, the report of the node and both pages of metrics; and nowhere for a queue without the limit."""
    c = redis.client()
    c.hset(hash_of("mail"), "server", f"{c.info('server')['run_id']}. 0")           # as if it had counted them for long
    body = handler("cat >/dev/null; until [ -e @TMP@/gate ]; do sleep 0.02; done")
    d = quredisd(queues=[queue("mail", body, workers=4, max_in_flight=1), queue("open", handler("cat"), workers=1)],
                 supervisor={"node": "here", "lease": "1m"}, metrics={"textfile": str(tmp / "q.prom"), "interval": "1s"})
    c.lpush("ingress:mail", *"abcdef")
    web = console()

    def said(name):
        """None: the figure is not there."""
        nodes = [q for node in json.loads(d.quredis("nodes", "--json").out) for q in node.get("queues", []) if q["name"] == name]
        pages = [parse(text) for text in ((tmp / "q.prom").read_text(), web.ask("/metrics").body.decode()) if text]
        found = [[v for key, v in page.items() if key[0] == "quredis_workers_awaiting_seat" and ("queue", name) in key] for page in pages]
        return [q.get("awaits_seat") for q in nodes] + [v[0] if v else None for v in found]
    wait_for(lambda: (tmp / "q.prom").exists() and c.exists("quredis:node:here"), 30)
    wait_for(lambda: said("mail") == [3, 3, 3], 60)
    assert said("open") == [None, None, None]
    (tmp / "gate").write_text("")
    wait_for(lambda: c.llen("ingress:mail") == 0 and said("mail") == [0, 0, 0], 60)
    assert status(d, "mail")["state"] == "running" and d.stop() == 0
