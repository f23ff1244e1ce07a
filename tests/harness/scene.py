"""The queues of a shop as two hosts left them, written by hand: what the pictures of the console show. Equal at each run, but for the ages, which begin now."""
import collections
import json
import socket
import threading
import time

from . import reach
from .queues import Queue, incarnation

MINUTE_MS = 60000
NOT_THERE = "its handler cannot be executed: execve /usr/lib/shop/call-webhook: No such file or directory"

# name: ingress, delayed, done a minute, workers, breaker, health reasons
QUEUES = {
    "invoices": (0, 0, 64, 2, False, []),
    "mail": (12, 2, 116, 4, False, [("dead_letters", "142 dead letters, the limit is 20")]),
    "newsletter-with-a-rather-long-name-for-a-queue": (71, 0, 0, 1, False, []),
    "reports": (3, 0, 4, 2, False, []),
    "search-index": (1204, 0, 310, 2, False, [("ingress_size", "1,204 messages wait, the limit is 500"),
                                              ("ingress_age", "the oldest waits for 14 min, the limit is 10 min")]),
    "sms": (0, 1, 18, 1, False, []),
    "thumbnails": (0, 0, 83, 2, False, []),
    "webhooks": (14, 0, 0, 1, True, [("breaker", f"the breaker is open: {NOT_THERE}; workers test the handler at least every 30 s")]),
}
NODES = ("web1", "web2")
BUSY = {"reports": 2, "mail": 1}        # workers of web1 that run a message
PAUSED = "newsletter-with-a-rather-long-name-for-a-queue"
FAILURES = [
    (62, dict(error_class="HandlerExit", exit_code="75", error_message="exit status 75: connection to 10.0.0.17 lost: 421 4.7.0 try again later",
              stderr="Traceback (most recent call last):\n  File \"send.py\", line 41, in deliver\n    server.login(user, password)\n"
                     "SMTPServerDisconnected: connection to 10.0.0.17 lost: 421 4.7.0 try again later\n")),
    (41, dict(error_class="HandlerTimeout", exit_code="", signal="SIGKILL", error_message="no answer within 30 s")),
    (24, dict(error_class="Rejected", exit_code="65", error_message="exit status 65: no such user")),
    (15, dict(error_class="HandlerSignal", exit_code="", signal="SIGSEGV", error_message="killed by SIGSEGV")),
]


def iso(ms):
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ms / 1000)) + f".{ms % 1000:03}Z"


def letter(i):
    """Most are JSON; a few are bytes, or large."""
    if i % 17 == 5:
        return bytes((7 * i + k * k) % 256 for k in range(48))
    order = {"to": f"customer{4000 + 37 * i % 997}@example.org", "template": ("welcome", "receipt", "reminder")[i % 3], "order": 88000 + i, "locale": "en"}
    if i % 23 == 9:
        order["attachment"] = "JVBERi0xLjQK" * 400
    return json.dumps(order).encode()


class Scene:
    def __init__(self, client):
        self.client, self.queues = client, {}
        self.now = round(time.time() * 1000)
        for name, (ingress, delayed, *_) in QUEUES.items():
            q = self.queues[name] = Queue(client, name)
            if ingress:
                client.lpush(q.ingress, *(json.dumps({"queue": name, "n": i, "job": f"{name}:{i:06}"}) for i in range(ingress)))
            for i in range(delayed):
                client.zadd(q.delayed, {json.dumps({"retry": i, "to": f"customer{i}@example.org"}): self.now + (i + 1) * 90000})
        client.set(self.queues[PAUSED].paused, "1")
        self._dead_letters()
        self._in_flight()
        for name, total in self.report().items():
            client.hset(f"{self.queues[name].own}:stats", mapping={k: 24 * v for k, v in total.items()})

    def _outcomes(self, now):
        """The counters of the last hour, up to now. Of the minute that has begun, only a part is over. Returns their sums, by queue."""
        sums, p = {name: collections.Counter() for name in QUEUES}, self.client.pipeline(transaction=False)
        for name, (_, _, pace, *_) in QUEUES.items():
            key = self.queues[name].own
            for back in range(60):
                wave = pace * (8 + (back * 7 + len(name)) % 5) // 10
                if back == 0:
                    wave = wave * (now % MINUTE_MS) // MINUTE_MS
                counters = {"fetched": wave + 2, "done": wave, "failed": 2 * (pace > 100), "retried": 2 * (pace > 100),
                            "escaped": (back % 9 == 0) * (name == "mail"),
                            "below_64": wave // 2, "below_512": wave // 3, "below_4096": wave - wave // 2 - wave // 3, "duration_ms": 90 * wave}
                minute = now // MINUTE_MS - back
                p.hset(f"{key}:rate:{minute}", mapping=counters)
                p.hset(f"{key}:backlog:{minute // 60}", str(minute % 60), max(12 + back % 4, 800 - abs(30 - back) * 35))
                sums[name].update(counters)
        p.execute()
        return sums

    def _dead_letters(self):
        q, i = self.queues["mail"], 0
        self.records = []
        for n, fields in FAILURES:
            for _ in range(n):
                message, at = letter(i), self.now - (150 - i) * 97000
                fields = {"stderr": "", **fields, "failed_at": iso(at), "first_failed_at": iso(at - 400000), "attempts": "3",
                          "handler": "/usr/lib/shop/send-mail", "retry_count": "2", "worker": incarnation(1), "duration_ms": str(40 + i),
                          "request_id": f"req-{i:05}"}
                self.records += q.dead_letters(message, at=at, **fields)
                i += 1

    def _in_flight(self):
        self.queues["invoices"].worker(incarnation(1, "web2"))
        for name, slot, texts in (("reports", 1, [b'{"report":"revenue","month":"2026-10"}']),
                                  ("reports", 2, [b'{"report":"stock","month":"2026-10"}']),
                                  ("mail", 3, [b'{"to":"ada@example.org","template":"welcome"}'])):
            self.queues[name].worker(incarnation(slot), t0=texts)

    def report(self):
        """What supervisors write every few seconds, with the time of now. Returns the sums of the last hour, by queue."""
        now = round(time.time() * 1000)
        sums = self._outcomes(now)
        for k, node in enumerate(NODES):
            busy = BUSY if k == 0 else {}
            queues = [{"name": name, "state": "breaker" if broken else "running", "wanted": workers, "restarts": k, "breaker": broken,
                       "workers": {state: n for state, n in (("running", busy.get(name, 0)), ("idle", workers - busy.get(name, 0))) if n > 0},
                       **({"reason": NOT_THERE, "next_attempt_ms": 25000} if broken else {}), "memory": {"workers": workers * 3666000, "handlers": 1687552}}
                      for name, (_, _, _, workers, broken, _) in QUEUES.items()]
            running = [{"queue": "reports", "incarnation": incarnation(slot), "running_ms": ms, "progress": {"percent": percent, "text": text}}
                       for slot, ms, percent, text in ((1, 131000, 40, "page 2 of 5"), (2, 64000, 85, "page 17 of 20"))] if k == 0 else []
            self.client.set(f"quredis:node:{node}", json.dumps({
                "node": node, "version": "0.1.0", "pid": 811 + k, "boot": "55a43388c900fd00", "started": iso(now - 86400000 * 3), "at": iso(now), "at_ms": now,
                "clock": {"since_ms": now - 86400000, "stepped_ms": 0}, "queues": queues, "running": running}))
        for name, (ingress, delayed, pace, workers, broken, reasons) in QUEUES.items():
            status = "unhealthy" if len(reasons) > 1 else "degraded" if reasons else "healthy"
            self.client.hset("quredis:health", name, json.dumps({
                "queue": name, "status": status, "since": iso(now - 840000), "since_ms": now - 840000, "at": iso(now), "at_ms": now,
                "next_at": iso(now + 30000), "next_at_ms": now + 30000, "interval_ms": 60000, "node": "web1",
                "reasons": [{"code": code, "status": status, "value": 1, "limit": 1, "text": text} for code, text in reasons],
                "ingress": {"size": ingress, **({"oldest_age": 860.0, "avg_age": 410.0} if ingress else {}), "stuck_count": 0},
                "transit": {"size": 0, "stuck_count": 0}, "escape": {"size": 142 if name == "mail" else 0}, "delayed": {"size": delayed},
                "workers": {"alive": 2 * workers, "active": BUSY.get(name, 0), "waiting": 2 * workers - BUSY.get(name, 0)},
                "rates": {"done": pace, "failed": 2.0 * (pace > 100), "retried": 0, "escaped": 0, "expired": 0, "rescued": 0},
                "failures": {"attempts": pace * 10, "failed": 20 * (pace > 100), "window": 600.0}, "growth": {},
                "orphans": {"registrations": 0, "messages": 0}, "paused": name == PAUSED}))
        return sums


class Supervisor:
    """Answers `status` on a control socket, as a supervisor of web1 with four workers would."""

    STATUS = {"ok": True, "node": "web1", "pid": 811, "state": "running", "version": "0.1.0", "queues": [], "workers": [
        {"name": f"{queue}/{slot}", "queue": queue, "pid": 4711 + slot, "state": "running" if ms else "idle", "running_ms": ms, "serial": 1200 + 31 * slot,
         "progress": progress, "incarnation": incarnation(slot), "draining": False, "redis": True}
        for slot, (queue, ms, progress) in enumerate([("reports", 131000, {"percent": 40, "text": "page 2 of 5"}),
                                                      ("reports", 64000, {"percent": 85, "text": "page 17 of 20"}),
                                                      ("mail", 1200, None), ("mail", None, None)], 1)]}

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(str(path))
        self.socket.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            with client:
                if client.recv(4096):
                    client.sendall(json.dumps(self.STATUS).encode() + b"\n")

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
