"""What must hold of a ledger when all is over. Whatever does not is a problem, in words.

A *duplicate* is a run that no rule of the load asks for: of each attempt of a message one run is due, and a
higher attempt is due if one before it ended with "again" or "failed". A duplicate is *explained* by a run of the
same message whose worker or handler was hit by a fault in the ledger, one that can have such an effect,
after the first run began and before the second did; each run hit explains one duplicate. A cut connection, a Redis that
was killed, a full one, a killed sweeper, a reload explain nothing; a stop that waits only if something else happened meanwhile.

What another program takes from a shared queue is done by it, and is the last run there is of that message. Such queues know one
attempt: if its handler is killed with nothing else in it, a message may escape, one for each kill. What is remembered beside their
messages is gone at the end, but for those that were taken.
"""
import collections
import re
import sys

from .ledger import Ledger
from .load import FAILING, LOADS

Run = collections.namedtuple("Run", "name pid at_us attempt told node worker outcome")

SLACK_US = 3_000_000            # how long what was hit may still begin something: kill_grace, and a slow machine
OF_A_HANDLER = {"kill_handler", "crash"}
OF_A_WORKER = {"kill_worker", "stop_worker", "poison", "fenced"}
OF_A_HOST = {"kill_master", "kill_tree", "stop_tree", "stall", "drain", "fast_stop"}
AT_LEAST_A_LEASE = {"stop_worker", "stop_tree", "stall"}        # shorter ones have no such effect
LEASES = 3                      # how long at most somebody stands still
_NOTED = r"(crashes|redelivered|outages|solo|fresh)=\d+"       # attempts and times would need to travel with a message
NOTE = re.compile(f"{_NOTED}( {_NOTED})*")

COUNTS = ("pushed", "done", "escaped", "escaped after a kill of their handler", "taken by another program",
          "notes left of these", "lost", "duplicates, explained", "duplicates, unexplained", "duplicates of equal messages",
          "marked, but the first run", "runs", "pushes refused", "pushes in doubt")


class Verdict:
    def __init__(self):
        self.problems = []
        self.counts = dict.fromkeys(COUNTS, 0)
        self.faults = collections.Counter()
        self.explained_by = collections.Counter()

    def problem(self, what, names):
        names = sorted(names)
        if names:
            self.problems.append(f"{what}: {len(names)}: {' '.join(map(str, names[:10]))}{' ...' if len(names) > 10 else ''}")
        return len(names)


def check(ledger, lease_s):
    verdict, fates, escaped, taken = Verdict(), _fates(ledger), list(ledger.in_escape()), list(ledger.takings())
    chance = [e for e in escaped if e.why == "HandlerSignal" and e.name[0].isupper() and e.name[0] not in FAILING]
    runs = _Runs(ledger, taken, {e.name for e in chance})
    faults = ledger.faults()
    verdict.faults.update(f.kind for f in faults)
    verdict.faults.update(runs.own_faults())
    ends = _Ends(escaped, taken, _by_chance(chance, runs, faults, lease_s))
    verdict.problem("of a shared queue, and tried a second time", runs.second)
    _check_messages(verdict, fates, runs, ends, ledger.ended() is not None)
    _check_escaped(verdict, fates, ends)
    _check_duplicates(verdict, fates, runs, _Faults(faults, runs, lease_s))
    _check_alone(verdict, runs, faults)
    _check_notes(verdict, ledger, {t.sha1 for t in taken})
    _check_end(verdict, ledger.ended())
    return verdict


# ---- what was written down ----

def _fates(ledger):
    """name -> Counter of the answers to its pushes: ack, refused, doubt."""
    fates = {}
    for line in ledger.lines("pushes"):
        name, fate = line.split(" ")
        if name not in fates and fate == "ack":
            fates[name] = _ONE
        else:
            fates[name] = fates.get(name, _NONE) + collections.Counter([fate])
    return fates


_ONE, _NONE = collections.Counter(ack=1), collections.Counter()       # nearly all are the first: one object for them


class _Runs:
    """For most messages this keeps only that they were done; for those that ran more than once, every run."""

    def __init__(self, ledger, taken, besides):
        self.begun, self.done, self.outcomes, self.own = collections.Counter(), collections.Counter(), collections.Counter(), []
        self.second = []
        for line in ledger.lines("runs"):
            what, name, *rest = line.split(" ")
            if what == "b":
                self.begun[name] += 1
                if rest[1] != "1" and name[0].isupper():
                    self.second.append(name)
            elif what == "e":
                self.outcomes[rest[1]] += 1
                if rest[1] == "ok":
                    self.done[name] += 1
                elif rest[1] in ("crash", "poison"):
                    self.own.append((rest[1], rest[0], int(rest[2])))
        again = {name for name, n in self.begun.items() if n > 1} | besides | {t.name for t in taken}
        self.of = collections.defaultdict(list)
        self.told_first = 0
        self._read_again(ledger, again)
        for t in taken:
            self.of[t.name].append(Run(t.name, 0, t.at_us, 1, False, None, 0, "taken"))

    def _read_again(self, ledger, names):
        outcomes, begun = {}, []
        self.last_sign_us = {}                          # run of a k -> when
        self.worker_of = {}
        own = {run for _, run, _ in self.own}
        for line in ledger.lines("runs"):
            words = line.split(" ")
            if words[0] == "b" and words[2] in own:
                self.worker_of[words[2]] = int(words[6])
            if words[1] not in names:
                self.told_first += words[0] == "b" and words[4] == "1"
            elif words[0] == "b":
                begun.append(words[1:])
            elif words[0] == "e":
                outcomes[words[2]] = words[3]
            if words[1] in names and words[1][0] == "k" and words[0] in "te":
                self.last_sign_us[words[2]] = int(words[-1])
        for name, run, attempt, told, incarnation, worker in begun:
            pid, at = run.split(":")
            self.of[name].append(Run(name, int(pid), int(at), int(attempt), told == "1", incarnation.split(".")[0], int(worker),
                                     outcomes.get(run)))

    def own_faults(self):
        return [kind for kind, _, _ in self.own]


# ---- nothing lost, nothing invented, nothing damaged ----

class _Ends:
    """name -> how often it escaped, by_chance in spite of what its letter says; how often it was taken."""

    def __init__(self, escaped, taken, by_chance):
        self.escaped = escaped
        self.out = collections.Counter(e.name for e in escaped)
        self.by_chance, self.taken = collections.Counter(by_chance), collections.Counter(t.name for t in taken)

    def of(self, name, n, done):
        """Returns (taken, by chance, escaped, done) for n pushes of a message. The sum is n if no message is lost."""
        ends, fails = [], name[0] in FAILING
        for end in (self.taken[name], self.by_chance[name], self.out[name] if fails else 0, 0 if fails else done):
            ends.append(min(end, n - sum(ends)))
        return ends


def _by_chance(escaped, runs, faults, lease_s):
    """Names of messages whose handler was killed: one for each kill. Messages that are known to have run in it come first."""
    left, out = [f for f in faults if f.kind == "kill_handler"], []

    def ran_there(f, e):
        return any(r.pid == f.pid for r in runs.of.get(e.name, ()))

    def may_have(f, e):
        return f.node == e.node and f.from_us <= e.at_us <= f.to_us + SLACK_US + LEASES * lease_s * 1e6
    for fits in (ran_there, may_have):
        for e in list(escaped):
            f = next((f for f in left if fits(f, e)), None)
            if f:
                left.remove(f)
                escaped.remove(e)
                out.append(e.name)
    return out


def _check_messages(verdict, fates, runs, ends, looked):
    pushed = {name: f["ack"] for name, f in fates.items() if f["ack"]}
    became = {name: ends.of(name, n, runs.done[name]) for name, n in pushed.items()}
    taken, by_chance, escaped, done = map(sum, zip(*became.values())) if became else [0] * 4
    verdict.counts["pushed"] = sum(pushed.values())
    verdict.counts["pushes in doubt"] = sum(f["doubt"] for f in fates.values())
    verdict.counts["pushes refused"] = sum(f["refused"] for f in fates.values())
    verdict.counts["runs"] = sum(runs.begun.values())
    verdict.counts["taken by another program"] = taken
    verdict.counts["done"] = done
    verdict.counts["escaped"], verdict.counts["lost"] = "unknown", "unknown"
    if looked:
        verdict.counts["escaped"], verdict.counts["escaped after a kill of their handler"] = escaped, by_chance
        verdict.counts["lost"] = verdict.problem("lost", [name for name, n in pushed.items() if sum(became[name]) < n])
    possible = {name for name, f in fates.items() if f["ack"] + f["doubt"]}
    verdict.problem("run, and never pushed", set(runs.begun) - possible)
    verdict.problem("in escape, and never pushed", set(ends.out) - possible)
    verdict.problem("taken, and never pushed", set(ends.taken) - possible)
    verdict.problem("damaged", ["runs"] * runs.outcomes["damaged"])


def _check_escaped(verdict, fates, ends):
    gone = ends.out + ends.taken
    verdict.problem("in escape and not designed to be", [name for name, n in ends.out.items() if name[0] not in FAILING and n > ends.by_chance[name]])
    verdict.problem("more often in escape than pushed", [name for name, n in gone.items() if n > fates.get(name, _NONE)["ack"] + fates.get(name, _NONE)["doubt"]])
    verdict.problem("in escape without a record", [e.name for e in ends.escaped if e.why is None])
    verdict.problem("in escape with a class that is not theirs", [f"{e.name}:{e.why}" for e in ends.escaped
                                                                  if e.why and e.why not in FAILING.get(e.name[0], {e.why})])


# ---- duplicates ----

class _Faults:
    """The faults that can cause a duplicate, indexed by the process that they hit."""

    def __init__(self, faults, runs, lease_s):
        self._by = collections.defaultdict(list)
        self.handlers_killed = [f for f in faults if f.kind == "kill_handler"]
        for f in faults:
            if f.kind in AT_LEAST_A_LEASE and f.to_us - f.from_us < lease_s * 1e6 or f.kind == "drain" and _is_undisturbed(f, faults):
                continue
            if f.kind in OF_A_HANDLER | OF_A_WORKER:
                self._by[f.kind in OF_A_HANDLER, f.pid].append(f)
            elif f.kind in OF_A_HOST:
                self._by[f.node].append(f)
        for kind, run, at in runs.own:
            pid = int(run.split(":")[0]) if kind == "crash" else runs.worker_of[run]
            self._by[kind == "crash", pid].append(collections.namedtuple("Own", "kind from_us to_us")(kind, at, at))

    def that_hit(self, run, before_us):
        """The first fault that can have taken this message from its worker, so that it ran elsewhere from before_us on."""
        found = [f for key in ((True, run.pid), (False, run.worker), run.node) for f in self._by.get(key, ())
                 if f.from_us <= before_us and f.to_us + SLACK_US >= run.at_us]
        return min(found, key=lambda f: f.from_us, default=None)

    def that_charged(self, run, runs):
        """A kill of the handler before it wrote down the beginning of its run, so that the previous attempt is in no record."""
        if any(r.attempt == run.attempt - 1 for r in runs):
            return None
        since = max((r.at_us for r in runs if r.at_us < run.at_us), default=run.at_us)
        return next((f for f in self.handlers_killed if f.node == run.node and since <= f.to_us and f.from_us <= run.at_us), None)


def _is_undisturbed(drain, faults):
    """Whether a stop that waits was undisturbed: then it settles every running message."""
    return not any(f for f in faults if f is not drain and f.from_us <= drain.to_us and drain.from_us <= f.to_us)


def duplicates(runs):
    """The runs of one message that were not due, in the order of their beginnings."""
    runs = sorted(runs, key=lambda r: r.at_us)
    again = {r.attempt + 1 for r in runs if r.outcome in ("retry", "fail")} | {runs[0].attempt}
    out, seen = [], set()
    # the one nobody was told of is the one that was due; another program is never told, and what it takes is due if nothing ran
    for r in sorted(runs, key=lambda r: (r.outcome == "taken", r.told, r.at_us)):
        if r.attempt in seen or r.attempt not in again:
            out.append(r)
        seen.add(r.attempt)
    return sorted(out, key=lambda r: r.at_us)


def explain(runs, faults):
    """Returns [(duplicate, fault or None)]. Each explanation uses another run that a fault hit."""
    extra = duplicates(runs)
    hits = [{i: f for i, q in enumerate(runs) if q is not r and (f := faults.that_hit(q, r.at_us))} for r in extra]
    taken = {}                      # index of a run that was hit -> index of the duplicate it explains

    def place(d, tried):
        for i in hits[d]:
            if i not in tried:
                tried.add(i)
                if i not in taken or place(taken[i], tried):
                    taken[i] = d
                    return True
        return False
    for d in range(len(extra)):
        place(d, set())
    by = {d: hits[d][i] for i, d in taken.items()}
    return [(r, by.get(d) or faults.that_charged(r, runs)) for d, r in enumerate(extra)]


def _equal_ones(fates, runs, name):
    """Equal messages cannot be distinguished: as many runs as pushes are due, and all others must be marked as redelivered. In a shared queue
    another run may be marked instead, since equal messages share a note; one that another program takes is never marked."""
    most = fates[name]["ack"] + fates[name]["doubt"]
    untold = [r for r in runs if not r.told and r.attempt == 1]
    instead = name[0] == "E" and any(r.told or r.attempt > 1 for r in runs if r.outcome != "taken")
    return max(0, len(runs) - most), len(untold) > most and not instead


def _check_duplicates(verdict, fates, runs, faults):
    untold, unexplained = [], []
    for name, of in runs.of.items():
        if name[0] in "eE":
            extra, wrong = _equal_ones(fates, of, name)
            verdict.counts["duplicates of equal messages"] += extra
            untold += [name] * wrong
            continue
        silent = collections.Counter(r.attempt for r in of if not r.told and r.outcome != "taken")
        if max(silent.values(), default=0) > 1:
            untold.append(name)
        for r, fault in explain(of, faults):
            verdict.counts["duplicates, explained" if fault else "duplicates, unexplained"] += 1
            if fault:
                verdict.explained_by[fault.kind] += 1
            else:
                unexplained.append(f"{name}@{r.at_us}")
    verdict.counts["marked, but the first run"] = runs.told_first
    verdict.problem("run twice, and not told so", untold)
    verdict.problem("duplicates without a fault that explains them", unexplained)


def _check_alone(verdict, runs, faults):
    """With fence = "kill" the previous run is over. Only if the whole host stood still can it continue for a moment."""
    frozen = [f for f in faults if f.kind == "stop_tree"]
    both = []
    for name, of in runs.of.items():
        of = sorted(of, key=lambda r: r.at_us) if name[0] == "k" else []
        for before, after in zip(of, of[1:]):
            until = runs.last_sign_us.get(f"{before.pid}:{before.at_us}", before.at_us)
            if until > after.at_us and not any(f.node == before.node and f.from_us <= until and f.to_us + SLACK_US >= until for f in frozen):
                both.append(name)
    verdict.problem("run twice at a time", both)


# ---- the end ----

def _check_notes(verdict, ledger, taken):
    left = [line.split(" ", 2) for line in ledger.lines("noted")]
    verdict.counts["notes left of these"] = sum(sha1 in taken for sha1, _, _ in left)
    verdict.problem("remembered of what nobody took", [f"{q}:{sha1}" for sha1, q, _ in left if sha1 not in taken])
    verdict.problem("remembered in words that nobody knows", [f"{q}:{note}" for _, q, note in left if not NOTE.fullmatch(note)])


def _check_end(verdict, end):
    if end is None:
        verdict.problems.append("nobody looked at what is left")
        end = {}
    for what, found in end.items():
        verdict.problem(what, found)


if __name__ == "__main__":
    of = Ledger(sys.argv[1])
    judged = check(of, float(sys.argv[2]) if len(sys.argv) > 2 else 1)
    print(dict(judged.faults), dict(judged.counts), dict(judged.explained_by), *judged.problems, sep="\n")
    sys.exit(1 if judged.problems else 0)
