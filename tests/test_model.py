"""The protocol as a model: `make model` in small, with its mutants."""
import shutil
import subprocess

import pytest

from harness import ROOT, SANITIZED


@pytest.mark.limit(400)
@pytest.mark.skipif(shutil.which("spin") is None, reason="no spin")
@pytest.mark.skipif(SANITIZED, reason="it has nothing of ours in it")
def test_small_bounds_and_every_mutant(tmp):
    done = subprocess.run([ROOT / "tests/model/run", "--quick", "--build", tmp], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    print(done.stdout)
    assert done.returncode == 0, done.stdout
    rows = [line for line in done.stdout.splitlines() if line.startswith("mutant")]
    assert rows and all(line.endswith(" found") and not line.endswith("NOT FOUND") for line in rows)
    first = done.stdout.splitlines()[1].split()
    assert int(first[-4].replace(",", "")) > 100_000, "hardly anything was searched"
