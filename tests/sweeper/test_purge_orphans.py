"""Records without a dead letter leave by purge, also where dead letters have no bounds; those with one never do."""
import os
import signal

from harness import queue, title_of, wait_for
from harness.control import status
from harness.queues import Queue, sha1, written


def purge(**keys):
    return {"enabled": True, "interval": "1s", **keys}


def ids(c, q):
    return [i.decode() for i, _ in c.xrange(q.log)]


def counters(d):
    return status(d, "mail")["counters"]


def test_records_without_a_dead_letter(redis, quredisd, handler):
    """A dry run names them and writes nothing; then they leave, and no other."""
    c = redis.client()
    q = Queue(c, register=False)
    records = q.dead_letters(b"a", b"taken", b"b", b"a")
    orphans = [records[1], q.record(b"never there")]
    c.lrem(q.escape, 1, b"taken")
    kept = [i for i in records if i not in orphans]
    mail = queue("mail", handler("cat"), workers=0)
    d = quredisd(queues=[mail], purge=purge(dry_run=True, max_orphaned_age="1s"))
    d.wait_event("orphan_would_be_removed", queue="mail", record=orphans[1])
    before = written(c)
    wait_for(lambda: counters(d)["would_purge"] >= 6)
    assert written(c) == before
    assert {e["record"] for e in d.events("orphan_would_be_removed")} == set(orphans)
    d.reload(purge=purge(max_orphaned_age="1s"))
    d.wait_event("orphans_removed", queue="mail", records="2", first=orphans[0], last=orphans[1])
    wait_for(lambda: counters(d)["orphaned"] == 2)
    assert ids(c, q) == kept
    assert [sha1(m).encode() for m in reversed(c.lrange(q.escape, 0, -1))] == [f[b"sha1"] for _, f in c.xrange(q.log)]
    young = q.record(b"young")
    d.reload(queues=[{**mail, "purge": {"max_orphaned_age": "1h"}}])
    more = q.record(b"younger")
    d.reload(queues=[{**mail, "purge": {"max_orphaned_age": "1s"}}])
    d.wait_event("orphans_removed", queue="mail", last=more)
    assert young not in ids(c, q) and ids(c, q) == kept
    assert d.stop() == 0


def test_trouble_is_shown(redis, quredisd, handler):
    """As long as it lasts, and as long as this supervisor does the work."""
    c = redis.client()
    q = Queue(c, register=False)
    mail = queue("mail", handler("cat"), workers=0)
    reason = lambda: status(d, "mail")["reason"]
    d = quredisd(queues=[mail], purge=purge(max_orphaned_age="1s"))
    d.wait_event("queue_recovered", queue="mail")
    usual = reason()
    c.set(q.log, "no stream")
    d.wait_event("queue_error", queue="mail", at="orphans")
    wait_for(lambda: (reason() or "").startswith("one of its keys has the wrong type"))
    c.delete(q.log)
    wait_for(lambda: reason() == usual, 30)
    c.set(q.log, "no stream")
    wait_for(lambda: (reason() or "").startswith("one of its keys has the wrong type"), 30)
    c.set("quredis:of:ingress:mail:sweeper", "another host's", px=600_000)
    d.wait_event("lead_lost", queue="mail")
    wait_for(lambda: reason() == usual)
    c.delete("quredis:of:ingress:mail:sweeper")
    wait_for(lambda: (reason() or "").startswith("one of its keys has the wrong type"), 30)
    sweeper = next(pid for pid in d.children() if "sweeper" in title_of(pid))
    os.kill(sweeper, signal.SIGSTOP)
    c.delete(q.log)
    os.kill(sweeper, signal.SIGKILL)
    wait_for(lambda: reason() == usual, what="its successor to find it mended")


def test_more_than_a_page(redis, quredisd, handler):
    c = redis.client()
    q = Queue(c, register=False)
    q.dead_letters(*[b"%d" % i for i in range(950)])
    c.ltrim(q.escape, 0, 19)
    start = c.time()[0]
    wait_for(lambda: c.time()[0] > start + 2)     # all are old enough for the only round
    d = quredisd(queues=[queue("mail", handler("cat"), workers=0)], purge=purge(max_orphaned_age="1s", interval="1h"))
    wait_for(lambda: c.xlen(q.log) == 20)
    wait_for(lambda: counters(d)["orphaned"] == 930)
    assert [f[b"message"] for _, f in c.xrange(q.log)] == [b"%d" % i for i in range(930, 950)]
    assert d.stop() == 0


def test_where_there_is_an_archive_it_comes_first(redis, quredisd, handler, tmp):
    """What an archive is to have is left to dead_letter's own bounds."""
    c = redis.client()
    q, news = Queue(c, register=False), Queue(c, "news", register=False)
    orphan = q.record(b"never there")
    news.record(b"never there")
    (tmp / "archive").mkdir()
    mail = queue("mail", handler("cat"), workers=0, dead_letter={"archive": tmp / "archive", "ttl": "7d"})
    d = quredisd(queues=[mail, queue("news", handler("cat"), workers=0)], purge=purge(max_orphaned_age="1s"))
    wait_for(lambda: c.xlen(news.log) == 0)
    another = news.record(b"the same")
    d.wait_event("orphans_removed", queue="news", last=another)
    assert ids(c, q) == [orphan]
    assert d.stop() == 0
