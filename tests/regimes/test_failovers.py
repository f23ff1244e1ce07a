"""Failovers behind Sentinels while messages are pushed: the short form of `make soak-failover`."""
import os

import pytest

from chaos.failover import Failovers, Scale
from chaos.regime import scale_from

SHORT = Scale(failovers=4, seed=1)


@pytest.mark.verdict
@pytest.mark.limit(400)
def test_no_confirmed_push_is_lost(machine):
    regime = Failovers(machine, scale_from(os.environ, SHORT))
    problems = regime.run()
    print(f"\n{regime.table}")
    assert problems == []
    assert len(regime.planned()) == regime.scale.failovers and len(regime.runs().begun) > 100
