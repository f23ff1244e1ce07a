"""The root of the image, and containers that run it."""
import os

import pytest

from harness.containers import why_not
from harness.image import Image, NotHere, Started


@pytest.fixture(scope="session")
def image(tmp_path_factory):
    """Read only: the tests of a process share it."""
    if os.geteuid() != 0 or why_not():
        pytest.skip("needs root and namespaces")
    try:
        return Image(tmp_path_factory.mktemp("image"))
    except NotHere as e:
        pytest.skip(str(e))


@pytest.fixture
def started(image, tmp, tag):
    """Starts containers of the image, which end with the test."""
    found = []

    def start(**options):
        found.append(Started(image, tmp / f"container{len(found)}", tag=tag, **options))
        return found[-1]
    yield start
    for container in found:
        container.close()
        print(f"---- {container.log}\n{container.text()}")
