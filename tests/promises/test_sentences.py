"""Each sentence of the promise in docs/reliability.md, quoted, with what attacks it.

What is no fault by these sentences, and each fault, happens once and twice in a row while a message runs in each mode; a judge looks at the end.
"""
import pathlib
import re

import pytest

from episodes.episode import Episode
from episodes.faults import FAULTS
from harness import ROOT

NO_FAULT = [name for name, f in FAULTS.items() if not f.reruns and not f.back]
A_FAULT = [name for name, f in FAULTS.items() if f.reruns and not f.back]
STOPS = ["drain", "fast_stop", "signal_all", "signal_all_late"]
EVERYTHING = list(FAULTS)

# sentence -> the faults that attack it below, or the tests that do
SENTENCES = {
    "A message whose push Redis acknowledged is not lost.": EVERYTHING,
    "Either its handler succeeds with it, or it is in escape, byte for byte as the producer pushed it, with a record of the reason.": EVERYTHING,
    "A message runs once, unless there is a fault.": NO_FAULT,
    "After a fault it can run again, and its handler sees `QUREDIS_REDELIVERED=1` or a higher `QUREDIS_ATTEMPT`.": A_FAULT,
    "A fault is the death or standstill of a process that has the message in flight, or of its machine.": A_FAULT,
    "The following are not faults, and no message runs twice because of them: a lost connection; a Redis that is killed, full or slow; a reload, "
    "a restart, a pause, a drain.":
        ["cut_connections", "kill_redis", "memory_full", "slow_redis", "deploy", "two_deploys", "restart_queue", "pause", "drain"],
    "Two runs of one message overlap only if its worker had no connection to Redis, or stood still, for longer than `lease` (30 s).":
        ["test_fence.py::test_the_lease_is_renewed_whatever_runs", "test_fence.py::test_finish_lets_it_end"],
    "With `fence = \"kill\"` they do not overlap even then: the first run is dead before the lease can have expired, and the message runs again.":
        ["test_fence.py::test_the_handler_is_dead_before_the_lease_runs_out", "test_fence.py::test_a_worker_that_stands_still"],
    "A message harms only itself.": ["test_poison.py::test_a_handler_that_prints_its_messages_lends_them_no_authority"],
    "A handler may print it: nothing in its bytes answers another message, or ends the handler.":
        ["test_poison.py::test_a_handler_that_prints_its_messages_lends_them_no_authority"],
    "If it ends its handler or holds it up, at once or some time after its answer, it costs its queue a few starts of the handler, and charges no other "
    "message (`tests/promises/test_poison.py`).":
        ["test_poison.py::test_poison_costs_a_constant", "test_poison.py::test_a_neighbour_that_ends_the_handler_later_is_charged_to_nobody",
         "test_poison.py::test_a_neighbour_that_holds_up_the_handler_is_charged_alone"],
    "A message escapes only if its handler failed it, or if it kills its worker again and again (`recovery_attempts`).":
        EVERYTHING,
    "An ordered stop charges no message, even if its SIGTERM reaches every process, in any order, and ends the handlers "
    "(`tests/promises/test_stop_everywhere.py`), or if it ends with a SIGKILL of every process.":
        STOPS + ["test_blame.py::test_a_stop_that_ends_in_sigkill_charges_nobody"],
    "A handler that catches this SIGTERM and exits with another status than 128 + 15 has failed its message.":
        ["test_stop_everywhere.py::test_a_signal_without_a_stop_is_the_messages"],
    "Nor does an address behind which several servers answer in turn.": ["test_blame.py::test_two_servers_behind_one_address"],
    "An outage of a whole supervisor, or the standstill of a worker, charges at most one message, and the first two outages of a message do not charge it "
    "(`tests/promises/test_blame.py`).":
        ["kill_tree", "test_blame.py::test_a_worker_that_stands_still_charges_nobody",
         "test_blame.py::test_workers_that_die_together_charge_nobody", "test_blame.py::test_a_message_that_kills_its_container_is_found"],
    "After a worker crashes, the messages that it had in flight run again: at most two batches, about `batch.time` (20 ms) of work; "
    "with `batch = { max = 1; }` one message.":
        ["kill_worker", "test_kill.py::test_workers_killed_at_random_under_load"],
    "What a handler emits (`emit`) is pushed in the step that acknowledges its message: both or neither.":
        ["test_emit.py::test_what_is_emitted_is_pushed_with_the_acknowledgement", "test_emit.py::test_other_verdicts_emit_nothing",
         "test_emit.py::test_a_death_emits_nothing", "test_emit.py::test_a_target_of_another_type_fails_the_attempt",
         "test_emit.py::test_where_memory_is_full_it_waits"],
    "So it is pushed once for each message that is done, also if a worker, a connection or Redis dies at any point, and if the message runs twice; "
    "not if Redis loses that step, as it may lose any acknowledged write: then the message is in its tray again (`tests/promises/test_emit.py`).":
        ["test_emit.py::test_a_worker_that_dies_before_the_move_emits_once", "test_emit.py::test_a_lost_connection_emits_once",
         "test_emit.py::test_a_message_that_another_process_took_emits_nothing"],
}


def _promise():
    """The sentences of the section, without its marks."""
    text = (ROOT / "docs/reliability.md").read_text().split("## The promise\n")[1].split("\n## ")[0]
    text = re.sub(r"^\d+\. ", "", text, flags=re.MULTILINE).replace("**", "")
    return re.findall(r"[A-Z].*?[.](?=\s+[A-Z]|$)", " ".join(text.split()))


def test_each_sentence_is_quoted_here():
    assert _promise() == list(SENTENCES)


def test_what_attacks_them_exists():
    here = pathlib.Path(__file__).parent
    for sentence, attacks in SENTENCES.items():
        assert attacks, sentence
        for attack in attacks:
            file, _, test = attack.partition("::")
            assert attack in FAULTS or f"\ndef {test}(" in (here / file).read_text(), f"{attack}: {sentence}"


@pytest.mark.limit(300)
@pytest.mark.parametrize("times", [1, 2], ids=["once", "twice"])
@pytest.mark.parametrize("fault", EVERYTHING)
def test_attack(machine, fault, times):
    """Messages run once where the table of faults says that this is none, are not charged, and end as they should."""
    episode = Episode(machine, f"{fault} {times}", 0, [fault])
    assert episode.attack(fault, times) == []
    assert episode.disturber.counts == {fault: times}
