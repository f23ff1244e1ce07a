"""The page of dead letters: its filter, its causes, and retries that stop when messages fail again."""
import json

import pytest

from harness import browser as browsers
from harness import queue, wait_for
from harness.dead_letters import CAUSE, LETTERS, PATIENCE_S, fill, remembered
from harness.queues import Queue, incarnation, payloads

from .actions import FAILED_TO_LOAD
from .test_axe import AXE, assert_accessible
from .test_phone import assert_fits

pytestmark = pytest.mark.skipif(browsers.why_not() != "", reason=browsers.why_not())

MINUTE_MS = 60000


def shown(p):
    return p.script("return [...document.querySelectorAll('.table-dead-letters tbody tr')].map(r => r.dataset.key)")


def fill_in(p, **fields):
    """Labels with underscores for spaces. At once, so that the page never filters by a half of a text."""
    p.script("""for (const [label, text] of Object.entries(arguments[0])) {
        const input = document.querySelector(`.tools input[aria-label="${label.replaceAll("_", " ")}"]`);
        input.value = text;
        input.dispatchEvent(new Event("input"));
    }""", fields)


def test_each_field_of_the_filter(page, redis):
    c = redis.client()
    mail, now = Queue(c), int(c.time()[0]) * 1000
    ids = [mail.dead_letters(b"x", at=now - ago * MINUTE_MS, exit_code=status, worker=incarnation(1, node))[0]
           for ago, status, node in ((100, "3", "web1"), (50, "3", "web2"), (10, "75", "web2"), (1, "75", "web1"))]
    p = page().open("/dead-letters/mail")
    p.sees("4 dead letters", ".tools")
    nothing = {"Since": "", "Until": "", "Exit_status": "", "Worker_or_node": ""}
    for fields, wanted in (({"Since": "55m"}, [3, 2, 1]), ({"Until": "30m"}, [1, 0]), ({"Exit_status": "75"}, [3, 2]), ({"Worker_or_node": "web2"}, [2, 1]),
                           ({"Since": "55m", "Until": "5m", "Exit_status": "3", "Worker_or_node": "web2"}, [1])):
        fill_in(p, **{**nothing, **fields})
        wait_for(lambda: shown(p) == [ids[i] for i in wanted], what=f"the dead letters that match {fields}")
        p.sees(f"{len(wanted)} found", ".tools")


def test_failures_that_are_allowed(page, redis, quredisd, handler, ledger):
    """Two of six fail again, and have done so before the last is moved: the retry goes on to the end, because two are allowed."""
    mail = Queue(redis.client())
    mail.dead_letters(*(b"bad %d" % i for i in range(2)), *(b"good %d" % i for i in range(4)))
    quredisd(queues=[queue("mail", handler("m=$(cat); case $m in bad*) exit 3;; esac; echo \"$m\" >>@LEDGER@"))])
    p = page().open("/dead-letters/mail")
    p.sees("6 dead letters", ".tools")
    p.click("Retry all", ".marks")
    p.sees("If all three are empty, all messages move at once, and the retry does not watch them", "dialog")
    fields = ".tools input[type=search], .more-filters input, .pace input"
    assert p.script("return new Set([...document.querySelectorAll(arguments[0])].map(e => getComputedStyle(e).borderRadius)).size", fields) == 1
    p.type("2", "#pace-rate")
    p.type("2", "#pace-failures")
    p.click("Retry all 6", "dialog")
    p.sees("6 messages of mail moved back to ingress; 2 of them failed again", ".toast-ok")
    wait_for(lambda: sorted(ledger.lines()) == [f"good {i}" for i in range(4)] and mail.client.llen(mail.escape) == 2)


@pytest.mark.parametrize("width, height, is_phone, scheme", [(1280, 900, False, "light"), (390, 844, True, "dark")])
def test_operations_are_listed_and_stopped(page, redis, quredisd, handler, width, height, is_phone, scheme):
    """One that a supervisor executes for a command elsewhere, and one that a command left behind."""
    q, wanted = fill(redis.client(), 40)
    Queue(redis.client())
    d = quredisd(queues=[queue("mail", handler("exit 0"))], health={"enabled": True})
    wait_for(lambda: q.client.exists("quredis:of:ingress:mail:sweeper"), 60)
    assert d.quredis("dlq", "retry", "mail", "--all", "--cause", CAUSE, "--rate", "1/h", "--yes", "--no-wait").code == 0
    key, forged = f"{q.escape}:operations", "0123456789abcdef"
    wait_for(lambda: q.client.llen(q.escape) < 40, 60)
    q.client.hset(key, mapping={f"{forged}:{k}": v for k, v in {"what": "dlq rm\x1b[31m", "bound": "1-0", "begun": "1000", "by": "<b>eve</b>"}.items()})
    p = page()
    p.size(width, height, phone=is_phone)
    p.colours(scheme)
    p.open("/dead-letters/mail")
    wait_for(lambda: p.count(".table-operations tbody tr") == 2)
    ours, = (r for r in p.rows(".table-operations") if "retry" in r[0])
    other, = (r for r in p.rows(".table-operations") if "rm" in r[0])
    assert CAUSE in ours[0] and "running" in ours[1] and ours[2] == f"1 of {len(wanted)}" and "root@" in ours[4], ours
    assert "\x1b" not in other[0] and "interrupted" in other[1] and other[4] == "<b>eve</b>" and "Stop" not in other[-1], other
    assert p.count(".table-operations .badge-run[title^='the supervisor']") == 1 and p.count(".table-operations .badge-off[title^='no process']") == 1
    if is_phone:
        assert_fits(p, "operations")
    if AXE is not None:
        assert_accessible(p, "operations")
    row, = [r for r in json.loads(d.quredis("--json", "operations", "mail").out) if r["id"] != forged]
    p.click(f"Stop {row['id']}", ".table-operations")
    p.click("Cancel", "dialog")
    p.click(f"Stop {row['id']}", ".table-operations")
    p.click("Stop it", "dialog")
    p.sees("The operation stops after its next message", ".toasts")
    wait_for(lambda: {r["state"] for r in json.loads(d.quredis("--json", "operations", "mail").out)} == {"stopped", "interrupted"}, 60)
    wait_for(lambda: sorted(state for r in p.rows(".table-operations") for state in ("stopped", "interrupted") if state in r[1]) == ["interrupted", "stopped"])
    p.go("/dead-letters")
    wait_for(lambda: [r[1] for r in p.rows(".table-operations")] == ["mail"] * 2)
    q.client.delete(key)
    p.go("/dead-letters/mail")
    wait_for(lambda: p.count(".table-operations tbody tr") == 0 and not p.script("return document.querySelector('.operations').checkVisibility()"))


def test_after_a_stop_the_next_question_counts(page, redis):
    """A retry after one that was stopped begins anew: it also takes those that failed since."""
    mail = Queue(redis.client())
    mail.dead_letters(*(b"%d" % i for i in range(40)))
    p = page().open("/dead-letters/mail")
    p.sees("40 dead letters", ".tools")
    p.click("Retry all", ".marks")
    p.type("2", "#pace-rate")
    p.click("Retry all 40", "dialog")
    p.sees(" of 40", ".working")
    p.click("Stop", ".working")
    p.sees("; stopped (", ".toasts")
    mail.dead_letters(b"later", b"latest")
    n = mail.client.llen(mail.escape)
    p.sees(f"{n} dead letters", ".tools")
    p.click("Retry all", ".marks")
    p.type("1000", "#pace-rate")
    p.click(f"Retry all {n}", "dialog")
    p.sees(f"{n} messages of mail moved back to ingress", ".toast-ok")
    assert mail.client.llen(mail.escape) == 0 and mail.client.llen(mail.ingress) == 42


def test_an_action_of_a_page_that_was_left_leads_nowhere(page, redis):
    """Its answer comes when another page is shown."""
    q = Queue(redis.client())
    q.dead_letters(b"one")
    p = page().open(f"/dead-letters/mail/{q.client.xrange(q.log)[0][0].decode()}")
    p.sees("HandlerExit")
    p.script("""const real = fetch;
        window.fetch = async (...a) => {
            const answer = await real(...a);
            if (a[1]?.method === "POST")
                await new Promise((go) => { window.release = go; });
            return answer;
        };""")
    p.click("Retry", "main")
    p.click("Retry 1", "dialog")
    wait_for(lambda: p.script("return 'release' in window"))
    p.go("/health")
    p.script("window.release()")
    p.sees("moved back to ingress", ".toast-ok")
    assert p.script("return location.hash") == "#/health"


def test_more_causes_than_are_shown(page, redis):
    """60 causes and classes: 50 of them come with the first answer, and no number is less than it is."""
    mail = Queue(redis.client())
    mail.dead_letters(*(b"%d" % i for i in range(100)), error_message="no route")
    for i in range(59):
        mail.dead_letters(b"x", error_class=f"Status{100 + i}")
    p = page().open("/dead-letters/mail")
    for n in (8, 40):
        p.sees(f"By cause {n} of 60 causes", ".causes h2")
        assert p.count(".causes li") == n
        p.click("Show more causes", ".causes")
    wait_for(lambda: p.count(".causes li") == 60 and p.text(".causes h2") == "By cause" and not p.count(".causes button"))
    p.refresh()
    p.sees("8 of 60 causes", ".causes")
    fill_in(p, Search="exit status")
    p.sees("59 found", ".tools")
    p.go("/dead-letters/mail")
    for name in ("Status100", "Status158"):
        p.go(f"/dead-letters/mail?class={name}")
        p.sees("1 found", ".tools")
        wait_for(lambda: len(shown(p)) == 1)


def test_retry_and_delete_one(page, redis):
    mail, r = Queue(redis.client()), redis.client()
    ids = mail.dead_letters(b"a", b"b", b"c")
    p = page().open("/dead-letters/mail")
    p.click(f"Retry {ids[1]}")
    p.click("Cancel", "dialog")
    p.click(f"Retry {ids[1]}")
    p.sees("1 dead letter of mail will move back", "dialog")
    assert r.llen(mail.ingress) == 0
    p.click("Retry 1", "dialog")
    wait_for(lambda: payloads(r, mail.ingress) == [b"b"])
    wait_for(lambda: p.count(".table-dead-letters tbody tr") == 2)
    p.click(f"Delete {ids[0]}")
    p.click("Delete 1…", "dialog")
    p.sees("This cannot be undone", "dialog")
    assert payloads(r, mail.escape) == [b"a", b"c"]
    p.click("Keep", "dialog")
    p.go(f"/dead-letters/mail/{ids[0]}")
    p.click("Delete", "main")
    p.click("Delete 1…", "dialog")
    p.click("Delete 1 permanently", "dialog")
    p.forgiven += [FAILED_TO_LOAD]      # the page may read the record again before it leaves
    wait_for(lambda: payloads(r, mail.escape) == [b"c"] and r.xlen(mail.log) == 1)
    wait_for(lambda: p.count(".table-dead-letters tbody tr") == 1)
    assert payloads(r, mail.ingress) == [b"b"]


def test_retry_and_delete_marked_or_all(page, redis):
    mail, r = Queue(redis.client()), redis.client()
    ids = mail.dead_letters(*(b"%d" % i for i in range(60)))
    p = page().open("/dead-letters/mail")
    p.sees("50 of 60 dead letters")
    p.click(f"select {ids[59]}", ".table-dead-letters")
    p.click(f"select {ids[57]}", ".table-dead-letters")
    mail.dead_letters(b"new")
    wait_for(lambda: p.count(".table-dead-letters tbody tr") == 51 or "of 61" in p.text(".tools"))
    assert p.count("tr.marked") == 2
    p.click("Retry 2", ".marks")
    p.click("Retry 2", "dialog")
    wait_for(lambda: payloads(r, mail.ingress) == [b"57", b"59"])
    p.sees("59 dead letters", ".tools")
    p.click("Show more")
    wait_for(lambda: p.count(".table-dead-letters tbody tr") == 59)
    p.click("select all shown rows")
    assert p.count("tr.marked") == 59
    p.click(f"select {ids[0]}", ".table-dead-letters")
    p.click("Delete 58", ".marks")
    p.click("Delete 58…", "dialog")
    p.click("Delete 58 permanently", "dialog")
    wait_for(lambda: payloads(r, mail.escape) == [b"0"])
    mail.dead_letters(b"x", b"y")
    p.sees("3 dead letters", ".tools")
    p.click("Retry all", ".marks")
    p.click("Retry all 3", "dialog")
    wait_for(lambda: r.llen(mail.escape) == 0 and r.llen(mail.ingress) == 5)
    p.sees("No dead letters in mail")


def test_marked_ones_that_somebody_else_took(page, redis):
    mail, r = Queue(redis.client()), redis.client()
    ids = mail.dead_letters(b"a", b"b", b"c")
    p = page().open("/dead-letters/mail")
    p.forgiven += [FAILED_TO_LOAD]
    wait_for(lambda: p.count(".table-dead-letters tbody tr") == 3)
    p.click("select all shown rows")
    p.click("Retry 3", ".marks")
    r.lrem(mail.escape, 1, b"b"), r.xdel(mail.log, ids[1])
    p.click("Retry 3", "dialog")
    p.sees("2 messages of mail moved back to ingress; 1 no longer existed", ".toasts")
    assert payloads(r, mail.ingress) == [b"a", b"c"]
    p.sees("No dead letters in mail")
    p.go(f"/dead-letters/mail/{mail.dead_letters(b'd')[0]}")
    p.sees("HandlerExit", "h1")     # of its own page: the list shows that word, too
    r.delete(mail.escape, mail.log)
    p.click("Retry", "main")
    p.click("Retry 1", "dialog")
    p.sees("No message of mail moved back to ingress; 1 no longer existed", ".toast-bad")


def test_by_cause(page, redis):
    mail, r = Queue(redis.client()), redis.client()
    mail.dead_letters(*(b"t%d" % i for i in range(70)), error_message="exit status 3: cannot reach 10.0.0.17: timeout after 30 s")
    mail.dead_letters(*(b"u%d" % i for i in range(60)), error_message="exit status 3: no such user 4711f00d")
    mail.dead_letters(b"s", error_class="HandlerSignal", exit_code="", signal="SIGSEGV", error_message="killed by SIGSEGV")
    p = page().open("/dead-letters/mail")
    p.sees("HandlerExit exit 3: cannot reach #: timeout after 30 s", ".causes")
    causes = p.text(".causes li").split("\n")
    assert causes[0].startswith("70") and "no such user #" in p.text(".causes") and "HandlerSignal SIGSEGV\n" in p.text(".causes")
    p.script("[...document.querySelectorAll('.causes a')].find(a => a.innerText.includes('cannot reach')).click()")
    p.sees("70 found")
    p.type("t69", ".tools input")       # no text of a record
    p.sees("No matching dead letters")
    p.script("document.querySelector('.tools input').value = ''; document.querySelector('.tools input').dispatchEvent(new Event('input'))")
    p.sees("70 found")
    p.click("Retry these", ".marks")
    p.click("Retry 70", "dialog")
    wait_for(lambda: r.llen(mail.ingress) == 70 and r.llen(mail.escape) == 61)
    assert all(m.startswith(b"t") for m in payloads(r, mail.ingress))
    p.script("location.hash = '#/dead-letters/mail?class=HandlerSignal'")
    wait_for(lambda: p.count(".table-dead-letters tbody tr") == 1)
    p.click("Delete these", ".marks")
    p.sees("1 dead letter that matches class HandlerSignal will be deleted", "dialog")
    p.click("Delete 1…", "dialog")
    p.click("Delete 1 permanently", "dialog")
    wait_for(lambda: r.llen(mail.escape) == 60 and b"s" not in payloads(r, mail.escape))


def fill_dialog(p, **values):
    for name, value in values.items():
        p.type(str(value), f"#pace-{name}")


@pytest.fixture
def uncounted(page):
    """A page for which the server does not count dead letters; called, it counts again."""
    p = page()
    block = lambda urls: p.browser.send("Network.setBlockedURLs", urls=urls)
    block(["*/queue/dlq/stats*"])
    p.forgiven += [FAILED_TO_LOAD, "ERR_BLOCKED_BY_CLIENT"]
    yield p, lambda: block([])
    block([])


def test_dead_letters_that_cannot_be_counted(uncounted, redis):
    """To count a million may take longer than the server waits. The records are there nevertheless, and the actions work."""
    c = redis.client()
    Queue(c)
    q, wanted = fill(c, 400)
    p, count_again = uncounted
    p.open("/dead-letters/mail?class=SMTPServerDisconnected&exit=3")
    p.sees("Counting the dead letters failed")
    p.sees("Not counted", ".tools")
    assert p.count(".table-dead-letters tbody tr") == 50
    p.click("Retry these", ".marks")
    p.sees("All dead letters that match class SMTPServerDisconnected, exit 3 will move back", "dialog")
    p.click("Retry all that match", "dialog")
    wait_for(lambda: c.llen(q.ingress) == len(wanted) and c.llen(q.escape) == 400 - len(wanted))
    count_again()
    p.go("/dead-letters/mail?class=HandlerExit&exit=3")
    p.sees(f"{sum(r[b'error_class'] == b'HandlerExit' for _, r in c.xrange(q.log))} found", ".tools")
    wait_for(lambda: "failed" not in p.text())


@pytest.mark.limit(2 * PATIENCE_S)
def test_all_of_one_cause_with_a_canary_and_a_rate(page, redis, quredisd, handler, ledger, tmp):
    """22,683 of 40,000 are offered and retried, at the scale of QUREDIS_TEST_DEAD_LETTERS."""
    c = redis.client()
    q, wanted = fill(c)
    n = f"{len(wanted):,}"
    d = quredisd(queues=[queue("mail", handler("if [ -e @TMP@/broken ]; then exit 3; fi; m=$(cat); echo \"$m\" >>@LEDGER@"), workers=4)])
    broken = tmp / "broken"
    p = page().open("/dead-letters/mail")
    p.sees(CAUSE, ".causes")
    p.script("[...document.querySelectorAll('.causes a')].find(a => a.innerText.includes('SMTPServer')).click()")
    p.sees(f"{n} found", ".tools")
    wait_for(lambda: p.count(".table-dead-letters tbody tr") == 50)
    broken.touch()
    p.click("Retry these", ".marks")
    p.sees(f"{n} dead letters that match class SMTPServerDisconnected", "dialog")
    fill_dialog(p, canary=50, rate=1000)
    p.forgiven += [FAILED_TO_LOAD]
    p.click(f"Retry {n}", "dialog")
    p.sees("became dead letters again", ".toasts", timeout=60)
    wait_for(lambda: c.llen(q.escape) == LETTERS and c.xlen(q.log) == LETTERS)
    assert {*wanted[50:]} <= {*c.lrange(q.escape, 0, -1)} and ledger.lines() == []
    broken.unlink()
    wanted, rest = wanted[50:], LETTERS - len(wanted) + 50        # those that failed again have another cause now
    n = f"{len(wanted):,}"
    p.sees(f"{n} found", ".tools")
    p.click("Retry these", ".marks")
    fill_dialog(p, canary=50, rate=LETTERS // 8)
    p.click(f"Retry {n}", "dialog")
    p.sees(f" of {n}", ".working", timeout=60)
    wait_for(lambda: len(ledger.lines()) > 100, 60)
    p.click("Stop", ".working")
    p.sees("; stopped (", ".toasts", timeout=30)
    assert rest < c.llen(q.escape) < LETTERS - 50
    # it stops after the message that is being moved: the page shows what is left then
    wait_for(lambda: f"{c.llen(q.escape) - rest:,} found" in p.text(".tools"), 30)
    p.click("Retry these", ".marks")
    fill_dialog(p, rate=100000)
    p.click(f"Retry {c.llen(q.escape) - rest:,}", "dialog")
    wait_for(lambda: c.llen(q.escape) == rest and len(ledger.lines()) == len(wanted), PATIENCE_S)
    assert sorted(m.encode() for m in ledger.lines()) == sorted(wanted)
    assert not {*c.lrange(q.escape, 0, -1)} & {*wanted} and not remembered(q)
    p.sees("No matching dead letters")
    assert d.stop() == 0


def test_what_is_found_by_a_cause_is_what_was_counted(page, redis):
    """The filter finds what the list of causes counted; it may not find others, since it deletes by them."""
    mail = Queue(redis.client())
    said = ["exit status #", "HTTP 404", "HTTP 503", "550 5.7.1", "10.0.0.17:25 1:2:3", "2026-11-23T02 550-5.7.1", "123 " * 60,
            "exit status 12: a", "exit status 12: bad", "exit status 12: 4711f00d-1", "exit status 12: deadbeef", "user bad", "user 7", "x1y22 0x1f",
            "a\tb\x01", "grüße 5€ 12ab", "7" * 40 + "b", "abc-def1-22", "n" * 300, "1\n2", "",
            "é" * 100, "a" * 124 + "12", "12345678ff 12345678fg", "abcdef1", "abcdef12"]
    for i, text in enumerate(said * 2):
        mail.dead_letters(b"%d" % i, error_message=text, error_class=("HandlerExit", "")[i % 2], exit_code=("3", "")[i % 3 > 0])
    p = page().open("/dead-letters/mail")
    p.sees(f"{2 * len(said)} dead letters", ".tools")
    p.click("Show more causes", ".causes")
    while p.count(".causes button"):
        p.click("Show more causes", ".causes")
    links = p.script("return [...document.querySelectorAll('.causes a')].map(a => [a.getAttribute('href'), Number(a.querySelector('.cause-count').innerText)])")
    assert sum(n for _, n in links) == 2 * len(said)
    for href, n in links:
        p.script("location.hash = arguments[0]", href)
        p.sees(f"{n} found", ".tools")
        wait_for(lambda: p.count(".table-dead-letters tbody tr") == n)
