"""Many messages at once, and a handler that stays: trouble between them costs no message, no time and no CPU."""
import time

from harness import queue, wait_for
from harness.messages import anywhere, trays

LARGE = {"max": 64, "time": "5s"}       # batches grow however slow this machine is


# ---- moves of equal messages ----

def test_equal_messages_fail_while_answers_are_lost(redis, redis_proxy, quredisd, handler, ledger):
    """The first one's retry was done and is not answered, the others' never arrived: they are not taken for each other."""
    c, proxy = redis.client(), redis_proxy(redis)
    body = 'cat >/dev/null; echo "$QUREDIS_ATTEMPT" >>@LEDGER@; [ "$QUREDIS_ATTEMPT" -gt 1 ] || exit 75'
    d = quredisd(redis={"url": proxy.url}, queues=[queue("mail", handler(body), batch=LARGE, backoff={"base": "4s", "jitter": 0.0})])
    d.wait_workers("mail", 1)
    c.lpush("ingress:mail", *["x"] * 40)
    # once there are larger batches
    wait_for(lambda: any(len(tray) > 4 for tray in trays(c, "mail").values()), interval=0.001)
    proxy.stall_after(b" attempts=1")
    wait_for(proxy.stalled)
    n = len(ledger.lines())
    wait_for(lambda: len(ledger.lines()) >= n + 2 or len(ledger.lines()) == 40)
    proxy.cut()
    proxy.resume()
    wait_for(lambda: not anywhere(c, "mail"), 60, "all done")
    assert (ledger.count("1"), ledger.count("2")) == (40, 40)


# ---- one trouble is one trouble ----

def test_a_whole_batch_is_refused_once(redis, quredisd, handler, ledger):
    """As many errors as were asked for: the wait is that of one."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler("read -r m; echo $m >>@LEDGER@; sleep 0.01"), batch=LARGE)])
    d.wait_event("queue_recovered", queue="mail")
    c.lpush("ingress:mail", *[f"m{i}" for i in range(300)])
    wait_for(lambda: any(len(tray) > 30 for tray in trays(c, "mail").values()), interval=0.002)
    c.rename("ingress:mail", "aside")
    c.set("ingress:mail", "of another type")
    d.wait_event("redis_trouble", at="fetch")
    c.rename("aside", "ingress:mail")
    began = time.monotonic()
    wait_for(lambda: len(ledger.lines()) == 300, 60, "all done")
    assert time.monotonic() - began < 12
