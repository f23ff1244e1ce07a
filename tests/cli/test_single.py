"""quredis retry QUEUE TYPE ID, quredis rm QUEUE TYPE ID: one waiting or delayed message, found by its id."""
import json

import pytest

from harness import queue, render, wait_for
from harness.messages import anywhere, sealed
from harness.queues import Queue, dumps, sha1

LATER = 9e15
LARGE = b"quredis/1 id=large\n" + b"x" * 200000


def idents(quredis, kind):
    return [m["id"] for m in json.loads(quredis("peek", "mail", kind, "--json").out)]


@pytest.fixture
def mail(redis):
    """Ten waiting messages, and ten delayed ones: raw, with an id, and with a wrapper."""
    q = Queue(redis.client())
    for i in range(10):
        q.client.lpush(q.ingress, (b"waits %d", b"quredis/1 id=waits:%d\nx")[i % 2] % i)
        entry = (b"later %d", b"quredis/1 id=later:%d\nx")[i % 2] % i
        if i > 3:
            entry = sealed(q.client, b"quredis/1 w=%016x attempts=1\n%s" % (i, entry))
        q.client.zadd(q.delayed, {entry: LATER + i})
    return q


def test_a_delayed_message_is_fetched_next(quredis, mail):
    before, waiting = mail.client.zrange(mail.delayed, 0, -1), mail.fetched()
    for name in ("later:5", "later:1", f"sha1:{sha1(b'later 8')}"):
        r = quredis("retry", "mail", "delayed", name)
        assert (r.code, r.out, r.err) == (0, "to be fetched next: 1 message of delayed\n", "")
    assert mail.fetched() == [before[8], before[1], before[5], *waiting]
    assert mail.client.zrange(mail.delayed, 0, -1) == [m for i, m in enumerate(before) if i not in (1, 5, 8)]


def test_a_waiting_message_is_fetched_next(quredis, mail):
    waiting, delayed = mail.fetched(), mail.client.zrange(mail.delayed, 0, -1)
    assert quredis("retry", "mail", "ingress", "waits:7", "waits:9").out == "to be fetched next: 2 messages of ingress\n"
    assert quredis("retry", "mail", "ingress", f"sha1:{sha1(b'waits 0')}").code == 0
    assert mail.fetched() == [waiting[0], waiting[9], waiting[7]] + [m for i, m in enumerate(waiting) if i not in (0, 7, 9)]
    assert mail.client.zrange(mail.delayed, 0, -1) == delayed


def test_delete_one(quredis, mail):
    waiting, delayed = mail.fetched(), mail.client.zrange(mail.delayed, 0, -1)
    r = quredis("rm", "mail", "ingress", "--json", "waits:3", f"sha1:{sha1(b'waits 4')}")
    assert json.loads(r.out) == {"queue": "mail", "action": "rm", "list": "ingress", "count": 2, "held": 0, "interrupted": False, "dry_run": False}
    assert quredis("rm", "mail", "delayed", "later:9").out == "deleted 1 message of delayed\n"
    assert mail.fetched() == [m for i, m in enumerate(waiting) if i not in (3, 4)]
    assert mail.client.zrange(mail.delayed, 0, -1) == delayed[:-1]


def test_a_dry_run_changes_nothing(quredis, mail):
    before = dumps(mail.client)
    assert quredis("retry", "mail", "delayed", "--dry-run", "later:1", "later:3").out == "would be fetched next: 2 messages of delayed\n"
    assert quredis("rm", "mail", "--dry-run", "delayed", "later:1").out == "would delete 1 message of delayed\n"
    assert dumps(mail.client) == before


def test_of_equal_ids_the_one_that_comes_next(quredis, mail):
    c = mail.client
    c.lpush(mail.ingress, "quredis/1 id=twice\nfirst", "quredis/1 id=twice\nsecond")
    c.zadd(mail.delayed, {"quredis/1 id=twice\ndue last": LATER + 99, "quredis/1 id=twice\ndue first": 1e15})
    for kind, payload in (("delayed", b"due first"), ("delayed", b"due last"), ("ingress", b"due last")):        # the third: the one that comes next
        assert quredis("retry", "mail", kind, "twice").code == 0
        assert mail.fetched()[0].endswith(payload)
    assert quredis("rm", "mail", "ingress", "twice").code == 0 and mail.fetched()[0].endswith(b"due first")


def test_equal_messages(quredis, redis):
    """One of them moves, and none is lost."""
    q = Queue(redis.client())
    q.client.lpush(q.ingress, "same", "same", "other", "same")
    name = f"sha1:{sha1(b'same')}"
    assert quredis("retry", "mail", "ingress", name).code == 0 and q.fetched() == [b"same", b"same", b"same", b"other"]
    assert quredis("rm", "mail", "ingress", name).code == 0 and q.fetched() == [b"same", b"same", b"other"]


@pytest.mark.parametrize("words, error", [
    (["retry", "mail", "ingress", "nobody"], "mail has no message nobody in ingress"),
    (["retry", "mail", "delayed", "waits:1"], "mail has no message waits:1 in delayed"),
    (["rm", "mail", "ingress", "later:1"], "mail has no message later:1 in ingress"),
    (["rm", "--search", "7", "mail", "ingress", "waits:7"], "waits:7 is not among the next 7 messages of mail in ingress; --search N looks through more"),
    (["retry", "--search", "9", "mail", "delayed", "later:9"], "later:9 is not among the next 9 messages of mail in delayed; --search N looks through more"),
])
def test_not_found(quredis, mail, words, error):
    before = dumps(mail.client)
    r = quredis(*words)
    assert (r.code, r.out, r.err) == (66, "", f"quredis: {error}\n") and dumps(mail.client) == before


def test_the_others_when_one_is_missing(quredis, mail):
    r = quredis("rm", "mail", "delayed", "later:1", "nobody", "later:3")
    assert (r.code, r.out) == (66, "deleted 2 messages of delayed\n") and "nobody" in r.err and mail.client.zcard(mail.delayed) == 8


def test_search_reaches_as_far_as_is_asked(quredis, mail):
    assert quredis("rm", "mail", "ingress", "--search", "8", "waits:7").code == 0
    assert quredis("rm", "mail", "delayed", "--search", "10", "later:9").code == 0


@pytest.mark.parametrize("words, error", [
    (["rm", "mail", "escape", "x"], "dlq rm"), (["rm", "mail", "transit", "x"], "retry mail transit"), (["retry", "mail", "escape", "x"], "dlq retry"),
    (["retry", "mail", "transit", "x"], "retry mail transit"), (["rm", "mail", "delayd", "x"], "did you mean delayed"), (["rm", "mail", "ingress"], "usage"),
    (["rm", "mail", "ingress", "--search", "0", "x"], "--search"),
])
def test_misuse(quredis, mail, words, error):
    before = dumps(mail.client)
    r = quredis(*words)
    assert r.code == 64 and error in r.err and dumps(mail.client) == before


def test_a_large_waiting_message(quredis, redis):
    q = Queue(redis.client())
    q.client.lpush(q.ingress, b"first", LARGE, LARGE[:-1] + b"y", b"last")
    assert quredis("retry", "mail", "ingress", "large").code == 0 and q.fetched() == [LARGE, b"first", LARGE[:-1] + b"y", b"last"]
    assert quredis("rm", "mail", "ingress", "large").code == 0 and q.fetched() == [b"first", LARGE[:-1] + b"y", b"last"]


def test_a_large_message_without_an_id(quredis, redis):
    """The log names it by its sha1, but a search does not."""
    q = Queue(redis.client())
    q.client.lpush(q.ingress, LARGE[19:], LARGE, b"small")
    r = quredis("retry", "mail", "ingress", f"sha1:{sha1(LARGE[19:])}")
    assert (r.code, r.err) == (66, f"quredis: mail has no message sha1:{sha1(LARGE[19:])} in ingress, unless it has more than 64 KiB: "
                               "such messages (1) need an id in their header\n")
    assert quredis("retry", "mail", "ingress", "large2").err == "quredis: mail has no message large2 in ingress\n"
    assert q.fetched() == [LARGE[19:], LARGE, b"small"]


def test_a_large_delayed_message(quredisd, redis, handler, ledger):
    """Its payload is stored apart: nothing of it stays when it leaves."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler('wc -c >>@LEDGER@; [ "$QUREDIS_ATTEMPT" = 2 ]'), max_attempts=5, backoff={"base": "1h", "cap": "1h"})])
    c.lpush("ingress:mail", LARGE, b"quredis/1 id=other\n" + LARGE[19:])
    wait_for(lambda: c.zcard("quredis:of:ingress:mail:delayed") == 2 and not c.exists("ingress:mail"))
    shown = json.loads(d.quredis("peek", "mail", "delayed", "--json").out)
    assert sorted(m["id"] for m in shown) == ["large", "other"] and {m["error_class"] for m in shown} == {"HandlerExit"}
    assert d.quredis("retry", "mail", "delayed", "large").code == 0
    wait_for(lambda: len(ledger.lines()) == 3)
    assert d.quredis("rm", "mail", "delayed", "other").code == 0
    wait_for(lambda: not anywhere(c, "mail"))
    assert ledger.lines() == ["200000"] * 3 and [k for k in c.keys("*") if b"apart" in k] == [] and not c.exists("escape:mail")


def test_a_payload_that_is_gone(quredisd, redis, handler):
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler("cat >/dev/null; exit 1"), max_attempts=5, backoff={"base": "1h", "cap": "1h"})])
    c.lpush("ingress:mail", LARGE)
    wait_for(lambda: c.zcard("quredis:of:ingress:mail:delayed") == 1)
    assert c.delete(*[k for k in c.keys("*apart:*")]) == 1
    r = d.quredis("retry", "mail", "delayed", "large")
    assert r.code == 66 and c.zcard("quredis:of:ingress:mail:delayed") == 1        # without the payload nothing says that this is its line


def test_a_shared_queue_gets_no_wrapper(quredis, redis, mail, tmp):
    conf = tmp / "shared.conf"
    conf.write_text(render({"redis": {"url": redis.url}, "queues": [queue("mail", "/bin/true", shared=True)]}))
    conf.chmod(0o644)
    r = quredis("retry", "mail", "delayed", "later:5", conf=conf)
    assert r.code == 0, r.err
    assert mail.fetched()[0] == b"quredis/1 id=later:5\nx"
