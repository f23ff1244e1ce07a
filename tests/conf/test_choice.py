"""Which configuration quredisd and quredis read: -c, $QUREDIS_CONF, ./quredis.conf of a user who is not root, the file of the system."""
import json
import os
import shutil
import subprocess

import pytest

from harness import QUREDIS, QUREDISD, queue, wait_for

NOBODY = 65534
pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to become another user")


@pytest.fixture
def call(tmp):
    """Calls a program in a directory as a user: the completed process. Copies, since nobody reads below /root."""
    programs = {p.name: shutil.copy(p, tmp / p.name) for p in (QUREDISD, QUREDIS)}

    def run(program, *args, cwd, uid=NOBODY, **environment):
        env = {k: v for k, v in os.environ.items() if not k.startswith("QUREDIS_")}
        return subprocess.run([programs[program], *args], cwd=cwd, user=uid, group=uid, extra_groups=[], env={**env, **environment},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30)
    return run


def place(directory, name, uid=NOBODY, file="quredis.conf", mode=0o600):
    """A configuration whose only queue has this name."""
    directory.mkdir(mode=0o755, exist_ok=True)
    path = directory / file
    path.write_text(f'redis = {{ url = "redis://127.0.0.1:1"; }};\nsupervisor = {{ lock_file = "{directory}/lock"; '
                    f'control_socket = "{directory}/sock"; }};\nqueues = ( {{ name = "{name}"; handler = ["/bin/true"]; }} );\n')
    path.chmod(mode)
    os.chown(path, uid, uid)
    os.chown(directory, uid, uid)
    return path


def queue_of(done):
    assert done.returncode == 0, done.stderr
    return next(line.split('"')[1] for line in done.stdout.split("queues = (")[1].splitlines() if line.strip().startswith("name = "))


def why(done):
    """The file and the reason that -T prints first."""
    first = done.stdout.splitlines()[0]
    assert first.startswith("# /") and first.endswith(")")
    path, reason = first[2:-1].split(" (", 1)
    return path, reason


def test_the_first_of_four_that_names_a_file(call, tmp):
    here = place(tmp / "here", "here")
    variable = place(tmp / "variable", "variable")
    option = place(tmp / "option", "option")
    done = call("quredisd", "-T", "-c", option, cwd=tmp / "here", QUREDIS_CONF=str(variable))
    assert queue_of(done) == "option" and why(done) == (str(option), "-c")
    done = call("quredisd", "-T", cwd=tmp / "here", QUREDIS_CONF=str(variable))
    assert queue_of(done) == "variable" and why(done) == (str(variable), "$QUREDIS_CONF")
    for unset in ({}, {"QUREDIS_CONF": ""}):
        done = call("quredisd", "-T", cwd=tmp / "here", **unset)
        assert queue_of(done) == "here" and why(done) == (str(here), "the current directory")


def test_a_relative_name_counts_from_the_current_directory(call, tmp):
    place(tmp / "here", "here")
    other = place(tmp / "here", "other", file="other.conf")
    done = call("quredisd", "-T", cwd=tmp / "here", QUREDIS_CONF="other.conf")
    assert queue_of(done) == "other" and why(done)[0] == str(other)


def test_a_file_that_the_variable_names_and_that_is_missing_is_an_error(call, tmp):
    place(tmp / "here", "here")
    for program, args in (("quredisd", ["-t"]), ("quredis", ["ls"])):
        done = call(program, *args, cwd=tmp / "here", QUREDIS_CONF="/nonexistent/quredis.conf")
        assert done.returncode == 78, done.stderr
        assert "/nonexistent/quredis.conf: the configuration file does not exist" in done.stderr
        assert f"{program}: the configuration is /nonexistent/quredis.conf ($QUREDIS_CONF)" in done.stderr


@pytest.mark.parametrize("kind, reason", [
    ("of another user", "belongs to uid 0"), ("link", "is a symbolic link"), ("directory", "is not a regular file"),
])
def test_what_another_user_may_have_put_here_is_passed_over(call, tmp, kind, reason):
    here = tmp / "here"
    if kind == "of another user":
        place(here, "here", uid=0, mode=0o644)
    else:
        other = place(tmp / "other", "other")
        here.mkdir(mode=0o755)
        (here / "quredis.conf").symlink_to(other) if kind == "link" else (here / "quredis.conf").mkdir()
    done = call("quredis", "status", cwd=here)
    assert f"/etc/quredis/quredis.conf (the default, since ./quredis.conf {reason}: name it with -c)" in done.stderr


def test_root_does_not_look_here(call, tmp):
    place(tmp / "here", "here", uid=0)
    done = call("quredis", "status", cwd=tmp / "here", uid=0)
    assert "/etc/quredis/quredis.conf (the default, since ./quredis.conf is not looked for as root: name it with -c)" in done.stderr


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_file_of_this_user_that_others_can_write_is_refused(call, tmp, mode):
    here = place(tmp / "here", "here", mode=mode)
    for program, args in (("quredisd", ["-t"]), ("quredis", ["ls"])):
        done = call(program, *args, cwd=tmp / "here")
        assert done.returncode == 78 and f"{here}: the configuration file can be written by others" in done.stderr
        assert f"{here} (the current directory)" in done.stderr


def test_quredis_reads_the_file_that_quredisd_reads(call, tmp):
    here = place(tmp / "here", "here")
    done = call("quredis", "stats", "here", cwd=tmp / "here")
    assert done.returncode == 69 and f"the configuration is {here} (the current directory)" in done.stderr
    assert "here" in call("quredis", "completion", "words", "--", "stats", "h", cwd=tmp / "here").stdout


def test_doctor_shows_the_file(call, tmp):
    here = place(tmp / "here", "here")
    done = call("quredis", "doctor", "--verbose", "--json", cwd=tmp / "here")
    what = [row["what"] for row in json.loads(done.stdout) if row["where"] == str(here) and row["severity"] == "ok"]
    assert len(what) == 1 and what[0].endswith("(the current directory)"), done.stdout


def test_a_reload_reads_the_same_file(quredisd, redis):
    """The master keeps an absolute path, whatever the variable was."""
    d = quredisd(queues=[queue("mail", "/bin/true")], start=False)
    master = subprocess.Popen([QUREDISD], cwd=d.conf.parent, env={**d.environment(), "QUREDIS_CONF": d.conf.name})
    try:
        wait_for(lambda: d.quredis("status").code == 0)
        d.write_conf(queues=[queue("mail", "/bin/true"), queue("more", "/bin/true")])
        assert d.quredis("reload").code == 0
        assert "more" in d.quredis("status").out
    finally:
        master.terminate()
        assert master.wait(30) == 0
