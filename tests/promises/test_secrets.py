"""Secrets of the configuration stay in the processes of quredis: no handler, not even one of their own user, reads them from memory."""
import json
import os

from harness import queue, wait_for

NOBODY = 65534
AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
# tries to open the memory and the environment of every process of quredisd that it sees
SPY = """
import json, os, sys
def opens(path):
    try:
        open(path, "rb").close()
        return True
    except OSError:
        return False
read = {}
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        name, uid = open(f"/proc/{pid}/comm").read().strip(), open(f"/proc/{pid}/status").read().split("Uid:")[1].split()[0]
    except OSError:
        continue
    if name == "quredisd" and uid == str(os.getuid()):
        read[pid] = [f for f in ("mem", "environ", "maps") if opens(f"/proc/{pid}/{f}")]
with open("@LEDGER@.new", "w") as f:
    json.dump(read, f)
os.rename("@LEDGER@.new", "@LEDGER@.json")
"""


def as_nobody(quredisd, tmp, handler, **supervisor):
    """A supervisor of nobody, if the test may choose; its directory belongs to the same user."""
    d = quredisd(queues=[queue("mail", handler(SPY, "python"), env=["OWN=1"]), queue("other", handler("cat >/dev/null"), env=["TOKEN=s3cr3t"])],
                 supervisor=supervisor, inside=AS_NOBODY if os.geteuid() == 0 else [], start=False)
    if os.geteuid() == 0:
        for path in (tmp, d.dir):
            os.chown(path, NOBODY, NOBODY)
    d.start()
    return d


def spied(d, redis, tmp):
    """pid -> files that the handler could open, of all processes of this supervisor."""
    redis.client().lpush("ingress:mail", "m")
    wait_for((tmp / "ledger.json").exists)
    seen = json.loads((tmp / "ledger.json").read_text())
    return {pid: seen[str(pid)] for pid in [d.pid, *d.workers("mail").values(), *d.workers("other").values(), d.sweeper()] if str(pid) in seen}


def test_a_handler_of_the_same_user_reads_no_memory_of_quredis(redis, quredisd, handler, tmp):
    found = spied(as_nobody(quredisd, tmp, handler), redis, tmp)
    assert len(found) == 4 and not any(found.values()), found


def test_the_configuration_can_ask_for_cores(redis, quredisd, handler, tmp):
    """The sight of the test itself: with core = true the same handler can read all of it. A reload counts for the processes that follow."""
    d = as_nobody(quredisd, tmp, handler, core=True)
    found = spied(d, redis, tmp)
    assert len(found) == 4 and all("mem" in files for files in found.values()), found
    (tmp / "ledger.json").unlink()
    before = d.workers("mail")
    d.reload(supervisor={**d.sections["supervisor"], "core": False})
    wait_for(lambda: d.workers("mail") and not set(d.workers("mail").values()) & set(before.values()))
    found = spied(d, redis, tmp)
    assert len(found) == 4 and not any(found.values()), found
