"""What a dead supervisor's handlers left: found, killed, counted; nobody else can pass for it, and nothing holds a queue up for ever."""
import fcntl
import os
import pathlib
import re
import signal
import subprocess

import pytest

from harness import alive, queue, wait_for
from harness.control import status
from harness.processes import environment_of, pids

TOKEN = b"QUREDIS_BOOT_TOKEN"
# notes "run PID", and waits; with @LEFT@ it starts something in a session of its own, which notes "left PID"
BODY = """
read -r m
@LEFT@
echo "run $$" >>@LEDGER@
while ! [ -e @TMP@/go ]; do sleep 0.05; done
echo "end $m" >>@LEDGER@
"""
PLAIN = """setsid sh -c 'echo "left $$" >>@LEDGER@; exec sleep 1000 >/dev/null 2>&1' &"""
CLEARED = """setsid env -i sh -c 'echo "left $$" >>@LEDGER@; exec sleep 1000 >/dev/null 2>&1' &"""
OTHER_USER = """setsid env -i setpriv --reuid=4711 --clear-groups sh -c 'echo "left $$" >>@LEDGER@; exec sleep 1000 >/dev/null 2>&1' &"""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to run something as another user")


def cgroup_root():
    """Where cgroups (version 2) can be made; None: nowhere."""
    for line in pathlib.Path("/proc/self/mounts").read_text().splitlines():
        _, where, kind, options = line.split()[:4]
        if kind == "cgroup2" and "rw" in options.split(",") and os.access(where, os.W_OK):
            return pathlib.Path(where)
    return None


needs_cgroup = pytest.mark.skipif(cgroup_root() is None, reason="no writable cgroup hierarchy of version 2")


def noted(ledger, what):
    return [int(line.split()[1]) for line in ledger.lines() if line.startswith(what + " ")]


def supervisor(quredisd, handler, left="", **keys):
    return quredisd(queues=[queue("mail", handler(BODY.replace("@LEFT@", left)), **keys)])


def crash(d, redis, ledger, left=0):
    """Killed as a whole while a message is in work, but for what handlers left. Returns their numbers."""
    redis.client().lpush("ingress:mail", "m")
    wait_for(lambda: len(noted(ledger, "run")) == 1 and len(noted(ledger, "left")) == left)
    pids_left = noted(ledger, "left")
    d.kill_tree(spare=pids_left)
    return pids_left


def start_as(uid, environment, *argv):
    return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", *argv],
                            env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.fixture
def others():
    """Processes of a test that are to be gone at its end."""
    started = []
    yield started.append
    for p in started:
        p.kill()
        p.wait()


@needs_root
def test_a_stranger_who_knows_the_boot_stops_nothing(redis, quredisd, handler, ledger, tmp, others):
    """What is published (incarnations in Redis, the log, status) identifies nobody."""
    d = supervisor(quredisd, handler)
    boot = status(d)["boot"]
    crash(d, redis, ledger)
    incarnations = [k.decode() for k in redis.client().hkeys("transit:mail:workers")]
    assert incarnations and all(boot in i for i in incarnations)
    env = {"QUREDIS_INCARNATION": incarnations[0], "PATH": os.environ["PATH"]}
    forks = start_as(65534, env, "sh", "-c", "while :; do sleep 0.01; done")
    others(forks)
    d.start()
    d.wait_event("queue_recovered", queue="mail", timeout=60)
    assert forks.poll() is None                            # not even touched
    assert not d.events("handlers_killed") and not d.events("queue_error")
    (tmp / "go").touch()
    wait_for(lambda: ledger.count("end m") == 1)


@needs_root
def test_a_user_that_no_handler_has_is_not_judged(redis, quredisd, handler, ledger, tmp, others):
    """Not even with the token of the boot."""
    d = supervisor(quredisd, handler)
    redis.client().lpush("ingress:mail", "m")
    token = environment_of(wait_for(lambda: noted(ledger, "run"))[0])[TOKEN].decode()
    d.kill_tree()
    stranger = start_as(65534, {"QUREDIS_BOOT_TOKEN": token}, "/bin/sleep", "1000")
    others(stranger)
    d.start()
    d.wait_event("queue_recovered", queue="mail", timeout=60)
    assert stranger.poll() is None and not d.events("handlers_killed")
    (tmp / "go").touch()


@needs_root
def test_the_queue_opens_with_an_alarm(redis, quredisd, handler, ledger, tmp):
    """Without CAP_KILL root may see what is left of other users, and not end it. Every one of them is told."""
    left = """for i in 1 2 3; do setsid sh -c 'echo "left $$" >>@LEDGER@; exec sleep 1000 >/dev/null 2>&1' & done"""
    body = BODY.replace("@LEFT@", "[ $QUREDIS_REDELIVERED = 1 ] || { " + left + "; }")
    d = quredisd(queues=[queue("mail", handler(body), run_as={"user": "nobody"})], health={"enabled": True, "interval": "1s"})
    pids_left = crash(d, redis, ledger, 3)
    for group in [g for g in (cgroup_root() or tmp).rglob("quredis-*") if (g / "cgroup.procs").exists()]:
        if str(pids_left[0]) in (group / "cgroup.procs").read_text().split():      # cgroup.kill needs no CAP_KILL
            for pid in pids_left:
                (cgroup_root() / "cgroup.procs").write_text(str(pid))
    (tmp / "go").touch()                                   # or what it starts then could not be killed either
    d._inside = ["setpriv", "--bounding-set=-kill", "--inh-caps=-kill"]
    d.start()
    alarm = d.wait_event("leftovers_alive", timeout=100)
    assert alarm["count"] == "3" and alarm["incarnation"].startswith(d.tag + ".")
    told = d.events("leftover_alive")
    assert {int(e["process"]) for e in told} == set(pids_left)
    assert {(e["uid"], e["reason"]) for e in told} == {("65534", "Operation not permitted")}
    assert len(d.events("queue_error", at="recovery")) == 1          # told once, not each round
    d.wait_event("queue_recovered", queue="mail", timeout=60)
    assert wait_for(lambda: "may still run" in (status(d, "mail")["reason"] or "")) and status(d, "mail")["state"] == "running"
    d.wait_event("health_changed", queue="mail", status="degraded", timeout=60)     # the lead of the dead supervisor must expire first
    wait_for(lambda: ledger.count("end m") == 1)
    for pid in pids_left:
        os.kill(pid, signal.SIGKILL)
    d.wait_event("leftovers_gone", timeout=60)
    wait_for(lambda: status(d, "mail")["reason"] is None)


@needs_root
def test_users_of_an_earlier_configuration_are_judged(redis, quredisd, handler, ledger, tmp):
    """The lock file remembers whom handlers ran as."""
    d = supervisor(quredisd, handler, PLAIN, run_as={"user": "nobody"})
    (left,) = crash(d, redis, ledger, 1)
    d.write_conf(queues=[queue("mail", handler(BODY.replace("@LEFT@", "")))])
    d.start()
    wait_for(lambda: len(noted(ledger, "run")) == 2)
    assert not alive(left) and d.events("handlers_killed")
    (tmp / "go").touch()


@needs_cgroup
@pytest.mark.parametrize("left", [CLEARED, pytest.param(OTHER_USER, marks=needs_root)], ids=["env -i", "another user"])
def test_what_cleared_its_environment_is_found_by_its_cgroup(redis, quredisd, handler, ledger, tmp, left):
    d = supervisor(quredisd, handler, left)
    (pid,) = crash(d, redis, ledger, 1)
    assert TOKEN not in environment_of(pid) and alive(pid)
    d.start()
    wait_for(lambda: len(noted(ledger, "run")) == 2, 60)
    assert not alive(pid) and d.events("handlers_killed")
    (tmp / "go").touch()


def forge(redis, d, boots):
    """Registrations as a dead supervisor of d's lock file would have left them, of these boots."""
    c = redis.client()
    (registration,) = c.hvals("transit:mail:workers")
    assert d.stop() == 0
    for boot in boots:
        c.hset("transit:mail:workers", f"{d.tag}.{boot}.7.1", registration)


@needs_cgroup
def test_a_forged_registration_kills_no_other_supervisor(redis, quredisd, handler, ledger, tmp):
    """Whoever may write to Redis knows every boot; nothing that is derived from one may be killed by that alone."""
    d = supervisor(quredisd, handler)
    other = quredisd(queues=[queue("letters", handler(BODY.replace("@LEFT@", "")))])
    redis.client().lpush("ingress:letters", "m")
    (running,) = wait_for(lambda: noted(ledger, "run"))
    family = {running, other.sweeper(), *other.wait_workers("letters", 1).values()}
    place = pathlib.Path(f"/proc/{running}/cgroup").read_text()
    assert "/quredis-" in place, "the other one has a cgroup"
    wait_for(lambda: redis.client().hlen("transit:mail:workers") == 1)
    forge(redis, d, [status(other)["boot"]])
    d.start()
    d.wait_event("queue_recovered", queue="mail", timeout=60)
    assert [pid for pid in family if not alive(pid)] == []
    assert not d.events("handlers_killed") and not other.events("worker_died")
    (tmp / "go").touch()
    wait_for(lambda: ledger.count("end m") == 1)
    assert len(noted(ledger, "run")) == 1


@needs_cgroup
def test_a_cgroup_that_is_held_is_not_killed(redis, quredisd, handler, ledger, tmp):
    """Whoever holds its lock may be its supervisor. The queue opens with an alarm, and what is in it ends once the lock is free."""
    d = supervisor(quredisd, handler, CLEARED)
    redis.client().lpush("ingress:mail", "m")
    (pid,) = wait_for(lambda: noted(ledger, "left"))
    path = re.search(r"^0::(/.*)$", pathlib.Path(f"/proc/{pid}/cgroup").read_text(), re.M)[1]
    group = os.open(f"{cgroup_root()}{path}", os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(group, fcntl.LOCK_SH | fcntl.LOCK_NB)
        wait_for(lambda: noted(ledger, "run"))
        d.kill_tree(spare=[pid])
        d.start()
        held = d.wait_event("cgroup_held", timeout=60)
        assert path.endswith("/" + held["cgroup"]) and held["incarnation"].startswith(d.tag + ".")
        d.wait_event("leftovers_alive", timeout=100)
        d.wait_event("queue_recovered", queue="mail", timeout=60)
        assert alive(pid)
    finally:
        os.close(group)
    (tmp / "go").touch()
    d.wait_event("leftovers_gone", timeout=60)
    wait_for(lambda: not alive(pid))


@needs_cgroup
def test_no_cgroup_is_left(redis, quredisd, handler, ledger):
    d = quredisd(queues=[queue("mail", ledger.recorder())])
    place = pathlib.Path(f"/proc/{d.wait_workers('mail', 1)['mail/0']}/cgroup")
    group = wait_for(lambda: re.search(r"^0::.*/(quredis-[0-9a-f]{16})$", place.read_text(), re.M))[1]
    assert group != f"quredis-{status(d)['boot']}", "nobody can tell it by what is published"
    assert [p.stat().st_mode & 0o777 for p in cgroup_root().rglob(group)] == [0o700], "strangers cannot hold its lock"
    assert d.stop() == 0
    assert not [p for p in cgroup_root().rglob(group)]


def test_the_token_is_secret(redis, quredisd, handler, ledger, tmp):
    """In the handler's environment and nowhere else: not in Redis, log, status, or a file that others may read."""
    d = supervisor(quredisd, handler)
    c = redis.client()
    c.lpush("ingress:mail", "m")
    env = environment_of(wait_for(lambda: noted(ledger, "run"))[0])
    token = env[TOKEN].decode()
    assert len(token) == 32
    (tmp / "go").touch()
    wait_for(lambda: ledger.count("end m") == 1)
    lock = d.dir / "lock"
    assert lock.stat().st_mode & 0o777 == 0o600
    key = next(line.split()[1] for line in lock.read_text().splitlines() if line.startswith("key "))
    seen = str(status(d)) + d.text() + "".join(str(c.dump(k)) for k in c.keys("*"))
    assert token not in seen and key not in seen and key not in str(env)
    assert d.stop() == 0
    d.start()
    again = next(line.split()[1] for line in lock.read_text().splitlines() if line.startswith("key "))
    c.lpush("ingress:mail", "n")
    assert again == key and wait_for(lambda: len(noted(ledger, "run")) == 2)


def test_a_lock_file_that_others_could_read_gets_another_key(quredisd):
    d = quredisd(queues=[queue("mail", "/bin/true")], start=False)
    lock = d.dir / "lock"
    known = "key " + "0" * 64
    lock.write_text(f"1\n{known}\nusers 0\n")
    lock.chmod(0o644)
    d.start()
    assert lock.stat().st_mode & 0o777 == 0o600 and known not in lock.read_text()
    assert d.stop() == 0
