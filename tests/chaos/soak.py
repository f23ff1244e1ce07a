"""The long form of tests/test_chaos.py: `make soak`. Not collected by `make check`, since its name does not begin with test_.

SOAK_MESSAGES=100000 SOAK_KILLS=200 SOAK_STOPS=50 SOAK_CUTS=50 SOAK_SECONDS=110 make soak    a tenth of it
"""
import os
import sys

import pytest

from harness import BUILD
from chaos.regime import Regime, Scale, scale_from

LONG = Scale(messages=1_000_000, kills=2000, stops=500, cuts=500, storms=100, orders=200, seconds=1100, lease_s=3.0, seed=1)


@pytest.mark.limit(6 * 3600)
def test_soak(machine, capfd):
    def say(text):
        with capfd.disabled():
            print(text, file=sys.stderr, flush=True)
    regime = Regime(machine, scale_from(os.environ, LONG), say=say)
    verdict = regime.run()
    with capfd.disabled():
        print("", verdict.table, *verdict.problems, sep="\n", flush=True)
    (BUILD / "soak.txt").write_text(verdict.table + "\n")
    assert verdict.problems == []
