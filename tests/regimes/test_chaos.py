"""Everything dies at random for a while on two hosts: no message is lost, second runs are marked as redelivered, and a fault explains each duplicate.

The short form of `make soak`; SOAK_SEED and the other fields of the scale in capitals change it.
"""
import os

import pytest

from chaos.regime import Regime, Scale, scale_from

SHORT = Scale(messages=20000, kills=24, stops=6, cuts=8, storms=3, orders=6, seconds=20, lease_s=2.0, seed=1)
CALM = Scale(messages=6000, kills=0, stops=0, cuts=0, storms=0, orders=8, seconds=6, lease_s=5.0, seed=1)


@pytest.mark.verdict
@pytest.mark.limit(300)
def test_chaos(machine):
    verdict = Regime(machine, scale_from(os.environ, SHORT)).run()
    print(f"\n{verdict.table}")
    assert verdict.problems == []
    assert verdict.counts["duplicates, explained"] > 0, "nothing of this was any trouble"
    assert verdict.counts["taken by another program"] > 50


@pytest.mark.verdict
@pytest.mark.limit(180)
def test_calm(machine):
    """Orders are no faults: reloads, restarts, pauses and stops that wait make nothing run twice."""
    verdict = Regime(machine, scale_from(os.environ, CALM), without="cpCP").run()
    print(f"\n{verdict.table}")
    assert verdict.problems == []
    assert [n for what, n in verdict.counts.items() if "duplicates" in what or "marked" in what] == [0] * 4
