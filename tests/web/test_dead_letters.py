"""The page of dead letters: its filter, its causes, and retries that stop when messages fail again."""
import pytest

from harness import browser as browsers
from harness import queue, wait_for
from harness.queues import Queue, incarnation

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
    p.driver.refresh()
    p.sees("8 of 60 causes", ".causes")
    fill_in(p, Search="exit status")
    p.sees("59 found", ".tools")
    p.go("/dead-letters/mail")
    for name in ("Status100", "Status158"):
        p.go(f"/dead-letters/mail?class={name}")
        p.sees("1 found", ".tools")
        wait_for(lambda: len(shown(p)) == 1)
