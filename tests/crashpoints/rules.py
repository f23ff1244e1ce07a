"""Cycles of what the sweeper does by rule: dead letters, what waits too long, history, figures. Its calls are counted."""
from harness import processes, write_handler
from harness.names import why_no_localhost

from .cycle import Cycle
from .letters import Copies, Letters
from .reports import Datagrams, Documents, TextFile
from .waiting import OLD_S, History, Orphans, Waiting, header


class Ruled(Cycle):
    """Beside a queue with a worker, others that only rules apply to."""
    role = "sweeper"
    gated = True
    queues = 1
    others = {}             # as of Ledger

    def __init__(self, lane, fault, whens):
        super().__init__(lane, fault, whens)
        self.ledger.others = self.others
        self.d.write_conf(supervisor={**self.d.sections["supervisor"], "lease": "4s"})        # the lead is asked for eight times in it

    def configuration(self):
        return [*super().configuration(), *({"name": name, "handler": [str(self.handler_path)], "workers": 0, **self.rules(name)}
                                            for name in self.others)]

    def rules(self, name):
        """The keys of one of the other queues."""
        return {}

    def prepare(self):
        self.push("ok a")
        self.fill()

    def drive(self):
        """Calls count from the end of the recovery; the rules begin with the lead, a little later."""
        self.until_logged("queue_recovered", queue=list(self.others)[-1])
        self.count()

    def fill(self):
        """The other queues."""

    def complete(self):
        """Also checks that the sweeper reaped every subprocess."""
        return super().complete() and not processes.zombies_of(self.d.sweeper())


class Archive(Ruled):
    """A cap with an archive: two batches, the file put aside between them; equal ones, ones without a record, records alone."""
    name = "dead letters, archive"
    others = {"mail": []}
    stay = 3

    def rules(self, name):
        self.archive = self.dir / "archive"
        self.archive.mkdir(exist_ok=True)
        return {"dead_letter": {"max_entries": self.stay, "archive": self.archive, "archive_size": "1K"}}

    def letters(self):
        self.sums.append(Letters(self.client, "mail", self.stay, self.archive))
        return self.sums[-1]

    def fill(self):
        self.letters().fill(*[b"m%d" % (i // 2) for i in range(50)], b"\xff\0\n", b"", *[b"n%d" % i for i in range(6)],
                            alone=[b"alone", b"m1"], orphans=[b"gone", b"m2"])


class ArchiveReload(Archive):
    """The same beside a reload: the one of before stays for the worker of before, and lets the archive go."""
    name = "dead letters, reload: the new one"

    @classmethod
    def targets(cls):
        return ["0.3"]

    def prepare(self):
        self.push("ok a", "wait b")

    def drive(self):
        self.until_started("b")
        self.count()
        self.fill()
        self.until(lambda: self.sums[0].files(), "the first batch")
        first, *others = self.d.sections["queues"]
        self.reload({**first, "timeout": "4m"}, *others)
        self.until(lambda: len(self.d.events("lead_taken", queue="mail")) > 1 or self.d.runs > 1, "the lead of the new one")


class ArchivePredecessor(ArchiveReload):
    """The one of before, through the same."""
    name = "dead letters, reload: the old one"

    @classmethod
    def targets(cls):
        return ["0.1"]


class Bounds(Ruled):
    """Dead letters without an archive: by number, by age, and after they were forwarded."""
    name = "dead letters, discard, forward"
    others = {"capped": [], "aged": [], "copied": ["forwarded"], "failures": []}
    letters = {"capped": {"max_entries": 3, "discard": True}, "aged": {"ttl": "1h", "discard": True},
               "copied": {"forward_to": "failures", "max_entries": 2, "discard": True}}

    def rules(self, name):
        return {"dead_letter": self.letters[name]} if name in self.letters else {}

    def fill(self):
        capped, aged, copied = (Letters(self.client, name, stay) for name, stay in (("capped", 3), ("aged", 4), ("copied", 2)))
        copied.fill(*[b"c%d" % i for i in range(60)])
        self.sums += [capped, aged, copied, Copies(self.client, "copied", "failures", [i for i, _ in copied.records()])]
        capped.fill(*[b"m%d" % (i // 2) for i in range(60)], alone=[b"alone", b"m1"], orphans=[b"gone"])
        aged.fill(*[b"old%d" % i for i in range(5)], ms=(self.client.time()[0] - OLD_S) * 1000)
        aged.fill(*[b"young%d" % i for i in range(4)])


class Ages(Ruled):
    """What waits too long, by the time it got and by its own word; what exists too long; records alone; a history."""
    name = "ttl, purge, history"
    others = {"brief": [], "old": [], "worked": ["done"]}
    sections = {"purge": {"enabled": True, "interval": "1s", "max_orphaned_age": "1h"}}

    def rules(self, name):
        return {"brief": {"ttl": "1s"}, "worked": {"done": {"keep": 100, "max_age": "1s"}}}.get(name, {})

    def fill(self):
        brief, old, c = Waiting(self.client, "brief"), Waiting(self.client, "old"), self.client
        c.zadd("quredis:of:ingress:old:delayed", {(late := header(c, b"late")): (c.time()[0] + 3600) * 1000})
        old.leave[late] = "DeadlineExceeded"
        old.push({header(c, b"o%d" % i): "DeadlineExceeded" for i in range(3)}, [header(c, b"young", 60), b"y", b"quredis/1 w=zz\ny"])
        brief.push({m: "TTLExpired" for m in (header(c, b"told", 60), b"plain", b"quredis/1 w=zz\nx")})
        c.xadd("escape:worked:log", {"sha1": "0" * 40}, id=f"{(c.time()[0] - OLD_S) * 1000}-1")
        young = c.xadd("escape:worked:log", {"sha1": "1" * 40})
        self.sums += [brief, old, History(c, "worked", 3), Orphans(c, "worked", [young])]


class Questions(Ruled):
    """A command that may object to a purge."""
    name = "purge, questions"
    others = {"old": []}

    @property
    def sections(self):
        check = write_handler(self.dir, "case $(cat) in *keep*) exit 1;; esac", name="check")
        return {"purge": {"enabled": True, "interval": "1s", "check": [str(check)]}}

    def fill(self):
        old, c = Waiting(self.client, "old"), self.client
        old.push({header(c, b"o%d" % i): "DeadlineExceeded" for i in range(2)}, [header(c, b"keep"), b"young"])
        self.sums.append(old)


class Figures(Ruled):
    """Health, the node's report, the text file, datagrams."""
    name = "health, node, figures"
    others = {"idle": []}
    host = "127.0.0.1" if why_no_localhost() else "localhost"

    def __init__(self, lane, fault, whens):
        self.datagrams = Datagrams()
        self.sections = {"health": {"enabled": True, "interval": "1s"},
                         "metrics": {"interval": "1s", "statsd": f"{self.host}:{self.datagrams.port}"}}
        super().__init__(lane, fault, whens)
        self.ledger.health = True
        self.text = TextFile(self.dir / "text/quredis.prom", "idle")
        self.d.write_conf(metrics={**self.sections["metrics"], "textfile": self.text.path})
        self.sums += [self.datagrams, self.text, Documents(self.client, self.tag, ["q0", "idle"])]


CYCLES = [Archive, ArchiveReload, ArchivePredecessor, Bounds, Ages, Questions, Figures]
