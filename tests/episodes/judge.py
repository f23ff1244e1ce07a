"""What is wrong with an episode. Pure: everything it knows is in Seen."""
import collections
from typing import NamedTuple

from harness.queues import sha1

from .faults import FAULTS
from .load import MAY_ESCAPE, MUST_ESCAPE, name_of


class Run(NamedTuple):
    name: str
    attempt: int
    redelivered: bool
    pid: int


class Seen(NamedTuple):
    pushed: dict            # name -> load.Pushed
    alive: set              # names whose push Redis has acknowledged and not forgotten
    runs: list              # Run
    done: set               # names of messages that ended with ok
    strange: list           # lines of the ledger: payloads that no producer pushed
    escaped: list           # (queue, message as it lies there)
    records: list           # (queue, class, SHA-1 of the message)
    faults: list            # names of those that happened
    fenced: set             # queues with fence = "kill"


def _classes(push, charges):
    """The classes with which a message may escape. A shared queue has one attempt, so a fault that charges ends it."""
    killed = {"HandlerSignal"} if charges and push.queue == "shared" else set()
    return {**MUST_ESCAPE, **MAY_ESCAPE}.get(push.kind, set()) | killed


def _escapes(seen):
    """Dead letters that should not be there, have other bytes, or are there twice; and those that are missing."""
    wrong, classes = [], {digest: of_class for _, of_class, digest in seen.records}
    back, charges = (any(getattr(FAULTS[f], a) for f in seen.faults) for a in ("back", "charges"))
    times = collections.Counter(name_of(m) for _, m in seen.escaped)
    for queue, message in seen.escaped:
        name = name_of(message)
        push = seen.pushed.get(name)
        if push is None:
            wrong.append(f"{queue}: a dead letter that was never pushed: {message[:80]!r}")
        elif (queue, message) != (push.queue, push.message):
            wrong.append(f"{name} of {push.queue} lies in escape of {queue} with other bytes: {message[:120]!r}")
        elif (found := classes.get(sha1(message))) not in _classes(push, charges):
            wrong.append(f"{name} ({push.kind}) of {push.queue} escaped as {found}")
    wrong += [f"{name} is in escape {n} times" for name, n in times.items() if n > 1 and not back]
    if len(seen.escaped) != len(seen.records):
        wrong.append(f"{len(seen.escaped)} dead letters and {len(seen.records)} records")
    wrong += [f"{name} ({seen.pushed[name].kind}) is not in escape" for name in sorted(seen.alive)
              if seen.pushed[name].kind in MUST_ESCAPE and name not in times and not back]
    return wrong


def _lost(seen):
    escaped = {name_of(m) for _, m in seen.escaped}
    return [f"LOST: {name} ({seen.pushed[name].kind}) of {seen.pushed[name].queue}; runs: {[r for r in seen.runs if r.name == name]}"
            for name in sorted(seen.alive) if name not in seen.done and name not in escaped]


def _neighbours_die(seen, queue):
    """Whether a handler of the queue may die while it has messages of others."""
    return queue == "stay" and any(p.queue == queue and p.kind in "cl" for p in seen.pushed.values())


def _charged(seen):
    """Attempts that nothing explains. A retry and a failure count one each."""
    if any(FAULTS[f].charges for f in seen.faults):
        return []
    most = {"r": 2, "f": 2, "c": 2}
    attempts = {}
    for r in seen.runs:
        attempts[r.name] = max(r.attempt, attempts.get(r.name, 0))
    return [f"CHARGED: {name} ({push.kind}) of {push.queue} ran with attempt {attempts[name]}"
            for name, push in seen.pushed.items() if attempts.get(name, 0) > most.get(push.kind, 1)]


def _twice(seen):
    """Second runs of one attempt: unmarked ones never happen without a Redis that went back; any other needs a fault."""
    wrong, back = [], any(FAULTS[f].back for f in seen.faults)
    reruns, silent = (any(getattr(FAULTS[f], a) for f in seen.faults) for a in ("reruns", "silent"))
    by_attempt = collections.defaultdict(list)
    for r in seen.runs:
        by_attempt[r.name, r.attempt].append(r)
    for (name, attempt), runs in by_attempt.items():
        push = seen.pushed.get(name)
        if push is None or back:
            continue
        if sum(not r.redelivered for r in runs) > 1:
            wrong.append(f"TWICE, UNMARKED: {name} ({push.kind}) of {push.queue}, attempt {attempt}")
        explained = reruns or (silent and push.queue in seen.fenced) or _neighbours_die(seen, push.queue) or push.kind == "c"
        if len(runs) > 1 and not explained:
            wrong.append(f"TWICE WITHOUT A FAULT: {name} ({push.kind}) of {push.queue}, attempt {attempt}, {len(runs)} runs")
    return wrong


def judge(seen):
    wrong = _lost(seen) + _escapes(seen) + _charged(seen) + _twice(seen)
    wrong += [f"a payload that no producer pushed: {line}" for line in seen.strange]
    wrong += [f"ran, but was never pushed: {r.name}" for r in seen.runs if r.name not in seen.pushed]
    return wrong
