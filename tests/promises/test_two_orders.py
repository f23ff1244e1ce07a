"""Two orders in a row, each within one run: the run ends by itself, once, and the queue has the newest configuration."""

import pytest

from harness import queue, wait_for
from harness.control import ask, status
from harness.messages import anywhere

JOBS = r'''
import os, sys, time
fd = os.open("@LEDGER@", os.O_WRONLY | os.O_APPEND)
def note(*words):
    os.write(fd, (" ".join(words) + "\n").encode())
while head := sys.stdin.buffer.readline().split():
    message = sys.stdin.buffer.read(int(head[3]) + 1).decode().strip()
    note("start", message, os.environ["RELEASE"])
    while not os.path.exists("@TMP@/go"):
        time.sleep(0.05)
    note("end", message)
    print("OK", head[1].decode(), flush=True)
'''
MODES = {
    "exec": ("sh", 'read -r m; echo "start $m $RELEASE" >>@LEDGER@; while ! [ -e @TMP@/go ]; do sleep 0.05; done; echo "end $m" >>@LEDGER@', {}),
    "persistent": ("python", JOBS, {"mode": "persistent"}),
}


class Rig:
    def __init__(self, d, path, options):
        self.d, self.path, self.options, self.release = d, path, options, 0

    def queues(self, **more):
        return [queue("mail", self.path, env=[f"RELEASE={self.release}"], **self.options, **more), queue("other", "/bin/true")]

    def load(self, queues=None, **sections):
        mark = self.d.mark()
        self.d.reload(queues=queues or self.queues(), **sections)
        wait_for(lambda: self.d.events("reload_done", since=mark))

    def reload(self):
        self.release += 1
        self.load()

    def restart(self):
        assert ask(self.d, "restart", queue="mail")["ok"]

    def remove(self):
        self.load([queue("other", "/bin/true")])

    def scale(self):
        assert ask(self.d, "scale", queue="mail", workers=0)["ok"]

    def other_keys(self):
        self.release += 1
        self.load(self.queues(escape=f"escape:mail{self.release}"))

    def everything(self):
        self.release += 1
        self.load(supervisor={**self.d.sections["supervisor"], "lease": f"{30 + self.release}s"})


ORDERS = ["reload reload", "restart restart", "restart reload", "reload restart", "reload remove", "remove reload", "scale reload", "other_keys other_keys",
          "everything everything", "reload reload reload reload reload reload"]


@pytest.mark.parametrize("orders", ORDERS)
@pytest.mark.parametrize("mode", MODES)
def test_a_run_ends_by_itself(redis, quredisd, handler, ledger, tmp, mode, orders):
    lang, body, options = MODES[mode]
    rig = Rig(None, handler(body, lang), options)
    rig.d = d = quredisd(queues=rig.queues(), supervisor={"drain_timeout": "60s"})
    c = redis.client()
    d.wait_workers("mail", 1)
    c.lpush("ingress:mail", "job")
    wait_for(lambda: ledger.rows("start"))
    for order in orders.split():
        getattr(rig, order)()
        wait_for(lambda: not [w for w in status(d)["workers"] if w["queue"] == "mail" and w["state"] == "starting"])
    assert ledger.lines() == ["start job 0"]
    (tmp / "go").touch()
    wait_for(lambda: "end job" in ledger.lines())
    rig.reload()
    wait_for(lambda: status(d, "mail")["workers"] == {"wanted": 1, "alive": 1, "draining": 0})
    c.lpush("ingress:mail", "next")
    wait_for(lambda: "end next" in ledger.lines())
    assert ledger.lines() == ["start job 0", "end job", f"start next {rig.release}", "end next"]
    assert not d.events("worker_died") and not c.keys("escape:mail*")


def test_a_stop_after_a_reload_waits_for_both(redis, quredisd, handler, ledger, tmp):
    lang, body, options = MODES["exec"]
    rig = Rig(None, handler(body, lang), options)
    rig.d = d = quredisd(queues=rig.queues(), supervisor={"drain_timeout": "60s"})
    c = redis.client()
    d.wait_workers("mail", 1)
    for message in ("first", "second"):
        c.lpush("ingress:mail", message)
        wait_for(lambda m=message: [r for r in ledger.rows("start") if r[0] == m])
        rig.reload()
    assert ask(d, "stop")["ok"]
    d.wait_event("stopping")
    (tmp / "go").touch()
    assert d.wait_exit() == 0
    assert sorted(ledger.rows("end")) == [["first"], ["second"]] and len(ledger.rows("start")) == 2 and not anywhere(c, "mail")


def test_no_order_multiplies_the_processes(redis, quredisd, handler, ledger, tmp):
    """However often the queue changes within its runs, two workers of each number live at most."""
    lang, body, options = MODES["exec"]
    rig = Rig(None, handler(body, lang), {**options, "workers": 2})
    rig.d = d = quredisd(queues=rig.queues(), supervisor={"drain_timeout": "60s"})
    c = redis.client()
    d.wait_workers("mail", 2)
    c.lpush("ingress:mail", *[f"m{i}" for i in range(12)])
    for n in range(1, 5):
        wait_for(lambda n=n: len(ledger.rows("start")) == min(2 * n, 4))
        rig.reload()
    assert len([w for w in status(d)["workers"] if w["queue"] == "mail"]) == 4 and len(ledger.rows("start")) == 4
    (tmp / "go").touch()
    wait_for(lambda: len(ledger.rows("end")) == 12)
    wait_for(lambda: status(d, "mail")["workers"] == {"wanted": 2, "alive": 2, "draining": 0})
    assert len(ledger.rows("start")) == 12
    assert {r[1] for r in ledger.rows("start")[4:]} == {str(rig.release)}
