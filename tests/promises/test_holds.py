"""Every face of the program says the same of a queue that does not fetch: the word of the table of holds, and the same reason."""
import collections
import json
import os
import re
import signal
import threading
import time

import pytest

from harness import leave_one_descriptor, queue, sources, wait_for
from harness.console import Console

TIMES = re.compile(r"( [\d.]+\w+ ago)?(; (next attempt|the next one starts) .*)?$")     # only `status` knows them
ALL = ("nodes", "top", "health", "log", "metrics", "textfile", "doctor", "console")

Said = collections.namedtuple("Said", "word reason")


def queue_of(hold):
    return hold.replace(" ", "_")


# ---- one situation for each hold ----

def stop_fetches(d, _, name):
    d.quredis("quiet", name)


def leave_the_configuration(d, c, name):
    c.lpush(f"ingress:{name}", "x")
    wait_for(lambda: d.handlers(), 30)
    d.reload(queues=[q for q in d.sections["queues"] if q["name"] != name])


def pause(d, _, name):
    d.quredis("pause", name)


def miss_the_interpreter_and_pause(d, c, name):
    c.lpush(f"ingress:{name}", "x")
    d.wait_event("breaker_opened", queue=name)
    d.quredis("pause", name)


def take_the_descriptors(d, c, name):
    leave_one_descriptor(d.wait_workers(name, 1)[f"{name}/0"])
    c.lpush(f"ingress:{name}", "x")


def give_a_key_another_type(_, c, name):
    c.set(f"quredis:of:ingress:{name}:delayed", "x")


def kill_one_each_second(d, _, name, deaths, gap_s=1.2):
    """gap_s: one of the last four deaths may not be younger than 30 s if the queue must not be in backoff."""
    for _ in range(deaths):
        pid = wait_for(lambda: list(d.workers(name).values()), 70)[0]
        os.kill(pid, signal.SIGKILL)
        time.sleep(gap_s)


def kill_five(d, c, name):
    kill_one_each_second(d, c, name, 5)


def kill_ten(d, c, name):
    kill_one_each_second(d, c, name, 10)


def kill_the_only_worker_seven_times(d, c, name):
    """So seldom that the queue is not in backoff: four within 30 s."""
    kill_one_each_second(d, c, name, 7, gap_s=7.7)


Situation = collections.namedtuple("Situation", "cause faces workers", defaults=(ALL, 1))
SITUATIONS = {
    "running": Situation(None, ("nodes", "top", "health", "log", "metrics", "textfile", "console")),
    "quiet": Situation(stop_fetches),
    "draining": Situation(leave_the_configuration, ("doctor",)),    # the log and all reports are of queues in the configuration
    "paused": Situation(pause),
    "recovering": Situation(None, ("log",)),                        # too short for reports
    "breaker": Situation(miss_the_interpreter_and_pause),
    "no process": Situation(take_the_descriptors),
    "no worker": Situation(kill_the_only_worker_seven_times),
    "error": Situation(give_a_key_another_type),
    "no redis": Situation(None, ("log", "textfile")),               # the others are reports in Redis
    "backoff": Situation(kill_five, workers=5),
    "quarantine": Situation(kill_ten, workers=10),
}


def test_each_hold_has_a_situation():
    assert set(SITUATIONS) == set(sources.queue_states())


# ---- what each face says ----

def base(reason):
    return TIMES.sub("", reason) if reason else None


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
            word, reason = "paused", None
        found[row["queue"] or row["where"]].add(Said(word, base(reason)))
    return found


def faces_of(d, console, textfile):
    return {
        "nodes": lambda: of_rows([q for n in json.loads(d.quredis("nodes", "--json").out) for q in n["queues"] or []]),
        "top": lambda: said_by_top(d),
        "health": lambda: of_rows([{"name": q["queue"], "state": None, **q} for q in json.loads(d.quredis("health", "--json").out)["queues"]]),
        "log": lambda: said_by_log(d),
        "metrics": lambda: said_by_samples(console.ask("/metrics").body.decode()),
        "textfile": lambda: said_by_samples(textfile.read_text()),
        "doctor": lambda: said_by_doctor(d),
        "console": lambda: of_rows([q for n in console.get("/api/v1/nodes") for q in n["queues"] or []]),
    }


def note_status(d, said):
    for q in json.loads(d.quredis("status", "--json").out)["queues"]:
        assert q["workers"]["alive"] > 0 or q["state"] != "running", q
        said[q["name"]].add(Said(q["state"], base(q["reason"])))


def agree(hold, of_status, of_face):
    """The face said the word of the hold, with a reason of `status`, or it gives none."""
    mine = {s for s in of_status if s.word == hold}
    return any(s in mine or (s.word == hold and s.reason is None and mine) for s in of_face)


@pytest.mark.limit(240)
def test_every_face_says_the_same(redis_server, quredisd, handler, tmp, tag):
    server = redis_server()
    c = server.client()
    (tmp / "typo").write_text("#!/usr/bin/pyhton3\n")
    (tmp / "typo").chmod(0o755)
    handlers = {"breaker": str(tmp / "typo"), "draining": ["/bin/sleep", "100"]}
    d = quredisd(redis=server, supervisor={"node": "web1"}, health={"enabled": True, "interval": "1h"},
                 metrics={"textfile": str(tmp / "q.prom"), "interval": "1s"},
                 queues=[queue(queue_of(h), handlers.get(h, "/bin/cat"), workers=s.workers) for h, s in SITUATIONS.items()])
    console = Console(tmp / "web", server, tag, supervisor={"control_socket": str(d.dir / "c"), "node": "web1"})
    status = collections.defaultdict(set)
    faces = faces_of(d, console, tmp / "q.prom")
    pending = {(h, f) for h, s in SITUATIONS.items() for f in s.faces} - {("no redis", "log"), ("no redis", "textfile")}
    note_status(d, status)
    wait_for(lambda: c.hexists("quredis:health", "running"), 30)
    status["recovering"].add(Said("recovering", "messages of dead workers are being returned"))
    threads = [threading.Thread(target=s.cause, args=(d, c, queue_of(h)), daemon=True) for h, s in SITUATIONS.items() if s.cause]
    for t in threads:
        t.start()

    def ask(names):
        note_status(d, status)
        for face in names:
            said = faces[face]()
            note_status(d, status)
            pending.difference_update({(h, f) for h, f in pending if f == face and agree(h, status[queue_of(h)], said.get(queue_of(h), ()))})
        return not pending

    try:
        wait_for(lambda: ask({f for _, f in pending}), 150, "all faces to agree")
        server.stop()
        pending.update({("no redis", "log"), ("no redis", "textfile")})
        wait_for(lambda: ask(("log", "textfile")), 60, "what does not need Redis to agree")
    finally:
        print("did not agree:", sorted(pending), {h: status[queue_of(h)] for h, _ in pending})
        console.close()
