"""What machines can say about the sources."""
import pathlib
import shutil
import subprocess

import pytest

from harness import ROOT

SHELL = [p for p in [ROOT / "bootstrap", ROOT / ".ci/run", *sorted((ROOT / "etc").rglob("*"))]
         if p.is_file() and p.read_bytes()[:9] == b"#!/bin/sh"]
PYTHON = [p for p in [*sorted((ROOT / "tests").rglob("*")), *sorted((ROOT / "etc").rglob("*"))]
          if p.is_file() and (p.suffix == ".py" or p.read_bytes()[:17] == b"#!/usr/bin/python")]


def needs(program):
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"no {program}")


def said(*command):
    done = subprocess.run([str(c) for c in command], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=280)
    return done.stdout if done.returncode or done.stdout else ""


@needs("shellcheck")
@pytest.mark.parametrize("script", SHELL, ids=lambda p: str(p.relative_to(ROOT)))
def test_shell(script):
    assert said("shellcheck", script) == ""


@needs("mandoc")
@pytest.mark.parametrize("page", sorted((ROOT / "man").glob("*.[1-9]")), ids=lambda p: p.name)
def test_manual(page):
    assert said("mandoc", "-T", "lint", "-W", "warning", page) == ""


# the two uninitvars take every loop for one that may not run, and a call that fills for one that reads
CPPCHECK = ["cppcheck", "--quiet", "--error-exitcode=1", "--std=c11", "--inline-suppr", "-I.", "-D_GNU_SOURCE",
            '-DQUREDIS_VERSION="0"', '-DQUREDIS_SYSCONFDIR="/etc"', "--enable=warning,performance,portability",
            "--suppress=missingIncludeSystem", "--suppress=uninitvar", "--suppress=ctuuninitvar",
            "--suppress=normalCheckLevelMaxBranches",       # 2.17 tells that it looks as closely as 2.10
            # of libbsd: in Debian 12 and 13
            *(f"--include={path}" for path in pathlib.Path("/usr/include").rglob("bsd/sys/*.h") if path.name in ("queue.h", "tree.h")), "--include=/usr/include/jansson.h"]


@needs("cppcheck")
@pytest.mark.limit(300)
@pytest.mark.parametrize("folder", ["common", "worker", "sweeper", "supervisor", "admin"])
def test_c(folder):
    assert said(*CPPCHECK, folder) == ""


@needs("cppcheck")
def test_c_mistakes_are_seen(tmp):
    (tmp / "x.c").write_text("#include <stdlib.h>\nint f(int n) { char *p = malloc(3); p[n] = 1; int a[2] = {0}; return a[2]; }\n")
    assert "arrayIndexOutOfBounds" in said(*CPPCHECK, "--template=gcc", tmp / "x.c")


@pytest.mark.parametrize("path", PYTHON, ids=lambda p: str(p.relative_to(ROOT)))
def test_python(path):
    compile(path.read_text(), str(path), "exec")


@pytest.mark.parametrize("path", [p for p in SHELL + PYTHON if p.suffix != ".py"], ids=lambda p: p.name)
def test_scripts_are_executable(path):
    assert path.stat().st_mode & 0o111 == 0o111
