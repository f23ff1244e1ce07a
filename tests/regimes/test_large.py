"""Large messages over a slow link, whatever becomes of them: the short form of `make soak-large`.

The link is faster, the messages are smaller, and figures of time are only noticed if they are ten times too high.
"""
import pytest

from large.acceptance import Acceptance
from large.cells import FATES, MIB, Scale

SHORT = Scale(rate=8_000_000, message_max=MIB, lease_s=1.0, slack_s=3.0)


@pytest.mark.parametrize("fate", FATES)
def test_large(tmp, tag, fate):
    acceptance = Acceptance(tmp, tag, SHORT, [MIB, 4 * MIB], [fate], strict=False)
    print(f"\n{acceptance.run()}")
    assert acceptance.problems == []
