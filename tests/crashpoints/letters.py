"""Dead letters that a rule applies to, and copies of their records: what was put into escape, and where it must be."""
import base64
import collections
import difflib
import hashlib
import json

from harness.messages import unwrap


FIELDS = {"record", "id", "error_class", "sha1", "size", "archived_at", "reason", "batch"}      # and the message, in one form or the other


def message_of(line):
    return base64.b64decode(line["message_base64"]) if "message_base64" in line else line["message"].encode()


def _sha1(message):
    return hashlib.sha1(message).hexdigest().encode()


def line(record, message, batch, orphan=False):
    """The line of this dead letter in the archive."""
    of_message = {"message": None} if orphan else {"message": message.decode()}
    said = {"record": record, "id": "x", "error_class": "HandlerExit", "sha1": _sha1(message).decode(), "size": len(message), **of_message,
            "archived_at": "2026-11-20T14:31:07.123Z", "reason": "max_entries", "batch": batch, **({"orphan": True} if orphan else {})}
    return json.dumps(said) + "\n"


class Letters:
    """Those of one queue. `stay` of them are to be left; the others are in the archive, or gone if there is none. One that came
    without a record gets one only where something has to leave."""

    def __init__(self, client, name, stay, archive=None):
        self.client, self.name, self.stay, self.archive = client, name, stay, archive
        self.escape, self.log = f"escape:{name}", f"escape:{name}:log"
        self.put, self.alone, self.orphans = collections.Counter(), collections.Counter(), []

    # ---- what was there ----

    def fill(self, *messages, alone=(), orphans=(), ms=None):
        """All at one moment: messages with their records, of that time if it is given; messages alone; records alone."""
        pipe = self.client.pipeline(transaction=True)
        for m in orphans:
            self._record(pipe, m, ms)
        for i, m in enumerate(messages):
            pipe.lpush(self.escape, m)
            self._record(pipe, m, ms and f"{ms}-{i + 1}")
        for m in alone:
            pipe.lpush(self.escape, m)
        answers = pipe.execute()
        self.orphans += [i.decode() for i in answers[:len(orphans)]]
        self.put.update([*messages, *alone])
        self.alone.update(map(_sha1, alone))

    def _record(self, pipe, message, record_id):
        pipe.xadd(self.log, {"id": "x", "error_class": "HandlerExit", "sha1": _sha1(message), "size": len(message), "message": message},
                  id=record_id or "*")

    # ---- what is there now ----

    def listed(self):
        return self.client.lrange(self.escape, 0, -1)

    def records(self):
        return self.client.xrange(self.log)

    def files(self):
        """Of the archive, oldest first."""
        if self.archive is None:
            return []
        found = [p for p in self.archive.iterdir() if p.name.startswith(f"{self.name}@") and p.suffix == ".ndjson"]
        return sorted(found, key=lambda p: (p.name.count("@") == 1, p.name))

    def _texts(self):
        """[(file, bytes)], at a moment in which none was put aside."""
        while True:
            try:
                files = [(p, p.stat().st_ino) for p in self.files()]
                texts = [(p.name, p.read_bytes()) for p, _ in files]
                if files == [(p, p.stat().st_ino) for p in self.files()]:
                    return texts
            except FileNotFoundError:
                continue

    def archived(self):
        """Its lines, of torn ones and such as are none only (file, bytes)."""
        lines = []
        for name, text in self._texts():
            for line in text.splitlines(keepends=True):
                try:
                    lines.append(json.loads(line) if line.endswith(b"\n") else (name, line))
                except ValueError:
                    lines.append((name, line))
        return lines

    def _kept(self):
        return collections.Counter(message_of(a) for a in self.archived() if isinstance(a, dict) and not a.get("orphan"))

    def settled(self):
        """At any moment, too: nothing is removed that is not in the archive. The list is read first, since its way is there."""
        there = collections.Counter(self.listed())
        if self.archive is not None and self.put - there - self._kept():
            self.gone = self.put - there - self._kept()
        return there.total() == self.stay and not self._unpaired()[1]

    gone = collections.Counter()    # seen in neither place once

    def _unpaired(self):
        """Dead letters without a record and records without a dead letter, each by the sha1, in their order."""
        entries, records = [_sha1(m) for m in reversed(self.listed())], [f[b"sha1"] for _, f in self.records()]
        rows = difflib.SequenceMatcher(None, entries, records, autojunk=False).get_opcodes()
        return ([e for what, a, b, _, _ in rows if what != "equal" for e in entries[a:b]],
                [r for what, _, _, a, b in rows if what != "equal" for r in records[a:b]])

    # ---- judgement ----

    def lost(self):
        if self.archive is None:
            return []
        lost = self.put - collections.Counter(self.listed()) - self._kept()
        return [f"{self.name}: {m!r} is neither in escape nor in the archive" for m in lost]

    def wrong(self, faulty):
        found = [f"{m!r} was removed before it was in the archive" for m in self.gone]
        entries, records = self.listed(), self.records()
        if len(entries) != self.stay:
            found.append(f"{len(entries)} dead letters of {self.stay}")
        unrecorded, orphans = self._unpaired()
        if orphans or collections.Counter(unrecorded) - self.alone:
            found.append(f"without a record {unrecorded}, without a dead letter {orphans}")
        found += [f"{m!r} in escape was never put there" for m in collections.Counter(entries) - self.put]
        return [f"{self.name}: {text}" for text in found + (self._wrong_archive(records) if self.archive else [])]

    def _wrong_archive(self, records):
        lines = self.archived()
        found = [f"a line that is none: {a}" for a in lines if not isinstance(a, dict)]
        found += [f"a line lacks {FIELDS - set(a)}" for a in lines if isinstance(a, dict) and FIELDS - set(a)]
        lines = [a for a in lines if isinstance(a, dict)]
        ids, there = collections.Counter(str(a.get("record")) for a in lines), {i.decode() for i, _ in records}
        found += [f"record {i} is in the archive {n} times" for i, n in ids.items() if n > 1]
        found += [f"record {i} is in the archive and in the log" for i in ids if i in there]
        found += [f"{m!r} is in escape and in the archive" for m in self._kept() + collections.Counter(self.listed()) - self.put]
        found += [f"record {i}, without a message, is not in the archive" for i in self.orphans if i not in ids and i not in there]
        found += [f"{p.name} does not belong there" for p in set(self.archive.iterdir()) - set(self.files())]
        return found


class Copies:
    """Of the records of a queue, in another one: each at least once, in their order."""

    def __init__(self, client, name, target, ids):
        self.client, self.target, self.ids = client, target, [i.decode() for i in ids]
        self.forwarded = f"escape:{name}:forwarded"

    def _got(self):
        return [json.loads(unwrap(m)[1])["record"] for m in reversed(self.client.lrange(f"ingress:{self.target}", 0, -1))]

    def settled(self):
        return (self.client.get(self.forwarded) or b"").decode() == self.ids[-1]

    def lost(self):
        return [f"record {i} was not copied to {self.target}" for i in set(self.ids) - set(self._got())]

    def wrong(self, faulty):
        got = self._got()
        found = [] if list(dict.fromkeys(got)) == self.ids else [f"{self.target}: copies in another order, or of others"]
        return found + ([f"{self.target}: {len(got)} copies of {len(self.ids)} records"] if len(got) > len(self.ids) and not faulty else [])
