"""A new handler that is not ready: workers with the old one go on, or no worker works, and every face says so."""
import json
import os
from signal import SIGKILL

from harness import queue, wait_for
from harness.control import status

from .renewals import LOADS, living, reasons, state, works


def test_a_handler_that_does_not_load_leaves_the_old_one_in_place(renewing, versions, ledger):
    d = renewing()
    versions.set("broken")
    why = "its handler ended before it was ready, with exit status 1: no module PIL"
    r = d.quredis("restart", "mail")
    assert r.code == 78 and f"mail: the new handler was not ready, and workers with the old one go on: {why}" in r.err, r
    assert why in d.wait_event("handler_not_ready", queue="mail")["reason"]
    reason = f"its new handler was not ready, and workers with the old one go on: {why}"
    assert state(d)["state"] == "running" and state(d)["reason"] == reason and state(d)["renewal"]["not_ready"] == why
    assert reason in d.quredis("status", "mail").out
    wait_for(lambda: reason in d.quredis("nodes", "--json").out, 30, "a report with the reason, which the console shows")
    works(d, ledger, "v1", "after")
    assert d.quredis("pause", "mail").code == 0
    wait_for(lambda: state(d)["state"] == "paused")
    assert state(d)["reason"] == f"an operator stopped fetching on all hosts; also: {reason}"
    assert d.quredis("resume", "mail").code == 0
    wait_for(lambda: living(d) == 1, 30)
    assert d.events("breaker_opened") == [] and versions.loads() == ["v1", "broken"]
    versions.set("v2")
    assert d.quredis("restart", "mail").code == 0
    works(d, ledger, "v2", "repaired")
    assert state(d)["reason"] is None and len(d.events("handler_not_ready")) == 1 and d.stop() == 0


def test_a_handler_that_was_not_ready_shows_where_an_operator_looks(quredisd, handler, versions, tmp):
    page = tmp / "quredis.prom"
    d = quredisd(queues=[queue("mail", handler(LOADS, "python"), mode="persistent", ready=True, workers=1)],
                 health={"enabled": True, "interval": "1s"}, metrics={"textfile": str(page), "interval": "1s"})
    wait_for(lambda: d.events("handler_ready"), 30)
    wait_for(lambda: page.exists() and 'quredis_handler_not_ready{queue="mail"} 0' in page.read_text(), 30, "a sample")
    versions.set("broken")
    assert d.quredis("restart", "mail").code == 78
    why = "new handler was not ready, and workers with the old one go on: its handler ended before it was ready, with exit status 1: no module PIL"
    reason = wait_for(lambda: reasons(d).get("handler_not_ready"), 30, "a report of health")
    assert reason["status"] == "degraded" and reason["text"] == f"its {why}; correct it, then quredis restart mail"
    assert d.quredis("health", "mail").out.count("was not ready") == 1
    wait_for(lambda: '"handler_not_ready":true' in d.quredis("nodes", "--json").out.replace(" ", ""), 30, "a report of the node")
    wait_for(lambda: 'quredis_handler_not_ready{queue="mail"} 1' in page.read_text(), 30, "a sample")
    found = {f["check"]: f for f in json.loads(d.quredis("doctor", "--json").out)}
    assert found["supervisor"]["where"] == "mail" and found["supervisor"]["what"] == f"the {why}"
    assert found["supervisor"]["advice"] == f"correct the new handler, then: quredis -c {d.conf} restart mail"
    assert found["health"]["severity"] == "note" and "see check supervisor" in found["health"]["what"]
    versions.set("v2")
    assert d.quredis("restart", "mail").code == 0
    wait_for(lambda: "handler_not_ready" not in reasons(d), 30, "a queue that has recovered")
    wait_for(lambda: 'quredis_handler_not_ready{queue="mail"} 0' in page.read_text(), 30, "a sample")
    assert "was not ready" not in d.quredis("doctor").out and d.stop() == 0


def test_a_worker_does_not_recycle_while_the_new_handler_is_not_ready(renewing, versions, ledger):
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


def test_an_old_handler_that_ends_is_the_new_one_at_its_next_start(renewing, versions, ledger):
    d = renewing()
    works(d, ledger, "v1", "first")
    versions.set("broken")
    assert d.quredis("restart", "mail").code == 78
    os.kill(versions.pids()[0], SIGKILL)
    wait_for(lambda: state(d)["state"] == "breaker", 30)
    assert "no module PIL" in state(d)["reason"] and "old one" not in state(d)["reason"]
    wait_for(lambda: (r := state(d)["renewal"])["outdated"] == 0 and r["not_ready"] is None and not r["ready"])
    versions.set("v2")
    works(d, ledger, "v2", "repaired")
    wait_for(lambda: state(d)["state"] == "running" and state(d)["reason"] is None, 30)
    assert state(d)["renewal"]["ready"] and state(d)["renewal"]["not_ready"] is None and d.stop() == 0


def test_a_handler_that_was_not_ready_that_loads_after_all_is_renewed(renewing, versions, ledger):
    d = renewing(workers=2)
    works(d, ledger, "v1", "first")
    versions.set("broken")
    assert d.quredis("restart", "mail").code == 78
    os.kill(versions.pids()[0], SIGKILL)
    wait_for(lambda: versions.loads().count("broken") >= 2, 30)
    wait_for(lambda: state(d)["renewal"]["outdated"] == 1)
    assert state(d)["renewal"]["not_ready"] is not None and state(d)["state"] == "running" and d.events("breaker_opened") == []
    works(d, ledger, "v1", "the other one")
    versions.set("v2")
    wait_for(lambda: state(d)["renewal"]["outdated"] == 0, 60)
    wait_for(lambda: state(d)["renewal"]["not_ready"] is None)
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
    assert state(d)["renewal"]["outdated"] == 1 and state(d)["renewal"]["not_ready"] is not None and d.stop() == 0


def test_a_reload_keeps_the_old_handler_too_and_tries_again(renewing, versions, ledger, tmp):
    d = renewing()
    (tmp / "new.py").write_text(LOADS.replace("/version", "/changed").replace("@TMP@", str(tmp)).replace("@LEDGER@", str(tmp / "ledger")))
    (tmp / "changed").write_text("broken")
    changed = [queue("mail", ["/usr/bin/python3", str(tmp / "new.py")], mode="persistent", ready=True, workers=1)]
    d.write_conf(queues=changed)
    r = d.quredis("reload")
    assert r.code == 78 and "no module PIL" in r.err, r
    said = json.loads(d.quredis("reload", "--json").out)
    assert said["action"] == "reload" and said["ok"] is False and "no module PIL" in said["errors"][0]
    works(d, ledger, "v1", "kept")
    (tmp / "changed").write_text("v2")
    assert d.quredis("reload").code == 0        # the file is the same, but what it says is not in use
    works(d, ledger, "v2", "loaded")
    assert d.quredis("reload").code == 0
    assert versions.loads() == ["v1", "broken", "broken", "v2"]
    d.conf.write_text("queues = (")
    r = d.quredis("reload", "--json", "-s", str(d.dir / "c"))
    said = json.loads(r.out)
    assert r.code == 78 and said["ok"] is False and all(text in r.err for text in said["errors"]), r
    assert d.stop() == 0


def test_an_old_worker_that_dies_hides_no_handler_that_does_not_load(renewing, versions, background):
    d = renewing()
    versions.set("broken", held=True)
    old = next(w["pid"] for w in status(d)["workers"])
    restart = background(d, "restart", "mail")
    versions.wait_load("broken")
    os.kill(old, SIGKILL)
    wait_for(lambda: state(d)["renewal"]["outdated"] == 0)
    versions.release("broken")
    r = restart.result(30)
    assert r.code == 78 and "with exit status 1: no module PIL" in r.err, r
    assert d.stop() == 0


def test_a_queue_is_not_healthy_before_a_handler_is_ready_again(quredisd, handler, versions, background):
    versions.set("broken")
    d = quredisd(queues=[queue("mail", handler(LOADS, "python"), mode="persistent", ready=True, workers=1)],
                 health={"enabled": True, "interval": "1s"})
    wait_for(lambda: "breaker" in reasons(d), 30, "a report of the breaker")
    versions.set("broken.again", held=True)
    restart = background(d, "restart", "mail")
    versions.wait_load("broken.again")
    why = "its handler failed, and none has been ready since: its handler ended before it was ready, with exit status 1: no module PIL"
    now = state(d)
    assert (now["state"], now["reason"]) == ("loading", "its handler loads, and is not ready yet; also: " + why)
    assert wait_for(lambda: reasons(d).get("handler_not_ready"), 30, "a report of the load")["text"] == why
    versions.release("broken.again")
    assert restart.result(30).code == 78
    wait_for(lambda: state(d)["state"] == "breaker", 30)
    versions.set("v2")
    assert d.quredis("restart", "mail").code == 0
    wait_for(lambda: d.quredis("health", "mail").code == 0, 60, "a queue that has recovered")
    assert [e["status"] for e in d.events("health_changed", queue="mail")] == ["degraded", "healthy"]
    assert state(d)["reason"] is None and d.stop() == 0


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
    assert d.quredis("reload").code == 78       # it gives this queue no other handler, but that one does not load
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


def test_health_does_not_flash_when_the_last_old_handler_ends(quredisd, handler, versions):
    d = quredisd(queues=[queue("mail", handler(LOADS, "python"), mode="persistent", ready=True, workers=2)],
                 health={"enabled": True, "interval": "1s"})
    wait_for(lambda: len(d.events("handler_ready")) == 2 and len(d.handlers()) == 2, 30)
    versions.set("broken")
    assert d.quredis("restart", "mail").code == 78
    wait_for(lambda: "handler_not_ready" in reasons(d), 30, "a report of health")
    versions.set("broken.again", held=True)
    for pid in wait_for(lambda: len(h := d.handlers()) == 2 and h, 30):
        os.kill(pid, SIGKILL)
    versions.wait_load("broken.again")
    assert wait_for(lambda: state(d)["state"] != "running" and state(d), 30)["reason"]
    versions.release("broken.again")
    wait_for(lambda: (s := state(d))["state"] == "breaker" and s["renewal"]["outdated"] == 0, 60)
    wait_for(lambda: "breaker" in reasons(d), 30, "a report of the breaker")
    versions.set("v2")
    assert d.quredis("restart", "mail").code == 0
    wait_for(lambda: d.quredis("health", "mail").code == 0, 90, "a queue that has recovered")
    assert [e["status"] for e in d.events("health_changed", queue="mail")] == ["degraded", "healthy"] and d.stop() == 0
