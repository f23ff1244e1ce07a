"""supervisor.user: what each kind of process keeps of root's rights, as the kernel lists it."""
import os
import pwd
import shutil
import signal
import subprocess

import pytest

from harness import SERVER, alive, children_of, queue, title_of, wait_for
from harness.control import status
from harness.processes import descendants_of

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give up its rights")

USER, OTHER = "daemon", "nobody"
KILL, SETGID, SETUID, DAC_OVERRIDE, PTRACE = 5, 6, 7, 1, 19
BODY = 'read -r m\necho "run $m $(id -u):$(id -g) $HOME" >>@LEDGER@\n'


def bits(*capabilities):
    return sum(1 << c for c in capabilities)


def rights(pid):
    """What /proc/PID/status says: users, groups, and capabilities as numbers."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as f:
        lines = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
    found = {name: int(lines[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}
    return {"uid": set(map(int, lines["Uid"].split())), "gid": set(map(int, lines["Gid"].split())),
            "groups": set(map(int, lines["Groups"].split())), "nnp": lines["NoNewPrivs"] == "1", **found}


def assert_dropped(pid, keep=0, user=USER, nnp=True):
    entry = pwd.getpwnam(user)
    wait_for(lambda: rights(pid)["CapEff"] == keep and (not nnp or rights(pid)["nnp"]))       # it has its title a moment before
    r = rights(pid)
    assert (r["uid"], r["gid"], r["nnp"]) == ({entry.pw_uid}, {entry.pw_gid}, nnp), (title_of(pid), r)
    assert r["groups"] == set(os.getgrouplist(user, entry.pw_gid)), (title_of(pid), r)
    assert (r["CapPrm"], r["CapEff"], r["CapInh"], r["CapAmb"]) == (keep, keep, 0, 0), (title_of(pid), r)
    assert not nnp or r["CapBnd"] == keep, (title_of(pid), r)
    assert os.stat(f"/proc/{pid}/environ").st_uid == 0, "its memory is hidden"


def search_of(d):
    return next((p for p in children_of(d.sweeper()) if title_of(p) == "quredisd: sweeper search"), None)


def assert_all(d):
    """Every process of the supervisor, by its kind."""
    assert rights(d.pid)["uid"] == {0}
    assert_dropped(wait_for(d.sweeper))
    assert_dropped(wait_for(lambda: search_of(d)), bits(KILL, PTRACE, DAC_OVERRIDE))
    for pid in d.wait_workers("plain", 1).values():
        assert_dropped(pid)
    for pid in d.wait_workers("other", 1).values():
        assert_dropped(pid, bits(SETUID, SETGID, KILL))


def supervisor(quredisd, handler, redis=None, **sections):
    queues = [queue("plain", handler(BODY, name="plain"), **sections.pop("plain", {})),
              queue("other", handler(BODY, name="other"), run_as={"user": OTHER, **sections.pop("run_as", {})}, **sections.pop("other", {}))]
    options = {} if redis is None else {"redis": redis}
    return quredisd(queues=queues, supervisor={"user": USER, **sections.pop("supervisor", {})}, **options, **sections)


def ledger_for_all(tmp):
    (tmp / "ledger").touch()
    (tmp / "ledger").chmod(0o666)


def ran(tmp):
    return sorted((tmp / "ledger").read_text().splitlines())


def runs_as(name, message):
    entry = pwd.getpwnam(name)
    return f"run {message} {entry.pw_uid}:{entry.pw_gid} {entry.pw_dir}"


def test_each_process_keeps_what_it_needs(redis, quredisd, handler, tmp):
    ledger_for_all(tmp)
    d = supervisor(quredisd, handler)
    assert_all(d)
    for name in ("plain", "other"):
        redis.client().lpush(f"ingress:{name}", name)
    wait_for(lambda: ran(tmp) == sorted([runs_as(USER, "plain"), runs_as(OTHER, "other")]))
    before = {**d.workers(), "sweeper": d.sweeper(), "search": search_of(d)}
    d.reload(supervisor={**d.sections["supervisor"], "lease": "29s"})
    wait_for(lambda: d.sweeper() and len(d.workers()) == 2 and not {*d.workers().values(), d.sweeper()} & set(before.values()))
    wait_for(lambda: not any(map(alive, before.values())))
    assert_all(d)
    for pid in [*d.workers().values(), d.sweeper()]:
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda pid=pid: not alive(pid))
        wait_for(lambda: d.sweeper() and len(d.workers()) == 2, 60)
    assert_all(d)
    pids = descendants_of(d.pid)
    assert d.stop() == 0 and not any(map(alive, pids))


def test_the_embedded_redis_and_its_keeper_keep_nothing(quredisd, handler, tmp):
    ledger_for_all(tmp)
    server = {} if SERVER == "redis-server" else {"server": shutil.which(SERVER)}
    d = supervisor(quredisd, handler, {"embedded": True, "dir": tmp / "data", **server})
    uid = pwd.getpwnam(USER).pw_uid
    keeper = wait_for(lambda: next((p for p in children_of(d.pid) if title_of(p) == "quredisd: keeper"), None))
    server = wait_for(lambda: next(iter(children_of(keeper)), None))
    for pid in (keeper, server):
        wait_for(lambda pid=pid: rights(pid)["nnp"])
        r = rights(pid)
        assert (r["uid"], r["CapPrm"], r["CapEff"], r["CapBnd"], r["nnp"]) == ({uid}, 0, 0, 0, True), title_of(pid)
    assert (tmp / "data").stat().st_uid == uid
    wait_for((tmp / "data" / "redis.sock").exists)
    assert d.quredis("push", "other", "m").code == 0
    wait_for(lambda: ran(tmp) == [runs_as(OTHER, "m")])
    assert d.stop() == 0 and not alive(server)


def test_a_handler_gets_the_score_that_its_worker_may_not_write(redis, quredisd, handler, tmp):
    """/proc/PID/oom_score_adj of a process whose memory is hidden belongs to root."""
    ledger_for_all(tmp)
    # a worker that has the handler's user writes it a moment after exec
    body = 'read -r m; until [ "$(cat /proc/self/oom_score_adj)" -ge 500 ]; do sleep 0.01; done; echo "$(id -un) $(cat /proc/self/oom_score_adj)" >>@LEDGER@\n'
    d = quredisd(supervisor={"user": USER}, queues=[
        queue("plain", handler(body, name="plain"), limits={"oom_score_adj": 500}),
        queue("other", handler(body, name="other"), limits={"oom_score_adj": 600}, run_as={"user": OTHER, "nice": -1})])
    for name in ("plain", "other"):
        redis.client().lpush(f"ingress:{name}", name)
    wait_for(lambda: len(ran(tmp)) == 2, 60)
    assert ran(tmp) == [f"{USER} 500", f"{OTHER} 600"]
    assert d.stop() == 0


def test_leftovers_of_other_users_are_still_found(redis, quredisd, handler, tmp):
    """By their environment, which neither the sweeper nor its user may read; cgroups would find them without it."""
    ledger_for_all(tmp)
    body = """read -r m
[ $QUREDIS_REDELIVERED = 1 ] || { setsid sleep 1000 >/dev/null 2>&1 & echo "left $!" >>@LEDGER@; sleep 1000; }
echo "run again" >>@LEDGER@
"""
    d = quredisd(queues=[queue("mail", handler(body), run_as={"user": OTHER}, recovery_attempts=5)], supervisor={"user": USER})
    redis.client().lpush("ingress:mail", "m")
    wait_for(lambda: len(ran(tmp)) == 1)
    left = int(ran(tmp)[0].split()[1])
    for root in ("/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/unified/cgroup.procs"):
        if os.access(root, os.W_OK):
            with open(root, "w", encoding="utf-8") as f:
                f.write(str(left))
    d.kill_tree(spare=[left])
    assert alive(left)
    d.start()
    wait_for(lambda: "run again" in ran(tmp), 60)
    assert not alive(left) and d.events("handlers_killed")
    assert d.stop() == 0


def asks(sweeper):
    """True: the sweeper waits in read(2), which it does only for the answer of its search."""
    with open(f"/proc/{sweeper}/syscall", encoding="ascii") as f:
        return f.read().split()[0] in ("0", "63")          # on x86-64, and on the others


def next_search(d, last):
    return wait_for(lambda: (search_of(d) if d.sweeper() else None) not in (None, last) and search_of(d), 60)


def test_a_search_that_is_killed_says_nothing(redis, quredisd, handler, tmp):
    """Neither that leftovers live nor that they are gone: idle, twice in a row, and while the sweeper waits for its answer."""
    ledger_for_all(tmp)
    body = """read -r m
[ $QUREDIS_REDELIVERED = 1 ] || { setsid sleep 1000 >/dev/null 2>&1 & echo "left $!" >>@LEDGER@; sleep 1000; }
grep -q sleep /proc/$(sed -n 's/^left //p' @LEDGER@)/cmdline && echo "run beside it" >>@LEDGER@      # a zombie's is empty
echo "run again" >>@LEDGER@
"""
    d = quredisd(queues=[queue("mail", handler(body), run_as={"user": OTHER}, recovery_attempts=5)], supervisor={"user": USER})
    redis.client().lpush("ingress:mail", "m")
    left = int(wait_for(lambda: ran(tmp))[0].split()[1])
    last = None
    for _ in range(2):
        last = next_search(d, last)
        os.kill(last, signal.SIGKILL)
    next_search(d, last)
    assert [e["exit"] for e in d.events("sweeper_died")] == ["76", "76"] and [e["signal"] for e in d.events("search_lost")] == ["SIGKILL"] * 2
    d.kill_tree(spare=[left])
    os.kill(redis.pid, signal.SIGSTOP)                     # until the search stands still: the sweeper finds the dead supervisor there
    d.start(wait=False)
    stopped = next_search(d, None)
    os.kill(stopped, signal.SIGSTOP)
    os.kill(redis.pid, signal.SIGCONT)
    wait_for(lambda: asks(d.sweeper()))
    os.kill(stopped, signal.SIGKILL)
    os.kill(next_search(d, stopped), signal.SIGKILL)
    wait_for(lambda: "run again" in ran(tmp), 60)
    assert not alive(left) and "run beside it" not in ran(tmp)
    assert not d.events("leftovers_alive") and status(d)["queues"][0]["state"] == "running"
    assert d.stop() == 0


def test_the_log_belongs_to_the_user_also_after_a_rotation(redis, quredisd, handler, tmp):
    ledger_for_all(tmp)
    log, old = tmp / "log", tmp / "log.1"
    d = quredisd(queues=[queue("mail", handler(BODY))], supervisor={"user": USER}, log={"target": log}, start=False)
    d.start(wait=False)
    redis.client().lpush("ingress:mail", "m")
    wait_for(lambda: ran(tmp) and "event=queue_recovered" in log.read_text())      # all have begun their work
    os.rename(log, old)
    d.signal(signal.SIGUSR1)
    wait_for(log.exists)
    for pid in [d.sweeper(), *d.workers().values()]:
        wait_for(lambda pid=pid: any(os.path.realpath(f"/proc/{pid}/fd/{n}") == str(log) for n in os.listdir(f"/proc/{pid}/fd")))
    assert log.stat().st_uid == old.stat().st_uid == pwd.getpwnam(USER).pw_uid
    assert d.stop() == 0


def test_a_root_that_may_not_pass_over_modes(quredisd, handler, tmp):
    """With the capabilities of the unit: the log and the data are in a directory that only the user enters, and root gives nothing away."""
    ledger_for_all(tmp)
    own = tmp / "own"
    own.mkdir(mode=0o700)
    shutil.chown(own, USER)
    few = ["setpriv", "--bounding-set=-all,+setuid,+setgid,+kill"]
    server = {} if SERVER == "redis-server" else {"server": shutil.which(SERVER)}
    d = quredisd(queues=[queue("mail", handler(BODY))], supervisor={"user": USER}, log={"target": own / "log"}, inside=few, start=False,
                 redis={"embedded": True, "dir": own / "data", **server})
    for n, name in enumerate(("a", "b"), 1):               # both are made, and found
        d.start(wait=False)
        wait_for((own / "data" / "redis.sock").exists)
        wait_for(lambda name=name: d.quredis("push", "mail", name).code == 0)
        wait_for(lambda n=n: len(ran(tmp)) == n)
        assert rights(d.pid)["CapEff"] == bits(KILL, SETGID, SETUID)
        assert d.stop() == 0
    assert {(own / name).stat().st_uid for name in ("log", "data")} == {pwd.getpwnam(USER).pw_uid}
    assert "config_problem" not in "".join(line for line in (own / "log").read_text().splitlines() if str(own) in line)


def test_only_root_becomes_another_user(redis, quredisd, handler):
    d = supervisor(quredisd, handler)
    checked = d.check("-t")
    assert checked.returncode == 0, checked.stderr
    as_other = ["setpriv", f"--reuid={OTHER}", f"--regid={pwd.getpwnam(OTHER).pw_gid}", "--clear-groups"]
    refused = subprocess.run([*as_other, *d.command("-t")], capture_output=True, text=True, check=False)
    assert refused.returncode == 78 and 'supervisor.user: only root can become "daemon"' in refused.stderr
    unknown = d.sections["supervisor"]
    d.write_conf(supervisor={**unknown, "user": "nosuchuser"})
    refused = d.check("-t")
    assert refused.returncode == 78 and 'supervisor.user: user "nosuchuser" does not exist' in refused.stderr


def test_the_sweeper_keeps_what_purge_check_needs(redis, quredisd, handler, tmp):
    ledger_for_all(tmp)
    c = redis.client()
    c.lpush("ingress:mail", f"quredis/1 id=m enqueued={(c.time()[0] - 7200) * 1000}\nold")
    check = handler("cat >/dev/null; id -un >>@LEDGER@", name="check")
    d = quredisd(queues=[queue("mail", handler(BODY), workers=0, run_as={"user": OTHER})], supervisor={"user": USER},
                 purge={"enabled": True, "max_message_age": "1h", "interval": "1h", "check": [str(check)]})
    assert_dropped(d.sweeper(), bits(SETUID, SETGID, KILL))
    wait_for(lambda: c.llen("escape:mail") == 1)
    assert ran(tmp) == [OTHER] and search_of(d), "neither the check nor its end may take the search along"
    assert d.stop() == 0
