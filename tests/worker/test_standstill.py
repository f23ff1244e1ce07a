"""A worker, or its machine, stands still for longer than a handler may run: it hears the handler before it judges it."""
import os
import signal
import time

import pytest

from harness import queue, wait_for

TIMEOUT_S = 3

# It ends in its time, if somebody reads what it prints. The worker is stopped before it prints.
WORK = """echo "start $m" >>@LEDGER@
until [ -e @TMP@/go ]; do sleep 0.02; done
head -c 300000 /dev/zero | tr '\\0' x
echo
echo "end $m" >>@LEDGER@
"""
BODIES = {"exec": f"read -r m\n{WORK}", "persistent": f"while read -r job serial rest; do\nread -r m\n{WORK}\necho OK $serial\ndone"}


# It stops its worker again and again, each time for longer than what makes a standstill, and lets it live for less than it is given to catch up.
STOPS = """echo "start $m" >>@LEDGER@
while :; do kill -STOP $PPID; sleep 1.1; kill -CONT $PPID; sleep 0.2; done
"""


@pytest.mark.parametrize("head", ["read -r m", "read -r job serial rest; read -r m"], ids=["exec", "persistent"])
def test_a_handler_that_stops_its_worker_has_an_end(redis, quredisd, handler, ledger, head):
    persistent = {"mode": "persistent"} if "job" in head else {}
    quredisd(queues=[queue("mail", handler(f"{head}\n{STOPS}"), timeout="1s", workers=1, max_attempts=1, **persistent)])
    client = redis.client()
    client.lpush("ingress:mail", "m")
    wait_for(lambda: client.llen("escape:mail") == 1, 100)
    assert ledger.lines() == ["start m"]


@pytest.mark.parametrize("mode", BODIES)
def test_a_worker_that_was_stopped_charges_no_handler_for_it(redis, quredisd, handler, ledger, tmp, mode):
    d = quredisd(queues=[queue("mail", handler(BODIES[mode]), mode=mode, timeout=f"{TIMEOUT_S}s", workers=1)])
    client = redis.client()
    client.lpush("ingress:mail", "m")
    wait_for(lambda: ledger.lines() == ["start m"], 30)
    worker = d.workers()["mail/0"]
    os.kill(worker, signal.SIGSTOP)
    until = time.monotonic() + TIMEOUT_S + 1
    (tmp / "go").touch()
    wait_for(lambda: time.monotonic() > until, 30)
    os.kill(worker, signal.SIGCONT)
    wait_for(lambda: ledger.lines() == ["start m", "end m"], 30)
    wait_for(lambda: not list(client.scan_iter("transit:mail*", _type="list")), 20)
    assert not client.exists("escape:mail") and d.workers()["mail/0"] == worker
    assert int(d.wait_event("worker_stood_still")["ms"]) >= 1000
