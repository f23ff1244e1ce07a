"""A handler that says READY and loads the version that a file names, and what an operator sees of it."""
import json

from harness import wait_for
from harness.control import status

# It loads the version that a file names, for as long as there is a file hold.VERSION.
LOADS = """
import os, sys, time
version = open("@TMP@/version").read()
open("@TMP@/loads", "a").write(version + "\\n")
while os.path.exists("@TMP@/hold." + version):
    time.sleep(0.01)
if version.startswith("broken"):
    sys.exit("no module PIL")
print("READY", flush=True)
while head := sys.stdin.buffer.readline().split():
    message = sys.stdin.buffer.read(int(head[3]) + 1)[:-1].decode()
    open("@LEDGER@", "a").write(version + " " + message + "\\n")
    print("OK", head[1].decode(), flush=True)
    open("@TMP@/pids", "a").write(f"{os.getpid()}\\n")
"""


class Versions:
    def __init__(self, tmp):
        self.tmp = tmp

    def set(self, version, held=False):
        if held:
            (self.tmp / f"hold.{version}").touch()
        (self.tmp / "version").write_text(version)

    def release(self, version):
        (self.tmp / f"hold.{version}").unlink()

    def loads(self):
        return (self.tmp / "loads").read_text().split() if (self.tmp / "loads").exists() else []

    def pids(self):
        """Of the processes that have answered."""
        return wait_for(lambda: (self.tmp / "pids").exists() and [int(p) for p in (self.tmp / "pids").read_text().split()])

    def wait_load(self, version, n=1):
        wait_for(lambda: self.loads().count(version) >= n, 30, f"a load of {version}")


def state(d):
    return next(q for q in status(d)["queues"] if q["name"] == "mail")


def living(d):
    return len([w for w in status(d)["workers"] if w["queue"] == "mail"])


def works(d, ledger, version, message):
    assert d.quredis("push", "mail", message).code == 0
    wait_for(lambda: f"{version} {message}" in ledger.lines(), 30, f"{message} by {version}")


def reasons(d):
    queues = json.loads(d.quredis("health", "mail", "--json").out)["queues"]
    return {r["code"]: r for q in queues for r in q["reasons"]}
