"""Equal messages of one tray whose moves differ. Redis refuses one move and executes the next, and the answers are lost: the list tells how many of them are
left, and not which."""
import time

import pytest

from harness import queue, wait_for
from harness.messages import in_transit, unwrap
from harness.redis_proxy import SCRIPTS, Tap

# Answers four equal messages in one write, those that it read last first: the moves are sent in this order. All but the oldest emit something.
FOUR = r"""
import os, sys
equal = []
while head := sys.stdin.buffer.readline().split():
    serial, body = head[1], sys.stdin.buffer.read(int(head[3]) + 1)[:-1]
    if body != b"equal":
        os.write(1, b"OK " + serial + b"\n")
        continue
    equal.append(serial)
    with open("@LEDGER@", "a") as f:
        f.write("ran\n")
    if len(equal) == 4:
        os.write(1, b"".join(b"EMIT %s thumbs 4\nleaf\nOK %s\n" % (s, s) for s in equal[1:]) + b"@VERB@" % equal[0] + b"\n")
        equal = []
"""


class FullOnce(Tap):
    """Memory is full for the first emission and what is sent with it; then the connection is lost before the answers."""

    def __init__(self, server):
        self.client, self.full, self.lost = server.client(), False, False

    def emits(self, pair, words):
        return b"split/0" in pair.name and words[0] == b"EVALSHA" and SCRIPTS.get(words[1]) == "emit_list" and b"leaf" in b" ".join(words)

    def request(self, pair, words):
        if not self.full and self.emits(pair, words):
            self.full = True
            self.client.config_set("maxmemory", 1)

    def reply(self, pair, words, reply):
        if not self.full or self.lost or not self.emits(pair, words):
            return None
        time.sleep(0.3)         # Redis executes what the worker sends in this time; none of it is answered
        self.lost = True
        self.client.config_set("maxmemory", 0)
        return 0


@pytest.mark.parametrize("verb, delayed, escaped", [("RETRY %s 1h", 1, 0), ("HOLD %s 1d", 1, 0), ("REJECT %s no", 0, 1)], ids=["retry", "hold", "reject"])
def test_each_move_happens_once(redis, redis_proxy, quredisd, handler, ledger, verb, delayed, escaped):
    c, tap = redis.client(), FullOnce(redis)
    c.lpush("ingress:split", *(f"w{n}" for n in range(2000)), *["equal"] * 4)      # many: so all four are fetched at once
    quredisd(redis=redis_proxy(redis, tap), queues=[
        queue("split", handler(FOUR.replace("@VERB@", verb), "python"), mode="persistent", window=16, batch={"max": 8}, emit={"queues": ["thumbs"]}),
        queue("thumbs", handler("cat"), workers=0)])
    wait_for(lambda: tap.lost, 30)
    wait_for(lambda: c.llen("ingress:thumbs") >= 3, 30)
    wait_for(lambda: not c.llen("ingress:split") and not in_transit(c, "split"), 30)
    assert [unwrap(raw)[1] for raw in c.lrange("ingress:thumbs", 0, -1)] == [b"leaf"] * 3
    assert (c.zcard("quredis:of:ingress:split:delayed"), c.lrange("escape:split", 0, -1)) == (delayed, [b"equal"] * escaped)
    assert len(ledger.lines()) == 4
