"""Two containers with one name: the same node, lock path and kernel. Neither takes the messages of the other while that lives."""
import collections
import contextlib
import json
import os
import signal
import time

import pytest

from harness import queue, unshared, wait_for
from harness.messages import anywhere, in_transit, unwrap

# Each run waits for a word of its own: "start NAME REDELIVERED PID", later "end NAME PID"
GATED = """
read -r m
echo "start $m $QUREDIS_REDELIVERED $$" >>@LEDGER@
while ! [ -e @TMP@/go ] && ! [ -e @TMP@/go.$m.$QUREDIS_REDELIVERED ]; do sleep 0.05; done
echo "end $m $$" >>@LEDGER@
"""

LEASE_S = 3             # a machine that stands still for a second must not look like a dead one


def starts(ledger, name=None):
    found = [line.split()[1:3] for line in ledger.lines() if line.startswith("start ")]
    return [s for s in found if name in (None, s[0])]


def registrations(c):
    """incarnation -> registration of those not known to be dead."""
    found = {k.decode(): json.loads(v) for k, v in c.hgetall("transit:mail:workers").items()}
    return {k: v for k, v in found.items() if "died_at" not in v}


def not_before(c):
    """When the first of those who die from now on may be taken for dead: its lease has run out, and a whole one after that."""
    return time.monotonic() + min(c.pttl(k) for k in c.keys("transit:mail:lease:*")) / 1000 + LEASE_S


def locks_of(c):
    """The locks of all registrations, also of dead workers."""
    return [json.loads(v)["lock"] for v in c.hvals("transit:mail:workers")]


def rescued(*daemons):
    """The owners whose messages they returned. Both may find one dead, but only one of them returns its message."""
    return [e for d in daemons for e in d.events("rescue_done") if e["returned"] != "0"]


def wait_for_looks(c, n):
    """Waits for n looks at the registrations by each of two sweepers."""
    def calls():
        return c.info("commandstats")["cmdstat_hgetall"]["calls"]
    wait_for(lambda: calls() > 0)
    before = calls()
    wait_for(lambda: calls() >= before + 2 * n, 60, f"{n} looks")


@pytest.fixture
def pair(containers, redis_server, quredisd, handler, tag, tmp):
    """Starts containers with one configuration, but for the address of Redis."""
    server = redis_server(tcp=True, inside=containers.middle, config=containers.redis_config)
    run = tmp / "run"
    image = tmp / "image"
    for d in (run, image):
        d.mkdir()
    (image / "lock").touch()            # so that both find the same one in their image

    def on_tmpfs():
        return f"mount -t tmpfs none {run}"

    def on_overlay():
        aside = tmp / "aside"
        aside.mkdir(exist_ok=True)
        return (f"mount -t tmpfs none {aside} && mkdir {aside}/u {aside}/w && "
                f"mount -t overlay -o lowerdir={image},upperdir={aside}/u,workdir={aside}/w none {run}")

    def make(place, body=GATED, container=None, **options):
        container = container or containers.container()
        d = quredisd(redis={"url": container.redis_url(server)}, queues=[queue("mail", handler(body), **options)],
                     inside=container.command({"tmpfs": on_tmpfs, "overlay": on_overlay}[place]()),
                     supervisor={"node": tag, "lease": f"{LEASE_S}s", "lock_file": run / "lock", "control_socket": run / "c"})
        d.container = container
        return d
    make.client = server.client()
    return make


@pytest.mark.parametrize("place", ["tmpfs", "overlay"])
def test_none_takes_what_the_other_has_in_hand(pair, ledger, tmp, place):
    """A restarted container does not take them either. It may get the process ids of its predecessor, and then knows that it is dead."""
    if place == "overlay" and "\toverlay" not in open("/proc/filesystems").read():
        pytest.skip("this kernel has no overlay file system")
    c = pair.client
    a = pair(place)
    c.lpush("ingress:mail", "m1")
    wait_for(lambda: len(starts(ledger)) == 1)
    b = pair(place)
    c.lpush("ingress:mail", "m2")
    wait_for(lambda: len(starts(ledger)) == 2)
    locks = [lock.split(":") for lock in locks_of(c)]
    boot, device, inode, namespace = zip(*locks)
    assert len(locks) == 2 and len({r["node"] for r in registrations(c).values()}) == 1
    assert len(set(boot)) == 1 and len(set(inode)) == 1, "the premise: as like as two containers can be"
    assert len(set(device)) == 2 and len(set(namespace)) == 2
    wait_for_looks(c, 6)
    assert len(starts(ledger)) == 2 and not rescued(a, b)

    soonest = not_before(c)
    b.kill_tree()
    again = pair(place, container=b.container)
    wait_for(lambda: len(starts(ledger)) == 3, 60)
    assert starts(ledger) == [["m1", "0"], ["m2", "0"], ["m2", "1"]]
    reasons = [e["reason"] for e in rescued(a, again)]
    assert reasons == ["lock"] and len(set(locks_of(c))) == 2 or reasons == ["lease"] and time.monotonic() > soonest
    (tmp / "go").touch()
    wait_for(lambda: not anywhere(c, "mail"))
    assert ledger.lines().count("end m1 " + ledger.lines()[0].split()[3]) == 1 and c.llen("escape:mail") == 0
    assert a.stop() == 0 and again.stop() == 0
    assert not registrations(c)


def groups(pids):
    """The process groups of these processes, some of which may have ended. A waiting handler may have a child."""
    found = set()
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            found.add(os.getpgid(pid))
    return found


def test_a_container_is_killed_with_all_that_is_in_it(pair, ledger, tmp):
    """Every message of the dead one comes back to the other, once, and none of those the living one has in hand."""
    c = pair.client
    a = pair("tmpfs", workers=3)
    c.lpush("ingress:mail", *(f"a{i}" for i in range(3)))
    wait_for(lambda: len(starts(ledger)) == 3)
    b = pair("tmpfs", workers=3)
    c.lpush("ingress:mail", *(f"b{i}" for i in range(3)))
    wait_for(lambda: len(starts(ledger)) == 6)
    soonest = not_before(c)
    # PID 1 of its namespace: the kernel ends the rest. A worker may hear of it before its own end comes, and hand back what it has
    a.signal(signal.SIGKILL)
    a.wait_exit()
    wait_for(lambda: len(groups(a.handlers())) == 3, what="its handlers to be gone")      # those of b have the same name
    for i in range(3):
        (tmp / f"go.b{i}.0").touch()
    wait_for(lambda: len(starts(ledger)) == 9, 60)
    assert time.monotonic() > soonest or len(rescued(b)) < 3
    (tmp / "go").touch()
    wait_for(lambda: not anywhere(c, "mail"))
    count = collections.Counter(tuple(s) for s in starts(ledger))
    assert count == {**{(f"a{i}", f): 1 for i in range(3) for f in "01"}, **{(f"b{i}", "0"): 1 for i in range(3)}}
    assert {e["reason"] for e in rescued(b)} <= {"lease"}
    assert c.llen("escape:mail") == 0 and not b.events("claim_lost")
    assert b.stop() == 0


def test_a_container_is_cut_off_for_longer_than_its_lease(pair, ledger, tmp):
    """The other container takes over. The one that was cut off lost its claims, and acknowledges only its own messages."""
    c = pair.client
    a = pair("tmpfs", workers=2, batch={"max": 1})
    c.lpush("ingress:mail", "m1")
    wait_for(lambda: len(starts(ledger)) == 1)
    b = pair("tmpfs", workers=3, batch={"max": 1})
    soonest = not_before(c)
    a.container.cut()
    c.lpush("ingress:mail", "m2", "m3")         # the server may still give one to a, which waits there as far as it knows
    wait_for(lambda: starts(ledger, "m1") == [["m1", "0"], ["m1", "1"]], 60)
    assert time.monotonic() > soonest
    (tmp / "go.m1.0").touch()                   # a's handler succeeds, and nobody may hear of it
    wait_for(lambda: sum(line.startswith("end m1") for line in ledger.lines()) == 1)
    a.container.mend()
    assert a.wait_event("claim_lost", 60)
    assert [unwrap(m)[1] for m in in_transit(c, "mail")].count(b"m1") == 1, "b's, which still has it in hand, is acknowledged by nobody"
    (tmp / "go").touch()
    wait_for(lambda: not anywhere(c, "mail"), 60)
    assert len(starts(ledger, "m1")) == 2 and b.events("message_done", id=a.wait_event("message_done")["id"])
    for name in ("m2", "m3"):                   # what came late is flagged, if it was there to be seen
        assert [s[1] for s in starts(ledger, name)] in (["0"], ["1"])
    assert c.llen("escape:mail") == 0
    assert a.stop() == 0 and b.stop() == 0
    assert not registrations(c)


CLONES = {
    # a machine made from the same image: another kernel, everything else is the same
    "boot id": ("mount --bind {tmp}/boot_id /proc/sys/kernel/random/boot_id", "--mount"),
    # a container that was given the same lock file: what is left of the first one's handlers cannot be seen from it
    "PID namespace": ("true", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"),
}


@pytest.mark.parametrize("differs", list(CLONES))
def test_a_lock_file_is_not_enough(containers, redis, quredisd, handler, ledger, tmp, differs):
    """The same lock file and node do not prove that a previous holder is dead. Its message returns when its lease has expired."""
    c = redis.client()
    (tmp / "boot_id").write_text("00000000-0000-4000-8000-000000000000\n")
    script, *kinds = CLONES[differs]
    options = {"queues": [queue("mail", handler(GATED))],
               "supervisor": {"lease": f"{LEASE_S}s", "lock_file": tmp / "lock", "control_socket": tmp / "c"}}
    a = quredisd(inside=unshared("true", *kinds), **options)
    c.lpush("ingress:mail", "m")
    wait_for(lambda: len(starts(ledger)) == 1)
    b = quredisd(inside=unshared(script.format(tmp=tmp), *kinds), start=False, **options)
    if "--pid" in kinds:            # its namespace is there before the other goes, or it might get the same number
        b.start(wait=False).wait_event("lock_waiting")      # both are PID 1, and the file says that 1 has it
    soonest = not_before(c)
    a.kill_tree()
    b.wait_ready() if b.running() else b.start()
    wait_for(lambda: len(starts(ledger)) == 2, 60)
    assert time.monotonic() > soonest
    assert [e["reason"] for e in rescued(b)] == ["lease"]
    (tmp / "go").touch()
    wait_for(lambda: not anywhere(c, "mail"))
    assert b.stop() == 0


def test_a_proc_of_another_namespace_is_refused(containers, redis, quredisd, handler):
    """In that namespace, process ids belong to other processes, so quredisd would kill the wrong ones."""
    d = quredisd(inside=["unshare", "--pid", "--fork", "--kill-child", "--"], queues=[queue("mail", handler("exit 0"))], wait=False)
    assert d.wait_exit() != 0
    assert "/proc belongs to another PID namespace" in d.text() + d.stdout.read_text()
