"""A browser, and the pages of a console in it."""
import pathlib
import shutil
import tempfile

import pytest

from harness.browser import Browser, Page
from harness.console import Console


@pytest.fixture(scope="package")
def browser():
    """One for all files that a process of tests/run works on in a row: a start costs more than most tests."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="qr."))
    b = Browser(directory)
    yield b
    b.close()
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def page(tmp, redis, tag, browser):
    """page(): what somebody sees who opens the console of this Redis."""
    made = []

    def make(server=redis, **conf):
        console = Console(tmp / f"w{len(made)}", server, tag, **conf)
        made.append(Page(browser, console))
        return made[-1]
    yield make
    wrong = []
    for p in made:
        wrong += p.close()
        print(f"---- log of {p.console.dir}\n{p.console.text()}")
        p.console.close()
    assert wrong == []
