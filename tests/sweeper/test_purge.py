"""Purge: what exists for too long escapes, no sooner; a dry run names exactly that and writes nothing.

PURGE_MESSAGES changes how many there are in the long list; `make purge-soak` is the long form.
"""
import os
import pathlib
import re
import threading
from collections import Counter

import pytest

from harness import SANITIZED, queue, wait_for
from harness.control import by_class, status
from harness.messages import anywhere, record, sealed, stray_keys, unwrap
from harness.queues import written

MESSAGES = int(os.environ.get("PURGE_MESSAGES", "100000"))
PAGE = 100          # entries that one call looks at
SLOW_US = int(os.environ.get("PURGE_SLOW_US", "50000"))     # others use the machine, too
HOUR = 3600 * 1000


def server_us(c):
    seconds, micros = c.time()
    return seconds * 1000000 + micros


def server_ms(c):
    return server_us(c) // 1000


def header(**keys):
    return ("quredis/1 " + " ".join(f"{k}={v}" for k, v in keys.items()) + "\n").encode()


def wrapped(c, nonce, **keys):
    return sealed(c, header(w=f"{nonce:016x}", **keys))


def purge(**keys):
    return {"enabled": True, "interval": "1s", **keys}


def stamped(c, at=0):
    return b" own=" in (c.lindex("ingress:mail", at) or b"")


def named(d, name="mail"):
    return sorted(e["id"] for e in d.events("message_would_escape", queue=name))


def fill(c):
    """(what is too old for an hour, what stays) in ingress and delayed."""
    now = server_ms(c)
    old = [header(id=f"o{i}", enqueued=now - 2 * HOUR) + bytes([i, 0, 10]) for i in range(40)]
    old += [wrapped(c, i, first_failed=now - 3 * HOUR, attempts=2) + header(id=f"f{i}") + b"x" for i in range(5)]
    young = [header(id=f"y{i}", enqueued=now - 60000) + b"y" for i in range(200)] + [b"raw %d" % i for i in range(60)] + [b"", b"\xff\0"]
    mixed = [m for pair in zip(young[:45], old) for m in pair] + young[45:]
    c.lpush("ingress:mail", *mixed)
    late = [wrapped(c, 100 + i, first_failed=now - 2 * HOUR) + header(id=f"d{i}") + b"delayed" for i in range(150)]
    soon = [wrapped(c, 300 + i, first_failed=now - 1000) + header(id=f"s{i}") + b"delayed" for i in range(10)]
    c.zadd("quredis:of:ingress:mail:delayed", {m: now + HOUR + i for i, m in enumerate(late + soon)})
    return old + late, young + soon


def test_a_dry_run_names_what_the_live_run_moves_and_writes_nothing(redis, quredisd, handler):
    c = redis.client()
    old, young = fill(c)
    mail = queue("mail", handler("cat"), workers=0)
    d = quredisd(queues=[mail], purge=purge(dry_run=True, max_ingress_age="7d", max_message_age="1h", interval="1h"))
    d.wait_event("purge_dry_run", queue="mail")
    before = written(c)
    d.reload(purge=purge(dry_run=True, max_ingress_age="7d", max_message_age="1h"))
    wait_for(lambda: len(d.events("purge_dry_run", queue="mail", messages=str(len(old)))) >= 3)
    wait_for(lambda: status(d, "mail")["counters"]["would_purge"] >= 3 * len(old))
    start = server_ms(c)
    wait_for(lambda: server_ms(c) > start + 6000)       # figures are written every five seconds
    assert written(c) == before
    assert status(d, "mail")["counters"]["purged"] == status(d, "mail")["counters"]["escaped"] == 0
    assert not any(b" own=" in m for m in c.lrange("ingress:mail", 0, -1))
    names = named(d)
    assert len(set(names)) == len(old)
    d.reload(purge=purge(max_ingress_age="7d", max_message_age="1h"))
    told = d.wait_event("purge_done", queue="mail")
    assert int(told["messages"]) == len(old) and int(told["oldest_ms"]) >= 2 * HOUR
    assert sorted(c.lrange("escape:mail", 0, -1)) == sorted(unwrap(m)[1] for m in old)
    assert sorted(f[b"id"].decode() for _, f in c.xrange("escape:mail:log")) == sorted(set(names))
    assert sorted(unwrap(m)[1] for m in anywhere(c, "mail")) == sorted(unwrap(m)[1] for m in young)
    r = {f[b"id"]: f for _, f in c.xrange("escape:mail:log")}
    assert r[b"o1"][b"queue_from"] == b"ingress" and r[b"d1"][b"queue_from"] == b"delayed"
    assert r[b"o1"][b"error_class"] == b"DeadlineExceeded" and r[b"f1"][b"attempts"] == b"2"
    assert re.fullmatch(rb"DeadlineExceeded: [0-9ms]+ in queue mail, limit 1h \(max_message_age\)", r[b"o1"][b"error_message"])
    counted = status(d, "mail")["counters"]
    assert counted["purged"] == counted["escaped"] == len(old) and by_class(d, "mail") == {"DeadlineExceeded": len(old)}
    assert not stray_keys(c, "mail")
    assert d.stop() == 0


def test_what_waits_too_long_without_telling_is_purged_never_early(redis, quredisd, handler):
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler("cat"), workers=0), queue("other", handler("cat"), workers=0, purge={"max_ingress_age": "1h"})],
                 purge=purge(max_ingress_age="3s"))
    d.wait_event("lead_taken", queue="other")
    pushed = {}
    for i in range(300):
        m = b"raw %d" % i
        pushed[m] = server_ms(c)
        c.lpush("ingress:mail", m)
        c.lpush("ingress:other", m)
    wait_for(lambda: c.llen("escape:mail") == 300, 40)
    at = {f[b"message"]: int(i.split(b"-")[0]) for i, f in c.xrange("escape:mail:log")}
    assert set(at) == set(pushed) and min(at[m] - pushed[m] for m in at) >= 3000
    r = record(c, "mail")
    assert r["error_class"] == b"Purged" and b"in queue mail, limit 3s (max_ingress_age)" in r["error_message"]
    assert c.llen("ingress:other") == 300 and not c.exists("escape:other")
    assert int(d.events("message_escaped", queue="mail")[0]["age_ms"]) >= 3000
    wait_for(lambda: by_class(d, "mail") == {"Purged": 300}, 20)
    assert d.stop() == 0


def test_a_round_that_found_nothing_is_no_news(redis, quredisd, handler):
    """A dry run tells it all the same: that is what it is for."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler("cat"), workers=0)], purge=purge(max_message_age="1h"))
    wait_for(lambda: len(d.events("purge_done", queue="mail")) >= 2)
    assert {e["level"] for e in d.events("purge_done")} == {"debug"}
    c.lpush("ingress:mail", header(id="old", enqueued=server_ms(c) - 2 * HOUR) + b"m")
    assert d.wait_event("purge_done", queue="mail", messages="1")["level"] == "info"
    d.reload(purge=purge(max_message_age="1h", dry_run=True))
    assert d.wait_event("purge_dry_run", messages="0")["level"] == "info"
    assert d.stop() == 0


def test_the_clock_of_redis_is_set(redis_server, quredisd, handler):
    server = redis_server(clock=True)
    c = server.client()
    d = quredisd(redis=server, queues=[queue("mail", handler("cat"), workers=0)], purge=purge(max_ingress_age="30m", max_message_age="1h"))
    c.lpush("ingress:mail", *[b"%d" % i for i in range(100)], header(enqueued=server_ms(c)) + b"m")
    d.wait_event("lead_taken", queue="mail")
    wait_for(lambda: stamped(c))
    server.set_clock(7200)
    d.wait_event("server_clock_set")
    c.lpush("ingress:mail", b"new")
    rounds = len(d.events("purge_done"))
    wait_for(lambda: len(d.events("purge_done")) > rounds + 2)
    assert c.llen("ingress:mail") == 102 and not c.exists("escape:mail")
    assert d.stop() == 0


def test_check_may_object(redis, quredisd, handler, tmp):
    """By its exit status; told the message and what is known of it."""
    c = redis.client()
    check = handler("""body=$(cat); echo "$QUREDIS_QUEUE $QUREDIS_ID $QUREDIS_REASON $QUREDIS_LIMIT_MS $QUREDIS_DRY_RUN ${HOME-none} $body" >>@TMP@/asked
[ "$QUREDIS_AGE_MS" -ge 7200000 ] && [ "$QUREDIS_SIZE" -eq ${#body} ] || exit 3
case $body in *keep*) exit 1;; *die*) kill -9 $$;; *much*) head -c 5000000 /dev/zero; exit 1;; esac""", name="check")
    now = server_ms(c)

    def push(*words):
        c.lpush("ingress:mail", *[header(id=f"{w}{i}", enqueued=now - 2 * HOUR) + w.encode() for i, w in enumerate(words)])

    push("keep", "go", "keep", "die", "go", "much", "go")
    c.zadd("quredis:of:ingress:mail:delayed", {wrapped(c, 1, first_failed=now - 2 * HOUR) + b"go": now + HOUR,
                                    wrapped(c, 2, first_failed=now - 2 * HOUR) + b"keep": now + HOUR})
    limits = {"max_message_age": "1h", "interval": "1h"}
    mail = queue("mail", handler("cat"), workers=0)
    d = quredisd(queues=[mail], purge=purge(check=[str(check)], dry_run=True, **limits))
    assert d.wait_event("purge_dry_run", queue="mail", messages="4", spared="5")
    dry = named(d)
    assert c.llen("ingress:mail") == 7 and len(dry) == 4
    d.reload(purge=purge(check=[str(check)], **limits))
    assert d.wait_event("purge_done", queue="mail", messages="4", spared="5")
    left = [unwrap(m)[1].split(b"\n")[1] for m in reversed(c.lrange("ingress:mail", 0, -1))]
    assert left == [b"keep", b"keep", b"die", b"much"] and c.zcard("quredis:of:ingress:mail:delayed") == 1
    assert sorted(f[b"id"].decode() for _, f in c.xrange("escape:mail:log")) == dry
    told = d.events("purge_check_failed", queue="mail")
    assert len(told) == 2 and all(e["error"] == "killed by SIGKILL" for e in told)     # once a round
    asked = (tmp / "asked").read_text().splitlines()
    assert len(asked) == 32 and f"mail go1 max_message_age {HOUR} 1 {os.environ.get('HOME', 'none')} quredis/1 id=go1 enqueued={now - 2 * HOUR}" in asked
    assert d.stop() == 0


def test_what_is_taken_while_check_is_asked(redis, quredisd, handler, tmp):
    """Those that came in its place are young: none of them is asked about."""
    c = redis.client()
    check = handler("""cat >>@TMP@/asked; echo >>@TMP@/asked; while [ ! -e @TMP@/go ]; do sleep 0.05; done""", name="check")
    d = quredisd(queues=[queue("mail", handler("cat"), workers=0)],
                 purge=purge(check=[str(check)], max_ingress_age="3s", interval="1s"))
    c.lpush("ingress:mail", b"old 1", b"old 2", b"old 3")
    wait_for(lambda: (tmp / "asked").exists() and (tmp / "asked").read_text() == "old 1\n", 40)
    c.delete("ingress:mail")
    c.lpush("ingress:mail", *[b"young %d" % i for i in range(3)])
    rounds = len(d.events("purge_done"))
    (tmp / "go").touch()
    wait_for(lambda: len(d.events("purge_done")) > rounds)
    assert (tmp / "asked").read_text() == "old 1\n"
    wait_for(lambda: c.llen("escape:mail") == 3, 40)    # when it is their time
    assert (tmp / "asked").read_text() == "old 1\n" + "".join("young %d\n" % i for i in range(3))
    assert d.stop() == 0


def test_a_check_that_hangs_or_is_not_there(redis, quredisd, handler):
    c = redis.client()
    old = header(enqueued=server_ms(c) - 2 * HOUR)
    c.lpush("ingress:hangs", old + b"m")
    c.lpush("ingress:lacks", old + b"m", old)
    c.lpush("ingress:free", old + b"m")
    hangs = handler("trap '' TERM; while :; do sleep 60; done", name="hangs")
    lacks = pathlib.Path(handler("", name="lacks"))
    lacks.write_text("#!/nonexistent/interpreter\n")       # a good configuration, until it is executed
    d = quredisd(queues=[queue("hangs", handler("cat"), workers=0, purge={"check": [str(hangs)]}),
                         queue("lacks", handler("cat"), workers=0, purge={"check": [str(lacks)]}),
                         queue("free", handler("cat"), workers=0)], purge=purge(max_message_age="1h", interval="1h"))
    wait_for(lambda: c.llen("escape:free") == 1)        # nobody waits for another's
    told = d.wait_event("purge_check_failed", queue="hangs", timeout=40)
    assert told["error"] == "timed out after 10 s"
    assert d.wait_event("purge_done", queue="hangs")["spared"] == "1"
    assert "No such file" in d.wait_event("purge_check_failed", queue="lacks", timeout=40)["error"]
    assert d.wait_event("purge_done", queue="lacks")["spared"] == "2"
    assert c.llen("ingress:hangs") == 1 and c.llen("ingress:lacks") == 2
    assert d.stop() == 0


def test_beside_consumers_that_pop_and_two_sweepers(redis, quredisd, handler):
    """Each message is in one place, whoever is faster."""
    c = redis.client()
    old = header(enqueued=server_ms(c) - 2 * HOUR)
    raw = [b"raw %d" % i if i % 2 else old + b"%d" % i for i in range(20000)]
    for i in range(0, len(raw), 500):
        c.lpush("ingress:mail", *raw[i:i + 500])
    hosts = [quredisd(queues=[queue("mail", handler("cat"), workers=0)], purge=purge(max_message_age="1h", max_ingress_age="1s"),
                      supervisor={"node": f"host{i}", "lease": "1s"}, wait=False) for i in range(2)]
    popped, stop = [], threading.Event()

    def consume():
        mine = redis.client()
        while not stop.is_set():
            pipe = mine.pipeline(transaction=False)
            for _ in range(3):
                pipe.rpop("ingress:mail")
            pipe.delete("quredis:of:ingress:mail:sweeper")         # so that both have the lead
            popped.extend(m for m in pipe.execute()[:3] if m is not None)

    wait_for(lambda: c.llen("escape:mail"), 40)
    t = threading.Thread(target=consume)
    t.start()
    try:
        wait_for(lambda: c.llen("ingress:mail") == 0, 60)
    finally:
        stop.set()
        t.join()
    assert sorted([unwrap(m)[1] for m in popped] + c.lrange("escape:mail", 0, -1)) == sorted(raw)
    assert popped and c.llen("escape:mail") == c.xlen("escape:mail:log")
    for d in hosts:
        assert d.stop() == 0


def test_broken_keys_hold_up_only_their_queue(redis, quredisd, handler):
    c = redis.client()
    old = header(enqueued=server_ms(c) - 2 * HOUR)
    d = quredisd(queues=[queue("bad", handler("cat"), workers=0), queue("mail", handler("cat"), workers=0)],
                 purge=purge(max_message_age="1h"))
    d.wait_event("lead_taken", queue="mail")
    c.set("escape:bad", "no list")
    c.lpush("ingress:bad", old + b"m")
    assert "WRONGTYPE" in d.wait_event("queue_error", queue="bad", at="purge")["error"]
    c.lpush("ingress:mail", old + b"m", old + b"x" * 10000000)
    wait_for(lambda: c.llen("escape:mail") == 2)
    assert c.lrange("ingress:bad", 0, -1)[0].endswith(old + b"m")
    c.delete("escape:bad")
    wait_for(lambda: c.llen("escape:bad") == 1, 40)
    d.wait_event("queue_error_cleared", queue="bad")
    assert d.stop() == 0


def test_what_is_in_work_for_long_is_told_of(redis, quredisd, handler, tmp):
    """Once, and it is left alone."""
    c = redis.client()
    run = handler("read m; while [ ! -e @TMP@/$m ]; do sleep 0.05; done")
    d = quredisd(queues=[queue("mail", run), queue("other", run, purge={"max_transit_age": "1h"})],
                 purge=purge(max_transit_age="2s", dry_run=True))
    c.lpush("ingress:mail", "b\n", "a\n")
    c.lpush("ingress:other", "b\n")
    told = d.wait_event("transit_old", queue="mail")
    assert int(told["age_ms"]) >= 2000 and int(told["handler"]) in d.handlers()
    rounds = len(d.events("purge_dry_run", queue="mail"))
    wait_for(lambda: len(d.events("purge_dry_run", queue="mail")) > rounds + 2)
    assert len(d.events("transit_old")) == 1 and len(anywhere(c, "mail")) == 2
    (tmp / "b").touch()
    wait_for(lambda: len(anywhere(c, "mail")) == 1)
    wait_for(lambda: len(d.events("transit_old", queue="mail")) == 2)
    (tmp / "a").touch()
    (tmp / "b").touch()
    wait_for(lambda: not anywhere(c, "mail") and not anywhere(c, "other"))
    assert not c.exists("escape:mail") and not d.events("transit_old", queue="other")
    assert d.stop() == 0


def rss_kb(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return int(next(line for line in f if line.startswith("VmRSS")).split()[1])


def busy_us(c):
    """How long Redis has run scripts: a walk is one of them."""
    return c.info("commandstats")["cmdstat_evalsha"]["usec"]


def test_messages_that_stay_cost_redis_little(redis, quredisd, handler):
    """A round takes longer than the interval. Times of Redis are compared with times of Redis, and the part counts."""
    c = redis.client()
    c.set("quredis:secret", "5" * 64)
    c.eval("""for i = 1, 100000 do redis.call('ZADD', KEYS[1], 4000000000000 + i, 'later ' .. i) end""", 1, "quredis:of:ingress:mail:delayed")
    c.lpush("ingress:mail", header(id="old", enqueued=server_ms(c) - 2 * HOUR) + b"x")
    d = quredisd(queues=[queue("mail", handler("cat"), workers=0)], purge=purge(max_message_age="1h"), wait=False)
    wait_for(lambda: c.llen("escape:mail") == 1)
    since, busy = server_us(c), busy_us(c)
    wait_for(lambda: server_us(c) - since > 4000000)
    part = (busy_us(c) - busy) / (server_us(c) - since)
    print(f"{100 * part:.1f} % of Redis")
    assert part < 0.12
    assert c.zcard("quredis:of:ingress:mail:delayed") == 100000
    assert d.stop() == 0


@pytest.mark.limit(590)        # below LONG_S of conftest.py: it measures, so it does not begin together with the longest tests
@pytest.mark.parametrize("dry_run", [True, False])
def test_a_long_list(redis, quredisd, handler, dry_run):
    """No call takes long, and memory stays flat. A dry run gives nobody a time, so they have one."""
    c = redis.client()
    line = wrapped(c, 1, own=server_ms(c)) if dry_run else b""
    for i in range(0, MESSAGES, 5000):
        c.lpush("ingress:mail", *[line + b"%08d" % k for k in range(i, min(i + 5000, MESSAGES))])
    c.config_set("slowlog-log-slower-than", SLOW_US)
    c.config_set("slowlog-max-len", MESSAGES)
    d = quredisd(queues=[queue("mail", handler("cat"), workers=0)], log={"level": "warning"},
                 purge=purge(max_ingress_age="2s", interval="4s", dry_run=dry_run), wait=False)
    c.slowlog_reset()
    wait_for(lambda: stamped(c, -1) and d.sweeper())
    before = rss_kb(d.sweeper())
    done = MESSAGES if dry_run else 0
    if dry_run:
        wait_for(lambda: status(d, "mail")["counters"]["would_purge"] >= done, 500)
    else:
        wait_for(lambda: c.llen("ingress:mail") == 0, 500)
        assert c.llen("escape:mail") == MESSAGES == c.xlen("escape:mail:log")
    grown = rss_kb(d.sweeper()) - before
    slow = Counter(b" ".join(e["command"].split()[:2]) for e in c.slowlog_get(MESSAGES))
    print(f"{MESSAGES} messages, dry_run={dry_run}: memory grew by {grown} kB, slow calls: {slow}")
    # A call is its command and its key or script. A busy machine holds up one of 25; a call that walks the list is slow for each page of it.
    assert max(slow.values(), default=0) <= 4 + MESSAGES / PAGE / 10, slow
    assert grown < 8192 or SANITIZED                    # a sanitizer keeps what was freed
    assert d.stop() == 0
