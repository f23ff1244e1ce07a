"""Chromium, driven over the pipe of its DevTools: commands and answers are JSON, each with a NUL at its end. A command costs a tenth of what it costs
through chromedriver."""
import collections
import json
import os
import pathlib
import select
import subprocess
import sys
import time

FAMILY = pathlib.Path(__file__).with_name("family.py")
ANSWER_S = 60
# Chromium gets what chromedriver would give it: a page in the background keeps its timers, and Chromium asks no other host and no user.
SWITCHES = ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--window-size=1280,900", "--remote-debugging-pipe",
            "--allow-pre-commit-input", "--disable-background-networking", "--disable-background-timer-throttling",
            "--disable-backgrounding-occluded-windows", "--disable-client-side-phishing-detection", "--disable-component-update", "--disable-default-apps",
            "--disable-hang-monitor", "--disable-popup-blocking", "--disable-prompt-on-repost", "--disable-sync", "--no-first-run",
            "--no-service-autorun", "--password-store=basic", "--use-mock-keychain")


class DevToolsError(RuntimeError):
    """The browser refused a command, a script failed in the page, or the browser ended."""


class DevTools:
    """A browser with one tab. events: (method, parameters) of those that KEPT names, in the order in which the tab sent them."""

    KEPT = ("Log.entryAdded", "Network.requestWillBeSent", "Page.loadEventFired", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")

    def __init__(self, program, directory):
        theirs, self._commands = os.pipe()
        self._answers, ours = os.pipe()
        root = ["--no-sandbox"] if os.getuid() == 0 else []
        self._process = subprocess.Popen(
            [sys.executable, FAMILY, str(theirs), str(ours), program, *SWITCHES, *root, f"--user-data-dir={directory}/profile", "about:blank"],
            pass_fds=(theirs, ours), env={**os.environ, "TMPDIR": str(directory)}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(theirs)
        os.close(ours)
        self._session, self._last, self._bytes, self._ready = None, 0, bytearray(), collections.deque()
        self.events = []
        self._attach()

    @property
    def pid(self):
        return self._process.pid

    def _attach(self):
        """To the tab with which the browser begins; it may have none yet."""
        deadline = time.monotonic() + ANSWER_S
        while not (tabs := [t for t in self.send("Target.getTargets")["targetInfos"] if t["type"] == "page"]):
            if time.monotonic() > deadline:
                raise DevToolsError("the browser opened no tab")
        self._session = self.send("Target.attachToTarget", targetId=tabs[0]["targetId"], flatten=True)["sessionId"]
        self.send_all([(f"{domain}.enable", {}) for domain in ("Page", "Runtime", "Log", "Network")])

    def close(self):
        os.close(self._commands)        # at the end of its input the browser ends
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.terminate()   # family.py ends all of them
            self._process.wait(20)
        os.close(self._answers)

    # ---- commands ----

    def send(self, method, **parameters):
        return self.send_all([(method, parameters)])[0]

    def send_all(self, commands):
        """[(method, parameters)] at once; their results. The browser executes them in this order."""
        numbers = []
        for method, parameters in commands:
            self._last += 1
            numbers.append(self._last)
            command = {"id": self._last, "method": method, "params": parameters, **({"sessionId": self._session} if self._session else {})}
            self._write(json.dumps(command).encode() + b"\0")
        results, deadline = {}, time.monotonic() + ANSWER_S
        while len(results) < len(numbers):
            message = self._next(deadline)
            if message.get("id") in numbers:
                results[message["id"]] = message
        for number, (method, _) in zip(numbers, commands):
            if "error" in results[number]:
                raise DevToolsError(f"{method}: {results[number]['error']['message']}")
        return [results[number]["result"] for number in numbers]

    def wait_event(self, method, since):
        """Until such an event is among those behind the first `since`."""
        deadline = time.monotonic() + ANSWER_S
        while not any(m == method for m, _ in self.events[since:]):
            self._next(deadline)

    def _write(self, data):
        while data:
            data = data[os.write(self._commands, data):]

    def _next(self, deadline):
        """The next message: an answer, or an event, which is noted."""
        while not self._ready:
            if not select.select([self._answers], [], [], max(0, deadline - time.monotonic()))[0]:
                raise DevToolsError(f"the browser did not answer for {ANSWER_S} s")
            data = os.read(self._answers, 1 << 18)
            if not data:
                raise DevToolsError("the browser ended")
            *whole, rest = data.split(b"\0")
            if whole:
                self._ready += [bytes(self._bytes) + whole[0], *whole[1:]]
                self._bytes.clear()
            self._bytes += rest
        message = json.loads(self._ready.popleft())
        if message.get("method") in self.KEPT:
            self.events.append((message["method"], message["params"]))
        return message

    # ---- the tab ----

    def navigate(self, url):
        """Returns when the page has loaded, or at once where only the fragment is another one."""
        since = len(self.events)
        found = self.send("Page.navigate", url=url)
        if "errorText" in found:
            raise DevToolsError(f"{url}: {found['errorText']}")
        if "loaderId" in found:
            self.wait_event("Page.loadEventFired", since)

    def reload(self):
        since = len(self.events)
        self.send("Page.reload")
        self.wait_event("Page.loadEventFired", since)

    def evaluate(self, expression):
        """The value of an expression, as JSON has it; of a promise, what it resolves to."""
        found = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            details = found["exceptionDetails"]
            raise DevToolsError(details.get("exception", {}).get("description") or details["text"])
        return found["result"].get("value")
