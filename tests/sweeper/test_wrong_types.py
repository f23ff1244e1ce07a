"""A key that has another type than quredis gives it, each key of a queue in turn: status, health and metrics say so until it is mended."""
import pytest

from harness import queue, wait_for
from harness.control import status

LISTS = ["ingress:mail", "transit:mail", "transit:mail:rescue", "transit:mail:aside", "escape:mail"]
OTHERS = ["quredis:of:ingress:mail:delayed", "quredis:of:ingress:mail:done", "quredis:of:ingress:mail:stats", "transit:mail:workers",
    "transit:mail:aside:log", "escape:mail:log"]
STRINGS = ["quredis:of:ingress:mail:sweeper", "escape:mail:forwarded"]


def damage(c, key):
    """Puts away what the key holds, before anybody can write it again."""
    pipe = c.pipeline()
    if c.exists(key):
        pipe.rename(key, "kept")
    pipe.lpush(key, "oops") if key in STRINGS else pipe.set(key, "oops")
    pipe.execute()


def mend(c, key):
    c.delete(key)
    if c.exists("kept"):
        c.rename("kept", key)


@pytest.mark.parametrize("key", LISTS + OTHERS + STRINGS)
def test_a_key_of_the_wrong_type(redis, quredisd, handler, tmp, key):
    c = redis.client()
    run = handler("cat >/dev/null")
    d = quredisd(supervisor={"lease": "1s"}, health={"enabled": True, "interval": "1s"}, metrics={"textfile": str(tmp / "metrics"), "interval": "1s"},
                 queues=[queue("mail", run, ttl="1h", done={"keep": 10, "max_age": "10s"},
                               dead_letter={"ttl": "1h", "discard": True, "forward_to": "other"}), queue("other", run)],
                 purge={"enabled": True, "interval": "1s", "max_message_age": "1h", "max_done_age": "10s", "max_orphaned_age": "1h"})
    d.wait_event("lead_taken", queue="mail")
    wait_for(lambda: "quredis_queue_state" in d.text() or status(d, "mail")["state"] == "running")
    damage(c, key)

    def shown():
        q = status(d, "mail")
        return q["state"] == "error" and q["reason"].startswith("one of its keys has the wrong type")
    wait_for(shown, 40)
    assert status(d, "other")["state"] == "running"
    mend(c, key)
    wait_for(lambda: status(d, "mail")["state"] == "running" and not status(d, "mail").get("reason"), 60)
    assert d.stop() == 0
