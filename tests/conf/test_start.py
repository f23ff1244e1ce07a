"""quredisd -t says what a start of this user says: the lock file, the control socket and redis.dir."""
import json
import os
import shutil
import subprocess

import pytest

from harness import QUREDIS, QUREDISD

NOBODY = 65534
EX_CANTCREAT, EX_CONFIG = 73, 78
pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to become another user")


@pytest.fixture
def place(tmp):
    """A directory of nobody's, with a configuration: place(keys) gives call(program, *args)."""
    own = tmp / "own"
    own.mkdir(mode=0o755)
    os.chown(own, NOBODY, NOBODY)
    programs = {p.name: shutil.copy(p, tmp / p.name) for p in (QUREDISD, QUREDIS)}     # nobody reads below /root
    env = {k: v for k, v in os.environ.items() if not k.startswith("QUREDIS_")}

    def call(program, *args):
        return subprocess.run([programs[program], *args, "-c", own / "quredis.conf"], cwd=own, user=NOBODY, group=NOBODY, extra_groups=[],
                              env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)

    def configure(lock=own / "lock", socket=own / "sock", redis='url = "redis://127.0.0.1:1";', log="stderr"):
        (own / "quredis.conf").write_text(f'supervisor = {{ lock_file = "{lock}"; control_socket = "{socket}"; }};\nredis = {{ {redis} }};\n'
                                          f'log = {{ target = "{log}"; }};\n'
                                          'queues = ( { name = "mail"; handler = ["/bin/true"]; } );\n')
        os.chown(own / "quredis.conf", NOBODY, NOBODY)
        (own / "quredis.conf").chmod(0o600)
        return call
    configure.own = own
    return configure


def errors(call):
    return [row for row in json.loads(call("quredis", "doctor", "--json").stdout) if row["severity"] == "error"]


def both(call, status, *words):
    """-t and a start end with the status and say the words; doctor has an error with them, too."""
    for args in (["-t"], []):
        done = call("quredisd", *args)
        assert done.returncode == status, (args, done.returncode, done.stderr)
        for word in words:
            assert word in done.stderr, (args, word, done.stderr)
        assert ": good" not in done.stderr
    assert [row for row in errors(call) if row["where"] == words[0]], errors(call)


def test_a_lock_file_that_cannot_be_made(place, tmp):
    (tmp / "roots").mkdir(mode=0o755)
    advice = "set supervisor.lock_file to a path in a directory of this user"
    both(place(lock=tmp / "roots" / "lock"), EX_CANTCREAT, "supervisor.lock_file", "cannot be opened: Permission denied", advice)
    both(place(lock=tmp / "roots" / "new" / "lock"), EX_CANTCREAT, "supervisor.lock_file", "its directory cannot be made: Permission denied", advice)
    (tmp / "roots" / "lock").touch(mode=0o600)
    both(place(lock=tmp / "roots" / "lock"), EX_CANTCREAT, "supervisor.lock_file", "cannot be opened: Permission denied", advice)


def test_a_control_socket_that_cannot_be_made(place, tmp):
    (tmp / "roots").mkdir(mode=0o755)
    both(place(socket=tmp / "roots" / "sock"), EX_CANTCREAT, "supervisor.control_socket", "cannot be opened: Permission denied")
    both(place(socket=place.own / "no" / "sock"), EX_CANTCREAT, "supervisor.control_socket", "cannot be opened: No such file")


def test_a_redis_dir_that_cannot_be_used(place, tmp):
    data = place.own / "data"
    data.mkdir(mode=0o755)
    os.chown(data, NOBODY, NOBODY)
    call = place(redis=f'embedded = true; dir = "{data}";')
    both(call, EX_CONFIG, "redis.dir", "others may enter it; it must have mode 0700", "make it a directory of this user")
    data.chmod(0o700)
    assert call("quredisd", "-t").returncode == 0
    assert not [row for row in errors(call) if "redis.dir" in row["where"]], errors(call)
    os.chown(data, 0, 0)
    both(call, EX_CONFIG, "redis.dir", "belongs to root, not to the user who starts quredisd")
    (tmp / "roots").mkdir(mode=0o755)
    both(place(redis=f'embedded = true; dir = "{tmp}/roots/data";'), EX_CONFIG, "redis.dir", "Permission denied")


def test_a_file_of_another_kind(place):
    own, call = place.own, None
    (own / "dir").mkdir(mode=0o700)
    os.chown(own / "dir", NOBODY, NOBODY)
    (own / "file").touch()
    (own / "link").symlink_to("file")
    both(place(lock=own / "dir"), EX_CANTCREAT, "supervisor.lock_file", f"{own}/dir: is a directory")
    both(place(lock=own / "link"), EX_CANTCREAT, "supervisor.lock_file", f"{own}/link: is a symbolic link")
    both(place(socket=own / "file"), EX_CANTCREAT, "supervisor.control_socket", f"{own}/file: is not a socket")
    both(place(socket=own / "dir"), EX_CANTCREAT, "supervisor.control_socket", f"{own}/dir: is a directory")
    for target in ("dir", "link", "no/log"):
        call = place(log=own / target)
        both(call, EX_CANTCREAT, "log.target", str(own / target))
    call = place()
    for args in (["-t"], []):
        done = call("quredisd", *args, "--pid-file", own / "dir")
        assert done.returncode == EX_CANTCREAT and f"--pid-file: {own}/dir: is a directory" in done.stderr, done.stderr
    assert call("quredisd", "-t", "--pid-file", "pid").returncode == 0
    for log in ("/dev/null", own / "log", "syslog"):
        assert place(log=log)("quredisd", "-t").returncode == 0


def test_beside_a_supervisor(quredisd):
    d = quredisd()
    said = d.check()
    assert said.returncode == 0 and "note: supervisor.control_socket: a supervisor answers" in said.stderr and ": good" in said.stderr
    d.stop()
    assert "note:" not in d.check().stderr


def test_both_keys_are_named_at_once(place, tmp):
    (tmp / "roots").mkdir(mode=0o755)
    both(place(lock=tmp / "roots/lock", redis=f'embedded = true; dir = "{tmp}/roots";'), EX_CANTCREAT, "supervisor.lock_file", "redis.dir")


@pytest.mark.parametrize("spelling", ["run/sock", "run//sock", "./run/./sock", "../own/run/sock"])
def test_nothing_is_made(place, spelling):
    """The start makes the directory of the lock file before the socket, however the keys spell it."""
    call = place(lock=place.own / "run" / "lock", socket=f"{place.own}/{spelling}", redis=f'embedded = true; dir = "{place.own}/data";')
    done = call("quredisd", "-t")
    assert done.returncode == 0, done.stderr
    assert [p.name for p in place.own.iterdir()] == ["quredis.conf"]
