"""Fuzz targets: they build, the inputs that were kept find nothing, nor do so many seconds of new ones (FUZZ_S)."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from harness import ROOT, SANITIZED

FUZZ = ROOT / "tests/fuzz"
SECONDS = int(os.environ.get("FUZZ_S", "3"))        # a target, two at a time
TARGETS = sorted(p.stem[5:] for p in FUZZ.glob("fuzz_*.c"))
BUILD = ROOT / "build/clang-fuzz-short"

TRIVIAL = "int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { return 0 * (int)n * (d != 0); }\n"
EASY = "#include <stdlib.h>\nint LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { if (n > 1 && d[0] == 'q' && d[1] == 'r') abort(); return 0; }\n"


def compiled(directory, name, text):
    """A program of its own; None: this machine cannot make any."""
    (directory / "fuzz").mkdir(exist_ok=True)
    source, program = directory / f"{name}.c", directory / "fuzz" / f"fuzz_{name}"
    source.write_text(text)
    if shutil.which("clang") is None:
        return None
    done = subprocess.run(["clang", "-fsanitize=fuzzer,address,undefined", "-o", program, source], stderr=subprocess.DEVNULL, timeout=100)
    return program if done.returncode == 0 else None


@pytest.fixture
def fuzzer(tmp):
    if SANITIZED:
        pytest.skip("the targets have sanitizers of their own")
    if compiled(tmp, "trivial", TRIVIAL) is None:
        pytest.skip("no clang with libFuzzer (libclang-rt-dev)")
    return tmp


def run(*args):
    return subprocess.run([FUZZ / "run", *map(str, args)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, cwd=ROOT)


@pytest.mark.verdict
@pytest.mark.limit(1200)
def test_nothing_is_found(fuzzer, tmp):
    built = subprocess.run(["nice", "make", "-s", "-j2", "short-fuzz-programs"], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True)
    assert built.returncode == 0, built.stdout
    done = run("--build", BUILD, "--work", tmp / "work", "--seconds", SECONDS)
    print(done.stdout)
    assert done.returncode == 0, done.stdout
    assert re.findall(r"^(\w+) .* ok$", done.stdout, re.M) == TARGETS


def test_what_is_found_is_told(fuzzer, tmp):
    """The runner sees a target fail, and keeps the input."""
    (tmp / "fuzz/fuzz_trivial").unlink()
    compiled(tmp, "message", EASY)
    done = run("--build", tmp, "--work", tmp / "work", "--seconds", "100")
    assert done.returncode == 1 and "message failed" in done.stdout and "1 did" in done.stdout, done.stdout
    found = pathlib.Path(re.search(r"^again: +\S+ (\S+)$", done.stdout, re.M)[1])
    assert found.read_bytes()[:2] == b"qr"


def test_kept_inputs_are_few():
    files = [p for p in (FUZZ / "corpus").rglob("*") if p.is_file()]
    assert {p.parent.name for p in files} == set(TARGETS)
    for target in TARGETS:
        assert len(list((FUZZ / "corpus" / target).iterdir())) <= 200, target
    assert sum(p.stat().st_size for p in files) <= 200_000


def test_targets_are_described():
    text = (ROOT / "docs/fuzzing.md").read_text()
    assert [t for t in TARGETS if f"| `{t}` |" not in text] == []
