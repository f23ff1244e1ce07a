"""Every figure and counter says the same on each of its faces: reports, lists, both pages of metrics, and statsd."""
import json
import re

import pytest

from harness import queue, sources, wait_for

from .test_metrics import Statsd, parse

FACTS = sources.facts()
COUNTERS = sources.counter_rows()
OF_QUEUE = [f for f in FACTS if "scope" not in f]
OF_HOST = [f for f in FACTS if f.get("scope") == "FACT_OF_HOST"]
# Redis answers here; and two looks that are a minute apart are for test_health.py.
NOT_HERE = {"NEXT_CONNECT", "ENQUEUED", "ARRIVALS", "COMPLETIONS", "GROWTH_WINDOW", "GROWING"}
MOVING = ("FACT_AGE", "FACT_LEFT", "FACT_PACE")
QUEUES = ("mail", "held", "broken", "mixed")
COUNTER_NAMES = [row["name"] for row in COUNTERS]
# How the messages of one queue end, and how many: at least ten counters have different numbers. Some faces leave a counter out that is 0, so only
# those that this queue counts are compared on each of them.
MIXED = {"done": 23, "exit": 3, "signal": 4, "timeout": 1, "emit": 5}
COMPARED = {"FETCHED", "DONE", "FAILED", "RETRIED", "ESCAPED", "TIMED_OUT", "EXPIRED", "DUE", "UNKNOWN_VERSION", "HANDLER_EXIT", "HANDLER_SIGNAL",
            "HANDLER_TIMEOUT", "EMITTED", "TICKS_PUSHED", "TICKS_SKIPPED"}
ENDS = """m=$(cat); case $m in exit*) exit 3;; signal*) kill -9 $$;; timeout*) exec sleep 60;; slow*) exec sleep 1.5;;
emit*) printf 'EMIT held 1\\nx\\nEMIT held 1\\ny\\n' >&3;; esac"""
APART = 20                        # seconds: faces are read one after the other, on slow machines


def test_the_table_is_read():
    assert len(FACTS) > 40 and len(OF_QUEUE) + len(OF_HOST) == len(FACTS)
    assert all({"key", "text"} <= f.keys() for f in FACTS)
    by_hand = {"id": "INGRESS_SIZE", "object": "ingress", "key": "size", "metric": "quredis_queue_messages", "label": "ingress",
               "listed": "ingress_size", "statsd": "quredis.health.queue.*.size", "title": "Ingress", "in": "IN_HEALTH | IN_TOP", "yields": "15",
               "heading": "Waiting", "text": "messages that wait for a worker"}
    assert FACTS[0] == by_hand
    assert len(COUNTERS) > 30 and COUNTERS[1] == \
        {"id": "DONE", "name": "done", "at_0": "true", "routine": "true", "title": "Done", "in": "IN_STATUS_END | IN_STATS", "yields": "10"}


def member(document, fact):
    of = document.get(fact["object"], {}) if "object" in fact else document
    return of.get(fact["key"])


def sample(page, fact, name, node=None):
    """The value of the only sample of this figure; labels behind those of node and queue have any name."""
    def is_of(key):
        values = [value for label, value in key[1:] if label not in ("queue", "node")]
        return (key[0] == fact["metric"] and ("queue", name) in key and (node is None or ("node", node) in key) and
                values == ([fact["label"]] if "label" in fact else []))
    found = [value for key, value in page.items() if is_of(key)]
    assert len(found) < 2, (fact, found)
    return found[0] if found else None


def table(text):
    """First cell of a row -> title -> text, of the first table for people."""
    part = next(part for part in text.split("\n\n") if re.match(r"\s*(Name|Node|Queue)  ", part))
    titles, *rows = [re.split("  +", line.strip()) for line in part.splitlines()]
    return {row[0]: dict(zip(titles, row)) for row in rows}


def counters_of(text):
    """Of `quredis stats QUEUE`, elsewhere than on a terminal: lines "name: number"."""
    found = (re.match(r"\s*(\w+):?\s+(\d+)\b", line) for line in text.splitlines())
    return {m[1]: int(m[2]) for m in found if m and m[1] in COUNTER_NAMES}


def in_table(fact, text):
    """What the text of a cell says."""
    if text == "-":
        return None
    if fact.get("type") == "FACT_FLAG":
        return {"yes": True, "no": False}[text]
    if fact.get("type") in MOVING:
        unit = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
        return sum(float(n) * unit[u] for n, u in re.findall(r"([\d.]+)(ms|s|m|h|d)", text))
    return int(text.split(" (")[-1].rstrip(")"))


class Faces:
    """What all faces say at about one moment."""

    def __init__(self, d, console, textfile, statsd):
        def answer(*words):
            return json.loads(d.quredis(*words, "--json").out)
        self.health = {q["queue"]: q for q in answer("health")["queues"]}
        self.host = {q["name"]: q for n in answer("nodes") for q in n.get("queues", [])}
        self.counted = {command: {q["name"]: q["counters"] for q in rows} for command, rows in
                        (("status --json", answer("status")["queues"]), ("stats --json", answer("stats")))}
        self.counted["stats QUEUE"] = {name: dict.fromkeys(COUNTER_NAMES, 0) | counters_of(d.quredis("stats", name).out) for name in QUEUES}
        self.counted["stats --since"] = {q["name"]: dict.fromkeys(COUNTER_NAMES, 0) | q["counters"] for q in answer("stats", "--since", "1h")}
        self.counted["page of the queue"] = {name: dict.fromkeys(COUNTER_NAMES, 0) | json.loads(
            console.ask(f"/api/v1/queue/stats?queue={name}&since=1h").body)["counters"] for name in QUEUES}
        self.listed = {q["name"]: q for q in answer("ls")}
        self.file, self.console = parse(textfile.read_text()), parse(console.ask("/metrics").body.decode())
        self.gauges, self.sent = dict(statsd.take().gauges), dict(statsd.counters)
        self.tables = {f"IN_{words[0].upper()}": table(d.quredis(*words).out) for words in
                       (["ls"], ["health"], ["top", "--once"], ["nodes"], ["status"], ["stats"])}

    def shown_in(self, row):
        return {face for face in self.tables if face in row.get("in", "").replace("_END", "").split(" | ")}

    def of_node(self, fact):
        """face -> the sum over the queues of the host."""
        return {"reports": sum(member(q, fact) or 0 for q in self.host.values()),
                "IN_NODES": in_table(fact, self.tables["IN_NODES"]["here"][fact["title"]])}

    def count(self, counter, name):
        """face -> value, of the faces that must have the counter."""
        said = {face: queues[name].get(counter["name"]) for face, queues in self.counted.items()}
        for face, page in (("file", self.file), ("console", self.console)):
            said[face] = page.get(("quredis_messages_total", ("event", counter["name"]), ("queue", name)))
        said["statsd"] = self.sent.get(f"quredis.queue.{name}.{counter['name']}", 0)
        for face in self.shown_in(counter):
            said[face] = int(self.tables[face][name][counter["title"]])
        if counter["id"] == "RECONNECTED":     # no outcome of a message, and not worth a write to Redis
            return {"status --json": said["status --json"]}
        if counter["id"] == "WOULD_PURGE":     # not in Redis
            return {face: said[face] for face in ("status --json", "file", "statsd")}
        return said

    def said(self, fact, name):
        """face -> value, of the faces that must have the figure."""
        report = member(self.host[name] if fact in OF_HOST else self.health[name], fact)
        said = {"report": report}
        if "metric" in fact:
            said["file"] = sample(self.file, fact, name)
            said["console"] = sample(self.console, fact, name, "here" if fact in OF_HOST else None)
        for face in self.shown_in(fact) - {"IN_NODES"}:
            said[face] = in_table(fact, self.tables[face][name][fact["title"]])
        if fact.get("type") == "FACT_SOME":     # reports leave a 0 out
            said = {face: value or 0 for face, value in said.items()}
        if fact.get("type") == "FACT_LEFT" and report is not None:
            said["report"] = report / 1000
        if "listed" in fact:
            said["ls"] = self.listed[name][fact["listed"]]
        if "statsd" in fact:
            said["statsd"] = self.gauges.get(fact["statsd"].replace("*", name))
        if fact["id"] == "INGRESS_OLDEST" and report is None:       # statsd has 0 if no message waits
            said["statsd"] = said["statsd"] or None
        return said


def agree(fact, said):
    values = list(said.values())
    if fact.get("type") not in MOVING or None in values:
        return all(value == values[0] for value in values)
    return max(values) - min(values) < APART


@pytest.mark.limit(150)
def test_each_figure_is_the_same_on_all_faces(redis, quredisd, handler, console, tmp):
    """Queues at rest: one with something in each list, one with an open breaker, one that is paused, and one whose messages ended in six ways."""
    c = redis.client()
    now = c.time()[0] * 1000
    c.lpush("ingress:mail", *[f"quredis/1 enqueued={now - 60000 - i}\nx{i}" for i in range(7)])
    c.zadd("quredis:of:ingress:mail:delayed", {f"d{i}": now + 3600000 for i in range(3)})
    for i in range(2):
        c.lpush("escape:mail", f"e{i}")
        c.xadd("escape:mail:log", {"id": i}, id=f"{now - 90000 + i}-1")
    c.lpush("ingress:broken", "b")
    c.lpush("ingress:mixed", *[f"{how}{i}" for how, n in MIXED.items() for i in range(n)], *[f"quredis/2 x=1\nx{i}" for i in range(5)],
            *[f"quredis/1 ttl=1s enqueued={now - 60000}\nexpired{i}" for i in range(7)])
    (tmp / "typo").write_text("#!/no/such/interpreter\n")
    (tmp / "typo").chmod(0o755)
    with Statsd() as statsd:
        keys = dict(supervisor={"node": "here"}, health={"enabled": True, "interval": "1s", "thresholds": {"stuck_age": "30s"}},
                     metrics={"textfile": str(tmp / "q.prom"), "statsd": f"127.0.0.1:{statsd.port}", "interval": "1s"},
                     queues=[queue("mail", handler("sleep 3600"), workers=2, batch={"max": 1}, timeout="1h"),
                             queue("held", handler("cat"), workers=1, max_in_flight=9),
                             queue("broken", str(tmp / "typo"), workers=1),
                             queue("mixed", handler(ENDS), workers=2, max_attempts=2, backoff={"base": "10ms"}, timeout="2s", reply_fd=3,
                                   emit={"queues": ["held"]})])
        d = quredisd(**keys, schedules=[{"name": name, "queue": "mixed", "every": "1s", "message": name, "overlap": name == "done"}
                                        for name in ("done", "slow")])
        d.wait_event("breaker_opened", queue="broken")

        def ticked():
            counters = next(q["counters"] for q in json.loads(d.quredis("status", "--json").out)["queues"] if q["name"] == "mixed")
            return counters.get("ticks_pushed") and counters.get("ticks_skipped")
        wait_for(ticked, 40)
        d.reload(schedules=[])          # now the counters rest
        assert d.quredis("pause", "held").code == 0
        web, seen, wrong, mixed = console(), set(), [], {}

        def same():
            faces = Faces(d, web, tmp / "q.prom", statsd)
            said = [(f, q, faces.said(f, q)) for f in FACTS for q in QUEUES]
            nodes = [(f, "here", faces.of_node(f)) for f in FACTS if "IN_NODES" in faces.shown_in(f)]
            wrong[:] = [(f["id"], q, values) for f, q, values in said + nodes if not agree(f, values)]
            counts = [(k["id"], q, faces.count(k, q)) for k in COUNTERS for q in QUEUES]
            wrong.extend(row for row in counts if len(set(row[2].values())) > 1 or None in row[2].values())
            mixed.update({name: values["status --json"] for name, q, values in counts if q == "mixed" and values["status --json"]})
            seen.update(f["id"] for f, _, values in said if values["report"] is not None)
            return (not wrong and COMPARED <= mixed.keys() and len({*mixed.values()}) >= 10 and {f["id"] for f in FACTS} - seen <= NOT_HERE and
                    faces.listed["held"]["paused"])

        try:
            wait_for(lambda: (tmp / "q.prom").exists() and len(json.loads(d.quredis("health", "--json").out).get("queues", [])) == len(QUEUES), 40)
            wait_for(lambda: c.exists("quredis:node:here") and same(), 40)
        finally:
            print("differ:", wrong, "mixed:", mixed, "never seen:", {f["id"] for f in FACTS} - seen)
