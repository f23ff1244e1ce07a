"""The master: what it starts with, what it makes of the deaths of its children, and what it leaves."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time
from datetime import datetime, timedelta

import pytest

from harness import QUREDISD, SANITIZED, alive, children_of, descendants_of, open_files, queue, title_of, wait_for
from harness.containers import why_not
from harness.control import status

GATED = "read -r m; echo $m >>@LEDGER@; while ! [ -e @TMP@/go ]; do sleep 0.02; done; echo done-$m >>@LEDGER@"


def run(*args, **options):
    return subprocess.run([str(QUREDISD), *map(str, args)], capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL, **options)


def idle(d):
    return wait_for(lambda: (w := status(d)["workers"]) and all(x["state"] == "idle" for x in w) and w)


def kill_worker(d, name):
    """Kills it as the OOM killer would and returns its successor's pid."""
    old = d.workers()[name]
    os.kill(old, signal.SIGKILL)
    return wait_for(lambda: (pid := d.workers().get(name)) and pid != old and pid, 90, f"another {name}")


# ---- starting ----

def test_options():
    version = run("--version")
    assert version.returncode == 0 and re.fullmatch(r"quredisd \d+\.\d+\.\d+\nhiredis [\d.]+\nOpenSSL 3[\d.]+\njansson [\d.]+\n", version.stdout)
    assert run("-V").stdout == version.stdout
    usage = run("-h")
    assert usage.returncode == 0 and usage.stdout.startswith("usage: quredisd") and not usage.stderr
    for wrong in (["-x"], ["-c"], ["more"], ["--pid-file"], ["-t", "more"]):
        bad = run(*wrong)
        assert bad.returncode == 64 and "usage:" in bad.stderr and not bad.stdout, wrong
        assert "more" not in wrong or bad.stderr.startswith("quredisd: unexpected argument 'more'.")


def test_testing_a_configuration(quredisd, tmp):
    d = quredisd(queues=[queue("mail", "/bin/true", timeout="1s")], start=False)
    good = d.check()
    assert good.returncode == 0 and "good" in good.stderr and not good.stdout
    d.write_conf(queues=[queue("mail", "/bin/true", timeuot="1s", workers="two")])
    bad = d.check()
    assert bad.returncode == 78 and f"{d.conf}:" in bad.stderr and "timeout" in bad.stderr and "workers" in bad.stderr
    assert d.check("-T").returncode == 78
    absent = run("-c", tmp / "absent", "-t")
    assert absent.returncode == 78 and str(tmp / "absent") in absent.stderr
    d.start(wait=False)
    assert d.wait_exit() == 78 and "timeout" in d.text()


def test_printing_a_configuration_parses_again(quredisd, tmp):
    d = quredisd(queues=[queue("mail", "/bin/true")], start=False)
    printed = d.check("-T")
    assert printed.returncode == 0
    again = tmp / "again.conf"
    again.write_text(printed.stdout)
    again.chmod(0o644)
    assert run("-c", again, "-t").returncode == 0


def test_titles(quredisd):
    d = quredisd(queues=[queue("mail", "/bin/true", workers=2), queue("x", "/bin/true")])
    wait_for(lambda: sorted(d.children().values()) == [
        "quredisd: sweeper", "quredisd: worker mail/0", "quredisd: worker mail/1", "quredisd: worker x/0"])
    wait_for(lambda: title_of(d.pid) == "quredisd: master (3 workers)")
    assert pathlib.Path(f"/proc/{d.pid}/comm").read_text() == "quredisd\n"


def test_started_with_standard_descriptors_closed(quredisd, tmp):
    """The first file that the master opens must not become a child's standard output."""
    d = quredisd(queues=[queue("mail", "/bin/true")], log={"target": str(tmp / "log")}, start=False)
    master = subprocess.Popen(["/bin/sh", "-c", f'exec "$0" -c "$1" <&- >&- 2>&-', str(QUREDISD), str(d.conf)],
                              env=d.environment())
    try:
        wait_for(lambda: (tmp / "log").exists() and "event=ready" in (tmp / "log").read_text())
        for pid in [master.pid, *children_of(master.pid)]:
            assert [open_files(pid)[fd] for fd in (0, 1, 2)] == ["/dev/null"] * 3
    finally:
        master.terminate()
        assert master.wait(30) == 0


def test_pid_file(quredisd, tmp):
    path = tmp / "pid"
    d = quredisd(queues=[queue("mail", "/bin/true")], args=["--pid-file", path])
    assert path.read_text().strip() == str(d.pid)
    second = quredisd(queues=[queue("mail", "/bin/true")], args=["--pid-file", path], wait=False)
    assert second.wait_exit() == 75 and str(d.pid) in second.text()
    assert path.read_text().strip() == str(d.pid)
    assert d.stop() == 0 and not path.exists()
    d.args = ["--pid-file", tmp / "no" / "such" / "pid"]
    d.start(wait=False)
    assert d.wait_exit() == 73


def test_children_get_only_what_they_need(quredisd, tmp):
    d = quredisd(queues=[queue("mail", "/bin/true")], args=["--pid-file", tmp / "pid"], notify=True)
    idle(d)
    lock, log = str(d.dir / "lock"), re.compile(r"pipe:|/dev/")
    for pid, title in d.children().items():
        others = [f for fd, f in open_files(pid).items() if fd > 2 and f != lock and not log.match(f)]
        kinds = sorted(re.sub(r":.*", "", f) for f in others)
        # its connection, and of the sweeper the socket to the master besides
        assert set(kinds) <= {"socket", "anon_inode"} and kinds.count("socket") <= 2, (title, others)
        assert "anon_inode:[signalfd]" not in others or "worker" in title, (title, others)
        assert lock in open_files(pid).values(), title
        assert str(tmp / "pid") not in open_files(pid).values()
    listening = {line.split()[6]: line.split()[-1] for line in pathlib.Path("/proc/net/unix").read_text().splitlines()[1:]
                 if line.endswith(str(d.sections["supervisor"]["control_socket"]))}
    for pid in d.children():
        assert not any(f == f"socket:[{inode}]" for inode in listening for f in open_files(pid).values())


# ---- the lock ----

@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_cannot_hold_lock_or_pid_file(quredisd, tmp):
    """flock(2) asks for nothing but an open file. Files of a version that let others open them are tightened."""
    pid = tmp / "pid"
    d = quredisd(queues=[queue("mail", "/bin/true")], args=["--pid-file", pid], start=False)
    files = [d.dir / "lock", pid]
    for f in files:
        f.touch()
        f.chmod(0o644)
    as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    assert all(subprocess.run([*as_nobody, "flock", "-n", f, "true"]).returncode == 0 for f in files)
    d.start()
    for f in files:
        assert f.stat().st_mode & 0o777 == 0o600
        tried = subprocess.run([*as_nobody, "flock", "-n", f, "true"], capture_output=True, text=True)
        assert tried.returncode != 0 and "Permission denied" in tried.stderr
    assert d.stop() == 0 and not pid.exists()
    os.chown(files[0], 65534, 65534)
    d.start(wait=False)
    assert d.wait_exit() == 73 and "belongs to another user" in d.text()


def test_a_second_supervisor_is_refused_at_once(quredisd):
    d = quredisd(queues=[queue("mail", "/bin/true")], supervisor={"kill_grace": "60s"})
    second = quredisd(queues=[queue("mail", "/bin/true")], supervisor={**d.sections["supervisor"]}, wait=False)
    begin = time.monotonic()
    assert second.wait_exit() == 75
    assert time.monotonic() - begin < 30
    assert f"pid {d.pid}" in second.events("start_failed")[0]["reason"]
    assert status(d)["ok"]


def test_workers_of_a_killed_master_are_awaited(redis, quredisd, handler, ledger, tmp):
    stubborn = handler("trap '' TERM; read -r m; echo $m >>@LEDGER@; while ! [ -e @TMP@/go ]; do sleep 0.02; done")
    d = quredisd(queues=[queue("mail", stubborn)], supervisor={"kill_grace": "3s"})
    redis.client().lpush("ingress:mail", "a")
    wait_for(lambda: ledger.lines() == ["a"])
    below = descendants_of(d.pid)
    d.kill9()
    d.start()
    assert d.events("lock_waiting")
    assert not any(map(alive, below))
    wait_for(lambda: ledger.lines() == ["a", "a"])
    (tmp / "go").touch()


def test_the_lock_does_not_trust_what_the_file_says(quredisd):
    d = quredisd(queues=[queue("mail", "/bin/true")], start=False)
    lock = d.dir / "lock"
    for text in ("1\n", str(os.getpid()), "garbage", "-1", "99999999999999999999", ""):
        lock.write_text(text)
        d.start()
        assert lock.read_text().split("\n")[0].strip() == str(d.pid)
        assert d.stop() == 0


def test_the_lock_file_that_is_replaced_meanwhile(quredisd):
    """Removed by somebody: the next start makes another, and is another supervisor."""
    d = quredisd(queues=[queue("mail", "/bin/true")])
    (d.dir / "lock").unlink()
    other = quredisd(queues=[queue("mail", "/bin/true")],
                     supervisor={"lock_file": d.sections["supervisor"]["lock_file"], "node": d.tag + "-2"})
    assert status(other)["ok"] and status(d)["ok"]


def test_the_lock_file_is_a_link(quredisd, tmp):
    (tmp / "lock").symlink_to(tmp / "elsewhere")
    d = quredisd(start=False, queues=[queue("mail", "/bin/true")], supervisor={"lock_file": tmp / "lock"})
    d.start(wait=False)
    assert d.wait_exit() == 73 and not (tmp / "elsewhere").exists()
    reason = d.events("start_failed")[-1]["reason"]
    assert f"{tmp}/lock: is a symbolic link" in reason


def test_the_directory_of_the_lock_is_made(quredisd, tmp):
    d = quredisd(queues=[queue("mail", "/bin/true")],
                 supervisor={"lock_file": tmp / "run" / "lock", "control_socket": tmp / "run" / "c"})
    assert os.stat(tmp / "run").st_mode & 0o777 == 0o755
    d.stop()
    d.write_conf(supervisor={**d.sections["supervisor"], "lock_file": tmp / "a" / "b" / "lock"})
    d.start(wait=False)
    assert d.wait_exit() == 73 and "its directory cannot be made" in d.events("start_failed")[-1]["reason"]


# ---- deaths ----

def test_one_process_is_replaced_and_siblings_stay(redis, quredisd, ledger):
    d = quredisd(queues=[queue("mail", ledger.recorder(), workers=3), queue("other", "/bin/true")])
    before, incarnations = d.children(), {w["incarnation"] for w in idle(d)}
    old = d.workers()["mail/1"]
    new = kill_worker(d, "mail/1")
    assert set(before) - set(d.children()) == {old} and set(d.children()) - set(before) == {new}
    died = d.wait_event("worker_died")
    assert died["queue"] == "mail" and died["worker"] == "mail/1" and died["signal"] == "SIGKILL"
    assert died["child"] == str(old) and int(died["lived_ms"]) >= 0
    fresh = {w["incarnation"] for w in idle(d)}
    assert len(fresh - incarnations) == 1                  # never used before, though the slot was
    assert status(d, "mail")["restarts"] == 1
    wait_for(lambda: status(d)["unconfirmed_deaths"] == 0)


def test_nothing_a_dead_worker_started_is_left(redis, quredisd, handler, ledger):
    """The handler, its child, and a grandchild in a session of its own."""
    body = handler("read -r m; setsid -f sh -c 'echo $$ >>@LEDGER@; sleep 1000'; sleep 1000 & echo $! >>@LEDGER@; "
                   "echo $$ >>@LEDGER@; wait")
    d = quredisd(queues=[queue("mail", body)])
    redis.client().lpush("ingress:mail", "a")
    pids = [int(p) for p in wait_for(lambda: len(ledger.lines()) == 3 and ledger.lines())]
    assert all(map(alive, pids))
    os.kill(d.workers()["mail/0"], signal.SIGKILL)
    wait_for(lambda: not any(map(alive, pids)))
    children = set(d.children())
    wait_for(lambda: set(children_of(d.pid)) == set(d.children()), what="no zombie, no orphan")
    assert children


def test_children_from_before_are_not_ours_to_kill(quredisd, handler, tmp):
    """An entry point that starts a tunnel and then becomes quredisd."""
    d = quredisd(queues=[queue("mail", "/bin/true")], log={"target": str(tmp / "log")}, start=False)
    master = subprocess.Popen(["/bin/sh", "-c", f'sleep 1000 & exec "$0" -c "$1"', str(QUREDISD), str(d.conf)],
                              env=d.environment(), stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: (tmp / "log").exists() and "event=ready" in (tmp / "log").read_text())
        sleep = wait_for(lambda: next((p for p in children_of(master.pid) if "sleep" in title_of(p)), None))
        os.kill(next(p for p in children_of(master.pid) if "worker" in title_of(p)), signal.SIGKILL)
        wait_for(lambda: (tmp / "log").read_text().count("event=worker_started") == 2)
        assert alive(sleep)
        os.kill(sleep, signal.SIGKILL)
        wait_for(lambda: not os.path.exists(f"/proc/{sleep}"), what="it is reaped")
    finally:
        master.terminate()
        assert master.wait(30) == 0


def test_many_at_once_are_one_event(quredisd):
    d = quredisd(queues=[queue("mail", "/bin/true", workers=10)])
    idle(d)
    old = d.workers("mail")
    for pid in old.values():
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: len(d.workers("mail")) == 10 and not set(d.workers("mail").values()) & set(old.values()), 20)
    assert status(d, "mail")["state"] == "running" and status(d, "mail")["restarts"] == 10


def test_a_message_done_in_between_keeps_the_delay_short(redis, quredisd, ledger):
    d = quredisd(queues=[queue("mail", ledger.recorder())])
    for n in range(1, 5):
        redis.client().lpush("ingress:mail", str(n))
        wait_for(lambda: status(d, "mail")["counters"]["done"] == n)
        kill_worker(d, "mail/0")
    died, started = d.events("worker_died")[3], d.events("worker_started")[4]
    gap = datetime.fromisoformat(started["time"]) - datetime.fromisoformat(died["time"])
    assert gap < timedelta(seconds=2)                            # four in a row wait at least so long


@pytest.mark.limit(240)
def test_death_after_death_is_backoff_for_that_queue_alone(redis, quredisd, ledger):
    d = quredisd(queues=[queue("mail", "/bin/true"), queue("other", ledger.recorder())])
    other = d.workers("other")
    begin = time.monotonic()
    for _ in range(4):
        kill_worker(d, "mail/0")
    assert time.monotonic() - begin >= 0.25 + 0.5 + 1 + 2        # half of what it is without chance
    os.kill(d.workers()["mail/0"], signal.SIGKILL)
    d.wait_event("queue_state", queue="mail", state="backoff")
    assert "five times" in status(d, "mail")["reason"] and status(d, "mail")["workers"]["alive"] == 0
    redis.client().lpush("ingress:other", "a")
    wait_for(ledger.runs)
    assert d.workers("other") == other and status(d, "other")["state"] == "running"
    d.reload(queues=[queue("mail", "/bin/cat"), queue("other", ledger.recorder())])
    wait_for(lambda: status(d, "mail")["state"] == "running" and d.workers("mail"), 7)      # a new start at once


def test_the_sweeper_is_replaced(redis, quredisd, ledger):
    d = quredisd(queues=[queue("mail", ledger.recorder())])
    workers, old = d.workers(), d.sweeper()
    os.kill(old, signal.SIGKILL)
    assert d.wait_event("sweeper_died")["signal"] == "SIGKILL"
    wait_for(lambda: d.sweeper() not in (None, old))
    redis.client().lpush("ingress:mail", "a")
    wait_for(ledger.runs)
    assert d.workers() == workers


def test_a_death_without_a_sweeper_is_told_to_the_next(redis, quredisd, handler, ledger, tmp):
    d = quredisd(queues=[queue("mail", handler(GATED), workers=1)])
    redis.client().lpush("ingress:mail", "a")
    wait_for(lambda: ledger.lines() == ["a"])
    (tmp / "go").touch()
    sweeper, worker = d.sweeper(), d.workers()["mail/0"]
    os.kill(sweeper, signal.SIGSTOP)
    os.kill(worker, signal.SIGKILL)
    d.wait_event("worker_died")
    wait_for(lambda: status(d)["unconfirmed_deaths"] == 1)
    os.kill(sweeper, signal.SIGKILL)
    wait_for(lambda: status(d)["unconfirmed_deaths"] == 0)
    wait_for(lambda: "done-a" in ledger.lines())


@pytest.mark.limit(240)
def test_a_stuck_worker_is_killed_with_its_handler(redis, quredisd, handler, ledger, tmp):
    d = quredisd(queues=[queue("mail", handler("echo $$ >>@LEDGER@; exec sleep 1000"), timeout="1s", kill_grace="100ms")])
    worker = idle(d)[0]["pid"]
    redis.client().lpush("ingress:mail", "a")
    pid = int(wait_for(ledger.lines)[0])
    os.kill(worker, signal.SIGSTOP)
    stuck = d.wait_event("worker_stuck", 60)
    assert stuck["child"] == str(worker) and int(stuck["heartbeat_age_ms"]) >= 10000
    died = d.wait_event("worker_died", 60)
    assert died["child"] == str(worker) and died["signal"] in ("SIGKILL", "SIGABRT")
    assert not alive(pid)
    wait_for(lambda: d.workers("mail"))


@pytest.mark.limit(240)
@pytest.mark.parametrize("connected", [True, False])
def test_a_stalled_sweeper_is_replaced(redis, quredisd, handler, ledger, tmp, connected):
    """A worker dies while the sweeper stands still, with its connection or while Redis is away: the message comes back soon."""
    d = quredisd(queues=[queue("mail", handler(GATED), workers=1)])
    redis.client().lpush("ingress:mail", "a")
    wait_for(lambda: ledger.lines() == ["a"])
    (tmp / "go").touch()
    if not connected:
        redis.signal(signal.SIGSTOP)
        wait_for(lambda: status(d)["sweeper"]["state"] == "connecting", 60)
    old = d.sweeper()
    os.kill(old, signal.SIGSTOP)
    os.kill(d.workers()["mail/0"], signal.SIGKILL)
    redis.signal(signal.SIGCONT)
    stuck = d.wait_event("worker_stuck", 100, worker="sweeper")      # much less than name resolution would be given
    assert stuck["child"] == str(old) and int(stuck["heartbeat_age_ms"]) >= 10000
    assert d.wait_event("sweeper_died", 60)["signal"] == "SIGABRT"   # at once, though it was stopped
    wait_for(lambda: "done-a" in ledger.lines(), 60)


SLOW_RESOLVER = r"""
#include <sys/types.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdlib.h>
#include <unistd.h>

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **out)
{
	unsigned left = 14;

	while (left > 0)
		left = sleep(left);
	close(creat(getenv("RESOLVED"), 0600));
	return EAI_AGAIN;
}
"""


@pytest.mark.skipif(SANITIZED, reason="a sanitizer must come first")
def test_a_sweeper_that_resolves_a_name_is_not_stalled(quredisd, tmp):
    (tmp / "slow.c").write_text(SLOW_RESOLVER)
    subprocess.run(["cc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", tmp / "slow.so", tmp / "slow.c"], check=True, timeout=60)
    d = quredisd(queues=[queue("mail", "/bin/true", workers=0)], redis={"url": "redis://redis.invalid:6379"}, wait=False,
                 env={"LD_PRELOAD": str(tmp / "slow.so"), "RESOLVED": str(tmp / "resolved")})
    wait_for(lambda: (tmp / "resolved").exists(), 100)
    d.wait_event("redis_down", 60)
    assert not d.events("worker_stuck") and not d.events("sweeper_died")


def test_without_descriptors_it_waits_and_goes_on(quredisd):
    """Stands for a failed fork: the socket of the sweeper cannot be created."""
    prlimit = shutil.which("prlimit")
    if prlimit is None:
        pytest.skip("needs prlimit")
    d = quredisd(queues=[queue("mail", "/bin/true")])
    old = d.sweeper()
    subprocess.run([prlimit, "--pid", str(d.pid), "--nofile=3:1024"], check=True)
    os.kill(old, signal.SIGKILL)
    d.wait_event("fork_failed", worker="sweeper")
    assert d.running() and d.workers("mail")
    subprocess.run([prlimit, "--pid", str(d.pid), "--nofile=1024:1024"], check=True)
    wait_for(lambda: d.sweeper() not in (None, old), 40)
    assert status(d)["ok"]


# ---- ends ----

def test_a_killed_master_takes_everything_with_it(redis, quredisd, handler, ledger):
    body = handler("read -r m; setsid -f sh -c 'echo $$ >>@LEDGER@; sleep 1000'; echo $$ >>@LEDGER@; sleep 1000")
    d = quredisd(queues=[queue("mail", body, workers=2), queue("other", "/bin/cat")], supervisor={"kill_grace": "1s"})
    redis.client().lpush("ingress:mail", "a")
    wait_for(lambda: len(ledger.lines()) == 2)
    below = descendants_of(d.pid) + [int(p) for p in ledger.lines()]
    d.kill9()
    wait_for(lambda: not any(map(alive, below)), 30)
    assert len(redis.client().lrange("ingress:mail", 0, -1)) == 1


def test_what_does_not_hand_back_is_killed(redis, quredisd, handler, ledger):
    """The worker itself is stopped: the failsafe, which is a death."""
    d = quredisd(queues=[queue("mail", handler("echo $$ >>@LEDGER@; exec sleep 1000"))], supervisor={"kill_grace": "200ms"})
    redis.client().lpush("ingress:mail", "a")
    pid = int(wait_for(ledger.lines)[0])
    os.kill(d.workers()["mail/0"], signal.SIGSTOP)
    assert d.stop(signal.SIGQUIT, timeout=60) == 0
    assert d.events("worker_overdue") and d.events("worker_died")[0]["signal"] == "SIGKILL"
    assert not alive(pid)
    assert redis.client().llen("ingress:mail") == 1            # the sweeper was there to bring it back
    assert redis.client().keys("transit:mail:*:[012]") == []


def test_idle_it_hardly_wakes(quredisd):
    d = quredisd(queues=[queue("mail", "/bin/true", workers=2)])
    idle(d)

    def switches():
        text = pathlib.Path(f"/proc/{d.pid}/status").read_text()
        return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", text, re.M)[1])
    before, begin = switches(), time.monotonic()
    wait_for(lambda: time.monotonic() - begin >= 5)
    assert switches() - before <= 15


def test_as_pid_1_it_reaps_and_exits_0(redis, quredisd, handler, ledger, tmp):
    kinds = ["--pid", "--fork", "--kill-child", "--mount-proc"]
    if reason := why_not("true", kinds):
        pytest.skip(reason)
    body = handler("read -r m; setsid -f sleep 1000; echo $m >>@LEDGER@")
    d = quredisd(queues=[queue("mail", body)], log={"target": str(tmp / "log")}, start=False)
    outer = subprocess.Popen(["unshare", *kinds, "--", str(QUREDISD), "-c", str(d.conf)],
                             stderr=subprocess.DEVNULL, env=d.environment())
    try:
        wait_for(lambda: (tmp / "log").exists() and "event=ready" in (tmp / "log").read_text())
        master = children_of(outer.pid)[0]
        redis.client().lpush("ingress:mail", "a")
        wait_for(lambda: ledger.lines() == ["a"])
        os.kill(next(p for p in children_of(master) if "worker" in title_of(p)), signal.SIGKILL)
        wait_for(lambda: "worker_died" in (tmp / "log").read_text())
        wait_for(lambda: len(children_of(master)) == 2)
        os.kill(master, signal.SIGTERM)
        assert outer.wait(30) == 0
    finally:
        outer.kill()
        outer.wait()
