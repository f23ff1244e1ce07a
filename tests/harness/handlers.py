"""Handlers written by tests, and the ledger they write into."""
import ast
import collections
import os
import pathlib

# The body of a handler: it notes "start NAME REDELIVERED ATTEMPT PID", waits until @TMP@/go is there, and notes "end NAME".
GATED = """
read -r m
echo "start $m $QUREDIS_REDELIVERED $QUREDIS_ATTEMPT $$" >>@LEDGER@
while ! [ -e @TMP@/go ]; do sleep 0.05; done
echo "end $m" >>@LEDGER@
"""

_HEADS = {"sh": "#!/bin/sh\n", "python": "#!/usr/bin/python3 -IS\n"}

# It imports nothing that takes long, since it starts for each message
_RECORDER = r'''
import os, sys, time
started = time.monotonic()
payload = sys.stdin.buffer.read()
e = os.environ
line = {"payload": payload, "pid": os.getpid(), "ppid": os.getppid(),
        "id": e.get("QUREDIS_ID"), "queue": e.get("QUREDIS_QUEUE"), "attempt": e.get("QUREDIS_ATTEMPT"),
        "redelivered": e.get("QUREDIS_REDELIVERED"), "incarnation": e.get("QUREDIS_INCARNATION"),
        "argv": sys.argv[1:], "env": dict(e)}
fd = os.open("@LEDGER@", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
def note(what):
    os.write(fd, (repr({"what": what, **line}) + "\n").encode())
@NOTE_START@
time.sleep(@SECONDS@)
note("end")
sys.exit(@EXIT@)
'''

Run = collections.namedtuple("Run", "what payload id queue attempt redelivered incarnation pid ppid argv env")


def write_handler(directory, body, lang="sh", name=None):
    """Writes an executable below directory and returns its path as a string."""
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / (name or f"handler{len(list(directory.iterdir()))}")
    # written aside and renamed: a running one is replaced, never "text file busy"
    aside = path.with_name(path.name + ".new")
    aside.write_text(_HEADS[lang] + body + "\n")
    os.chmod(aside, 0o755)
    os.rename(aside, path)
    return str(path)


class Ledger:
    """Lines appended by handlers, each with one write."""

    def __init__(self, path, handler):
        self.path = pathlib.Path(path)
        self.path.touch()
        os.chmod(self.path, 0o666)
        self._handler = handler

    def lines(self):
        """Whole lines, without their newlines."""
        return self.path.read_bytes().decode(errors="surrogateescape").split("\n")[:-1]

    def count(self, line):
        return self.lines().count(line)

    def rows(self, what):
        """The other words of each line whose first word is `what`."""
        return [words[1:] for words in map(str.split, self.lines()) if words[:1] == [what]]

    def flags(self):
        """name -> QUREDIS_REDELIVERED of each of its runs, in order, from the lines "start NAME FLAG"."""
        found = collections.defaultdict(list)
        for name, flag in self.rows("start"):
            found[name].append(flag)
        return found

    def recorder(self, *, exit=0, seconds=0, note_start=False):
        """A handler that notes each run: when it ends, and with note_start also when it begins."""
        body = _RECORDER.replace("@NOTE_START@", 'note("start")' if note_start else "")
        body = body.replace("@SECONDS@", str(seconds)).replace("@EXIT@", str(exit))
        return self._handler(body, "python")

    def runs(self, what="end"):
        """What recorder() noted, in order; payload is bytes."""
        rows = [ast.literal_eval(line) for line in self.lines()]
        return [Run(**row) for row in rows if row["what"] == what]
