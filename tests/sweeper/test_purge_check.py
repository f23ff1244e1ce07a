"""purge.check is run as a handler of its queue is: as its user, within its limits, and nothing of it stays."""
import os
import pwd
import signal

import pytest

from harness import alive, children_of, descendants_of, queue, wait_for
from harness.processes import belonging_to, zombies_of

HOUR = 3600 * 1000
RULES = {"enabled": True, "max_message_age": "1h", "interval": "1h"}

# A daemon's child: in a session of its own, with its parent gone. It says its pid.
LEAVE = """cat >/dev/null
setsid sh -c 'trap "" TERM HUP; echo $$ >>@TMP@/left; exec sleep 600' >/dev/null 2>&1 </dev/null &
n=$(cat @TMP@/rounds 2>/dev/null || echo 0); n=$((n + 1)); echo $n >@TMP@/rounds
while [ "$(wc -l <@TMP@/left 2>/dev/null || echo 0)" -lt $n ]; do sleep 0.01; done
"""


def push_old(c, *payloads, name="mail"):
    seconds, micros = c.time()
    then = seconds * 1000 + micros // 1000 - 2 * HOUR
    c.lpush(f"ingress:{name}", *[f"quredis/1 id=m{i} enqueued={then}\n{p}".encode() for i, p in enumerate(payloads)])


def pids_of(path):
    return [int(line) for line in path.read_text().split()] if path.exists() else []


@pytest.mark.skipif(os.getuid() != 0, reason="only root can run a check as another user")
def test_it_has_the_user_limits_and_environment_of_a_handler(redis, quredisd, handler, tmp):
    told = tmp / "told"
    told.mkdir()
    told.chmod(0o777)
    tell = """cat >/dev/null
{ id -un; id -G; ulimit -n; ulimit -f; nice; umask; pwd; grep -E '^(NoNewPrivs|CapEff|CapBnd)' /proc/self/status
env | grep -E '^(HOME|USER|SECRET|QUREDIS_(QUEUE|INCARNATION|DRY_RUN|REASON|ID|LIMIT_MS))=' | sort; ls /proc/self/fd; } >@TMP@/told/%s.new
mv @TMP@/told/%s.new @TMP@/told/%s"""
    both = {n: handler(tell % (n, n, n), name=n) for n in ("check", "handle")}
    c = redis.client()
    push_old(c, "old")
    keys = {"run_as": {"user": "nobody", "umask": "027", "nice": 3, "directory": str(told)}, "limits": {"open_files": 77, "file_size": "8M"},
            "env": ["SECRET=of the queue"]}
    d = quredisd(queues=[queue("mail", both["handle"], workers=0, **keys)], purge={**RULES, "check": [str(both["check"])]})
    wait_for(lambda: c.llen("escape:mail") == 1)
    c.lpush("ingress:mail", b"young")
    d.reload(queues=[queue("mail", both["handle"], workers=1, **keys)])
    wait_for(lambda: (told / "handle").exists())
    check, handle = [(told / n).read_text().splitlines() for n in ("check", "handle")]
    ours = ("QUREDIS_DRY_RUN", "QUREDIS_REASON", "QUREDIS_ID", "QUREDIS_LIMIT_MS", "QUREDIS_INCARNATION")

    def common(lines):
        return [line for line in lines if not line.startswith(ours)]
    assert common(check) == common(handle)
    assert check[0] == "nobody" and check[1] == str(pwd.getpwnam("nobody").pw_gid) and check[2:4] == ["77", "16384"]
    assert "SECRET=of the queue" in check and "NoNewPrivs:\t1" in check and "CapEff:\t0000000000000000" in check
    assert f"QUREDIS_LIMIT_MS={HOUR}" in check and "QUREDIS_REASON=max_message_age" in check and "QUREDIS_ID=m0" in check
    assert [x for x in check if x.startswith(f"QUREDIS_INCARNATION={d.tag}.")]
    assert d.stop() == 0


def test_nothing_of_forty_stays(redis, quredisd, handler, tmp):
    """Each leaves a child in a session of its own that ignores TERM."""
    c = redis.client()
    push_old(c, *["x"] * 40)
    d = quredisd(queues=[queue("mail", handler("cat"), workers=0)],
                 purge={**RULES, "check": [str(handler(LEAVE, name="check"))]})
    wait_for(lambda: c.llen("escape:mail") == 40, 100)
    left = pids_of(tmp / "left")
    assert len(left) == 40 and not any(alive(p) for p in left)
    sweeper = d.sweeper()
    wait_for(lambda: not children_of(sweeper) and not zombies_of(sweeper))
    assert len(d.events("handler_left_processes", worker="mail/check")) == 40
    assert d.stop() == 0


def hanging(redis, quredisd, handler, tmp):
    """A check that left a process and does not end. (daemon, the sweeper, the errand, all that the check consists of)"""
    c = redis.client()
    push_old(c, "x")
    d = quredisd(queues=[queue("mail", handler("cat"), workers=0)],
                 purge={**RULES, "interval": "1s", "check": [str(handler(LEAVE + "trap '' TERM; while :; do sleep 60; done", name="check"))]})
    wait_for(lambda: pids_of(tmp / "left"))
    sweeper = d.sweeper()
    [errand] = children_of(sweeper)
    return d, sweeper, errand, wait_for(lambda: len(found := descendants_of(errand)) >= 3 and found)


def test_it_is_killed_with_all_it_left_when_its_time_is_over(redis, quredisd, handler, tmp):
    d, sweeper, _, family = hanging(redis, quredisd, handler, tmp)
    assert d.wait_event("purge_check_failed", queue="mail", timeout=100)["error"] == "timed out after 10 s"
    assert not any(alive(p) for p in family)
    assert redis.client().llen("ingress:mail") == 1
    assert d.stop() == 0


def test_the_sweeper_ends_what_a_killed_errand_left(redis, quredisd, handler, tmp):
    d, sweeper, errand, family = hanging(redis, quredisd, handler, tmp)
    os.kill(errand, signal.SIGKILL)
    wait_for(lambda: not any(alive(p) for p in [errand, *family]))
    assert "was killed" in d.wait_event("purge_check_failed", queue="mail")["error"]
    wait_for(lambda: not set(family) & {*children_of(sweeper), *zombies_of(sweeper)})
    assert d.sweeper() == sweeper and d.stop() == 0


def test_it_goes_with_a_sweeper_that_is_killed(redis, quredisd, handler, tmp):
    d, sweeper, errand, family = hanging(redis, quredisd, handler, tmp)
    os.kill(sweeper, signal.SIGKILL)
    wait_for(lambda: not any(alive(p) for p in [sweeper, errand, *family]))
    assert d.stop() == 0


def test_it_goes_with_a_supervisor_that_stops(redis, quredisd, handler, tmp):
    d, _, errand, family = hanging(redis, quredisd, handler, tmp)
    assert d.stop() == 0
    assert not any(alive(p) for p in [errand, *family]) and not belonging_to(d.tag, {redis.pid})


@pytest.mark.skipif(os.getuid() != 0, reason="only root can have a check that another user cannot execute")
def test_a_configuration_with_a_check_that_cannot_be_executed_is_refused(redis, quredisd, handler):
    check = handler("cat", name="check")
    os.chmod(check, 0o700)
    queues = [queue(n, handler("cat"), run_as={"user": "nobody"}) for n in ("a", "b")]
    d = quredisd(queues=queues, purge={"enabled": True, "check": [str(check)]}, start=False)
    said = d.check()
    assert said.returncode == 78
    assert said.stderr.count("purge.check: ") == 1 and f"{check}: nobody may not execute it (mode 0700): chmod +x {check}" in said.stderr


def test_a_lost_lead_ends_it_and_the_next_one_gets_its_message_alone(redis, quredisd, handler, tmp):
    c = redis.client()
    push_old(c, "first", "second")
    ask = handler("cat >>@TMP@/asked; echo >>@TMP@/asked; while [ ! -e @TMP@/go ]; do sleep 0.05; done", name="check")
    d = quredisd(queues=[queue("mail", handler("cat"), workers=0)], supervisor={"lease": "3s"}, purge={**RULES, "check": [str(ask)]})
    wait_for(lambda: (tmp / "asked").exists() and (tmp / "asked").read_text().endswith("\n"))
    c.set("quredis:of:ingress:mail:sweeper", "other")
    d.wait_event("lead_lost", queue="mail", timeout=40)
    (tmp / "go").touch()
    c.delete("quredis:of:ingress:mail:sweeper")
    wait_for(lambda: c.llen("escape:mail") == 2, 60)
    payloads = {line for line in (tmp / "asked").read_text().splitlines() if not line.startswith("quredis/1 ")}
    assert payloads == {"first", "second"}
    assert d.stop() == 0
