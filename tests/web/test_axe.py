"""What axe-core finds on the pages: no fault that it calls serious or critical, in light and dark colours, on a screen and on a telephone."""
import os
import pathlib

import pytest

from harness import ROOT, browser as browsers
from harness import wait_for
from harness.scene import Scene

FAILED_TO_LOAD = "Failed to load resource"
PLACES = [str(ROOT / "build/axe/node_modules"), *os.environ.get("NODE_PATH", "").split(":"),
          "/usr/share/nodejs", "/usr/lib/node_modules", "/usr/local/lib/node_modules"]
AXE = next((path for place in PLACES if place and (path := pathlib.Path(place) / "axe-core/axe.min.js").is_file()), None)

pytestmark = [pytest.mark.skipif(browsers.why_not() != "", reason=browsers.why_not()), pytest.mark.skipif(AXE is None, reason="no axe-core (make axe)")]

OF_COLOURS = ["color-contrast", "link-in-text-block"]       # the other rules see the same in light and in dark

# axe does not know that a browser draws a dialog above all else: where the page is grey, it takes the page for what covers the dialog, and judges no
# contrast in it. In dark colours it judges only the first of the rows that differ in nothing but texts and names: a list of dead letters has fifty.
RUN = """
const [options, done] = arguments, kinds = new Set();
for (const dialog of document.querySelectorAll("dialog"))
    dialog.style.zIndex = 99;
const kind = (row) => row.closest("table").className +
    row.outerHTML.replace(/>[^<]+</g, ">text<").replace(/ (title|href|id|data-[a-z]+|aria-label[a-z]*|datetime|for|name)="[^"]*"/g, "");
const exclude = "runOnly" in options ? [...document.querySelectorAll("tbody tr")].filter((row) => kinds.size === kinds.add(kind(row)).size) : [];
axe.run({ include: [document], exclude }, { resultTypes: ["violations"], ...options }).then((found) => done({ rules: found.passes.map((p) => p.id),
    faults: found.violations.flatMap((v) => v.nodes.map((n) => [v.impact, v.id, n.target.join(" "), n.failureSummary])) }), (e) => done(String(e)));"""


def assert_accessible(p, what):
    """In dark colours by the rules of colours, in light ones by all."""
    if not p.script("return 'axe' in window"):
        p.script(AXE.read_text())
    for scheme, options in (("dark", {"runOnly": OF_COLOURS}), ("light", {})):
        p.colours(scheme)
        found = p.awaited(RUN, options)
        assert "color-contrast" in found["rules"], found        # it has looked at something
        assert [f for f in found["faults"] if f[0] in ("serious", "critical")] == [], f"{what}, {scheme}"


def test_all_rules_of_colours_are_known(page, redis):
    """A later axe may have one more."""
    p = page().open()
    p.script(AXE.read_text())
    assert p.script("return axe.getRules(['cat.color']).map(r => r.ruleId).filter(r => !r.endsWith('-enhanced')).sort()") == OF_COLOURS


@pytest.mark.limit(300)
@pytest.mark.parametrize("width, height, is_phone", [(1280, 900, False), (390, 844, True)])
def test_pages_have_no_serious_fault(page, redis_server, width, height, is_phone):
    server = redis_server(aof="always")
    scene = Scene(server.client())
    p = page(server)
    p.size(width, height, phone=is_phone)
    p.open()
    p.forgiven += [FAILED_TO_LOAD]
    records = [f"/mail/{record}" for record in (scene.records[0], scene.records[-5], "1-1")]
    dead_letters = [f"/dead-letters{rest}" for rest in ("", "/mail", "/mail?class=Rejected&text=no", *records)]
    queues = [f"/queue/{rest}" for rest in ("mail", "mail/transit", "mail/delayed", "mail/escape", "mail/done", "nobody")]
    for route in ("/", *queues, "/flight", *dead_letters, "/nodes", "/health", "/nowhere"):
        p.go(route)
        wait_for(lambda: not any(word in p.text() for word in ("Looking at", "Reading", "Checking")))
        assert_accessible(p, route)
    p.keys("?")
    p.sees("Keyboard shortcuts", "dialog")
    assert_accessible(p, "the shortcuts")
    p.keys("ESCAPE")
    p.go("/health")
    p.click("Run doctor")
    wait_for(lambda: p.count(".table-findings tbody tr") > 0)
    assert_accessible(p, "findings of doctor")
    p.go("/dead-letters/mail")
    p.sees("50 of 142", ".tools")
    p.click(f"select {scene.records[-1]}", ".table-dead-letters")
    p.click("Delete 1", ".marks")
    assert_accessible(p, "a question")
    p.click("Delete 1…", "dialog")
    assert_accessible(p, "the second question")
    p.click("Delete 1 permanently", "dialog")
    p.sees("deleted", ".toasts")
    assert_accessible(p, "a toast")
    wait_for(lambda: p.count("tr.marked") == 0, what="the list without the deleted one")
    p.click("Retry all", ".marks")
    assert_accessible(p, "the fields of a pace")
    p.click("Cancel", "dialog")
    p.go("/queue/mail/ingress")
    wait_for(lambda: p.count(".table-messages-ingress tbody button") > 0)
    p.script("document.querySelector('.table-messages-ingress tbody button').click()")
    assert_accessible(p, "a message")
    p.click("Close", "dialog")
    server.stop()
    p.sees("Redis has not answered for", "#away")
    assert_accessible(p, "without Redis")
    p.go("/queue/mail/delayed")
    p.click("Retry all")
    p.sees("Redis has not answered since", "dialog")
    assert_accessible(p, "a question without Redis")
    p.click("Cancel", "dialog")
    server.start()
    wait_for(lambda: p.text("#away") == "")
    p.click("Sign out")
    p.click("Sign out", "dialog")
    p.sees("Sign in to see", "dialog")
    assert_accessible(p, "the dialog to sign in")


def test_a_fault_is_seen(page, redis):
    Scene(redis.client())
    p = page().open()
    wait_for(lambda: p.count(".table-overview tbody tr") == 8)
    p.script("document.querySelector('h1').parentElement.append(Object.assign(document.createElement('img'), { src: 'logo.svg' }))")
    with pytest.raises(AssertionError, match="image-alt"):
        assert_accessible(p, "a picture without a text")
    p.script("document.querySelector('main img').remove()")
    p.script("""const word = Object.assign(document.createElement("p"), { innerText: "a word" });
        word.style.color = "light-dark(black, #333)";
        document.querySelector("main").append(word)""")
    with pytest.raises(AssertionError, match="seen in light colours only, dark(.|\n)*color-contrast"):
        assert_accessible(p, "a word that is seen in light colours only")
