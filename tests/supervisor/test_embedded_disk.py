"""The disk of the embedded Redis is full: a stop loses nothing that was acknowledged, and says what it waits for."""
import os
import re
import shutil
import signal
import subprocess

import pytest
import redis as redis_py

from harness import QUREDIS, SERVER, alive, containers, descendants_of, queue, wait_for
from harness.control import ask, status

WHY_NOT = "only root can mount" if os.geteuid() != 0 else containers.why_not("mount -t tmpfs none /mnt", ("--mount",))
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
PIECE = 500_000


@pytest.fixture
def full(quredisd, tmp):
    """A supervisor whose Redis has acknowledged a message that its disk has no room for, and the number of its messages."""
    data = tmp / "data"
    data.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m,mode=700", "none", data], check=True)
    server = {} if SERVER == "redis-server" else {"server": shutil.which(SERVER)}
    d = quredisd(queues=[queue("mail", "/bin/cat", workers=0)], redis={"embedded": True, "dir": data, **server}, notify=True)
    try:
        (data / "ballast").write_bytes(os.urandom(3_000_000))
        yield d, data, fill(data)
        (data / "ballast").unlink(missing_ok=True)
    finally:
        d.close()
        subprocess.run(["umount", "-l", data], check=True)


def client(data):
    return redis_py.Redis(unix_socket_path=str(data / "redis.sock"), retry=None)


def is_up(data):
    try:
        with client(data) as c:
            return c.ping()
    except redis_py.RedisError:
        return False


def fill(data):
    wait_for(lambda: is_up(data))
    n = 0
    with client(data) as c:
        try:
            for _ in range(100):
                c.lpush("ingress:mail", os.urandom(PIECE))
                n += 1
                wait_for(lambda: c.info("persistence")["aof_buffer_length"] == 0 or c.info("persistence")["aof_last_write_status"] == "err")
        except redis_py.ResponseError as e:
            assert "MISCONF" in str(e)
        info = c.info("persistence")
        assert info["aof_last_write_status"] == "err" and info["aof_buffer_length"] > 0
    return n


def count_after_start(d, data):
    d.start()
    wait_for(lambda: is_up(data))
    with client(data) as c:
        return wait_for(lambda: c.llen("ingress:mail"))


def unsaved(d):
    return (k := status(d)["keeper"]) and k["unsaved"]


def test_a_stop_waits_for_room_and_loses_nothing(full):
    d, data, n = full
    k = status(d)["keeper"]
    assert k["unsaved"] is None
    d.signal(signal.SIGTERM)
    e = d.wait_event("redis_unsaved", timeout=60)
    assert int(e["bytes"]) > PIECE - 1000 and e["dir"] == str(data) and "the disk may be full" in e["reason"]
    u = wait_for(lambda: unsaved(d))
    assert u["bytes"] > PIECE - 1000 and u["dir"] == str(data) and "the disk may be full" in u["reason"]
    line, = re.findall("^Stop: .*", subprocess.run([QUREDIS, "-c", d.conf, "status"], capture_output=True, text=True, check=True).stdout, re.M)
    assert f"has acknowledged {u['bytes']} bytes that are not in its file" in line and f"make room in {data};" in line
    ask(d, "stop")                                             # a second stop waits along
    assert alive(k["redis_pid"]) and unsaved(d)
    (data / "ballast").unlink()
    assert d.wait_exit(60) == 0
    assert count_after_start(d, data) == n


def test_quredis_stop_says_what_it_waits_for(full):
    d, data, n = full
    with subprocess.Popen([str(QUREDIS), "-c", str(d.conf), "stop"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as stop:
        line = stop.stderr.readline()
        assert re.search(r"has acknowledged \d{6,} bytes that are not in its file", line) and f"make room in {data};" in line
        (data / "ballast").unlink()
        assert stop.wait(60) == 0 and "the supervisor is stopped" in stop.stdout.read() + stop.stderr.read()
    assert d.wait_exit(60) == 0
    assert count_after_start(d, data) == n


def test_a_fast_stop_waits_and_a_further_one_gives_up(full):
    d, data, n = full
    d.signal(signal.SIGQUIT)
    d.wait_event("redis_unsaved", timeout=60)
    wait_for(lambda: unsaved(d))
    d.signal(signal.SIGQUIT)
    assert d.wait_exit(60) == 0
    assert int(d.wait_event("redis_unsaved_given_up")["bytes"]) > PIECE - 1000
    (data / "ballast").unlink()
    assert count_after_start(d, data) < n


@pytest.mark.parametrize("master_first", [True, False])
def test_sigterm_to_every_process_loses_nothing(full, master_first):
    """As systemctl kill sends it, twice, in either order: Redis ends after all others, and not before its file is whole."""
    d, data, n = full
    k, below = status(d)["keeper"], descendants_of(d.pid)
    every = [d.pid, *below] if master_first else [*below, d.pid]
    for p in [*every, *every]:
        if alive(p):
            os.kill(p, signal.SIGTERM)
    d.wait_event("redis_unsaved", timeout=60)
    assert alive(k["redis_pid"])
    (data / "ballast").unlink()
    assert d.wait_exit(60) == 0
    assert count_after_start(d, data) == n


@pytest.mark.parametrize("again", [False, True])
def test_an_append_only_file_that_was_switched_off_is_written_before_the_end(quredisd, tmp, again):
    """Also if an operator has just switched it on again, and Redis is about to write the file."""
    server = {} if SERVER == "redis-server" else {"server": shutil.which(SERVER)}
    data = tmp / "data"
    d = quredisd(queues=[queue("mail", "/bin/cat", workers=0)], redis={"embedded": True, "dir": data, **server})
    wait_for(lambda: is_up(data))
    with client(data) as c:
        c.config_set("appendonly", "no")
        c.config_set("rdb-key-save-delay", 2_000_000)
        c.lpush("ingress:mail", "a")
        if again:
            c.config_set("appendonly", "yes")
    d.signal(signal.SIGTERM)
    assert d.wait_exit(40) == 0
    assert count_after_start(d, data) == 1


def test_redis_that_has_no_room_for_a_new_file_is_given_up_by_a_further_fast_stop(full):
    """It then refuses to end, as it has none."""
    d, data, _ = full
    with client(data) as c:
        c.config_set("appendonly", "no")
    d.signal(signal.SIGTERM)
    d.wait_event("redis_unsaved", timeout=60)
    wait_for(lambda: unsaved(d))
    d.signal(signal.SIGQUIT)
    d.wait_event("redis_unsaved_given_up")
    assert d.wait_exit(40) == 0
