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
    rows = done.stdout.splitlines()
    states, *_, cycles = (int(row.split()[-4].replace(",", "")) for row in rows if row.startswith("messages="))
    assert states > 100_000 and cycles > 10_000, "hardly anything was searched"
    for model, n in ("emit", 8), ("seats", 13), ("ticks", 10):
        of_it = [row for row in rows if row.startswith(f"{model}: ")]
        assert sum("mutant: " in row for row in of_it) == n and not any(row.endswith("NOT FOUND") for row in of_it)
        assert sum(int(row.split()[-4].replace(",", "")) for row in of_it if row.endswith(" nothing")) > 20_000, "hardly anything was searched"
    mutants = [row for row in rows if row.startswith("mutant: ")]
    assert len(mutants) == 27 and not any(row.endswith("NOT FOUND") for row in mutants)
    # this one no search of states finds
    assert any("must run alone" in row and row.endswith("non-progress cycle") for row in mutants)
