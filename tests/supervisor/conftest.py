"""A queue whose handler says READY, and orders that are under way meanwhile."""
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness import queue, wait_for

from .renewals import LOADS, Versions


@pytest.fixture
def versions(tmp):
    v = Versions(tmp)
    v.set("v1")
    return v


@pytest.fixture
def renewing(quredisd, handler, versions):
    def start(workers=1, **more):
        d = quredisd(queues=[queue("mail", handler(LOADS, "python"), mode="persistent", ready=True, workers=workers, **more)])
        wait_for(lambda: len(d.events("handler_ready")) >= workers, 30)
        return d
    return start


@pytest.fixture
def background():
    with ThreadPoolExecutor(4) as pool:
        yield lambda d, *args: pool.submit(d.quredis, *args)
