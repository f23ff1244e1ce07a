"""The pictures of the pages in docs/: each page in light and dark, on a screen and on a telephone. `make pictures` writes them, else they are tried."""
import base64
import os
import pathlib
import re
import struct
import subprocess

import pytest

from harness import ROOT, browser as browsers
from harness import wait_for
from harness.scene import Scene, Supervisor

PICTURES = os.environ.get("QUREDIS_TEST_PICTURES")
BYTES = 80000       # a picture with a palette needs less
SIZES = {"": (1280, 800), "-phone": (390, 844)}
SCHEMES = {"": "light", "-dark": "dark"}

# name: (address, what is there when it is complete)
PAGES = {
    "overview": ("/", {".table-overview tbody tr": 8, ".problems li": 3}),
    "queue": ("/queue/mail", {".table-messages-ingress tbody tr": 12, ".chart svg": 1}),
    "flight": ("/flight", {".table-flight tbody tr": 3}),
    "dead-letters": ("/dead-letters/mail", {".table-dead-letters tbody tr": 50, ".causes li": 4}),
    "record": ("/dead-letters/mail/RECORD", {".viewer": 2}),
    "workers": ("/nodes", {".table-nodes tbody tr": 2, ".table-workers tbody tr": 4, ".table-served tbody tr": 16}),
    "health": ("/health", {".table-health tbody tr": 8}),
}


@pytest.fixture
def supervisor(tmp):
    """Of this host. It ends after the page, which asks it every two seconds."""
    s = Supervisor(tmp / "control")
    yield tmp / "control"
    s.close()


@pytest.fixture
def drawn_page(supervisor, page, redis):
    scene = Scene(redis.client())
    p = page(supervisor={"control_socket": str(supervisor), "node": "web1"})
    p.scene = scene
    return p.open()


def complete(p, name, wanted):
    p.scene.report()
    wait_for(lambda: p.text("#link") == "live")
    for selector, n in wanted.items():
        wait_for(lambda: p.count(selector) >= n, what=f"{n} times {selector} on the page {name}")


def draw(p, size):
    """The window as a PNG."""
    p.script("document.activeElement.blur(); scrollTo(0, 0)")
    assert p.script("return document.documentElement.scrollWidth") <= size[0], "the page scrolls horizontally"
    png = base64.b64decode(p.browser.send("Page.captureScreenshot", format="png")["data"])
    assert struct.unpack(">II", png[16:24]) == size
    return png


def keep(png, name):
    small = subprocess.run(["pngquant", "--strip", "--speed", "1", "96", "-"], input=png, stdout=subprocess.PIPE, check=True, timeout=60).stdout
    assert len(small) < BYTES, f"{name}: {len(small)} bytes"
    (pathlib.Path(PICTURES) / name).write_bytes(small)


@pytest.mark.skipif(browsers.why_not() != "", reason=browsers.why_not())
@pytest.mark.parametrize("size", SIZES.values(), ids=("screen", "phone"))
def test_each_page_is_drawn_without_an_error(drawn_page, size):
    """An error in the log of the browser fails the test, too (conftest.py)."""
    p = drawn_page
    device = next(word for word, wanted in SIZES.items() if wanted == size)
    p.size(*size, phone=device == "-phone")
    for word, scheme in SCHEMES.items():
        p.colours(scheme)
        p.refresh()          # a page that was open for longer sees that nothing was done meanwhile
        for name, (route, wanted) in PAGES.items():
            p.go(route.replace("RECORD", p.scene.records[3]))
            complete(p, name, wanted)
            png = draw(p, size)
            if PICTURES:
                keep(png, f"console-{name}{device}{word}.png")


def test_the_pictures_of_the_documents_are_these():
    """Each has a palette, so that it is small."""
    names = {f"console-{page}{device}{scheme}.png" for page in PAGES for device in SIZES for scheme in SCHEMES}
    assert {path.name for path in (ROOT / "docs").glob("console*.png")} == names
    shown = set(re.findall(r"console-[\w-]+\.png", (ROOT / "docs/console.md").read_text()))
    assert shown == names
    for name in names:
        png = (ROOT / "docs" / name).read_bytes()
        assert struct.unpack(">II", png[16:24]) == SIZES["-phone" if "-phone" in name else ""] and png[25] == 3 and len(png) < BYTES, name
