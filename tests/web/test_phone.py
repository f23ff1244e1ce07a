"""The pages on a telephone, 390 pixels wide: nothing overlaps, nothing is cut off, and a finger can press everything."""
import pytest

from harness import browser as browsers
from harness import wait_for
from harness.queues import Queue
from harness.scene import PAUSED, Scene

pytestmark = pytest.mark.skipif(browsers.why_not() != "", reason=browsers.why_not())

FAILED_TO_LOAD = "Failed to load resource"
WIDTH, HEIGHT = 390, 844
LISTS = ("ingress", "transit", "delayed", "escape", "done")

# Elements with text that leave the screen or their own box, or lie on another one of the same parent.
MISPLACED = """
const shown = (e) => e.checkVisibility() && !e.closest(".hidden, .skip, svg, thead") && getComputedStyle(e).clipPath === "none";
const name = (e) => `${e.tagName}.${e.className} ${e.innerText.slice(0, 60)}`;
const leaves = [...document.querySelectorAll("body *")].filter(e => shown(e) && e.children.length === 0 && e.textContent.trim() !== "");
const off = (r) => r.right > innerWidth + 0.5 || r.left < -0.5;
const wrong = leaves.filter(e => off(e.getBoundingClientRect())).map(e => "off the screen: " + name(e));
const cut = (e) => getComputedStyle(e).overflowX !== "visible" && e.scrollWidth > e.clientWidth + 1 && !e.closest("dialog pre");
const boxes = [...document.querySelectorAll("main *, dialog *")].filter(e => shown(e) && !e.matches("input, select"));
wrong.push(...boxes.filter(cut).map(e => "cut off: " + name(e)));
for (const cells of document.querySelectorAll(".figures, .table tbody tr, .title, .viewer-head, .bar nav, .bar, .buttons")) {
    const rects = [...cells.children].filter(shown).map(e => {
        const range = document.createRange();
        range.selectNodeContents(e);
        return [e, range.getBoundingClientRect()];
    }).filter(([, r]) => r.width > 0);
    const meet = (r, o) => r.right > o.left + 1 && o.right > r.left + 1 && r.bottom > o.top + 1 && o.bottom > r.top + 1;
    rects.forEach(([e, r], i) => rects.slice(i + 1).filter(([, o]) => meet(r, o)).forEach(([o]) => wrong.push(`overlap: ${name(e)} / ${name(o)}`)));
}
return wrong;"""

# What can be pressed is 44 pixels high, but for links within a sentence.
SMALL = """
const target = (e) => (e.matches("input[type=checkbox]") ? e.labels[0] : e).getBoundingClientRect();
const shown = (e) => e.checkVisibility() && !e.closest(".skip, p:not(.crumbs), .hidden, caption");
return [...document.querySelectorAll("button, a, input, select, summary")].filter(shown)
    .filter(e => target(e).height < 43.5).map(e => `${target(e).height} px: ${e.outerHTML.slice(0, 160)}`);"""


@pytest.fixture
def phone(page, redis):
    scene = Scene(redis.client())
    p = page()
    p.size(WIDTH, HEIGHT, phone=True)
    p.open()
    p.forgiven += [FAILED_TO_LOAD]      # no supervisor runs here
    p.scene = scene
    return p


def complete(p):
    wait_for(lambda: not any(word in p.text() for word in ("Looking at", "Reading", "Checking")), what="a page without a wait")


def assert_fits(p, what):
    wait_for(lambda: p.script("return document.documentElement.scrollWidth") == p.script("return innerWidth"), what=f"{what} as wide as the screen")
    assert p.script(MISPLACED) == [], what
    assert p.script(SMALL) == [], what


@pytest.mark.parametrize("width", [WIDTH, 320])
def test_pages_fit_and_can_be_pressed(phone, width):
    phone.size(width, HEIGHT, phone=True)
    routes = ["/", *(f"/queue/mail/{name}" for name in LISTS), f"/queue/{PAUSED}", "/flight", "/dead-letters", "/dead-letters/mail",
              "/dead-letters/mail?class=Rejected&text=no",
              f"/dead-letters/mail/{phone.scene.records[0]}", "/nodes", "/health", "/nowhere"]
    for route in routes:
        phone.go(route)
        complete(phone)
        assert_fits(phone, (route, width))
    phone.go("/health")
    phone.click("Run doctor")
    wait_for(lambda: phone.count(".table-findings tbody tr") > 0)
    assert_fits(phone, ("doctor", width))



def test_a_queue_is_one_line_with_its_health_first(phone):
    """All queues of a small site are on one screen; the page of a queue has the other figures."""
    wait_for(lambda: phone.count(".table-overview tbody tr") == 8)
    label = "return getComputedStyle(document.querySelector(`.table-overview tr[data-key=mail] td:nth-child(${arguments[0]})`), '::before').content"
    assert [phone.script(label, n) for n in (3, 6)] == ['"Waiting"', '"Dead letters"']
    rows = phone.script("""return [...document.querySelectorAll('.table-overview tbody tr')].map(tr => {
        const r = tr.getBoundingClientRect(), cells = [...tr.children].filter(e => e.checkVisibility());
        const first = cells.sort((a, b) => a.getBoundingClientRect().left - b.getBoundingClientRect().left)[0];
        return [tr.dataset.key, r.height, r.left >= 0 && r.right <= innerWidth, first.className]; })""")
    assert all(fits and first.startswith("health") for _, _, fits, first in rows), rows
    assert all(height <= 60 for name, height, *_ in rows if len(name) < 16), rows
    words = phone.script("return [...document.querySelectorAll('.table-overview td.health')].map(e => e.textContent)")
    assert len(words) == 8 and any("healthy" in w for w in words), words         # a reader of the screen still hears it
    phone.click("Waiting", ".table-overview thead")
    wait_for(lambda: phone.rows(".table-overview")[0][0] == "search-index")
    roles = phone.script("return [...document.querySelectorAll('.table-overview, .table-overview *')].map(e => e.getAttribute('role'))")
    assert [roles.count(role) for role in ("table", "row", "cell", "rowheader", "columnheader")] == [1, 9, 80, 8, 11]


def test_actions_with_a_finger(phone, redis):
    r, q = redis.client(), Queue(redis.client(), "mail", register=False)
    first, second = phone.scene.records[-1], phone.scene.records[-2]
    phone.go("/dead-letters/mail")
    phone.sees("50 of 142 dead letters")
    phone.click(f"Retry {first}")
    phone.sees("1 dead letter of mail will move back", "dialog")
    assert_fits(phone, "the question")
    assert phone.script("""const r = document.querySelector('dialog').getBoundingClientRect();
        return r.left >= 0 && r.right <= innerWidth && r.top >= 0 && r.bottom <= innerHeight""")
    phone.click("Retry 1", "dialog")
    wait_for(lambda: r.llen(q.escape) == 141)
    phone.sees("141 dead letters", ".tools")
    phone.click(f"select {second}", ".table-dead-letters")
    phone.click("Delete 1", ".marks")
    phone.click("Delete 1…", "dialog")
    phone.sees("This cannot be undone", "dialog")
    assert_fits(phone, "the second question")
    phone.click("Delete 1 permanently", "dialog")
    wait_for(lambda: r.llen(q.escape) == 140)
    phone.go("/queue/mail/ingress")
    phone.click("Pause")
    wait_for(lambda: r.exists(q.paused))
    phone.script("document.querySelector('.table-messages-ingress tbody button').click()")
    phone.sees("A message of mail", "dialog")
    assert_fits(phone, "a message")
    phone.click("Close", "dialog")
    phone.click("Sign out")
    phone.click("Sign out", "dialog")
    phone.sees("Sign in to see", "dialog")
    assert_fits(phone, "the dialog to sign in")
