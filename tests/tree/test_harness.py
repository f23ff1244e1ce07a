"""The harness itself: what it promises other tests, and that its alarms ring."""
import os
import signal
import subprocess
import sys
import time

import pytest
from redis import ConnectionError, Redis, TimeoutError as RedisTimeout

from harness import BUILD, ROOT, alive, children_of, environment_of, queue, render, wait_for
from harness.config import Raw
from harness.daemon import FakeNotifySocket, parse_line, wait_gone
from harness.processes import kill_and_wait


def test_configuration_is_libconfig():
    text = render({"redis": {"url": "unix:///x", "embedded": False}, "absent": None,
                   "queues": [queue("mail", "/bin/cat", "-u", backoff={"factor": 2.0}, max_attempts=3)]})
    assert text == ('redis = {\n\turl = "unix:///x";\n\tembedded = false;\n};\nqueues = (\n\t{\n\t\tname = "mail";\n'
                    '\t\thandler = ["/bin/cat", "-u"];\n\t\tworkers = 1;\n\t\tbackoff = {\n\t\t\tfactor = 2.0;\n\t\t};\n'
                    '\t\tmax_attempts = 3;\n\t}\n);\n')
    assert render({"a": 'x"\\\n\x01', "b": Raw("0x1F"), "c": []}) == 'a = "x\\"\\\\\\n\\x01";\nb = 0x1F;\nc = [];\n'


def test_log_lines_are_parsed():
    line = 'time=2026-11-20T14:00:00.000Z level=info event=escaped queue=mail error="said \\"no\\" \\\\n" exit=3 empty='
    assert parse_line(line) == {"time": "2026-11-20T14:00:00.000Z", "level": "info", "event": "escaped",
                                "queue": "mail", "error": 'said "no" \\n', "exit": "3", "empty": ""}


def test_wait_for_returns_the_value_and_gives_up():
    assert wait_for(lambda: 7) == 7
    with pytest.raises(AssertionError, match="the moon"):
        wait_for(lambda: 0, timeout=0.05, what="the moon")


def test_redis_keeps_its_data_over_kill9_with_aof(redis_server):
    server = redis_server(aof="always")
    server.client().lpush("l", b"a\0b")
    first = server.pid
    server.restart()
    assert server.pid != first and not alive(first)
    assert server.client().lrange("l", 0, -1) == [b"a\0b"]
    server.config_set("maxmemory", "100mb")
    assert server.client().config_get("maxmemory") == {"maxmemory": "104857600"}
    assert server.cli("LLEN", "l") == b"1\n"


def test_redis_on_tcp_with_a_password(redis_server):
    server = redis_server(tcp=True, config={"requirepass": "secret word"})
    assert server.client().ping()
    assert subprocess.run(["redis-cli", "-p", str(server.port), "ping"], capture_output=True,
                          timeout=20).stdout == b"NOAUTH Authentication required.\n\n"


def test_proxy_cuts_and_loses(redis, redis_proxy):
    proxy = redis_proxy(redis)
    direct = redis.client()

    def connect():
        return Redis(unix_socket_path=proxy.path, socket_timeout=20, retry=None)
    c = connect()
    c.lpush("l", "a" * 100000)
    assert c.llen("l") == 1 and proxy.connections == 1
    proxy.lose_request(b"LPUSH")
    with pytest.raises(ConnectionError):
        c.execute_command("LPUSH", "l", "b")
    assert (direct.llen("l"), proxy.lost) == (1, 1)
    proxy.lose_reply(b"LPUSH")
    assert c.ping()
    with pytest.raises(ConnectionError):
        c.execute_command("LPUSH", "l", "c")
    assert (direct.llen("l"), proxy.lost) == (2, 2)
    assert c.ping()
    proxy.refuse()
    proxy.cut()
    with pytest.raises(ConnectionError):
        c.ping()
    proxy.refuse(False)
    assert c.ping()
    proxy.stall()
    with pytest.raises((TimeoutError, RedisTimeout)):
        Redis(unix_socket_path=proxy.path, socket_timeout=0.3, retry=None).ping()
    proxy.resume()
    assert connect().ping()


def test_ledger_and_recorder(handler, ledger):
    echo = handler("echo $1 >>@LEDGER@")
    for word in ("a", "b", "a"):
        subprocess.run([echo, word], check=True)
    assert ledger.lines() == ["a", "b", "a"] and ledger.count("a") == 2
    ledger.path.write_text("")
    done = subprocess.run([ledger.recorder(exit=3, note_start=True)], input=b"\0\xff\n", timeout=30,
                          env={"QUREDIS_ID": "x", "QUREDIS_ATTEMPT": "2"})
    assert done.returncode == 3
    (run,), (start,) = ledger.runs(), ledger.runs("start")
    assert run.payload == start.payload == b"\0\xff\n" and (run.id, run.attempt, run.redelivered) == ("x", "2", None)


def test_a_forgotten_process_is_found(machine, tag):
    """A daemon's daemon: own session, environment cleared, its parent gone."""
    subprocess.run(["sh", "-c", "setsid env -i sleep 600 >/dev/null 2>&1 &"], check=True)
    left = wait_gone(tag, set(), 0.2)
    assert len(left) == 1
    assert left[0] in children_of(os.getpid())
    assert kill_and_wait(left) == []
    assert wait_gone(tag, set(), 5) == []


KILLED = """
import os, signal, sys
from harness import RedisServer
print(RedisServer(sys.argv[1]).start().pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_nothing_survives_a_killed_test_process(tmp):
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp / "r")], stdout=subprocess.PIPE, text=True, timeout=60,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "tests")})
    assert done.returncode == -signal.SIGKILL
    wait_for(lambda: not alive(int(done.stdout)), what="the end of its redis-server")


NAMED = """
import sys
from harness import RedisServer
RedisServer(sys.argv[1]).start().close()
"""


@pytest.mark.parametrize("command", [[sys.executable, "-c", NAMED, "@TMP@/r"], [f"{BUILD}/unit/test_queue_watch"]], ids=["harness", "unit program"])
def test_another_server_can_be_named(tmp, handler, command):
    server = handler('echo "$1" >>@TMP@/started; exec redis-server "$@"')
    command = [word.replace("@TMP@", str(tmp)) for word in command]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "tests"), "QUREDIS_TEST_SERVER": str(server)})
    assert done.returncode == 0, done.stdout
    assert (tmp / "started").read_text() != ""


@pytest.mark.parametrize("name", ["QUREDIS_TEST_TAG", "QUREDIS_INCARNATION"])
def test_processes_are_recognised_by_environment(tmp, tag, name):
    env = {"PATH": os.environ["PATH"], name: tag + (".b.0.1" if name.endswith("ION") else "")}
    p = subprocess.Popen(["sleep", "600"], env=env)
    try:
        wait_for(lambda: environment_of(p.pid).get(name.encode()))
        assert wait_gone(tag, set(), 0) == [p.pid]
        assert wait_gone("nobody", {p.pid}, 0) == []       # no tag of another test begins so
    finally:
        p.kill()
        p.wait(20)


def test_zombies_count_as_gone():
    p = subprocess.Popen(["true"])
    wait_for(lambda: not alive(p.pid))
    p.wait(20)


def test_notify_socket(tmp):
    fake = FakeNotifySocket(tmp / "n")
    subprocess.run(["/usr/bin/python3", "-c", "import socket,sys;s=socket.socket(socket.AF_UNIX,socket.SOCK_DGRAM);"
                    "s.sendto(b'READY=1\\nSTATUS=up', sys.argv[1])", fake.path], check=True)
    assert fake.wait_for("READY", "1")["STATUS"] == "up"
    fake.close()


def test_hanging_tests_end():
    """What the `limit` marker relies on: an alarm interrupts a sleeping test."""
    with pytest.raises(TimeoutError):
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        time.sleep(60)


def test_what_is_ignored_here_is_not_handed_on():
    """As under nohup or behind a shell's &."""
    code = ("import signal, subprocess, sys; [signal.signal(s, signal.SIG_IGN) for s in (1, 2, 3, 15)];"
            "signal.pthread_sigmask(signal.SIG_BLOCK, [2]);"
            "from harness.processes import children_heed_signals; children_heed_signals();"
            "subprocess.run(['grep', '-E', 'Sig(Ign|Blk)', '/proc/self/status'])")
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, timeout=60, check=True,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "tests")})
    masks = {line.split(":")[0]: int(line.split(":")[1], 16) for line in done.stdout.splitlines()}
    assert masks["SigBlk"] == 0 and masks["SigIgn"] & (1 << 0 | 1 << 1 | 1 << 2 | 1 << 14) == 0


def test_children_find_nothing_to_read():
    assert subprocess.run(["readlink", "/proc/self/fd/0"], stdout=subprocess.PIPE, check=True).stdout == b"/dev/null\n"


@pytest.mark.parametrize("command", ["{} <&-", "echo x | {}"])
def test_what_we_are_given_to_read_changes_nothing(command):
    """With -s, since pytest gives nothing to read to anybody while it captures."""
    pytest_s = f"{sys.executable} -m pytest -q -s -p no:cacheprovider tests/tree/test_harness.py::test_children_find_nothing_to_read"
    done = subprocess.run(command.format(pytest_s), shell=True, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100)
    assert done.returncode == 0, done.stdout
