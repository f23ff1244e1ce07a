"""A Redis Cluster whose slot moves, and whose owner is killed, while messages are pushed: the short form of `make soak-cluster`."""
import os

import pytest

from chaos.regime import scale_from
from chaos.resharding import Reshardings, Scale

SHORT = Scale(reshardings=4, kills=1, seed=1, pause_s=1.0, hold_s=0)


@pytest.mark.verdict
@pytest.mark.limit(300)
def test_no_confirmed_push_is_lost(machine):
    regime = Reshardings(machine, scale_from(os.environ, SHORT))
    problems = regime.run()
    print(f"\n{regime.table}")
    assert problems == []
    assert len(regime.events) == regime.scale.reshardings + regime.scale.kills and len(regime.runs().begun) > 100
