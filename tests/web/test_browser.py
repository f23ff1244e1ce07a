"""The browser of these tests (tests/harness/browser.py): it tells what a page does wrong, and clicks as a user does, who sees what moves."""
import os
import signal

import pytest

from harness import browser as browsers
from harness.devtools import DevToolsError

pytestmark = pytest.mark.skipif(browsers.why_not() != "", reason=browsers.why_not())

BUTTONS = """
window.clicks = [];
for (const [name, top] of [["Here", "100px"], ["There", "200px"]]) {
    const button = document.createElement("button");
    button.innerText = name;
    button.addEventListener("click", () => clicks.push(name));
    Object.assign(button.style, { position: "fixed", left: "0", top, width: "90px", height: "40px", zIndex: "99" });
    document.body.append(button);
}"""


@pytest.fixture
def buttons(page):
    p = page().open()
    p.script(BUTTONS)
    return p


def test_what_a_page_does_wrong_is_told(page):
    p = page().open()
    p.forgiven += ["an error that is forgiven"]
    for text in ("an error that is forgiven", "an error that is told"):
        p.script("console.error(arguments[0])", text)
    p.script("setTimeout(() => { throw new Error('nobody catches this') }); fetch('http://127.0.0.2:1/').catch(() => 0)")
    p.script("return fetch('api/v1/nothing').then(() => 0)")
    wrong = p.close()
    for part in ("an error that is told", "nobody catches this", "policy: connect-src http://127.0.0.2:1/", "Failed to load resource"):
        assert any(part in w for w in wrong), (part, wrong)
    assert not any("forgiven" in w for w in wrong)
    p.browser.send("Page.setBypassCSP", enabled=True)
    p.open()
    p.script("return fetch('http://127.0.0.2:1/').catch(() => 0)")
    assert "asked for http://127.0.0.2:1/" in p.close()
    p.browser.send("Page.setBypassCSP", enabled=False)
    p.browser.events.clear()


def test_a_click_on_what_moves_reaches_nothing_else(buttons):
    """The button changes its place with another one when the mouse comes; what lies there then is not clicked, and the click is repeated."""
    buttons.script("""const [here, there] = document.querySelectorAll("body > button");
        addEventListener("mousemove", () => { [here.style.top, there.style.top] = [there.style.top, here.style.top]; }, { once: true });""")
    buttons.click("Here")
    assert buttons.script("return clicks") == ["Here"]


def test_what_something_lies_on_cannot_be_clicked(buttons, monkeypatch):
    buttons.script("document.querySelectorAll('body > button')[1].style.top = '100px'")
    monkeypatch.setattr(browsers, "wait_for", lambda condition, **_: None if condition() else pytest.fail("it cannot be clicked"))
    with pytest.raises(pytest.fail.Exception):
        buttons.click("Here")
    buttons.click("There")
    assert buttons.script("return clicks") == ["There"]


def test_an_error_of_a_script_is_one_of_the_test(buttons):
    with pytest.raises(DevToolsError, match="no such thing"):
        buttons.script("throw new Error('no such thing')")
    with pytest.raises(DevToolsError, match="Nonsense.command"):
        buttons.browser.send("Nonsense.command")
    assert buttons.script("return 1 + arguments[0]", 2) == 3


def test_a_browser_that_ends_is_told(tmp):
    browser = browsers.Browser(tmp)
    os.kill(browser.pid, signal.SIGTERM)
    with pytest.raises((DevToolsError, BrokenPipeError)):
        for _ in range(1000):
            browser.evaluate("1")
    browser.close()
