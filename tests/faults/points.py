"""Where a conversation with Redis can be broken: what was recorded, the points that follow from it, and the tap that breaks it."""
import collections
import hashlib
import time

from harness.redis_proxy import CUT, SCRIPTS, Tap
from harness.resp import sort_of

OFTEN = 3               # of what is said again and again, the first so many times
WHOLE = 200             # of longer answers not every byte, but the first and the last EDGE and each STEP-th
EDGE, STEP = 32, 61
STALL_S = {"stall": 1.6, "silence": 7.0}        # longer than the lease; longer than an answer may take
PIECES = (1, 2, 3, 7)   # bytes
SHOWN = 120             # commands and answers that are shown of a point that went wrong

# what: "before" the command; in the "answer", `byte` bytes into it; "stall", "silence": nothing passes for a while once Redis has
# it; "pieces": no fault, but answers come `byte` bytes at a time, all through a cycle
Point = collections.namedtuple("Point", "label sort nth what byte")
KINDS = ("before", "answer", "stall", "silence", "pieces")


def label_of(role, words):
    """"EVALSHA retry", "EVALSHA return note", "CLIENT ID", "unblock CLIENT ID": one sort of command."""
    name = words[0].decode().upper()
    if name == "EVALSHA":
        name += " " + SCRIPTS.get(words[1], "?")
        if words[2] == b"9":
            name += " again"                    # renew, in place of another incarnation
        if any(key.endswith(b":notes") for key in words[3:3 + int(words[2])]):
            name += " note"
    elif name == "SCRIPT":
        name += " " + SCRIPTS.get(hashlib.sha1(words[2]).hexdigest().encode(), "?")
    elif name in ("CLIENT", "INFO"):
        name += " " + words[1].decode().upper()
    return role + name


class Talk:
    """The commands of one process to Redis, over all its connections. With `point` the connection breaks there, once."""

    def __init__(self):
        self.begin()

    def begin(self, point=None):
        self.point, self.fired = point, False
        self.commands = collections.Counter()           # label -> how many
        self.answers = collections.defaultdict(list)    # label, sort -> their lengths
        self.begun, self.trace = time.monotonic(), []

    def opened(self, pair):
        if self.point and self.point.what == "pieces":
            pair.slice, self.fired = self.point.byte, True

    def command(self, label):
        self.commands[label] += 1
        self._note(label)
        p = self.point
        if not p or self.fired or p.label != label or p.what == "answer" or p.nth != self.commands[label]:
            return None
        self._fire()
        return CUT if p.what == "before" else STALL_S[p.what]

    def answer(self, label, reply):
        sort = sort_of(reply)
        self.answers[label, sort].append(len(reply))
        self._note(f"-> {label}: {sort}")
        p = self.point
        if not p or self.fired or (p.label, p.sort, p.what) != (label, sort, "answer") or p.nth != len(self.answers[label, sort]):
            return None
        self._fire()
        return min(p.byte, len(reply))

    def _fire(self):
        self.fired = True
        self._note("BROKEN")

    def _note(self, what):
        self.trace.append((time.monotonic() - self.begun, what))

    def shown(self):
        """The commands and answers around the point, without the text of scripts."""
        lines = [f"{at:.3f} {what}" for at, what in self.trace if "SCRIPT" not in what]
        at = next((i for i, line in enumerate(lines) if line.endswith("BROKEN")), 0)
        return lines[max(0, at - SHOWN // 3):][:SHOWN]


class Talks(Tap):
    """By the name of the connection: "quredisd:NODE:mail/0"."""

    def __init__(self):
        self.talks = {}

    def request(self, pair, words):
        if words[:2] == [b"CLIENT", b"SETNAME"]:
            # the connection for CLIENT UNBLOCK is named like the other, but loads no scripts
            pair.role = "" if b"SCRIPT" in pair.requests else "unblock "
            pair.talk = self.talks.get(pair.name.decode().split(":", 1)[1])
            if pair.talk:
                pair.talk.opened(pair)
        talk = getattr(pair, "talk", None)
        return talk and talk.command(label_of(pair.role, words))

    def reply(self, pair, words, reply):
        talk = getattr(pair, "talk", None)
        return talk and talk.answer(label_of(pair.role, words), reply)


def bytes_of(length):
    """Where an answer of so many bytes is cut: 0 is before the first, `length` after the last."""
    if length <= WHOLE:
        return range(length + 1)
    return [*range(EDGE + 1), *range(EDGE + STEP, length - EDGE, STEP), *range(length - EDGE, length + 1)]


def merge(records):
    """Of several recordings, which are never quite the same: label -> how often at least, where it was said at all;
    (label, sort) -> lengths of so many answers."""
    commands, answers = {}, {}
    for said, heard in records:
        for label, n in said.items():
            commands[label] = min(n, commands.get(label, n))
        for key, lengths in heard.items():
            answers[key] = [max(both) for both in zip(lengths, answers.get(key, lengths))]
    return commands, answers


def points_of(record, known=()):
    """All points of a conversation, without those in `known`."""
    commands, answers = record
    out = [Point("", "", 0, "pieces", n) for n in PIECES]
    for label, n in sorted(commands.items()):
        for nth in range(1, min(n, OFTEN) + 1):
            out += [Point(label, "", nth, what, 0) for what in ("before", *STALL_S)]
    for (label, sort), lengths in sorted(answers.items()):
        for nth, length in enumerate(lengths[:OFTEN], 1):
            out += [Point(label, sort, nth, "answer", byte) for byte in bytes_of(length)]
    if not known:
        return out
    there = {(p.label, p.sort) for p in known}
    return [p for p in out if p.label and (p.label, p.sort) not in there]
