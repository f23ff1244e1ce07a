"""The pages with names and texts as long as they can be: nothing leaves the screen, lies on something else, or is squeezed until it cannot be read."""
import json

import pytest

from harness import browser as browsers
from harness import wait_for
from harness.queues import incarnation, Queue
from harness.scene import Scene

from .actions import FAILED_TO_LOAD

pytestmark = pytest.mark.skipif(browsers.why_not() != "", reason=browsers.why_not())

NAME = "payments-" + "settlement-reconciliation-" * 7 + "of-a-day"
WORDS = "exit status 75: " + "the connection to the database db-primary-17.internal.example.org:5432 was lost while it read the answer; " * 6 + "the end"
ADDRESS = "https://example.org/" + "x" * 400
HOST = "web1.a-rather-long-host-name.internal.example.org"

# Texts on one another, and texts in a column so narrow that their words are broken.
UNREADABLE = """
const shown = (e) => e.checkVisibility() && !e.closest(".hidden, .skip") && getComputedStyle(e.closest("thead") ?? e).clipPath === "none";
const on = (e, o) => { const a = e.getBoundingClientRect(), b = o.getBoundingClientRect();
    return a.right > b.left + 1 && b.right > a.left + 1 && a.bottom > b.top + 1 && b.bottom > a.top + 1; };
const wrong = [];
for (const table of document.querySelectorAll(".table")) {
    const heads = [...table.querySelectorAll("thead th")].filter(shown), rows = [...table.querySelectorAll("tbody tr")].filter(shown).slice(0, 3);
    wrong.push(...heads.filter(h => rows.some(r => on(h, r))).map(h => "on a row: " + h.innerText));
}
const lines = (e) => { const r = document.createRange(); r.selectNodeContents(e); return new Set([...r.getClientRects()].map(c => Math.round(c.top))).size; };
const narrow = (e) => e.getBoundingClientRect().width < 80 && lines(e) > Math.max(2, e.innerText.length / 8);
wrong.push(...[...document.querySelectorAll("main td, main th, main .class, main .said")].filter(shown).filter(narrow).map(e => "squeezed: " + e.innerText));
return wrong;"""


@pytest.fixture
def long(redis):
    """A queue of which everything is long. Its record ids."""
    c = redis.client()
    scene = Scene(c)
    q = Queue(c, NAME)
    c.lpush(q.ingress, json.dumps({"text": ADDRESS}), ADDRESS)
    c.zadd(q.delayed, {f"quredis/1 id={'i' * 120}\n{ADDRESS}": 9e15})
    q.worker(incarnation(1, HOST), t0=[ADDRESS.encode()])
    ids = q.dead_letters(ADDRESS.encode(), error_message=WORDS, stderr=WORDS, handler="/usr/lib/" + "h" * 200, worker=f"{NAME}/0", node=HOST)
    ids += q.dead_letters(b"b", error_message=ADDRESS, error_class="Class" + "C" * 80)
    health = json.loads(c.hget("quredis:health", "search-index"))
    reasons = [{"code": "error", "status": "unhealthy", "value": 1, "limit": 1, "text": text} for text in (WORDS, ADDRESS)]
    c.hset("quredis:health", NAME, json.dumps({**health, "queue": NAME, "reasons": reasons}))
    node = json.loads(c.get("quredis:node:web1"))
    node["queues"].append({"name": NAME, "state": "error", "wanted": 2, "workers": {"idle": 1, "running": 1}, "restarts": 3, "breaker": True, "reason": WORDS,
                           "memory": {"workers": 1, "handlers": 2}})
    node["running"].append({"queue": NAME, "incarnation": incarnation(1, HOST), "running_ms": 99000, "progress": {"percent": 40, "text": "p" * 80}})
    c.set("quredis:node:web1", json.dumps(node))
    assert scene.queues
    return ids


@pytest.mark.limit(200)
@pytest.mark.parametrize("width, height, is_phone", [(1280, 900, False), (390, 844, True)])
def test_long_names_and_texts(page, long, width, height, is_phone):
    p = page()
    p.forgiven += [FAILED_TO_LOAD]          # no supervisor runs here
    p.size(width, height, phone=is_phone)
    p.open()
    for route in ("/", f"/queue/{NAME}", f"/queue/{NAME}/transit", f"/queue/{NAME}/delayed", f"/queue/{NAME}/escape", "/flight",
                  "/dead-letters", f"/dead-letters/{NAME}",
                  *(f"/dead-letters/{NAME}/{record}" for record in long), "/nodes", "/health"):
        p.go(route)
        p.sees(NAME if route != "/nodes" else "web1")
        wait_for(lambda: not any(word in p.text() for word in ("Looking at", "Reading")), what=f"a page without a wait: {route}")
        for scheme in ("light", "dark"):
            p.colours(scheme)
            assert p.script("return document.documentElement.scrollWidth") == width, route
            assert p.script(UNREADABLE) == [], route
    p.go(f"/dead-letters/{NAME}/{long[0]}")
    p.sees("the end", ".said-large")        # of the error: here is the place for all of it
    p.sees(f"{NAME}/0", ".facts")
    p.sees("duration\n12 ms", ".facts")


def test_more_queues_with_dead_letters_than_fit(page, redis):
    """The list of queues scrolls, and its last visible row is cut, so that it is seen to go on."""
    for i in range(100):
        Queue(redis.client(), f"service-{i:03}").dead_letters(b"x")
    p = page().open("/dead-letters")
    p.sees("service-099")
    assert p.script("""const end = document.querySelector(".choice").getBoundingClientRect().bottom;
        return [...document.querySelectorAll(".choice a")].map(a => a.getBoundingClientRect()).some(r => r.top < end - 4 && r.bottom > end + 4)""")


def test_figures_and_charts_at_each_width(page, redis):
    """No figure is wider than its box, the plots of charts in a row begin at the same height, and on a telephone a sign stands beside its queue."""
    Scene(redis.client())
    p = page()
    p.forgiven += [FAILED_TO_LOAD]          # no supervisor runs here
    p.open("/queue/mail")
    p.sees("14 min 20 s", ".figures")
    wait_for(lambda: p.count(".chart .plot") == 3)
    wide = """return [...document.querySelectorAll(".figures .value")].map(v => [v, document.createRange()]).filter(([v, r]) => {
        r.selectNodeContents(v);
        return r.getBoundingClientRect().right > v.closest("li").getBoundingClientRect().right; }).map(([v]) => v.innerText)"""
    for width in (1280, 1100, 860, 390, 320):
        p.size(width, 800)
        assert p.script(wide) == [], width
    p.size(1280, 800)
    tops = "return [...document.querySelectorAll('.chart .plot')].map(e => Math.round(e.getBoundingClientRect().top))"
    wait_for(lambda: len({*p.script(tops)}) == 1, what="plots at the same height")
    p.size(390, 844, phone=True)
    p.go("/")
    wait_for(lambda: p.count(".problems li") == 3)
    middles = """return [...document.querySelectorAll(".problems li")].map(li => ["svg", "a"].map(tag => {
        const r = li.querySelector(tag).getBoundingClientRect();
        return (r.top + r.bottom) / 2; }))"""
    assert all(abs(sign - name) < 4 for sign, name in p.script(middles))


@pytest.mark.parametrize("width", [1280, 390])
def test_a_problem_of_several_queues(page, redis, width):
    """What it is stands directly behind the names of the queues, or below them."""
    c = redis.client()
    for i in range(6):
        c.lpush(Queue(c, f"tenant-{i}-outgoing-mail-of-the-night").ingress, "x")
    p = page()
    p.size(width, 844, phone=width < 640)
    p.open()
    p.sees("and 2 more", ".problems")
    assert p.script("""const li = document.querySelector(".problems li"), names = li.querySelector(".names").getBoundingClientRect();
        const text = li.lastElementChild.getBoundingClientRect(), last = document.createRange();
        last.selectNodeContents(li.querySelector(".names"));
        const end = Math.max(...[...last.getClientRects()].map(r => r.right));
        return text.top >= names.bottom - 1 && Math.abs(text.left - names.left) < 2 || Math.abs(text.left - end) < 20""")
    assert p.script("return document.documentElement.scrollWidth") == width
