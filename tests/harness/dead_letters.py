"""Thousands of dead letters of five causes, as in the case that led to filters: 22,683 of 40,000 were of one cause. That is QUREDIS_TEST_DEAD_LETTERS=40000."""
import hashlib
import os
import random

from .queues import Queue

LETTERS = int(os.environ.get("QUREDIS_TEST_DEAD_LETTERS", "4000"))
PATIENCE_S = 120 * max(1, LETTERS // 4000)      # while workers handle them all
SHARE = 22683 / 40000
CAUSE = "SMTPServerDisconnected exit 3: connection to # lost: 421"
OTHERS = [("HandlerExit", "HTTP 404"), ("HandlerExit", "HTTP 503"), ("HandlerTimeout", "too slow"), ("Rejected", "no such user")]
SWITCH = "if [ -e @TMP@/broken ]; then exit 3; fi; read -r m || :; echo \"$m\" >>@LEDGER@"


def fill(client, n=LETTERS, share=SHARE, name="mail"):
    """n dead letters of five causes; returns those of the first one, in their order."""
    q, wanted, p = Queue(client, name, register=False), [], client.pipeline(transaction=False)
    chance = random.Random(n)
    count = round(n * share)
    kinds = [0] * count + [1 + i % 4 for i in range(n - count)]
    chance.shuffle(kinds)
    for i, kind in enumerate(kinds):
        m = b"%d:%d" % (kind, i)
        error = ("SMTPServerDisconnected", "connection to 10.0.0.17 lost: 421") if kind == 0 else OTHERS[kind - 1]
        sha1 = hashlib.sha1(m).hexdigest()
        p.lpush(q.escape, m)
        p.xadd(q.log, {"id": f"sha1:{sha1}", "error_class": error[0], "error_message": error[1], "exit_code": "3", "sha1": sha1, "size": str(len(m)),
                       "message": m})
        if kind == 0:
            wanted.append(m)
        if i % 1000 == 999:
            p.execute()
    p.execute()
    return q, wanted


def remembered(q):
    """The keys of operations: none is left when all are complete."""
    return [*q.client.scan_iter(f"{q.escape}:operations"), *q.client.scan_iter(f"{q.escape}:redriven:*")]


def left_whole(q, wanted, n=LETTERS):
    """What does not match is where it was, in its order, with its records."""
    rest = q.client.lrange(q.escape, 0, -1)[::-1]
    assert len(rest) == n - len(wanted) == q.client.xlen(q.log) and not {*rest} & {*wanted}
    assert rest == sorted(rest, key=lambda m: int(m.split(b":")[1]))
    assert not remembered(q)
