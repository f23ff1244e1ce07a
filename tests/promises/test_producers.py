"""Producers and tools nobody here wrote, and what the Ruby gem finds."""
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time

import pytest

from harness import queue, wait_for
from harness.messages import anywhere, sealed, stray_keys

KEEP = 'set -C; cat >@TMP@/out/$$'


@pytest.fixture
def arrived(redis, quredisd, handler, tmp):
    (tmp / "out").mkdir()
    quredisd(queues=[queue("mail", handler(KEEP), workers=2)])

    def collect(n):
        wait_for(lambda: len(list((tmp / "out").iterdir())) == n and not anywhere(redis.client(), "mail"), 30)
        return sorted(p.read_bytes() for p in (tmp / "out").iterdir())
    return collect


def test_redis_cli(redis, arrived):
    redis.cli("LPUSH", "ingress:mail", "plain", "two words", "")
    binary = random.Random(5).randbytes(50000) + b"\0\n"
    redis.cli("-x", "LPUSH", "ingress:mail", input=binary)
    assert arrived(4) == sorted([b"plain", b"two words", b"", binary])


def test_redis_py(redis, arrived):
    c = redis.client()
    c.lpush("ingress:mail", "text", b"\xff\0", 17, 1.5)
    with c.pipeline() as p:
        p.lpush("ingress:mail", "in a transaction")
        p.lpush("ingress:mail", "and another")
        p.execute()
    assert arrived(6) == sorted([b"text", b"\xff\0", b"17", b"1.5", b"in a transaction", b"and another"])


def node_modules():
    """Where ioredis is, or None."""
    if not shutil.which("node"):
        return None
    for path in [os.environ.get("NODE_PATH"), "/usr/share/nodejs", "/usr/lib/node_modules", "/usr/local/lib/node_modules"]:
        for part in (path or "").split(":"):
            if part and (pathlib.Path(part) / "ioredis/package.json").exists():
                return part
    return None


@pytest.mark.skipif(node_modules() is None, reason="no node with ioredis (NODE_PATH)")
def test_ioredis(redis, arrived):
    script = """
    const Redis = require('ioredis');
    const r = new Redis({ path: process.argv[1] });
    (async () => {
        await r.lpush('ingress:mail', 'from node', Buffer.from([0, 255, 10, 37, 110]));
        await r.multi().lpush('ingress:mail', JSON.stringify({ a: 1 })).exec();
        await r.quit();
    })();
    """
    subprocess.run(["node", "-e", script, str(redis.socket)], check=True, timeout=60,
                   env={**os.environ, "NODE_PATH": node_modules()})
    assert arrived(3) == sorted([b"from node", b"\0\xff\n%n", b'{"a":1}'])


def test_the_gems_registry(redis, quredisd, handler):
    """zset of names, and a JSON string a queue."""
    c = redis.client()
    before = time.time()
    note = handler("exit 0")
    d = quredisd(queues=[queue("mail", note), queue("later", note, ingress="read_later", transit="reading_now", escape="trash")])
    wait_for(lambda: c.zcard("quredis:queues") == 2)
    assert sorted(c.zrange("quredis:queues", 0, -1)) == [b"later", b"mail"]
    assert c.type("quredis:queue:mail") == b"string"
    assert json.loads(wait_for(lambda: c.get("quredis:queue:mail"))) == {
        "name": "mail", "ingress": "ingress:mail", "transit": "transit:mail", "escape": "escape:mail"}
    assert json.loads(wait_for(lambda: c.get("quredis:queue:later"))) == {
        "name": "later", "ingress": "read_later", "transit": "reading_now", "escape": "trash"}
    score = c.zscore("quredis:queues", "mail")
    assert before - 2 <= score <= time.time() + 2
    assert d.restart()
    assert score <= c.zscore("quredis:queues", "mail") <= time.time() + 2        # each start shows the queue anew


def test_configured_names_are_used(redis, quredisd, handler, ledger):
    c = redis.client()
    d = quredisd(queues=[queue("later", handler('read -r m; echo "$m" >>@LEDGER@; [ "$m" = good ]'), ingress="{l}read_later",
                               transit="{l}reading_now", escape="{l}trash", workers=2)])
    c.lpush("{l}read_later", "good", "bad")
    wait_for(lambda: c.lrange("{l}trash", 0, -1) == [b"bad"] and sorted(ledger.lines()) == ["bad", "good"])
    assert c.xlen("{l}trash:log") == 1
    wait_for(lambda: not c.keys("{l}reading_now:*:[0-2]"))
    assert not c.keys("*:later") or c.keys("*:later") == [b"quredis:queue:later"]
    assert all(k.startswith((b"{l}", b"quredis:")) for k in c.keys()), c.keys()
    assert d.stop() == 0


def test_a_plain_consumers_leavings_are_recovered_once(redis, quredisd, handler, tmp):
    """transit:mail, as the gem leaves it when it dies. A message lying there later is not taken."""
    (tmp / "out").mkdir()
    c = redis.client()
    c.lpush("transit:mail", "one", "two")
    d = quredisd(queues=[queue("mail", handler(KEEP))])
    wait_for(lambda: len(list((tmp / "out").iterdir())) == 2)
    wait_for(lambda: not anywhere(c, "mail"))
    assert sorted(p.read_bytes() for p in (tmp / "out").iterdir()) == [b"one", b"two"] and c.llen("escape:mail") == 0
    c.lpush("transit:mail", "a living consumer's")
    c.lpush("ingress:mail", "three")
    wait_for(lambda: len(list((tmp / "out").iterdir())) == 3)
    sweeper = d.sweeper()
    os.kill(sweeper, signal.SIGKILL)                # nor does the next sweeper take it
    wait_for(lambda: d.sweeper() not in (None, sweeper))
    c.zadd("quredis:of:ingress:mail:delayed", {sealed(c, b"quredis/1 w=00000000000000aa\nfour"): 1})
    wait_for(lambda: len(list((tmp / "out").iterdir())) == 4)
    assert c.lrange("transit:mail", 0, -1) == [b"a living consumer's"]
    assert stray_keys(c, "mail") == []
