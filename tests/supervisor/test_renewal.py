"""quredis restart, and a reload, of a queue whose handler says READY: the old one works until the new one is ready."""
import json
import os
from concurrent.futures import ThreadPoolExecutor
from signal import SIGCONT, SIGKILL, SIGSTOP

import pytest

from harness import queue, wait_for
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


@pytest.fixture
def versions(tmp):
    v = Versions(tmp)
    v.set("v1")
    return v


@pytest.fixture
def renewing(quredisd, handler, versions):
    def start(workers=1, **more):
        d = quredisd(queues=[queue("mail", handler(LOADS, "python"), mode="persistent", ready=True, workers=workers, **more)])
        wait_for(lambda: len(d.events("handler_ready")) >= workers, 30)
        return d
    return start


def state(d):
    return next(q for q in status(d)["queues"] if q["name"] == "mail")


def living(d):
    return len([w for w in status(d)["workers"] if w["queue"] == "mail"])


def works(d, ledger, version, message):
    assert d.quredis("push", "mail", message).code == 0
    wait_for(lambda: f"{version} {message}" in ledger.lines(), 30, f"{message} by {version}")


@pytest.fixture
def background():
    with ThreadPoolExecutor(4) as pool:
        yield lambda d, *args: pool.submit(d.quredis, *args)


def test_the_old_handler_works_until_the_new_one_is_ready(renewing, versions, ledger, background):
    d = renewing()
    versions.set("v2", held=True)
    restart = background(d, "restart", "mail")
    versions.wait_load("v2")
    for n in range(5):
        works(d, ledger, "v1", f"early {n}")
    assert state(d)["renewal"]["outdated"] == 1 and state(d)["state"] == "running" and not restart.done()
    versions.release("v2")
    r = restart.result(30)
    assert r.code == 0 and "new workers" in r.out, r
    works(d, ledger, "v2", "late")
    wait_for(lambda: living(d) == 1, 30)
    assert state(d)["renewal"] == {"generation": 1, "outdated": 0, "ready": True, "refused": None, "failed": None, "waits_for": None}
    assert versions.loads() == ["v1", "v2"]
    assert d.stop() == 0


def test_a_handler_that_does_not_load_leaves_the_old_one_in_place(renewing, versions, ledger):
    d = renewing()
    versions.set("broken")
    why = "its handler ended before it was ready, with exit status 1: no module PIL"
    r = d.quredis("restart", "mail")
    assert r.code == 78 and f"mail: the new handler was not ready, and workers with the old one go on: {why}" in r.err, r
    assert why in d.wait_event("handler_refused", queue="mail")["reason"]
    reason = f"its new handler was not ready, and workers with the old one go on: {why}"
    assert state(d)["state"] == "running" and state(d)["reason"] == reason and state(d)["renewal"]["refused"] == why
    assert reason in d.quredis("status", "mail").out
    wait_for(lambda: reason in d.quredis("nodes", "--json").out, 30, "a report with the reason, which the console shows")
    works(d, ledger, "v1", "after")
    wait_for(lambda: living(d) == 1, 30)
    assert d.events("breaker_opened") == [] and versions.loads() == ["v1", "broken"]
    versions.set("v2")
    assert d.quredis("restart", "mail").code == 0
    works(d, ledger, "v2", "repaired")
    assert state(d)["reason"] is None and len(d.events("handler_refused")) == 1 and d.stop() == 0


def reasons(d):
    return {r["code"]: r for r in json.loads(d.quredis("health", "mail", "--json").out)["queues"][0]["reasons"]}


def test_a_refused_handler_shows_where_an_operator_looks(quredisd, handler, versions, tmp):
    page = tmp / "quredis.prom"
    d = quredisd(queues=[queue("mail", handler(LOADS, "python"), mode="persistent", ready=True, workers=1)],
                 health={"enabled": True, "interval": "1s"}, metrics={"textfile": str(page), "interval": "1s"})
    wait_for(lambda: d.events("handler_ready"), 30)
    wait_for(lambda: page.exists() and 'quredis_handler_refused{queue="mail"} 0' in page.read_text(), 30, "a sample")
    versions.set("broken")
    assert d.quredis("restart", "mail").code == 78
    why = "new handler was not ready, and workers with the old one go on: its handler ended before it was ready, with exit status 1: no module PIL"
    reason = wait_for(lambda: reasons(d).get("handler_refused"), 30, "a report of health")
    assert reason["status"] == "degraded" and reason["text"] == f"its {why}; correct it, then quredis restart mail"
    assert d.quredis("health", "mail").out.count("was not ready") == 1
    wait_for(lambda: '"handler_refused":true' in d.quredis("nodes", "--json").out.replace(" ", ""), 30, "a report of the node")
    wait_for(lambda: 'quredis_handler_refused{queue="mail"} 1' in page.read_text(), 30, "a sample")
    found = {f["check"]: f for f in json.loads(d.quredis("doctor", "--json").out)}
    assert found["supervisor"]["where"] == "mail" and found["supervisor"]["what"] == f"the {why}"
    assert found["supervisor"]["advice"] == f"correct the new handler, then: quredis -c {d.conf} restart mail"
    assert found["health"]["severity"] == "note" and "see check supervisor" in found["health"]["what"]
    versions.set("v2")
    assert d.quredis("restart", "mail").code == 0
    wait_for(lambda: "handler_refused" not in reasons(d), 30, "a queue that has recovered")
    wait_for(lambda: 'quredis_handler_refused{queue="mail"} 0' in page.read_text(), 30, "a sample")
    assert "was not ready" not in d.quredis("doctor").out and d.stop() == 0


def test_a_worker_does_not_recycle_while_the_new_handler_is_refused(renewing, versions, ledger):
    d = renewing(recycle={"jobs": 2})
    versions.set("broken")
    assert d.quredis("restart", "mail").code == 78
    for n in range(6):
        works(d, ledger, "v1", f"kept {n}")
    assert d.wait_event("recycle_waits", queue="mail")["reason"] == "jobs" and len(d.events("recycle_waits")) == 1
    assert versions.loads() == ["v1", "broken"] and d.events("handler_recycled") == []
    versions.set("v2")
    assert d.quredis("restart", "mail").code == 0
    for n in range(3):
        works(d, ledger, "v2", f"new {n}")
    wait_for(lambda: versions.loads() == ["v1", "broken", "v2", "v2"], 30, "a recycled handler")
    assert d.stop() == 0


def test_a_worker_does_not_recycle_while_its_successor_loads(renewing, versions, ledger, background):
    d = renewing(recycle={"jobs": 2})
    versions.set("v2", held=True)
    restart = background(d, "restart", "mail")
    versions.wait_load("v2")
    for n in range(5):
        works(d, ledger, "v1", f"early {n}")
    assert versions.loads() == ["v1", "v2"]
    versions.release("v2")
    assert restart.result(30).code == 0 and d.stop() == 0


def test_an_old_handler_that_ends_is_the_new_one_at_its_next_start(renewing, versions, ledger):
    d = renewing()
    works(d, ledger, "v1", "first")
    versions.set("broken")
    assert d.quredis("restart", "mail").code == 78
    os.kill(versions.pids()[0], SIGKILL)
    wait_for(lambda: state(d)["state"] == "breaker", 30)
    assert "no module PIL" in state(d)["reason"] and "old one" not in state(d)["reason"]
    wait_for(lambda: (r := state(d)["renewal"])["outdated"] == 0 and r["refused"] is None and not r["ready"])
    versions.set("v2")
    works(d, ledger, "v2", "repaired")
    wait_for(lambda: state(d)["state"] == "running" and state(d)["reason"] is None, 30)
    assert state(d)["renewal"]["ready"] and state(d)["renewal"]["refused"] is None and d.stop() == 0


def test_a_refused_handler_that_loads_after_all_is_renewed(renewing, versions, ledger):
    d = renewing(workers=2)
    works(d, ledger, "v1", "first")
    versions.set("broken")
    assert d.quredis("restart", "mail").code == 78
    os.kill(versions.pids()[0], SIGKILL)
    wait_for(lambda: versions.loads().count("broken") >= 2, 30)
    wait_for(lambda: state(d)["renewal"]["outdated"] == 1)
    assert state(d)["renewal"]["refused"] is not None and state(d)["state"] == "running" and d.events("breaker_opened") == []
    works(d, ledger, "v1", "the other one")
    versions.set("v2")
    wait_for(lambda: state(d)["renewal"]["outdated"] == 0, 60)
    wait_for(lambda: state(d)["renewal"]["refused"] is None)
    for n in range(5):
        works(d, ledger, "v2", f"renewed {n}")
    assert d.stop() == 0


def test_an_old_configuration_keeps_its_handler(renewing, versions, ledger, tmp):
    d = renewing()
    works(d, ledger, "v1", "first")
    (tmp / "new.py").write_text("raise SystemExit('no module PIL')")
    d.write_conf(queues=[queue("mail", ["/usr/bin/python3", str(tmp / "new.py")], mode="persistent", ready=True, workers=1)])
    assert d.quredis("reload").code == 78
    os.kill(versions.pids()[0], SIGKILL)
    versions.wait_load("v1", 2)
    works(d, ledger, "v1", "again")
    assert state(d)["renewal"]["outdated"] == 1 and state(d)["renewal"]["refused"] is not None and d.stop() == 0


def test_a_reload_keeps_the_old_handler_too_and_tries_again(renewing, versions, ledger, tmp):
    d = renewing()
    (tmp / "new.py").write_text(LOADS.replace("/version", "/changed").replace("@TMP@", str(tmp)).replace("@LEDGER@", str(tmp / "ledger")))
    (tmp / "changed").write_text("broken")
    changed = [queue("mail", ["/usr/bin/python3", str(tmp / "new.py")], mode="persistent", ready=True, workers=1)]
    d.write_conf(queues=changed)
    r = d.quredis("reload")
    assert r.code == 78 and "no module PIL" in r.err, r
    works(d, ledger, "v1", "kept")
    (tmp / "changed").write_text("v2")
    assert d.quredis("reload").code == 0        # the file is the same, but what it says is not in use
    works(d, ledger, "v2", "loaded")
    assert d.quredis("reload").code == 0
    assert versions.loads() == ["v1", "broken", "v2"] and d.stop() == 0


def test_a_worker_that_dies_meanwhile_is_replaced_by_its_successor(renewing, versions, ledger, background):
    d = renewing()
    versions.set("v2", held=True)
    old = next(w["pid"] for w in status(d)["workers"])
    restart = background(d, "restart", "mail")
    versions.wait_load("v2")
    os.kill(old, SIGKILL)
    d.wait_event("worker_died", worker="mail/0")
    wait_for(lambda: state(d)["renewal"]["outdated"] == 0)
    assert not restart.done()
    versions.release("v2")
    assert restart.result(30).code == 0
    works(d, ledger, "v2", "goes on")
    assert versions.loads() == ["v1", "v2"] and d.stop() == 0


def test_the_last_of_two_restarts_counts(renewing, versions, ledger, background):
    d = renewing()
    versions.set("v2", held=True)
    first = background(d, "restart", "mail")
    versions.wait_load("v2")
    versions.set("v3", held=True)
    second = background(d, "restart", "mail")
    versions.wait_load("v3")
    assert first.result(30).code == 75 and "meanwhile" in first.result().err
    assert living(d) <= 2
    works(d, ledger, "v1", "between")
    versions.release("v3")
    assert second.result(30).code == 0
    works(d, ledger, "v3", "after")
    assert versions.loads() == ["v1", "v2", "v3"] and d.stop() == 0


def test_a_successor_that_waits_for_redis_waits_on(renewing, versions, ledger, redis, background):
    d = renewing(start_timeout="1s")
    versions.set("v2")
    redis.signal(SIGSTOP)
    r = background(d, "restart", "mail").result(100)
    redis.signal(SIGCONT)
    assert r.code == 75 and "the new one waits for its connection to Redis" in r.err, r
    assert d.events("handler_refused") == [] and versions.loads() == ["v1"]
    wait_for(lambda: state(d)["renewal"]["outdated"] == 0, 30)
    works(d, ledger, "v2", "late")
    assert versions.loads() == ["v1", "v2"] and d.stop() == 0


def test_a_stop_does_not_wait_for_a_successor(renewing, versions):
    d = renewing(kill_grace="1m")
    versions.set("v2", held=True)
    assert d.quredis("restart", "mail", "--no-wait").code == 0
    versions.wait_load("v2")
    assert d.stop() == 0 and d.events("handler_refused") == []


def test_workers_are_replaced_one_after_the_other(renewing, versions, ledger, background):
    d = renewing(workers=3)
    versions.set("broken")
    assert d.quredis("restart", "mail").code == 78
    assert versions.loads().count("broken") == 1
    versions.set("v2")
    restart, most = background(d, "restart", "mail"), 0
    while not restart.done():
        most = max(most, sum(w["waits_for"] == "its handler to be ready" for w in status(d)["workers"]))
    assert restart.result().code == 0 and most <= 1
    assert versions.loads().count("v2") == 3 and state(d)["workers"]["alive"] == 3
    works(d, ledger, "v2", "all")
    assert d.stop() == 0


def test_an_old_handler_that_does_not_work_is_replaced_at_once(quredisd, handler, versions, ledger, background):
    versions.set("broken")
    d = quredisd(queues=[queue("mail", handler(LOADS, "python"), mode="persistent", ready=True, workers=1)])
    wait_for(lambda: state(d)["state"] == "breaker", 30)
    versions.set("v2", held=True)
    restart = background(d, "restart", "mail")
    versions.wait_load("v2")
    assert state(d)["renewal"]["outdated"] == 0 and state(d)["state"] == "loading" and not restart.done()
    versions.release("v2")
    assert restart.result().code == 0
    works(d, ledger, "v2", "one")
    assert d.stop() == 0


def test_a_handler_that_never_worked_fails_again(quredisd, handler, versions):
    """A deploy script must not take a handler for good that no worker could load."""
    versions.set("broken")
    d = quredisd(queues=[queue("mail", handler(LOADS, "python"), mode="persistent", ready=True, workers=2), queue("other", "/bin/true")])
    wait_for(lambda: state(d)["state"] == "breaker", 30)
    for order in ("restart", "mail"), ("restart", "mail"):
        r = d.quredis(*order)
        assert r.code == 78 and r.err.strip() == "quredis: mail: the new handler is not ready: its handler ended before it was ready, " \
            "with exit status 1: no module PIL"
    assert d.quredis("restart", "other").code == 0 and d.quredis("restart", "mail", "--no-wait").code == 0
    assert d.quredis("reload").code == 0        # it gives this queue no other handler
    assert d.stop() == 0


def test_a_reload_waits_for_the_handlers_of_new_queues(quredisd, handler, versions, ledger, tmp):
    d = quredisd(queues=[queue("other", "/bin/true")])
    mail = queue("mail", handler(LOADS, "python"), mode="persistent", ready=True, workers=1)
    versions.set("broken")
    d.write_conf(queues=[queue("other", "/bin/true"), mail])
    r = d.quredis("reload")
    assert r.code == 78 and "mail: the new handler is not ready: " in r.err and "no module PIL" in r.err
    versions.set("v2")
    assert d.quredis("restart", "mail").code == 0 and state(d)["renewal"]["failed"] is None
    works(d, ledger, "v2", "one")
    mail["workers"] = 0
    d.write_conf(queues=[mail])
    assert d.quredis("reload").code == 0        # no worker will load it
    assert d.stop() == 0


def test_a_load_that_takes_too_long_leaves_the_old_handler_in_place(renewing, versions, ledger):
    d = renewing(start_timeout="5s")
    versions.set("v2", held=True)
    r = d.quredis("restart", "mail")
    assert r.code == 78 and "was not ready within start_timeout" in r.err, r
    works(d, ledger, "v1", "kept")
    assert d.stop() == 0


def test_a_reload_has_the_new_code_of_a_deploy(quredisd, ledger, tmp):
    """By a link that moves, and by a file that is written; a reload without either replaces nothing."""
    def release(n, file=None):
        (file or tmp / str(n) / "app.py").write_text(f"def handle(message):\n    open('{tmp}/ledger', 'ab').write(b'{n} ' + message + b'\\n')\n")

    for n in ("one", "two"):
        (tmp / n).mkdir()
        release(n)
    (tmp / "current").symlink_to("one")
    d = quredisd(queues=[dict(name="mail", function=f"{tmp}/current/app.py", workers=1)])
    works(d, ledger, "one", "a")
    (tmp / "next").symlink_to("two")
    os.rename(tmp / "next", tmp / "current")
    assert d.quredis("reload").code == 0
    works(d, ledger, "two", "b")
    assert d.events("handler_changed")[0]["queue"] == "mail"
    generation = state(d)["renewal"]["generation"]
    assert d.quredis("reload").code == 0 and state(d)["renewal"]["generation"] == generation
    release("three", tmp / "two/new.py")
    os.rename(tmp / "two/new.py", tmp / "two/app.py")
    assert d.quredis("restart", "mail").code == 0
    works(d, ledger, "three", "c")
    generation = state(d)["renewal"]["generation"]
    assert d.quredis("reload").code == 0 and state(d)["renewal"]["generation"] == generation      # the restart has loaded it
    (tmp / "two/app.py").write_text("import quredis_missing\n")
    r = d.quredis("reload")
    assert r.code == 78 and "quredis_missing" in r.err, r
    works(d, ledger, "three", "d")
    (tmp / "current").unlink()
    assert d.quredis("reload").code == 78       # it tries again what was refused
    works(d, ledger, "three", "e")
    assert d.stop() == 0


def test_a_program_for_each_message_works_until_a_function_is_ready(quredisd, handler, ledger, tmp):
    run = handler('m=$(cat); echo "exec $m" >> @LEDGER@')
    d = quredisd(queues=[queue("mail", run, workers=1)])
    (tmp / "jobs.py").write_text("import quredis_missing\n")
    d.write_conf(queues=[dict(name="mail", function=f"{tmp}/jobs.py:handle", workers=1)])
    r = d.quredis("reload")
    assert r.code == 78 and "ModuleNotFoundError: No module named 'quredis_missing'" in r.err, r
    works(d, ledger, "exec", "kept")
    (tmp / "jobs.py").write_text(f"def handle(message):\n    open('{tmp}/ledger', 'ab').write(b'function ' + message + b'\\n')\n")
    assert d.quredis("restart", "mail").code == 0
    works(d, ledger, "function", "new")
    d.write_conf(queues=[queue("mail", run, workers=1)])
    assert d.quredis("reload").code == 0
    works(d, ledger, "exec", "back")
    assert d.stop() == 0
