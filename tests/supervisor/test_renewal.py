"""quredis restart, and a reload, of a queue whose handler says READY: the old one works until the new one is ready."""
import json
import os
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM

import pytest

from harness import queue, wait_for
from harness.clinic import USER
from harness.control import status

from .renewals import living, state, works


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
    assert r.code == 0 and r.out.startswith("its workers have the new handler, which is ready"), r
    works(d, ledger, "v2", "late")
    wait_for(lambda: living(d) == 1, 30)
    assert state(d)["renewal"] == {"generation": 1, "outdated": 0, "ready": True, "not_ready": None, "failed": None, "waits_for": None}
    assert versions.loads() == ["v1", "v2"]
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


def test_a_restart_of_no_worker_waits_for_none(renewing, versions, background):
    d = renewing()
    versions.set("v2", held=True)
    restart = background(d, "restart", "mail")
    versions.wait_load("v2")
    assert d.quredis("scale", "mail", "0").code == 0
    r = restart.result(30)          # start_timeout is a minute
    assert r.code == 0 and "mail: no worker is wanted, so none has tried the new handler" in r.err, r
    assert d.stop() == 0


@pytest.mark.parametrize("sign", [SIGTERM, SIGKILL])
def test_a_restart_tells_a_stop_from_a_supervisor_that_was_never_there(renewing, versions, background, sign):
    d = renewing()
    versions.set("v2", held=True)
    restart = background(d, "restart", "mail", "--json")
    versions.wait_load("v2")
    d.signal(sign)
    r = restart.result(30)
    assert r.code == 75 and "mail: the supervisor " in r.err, r
    said = json.loads(r.out)
    assert said["action"] == "restart" and said["ok"] is False and said["errors"] == [r.err.strip().removeprefix("quredis: ")]
    d.wait_exit()
    assert d.quredis("restart", "mail").code == 69


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
    assert d.events("handler_not_ready") == [] and versions.loads() == ["v1"]
    wait_for(lambda: state(d)["renewal"]["outdated"] == 0, 30)
    works(d, ledger, "v2", "late")
    assert versions.loads() == ["v1", "v2"] and d.stop() == 0


def test_a_stop_does_not_wait_for_a_successor(renewing, versions):
    d = renewing(kill_grace="1m")
    versions.set("v2", held=True)
    assert d.quredis("restart", "mail", "--no-wait").code == 0
    versions.wait_load("v2")
    assert d.stop() == 0 and d.events("handler_not_ready") == []


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
    assert d.quredis("reload").code == 78       # it tries again what was not ready
    works(d, ledger, "three", "e")
    assert d.stop() == 0


def test_a_reload_replaces_no_worker_that_has_loaded_the_new_file_by_itself(quredisd, ledger, tmp):
    def release(n):
        (tmp / "new.py").write_text(f"def handle(message):\n    open('{tmp}/ledger', 'ab').write(b'{n} ' + message + b'\\n')\n")
        os.rename(tmp / "new.py", tmp / "app.py")

    release("one")
    d = quredisd(queues=[dict(name="mail", function=f"{tmp}/app.py", workers=1)])
    works(d, ledger, "one", "a")
    release("two")
    os.kill(d.handlers()[0], SIGKILL)
    works(d, ledger, "two", "b")
    generation = state(d)["renewal"]["generation"]
    assert d.quredis("reload").code == 0 and state(d)["renewal"]["generation"] == generation
    release("three")
    assert d.quredis("reload").code == 0 and state(d)["renewal"]["generation"] == generation + 1
    works(d, ledger, "three", "c")
    assert d.stop() == 0


@pytest.mark.parametrize("reloads", [False, True])
def test_a_reload_brings_back_what_was_there_before_a_worker_loaded_another_file(quredisd, ledger, tmp, reloads):
    """The files are those that the supervisor knows, and not those that its worker has loaded after a crash."""
    def deploy(release):
        (tmp / "new").symlink_to(release)
        os.rename(tmp / "new", tmp / "current")

    for release in ("one", "two"):
        (tmp / release).mkdir()
        (tmp / release / "app.py").write_text(f"def handle(message):\n    open('{tmp}/ledger', 'ab').write(b'{release} ' + message + b'\\n')\n")
    deploy("one")
    d = quredisd(queues=[dict(name="mail", function=f"{tmp}/current/app.py", workers=1)])
    works(d, ledger, "one", "a")
    deploy("two")
    os.kill(d.handlers()[0], SIGKILL)
    works(d, ledger, "two", "b")
    if reloads:
        assert d.quredis("reload").code == 0
    deploy("one")
    assert d.quredis("reload").code == 0
    works(d, ledger, "one", "c")
    assert d.stop() == 0


def deploy_text(tmp, release):
    (tmp / "new.py").write_text(f"""import os, time
open("{tmp}/loads", "a").write("{release}\\n")
while "{release}" == "two" and os.path.exists("{tmp}/hold"):
    time.sleep(0.01)
def handle(message):
    open("{tmp}/ledger", "ab").write(b"{release} " + message + b"\\n")
""")
    os.rename(tmp / "new.py", tmp / "app.py")


def test_a_reload_with_nothing_new_leaves_a_renewal_alone(quredisd, ledger, tmp, background):
    deploy_text(tmp, "one")
    d = quredisd(queues=[dict(name="mail", function=f"{tmp}/app.py", workers=2)])
    wait_for(lambda: len(d.events("handler_ready")) >= 2, 30)
    (tmp / "hold").touch()
    deploy_text(tmp, "two")
    first = background(d, "reload")
    wait_for(lambda: "two" in (tmp / "loads").read_text())
    second = background(d, "reload")
    wait_for(lambda: len(d.events("reload_done")) >= 2, 30)
    (tmp / "hold").unlink()
    assert (first.result(60).code, second.result(60).code) == (0, 0)
    works(d, ledger, "two", "a")
    assert (tmp / "loads").read_text().split().count("two") == 2 and state(d)["renewal"]["generation"] == 1
    assert d.stop() == 0


def test_a_reload_sees_that_a_file_has_gone_which_was_missing_at_the_start(quredisd, ledger, tmp):
    d = quredisd(queues=[dict(name="mail", function=f"{tmp}/app.py", workers=1)], wait=False)
    deploy_text(tmp, "one")
    works(d, ledger, "one", "a")
    (tmp / "app.py").unlink()
    gone = d.quredis("reload")
    assert gone.code == 78 and "app.py" in gone.err, gone
    works(d, ledger, "one", "b")
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


def test_a_reload_fails_while_a_function_cannot_be_loaded(quredisd, ledger, tmp):
    """Whether it changed or not: the state counts."""
    (tmp / "app.py").write_text("import quredis_missing\n")
    d = quredisd(queues=[dict(name="mail", function=f"{tmp}/app.py", workers=1)], wait=False)
    wait_for(lambda: d.quredis("status", "mail").code == 0 and state(d)["renewal"]["failed"], 30)
    for _ in range(3):
        r = d.quredis("reload")
        assert r.code == 78 and "mail: the new handler is not ready" in r.err and "quredis_missing" in r.err, r
    (tmp / "quredis_missing.py").write_text("")
    assert d.quredis("reload").code == 78           # the module is in no path
    deploy_text(tmp, "one")
    assert d.quredis("reload").code == 0
    works(d, ledger, "one", "a")
    assert d.stop() == 0


def test_a_reload_waits_for_a_worker_that_has_not_begun_to_load(quredisd, ledger, tmp, redis, background):
    """Its first worker needs a name from Redis before it starts a handler. Until then nobody knows whether that loads."""
    (tmp / "app.py").write_text("import quredis_missing\n")
    redis.signal(SIGSTOP)
    try:
        d = quredisd(queues=[dict(name="mail", function=f"{tmp}/app.py", workers=2)], wait=False)
        wait_for(lambda: d.quredis("status", "mail").code == 0, 30)
        r = background(d, "reload")
        wait_for(lambda: d.events("reload_done"), 30)
    finally:
        redis.signal(SIGCONT)
    r = r.result(60)
    assert r.code == 78 and "mail: the new handler is not ready" in r.err and "quredis_missing" in r.err, r
    assert d.stop() == 0


def test_a_reload_fails_while_the_directory_of_a_function_is_closed(quredisd, ledger, tmp):
    release = tmp / "release"
    release.mkdir()
    for written in ("loads", "ledger"):
        (tmp / written).touch()
        (tmp / written).chmod(0o666)
    deploy_text(tmp, "one")
    os.rename(tmp / "app.py", release / "app.py")
    d = quredisd(queues=[dict(name="mail", function=f"{release}/app.py", workers=1, **USER)])
    works(d, ledger, "one", "a")
    try:
        release.chmod(0)
        for n in range(2):
            r = d.quredis("reload")
            assert r.code == 78 and "mail: the new handler was not ready" in r.err and "app.py" in r.err, r
            works(d, ledger, "one", f"goes on {n}")
    finally:
        release.chmod(0o755)
    assert d.quredis("reload").code == 0
    works(d, ledger, "one", "b")
    assert d.stop() == 0
