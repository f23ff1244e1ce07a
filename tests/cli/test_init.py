"""quredis init: a first queue that needs no root, and whose printed commands work."""
import json
import os
import shlex
import shutil
import subprocess

import pytest

from harness import QUREDIS, QUREDISD, ROOT, wait_for

NOBODY = 65534
EX_USAGE, EX_CANTCREAT = 64, 73
FILES = {"python": "greet.py", "ruby": "greet.rb", "node": "greet.cjs", "php": "greet.php", "perl": "greet.pl", "sh": "greet.sh"}
INTERPRETER = {"python": "/usr/bin/python3"}
AWKWARD = "it's \"my\" first \\ $HOME"
LONGEST = 90
pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to become another user")


@pytest.fixture
def user(tmp):
    """A user who is not root, in a directory of its own: user(*args) calls a program. Copies, since nobody reads below /root."""
    own = tmp / "o"
    own.mkdir(mode=0o755)
    os.chown(own, NOBODY, NOBODY)
    programs = {p.name: shutil.copy(p, tmp / p.name) for p in (QUREDISD, QUREDIS)}
    shutil.copytree(ROOT / "etc/runtimes", tmp / "runtimes")
    env = {k: v for k, v in os.environ.items() if not k.startswith("QUREDIS_")}
    options = {"cwd": own, "user": NOBODY, "group": NOBODY, "extra_groups": [], "env": env, "stdin": subprocess.DEVNULL}

    def call(program, *args):
        return subprocess.run([programs[program], *args], **options, capture_output=True, text=True, timeout=60)
    call.own, call.options, call.programs = own, options, programs
    return call


def commands(done):
    """The lines to copy: start, push, look."""
    assert done.returncode == 0, done.stderr
    return [line.strip() for line in done.stdout.splitlines() if line.startswith("    ")]


def shell(user, line):
    """A printed command in a shell, and another directory."""
    return subprocess.run(["sh", "-c", line], **{**user.options, "cwd": "/"}, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("language", FILES)
def test_the_printed_commands_work(user, tmp, language):
    if shutil.which(INTERPRETER.get(language, language)) is None:
        pytest.skip(f"{language} is not installed")
    name = AWKWARD.replace("\\", "") if language == "node" else AWKWARD
    start, push, look = commands(user("quredis", "init", name, "--lang", language))
    place = user.own / name
    assert {p.name: p.stat().st_mode & 0o777 for p in place.iterdir()} == {
        FILES[language]: 0o700 if language == "sh" else 0o600, "quredis.conf": 0o600, "run": 0o700, "redis": 0o700}
    assert place.stat().st_mode & 0o777 == 0o700
    done = shell(user, start + " -t")
    assert done.returncode == 0 and "good" in done.stdout + done.stderr, done.stderr
    with open(tmp / "log", "wb") as log:
        master = subprocess.Popen(["sh", "-c", "exec " + start], **{**user.options, "cwd": "/"}, stdout=log, stderr=log)
    try:
        wait_for(lambda: shell(user, push).returncode == 0, 30, "a push")
        wait_for(lambda: "Ada" in shell(user, look).stdout, 30, "the message to be done")
        assert shell(user, push.replace(" Ada", " 'Zoë 東'")).returncode == 0
        wait_for(lambda: "hello, Zoë 東" in (tmp / "log").read_text(), 30, "the greeting in the log")
        assert shell(user, push.replace(" Ada", " ''")).returncode == 0
        dead = look.replace("done ls", "dlq ls")
        wait_for(lambda: "nobody to greet" in shell(user, dead).stdout, 30, "the dead letter")
    finally:
        master.terminate()
        assert master.wait(60) == 0, (tmp / "log").read_text()


def test_here_and_again(user):
    commands(user("quredis", "init", "--lang", "python"))
    before = {p: p.read_bytes() for p in user.own.iterdir() if p.is_file()}
    for language, files in (("python", "run, redis, greet.py, quredis.conf"), ("ruby", "run, redis, quredis.conf")):
        done = user("quredis", "init", "--lang", language)
        assert done.returncode == EX_CANTCREAT and f"{user.own} has {files} already; nothing was written" in done.stderr
    assert {p: p.read_bytes() for p in user.own.iterdir() if p.is_file()} == before


@pytest.mark.parametrize("name", ["greet.py", "quredis.conf", "run", "redis"])
def test_a_file_in_the_way(user, name):
    (user.own / name).symlink_to("/nonexistent")
    done = user("quredis", "init", "--lang", "python")
    assert done.returncode == EX_CANTCREAT and f"has {name} already; nothing was written" in done.stderr
    assert [p.name for p in user.own.iterdir()] == [name]


def test_languages(user):
    done = user("quredis", "init", "--lang", "pyton")
    assert done.returncode == EX_USAGE and "did you mean python?" in done.stderr
    done = user("quredis", "init")
    assert done.returncode == EX_USAGE and "requires --lang: python, ruby, node, php, perl or sh" in done.stderr
    assert list(user.own.iterdir()) == []
    assert user("quredis", "completion", "words", "--", "init", "--lang", "p").stdout.split() == ["python", "php", "perl"]


def deep(user, length):
    """A path of so many bytes, in directories that are missing."""
    return f"{user.own}/d/".ljust(length, "x")


def test_a_path_too_long_for_its_sockets(user):
    done = user("quredis", "init", deep(user, LONGEST + 1), "--lang", "sh")
    assert done.returncode == EX_USAGE and f"its path has {LONGEST + 1} bytes; for the sockets in it, it may have {LONGEST}" in done.stderr
    assert list(user.own.iterdir()) == []


def test_the_longest_path_starts(user, tmp):
    start, push, look = commands(user("quredis", "init", deep(user, LONGEST), "--lang", "sh"))
    with open(tmp / "log", "wb") as log:
        master = subprocess.Popen(["sh", "-c", "exec " + start], **user.options, stdout=log, stderr=log)
    try:
        wait_for(lambda: shell(user, push).returncode == 0, 30, "a push")
        wait_for(lambda: "Ada" in shell(user, look).stdout, 30, "the message to be done")
        assert shell(user, look.replace("done ls greet", "status")).returncode == 0
    finally:
        master.terminate()
        assert master.wait(60) == 0, (tmp / "log").read_text()


def test_directories(user, tmp):
    (tmp / "roots").mkdir(mode=0o755)
    done = user("quredis", "init", str(tmp / "roots/new"), "--lang", "sh")
    assert done.returncode == EX_CANTCREAT and "Permission denied" in done.stderr and list((tmp / "roots").iterdir()) == []
    done = user("quredis", "init", str(tmp / "roots"), "--lang", "sh")
    assert done.returncode == EX_CANTCREAT and "Permission denied; nothing was written" in done.stderr
    done = user("quredis", "init", "a\nb", "--lang", "sh")
    assert done.returncode == EX_USAGE and "control character" in done.stderr
    done = user("quredis", "init", "a\\b", "--lang", "node")
    assert done.returncode == EX_USAGE and "Node imports no file whose path has a backslash" in done.stderr
    (user.own / "real").mkdir()
    os.chown(user.own / "real", NOBODY, NOBODY)
    (user.own / "link").symlink_to("real")
    done = user("quredis", "init", "link", "--lang", "sh")
    assert shlex.quote(f"{user.own}/real/quredis.conf") in commands(done)[0]
    assert sorted(p.name for p in user.own.iterdir()) == ["link", "real"]


def test_a_dry_run_writes_nothing(user):
    done = user("quredis", "init", "new", "--lang", "perl", "--dry-run", "--json")
    said = json.loads(done.stdout)
    assert said["directory"] == f"{user.own}/new" and said["handler"] == "greet.pl" and said["dry_run"] is True
    assert {"start", "push", "look", "configuration"} < set(said) and list(user.own.iterdir()) == []


def test_a_dry_run_asks_the_judge_of_a_start(user, tmp):
    """What init would not write, or would write with a note, a dry run says, and with the same words."""
    (user.own / "open").mkdir()
    (user.own / "open").chmod(0o777)
    os.chown(user.own / "open", NOBODY, NOBODY)
    (tmp / "roots").mkdir(mode=0o755)
    for place in ("open", "open/new/deep", str(tmp / "roots"), str(tmp / "roots/new")):
        real, dry = (user("quredis", "init", place, "--lang", "python", *more) for more in ([], ["--dry-run"]))
        assert real.returncode == dry.returncode == EX_CANTCREAT, (place, real, dry)
        assert real.stderr.replace("; nothing was written", "") == dry.stderr.replace("; nothing was written", ""), (real, dry)
    assert list((user.own / "open").iterdir()) == [] and list((tmp / "roots").iterdir()) == []
    shutil.rmtree(tmp / "runtimes")
    dry = user("quredis", "init", "new", "--lang", "python", "--dry-run")
    real = user("quredis", "init", "new", "--lang", "python")
    assert real.stderr == dry.stderr, (real, dry)


def test_a_dry_run_below_a_directory_of_all_users(user):
    (user.own / "tmp").mkdir()
    (user.own / "tmp").chmod(0o1777)
    done = user("quredis", "init", "tmp/new", "--lang", "sh", "--dry-run")
    assert done.returncode == 0 and done.stderr == "", done
    assert list((user.own / "tmp").iterdir()) == []


def in_shell(user, before, *words):
    """init after other commands of the shell that starts it."""
    command = ["sh", "-c", f'{before}; exec "$@"', "sh", user.programs["quredis"], "init", *words]
    return subprocess.run(command, **user.options, capture_output=True, text=True, timeout=60)


def test_an_open_umask_opens_nothing(user):
    assert in_shell(user, "umask 000", "a place", "--lang", "python").returncode == 0
    place = user.own / "a place"
    assert not [p for p in (place, *place.iterdir()) if p.stat().st_mode & 0o077]
    done = user("quredisd", "-t", "-c", str(place / "quredis.conf"))
    assert done.returncode == 0 and "good" in done.stderr, done


def test_a_disk_that_takes_nothing(user):
    (user.own / "new").mkdir()
    os.chown(user.own / "new", NOBODY, NOBODY)
    done = in_shell(user, "trap '' XFSZ; ulimit -f 0", "new", "--lang", "python")
    assert done.returncode == EX_CANTCREAT and "File too large; nothing was written" in done.stderr, done
    assert list((user.own / "new").iterdir()) == []
    done = in_shell(user, "trap '' XFSZ; ulimit -f 0", "new/deep/deeper", "--lang", "python")
    assert done.returncode == EX_CANTCREAT and "File too large; nothing was written" in done.stderr, done
    done = in_shell(user, "umask 0777", "new/deep/deeper", "--lang", "python")
    assert done.returncode == EX_CANTCREAT and "Permission denied" in done.stderr, done
    assert list((user.own / "new").iterdir()) == []       # nor the directories


def test_json_of_a_path_that_is_no_text(user):
    name = os.fsdecode(b"\xff")
    done = user("quredis", "init", name, "--lang", "sh", "--json")
    assert done.returncode == EX_USAGE and done.stdout == "" and "is not UTF-8" in done.stderr and list(user.own.iterdir()) == []
    done = subprocess.run([user.programs["quredis"], "init", name, "--lang", "sh"], **user.options, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0 and os.fsencode(name) in done.stdout, done


def test_root_in_a_directory_where_quredisd_would_refuse_to_start(user, tmp):
    (tmp / "open").mkdir()
    (tmp / "open").chmod(0o777)
    for place, why in ((user.own / "new", f"{user.own} belongs to uid {NOBODY}"), (tmp / "open", f"every user can write {tmp}/open")):
        done = subprocess.run([QUREDIS, "init", str(place), "--lang", "sh"], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
        assert done.returncode == EX_CANTCREAT and done.stdout == "" and why in done.stderr, done
        assert "quredisd would not start there; nothing was written" in done.stderr
    assert list(user.own.iterdir()) == list((tmp / "open").iterdir()) == []


def test_a_path_that_is_no_directory(user):
    (user.own / "file").write_text("mine")
    (user.own / "away").symlink_to("nowhere")
    for words, why in (("file", "Not a directory"), ("file/new", "Not a directory"), ("away", "No such file"), ("away/new", "No such file")):
        done = user("quredis", "init", words, "--lang", "sh")
        assert done.returncode == EX_CANTCREAT and why in done.stderr, done
    assert (user.own / "file").read_text() == "mine" and sorted(p.name for p in user.own.iterdir()) == ["away", "file"]


def test_root_gets_a_queue_that_starts(tmp):
    for _ in range(2):
        done = subprocess.run([QUREDIS, "init", str(tmp / "roots"), "--lang", "sh"], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert done.returncode == EX_CANTCREAT and "already; nothing was written" in done.stderr
    done = subprocess.run([QUREDISD, "-t", "-c", str(tmp / "roots/quredis.conf")], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "without run_as.user its handlers run as root" in done.stderr, done
