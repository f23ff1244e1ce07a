"""Episodes: random faults for some seconds, on one or two hosts, with handlers that behave badly. The short form of `make episodes`.

The judge is shown results that are wrong.
"""
import time

import pytest

from episodes.episode import Episode
from episodes.faults import CLEAN, FAULTS, ORDERED, Faults
from episodes.judge import Run, Seen, judge
from episodes.load import Pushed
from harness.queues import sha1

SECONDS = 6


@pytest.mark.verdict
@pytest.mark.limit(300)
@pytest.mark.parametrize("kind", ["clean", "ordered", "any"])
def test_an_episode(machine, kind):
    """Another seed each day. A run by hand: tests/episodes/run --seeds SEED."""
    seed = int(time.time()) // 86400
    faults = {"clean": CLEAN, "ordered": ORDERED, "any": None}[kind]
    episode = Episode(machine, seed, SECONDS, faults)
    assert episode.run() == [], f"seed {seed}, faults {episode.disturber.counts}"
    assert episode.summary()["done"] > 10


def test_each_fault_has_a_method():
    assert all(callable(getattr(Faults, name)) for name in FAULTS)


PUSHED = {"m1": Pushed("exec", "o", b"m1 o 0 |"), "m2": Pushed("stay", "j", b"m2 j 0 |"), "m3": Pushed("stay", "r", b"m3 r 0 |")}
SHARED = Pushed("shared", "o", b"m1 o 0 |")
RIGHT = Seen(PUSHED, set(PUSHED), [Run("m1", 1, False, 7), Run("m2", 1, False, 8), Run("m3", 1, False, 8), Run("m3", 2, False, 8)],
             {"m1", "m3"}, [], [("stay", b"m2 j 0 |")], [("stay", "Rejected", sha1(b"m2 j 0 |"))], ["drain"], set())


def test_nothing_is_wrong():
    assert judge(RIGHT) == []


@pytest.mark.parametrize("change, complaint", [
    ({"done": {"m1"}}, "LOST: m3"),
    ({"escaped": []}, "LOST: m2"),
    ({"escaped": RIGHT.escaped * 2}, "m2 is in escape 2 times"),
    ({"escaped": [("stay", b"quredis/1 w=1 mac=2\nm2 j 0 |")]}, "other bytes"),
    ({"escaped": [("exec", b"m2 j 0 |")]}, "other bytes"),
    ({"escaped": [*RIGHT.escaped, ("stay", b"m9 j 0 |")]}, "never pushed"),
    ({"records": []}, "1 dead letters and 0 records"),
    ({"records": [("stay", "HandlerExit", sha1(b"m2 j 0 |"))]}, "m2 (j) of stay escaped as HandlerExit"),
    ({"escaped": [*RIGHT.escaped, ("exec", b"m1 o 0 |")], "records": [*RIGHT.records, ("exec", "HandlerSignal", sha1(b"m1 o 0 |"))]},
     "m1 (o) of exec escaped as HandlerSignal"),
    ({"runs": [*RIGHT.runs, Run("m1", 2, False, 9)]}, "CHARGED: m1"),
    ({"runs": [*RIGHT.runs, Run("m3", 3, True, 9)]}, "CHARGED: m3"),
    ({"runs": [*RIGHT.runs, Run("m1", 1, False, 9)]}, "TWICE, UNMARKED: m1"),
    ({"runs": [*RIGHT.runs, Run("m1", 1, False, 9)], "faults": ["kill_worker"]}, "TWICE, UNMARKED: m1"),
    ({"runs": [*RIGHT.runs, Run("m1", 1, True, 9)]}, "TWICE WITHOUT A FAULT: m1"),
    ({"runs": [*RIGHT.runs, Run("m1", 1, True, 9)], "faults": ["slow_redis"]}, "TWICE WITHOUT A FAULT: m1"),
    ({"runs": [*RIGHT.runs, Run("m3", 2, True, 9)], "fenced": {"exec"}, "faults": ["slow_redis"]}, "TWICE WITHOUT A FAULT: m3"),
    ({"runs": [*RIGHT.runs, Run("m9", 1, False, 9)]}, "ran, but was never pushed: m9"),
    ({"strange": ["X 1 80 9"]}, "a payload that no producer pushed"),
])
def test_what_is_wrong_is_found(change, complaint):
    assert any(complaint in problem for problem in judge(RIGHT._replace(**change)))


@pytest.mark.parametrize("change", [
    {"runs": [*RIGHT.runs, Run("m1", 1, True, 9)], "faults": ["kill_tree"]},
    {"runs": [*RIGHT.runs, Run("m1", 1, True, 9)], "faults": ["signal_all"]},
    {"runs": [*RIGHT.runs, Run("m1", 1, True, 9)], "faults": ["slow_redis"], "fenced": {"exec"}},
    {"runs": [*RIGHT.runs, Run("m1", 1, False, 9)], "faults": ["roll_back"]},
    {"runs": [*RIGHT.runs, Run("m1", 2, True, 9)], "faults": ["kill_handler"]},
    {"alive": {"m1", "m3"}, "escaped": [], "records": []},
    {"pushed": {**PUSHED, "m1": SHARED}, "escaped": [*RIGHT.escaped, ("shared", SHARED.message)], "faults": ["kill_handler"],
     "records": [*RIGHT.records, ("shared", "HandlerSignal", sha1(SHARED.message))]},
])
def test_what_a_fault_explains_is_not_wrong(change):
    assert judge(RIGHT._replace(**change)) == []
