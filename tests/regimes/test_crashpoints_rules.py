"""Crash points of what leaves by rule, at the calls that matter."""
import pytest

from crashpoints import sweep
from crashpoints.faults import Fault
from crashpoints.traced import NEEDS_PTRACE

pytestmark = NEEDS_PTRACE

# what, cycle, calls that count, the how manieth
POINTS = {
    "before-a-batch-is-written": ("kill", "errand: archive, a batch", "write@file", 1),
    "before-a-batch-is-on-the-disk": ("kill", "errand: archive, a batch", "fdatasync", 1),
    "between-the-files": ("kill", "errand: archive, a full file", "renameat", 1),
    "written-not-removed": ("kill-parent", "errand: archive, a full file", "exit_group", 1),
    "looking-back": ("kill", "errand: archive, the last batch", "ftruncate", 1),
    "half-a-batch-then-the-disk-is-full": ("torn+", "errand: archive, a full file", "write@file", 1),
    "before-a-text-file-is-written": ("kill", "errand: text file", "write@file", 1),
    "before-a-text-file-has-its-name": ("kill", "errand: text file", "rename", 1),
    "before-a-question": ("kill", "errand: purge, a question", "vfork", 1),
}


@pytest.mark.parametrize("point", POINTS)
def test_a_point(lane, point):
    what, key, calls, when = POINTS[point]
    result = sweep.run_in(lane, key, Fault(what.rstrip("+"), what.endswith("+"), calls), [when])
    assert result.fired, "it is not made any more"
    assert not result.bad, f"{result}\n{result.log}"


@pytest.mark.parametrize("when", [20, 35, 50])
def test_a_line_without_memory(lane, when):
    """Whole, or not written."""
    result = sweep.run_in(lane, "errand: archive, a batch", Fault("nomem"), [when])
    assert result.fired and not result.bad, f"{result}\n{result.log}"
