"""The pages without a mouse: everything is reached in order and visibly, dialogs keep the focus and give it back, and shortcuts never disturb typing."""
import pytest

from harness import browser as browsers
from harness import wait_for
from harness.queues import Queue
from harness.scene import Scene

pytestmark = pytest.mark.skipif(browsers.why_not() != "", reason=browsers.why_not())

FAILED_TO_LOAD = "Failed to load resource"
ROW = "return document.activeElement.closest('tbody tr')?.dataset.key ?? null"
HASH = "return location.hash"


@pytest.fixture
def desk(page, redis):
    p = page()
    p.forgiven += [FAILED_TO_LOAD]      # no supervisor runs here
    p.scene = Scene(redis.client())
    p.open()
    wait_for(lambda: p.count(".table-overview tbody tr") == 8)
    return p


def dead_letters(p):
    """The page of dead letters, with the first rows; their ids, newest first."""
    p.go("/dead-letters/mail")
    p.sees("50 of 142", ".tools")
    wait_for(lambda: p.count(".table-dead-letters tbody tr") == 50)
    return p.script("return [...document.querySelectorAll('.table-dead-letters tbody tr')].map(r => r.dataset.key)")


def test_the_first_key_skips_the_bar(desk):
    desk.refresh()
    wait_for(lambda: desk.count(".table-overview tbody tr") == 8)
    desk.keys("TAB")
    assert desk.focus() == "Skip to content"
    assert desk.script("return document.querySelector('.skip').getBoundingClientRect().top") >= 0
    desk.keys("ENTER")
    assert desk.script("return document.activeElement.id") == "main" and desk.script(HASH) in ("", "#/")
    assert desk.text("h1") == "Overview"
    desk.keys("TAB")
    assert desk.script("return document.activeElement.closest('main') !== null")


SEEN = """
const e = document.activeElement, s = getComputedStyle(e), r = e.getBoundingClientRect();
if (!e.mine) e.mine = window.mine = (window.mine ?? 0) + 1;
const at = document.elementFromPoint(r.left + r.width / 2, r.top + r.height / 2);
return [e.mine, s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2, e.outerHTML.slice(0, 200),
    at === null || e.contains(at) || at.contains(e) || e.closest("label")?.contains(at) === true];"""
STOPS = """
return [...document.querySelectorAll("a[href], button:not(:disabled), input:not(:disabled), select:not(:disabled), summary, [tabindex='0']")]
    .filter(e => e.checkVisibility() && (e.type !== "radio" || e.checked)).map(e => e.outerHTML.slice(0, 200))"""


@pytest.mark.parametrize("route", ["/", "/queue/mail/ingress", "/flight", "/dead-letters/mail?class=Rejected", "/nodes", "/health"])
def test_each_thing_is_reached_in_its_order_and_is_seen(desk, route):
    desk.go(route)
    desk.refresh()       # so that the first key begins at the top
    wait_for(lambda: desk.text("#link") == "live" and desk.text("h1") != "" and not any(word in desk.text() for word in ("Looking at", "Reading")))
    stops, reached = desk.script(STOPS), []
    for _ in stops:
        desk.keys("TAB")
        number, visible, html, on_top = desk.script(SEEN)
        assert visible, f"no visible focus: {html}"
        assert on_top, f"covered: {html}"
        reached.append((number, html))
    assert [n for n, _ in reached] == list(range(1, len(stops) + 1))
    assert [html.split(" ")[0] for _, html in reached] == [html.split(" ")[0] for html in stops]


def test_a_dialog_keeps_the_focus_and_gives_it_back(desk, redis):
    first, *_ = dead_letters(desk)
    desk.script("document.querySelector(`button[aria-label='Retry ${arguments[0]}']`).focus()", first)
    desk.keys("ENTER")
    desk.sees("1 dead letter of mail will move back", "dialog")
    assert desk.focus() == "Cancel"
    for key in ["TAB"] * 5 + ["shift+TAB"] * 5:
        desk.keys(key)
        assert desk.script("const e = document.activeElement; return e === document.body || e.closest('dialog') !== null")
    desk.keys("ESCAPE")
    wait_for(lambda: desk.count("dialog") == 0)
    assert desk.focus() == f"Retry {first}"
    assert redis.client().llen("escape:mail") == 142
    desk.keys("?")
    desk.sees("Keyboard shortcuts", "dialog")
    desk.keys("ESCAPE")
    wait_for(lambda: desk.count("dialog") == 0)
    assert desk.focus() == f"Retry {first}"


def test_the_focus_goes_on_where_a_row_left(desk, redis):
    first, second, third, *_ = dead_letters(desk)
    desk.script("document.querySelector(`button[aria-label='Retry ${arguments[0]}']`).focus()", second)
    desk.keys("ENTER")
    desk.sees("will move back", "dialog")
    desk.keys("TAB", "ENTER")
    wait_for(lambda: redis.client().llen("escape:mail") == 141)
    wait_for(lambda: desk.count(f"tr[data-key='{second}']") == 0)
    assert desk.focus() == f"Retry {third}"
    desk.script("document.querySelector('.causes a').focus()")
    desk.keys("ENTER")
    wait_for(lambda: "62 found" in desk.text(".tools"))
    assert desk.script("return document.activeElement === document.querySelector('.causes a[aria-current]')")
    desk.go("/health")
    wait_for(lambda: desk.count(".table-health tbody tr") == 8)
    desk.script("[...document.querySelectorAll('button')].find(b => b.innerText === 'Run doctor').focus()")
    desk.keys("ENTER")
    wait_for(lambda: desk.count(".table-findings tbody tr") > 0)
    wait_for(lambda: desk.focus() == "Run doctor")


def test_rows_by_keys(desk, redis):
    first, second, third, fourth, *_ = dead_letters(desk)
    desk.keys("j")
    assert desk.script(ROW) == first
    desk.keys("j", "j", "k")
    assert desk.script(ROW) == second
    desk.keys("x")
    assert desk.count("tr.marked") == 1
    desk.keys("j", "j", "X")
    assert desk.script("return [...document.querySelectorAll('tr.marked')].map(r => r.dataset.key)") == [second, third, fourth]
    desk.keys("x")
    assert desk.count("tr.marked") == 2 and desk.script(ROW) == fourth
    for _ in range(60):
        desk.keys("j")
    assert desk.script("return document.activeElement.closest('tr') === document.querySelector('.table-dead-letters tbody tr:last-child')")
    assert desk.script("const r = document.activeElement.getBoundingClientRect(); return r.top >= 46 && r.bottom <= innerHeight")
    for _ in range(60):
        desk.keys("k")
    assert desk.script(ROW) == first
    assert desk.script("""const f = document.activeElement, r = f.getBoundingClientRect();
        return f.contains(document.elementFromPoint(r.left + 5, r.top + 5))""")        # not under the bar
    desk.keys("ENTER")
    wait_for(lambda: desk.script(HASH) == f"#/dead-letters/mail/{first}")


def test_pages_by_keys(desk):
    for key, title in (("f", "In flight"), ("d", "Dead letters"), ("w", "Workers and nodes"), ("h", "Health"), ("o", "Overview")):
        desk.keys("g", key)
        wait_for(lambda: desk.text("h1") == title)
    desk.keys("g", "z", "o")
    assert desk.text("h1") == "Overview"
    desk.keys("/")
    assert desk.focus() == "Filter queues"
    desk.keys(*"web", "ESCAPE")
    assert desk.script("return document.querySelector('main input').value") == ""
    desk.keys("ESCAPE")
    assert desk.focus() == ""
    desk.keys("j")
    assert desk.script(ROW) == "search-index"         # the sickest queue is first
    desk.keys("ENTER")
    wait_for(lambda: desk.text("h1") == "search-index")


def test_no_shortcut_while_typing(desk):
    typed = "gfj/?xgok"
    for route, field in (("/", "main input[type=search]"), ("/dead-letters/mail", ".tools input[type=search]"), ("/dead-letters/mail", ".more-filters input")):
        desk.go(route)
        wait_for(lambda: desk.count(field) > 0)
        desk.script("for (const d of document.querySelectorAll('details')) d.open = true")
        before = desk.text("h1")
        desk.script("document.querySelector(arguments[0]).focus()", field)
        desk.keys(*typed)
        assert desk.script("return document.activeElement.value") == typed
        assert desk.text("h1") == before and desk.count("dialog") == 0 and desk.count("tr.marked") == 0
    desk.go("/dead-letters/mail")
    desk.script("document.querySelector('.tools select').focus()")
    desk.keys("g", "f")
    assert desk.text("h1") == "Dead letters"
    desk.script("document.activeElement.blur()")
    desk.keys("control+f", "alt+j")
    assert desk.focus() == ""


def test_help_lists_the_keys_and_turns_them_off(desk):
    desk.keys("?")
    desk.sees("Keyboard shortcuts", "dialog")
    for key in ("/", "j", "k", "x", "g o", "g d", "?"):
        assert key in [k.strip() for k in desk.text("dialog dl").split("\n")]
    desk.keys("g", "d")
    assert desk.script(HASH) in ("", "#/") and desk.count("dialog") == 1
    desk.click("Shortcuts are on", "dialog")
    desk.click("Close", "dialog")
    desk.keys("j", "?", "g", "d")
    assert desk.count("dialog") == 0 and desk.text("h1") == "Overview" and desk.script(ROW) is None
    desk.refresh()
    wait_for(lambda: desk.count(".table-overview tbody tr") == 8)
    desk.keys("j")
    assert desk.script(ROW) is None
    desk.click("Keyboard shortcuts", "header")
    desk.click("Shortcuts are on", "dialog")
    desk.keys("ESCAPE")
    desk.keys("j")
    assert desk.script(ROW) == "search-index"


def test_a_queue_without_a_mouse(desk, redis):
    """From the overview: open a queue, pause it, delete its messages, and look at one."""
    r, q = redis.client(), Queue(redis.client(), "webhooks", register=False)
    desk.keys("/", *"web")
    wait_for(lambda: desk.count(".table-overview tbody tr") == 1)
    desk.keys("shift+TAB")
    desk.script("document.activeElement.blur()")
    desk.keys("j", "ENTER")
    wait_for(lambda: desk.text("h1") == "webhooks")
    wait_for(lambda: desk.count(".table-messages-ingress tbody tr") == 14)
    desk.keys("TAB")
    assert desk.focus() == "Pause"
    desk.keys("ENTER")
    wait_for(lambda: r.exists(q.paused))
    wait_for(lambda: desk.focus() == "Resume")
    desk.keys("j", "ENTER")
    desk.sees("A message of webhooks", "dialog")
    desk.keys("ESCAPE")
    wait_for(lambda: desk.count("dialog") == 0)
    assert desk.script("return document.activeElement.closest('tr') === document.querySelector('.table-messages-ingress tbody tr')")
    desk.script("[...document.querySelectorAll('.list-actions button')].find(b => b.innerText === 'Delete all').focus()")
    desk.keys("ENTER")
    desk.sees("14 messages will be deleted", "dialog")
    desk.keys("TAB", "ENTER")
    desk.sees("This cannot be undone", "dialog")
    assert desk.focus() == "Keep"
    desk.keys("shift+TAB", "ENTER")
    wait_for(lambda: r.llen(q.ingress) == 0)
