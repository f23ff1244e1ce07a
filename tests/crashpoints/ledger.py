"""What was pushed, what handlers noted about it, and what must be true of both at the end."""
import collections
import dataclasses

from harness.messages import anywhere, stray_keys, unwrap

Start = collections.namedtuple("Start", "attempt redelivered")

# One handler for all; the first word of a message says what it is to do. `note` is one write(2).
HEAD = """
note() { echo "$1 $QUREDIS_QUEUE $name $attempt $redelivered" >>@DIR@/ledger; }
gate() { until [ -e @DIR@/go ]; do sleep 0.01; done; }
first() { [ "$redelivered" = 0 ] && [ "$attempt" = 1 ]; }
"""
EXEC = HEAD + """
attempt=$QUREDIS_ATTEMPT redelivered=$QUREDIS_REDELIVERED
read -r kind name
note start
case $kind in
again) [ "$attempt" != 1 ] || exit 75 ;;
reject) echo 'it is wrong' >&2; exit 65 ;;
fail) exit 3 ;;
slow) sleep 0.1 ;;
wait) gate ;;
stubborn) trap '' TERM; gate ;;
late) trap '' TERM; setsid sleep 100 & sleep 100 ;;
murder) ! first || { kill -9 $PPID; sleep 100; } ;;
poison) kill -9 $PPID; sleep 100 ;;
esac
note done
"""
PERSISTENT = HEAD + """
[ -z "$QUREDIS_REPLY_FD" ] || exec >&3
while read -r _ serial attempt _ rest; do
	redelivered=0
	case " $rest " in *' redelivered=1 '*) redelivered=1 ;; esac
	read -r kind name
	note start
	case $kind in
	again) [ "$attempt" != 1 ] || { echo "RETRY $serial 10ms"; continue; } ;;
	reject) echo "REJECT $serial it is wrong"; continue ;;
	slow) sleep 0.1 ;;
	wait) gate ;;
	stubborn) trap '' TERM; gate; trap - TERM ;;
	late) sleep 100 ;;
	die) ! first || exit 1 ;;
	esac
	note "done"
	echo "OK $serial"
done
"""

# kind -> where it ends ("done", or the class of its record), and after how many attempts: at least, at most. max_attempts is 2.
DESIGN = {
    "ok": ("done", 1, 1), "again": ("done", 2, 2), "reject": ("Rejected", 1, 1), "fail": ("HandlerExit", 2, 2), "slow": ("done", 1, 1),
    "wait": ("done", 1, 1), "stubborn": ("done", 1, 1), "late": ("HandlerTimeout", 1, 1), "murder": ("done", 1, 1),
    "poison": ("WorkerLost", 1, 1), "die": ("done", 1, 2), "unknown": ("UnknownVersion", 0, 0),
}
HEADERS = {"late": b"quredis/1 max_attempts=1 timeout=100ms\n", "unknown": b"quredis/2 w=1\n", "reject": b"quredis/1 max_attempts=1\n"}


@dataclasses.dataclass
class Message:
    queue: str
    kind: str
    name: str

    @property
    def raw(self):
        return HEADERS.get(self.kind, b"") + f"{self.kind} {self.name}".encode()

    @property
    def final(self):
        return DESIGN[self.kind][0]


class Ledger:
    """The messages of one run and the file their handlers note in."""

    def __init__(self, client, directory):
        self.client = client
        self.path = directory / "ledger"
        self.path.touch()
        self.messages = []
        self.others = {}        # queue without messages of ours -> further keys it may have: "forwarded", "done"
        self.health = False     # is written
        self.unsure = set()     # (queue, "ok a") of pushes that were not acknowledged: there or not

    def queues(self):
        return sorted({m.queue for m in self.messages})

    def note(self, queue, kind, name):
        """It was pushed, or lies in Redis already."""
        self.messages.append(Message(queue, kind, name))
        return self.messages[-1].raw

    def push(self, queue, *kinds_and_names):
        """"ok a": kind and name. Noted when the push is acknowledged."""
        for text in kinds_and_names:
            message = Message(queue, *text.split())
            self.client.lpush(f"ingress:{queue}", message.raw)
            self.messages.append(message)

    def _lines(self):
        return [line.split() for line in self.path.read_bytes().decode().split("\n")[:-1]]

    def rows(self):
        return [row for row in self._lines() if len(row) == 5]

    def starts(self):
        """(queue, name) -> its runs, in order."""
        found = collections.defaultdict(list)
        for what, queue, name, attempt, redelivered in self.rows():
            if what == "start":
                found[queue, name].append(Start(int(attempt), redelivered == "1"))
        return found

    def has(self, what, name, queue=None):
        """Noted for this message, in this queue or in all."""
        rows = {(row[1], row[2]) for row in self.rows() if row[0] == what}
        return all((q, name) in rows for q in ([queue] if queue else self.queues()))

    def finished(self):
        """(queue, name) of those whose handler was done."""
        return {(row[1], row[2]) for row in self.rows() if row[0] == "done"}

    def escaped(self, queue):
        return collections.Counter(unwrap(m)[1] for m in self.client.lrange(f"escape:{queue}", 0, -1))

    def complete(self):
        """Whether each message is where it should end, and nowhere else."""
        finished = self.finished()
        if any(m.final == "done" and (m.queue, m.name) not in finished for m in self.messages):
            return False
        return not any(self._designed(q) - self.escaped(q) or anywhere(self.client, q) for q in self.queues())

    def _designed(self, queue):
        """The messages that should be in escape."""
        return collections.Counter(m.raw for m in self.messages if m.queue == queue and m.final != "done")

    # ---- judgement ----

    def lost(self):
        """Messages that are neither finished nor in any list."""
        finished, found = self.finished(), []
        there = {q: collections.Counter(unwrap(m)[1] for m in anywhere(self.client, q)) + self.escaped(q) for q in self.queues()}
        for m in self.messages:
            if there[m.queue][m.raw] > 0:
                there[m.queue][m.raw] -= 1
            elif (m.queue, m.name) not in finished:
                found.append(f"{m.queue}: {m.raw!r}")
        return found

    def duplicates(self):
        """(flagged, not flagged): second runs of one attempt."""
        flagged, plain = [], []
        for (queue, name), starts in sorted(self.starts().items()):
            for before, now in zip(starts, starts[1:]):
                if now.attempt == before.attempt:
                    (flagged if now.redelivered else plain).append(f"{queue}: {name}")
        return flagged, plain

    def wrong(self, charged):
        """Every other difference from the expected state. charged: the fault itself can cost an attempt."""
        found, starts = [f"a handler noted {row}" for row in self._lines() if len(row) != 5], self.starts()
        for m in self.messages:
            runs = starts.pop((m.queue, m.name), [])
            found += [f"{m.queue}: {m.name} {text}" for text in _wrong_runs(m, runs, 1 if charged else 0)]
        unsure = {(queue, text.split()[1]) for queue, text in self.unsure}
        found += [f"{queue}: {name} ran, but was not pushed" for queue, name in starts if (queue, name) not in unsure]
        for queue in self.queues():
            found += self._wrong_escape(queue)
            found += self._left(queue)
        return found + [f"key {k} is none of ours" for k in stray_keys(self.client, *self.queues(), *self.others)] + self._not_asked_for()

    def _not_asked_for(self):
        """A feature that was never switched on leaves no key, and every key with a temporary owner expires."""
        wanted = {f"escape:{q}:{key}" if key == "forwarded" else f"ingress:{q}:{key}" for q, keys in self.others.items() for key in keys}
        there = {k.decode() for k in self.client.keys()}
        extra = {k for k in there - wanted if k.endswith((":forwarded", ":done")) or k == "quredis:health" and not self.health}
        held = {k for k in there if k.startswith("quredis:node:") or k.endswith(":sweeper") or ":rate:" in k or ":backlog:" in k}
        return [f"key {k}, which nobody asked for" for k in extra] + [f"key {k} has no end" for k in held if self.client.ttl(k) == -1]

    def _wrong_escape(self, queue):
        designed, there = self._designed(queue), self.escaped(queue)
        unsure = collections.Counter(Message(q, *text.split()).raw for q, text in self.unsure if q == queue)
        found = [f"{queue}: escape lacks {m!r}" for m in designed - there]
        found += [f"{queue}: escape has {m!r} ({n})" for m, n in (there - designed - unsure).items()]
        records = collections.Counter((f[b"message"], f[b"error_class"].decode()) for _, f in self.client.xrange(f"escape:{queue}:log"))
        wanted = collections.Counter((m, DESIGN[m.split(b"\n")[-1].split()[0].decode()][0]) for m in there.elements())
        return found + ([f"{queue}: records {dict(records)}, wanted {dict(wanted)}"] if records != wanted else [])

    def _left(self, queue):
        """After an orderly stop: nothing in work, nothing delayed, no lease."""
        left = [k.decode() for k in self.client.keys(f"transit:{queue}*") if self.client.type(k) == b"list"]
        left += [k.decode() for k in self.client.keys(f"transit:{queue}:lease:*")]
        left += [k for k in (f"ingress:{queue}", f"delayed:{queue}", f"quredis:of:ingress:{queue}:delayed") if self.client.exists(k)]
        return [f"{queue}: {key} is still there" for key in left]


def _wrong_runs(message, runs, extra):
    _, least, most = DESIGN[message.kind]
    if most == 0:
        return ["ran"] if runs else []
    if not runs:
        return ["never ran"] if message.final == "done" else []
    found = []
    for before, now in zip([Start(0, False)] + runs, runs):
        if not before.attempt <= now.attempt <= before.attempt + 1 + extra:
            found.append(f"attempt {now.attempt} after {before.attempt}")
    if not least <= runs[-1].attempt <= most + extra:
        found.append(f"ended at attempt {runs[-1].attempt} instead of {most}")
    return found
