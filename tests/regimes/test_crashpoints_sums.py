"""The sums of crash points by rule see what is wrong."""
import json

import pytest

from crashpoints.letters import Copies, Letters, line
from crashpoints.reports import LAST, TextFile
from crashpoints.waiting import History, Orphans, Waiting


@pytest.fixture
def letters(redis, tmp):
    """Ten of fourteen are in the archive."""
    (tmp / "archive").mkdir()
    found = Letters(redis.client(), "mail", 4, tmp / "archive")
    found.fill(*[b"m%d" % (i // 2) for i in range(14)], orphans=[b"gone"])
    records = found.records()
    for (record_id, fields), orphan in zip(records[:11], [True] + [False] * 10):
        archive(found, record_id.decode(), fields[b"message"], orphan)
        found.client.xdel(found.log, record_id)
    found.client.ltrim(found.escape, 0, 3)
    assert found.settled() and not found.lost() and not found.wrong(False)
    return found


def archive(letters, record, message, orphan=False, name="mail@n.ndjson"):
    with open(letters.archive / name, "a") as f:
        f.write(line(record, message, record, orphan))


def test_a_dead_letter_that_is_nowhere_is_seen(letters):
    letters.client.rpop(letters.escape)
    assert letters.lost() == ["mail: b'm5' is neither in escape nor in the archive"] and not letters.settled()
    assert any("removed before" in w for w in letters.wrong(True))


def test_one_in_both_is_seen(letters):
    record, fields = letters.records()[0]
    archive(letters, record.decode(), fields[b"message"])
    wrong = letters.wrong(True)
    assert any("in the archive and in the log" in w for w in wrong) and any("in escape and in the archive" in w for w in wrong)


def test_one_twice_in_the_archive_is_seen(letters):
    one = letters.archived()[3]
    archive(letters, one["record"], one["message"].encode(), name="mail@n@1.ndjson")
    assert any(f"{one['record']} is in the archive 2 times" in w for w in letters.wrong(True))


def test_a_line_that_is_none_is_seen(letters):
    with open(letters.archive / "mail@n.ndjson", "ab") as f:
        f.write(b'{"record":"1-1"')
    assert any("a line that is none" in w for w in letters.wrong(True))


def test_a_file_that_is_left_is_seen(letters):
    (letters.archive / "mail@n.ndjson.tmp").touch()
    assert letters.wrong(True) == ["mail: mail@n.ndjson.tmp does not belong there"]


def test_a_record_that_is_not_its_dead_letters_is_seen(letters):
    last = letters.records()[-1][0]
    letters.client.xdel(letters.log, last)
    assert letters.wrong(True) == [w for w in letters.wrong(True) if "without a record" in w] != []
    letters.client.xadd(letters.log, {"sha1": "0" * 40})
    assert not letters.settled()


def test_a_copy_that_is_missing_or_too_much_is_seen(redis):
    c = redis.client()
    ids = [b"1-0", b"2-0"]
    copies = Copies(c, "mail", "failures", ids)
    c.set("escape:mail:forwarded", "2-0")
    c.lpush("ingress:failures", json.dumps({"record": "2-0"}))
    assert copies.settled() and copies.lost() == ["record 1-0 was not copied to failures"] and copies.wrong(True)
    c.rpush("ingress:failures", json.dumps({"record": "1-0"}))
    assert not copies.lost() and not copies.wrong(False)
    c.lpush("ingress:failures", json.dumps({"record": "2-0"}))
    assert copies.wrong(False) and not copies.wrong(True)


def test_what_waits_and_what_is_left_of_old_things_is_seen(redis):
    c = redis.client()
    waiting = Waiting(c, "mail")
    waiting.push({b"old": "Purged"}, [b"young"])
    assert not waiting.settled() and waiting.wrong(True)
    c.lpush("escape:mail", c.rpop("ingress:mail"))
    assert waiting.settled() and any("records" in w for w in waiting.wrong(True))
    c.xadd("escape:mail:log", {"sha1": "x", "error_class": "Purged"})
    assert waiting.wrong(True) == [] and waiting.lost() == []
    c.lpush("ingress:mail", b"old")
    assert "mail: b'old' 2 times" in waiting.wrong(True)
    c.delete("ingress:mail")
    assert waiting.lost() == ["mail: b'young'"]
    history, orphans = History(c, "mail", 1), Orphans(c, "mail", [c.xadd("escape:mail:log", {"sha1": "y"})])
    assert history.wrong(True) and orphans.wrong(True) and not orphans.settled() and not orphans.lost()


def test_half_a_text_file_is_seen(tmp):
    text = TextFile(tmp / "t/quredis.prom", "mail")
    text.path.write_text(f'quredis_written_timestamp_seconds 1\n{LAST}{{queue="mail"}} 0\n')
    text.look()
    assert text.broken == [] and len(text.seen) == 1
    for half in ("", "quredis_workers 1\n", text.path.read_text()[:-3]):
        text.path.write_text(half)
        text.look()
        assert text.broken.pop() == half
    (text.path.parent / "x").touch()
    assert "x is left beside the text file" in text.wrong(True)
