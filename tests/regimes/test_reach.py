"""Promises over TLS, through a Sentinel and on a Cluster: the short form of `make check-reach`."""
import importlib.machinery
import importlib.util
import os
import re
import subprocess
import sys

import pytest

from harness import ROOT
from harness.reach import ABSENT, REACHES

PROMISES = ["tests/reach/test_reach.py", *(f"tests/promises/{name}" for name in (
    "test_escape.py::test_equal_messages_have_a_record_each", "test_kill.py::test_worker_killed",
    "test_held.py::test_the_connection_goes_with_the_acknowledgement"))]


@pytest.mark.limit(300)
@pytest.mark.parametrize("reach", REACHES)
def test_some_promises(reach):
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")} | {"QUREDIS_TEST_REACH": reach}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *PROMISES]
    done = subprocess.run(command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) > 15 and "skipped" not in done.stdout.splitlines()[-1], done.stdout


def runner():
    path = str(ROOT / "tests/matrix/reach")
    loader = importlib.machinery.SourceFileLoader("check_reach", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("check_reach", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


def test_a_run_without_a_sum_has_failed():
    read = runner().read_log
    assert tuple(read("3 skipped\n10 passed, 0 failed\n")) == (10, 0, 3, 0)
    assert tuple(read("passed at its second run: a::b\n10 passed, 1 failed\n")) == (10, 1, 0, 1)
    assert tuple(read("Traceback\n")) == (0, 1, 0, 0)


def test_an_unknown_reach_is_an_error():
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--collect-only", "tests/reach"], cwd=ROOT,
                          env={**os.environ, "QUREDIS_TEST_REACH": "tsl"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode != 0 and "QUREDIS_TEST_REACH=tsl: expected tls, sentinel, cluster" in done.stdout


def test_the_list_of_what_is_left_out_is_short():
    assert len(ABSENT) <= 13
