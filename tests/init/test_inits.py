"""quredisd under the init systems of etc/init: the same promises under each of them."""
import fcntl
import os
import signal

import pytest

from harness import alive, containers as namespaces, queue, wait_for
from harness.handlers import GATED

from .inits import Monit, OpenRC, Runit, S6, Supervisord, find_program

INITS = [S6, Runit, Supervisord, Monit, OpenRC]


@pytest.fixture(params=INITS, ids=lambda cls: cls.name)
def make_init(request, tmp, tag, redis, quredisd, handler):
    """make_init(): quredisd with a queue "mail", whose handler waits for a file, under an init system."""
    missing = [program for program in request.param.needs if find_program(program) is None]
    if missing:
        pytest.skip(f"no {' '.join(missing)}: make inits fetches all but s6, which must be installed")
    if request.param is OpenRC and namespaces.why_not():
        pytest.skip(namespaces.why_not())
    made = []

    def make(**supervisor):
        d = quredisd(queues=[queue("mail", handler(GATED), workers=2, timeout="60s", max_attempts=2)], start=False,
                     supervisor={"drain_timeout": "50s", **supervisor})
        made.append(request.param(tmp / "i", d, tag))
        return made[-1]
    yield make
    for init in made:
        init.close()


@pytest.fixture
def init(make_init):
    return make_init()


def wait_running(ledger, *names):
    wait_for(lambda: {row[0] for row in ledger.rows("start")} >= set(names), 60, f"the handlers of {names}")


def test_ready_is_seen_when_it_is_true_and_not_before(make_init):
    """While another process holds the lock, quredisd runs and waits."""
    init = make_init(kill_grace="120s")
    with open(init.d.dir / "lock", "w") as lock:
        os.chmod(lock.name, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        init.start()
        init.wait_event("lock_waiting")
        wait_for(init.sees_it_run)
        assert init.master() and not init.is_ready()
    init.wait_ready()
    init.wait_event("ready")
    assert len(init.starts()) == 1 and len(init.events("lock_waiting")) == 1


@pytest.mark.parametrize("make_init", [Monit], ids=["monit"], indirect=True)
def test_monit_alerts_while_the_file_of_ready_is_empty(init):
    """It looks at nothing else while a start lasts, so it cannot be shown a quredisd that is not ready yet."""
    init.start()
    init.wait_ready()
    (init.run / "ready").write_text("")
    wait_for(lambda: init.state("quredisd_ready") == "Size failed", 60)
    assert init.state() == "OK" and len(init.starts()) == 1


def test_reload_takes_a_changed_configuration(init, redis, ledger):
    init.start()
    init.wait_ready()
    init.d.write_conf(queues=[*init.d.sections["queues"], queue("other", ledger.path.parent / "h/handler0")])
    init.reload()
    init.wait_event("reload_done")
    redis.client().lpush("ingress:other", "new")
    wait_running(ledger, "new")
    assert len(init.starts()) == 1


def test_a_drain_lets_a_running_handler_finish(init, redis, ledger, tmp):
    c = redis.client()
    init.start()
    init.wait_ready()
    c.lpush("ingress:mail", "slow")
    wait_running(ledger, "slow")
    master = init.master()
    init.stop()
    init.wait_event("stopping", how="drain")
    c.lpush("ingress:mail", "late")
    assert alive(master) and ledger.rows("end") == [] and not init.has_stopped()
    (tmp / "go").touch()
    wait_for(init.has_stopped, 60)
    assert not alive(master) and ledger.rows("end") == [["slow"]] and len(ledger.rows("start")) == 1
    assert c.lrange("ingress:mail", 0, -1) == [b"late"] and c.llen("escape:mail") == 0
    assert init.starts() == [master]


def test_a_killed_master_is_started_again(init, redis, ledger, tmp):
    init.start()
    init.wait_ready()
    redis.client().lpush("ingress:mail", "m")
    wait_running(ledger, "m")
    master = init.master()
    os.kill(master, signal.SIGKILL)
    wait_for(lambda: len(init.starts()) == 2 and len(init.events("ready")) == 2 and init.is_ready(), 90, "the second start to be ready")
    (tmp / "go").touch()
    wait_for(lambda: ["m"] in ledger.rows("end"))
    assert init.master() != master
    assert [row[1:3] for row in ledger.rows("start")] == [["0", "1"], ["1", "1"]]


@pytest.mark.parametrize("status", [64, 78])
def test_a_wrong_start_ends_the_restarts(init, status):
    if status == 64:
        init.break_usage()
    else:
        init.d.write_conf(queues=[queue("mail", "relative")], no_such_group={"key": 1})
    init.expect_failure()
    init.start()
    wait_for(lambda: init.has_given_up() or len(init.starts()) > 5, 120)
    starts = init.starts()
    assert len(starts) <= 5 and init.has_given_up() and not any(map(alive, starts))
    said = init.text() + (init.dir / "init.out").read_text()            # OpenRC starts nothing, and says why
    assert ("usage: quredisd" if status == 64 else "no_such_group") in said


@pytest.mark.parametrize("make_init", [OpenRC], ids=["openrc"], indirect=True)
def test_openrc_gives_up_a_configuration_that_became_wrong(init):
    """No check before the start sees it, since only supervise-daemon starts quredisd again."""
    init.start()
    init.wait_ready()
    init.d.write_conf(no_such_group={"key": 1})
    os.kill(init.master(), signal.SIGKILL)
    wait_for(lambda: init.has_given_up() or len(init.starts()) > 5, 120)
    assert 2 <= len(init.starts()) <= 5 and init.has_given_up() and "no_such_group" in init.text()


def test_sigterm_to_every_process_loses_and_charges_nothing(init, redis, ledger, tmp):
    """As a shutdown of the machine sends it: to the init system, to quredisd, and to all handlers."""
    c = redis.client()
    init.start()
    init.wait_ready()
    messages = [f"m{n}" for n in range(5)]
    c.lpush("ingress:mail", *messages)
    wait_for(lambda: len(ledger.rows("start")) == 2, 60)
    everybody = init.processes()
    assert len(everybody) > 6
    init.signal_all(signal.SIGTERM)
    wait_for(lambda: init.master() is None, 60, "quredisd to end")
    init.close()
    assert ledger.rows("end") == []
    (tmp / "go").touch()
    init.start()
    wait_for(lambda: sorted(row[0] for row in ledger.rows("end")) == messages, 60)
    assert {row[2] for row in ledger.rows("start")} == {"1"} and c.llen("escape:mail") == 0
