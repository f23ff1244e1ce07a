"""No message waits behind a slow one while another worker could take it: batches delay no message."""
import json
import time

import pytest
from harness import queue, wait_for
from harness.messages import anywhere

FAST, SLOW = 300, ("slow-100", "slow-200")

NOTE = r"""
import json, os, sys, time
fd = os.open("@LEDGER@", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)

def run(message):
    os.write(fd, (json.dumps([message, time.monotonic()]) + "\n").encode())
    while message.startswith("slow") and not os.path.exists("@TMP@/go"):
        time.sleep(0.01)
"""
STAYS = NOTE + r"""
while line := sys.stdin.buffer.readline():
    _, serial, _, size = line.split()[:4]
    run(sys.stdin.buffer.read(int(size) + 1)[:-1].decode())
    os.write(1, b"OK " + serial + b"\n")
"""
# The clock of the shell: hundredths of a second since the machine was started, as CLOCK_BOOTTIME.
ONCE = r"""
read -r m; read -r now rest </proc/uptime
echo "[\"$m\", $now]" >>@LEDGER@
case $m in slow*) until [ -e @TMP@/go ]; do sleep 0.02; done;; esac
"""


def messages(n):
    """Two modes: most take next to nothing, two block for as long as the test likes."""
    names = [f"fast-{i}" for i in range(n)]
    names[n // 3], names[2 * n // 3] = SLOW
    return names


def waits(redis, quredisd, handler, ledger, tmp, how, batch, clock):
    """Of each message: from when all were there to its start. The slow ones end when all others have begun."""
    script, language, mode, n = how
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler(script, language), workers=3, batch=batch, **mode)])
    d.wait_workers("mail", 3)
    c.lpush("ingress:mail", *[f"warm-{i}" for i in range(100)])      # all know by now how long one takes
    wait_for(lambda: not anywhere(c, "mail"), 30, "warm")
    pipe = c.pipeline()
    pipe.lpush("ingress:mail", *messages(n))
    began = clock()
    pipe.execute()
    wait_for(lambda: {json.loads(line)[0] for line in ledger.lines()} >= set(messages(n)), 60,
             "every message started while two workers are held up by a slow one each")
    (tmp / "go").touch()
    wait_for(lambda: not anywhere(c, "mail"), 30, "all done")
    d.stop()
    (tmp / "go").unlink()
    found = dict(map(json.loads, ledger.lines()))
    ledger.path.write_text("")
    return {m: found[m] - began for m in messages(n)}


@pytest.mark.parametrize("how", [(STAYS, "python", {"mode": "persistent"}, FAST), (ONCE, "sh", {}, FAST // 3)], ids=["persistent", "exec"])
def test_bimodal_durations_against_one_at_a_time(redis, quredisd, handler, ledger, tmp, how):
    clock = time.monotonic if how[0] is STAYS else lambda: time.clock_gettime(time.CLOCK_BOOTTIME)
    one = waits(redis, quredisd, handler, ledger, tmp, how, {"max": 1}, clock)
    many = waits(redis, quredisd, handler, ledger, tmp, how, {"max": 64}, clock)
    late = {m: (round(one[m], 3), round(many[m], 3)) for m in one if many[m] > 10 * max(one.values()) + 1}
    assert not late, f"waited (one at a time, in batches): {late}"
