"""Commands leave large messages in Redis: they read their ends, and move them by their place."""
import base64
import json
import os

import pytest

from harness.queues import Queue, sha1, strip
from harness.redis_proxy import Once
from harness.slow_link import SlowLink

LARGE = 8 << 20
FEW = 128 << 10         # with the scripts, which each connection loads


@pytest.fixture
def counted(tmp, redis):
    link = SlowLink(tmp, redis, None)
    yield link
    link.close()


def almost_equal(n, size=LARGE):
    """They differ in the middle only, so their ends say nothing."""
    half = os.urandom(size // 2)
    return [half + b"%08d" % i + half[8:] for i in range(n)]


@pytest.mark.parametrize("how", ["all", "id", "class", "canary", "transit"])
def test_a_retry_leaves_the_payload_in_redis(quredis, redis, counted, how):
    c = redis.client()
    q = Queue(c)
    letters = almost_equal(3)
    if how == "transit":
        c.rpush(q.transit, *letters)
        ids = []
    else:
        ids = q.dead_letters(b"small", *letters) if how == "all" else q.dead_letters(*letters)
    args = {"all": ["dlq", "retry", "mail", "--all"], "id": ["dlq", "retry", "mail", ids[1] if ids else ""], "transit": ["retry", "mail", "transit"],
            "class": ["dlq", "retry", "mail", "--all", "--class", "HandlerExit"], "canary": ["dlq", "retry", "mail", "--all", "--rate", "1000/s"]}[how]
    assert quredis("--yes", *args, url=counted.url).code == 0
    assert counted.up < FEW and counted.down < FEW, (counted.up, counted.down)
    moved = {"all": [b"small", *letters], "id": [letters[1]], "transit": letters}.get(how, letters)
    assert sorted(map(sha1, map(strip, q.fetched()))) == sorted(map(sha1, moved))
    assert how in ("id", "transit") or (not c.exists(q.escape) and c.xlen(q.log) == 0)
    assert how != "id" or [sha1(m) for m in c.lrange(q.escape, 0, -1)] == [sha1(m) for m in letters[:1:-1] + letters[:1]]


@pytest.mark.parametrize("what", [("dlq", "rm"), ("dlq", "ls"), ("peek", "escape")])
def test_what_only_looks_or_removes_reads_the_ends(quredis, redis, counted, what):
    c = redis.client()
    q = Queue(c)
    letters = almost_equal(8, 1 << 20)
    ids = q.dead_letters(*letters)
    c.delete(q.log)
    ids = [q.record(m, payload_max=LARGE) for m in letters]
    args = {"rm": ["dlq", "rm", "--yes", "mail", ids[3]], "ls": ["dlq", "ls", "mail"], "escape": ["peek", "mail", "escape"]}[what[1]]
    assert quredis(*args, url=counted.url).code == 0
    few = 8 * FEW + 4096 if what[0] == "peek" else 3 * FEW
    assert counted.up < FEW and counted.down < few, (counted.up, counted.down)
    left = letters[:3] + letters[4:] if what[1] == "rm" else letters
    assert [sha1(m) for m in c.lrange(q.escape, 0, -1)] == [sha1(m) for m in left[::-1]] and c.xlen(q.log) == len(left)


TWINS, STRANGERS = almost_equal(6, 1 << 14), [os.urandom(1 << 14) for _ in range(6)]


@pytest.mark.parametrize("letters", [TWINS, STRANGERS], ids=["almost-equal", "different"])
@pytest.mark.parametrize("how", ["all", "id", "rm"])
@pytest.mark.parametrize("other", [0, 1, 5])
def test_a_letter_that_changes_its_place_is_looked_for_again(quredis, redis, redis_proxy, other, how, letters):
    """After the command has found a dead letter, and before it moves it, another operator removes this dead letter, or another one whose removal
    changes the position of this one."""
    q = Queue(redis.client())
    c, ids, others = q.client, q.dead_letters(*letters), []
    c.delete(q.log)
    ids = [q.record(m, payload_max=0) for m in letters]

    def take():
        others.append(quredis("dlq", "retry", "mail", ids[other]))
    proxy = redis_proxy(redis, Once("discard" if how == "rm" else "redrive", q.escape, take))
    ours = {"all": range(6), "id": [0, 4, 2], "rm": [0, 4, 2]}[how]
    done = quredis("dlq", *(["rm"] if how == "rm" else ["retry"]), "mail", "--yes", *(["--all"] if how == "all" else [ids[i] for i in ours]), url=proxy.url)
    assert [o.code for o in others] == [0]
    assert done.code == (66 if how != "all" and other == 0 else 0), done.err
    left = [i for i in range(6) if i not in ours and i != other]
    back = {other} if how == "rm" else {other, *ours}
    assert sorted(sha1(strip(m)) for m in q.fetched()) == sorted(sha1(letters[i]) for i in back)
    assert [i.decode() for i, _ in c.xrange(q.log)] == [ids[i] for i in left]
    assert [sha1(m) for m in c.lrange(q.escape, 0, -1)] == [sha1(letters[i]) for i in left[::-1]]


def test_a_letter_that_takes_the_place_of_another_keeps_its_own_record(quredis, redis, redis_proxy):
    """It has the same size and ends, so only its sha1 tells that the record is not its own."""
    q = Queue(redis.client())
    stranger, *letters = almost_equal(4, 1 << 16)
    q.dead_letters(*letters)
    proxy = redis_proxy(redis, Once("redrive", q.escape, lambda: q.client.rpush(q.escape, stranger)))
    done = quredis("dlq", "retry", "mail", "--all", "--yes", url=proxy.url)
    assert done.code == 0, done.err
    assert [sha1(strip(m)) for m in q.fetched()] == [sha1(m) for m in letters]
    assert q.client.lrange(q.escape, 0, -1) == [stranger] and q.client.xlen(q.log) == 0


def test_two_operators_at_once(quredis, redis):
    """Each dead letter leaves once, whichever of two operators is faster."""
    import concurrent.futures
    c = redis.client()
    q = Queue(c)
    letters = [b"%08d" % i * 1024 for i in range(400)] + almost_equal(20, 1 << 16)
    q.dead_letters(*letters)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        done = [f.result() for f in [pool.submit(quredis, "dlq", "retry", "mail", "--all", "--yes") for _ in range(4)]]
    assert [d.code for d in done] == [0] * 4, [d.err for d in done]
    assert sorted(map(sha1, map(strip, q.fetched()))) == sorted(map(sha1, letters)) and not c.exists(q.escape) and c.xlen(q.log) == 0


def unsummed(q, message):
    """Of more than 16 MiB Redis computes no sha1, so the record has none."""
    q.client.lpush(q.escape, message)
    return q.record(message, payload_max=0, id="", sha1="")


@pytest.mark.parametrize("how", ["retry", "rm", "show"])
def test_a_letter_without_a_sum_is_found_by_its_size(quredis, redis, how):
    q = Queue(redis.client())
    c, letter = q.client, os.urandom(1 << 20) * 17
    ids = [unsummed(q, letter), unsummed(q, letter + b"x")]
    r = quredis("dlq", how, "mail", *([] if how == "show" else ["--yes"]), ids[0])
    assert r.code == 0 and "not found" not in r.err and "no longer" not in r.err, r.err
    assert [sha1(strip(m)) for m in q.fetched()] == ([sha1(letter)] if how == "retry" else [])
    left = [letter + b"x"] if how != "show" else [letter + b"x", letter]
    assert [sha1(m) for m in c.lrange(q.escape, 0, -1)] == [sha1(m) for m in left] and c.xlen(q.log) == len(left)


def test_letters_of_one_size_without_a_sum_are_not_mixed_up(quredis, redis):
    q = Queue(redis.client())
    letters = [os.urandom(1 << 20) * 17 for _ in range(2)]
    ids = [unsummed(q, m) for m in letters]
    for how in ("retry", "rm"):
        r = quredis("dlq", how, "mail", "--yes", ids[0])
        assert r.code == 66 and "one of several dead letters of 17825792 bytes" in r.err, r.err
    assert [sha1(m) for m in q.client.lrange(q.escape, 0, -1)] == [sha1(m) for m in letters[::-1]] and q.client.xlen(q.log) == 2
    assert quredis("dlq", "retry", "mail", "--all", "--yes").code == 0
    assert [sha1(strip(m)) for m in q.fetched()] == [sha1(m) for m in letters] and not q.client.exists(q.escape)


HUGE = 17 << 20


@pytest.fixture
def huge(redis):
    """Of more than 16 MiB, which differ in the middle only, as workers make them dead letters: they know the sha1."""
    letters = almost_equal(4, HUGE)
    q = Queue(redis.client())
    return q, letters, [q.dead_letters(m, payload_max=0)[0] for m in letters]


@pytest.mark.parametrize("how", [("retry",), ("rm", "--yes"), ("show", "--json")], ids=" ".join)
def test_a_huge_letter_is_found_by_its_sum(quredis, huge, how):
    q, letters, ids = huge
    r = quredis("dlq", how[0], "mail", *how[1:], ids[1])
    assert r.code == 0 and r.err == "", r
    assert how[0] == "show" or r.out.endswith("1 dead letter of mail\n")
    assert how[0] != "show" or base64.b64decode(json.loads(r.out)["message_base64"]) == letters[1]
    left = letters if how[0] == "show" else [letters[0], *letters[2:]]
    assert [sha1(m) for m in q.client.lrange(q.escape, 0, -1)] == [sha1(m) for m in left[::-1]] and q.client.xlen(q.log) == len(left)
    assert [sha1(strip(m)) for m in q.fetched()] == ([sha1(letters[1])] if how[0] == "retry" else [])


@pytest.mark.parametrize("options", [("--class", "HandlerExit"), ()], ids=" ".join)
@pytest.mark.parametrize("how", ["retry", "rm"])
def test_all_huge_letters_leave_with_their_records(quredis, huge, how, options):
    q, letters, _ = huge
    other, = q.dead_letters(b"other", error_class="Other") if options else [None]
    r = quredis("dlq", how, "mail", "--all", *options, "--foreground", "--yes")
    assert r.code == 0 and " 4 dead letters of mail" in r.out and r.err == "", r
    assert q.client.lrange(q.escape, 0, -1) == ([b"other"] if options else [])
    assert [i.decode() for i, _ in q.client.xrange(q.log)] == ([other] if options else [])
    assert [sha1(strip(m)) for m in q.fetched()] == ([sha1(m) for m in letters] if how == "retry" else [])


@pytest.mark.parametrize("how", ["retry", "rm"])
def test_huge_letters_that_nothing_tells_apart_stay_and_are_left(quredis, redis, how):
    q = Queue(redis.client())
    letters = almost_equal(2, HUGE)
    q.client.lpush(q.escape, *letters)
    q.record(letters[0], payload_max=0, sha1="", id="")
    q.record(letters[1], payload_max=0)
    r = quredis("--json", "dlq", how, "mail", "--all", "--class", "HandlerExit", "--yes")
    assert r.code == 66 and "one of several dead letters of 17825792 bytes" in r.err and "no longer in escape" not in r.err, r
    told = json.loads(r.out)
    assert (told["count"], told["left"]) == (1, 1) and [sha1(m) for m in q.client.lrange(q.escape, 0, -1)] == [sha1(letters[0])]
    assert q.client.xlen(q.log) == 1


@pytest.mark.parametrize("how", ["retry", "rm"])
@pytest.mark.parametrize("step", [1, 3])
def test_letters_of_a_class_are_found_where_the_last_one_was(quredis, redis, how, step):
    """The search continues where the last one was found. A search from one end each time kept Redis busy for a minute with a thousand dead letters
    of 10 KB."""
    c, n = redis.client(), 300
    q = Queue(c)
    letters = almost_equal(n, 5000)
    for i, m in enumerate(letters):
        q.dead_letters(m, error_class="Rejected" if i % step == 0 else "HandlerExit")
    before = c.info("commandstats").get("cmdstat_lindex", {"calls": 0})["calls"]
    assert quredis("dlq", how, "mail", "--all", "--class", "Rejected", "--yes").code == 0
    assert c.info("commandstats")["cmdstat_lindex"]["calls"] - before < 10 * n
    left = [m for i, m in enumerate(letters) if i % step]
    assert [sha1(m) for m in c.lrange(q.escape, 0, -1)] == [sha1(m) for m in left[::-1]] and c.xlen(q.log) == len(left)
    assert [sha1(strip(m)) for m in q.fetched()] == ([sha1(m) for m in letters[::step]] if how == "retry" else [])
