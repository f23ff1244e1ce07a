"""The checker of the chaos regime is shown ledgers that are wrong."""
import hashlib
import itertools
import json

import pytest

from chaos.checker import check
from chaos.ledger import Fault, Ledger

S = 1_000_000


class Story(Ledger):
    """A ledger told line by line; seconds, not microseconds."""

    _count = itertools.count()

    def push(self, *names, fate="ack"):
        self.pushed((name, fate) for name in names)

    def run(self, name, at, outcome="ok", attempt=1, told=0, node="a", worker=10, pid=100):
        at = int(at * S) + next(self._count)        # no two runs have one name
        self._append("runs", [f"b {name} {pid}:{at} {attempt} {told} {node}.0123.0.1 {worker}"])
        if outcome:
            self._append("runs", [f"e {name} {pid}:{at} {outcome} {at + 1000}"])

    def sign(self, name, at, pid):
        """It lives at this time: the run of this process that began first."""
        run = next(line.split(" ")[2] for line in self.lines("runs") if line.startswith(f"b {name} {pid}:"))
        self._append("runs", [f"t {name} {run} {int(at * S)}"])

    def hit(self, kind, at, to=None, node="a", pid=None):
        self._append("faults", [json.dumps(Fault(kind, int(at * S), int((to or at) * S), node, pid)._asdict())])

    def take(self, name, at):
        """By another program."""
        self._append("taken", [f"{name} {int(at * S)} {sha1(name)}"])

    def judged(self, lease_s=1.0, **end):
        self.end(**end)
        return check(self, lease_s)


def sha1(name):
    return hashlib.sha1(name.encode()).hexdigest()


@pytest.fixture
def story(tmp):
    return Story(tmp / "story")


def problems(story, **end):
    return [p.split(":")[0] for p in story.judged(**end).problems]


def test_a_good_one(story):
    story.push("d1", "r2", "f3", "x4", "p5", "b6", "e7", "e7")
    story.push("d8", fate="refused")
    story.push("d9", "d10", fate="doubt")
    for name in ("d1", "b6", "e7", "e7", "d9"):
        story.run(name, 1)
    story.run("r2", 1, "retry")
    story.run("r2", 2, attempt=2)
    story.run("f3", 1, "fail")
    story.run("f3", 2, "fail", attempt=2)
    story.run("x4", 1, "fail")
    story.run("p5", 1, "poison", worker=11)
    story.run("p5", 2, "poison", told=1, worker=12)
    story.escaped([("f3", "HandlerExit"), ("x4", "Rejected"), ("p5", "WorkerLost")])
    verdict = story.judged(leases=[])
    assert verdict.problems == []
    assert [verdict.counts[what] for what in ("pushed", "done", "escaped", "lost", "duplicates, explained")] == [8, 5, 3, 0, 1]


@pytest.mark.parametrize("name", ["d1", "f1", "e1"])
def test_lost(story, name):
    story.push(name, name)
    story.run(name, 1)
    story.escaped([(name, "HandlerExit")] if name == "f1" else [])
    assert "lost" in problems(story)


def test_begun_and_never_done_is_lost(story):
    story.push("d1")
    story.run("d1", 1, None)
    assert problems(story) == ["lost"]


def test_invented(story):
    story.push("d1", fate="refused")
    story.run("d1", 1)
    story.escaped([("f2", "HandlerExit")])
    assert problems(story) == ["run, and never pushed", "in escape, and never pushed", "more often in escape than pushed"]


def test_damaged(story):
    story.push("b1")
    story.run("b1", 1, "damaged")
    assert problems(story) == ["lost", "damaged"]


def test_escape_is_exactly_what_was_designed(story):
    story.push("d1", "f2", "f3", "f4")
    story.run("d1", 1)
    story.escaped([("d1", "WorkerLost"), ("f2", "HandlerExit"), ("f2", "HandlerExit"), ("f3", None), ("f4", "WorkerLost")])
    assert problems(story) == ["in escape and not designed to be", "more often in escape than pushed", "in escape without a record",
                               "in escape with a class that is not theirs"]


def test_a_second_run_that_was_not_told(story):
    names = "D1", "E2", "d3", "e4"
    story.push(*names)
    story.hit("kill_worker", 1.5, pid=10)
    for name in names:
        story.run(name, 1)
        story.run(name, 2, worker=11)
    assert story.judged().problems == ["run twice, and not told so: 4: " + " ".join(names)]
    for name in ("e4", "E2"):
        story.run(name, 3, told=1, worker=11)       # shared, what is remembered is of both: it may be that it was told instead
    assert story.judged().problems == ["run twice, and not told so: 3: D1 d3 e4"]


def test_another_program_takes_what_was_told(story):
    story.push("E2", "E2")
    story.hit("kill_worker", 1.5, pid=10)
    story.run("E2", 1)
    story.run("E2", 2, told=1, worker=11)
    for at in (3, 4):
        story.take("E2", at)
    assert story.judged().problems == []


UNEXPLAINED = ["duplicates without a fault that explains them"]


@pytest.mark.parametrize("kind, at, to, pid, node, explains", [
    ("kill_worker", 1.5, None, 10, "a", True),
    ("kill_worker", 1.5, None, 11, "a", False),         # another's
    ("kill_worker", 2.5, None, 10, "a", False),         # too late
    ("kill_worker", -9, None, 10, "a", False),          # long before
    ("kill_handler", 1.5, None, 100, "a", True),
    ("kill_handler", 1.5, None, 101, "a", False),
    ("kill_master", 1.5, None, None, "a", True),
    ("kill_master", 1.5, None, None, "b", False),
    ("stop_worker", 0.9, 2.5, 10, "a", True),
    ("stop_worker", 1.2, 1.9, 10, "a", False),          # shorter than the lease
    ("stop_tree", 0.9, 2.5, None, "a", True),
    ("stall", 0.9, 2.5, None, "a", True),
    ("drain", 1.2, 1.5, None, "a", False),              # nothing kept it from settling
    ("kill_redis", 1.2, 1.5, None, None, False),
    ("cut_all", 1.5, None, None, None, False),
    ("storm", 1.2, 1.5, None, None, False),
    ("kill_sweeper", 1.5, None, None, None, False),
    ("reload", 1.5, None, None, "a", False),
])
def test_what_explains_a_duplicate(story, kind, at, to, pid, node, explains):
    story.push("d1")
    story.run("d1", 1)
    story.run("d1", 2, told=1, worker=20, pid=200, node="b")
    story.hit(kind, at, to, node, pid)
    assert problems(story) == ([] if explains else UNEXPLAINED)


def test_a_disturbed_drain_explains(story):
    story.push("d1")
    story.run("d1", 1)
    story.run("d1", 3, told=1)
    story.hit("drain", 1.5, 2.5)
    story.hit("kill_redis", 2, 2.2, None)
    assert problems(story) == []


def test_one_fault_explains_one_duplicate_of_a_message(story):
    story.push("d1")
    story.run("d1", 1)
    story.run("d1", 2, told=1, worker=11, pid=101)
    story.hit("kill_worker", 1.5, pid=10)
    assert problems(story) == []
    story.run("d1", 3, told=1, worker=12, pid=102)
    assert problems(story) == UNEXPLAINED
    story.hit("kill_worker", 2.5, pid=11)
    assert problems(story) == []


def test_a_stopped_ones_run_comes_after_its_substitute(story):
    """The whole tree stood still with the message in its handler's pipe."""
    story.push("d1")
    story.run("d1", 2, told=1, node="b", worker=20, pid=200)
    story.run("d1", 3.01)
    assert problems(story) == UNEXPLAINED
    story.hit("stop_tree", 0.5, 3)
    assert problems(story) == []


def test_a_higher_attempt_wants_a_failure_or_a_fault(story):
    story.push("d1", "d2")
    story.run("d1", 1)
    story.run("d1", 2, attempt=2)
    assert problems(story) == ["lost", *UNEXPLAINED]
    story.run("d2", 1)
    story.hit("kill_handler", 1, pid=100)
    assert problems(story) == []


def test_an_attempt_that_nobody_saw_begin(story):
    story.push("r1")
    story.run("r1", 1, "retry")
    story.run("r1", 3, attempt=3)
    assert problems(story) == UNEXPLAINED
    story.hit("kill_handler", 2, pid=999)
    assert problems(story) == []


def test_a_crash_of_the_handler_itself(story):
    story.push("d1", "c2")
    story.run("d1", 1, None)
    story.run("c2", 1.1, "crash")
    story.run("d1", 2, told=1, pid=101)
    story.run("c2", 2.1, "crash", attempt=2, pid=101)
    story.escaped([("c2", "HandlerExit")])
    assert problems(story) == []


@pytest.mark.parametrize("letter, last, wrong", [("k", 1.9, False), ("k", 2.5, True), ("s", 2.5, False)])
def test_where_the_fence_kills_no_two_run_at_a_time(story, letter, last, wrong):
    name = f"{letter}1"
    story.push(name)
    story.run(name, 1, None)
    story.hit("stop_worker", 1.1, 2.6, pid=10)
    story.run(name, 2, told=1, node="b", worker=20, pid=200)
    story.sign(name, last, 100)
    assert problems(story) == (["run twice at a time"] if wrong else [])
    if wrong:
        story.hit("stop_tree", 1.2, 2.4)
        assert problems(story) == []


# ---- shared queues ----

def test_a_good_one_that_is_shared(story):
    story.push("D1", "D2", "D3", "R4", "F5", "E6", "E6")
    story.run("D1", 1)
    story.take("D2", 1)
    story.run("D3", 1, None, pid=101)
    story.hit("kill_handler", 1.1, pid=101)
    story.run("R4", 1, "retry")
    story.take("F5", 1)
    story.run("E6", 1)
    story.take("E6", 2)
    story.escaped([("D3", "HandlerSignal", "a", S), ("R4", "HandlerExit", "a", S)])
    story.noted([(sha1("D2"), "q", "crashes=1 redelivered=2 outages=1 solo=1"), (sha1("E6"), "q", "redelivered=1")])
    verdict = story.judged(leases=[])
    assert verdict.problems == []
    assert [verdict.counts[what] for what in ("pushed", "done", "escaped", "escaped after a kill of their handler", "taken by another program",
                                              "notes left of these", "lost")] == [7, 2, 1, 1, 3, 2, 0]


@pytest.mark.parametrize("name", ["D1", "F1", "E1"])
def test_lost_between_two_programs(story, name):
    story.push(name, name, name)
    story.run(name, 1)
    story.take(name, 1)
    story.escaped([(name, "HandlerExit")] if name == "F1" else [])
    assert "lost" in problems(story)


def test_what_is_taken_was_pushed_and_has_one_end(story):
    story.take("D1", 1)
    story.push("F2")
    story.take("F2", 1)
    story.escaped([("F2", "HandlerFail")])
    assert problems(story) == ["taken, and never pushed", "more often in escape than pushed"]


def test_taken_and_run_wants_a_fault(story):
    story.push("D1")
    story.run("D1", 1)
    story.take("D1", 2)
    assert problems(story) == UNEXPLAINED
    story.hit("kill_worker", 1.5, pid=10)
    assert problems(story) == []


def test_a_run_after_another_program_had_it_wants_a_standstill(story):
    story.push("D1")
    story.take("D1", 2)
    story.run("D1", 3, told=1)
    assert problems(story) == UNEXPLAINED
    story.hit("stop_tree", 1, 3)
    assert problems(story) == []


def test_a_shared_queue_knows_one_attempt(story):
    story.push("R1")
    story.run("R1", 1, "retry")
    story.run("R1", 2, attempt=2)
    story.escaped([("R1", "HandlerExit")])
    assert "of a shared queue, and tried a second time" in problems(story)


@pytest.mark.parametrize("node, at, pid, excused", [
    ("a", 5, 100, True),            # it ran there
    ("b", 5, 100, True),
    ("a", 5, 999, True),            # it may have been about to begin
    ("b", 5, 999, False),           # on the other host
    ("a", 60, 999, False),          # long after
    ("a", 3, 999, False),           # before
])
def test_a_killed_handler_excuses_one(story, node, at, pid, excused):
    story.push("D1", "D2")
    story.run("D1", 1, None)
    story.run("D2", 1, pid=300)
    story.hit("kill_handler", 4, node="a", pid=pid)
    story.escaped([("D1", "HandlerSignal", node, at * S)])
    assert problems(story) == ([] if excused else ["lost", "in escape and not designed to be"])
    story.escaped([("D2", "HandlerSignal", node, at * S)])
    assert "in escape and not designed to be" in problems(story)


def test_a_handler_may_be_killed_before_it_wrote_anything(story):
    story.push("D1")
    story.hit("kill_handler", 4, pid=999)
    story.escaped([("D1", "HandlerSignal", "a", 5 * S)])
    assert problems(story) == []


def test_what_was_remembered_is_forgotten(story):
    story.push("D1", "D2")
    story.run("D1", 1)
    story.take("D2", 1)
    story.noted([(sha1("D1"), "q", "redelivered=1"), (sha1("D2"), "q", "attempts=1")])
    assert problems(story) == ["remembered of what nobody took", "remembered in words that nobody knows"]


# ---- the end ----

def test_what_is_left_at_the_end(story):
    assert problems(story, **{"leases": ["transit:q:lease:a"], "left in Redis": []}) == ["leases"]


def test_an_end_that_nobody_saw(story):
    story.push("d1", "f2")
    story.run("d1", 1)
    verdict = check(story, 1.0)
    assert verdict.problems == ["nobody looked at what is left"] and verdict.counts["lost"] == "unknown"
