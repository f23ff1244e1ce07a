"""What waits in a queue that nobody works on, some of it for too long; and a history that gets old."""
import collections

from harness.messages import anywhere, unwrap

OLD_S = 2 * 24 * 3600


def header(client, message, age_s=OLD_S, **keys):
    """A message that its producer says is so old."""
    keys["enqueued"] = (client.time()[0] - age_s) * 1000
    return ("quredis/1 " + " ".join(f"{k}={v}" for k, v in keys.items()) + "\n").encode() + message


class Waiting:
    """leave: message -> class of the record with which it escapes. stay: messages that do not."""

    def __init__(self, client, name):
        self.client, self.name, self.leave, self.stay = client, name, {}, set()

    def push(self, leave=None, stay=()):
        """In turn."""
        leave = leave or {}
        pairs = [m for pair in zip(leave, stay) for m in pair]
        self.client.lpush(f"ingress:{self.name}", *pairs, *list(leave)[len(stay):], *list(stay)[len(leave):])
        self.leave.update(leave)
        self.stay.update(stay)

    def _there(self):
        return collections.Counter(unwrap(m)[1] for m in anywhere(self.client, self.name))

    def _escaped(self):
        return collections.Counter(self.client.lrange(f"escape:{self.name}", 0, -1))

    def settled(self):
        return self._escaped() == collections.Counter(self.leave.keys())

    def lost(self):
        return [f"{self.name}: {m!r}" for m in {*self.leave, *self.stay} - {*self._there(), *self._escaped()}]

    def wrong(self, faulty):
        there, escaped = self._there(), self._escaped()
        found = [f"{m!r} {n} times" for m, n in (there + escaped).items() if n > 1]
        found += [f"{m!r} escaped" for m in escaped if m not in self.leave] + [f"{m!r} still waits" for m in there if m not in self.stay]
        records = collections.Counter((f[b"sha1"], f[b"error_class"].decode()) for _, f in self.client.xrange(f"escape:{self.name}:log"))
        if sorted(c for _, c in records) != sorted(self.leave.values()) or len(records) != len(self.leave):
            found.append(f"records {dict(records)}")
        return [f"{self.name}: {text}" for text in found]


class History:
    """Of what was done, all of it too old: with its last entry the key goes."""

    def __init__(self, client, name, n):
        self.client, self.key = client, f"quredis:of:ingress:{name}:done"
        for i in range(n):
            client.xadd(self.key, {"id": f"old{i}"}, id=f"{(client.time()[0] - OLD_S) * 1000}-{i + 1}")

    def settled(self):
        return not self.client.exists(self.key)

    def lost(self):
        return []

    def wrong(self, faulty):
        return [] if self.settled() else [f"{self.key} is there"]


class Orphans:
    """Records of escape whose message is gone."""

    def __init__(self, client, name, kept):
        self.client, self.log, self.kept = client, f"escape:{name}:log", [i.decode() for i in kept]

    def _ids(self):
        return [i.decode() for i, _ in self.client.xrange(self.log)]

    def settled(self):
        return self._ids() == self.kept

    def lost(self):
        return [f"record {i} is gone" for i in set(self.kept) - set(self._ids())]

    def wrong(self, faulty):
        return [f"record {i} is still there" for i in set(self._ids()) - set(self.kept)]
