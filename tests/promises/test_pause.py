"""A pause holds for what is pushed after it, also on a queue that has been idle for long."""
import time

from harness import queue, wait_for
from harness.control import status


def test_what_is_pushed_after_a_pause_does_not_run(redis, quredisd, handler, ledger):
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler('cat >>@LEDGER@; echo >>@LEDGER@'), workers=2)])
    d.wait_event("queue_recovered", queue="mail")

    def idle_for_a_second():
        """A queue that worked within the last quarter of a second may be seen as paused up to a second late."""
        since = time.monotonic()
        wait_for(lambda: time.monotonic() - since >= 1)
    idle_for_a_second()
    for n in range(3):
        c.set("quredis:of:ingress:mail:paused", "{}")
        c.lpush("ingress:mail", f"m{n}")
        wait_for(lambda: status(d, "mail")["state"] == "paused", 30, "the queue to be shown as paused")
        wait_for(lambda: c.lrange("ingress:mail", 0, -1) == [f"m{n}".encode()], what="it is back in ingress")
        assert len(ledger.lines()) == n
        c.delete("quredis:of:ingress:mail:paused")
        wait_for(lambda: len(ledger.lines()) == n + 1, 30)
        idle_for_a_second()
