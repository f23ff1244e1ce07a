"""Producers choose the ids of messages: an id is a word of a command line, part of a path and of a URL, and never an option."""
import json

import pytest

from harness.queues import Queue, dumps, sha1

HOSTILE = ["--all", "-y", "--help", "..", ".", "-", "--", "a/b", "a b", ""]


@pytest.mark.parametrize("name", ["--all", "-y", "..", ".", "_x", "+1"])
def test_such_a_header_is_payload(quredis, redis, name):
    message = b"quredis/1 id=%s\nevil" % name.encode()
    redis.client().lpush(Queue(redis.client()).ingress, message)
    shown, = json.loads(quredis("peek", "mail", "ingress", "--json").out)
    assert shown["id"] == f"sha1:{sha1(message)}" and shown["message"].encode() == message


@pytest.mark.parametrize("words", [["dlq", "rm", "mail", "-y", "--"], ["dlq", "retry", "mail", "--"], ["dlq", "show", "mail", "--"],
                                   ["dlq", "rm", "-y", "mail", "1-1"], ["dlq", "rm", "mail", "-y", "--", "1-1"], ["dlq", "retry", "mail", "1-1"],
                                   ["rm", "-y", "mail", "ingress", "--"], ["rm", "mail", "-y", "delayed", "x"], ["retry", "mail", "delayed", "x"]],
                                   ids=" ".join)
def test_a_word_in_the_place_of_an_id_is_no_option(quredis, redis, words):
    """Whatever it is, the command is refused as a whole, and nothing changes. So one Redis serves all of them."""
    c = redis.client()
    q = Queue(c)
    q.dead_letters(b"a", b"b", b"c")
    c.lpush(q.ingress, b"waits")
    c.zadd(q.delayed, {b"quredis/1 id=x\nlater": 9e15})
    before = dumps(c)
    for name in HOSTILE:
        if name in ("--", "--help") and "--" not in words:
            continue            # it ends the options, or only prints help, as everywhere
        r = quredis(*words, name)
        assert (r.code, r.out) == (64, "") and r.err.count("\n") == 1 and dumps(c) == before, (name, r)


def test_a_list_is_never_taken_for_an_id(quredis, redis):
    """An id may be the name of a list. So the list stands before it, and a single word is always a list."""
    c = redis.client()
    q = Queue(c)
    c.lpush(q.ingress, b"quredis/1 id=first\nx", b"quredis/1 id=escape\nx", b"last")
    q.dead_letters(b"a", b"b")
    assert quredis("retry", "mail", "ingress", "escape").code == 0
    assert q.fetched()[0] == b"quredis/1 id=escape\nx" and c.llen(q.escape) == 2
    r = quredis("retry", "mail", "first")
    assert r.code == 64 and "type first is not one of transit escape delayed" in r.err


def test_options_before_the_ids(quredis, redis):
    ids = Queue(redis.client()).dead_letters(b"a", b"b", b"c")
    assert quredis("dlq", "rm", "mail", "--yes", "--dry-run", ids[0]).out == "would delete 1 dead letter of mail\n"
    r = quredis("dlq", "rm", "mail", ids[0], "--yes")
    assert r.code == 64 and "write --yes before the first ID" in r.err
    assert quredis("--yes", "dlq", "rm", "mail", "--", *ids[:2]).out == "deleted 2 dead letters of mail\n"


@pytest.mark.parametrize("name", ["--all", "..", "a b", "x" * 129, "-1"])
def test_push_gives_no_such_id(quredis, redis, name):
    Queue(redis.client())
    r = quredis("push", "mail", "x", "--id", name)
    assert r.code == 64 and "the first is a letter or a digit" in r.err and not redis.client().exists("ingress:mail")
