"""tests/run counts right, also what crashes, skips, hangs or runs nothing."""
import importlib.machinery
import importlib.util
import os
import pathlib
import subprocess

import pytest

from harness import ROOT


@pytest.fixture(scope="module")
def run():
    loader = importlib.machinery.SourceFileLoader("run", str(ROOT / "tests/run"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("run", loader))
    loader.exec_module(module)
    return module


PROGRAM = """
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <setjmp.h>
#include <cmocka.h>
static void good(void **s) { (void)s; }
static void bad(void **s) { (void)s; assert_int_equal(1, 2); }
static void skipped(void **s) { (void)s; skip(); }
static void skipped_too(void **s) { (void)s; skip(); }
static void segv(void **s) { (void)s; raise(11); }
static void aborts(void **s) { (void)s; fflush(NULL); abort(); }
static void leaves(void **s) { (void)s; fflush(NULL); exit(0); }
static int no_setup(void **s) { (void)s; return -1; }
int main(void)
{
	const struct CMUnitTest tests[] = { %s };
	(void)good; (void)bad; (void)skipped; (void)skipped_too; (void)segv; (void)aborts; (void)leaves; (void)no_setup;
	return cmocka_run_group_tests_name("x", tests, %s, NULL);
}
"""


def compiled(tmp, names, setup="NULL"):
    tests = ", ".join(f"cmocka_unit_test({n})" for n in names)
    (tmp / "x.c").write_text("#include <signal.h>\n" + PROGRAM % (tests, setup))
    subprocess.run(["cc", str(tmp / "x.c"), "-o", str(tmp / "x"), "-lcmocka"], check=True)
    return tmp / "x"


@pytest.mark.parametrize("names, counted", [
    (["good", "good"], (2, 0, 0)),
    (["good", "bad", "good"], (2, 1, 0)),
    (["skipped", "good", "skipped_too"], (1, 0, 2)),
    (["skipped", "bad"], (0, 1, 1)),
    (["good", "segv", "good"], (2, 1, 0)),
    (["good", "aborts", "good"], (1, 1, 0)),
    (["good", "leaves", "good"], (1, 1, 0)),
], ids=lambda v: "-".join(v) if isinstance(v, list) else "")
def test_unit_programs_are_counted(run, tmp, names, counted):
    assert run.run_unit(compiled(tmp, names), dict(os.environ)) == counted


def test_a_failed_setup_is_a_failure(run, tmp):
    passed, failed, skipped = run.run_unit(compiled(tmp, ["good"], "no_setup"), dict(os.environ))
    assert passed == 0 and failed == 1


@pytest.mark.parametrize("body", ["exit 0", "exit 1", "kill -9 $$", "exec /nonexistent"])
def test_a_program_without_tests_is_a_failure(run, handler, tmp, body):
    assert run.run_unit(pathlib.Path(handler(body)), dict(os.environ)) == (0, 1, 0)
    assert run.run_unit(tmp / "absent", dict(os.environ)) == (0, 1, 0)


def test_a_hanging_program_is_a_failure(run, handler, monkeypatch):
    monkeypatch.setattr(run, "UNIT_TIMEOUT_S", 0.5)
    assert run.run_unit(pathlib.Path(handler("exec sleep 600")), dict(os.environ)) == (0, 1, 0)


FILES = {
    "good": ("def test_a(): pass\ndef test_b(): pass\n", (2, 0, 0)),
    "bad": ("def test_a(): assert 0\ndef test_b(): pass\n", (1, 1, 0)),
    "teardown": ("import pytest\n@pytest.fixture\ndef f():\n yield\n assert 0\ndef test_a(f): pass\n", (0, 1, 0)),
    "skip": ("import pytest\n@pytest.mark.skip\ndef test_a(): pass\ndef test_b(): pass\n", (1, 0, 1)),
    "import": ("import nothing_of_this_name\n", (0, 1, 0)),
    "empty": ("", (0, 1, 0)),
    "exit": ("import os\ndef test_a(): os._exit(0)\n", (0, 1, 0)),
}


@pytest.fixture
def run_files(run, tmp, monkeypatch):
    """Runs these files of FILES with so many processes."""
    def go(jobs, names):
        for name in names:
            (tmp / f"test_{name}.py").write_text(FILES[name][0])
        monkeypatch.setenv("QUREDIS_TEST_JOBS", jobs)
        env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
        return run.run_pytest(tmp, [str(tmp), "--rootdir", str(tmp)], env)
    return go


@pytest.mark.parametrize("name", FILES)
def test_pytest_is_counted(run_files, name):
    assert run_files("1", [name]) == FILES[name][1]


def test_files_are_compiled_once_for_all_processes(run, tmp):
    (tmp / "test_good.py").write_text(FILES["good"][0])
    env = run.environment(tmp / "built")
    run.compile_tests([str(tmp), "--rootdir", str(tmp)], env)
    assert [p.name.split(".")[0] for p in (tmp / "built/pycache").rglob("*pytest*.pyc") if "test_good" in p.name] == ["test_good"]
    assert not list(tmp.rglob("__pycache__"))


@pytest.mark.limit(300)
def test_pytest_in_parallel_is_counted(run_files):
    names = ["good", "bad", "teardown", "skip", "exit"]
    assert run_files("2", names) == tuple(sum(FILES[n][1][i] for n in names) for i in range(3))


WITH_OTHERS = "import os, pathlib, pytest\nSEEN = pathlib.Path(__file__).with_suffix('.seen')\n"
FIRST_FAILS = WITH_OTHERS + "def test_a():\n was = SEEN.exists()\n SEEN.touch()\n assert was\n"


@pytest.mark.limit(300)
def test_what_fails_among_others_runs_again_alone(run, run_files, tmp, capfd, monkeypatch):
    monkeypatch.setitem(FILES, "chance", (FIRST_FAILS, None))
    monkeypatch.setitem(FILES, "verdict", (FIRST_FAILS.replace("def", "@pytest.mark.verdict\ndef"), None))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests"))
    (tmp / "conftest.py").write_text((ROOT / "tests/conftest.py").read_text())
    assert run_files("2", ["good", "chance"]) == (3, 0, 0)
    assert "passed at its second run: " in capfd.readouterr().out
    assert run_files("2", ["verdict"]) == (3, 1, 0)            # the others pass, and chance does not decide any more
    (tmp / "test_chance.seen").unlink()
    assert run_files("1", ["chance"]) == (3, 1, 0)             # whoever runs alone has nobody to blame


class Item:
    def __init__(self, name, limit=None):
        self.name, self.limit = name, limit

    def get_closest_marker(self, _):
        return self.limit and pytest.mark.limit(self.limit).mark


@pytest.mark.parametrize("processes, first", [(1, "ABC01234"), (2, "AC0B123456"), (4, "A0B1C234567")])
def test_the_longest_begin_first_each_in_its_process(processes, first):
    """Each process begins with a quarter of its share: of 24 tests and 2 processes 3 each."""
    loader = importlib.machinery.SourceFileLoader("tests_conftest", str(ROOT / "tests/conftest.py"))
    conftest = importlib.util.module_from_spec(importlib.util.spec_from_loader("tests_conftest", loader))
    loader.exec_module(conftest)
    items = [Item(c) for c in "0123456789abcdefghijk"] + [Item("C", 600), Item("A", 900), Item("B", 700)]
    ordered = "".join(i.name for i in conftest.long_ones_first(items, processes))
    assert ordered.startswith(first) and sorted(ordered) == sorted(i.name for i in items), ordered
