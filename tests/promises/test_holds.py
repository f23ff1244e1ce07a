"""Every face of the program says the same of a queue that does not fetch: the word of the table of holds, and the same reason."""
import collections
import json
import os
import re
import signal
import threading

import pytest

from harness import leave_one_descriptor, queue, sources, wait_for
from harness.console import Console

ATTEMPT = re.compile(r"; (next attempt|next start|the next one starts) .*$")      # only `status` knows times
AGO = re.compile(r" [\d.]+\w+ ago(?=;|$)")
ALL = {"nodes", "top", "health", "log", "metrics", "textfile", "doctor", "console"}
WORD_ONLY = {"top", "metrics", "textfile"}

Said = collections.namedtuple("Said", "word reason")


def queue_of(hold):
    return hold.replace(" ", "_")


# ---- one situation for each hold ----

def use_up_the_rate(_, c, name):
    c.lpush(f"ingress:{name}", "x", "y")


def stop_fetches(d, _, name):
    d.quredis("quiet", name)


def leave_the_configuration(d, c, name):
    c.lpush(f"ingress:{name}", "x")
    wait_for(lambda: d.handlers(), 30)
    d.reload(queues=[q for q in d.sections["queues"] if q["name"] != name])


def pause(d, _, name):
    d.quredis("pause", name)


def hold(_, c, name):
    """As a handler does on any host."""
    c.set(f"quredis:of:ingress:{name}:paused", json.dumps({"hold": "429 Too Many", "node": "web2", "since": "2026-11-28T12:00:00.000Z",
                                                           "until": "2026-11-28T13:00:00.000Z"}), px=3600000)


def miss_the_interpreter_and_pause(d, c, name):
    c.lpush(f"ingress:{name}", "x")
    d.wait_event("breaker_opened", queue=name)
    d.quredis("pause", name)


def take_the_descriptors(d, c, name):
    leave_one_descriptor(d.wait_workers(name, 1)[f"{name}/0"])
    c.lpush(f"ingress:{name}", "x")


def give_a_key_another_type(_, c, name):
    c.set(f"quredis:of:ingress:{name}:delayed", "x")


def kill_workers(d, name, deaths, gap_s=1.2):
    """Sleeps: the number of deaths in a period is what the policy counts. Five in 30 s are a back-off."""
    for _ in range(deaths):
        pid = wait_for(lambda: list(d.workers(name).values()), 70)[0]
        os.kill(pid, signal.SIGKILL)
        if d.walked.wait(gap_s):
            return


def kill_five(d, _, name):
    kill_workers(d, name, 5)


def kill_ten(d, _, name):
    kill_workers(d, name, 10)


def kill_the_only_worker_seven_times(d, _, name):
    """So seldom that the queue is not in backoff: four within 30 s."""
    kill_workers(d, name, 7, gap_s=7.7)


# cause: of this queue alone; None: the test itself makes the situation, for all queues at once. unasked: faces that cannot say it, and why
Situation = collections.namedtuple("Situation", "cause unasked workers", defaults=({}, 1))
READERS = ("nodes", "top", "health", "metrics", "console")
SITUATIONS = {
    "running": Situation(None, {"doctor": "finds what is wrong only"}),
    "throttled": Situation(use_up_the_rate),
    "quiet": Situation(stop_fetches),
    "draining": Situation(leave_the_configuration),     # for doctor; for the others the supervisor stops, since they show the configured queues
    "paused": Situation(pause),
    "held": Situation(hold),
    "recovering": Situation(None, dict.fromkeys((*READERS, "doctor", "textfile"), "Redis does not answer yet")),
    "loading": Situation(lambda *_: None),             # its handler never says READY
    "breaker": Situation(miss_the_interpreter_and_pause),
    "no process": Situation(take_the_descriptors),
    "no worker": Situation(kill_the_only_worker_seven_times),
    "error": Situation(give_a_key_another_type),
    "refused": Situation(None),
    "no redis": Situation(None, dict.fromkeys(READERS, "it reads Redis")),
    "backoff": Situation(kill_five, workers=5),
    "quarantine": Situation(kill_ten, workers=10),
}


def test_each_hold_is_walked_through_each_face():
    assert set(SITUATIONS) == set(sources.queue_states())
    assert all(set(s.unasked) < ALL and all(s.unasked.values()) for s in SITUATIONS.values())


# ---- what each face says ----

def base(reason):
    return AGO.sub("", ATTEMPT.sub("", reason)) if reason else None


def of_rows(rows):
    return {q["name"]: {Said(q["state"], q.get("reason"))} for q in rows}


def said_by_log(d):
    found = collections.defaultdict(set)
    for e in d.events("queue_state"):
        found[e["queue"]].add(Said(e["state"], e.get("reason")))
    return found


def said_by_samples(text):
    found = re.findall(r'^quredis_queue_state\{(?:node="web1",)?queue="(\w+)",state="([\w ]+)"\} 1$', text, re.M)
    return {name: {Said(word, None)} for name, word in found}


def said_by_top(d):
    states = "|".join(sources.queue_states())
    return {name: {Said(word, None)} for name, word in re.findall(rf"^ *(\w+) +({states})(?: |$)", d.quredis("top", "--once").out, re.M)}


def said_by_doctor(d):
    found = collections.defaultdict(set)
    for row in json.loads(d.quredis("doctor", "--json").out):
        word, _, reason = row["what"].partition(": ")
        if row["check"] == "paused":
            word, reason = row["what"].split()[0], None
        found[row["queue"] or row["where"]].add(Said(word, base(reason)))
    return found


def faces_of(d, console, textfile):
    return {
        "nodes": lambda: of_rows([q for n in json.loads(d.quredis("nodes", "--json").out) for q in n.get("queues") or []]),
        "top": lambda: said_by_top(d),
        "health": lambda: of_rows([{"name": q["queue"], "state": None, **q} for q in json.loads(d.quredis("health", "--json").out).get("queues", [])]),
        "log": lambda: said_by_log(d),
        "metrics": lambda: said_by_samples(console.ask("/metrics").body.decode()),
        "textfile": lambda: said_by_samples(textfile.read_text()),
        "doctor": lambda: said_by_doctor(d),
        "console": lambda: of_rows([q for n in console.get("/api/v1/nodes") for q in n.get("queues") or []]),
    }


class Status:
    """What `status` said of each queue so far: the state with its reason, and, for doctor, each hold with its own."""

    def __init__(self, d):
        self.d, self.said, self.alone = d, collections.defaultdict(set), collections.defaultdict(set)

    def note(self):
        queues = json.loads(self.d.quredis("status", "--json").out)["queues"]
        for q in queues:
            assert q["workers"]["alive"] > 0 or q["state"] != "running" or q["reason"], q
            assert [q["state"]] == [h["state"] for h in q["holds"]][:1] or (q["state"] == "running" and q["holds"] == []), q
            self.said[q["name"]].add(Said(q["state"], base(q["reason"])))
            self.alone[q["name"]].update(Said(h["state"], base(h["reason"])) for h in q["holds"])
        return queues

    def agrees(self, hold, face, of_face, name=None):
        """The face said the word of the hold, with a reason of `status`; a face that has a word only, without."""
        mine = {s for s in (self.alone if face == "doctor" else self.said)[name or queue_of(hold)] if s.word == hold}
        silent = face in WORD_ONLY or (face, hold) in {("doctor", "paused"), ("doctor", "held")} or hold == "running"
        return any(s in mine or (silent and s.word == hold and s.reason is None and mine) for s in of_face)


def walks(*holds, faces=ALL):
    return {(h, f) for h in holds for f in faces if f not in SITUATIONS[h].unasked}


@pytest.mark.limit(300)
def test_every_face_says_the_same(redis_server, quredisd, tmp, tag):
    server = redis_server()
    c = server.client()
    (tmp / "typo").write_text("#!/usr/bin/pyhton3\n")
    (tmp / "typo").chmod(0o755)
    handlers = {"breaker": str(tmp / "typo"), "draining": ["/bin/sleep", "100"], "loading": ["/bin/sleep", "1000"]}
    more = {"throttled": {"rate": "1/1h"}, "loading": {"mode": "persistent", "ready": True, "start_timeout": "1h"}}
    d = quredisd(start=False, redis=server, supervisor={"node": "web1", "drain_timeout": "60s"}, health={"enabled": True, "interval": "1h"},
                 metrics={"textfile": str(tmp / "q.prom"), "interval": "1s"},
                 queues=[queue(queue_of(h), handlers.get(h, "/bin/cat"), workers=s.workers, **more.get(h, {})) for h, s in SITUATIONS.items()] +
                        [queue("stops", ["/bin/sleep", "100"])])
    d.walked = threading.Event()        # all faces have said the holds of single queues
    status = Status(d)
    server.signal(signal.SIGSTOP)       # all gates are shut until Redis answers
    d.start(wait=False)
    wait_for(lambda: os.path.exists(d.dir / "c"), 30)
    wait_for(lambda: status.note() and any(s.word == "recovering" for s in status.said["recovering"]), 30)
    server.signal(signal.SIGCONT)
    d.wait_ready()
    console = Console(tmp / "web", server, tag, supervisor={"control_socket": str(d.dir / "c"), "node": "web1"})
    faces = faces_of(d, console, tmp / "q.prom")
    pending = set()

    def ask(name=None):
        status.note()
        for face in {f for _, f in pending}:
            said = faces[face]()
            status.note()
            pending.difference_update({(h, f) for h, f in pending if f == face and
                                       status.agrees(h, f, said.get(name or queue_of(h), ()), name)})
        return not pending

    def walk(walked, timeout, what, name=None):
        pending.update(walked)
        wait_for(lambda: ask(name), timeout, what)

    try:
        walk(walks("running", "recovering"), 60, "faces of queues without a hold")
        threads = [threading.Thread(target=s.cause, args=(d, c, queue_of(h)), daemon=True) for h, s in SITUATIONS.items() if s.cause]
        for t in threads:
            t.start()
        alone = [h for h, s in SITUATIONS.items() if s.cause and h != "draining"]
        walk(walks(*alone) | walks("draining", faces={"doctor"}), 150, "all faces to agree")
        assert any("also paused (by an operator, until quredis resume)" in (s.reason or "") for s in status.said["breaker"])
        d.walked.set()
        for t in threads:
            t.join()
        server.config_set("maxmemory-policy", "allkeys-lru")
        walk(walks("refused"), 60, "a Redis that may evict to be shown")
        server.config_set("maxmemory-policy", "noeviction")
        server.stop()
        walk(walks("no redis"), 60, "what does not need Redis to agree")
        server.start()
        walk(walks("running"), 60, "Redis to be back")
        c.lpush("ingress:stops", "x")
        wait_for(lambda: c.llen("ingress:stops") == 0, 30)
        d.signal(signal.SIGTERM)
        walk(walks("draining", faces=ALL - {"doctor"}), 50, "the stop to be shown", "stops")
    finally:
        print("did not agree:", sorted(pending), {h: status.said[queue_of(h)] for h, _ in pending}, status.said["stops"])
        console.close()
