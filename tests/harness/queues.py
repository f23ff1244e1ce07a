"""A queue as workers leave it in Redis, written by hand: what the command line finds without a daemon."""
import hashlib
import json
import time

from . import reach

LINEAGE = "root depth traceparent".split()      # only the record of a message that a handler emitted has these
FIELDS = ("id queue queue_from error_class error_message failed_at retry_count attempts crashes exit_code signal stderr "
          "duration_ms node worker handler first_failed_at request_id sha1 size message").split()


def sha1(message):
    return hashlib.sha1(message).hexdigest()


def incarnation(slot, node="web1", boot=0x1234, generation=1):
    return f"{node}.{boot:016x}.{slot}.{generation}"


def entry(name, ingress=None, transit=None, escape=None, **more):
    """What the registry says of a queue, as the gem writes it."""
    lists = {"ingress": ingress or f"ingress:{name}", "transit": transit or f"transit:{name}", "escape": escape or f"escape:{name}"}
    return json.dumps({"name": name, **{k: reach.key(v) for k, v in lists.items()}, **more})


class Queue:
    """Keys of the queue `name` with default lists, or the given ones, in the registry as the gem keeps it."""

    def __init__(self, client, name="mail", ingress=None, transit=None, escape=None, register=True):
        self.client, self.name = client, name
        self.ingress = ingress or f"ingress:{name}"
        self.transit = transit or f"transit:{name}"
        self.escape = escape or f"escape:{name}"
        self.own = f"quredis:of:{self.ingress}"       # its private keys begin so
        self.log, self.delayed = f"{self.escape}:log", f"{self.own}:delayed"
        self.workers, self.paused = f"{self.transit}:workers", f"{self.own}:paused"
        if register:
            client.zadd("quredis:queues", {name: 1})
            client.set(f"quredis:queue:{name}", entry(name, self.ingress, self.transit, self.escape))

    def worker(self, inc, alive=True, pid=4711, **trays):
        """Registers an incarnation; trays: t0=[...], t1, t2, rescue: messages, oldest last as in Redis."""
        self.client.hset(self.workers, inc, json.dumps({"lock": "l", "node": inc.rsplit(".", 3)[0], "pid": pid, "since": 1}))
        if alive:
            self.client.set(f"{self.transit}:lease:{inc}", "1", px=600000)
        for tray, messages in trays.items():
            self.client.rpush(f"{self.transit}:{inc}:{tray.lstrip('t') if tray != 'rescue' else tray}", *messages)
        return inc

    def dead_letters(self, *messages, record=True, **fields):
        """As they fail, one after the other. Returns the record ids."""
        ids = []
        for m in messages:
            self.client.lpush(self.escape, m)
            if record:
                ids.append(self.record(m, **fields))
        return ids

    def record(self, message, payload_max=65536, at=None, **fields):
        """at: when it failed, for Redis; now, if it is not given."""
        values = {"id": f"sha1:{sha1(message)}", "queue": self.name, "queue_from": "transit", "error_class": "HandlerExit",
                  "error_message": "exit status 3", "failed_at": "2026-11-20T14:31:07.123Z", "retry_count": "0",
                  "attempts": "1", "crashes": "0", "exit_code": "3", "signal": "", "stderr": "no such user\n",
                  "duration_ms": "12", "node": "web1", "worker": f"{self.name}/0", "handler": "/bin/send",
                  "first_failed_at": "2026-11-20T14:31:07.123Z", "request_id": "", "sha1": sha1(message),
                  "size": str(len(message)), "message": message if len(message) <= payload_max else b"", **fields}
        assert sorted(values.keys() - LINEAGE) == sorted(FIELDS)
        return self.client.xadd(self.log, {k: values[k] for k in [*FIELDS[:-3], *LINEAGE, *FIELDS[-3:]] if k in values}, id=f"{at}-0" if at else "*").decode()

    def fetched(self, client_key=None):
        """All of ingress in the order in which a worker would fetch it."""
        return list(reversed(self.client.lrange(client_key or self.ingress, 0, -1)))


def dumps(client):
    """Every key with its bytes: equal before and after a dry run."""
    return {k: client.dump(k) for k in client.scan_iter(count=1000)}


def written(client):
    """All but what supervisors report now and then: of themselves, and the backlog of each minute."""
    return {k: v for k, v in dumps(client).items() if not k.startswith(b"quredis:node:") and b":backlog:" not in k}


def strip(message):
    """A message without its wrapper."""
    if message.startswith(b"quredis/1 w="):
        return message.split(b"\n", 1)[1]
    return message


def payloads(client, key):
    """The messages of a list without their headers and wrappers, sorted."""
    return sorted(strip(m) for m in client.lrange(key, 0, -1))


def wrapper(message):
    """The wrapper's pairs; {} without one."""
    if not message.startswith(b"quredis/1 w="):
        return {}
    pairs = dict(p.split("=", 1) for p in message.split(b"\n", 1)[0].decode().split(" ")[1:])
    pairs.pop("mac", None)
    return pairs


def now_ms():
    return int(time.time() * 1000)
