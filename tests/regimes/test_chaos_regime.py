"""The chaos regime itself: what it does when nobody is there to be hit, and that it always ends with a verdict."""
import threading

import pytest

from chaos import regime
from chaos.host import Host
from chaos.regime import Actor, Regime, Scale
from harness import wait_for

FEW = Scale(messages=10, kills=12, stops=2, cuts=0, storms=0, orders=0, seconds=1, lease_s=1.0, seed=1)


class Subject:
    """rare: happens to nobody before somebody is there."""

    def __init__(self):
        self.seen, self.there = [], threading.Event()

    def rare(self):
        self.seen.append("rare" if self.there.is_set() else "in vain")
        return self.there.is_set()

    def usual(self):
        self.seen.append("usual")

    def broken(self):
        raise AssertionError("it broke")

    def up(self):
        pass


@pytest.fixture
def act():
    """act(deck, more) -> (its subject, its actor), which is through or has failed."""
    actors = []

    def make(deck, more=None):
        subject = Subject()
        actors.append(Actor(subject, deck, lambda share: True, more and more(subject) or subject.there.set))
        actors[-1].start()
        wait_for(lambda: actors[-1].progress() == 1 or actors[-1].failure)
        return subject, actors[-1]
    yield make
    for actor in actors:
        actor.leave()


def test_what_finds_nobody_comes_later_and_asks_for_more(act):
    subject, actor = act(["rare", "usual", "rare"])
    assert subject.seen == ["in vain", "usual", "rare", "rare"] and not actor.failure


def test_who_never_finds_anybody_gives_up(act, monkeypatch):
    monkeypatch.setattr(regime, "PATIENCE_S", 0.05)
    _, actor = act(["usual", "rare"], lambda subject: lambda: None)
    assert "nobody whom ['rare'] could happen to" in str(actor.failure) and actor.progress() == 0.5


def test_its_failure_is_told(act):
    _, actor = act(["broken", "usual"])
    assert str(actor.failure) == "it broke"


def test_more_is_pushed_than_was_meant_to_be_if_somebody_is_not_found(machine):
    """Otherwise an idle queue would wait for an actor that waits for a target."""
    run = Regime(machine, FEW)
    for host in run.hosts:
        host.up()
    for p in run.producers:
        p.acknowledged = p.target
    assert all(run._allowed() * p.target <= p.target for p in run.producers)
    run._more()
    assert all(run._allowed() * p.target > p.target for p in run.producers)


def test_more_faults_than_messages(machine):
    verdict = Regime(machine, FEW).run()
    print(f"\n{verdict.table}")
    assert verdict.problems == []
    assert verdict.groups["kills"] == 12 and verdict.groups["stops"] == 2 and verdict.counts["pushed"] >= 10


def test_a_run_that_cannot_end_has_a_verdict_and_a_table(machine, monkeypatch):
    def broken(self):
        raise AssertionError("it broke")
    monkeypatch.setattr(Host, "kill_worker", broken)
    verdict = Regime(machine, FEW).run()
    assert "disturb: AssertionError: it broke" in verdict.problems and any(p.startswith("kills: ") for p in verdict.problems)
    assert "lost" in verdict.table and "wall time" in verdict.table
    assert verdict.counts["lost"] == 0
