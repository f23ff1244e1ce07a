"""A browser for the pages of the console: one Chromium for all tests of a process, and what it said in each."""
import json
import shutil

from .devtools import DevTools
from .processes import lasting
from .waiting import wait_for

# The first that is installed is taken: the shell draws the same pages with less work.
BROWSERS = ("chromium-headless-shell", "chromium")

# Seen before any script of the page: what the policy forbade, and what nobody caught.
_WATCH = """
window.seen = [];
addEventListener("securitypolicyviolation", (e) => seen.push("policy: " + e.violatedDirective + " " + e.blockedURI + " " + e.sourceFile + ":" + e.lineNumber));
addEventListener("error", (e) => seen.push("error: " + e.message));
addEventListener("unhandledrejection", (e) => seen.push("rejected: " + e.reason));
"""

# Where to click on what has this name: in the middle of its first line; null: nothing has it, or something else lies on it. A user scrolls it into sight
# first. The page may change before the mouse is there: then the click reaches nothing, and window.aim says so.
_AIM = """
const [inside, name, nth] = arguments, named = (e) => (e.getAttribute("aria-label") ?? e.innerText).trim() === name;
const found = [...document.querySelectorAll(inside)].flatMap(e => [...e.querySelectorAll("button, a, input, label")])
    .filter(e => named(e) && !e.disabled && e.checkVisibility())[nth];
const middle = () => { const r = found.getClientRects()[0]; return r && [r.left + r.width / 2, r.top + r.height / 2]; };
const is_on_top = (at) => at && found.contains(document.elementFromPoint(...at));
if (!found)
    return null;
if (!is_on_top(middle()))
    found.scrollIntoView({ block: "center", behavior: "instant" });
if (!is_on_top(middle()))
    return null;
const end = new AbortController(), aim = window.aim = { end, hit: null };
for (const type of ["pointerdown", "mousedown", "pointerup", "mouseup", "click"])
    addEventListener(type, (e) => {
        aim.hit ??= found.contains(e.target);
        if (!aim.hit) {
            e.stopImmediatePropagation();
            e.preventDefault();
        }
    }, { capture: true, signal: end.signal });
return middle();"""
_HIT = "if (!window.aim) return true; window.aim.end.abort(); return window.aim.hit === true;"      # without it the click has opened another document

_HELD = {"shift": ("Shift", 16, 8), "control": ("Control", 17, 2), "alt": ("Alt", 18, 1)}       # name: (key, code of Windows, bit)
_NAMED = {"TAB": ("Tab", 9, ""), "ENTER": ("Enter", 13, "\r"), "ESCAPE": ("Escape", 27, ""), "RIGHT": ("ArrowRight", 39, "")}
_SHIFTED = set("?ABCDEFGHIJKLMNOPQRSTUVWXYZ")


def program():
    return next(filter(shutil.which, BROWSERS), None)


def why_not():
    """Why there is no browser here; "": there is one."""
    return "" if program() else "no chromium"


class Browser(DevTools):
    def __init__(self, directory):
        super().__init__(shutil.which(program()), directory)
        lasting.add(self.pid)
        self.send("Page.addScriptToEvaluateOnNewDocument", source=_WATCH)


def _key_events(key):
    """Of a character, or of a name such as TAB or shift+TAB."""
    *held, last = key.split("+") if len(key) > 1 else (key,)
    held = [_HELD[h] for h in held]
    bits = sum(bit for _, _, bit in held) | (8 if last in _SHIFTED else 0)
    name, code, text = _NAMED[last] if len(last) > 1 else (last, ord(last.upper()) if last.isalnum() or last == " " else 0, last)
    text = "" if bits & 3 else text         # with control or alt it writes nothing
    down = {"type": "keyDown" if text else "rawKeyDown", **({"text": text, "unmodifiedText": text} if text else {})}
    pressed = [(k, c, {"type": "rawKeyDown"}) for k, c, _ in held] + [(name, code, down)]
    pressed += [(k, c, {"type": "keyUp"}) for k, c, *_ in [(name, code), *held[::-1]]]
    return [("Input.dispatchKeyEvent", {"key": k, "windowsVirtualKeyCode": c, "modifiers": bits, **rest}) for k, c, rest in pressed]


class Page:
    """A page of a console, as a user sees it."""

    def __init__(self, browser, console):
        self.browser, self.console = browser, console
        self.base = f"http://{console.host}:{console.port}/"
        self.signed_in = False
        self.forgiven = []          # parts of console messages that the test brings about
        browser.navigate("about:blank")
        browser.events.clear()
        self.size(1280, 900)
        self.colours("light")

    def size(self, width, height, phone=False):
        """phone: with touch, and a page that is wider than the screen makes the browser zoom out."""
        self.browser.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        self.browser.send("Emulation.setTouchEmulationEnabled", enabled=phone)

    def colours(self, scheme):
        """light or dark, as the user prefers, who also wants no motion: each picture of a transition costs as much as the page."""
        features = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
        self.browser.send("Emulation.setEmulatedMedia", features=[{"name": n, "value": v} for n, v in features.items()])

    def open(self, route="/", sign_in=True):
        """Opens a page, signed in with a code, or as a visitor without one."""
        if sign_in and not self.signed_in:
            self.get(f"{self.base}#code={self.console.new_code()}")
            wait_for(lambda: self.script("return localStorage.getItem('quredis-session')"), what="the session")
            self.signed_in = True
        else:
            self.get(self.base)
        self.go(route)
        return self

    def get(self, url):
        self.browser.navigate(url)

    def refresh(self):
        self.browser.reload()

    def go(self, route):
        """Returns when the page has changed, not when it has read what it shows: until then a test would look at the page before."""
        self.awaited("""
            const [hash, done] = arguments, before = location.href;
            location.hash = hash;
            if (location.href === before)
                done();
            else
                addEventListener("hashchange", () => setTimeout(done), { once: true });""", f"#{route}")

    def script(self, source, *arguments):
        return self.browser.evaluate(f"(function() {{{source}\n}})(...{json.dumps(arguments)})")

    def awaited(self, source, *arguments):
        """What the script gives to its last argument, a function."""
        return self.browser.evaluate(f"new Promise((done) => (function() {{{source}\n}})(...{json.dumps(arguments)}, done))")

    def text(self, selector="main"):
        return self.script("return [...document.querySelectorAll(arguments[0])].map(e => e.innerText).join('\\n')", selector)

    def rows(self, table="table"):
        """Each row of a table as the texts of its cells."""
        return self.script("return [...document.querySelectorAll(arguments[0] + ' tbody tr')].map(r => [...r.children].map(c => c.innerText))", table)

    def sees(self, text, selector="main", timeout=20):
        try:
            wait_for(lambda: text in self.text(selector), timeout)
        except AssertionError:
            raise AssertionError(f"{text!r} is not in {selector}:\n{self.text(selector)}") from None

    def count(self, selector):
        return self.script("return document.querySelectorAll(arguments[0]).length", selector)

    def click(self, name, inside="body", nth=0):
        """As a mouse does, on what bears that name: its text or its label."""
        wait_for(lambda: self._clicked(inside, name, nth), what=f"something called {name} in {inside} that can be clicked")

    def _clicked(self, *what):
        at = self.script(_AIM, *what)
        if at is None:
            return False
        place, button = {"x": at[0], "y": at[1]}, {"button": "left", "clickCount": 1}
        self.browser.send_all([("Input.dispatchMouseEvent", {**place, **event}) for event in (
            {"type": "mouseMoved"}, {"type": "mousePressed", "buttons": 1, **button}, {"type": "mouseReleased", **button})])
        return self.script(_HIT)

    def type(self, text, selector):
        self.script("document.querySelector(arguments[0]).focus()", selector)
        self.keys(*text)

    def keys(self, *keys):
        """Presses keys one after the other, wherever the focus is: characters, or names such as TAB, ENTER, ESCAPE, RIGHT, shift+TAB."""
        for key in keys:
            self.browser.send_all(_key_events(key))

    def focus(self):
        """What has the focus, as its label or text; "": nothing has."""
        return self.script("""const e = document.activeElement;
            return e === document.body ? '' : (e.getAttribute('aria-label') ?? e.placeholder ?? e.innerText).trim() || e.id""")

    def close(self):
        """Closes the page and returns its errors: no page may log an error, break the content policy, or load from another host."""
        wrong = self.script("return window.seen ?? []")
        wrong += [said for method, parameters in self.browser.events if (said := self._wrong(method, parameters))]
        self.get("about:blank")
        return wrong

    def _wrong(self, method, parameters):
        """What an event of the browser tells against the page; "": nothing."""
        if method == "Network.requestWillBeSent":
            url = parameters["request"]["url"]
            return "" if url.startswith((self.base, "data:", "about:")) else f"asked for {url}"
        if method == "Runtime.exceptionThrown":
            said = parameters["exceptionDetails"].get("exception", {}).get("description") or parameters["exceptionDetails"]["text"]
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            said = f"{parameters['entry'].get('url', '')} {parameters['entry']['text']}"
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            said = " ".join(str(a.get("value", a.get("description", ""))) for a in parameters["args"])
        else:
            return ""
        return "" if any(f in said for f in self.forgiven) else said
