"""The record of a message that a handler emitted has its root and depth, and the message keeps them, whichever way it comes back."""
import json

import pytest

from harness import queue, wait_for
from harness.messages import record, unwrap

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
HEADER = f"quredis/1 id=order-7 traceparent={TRACE}\n".encode()
TREE = {"root": "order-7", "depth": "1", "traceparent": TRACE}
LONG = "x" * 70000          # handled alone, and not kept in the record

# Emits one message; what it emits fails, until there is a file go. Then that emits, too, and max_depth ends the circle.
CIRCLE = """
echo "$QUREDIS_ROOT $QUREDIS_DEPTH $TRACEPARENT" >>@LEDGER@
m=$(cat)
if [ "${QUREDIS_DEPTH:-0}" -gt 0 ] && [ ! -e @TMP@/go ]; then exit 1; fi
printf 'EMIT loop %d\\n%s\\n' ${#m} "$m" >&3
"""


@pytest.fixture
def circle(redis, quredisd, handler):
    def circle(**keys):
        emit = {"queues": ["loop"], "max_depth": 1}
        return quredisd(queues=[queue("loop", handler(CIRCLE), **{"reply_fd": 3, "emit": emit, "workers": 1, **keys})])
    return circle


def escaped(c, n=1):
    wait_for(lambda: c.llen("escape:loop") == n)
    wait_for(lambda: c.xlen("escape:loop:log") == n)
    return {k: v.decode(errors="replace") if isinstance(v, bytes) else v for k, v in record(c, "loop").items()}


def lineage_in(fields):
    return {k: fields[k] for k in TREE if k in fields}


def one(d, r):
    return ["dlq", "retry", "loop", r["stream_id"]]


WAYS = {
    "one": one,
    "all": lambda d, r: ["dlq", "retry", "loop", "--all"],
    "filter": lambda d, r: ["dlq", "retry", "loop", "--all", "--class", "HandlerExit", "--foreground"],
    "operation": lambda d, r: ["dlq", "retry", "loop", "--all", "--rate", "100/s"],
    "list": lambda d, r: ["retry", "loop", "escape"],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("body", ["x", LONG], ids=["short", "long"])
def test_a_dead_letter_that_is_retried_keeps_its_depth(redis, circle, ledger, tmp, way, body):
    """So max_depth ends the circle, which would begin anew otherwise."""
    c = redis.client()
    d = circle()
    c.lpush("ingress:loop", HEADER + body.encode())
    r = escaped(c)
    assert lineage_in(r) == TREE and r["error_class"] == "HandlerExit"
    (tmp / "go").touch()
    assert d.quredis("--yes", *WAYS[way](d, r)).code in (0, 65)     # 65: it has seen that the message failed again
    wait_for(lambda: ledger.lines()[2:] == [f"order-7 1 {TRACE}"])
    r = escaped(c)
    assert lineage_in(r) == TREE and r["error_message"] == "EMIT: deeper than emit.max_depth = 1"


def test_an_import_keeps_it(redis, circle, ledger, tmp):
    c = redis.client()
    d = circle()
    c.lpush("ingress:loop", HEADER + b"x")
    escaped(c)
    (tmp / "letters").write_text(d.quredis("dlq", "export", "loop").out)
    c.delete("escape:loop", "escape:loop:log")
    (tmp / "go").touch()
    assert d.quredis("dlq", "import", "loop", str(tmp / "letters")).code == 0
    wait_for(lambda: ledger.lines()[2:] == [f"order-7 1 {TRACE}"])
    assert escaped(c)["error_message"] == "EMIT: deeper than emit.max_depth = 1"


def test_an_import_refuses_what_is_no_lineage(redis, circle, ledger, tmp):
    """A file may have been changed. Its bytes get into a line that quredis seals."""
    c = redis.client()
    d = circle()
    lines = [{"message": "quredis/1 id=a\nx", "root": "a depth=9", "depth": 1}, {"message": "quredis/1 id=b\nx", "root": "b", "depth": "1"},
             {"message": "quredis/1 id=c\nx", "root": "c", "depth": -1}, {"message": "quredis/1 id=d\nx", "root": ["d"], "depth": 1}]
    (tmp / "letters").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert d.quredis("dlq", "import", "loop", str(tmp / "letters")).code == 0
    escaped(c, 4)       # they are roots: what they emit has failed
    assert sorted(json.loads(d.quredis("--json", "dlq", "ls", "loop").out), key=lambda r: r["root"])[0]["depth"] == 1
    assert {r["root"] for r in json.loads(d.quredis("--json", "dlq", "ls", "loop").out)} == {"a", "b", "c", "d"}


def test_the_tree_of_a_root(redis, circle, tmp):
    """Its root, if that is a dead letter, and all that descends from it."""
    c = redis.client()
    (tmp / "go").touch()
    d = circle(emit={"queues": ["loop"], "max_depth": 2, "max_bytes": "1K"})
    c.lpush("ingress:loop", HEADER + b"x", b"quredis/1 id=order-8\nx", b"quredis/1 id=order-9\n" + b"x" * 2000)
    escaped(c, 3)
    rows = {r["root"]: r for r in json.loads(d.quredis("--json", "dlq", "ls", "loop").out)}
    assert {k: (r["depth"], r["traceparent"]) for k, r in rows.items()} == {"order-7": (2, TRACE), "order-8": (2, None), None: (None, None)}
    for root, wanted in [("order-7", ["order-7"]), ("order-8", ["order-8"]), ("order-9", [None]), ("order-1", [])]:
        assert [r["root"] for r in json.loads(d.quredis("--json", "dlq", "ls", "loop", "--root", root).out)] == wanted
    shown = json.loads(d.quredis("--json", "dlq", "show", "loop", rows["order-7"]["record"]).out)
    assert (shown["root"], shown["depth"], shown["traceparent"]) == ("order-7", 2, TRACE)
    shown = json.loads(d.quredis("--json", "dlq", "show", "loop", rows[None]["record"]).out)
    assert (shown["root"], shown["depth"], shown["traceparent"]) == (None, None, None)
    assert not lineage_in(record(c, "loop", 2)) or record(c, "loop", 2)["id"] != b"order-9"


def test_the_history_has_root_and_depth(redis, circle, tmp):
    c = redis.client()
    (tmp / "go").touch()
    d = circle(done={"keep": 10}, emit={"queues": ["loop"], "max_depth": 2})
    c.lpush("ingress:loop", HEADER + b"x")
    escaped(c)
    rows = json.loads(d.quredis("--json", "done", "ls", "loop").out)
    assert sorted((r["depth"] or 0, r["root"]) for r in rows) == [(0, None), (1, "order-7")]
    assert {len(fields) for _, fields in c.xrange("quredis:of:ingress:loop:done")} == {9, 11}


def test_a_message_that_became_too_long_keeps_it(redis, quredisd, handler):
    """No handler read it: the line before it is known nevertheless."""
    c = redis.client()
    first = handler('cat >/dev/null; printf "EMIT loop 2000\\n%02000d\\n" 0 >&3')
    queues = [queue("split", first, reply_fd=3, emit={"queues": ["loop"]}), queue("loop", handler("cat"), workers=0)]
    d = quredisd(queues=queues)
    c.lpush("ingress:split", HEADER + b"x")
    wait_for(lambda: c.llen("ingress:loop") == 1)
    assert unwrap(c.lindex("ingress:loop", 0))[0]["depth"] == 1
    d.reload(queues=[queues[0], queue("loop", handler("cat"), message_max="1K")])
    r = escaped(c)
    assert (r["error_class"], r["root"], r["depth"]) == ("TooLarge", "order-7", "1")
