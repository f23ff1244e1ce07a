"""What a sweeper says by rule, each time with a supervisor of its own and an empty Redis: bounds of dead letters with an archive and
without, copies of records, stamps, ttl, purge of what waits, is delayed and is orphaned, history, health."""
import shutil
import signal

from crashpoints.letters import Copies, Letters
from crashpoints.waiting import History, Orphans, Waiting, header, OLD_S
from ledger import Wrong, until
from place import Lane

BODIES = {"rules": "exit 1"}        # which nobody runs


class Sums:
    """All checks of one cycle."""

    def __init__(self):
        self.parts = []

    def is_settled(self):
        return all([part.settled() for part in self.parts])

    def check(self):
        wrong = [text for part in self.parts for text in part.lost() + part.wrong(True)]
        if wrong:
            raise Wrong("; ".join(wrong))
        return 0

    def clear(self):
        self.parts = []

    def __str__(self):
        return f"not settled: {[vars(part) for part in self.parts if not part.settled()]}"


class RulesLane(Lane):
    def __init__(self, number, place):
        super().__init__("rules", place, Sums(), f"{place.tag}:sweeper", ("sweeper_died", "archive_"))
        self.archive = place.dir / "archive"
        self.archive.mkdir()
        letters = {"mail": {"max_entries": 2, "archive": self.archive, "archive_size": "1K"}, "capped": {"max_entries": 2, "discard": True},
                   "aged": {"ttl": "1h", "discard": True}, "copied": {"forward_to": "failures"}}
        sections = [{"name": name, "dead_letter": letter} for name, letter in letters.items()]
        sections += [{"name": "failures"}, {"name": "brief", "ttl": "1s"}, {"name": "old"}, {"name": "worked", "done": {"keep": 100, "max_age": "1s"}}]
        place.start([{**section, "handler": [place.handler("rules")], "workers": 0} for section in sections],
                    purge={"enabled": True, "interval": "1s", "max_orphaned_age": "1h"}, health={"enabled": True, "interval": "1s"})
        place.daemon.stop(signal.SIGQUIT)

    def log(self):
        return self.place.daemon.lines[self.heard:]

    def clear(self):
        self.heard = len(self.place.daemon.lines)
        self.queue.clear()

    # ---- what was there before ----

    def _letters(self, c):
        mail, capped, aged, copied = Letters(c, "mail", 2, self.archive), Letters(c, "capped", 2), Letters(c, "aged", 1), Letters(c, "copied", 3)
        for letters in (mail, capped):
            letters.fill(*[b"m%d" % (i // 2) for i in range(8)], alone=[b"alone", b"m1"], orphans=[b"gone"])
        aged.fill(b"old", b"older", ms=(c.time()[0] - OLD_S) * 1000)
        aged.fill(b"young")
        copied.fill(b"c1", b"c2", b"c3")
        return [mail, capped, aged, copied, Copies(c, "copied", "failures", [i for i, _ in copied.records()])]

    def _waiting(self, c):
        brief, old = Waiting(c, "brief"), Waiting(c, "old")
        brief.push({m: "TTLExpired" for m in (b"plain", b"quredis/1 w=zz\nx", b"last")})
        old.push({header(c, b"o%d" % i): "DeadlineExceeded" for i in range(2)}, [header(c, b"young", 60), b"y"])
        late = header(c, b"late")
        c.zadd("quredis:of:ingress:old:delayed", {late: (c.time()[0] + 3600) * 1000})
        old.leave[late] = "DeadlineExceeded"
        c.xadd("escape:worked:log", {"sha1": "0" * 40}, id=f"{(c.time()[0] - OLD_S) * 1000}-1")
        young = c.xadd("escape:worked:log", {"sha1": "1" * 40})
        return [brief, old, History(c, "worked", 3), Orphans(c, "worked", [young])]

    # ---- the cycle ----

    def cycle(self):
        c, d = self.place.client, self.place.daemon
        self.place.proxy.cut()                  # nothing of the last one arrives in this
        c.flushdb()
        shutil.rmtree(self.archive)
        self.archive.mkdir()
        self.queue.clear()
        self.queue.parts = self._letters(c) + self._waiting(c)
        d.start(wait=False)
        yield from until(self.queue.is_settled)
        yield from until(lambda: not self.place.proxy.asleep())
        d.signal(signal.SIGQUIT)
        yield from until(lambda: not d.running())
        d.wait_exit()
