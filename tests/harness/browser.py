"""A browser for the pages of the console: one Chromium for all tests of a process, and what it said in each."""
import json
import os
import pathlib
import shutil
import sys

from .names import why_no_localhost
from .processes import lasting
from .waiting import wait_for

try:
    from selenium import webdriver
    from selenium.common.exceptions import ElementClickInterceptedException, StaleElementReferenceException
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys
except ImportError:
    webdriver = None

FAMILY = pathlib.Path(__file__).with_name("family.py")
# Program -> what chromedriver calls it. The first that is installed is taken: the shell draws the same pages with less work.
BROWSERS = {"chromium-headless-shell": "chrome-headless-shell", "chromium": "chrome"}

# Seen before any script of the page: what the policy forbade, and what nobody caught.
_WATCH = """
window.seen = [];
addEventListener("securitypolicyviolation", (e) => seen.push("policy: " + e.violatedDirective + " " + e.blockedURI + " " + e.sourceFile + ":" + e.lineNumber));
addEventListener("error", (e) => seen.push("error: " + e.message));
addEventListener("unhandledrejection", (e) => seen.push("rejected: " + e.reason));
"""


def program():
    return next(filter(shutil.which, BROWSERS), None)


def why_not():
    """Why there is no browser here; "": there is one."""
    needed = {"chromium": program(), "chromedriver": shutil.which("chromedriver"), "python3-selenium": webdriver}
    missing = [name for name, found in needed.items() if not found]
    return f"no {', '.join(missing)}" if missing else why_no_localhost()        # chromedriver asks for it


class Browser:
    def __init__(self, directory):
        driver = directory / "driver"
        driver.write_text(f'#!/bin/sh\nexport TMPDIR={directory}\nexec {sys.executable} {FAMILY} {shutil.which("chromedriver")} "$@"\n')
        driver.chmod(0o755)
        options = Options()
        options.binary_location = shutil.which(program())
        options.set_capability("browserName", BROWSERS[program()])
        for argument in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--window-size=1280,900",
                         f"--user-data-dir={directory}/profile", *(["--no-sandbox"] if os.getuid() == 0 else [])):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        service = Service(str(driver))
        self.driver = webdriver.Chrome(service=service, options=options)
        lasting.add(service.process.pid)
        self.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": _WATCH})

    def close(self):
        self.driver.quit()


class Page:
    """A page of a console, as a user sees it."""

    def __init__(self, browser, console):
        self.driver, self.console = browser.driver, console
        self.base = f"http://{console.host}:{console.port}/"
        self.signed_in = False
        self.forgiven = []          # parts of console messages that the test brings about
        self.driver.get("about:blank")
        self.driver.get_log("browser"), self.driver.get_log("performance")
        self.size(1280, 900)
        self.colours("light")

    def size(self, width, height, phone=False):
        """phone: with touch, and a page that is wider than the screen makes the browser zoom out."""
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone})
        self.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": phone})

    def colours(self, scheme):
        """light or dark, as the user prefers."""
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})

    def open(self, route="/", sign_in=True):
        """Opens a page, signed in with a code, or as a visitor without one."""
        if sign_in and not self.signed_in:
            self.driver.get(f"{self.base}#code={self.console.new_code()}")
            wait_for(lambda: self.script("return localStorage.getItem('quredis-session')"), what="the session")
            self.signed_in = True
        else:
            self.driver.get(self.base)
        self.go(route)
        return self

    def go(self, route):
        """Returns when the page has changed, not when it has read what it shows: until then a test would look at the page before."""
        self.driver.execute_async_script("""
            const [hash, done] = arguments, before = location.href;
            location.hash = hash;
            if (location.href === before)
                done();
            else
                addEventListener("hashchange", () => setTimeout(done), { once: true });""", f"#{route}")

    def script(self, source, *arguments):
        return self.driver.execute_script(source, *arguments)

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
        find = """
            const named = (e) => (e.getAttribute("aria-label") ?? e.innerText).trim() === arguments[1];
            return [...document.querySelectorAll(arguments[0])].flatMap(e => [...e.querySelectorAll("button, a, input, label")])
                .filter(e => named(e) && !e.disabled && e.checkVisibility())[arguments[2]]"""

        def clicked():
            found = self.script(find, inside, name, nth)
            if not found:
                return False
            try:
                found.click()
            except ElementClickInterceptedException:        # a dialog is still closing, or the driver has scrolled it under the bar: a user scrolls on
                self.script("arguments[0].scrollIntoView({ block: 'center' })", found)
                return False
            except StaleElementReferenceException:          # the page was drawn anew
                return False
            return True
        wait_for(clicked, what=f"something called {name} in {inside} that can be clicked")

    def type(self, text, selector):
        self.script("document.querySelector(arguments[0]).focus()", selector)
        self.driver.switch_to.active_element.send_keys(text)

    def keys(self, *keys):
        """Presses keys one after the other, wherever the focus is: characters, or names such as TAB, ENTER, ESCAPE, shift+TAB."""
        for key in keys:
            *held, last = key.split("+") if len(key) > 1 else (key,)
            actions = ActionChains(self.driver)
            for h in held:
                actions.key_down(getattr(Keys, h.upper()))
            actions.send_keys(getattr(Keys, last) if len(last) > 1 else last)
            for h in held:
                actions.key_up(getattr(Keys, h.upper()))
            actions.perform()

    def focus(self):
        """What has the focus, as its label or text; "": nothing has."""
        return self.script("""const e = document.activeElement;
            return e === document.body ? '' : (e.getAttribute('aria-label') ?? e.placeholder ?? e.innerText).trim() || e.id""")

    def close(self):
        """Closes the page and returns its errors: no page may log an error, break the content policy, or load from another host."""
        wrong = self.script("return window.seen ?? []")
        wrong += [m["message"] for m in self.driver.get_log("browser")
                  if m["level"] in ("SEVERE", "WARNING") and not any(f in m["message"] for f in self.forgiven)]
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            url = message["params"].get("request", {}).get("url", "") if message["method"] == "Network.requestWillBeSent" else ""
            if url and not url.startswith((self.base, "data:", "about:")):
                wrong.append(f"asked for {url}")
        self.driver.get("about:blank")
        return wrong
