"""Redis goes back in time, again and again, with two hosts at work: the short form of `make soak-rollback`."""
import os

import pytest

from chaos.regime import scale_from
from chaos.rollback import Event, Rollbacks, Scale, judge

SHORT = Scale(messages=10000, copies=6, promotions=4, lease_s=3.0, seed=1)


@pytest.mark.verdict
@pytest.mark.limit(400)
def test_whatever_redis_returned_to_is_done(machine):
    regime = Rollbacks(machine, scale_from(os.environ, SHORT))
    problems = regime.run()
    print(f"\n{regime.table}")
    assert problems == []
    assert regime.counts["back in a tray"] > 0 and regime.counts["done"] > regime.scale.messages / 2


BEFORE, AFTER = 10, 20          # moments; the copy is of 10, Redis returned to it at 20


@pytest.mark.parametrize("pushed, there, done, escaped, expected", [
    (BEFORE, True, False, False, "lost"),       # it was there, and nobody did it
    (BEFORE, True, True, False, None),
    (BEFORE, True, False, True, None),
    (BEFORE, False, False, False, "lost"),      # the copy was made later: it was lost before
    (15, False, False, False, "forgotten"),
    (15, True, False, False, "lost"),
    (AFTER + 1, False, False, False, "lost"),   # nothing was undone since
])
def test_the_judge(pushed, there, done, escaped, expected):
    event = Event("an older copy", BEFORE, AFTER, {"d1"} if there else set())
    verdict = judge({"d1": pushed}, [event], {"d1"} if done else set(), {"d1"} if escaped else set())
    assert [what for what, names in verdict.items() if names] == ([expected] if expected else [])
