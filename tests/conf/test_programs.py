"""A handler that its user cannot execute: quredisd -t names it, a start and a reload run the other queues, doctor says the same."""
import json
import os
import pathlib
import pwd
import resource
import shutil
import subprocess

import pytest

from harness import queue, wait_for
from harness.clinic import USER
from harness.control import status
from harness.paths import QUREDISD

EX_CANTCREAT, EX_CONFIG = 73, 78
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
BAD = [
    ("#!/usr/bin/pyhton3\n", "its interpreter /usr/bin/pyhton3 does not exist: did you mean /usr/bin/python3?"),
    ("#!/no/such/sh\n", "its interpreter /no/such/sh does not exist: install it"),
    ("#!/bin/sh\r\nexit 0\r\n", "its lines end with CR LF"),
    ("exit 0\n", "it is neither a program nor a script that begins with #!"),
    ("#!/usr/bin/env pyhton3\n", "its first line asks env for pyhton3, which is not in "),
    ("#!/bin/env pyhton3\n", "its first line asks env for pyhton3, which is not in "),
    ("#!/usr/bin/env python3 -u\n", "its first line asks env for python3 -u, which is not in "),
    ("\ufeff#!/bin/sh\n", "a byte order mark (UTF-8 BOM) stands before its #!: save it without one: sed -i '1s/^\\xEF\\xBB\\xBF//' "),
    ("#!/usr/bin\n", "its interpreter /usr/bin: it is not a regular file"),
    ("#!/etc/passwd\n", "its interpreter /etc/passwd: "),
    ("#!/" + "x" * 253 + " -e\n", "its interpreter's name does not end within 255 bytes, and the kernel reads no more"),
    ("#!/usr/bin/env sh\r\n", "its lines end with CR LF"),
]


def script(tmp, text, mode=0o755, name="script"):
    path = tmp / name
    path.write_bytes(text.encode())
    path.chmod(mode)
    return path


@pytest.mark.parametrize("text, flaw", BAD, ids=[flaw[:30] for _, flaw in BAD])
def test_a_first_line_that_cannot_work(quredisd, tmp, text, flaw):
    path = script(tmp, text)
    d = quredisd(queues=[queue("bad", path), queue("good", "/bin/true")], start=False)
    done = d.check()
    assert done.returncode == EX_CONFIG and f"handler: {path}: {flaw}" in done.stderr
    assert ": good" not in done.stderr and "quredisd starts with it, but a queue cannot run its handler" in done.stderr
    assert f"{path}: {flaw.split(':')[0]}" not in d.check("-T").stdout


@pytest.mark.parametrize("first", ["#!/bin/sh", "#! /bin/sh -e", "#!/bin/sh \t", "#!/usr/bin/env sh", "#!/usr/bin/env sh ", "#!\t/usr/bin/env\tsh\t",
                                   "#!/usr/bin/env -S sh -e", "#!/bin/sh -" + "e" * 244,
                                   "#!/bin/sh" + " " * 260, "#!/usr/bin/perl -w " + "#" * 250, "#!/usr/bin/env -S sh -e\r",
                                   "PK\x03\x04\0: the kernel may know a loader"])
def test_a_first_line_that_works(quredisd, tmp, first):
    done = quredisd(queues=[queue("mail", script(tmp, first + "\nexit 0\n"))], start=False).check()
    assert done.returncode == 0 and ": good" in done.stderr, done.stderr


def test_path_of_the_queue_counts(quredisd, tmp):
    (tmp / "own").mkdir()
    script(tmp / "own", "#!/bin/sh\n", name="mine")
    path = script(tmp, "#!/usr/bin/env mine\n")
    assert quredisd(queues=[queue("mail", path)], start=False).check().returncode == EX_CONFIG
    assert quredisd(queues=[queue("mail", path, env=[f"PATH={tmp}/own"])], start=False).check().returncode == 0


@pytest.mark.parametrize("how", ["first line", "command line"])
def test_the_path_of_a_shell_is_not_that_of_the_supervisor(quredisd, tmp, monkeypatch, how):
    """-t and doctor say the same of a program that only PATH of their shell finds: the supervisor may run it or not."""
    (tmp / "own").mkdir()
    script(tmp / "own", "#!/bin/sh\ncat >/dev/null\n", name="mine")
    words = [script(tmp, "#!/usr/bin/env mine\n")] if how == "first line" else ["/usr/bin/env", "mine"]
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{tmp}/own")
    d = quredisd(queues=[queue("mail", *words)], start=False)
    done = d.check()
    said = f"asks env for mine, which only the PATH of this shell finds ({os.environ['PATH']})"
    assert done.returncode == 0 and "warning: " in done.stderr and said in done.stderr and ": good" in done.stderr, done.stderr
    found = [row for row in json.loads(d.quredis("doctor", "--json").out) if said in row["what"]]
    assert [row["severity"] for row in found] == ["warning"] and 'env = ["PATH=' in found[0]["advice"], found
    monkeypatch.setenv("PATH", f"{tmp}/none:/usr/bin:/bin")
    assert d.check().returncode == EX_CONFIG
    found = [row for row in json.loads(d.quredis("doctor", "--json").out) if "asks env for mine, which is not in" in row["what"]]
    assert [row["severity"] for row in found] == ["error"]
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert quredisd(queues=[queue("mail", script(tmp, "#!/usr/bin/env sh\n"))], start=False).check().returncode == 0


def said_of(quredisd, path, flaw, **keys):
    done = quredisd(queues=[queue("bad", path, **keys)], start=False).check()
    assert done.returncode == EX_CONFIG and f"handler: {path}: {flaw}" in done.stderr, done.stderr


def test_an_interpreter_that_lacks_its_own(quredisd, tmp):
    inner = script(tmp, "#!/no/such/sh\n", name="inner")
    said_of(quredisd, script(tmp, f"#!{inner}\n"),
            f"its interpreter {inner}: its interpreter /no/such/sh does not exist: install it, or correct the first line of {inner}")


def test_env_passes_over_what_is_no_program(quredisd, tmp):
    """As execvp(3): a directory and a file without the right are no programs, and a file without #! is one of /bin/sh."""
    (tmp / "one" / "tool").mkdir(parents=True)
    (tmp / "two").mkdir()
    path, env = script(tmp, "#!/usr/bin/env tool\n"), [f"PATH={tmp}/one:{tmp}/two"]
    said_of(quredisd, path, f"its first line asks env for tool, which is {tmp}/one/tool: it is not a regular file", env=env)
    script(tmp / "two", "exit 0\n", name="tool")
    assert quredisd(queues=[queue("mail", path, env=env)], start=False).check().returncode == 0


def elf(tmp, change, name="program"):
    data = bytearray(pathlib.Path("/bin/true").read_bytes())
    change(data)
    path = tmp / name
    path.write_bytes(data)
    path.chmod(0o755)
    return path


def cut(data):
    del data[len(data) // 2:]


def other_cpu(data):
    data[18:20] = (0xf7).to_bytes(2, "little")     # BPF


def other_loader(data):
    at = data.index(b"/ld-")
    data[at:at + 4] = b"/xx-"


def object_file(data):
    data[16] = 1


@pytest.mark.parametrize("change, flaw", [
    (cut, "it is cut short"), (lambda data: data.__delitem__(slice(20, None)), "it is cut short"), (other_cpu, "it is a program for another CPU"),
    (object_file, "it is no program, but another ELF file"), (other_loader, "its loader /lib"),
])
def test_a_program_that_the_kernel_cannot_execute(quredisd, tmp, change, flaw):
    if change is other_cpu and {path.name for path in pathlib.Path("/proc/sys/fs/binfmt_misc").glob("*")} - {"register", "status"}:
        pytest.skip("an emulator may run it")
    path = elf(tmp, change)
    said_of(quredisd, path, flaw)
    try:
        assert subprocess.run([path], check=False).returncode < 0    # cut within a segment: it starts, and dies
    except OSError:
        pass
    assert quredisd(queues=[queue("mail", elf(tmp, lambda data: None))], start=False).check().returncode == 0


def test_a_function_that_is_a_directory(quredisd, tmp):
    (tmp / "x.py").mkdir()
    done = quredisd(queues=[{"name": "bad", "function": str(tmp / "x.py")}], start=False).check()
    assert done.returncode == EX_CONFIG and f"function: {tmp}/x.py: it is not a regular file" in done.stderr, done.stderr


@as_root
@pytest.mark.parametrize("kind", ["program", "script", "function", "interpreter", "env", "directory"])
def test_what_a_link_leads_to(quredisd, tmp, kind):
    """The directories of its target count, too: current -> /root/releases/1."""
    inner, tool, name = tmp / "inner", tmp / "inner" / "tool", tmp / "current"
    tool.mkdir(parents=True)
    tmp.chmod(0o711)
    name.symlink_to("inner/tool")
    script(tool, "#!/bin/sh\nexit 0\n", name="x.py")
    file, as_nobody = str(name / "x.py"), {"user": "nobody"}
    keys = {"program": queue("bad", file), "script": queue("bad", "/bin/sh", file), "function": {"name": "bad", "function": file},
            "interpreter": queue("bad", script(tmp, f"#!{file}\n", name="one")),
            "env": queue("bad", script(tmp, "#!/usr/bin/env x.py\n"), env=[f"PATH={name}"]),
            "directory": queue("bad", "/bin/true")}[kind]
    if kind == "directory":
        as_nobody["directory"] = str(name)
    d = quredisd(queues=[{**keys, "run_as": as_nobody}], start=False)
    assert d.check().returncode == 0, d.check().stderr
    inner.chmod(0o700)
    done = d.check()
    assert done.returncode == EX_CONFIG and f"nobody may not enter {inner}: chmod o+x {inner}" in done.stderr, done.stderr


@as_root
@pytest.mark.parametrize("kind", ["program", "script", "function"])
def test_of_an_ordinary_user(quredisd, tmp, kind):
    """The same without run_as: quredisd itself has no right there."""
    inner = tmp / "inner"
    inner.mkdir(0o711)
    tmp.chmod(0o711)
    path = script(inner, "#!/bin/sh\n", mode=0o711 if kind == "program" else 0o700, name="x.py")
    keys = {"program": queue("bad", path), "script": queue("bad", "/bin/sh", path), "function": {"name": "bad", "function": str(path)}}[kind]
    d = quredisd(queues=[keys], start=False)
    for place in d.conf, d.dir:
        shutil.chown(place, "nobody")

    def check():
        return subprocess.run(["setpriv", "--reuid=nobody", "--clear-groups", QUREDISD, "-t", "-c", d.conf], capture_output=True, text=True, check=False)
    if kind != "program":
        assert f"{path}: the supervisor's user may not read it" in check().stderr, check().stderr
    inner.chmod(0o700)
    done = check()
    assert done.returncode == EX_CONFIG and f"{path}: the supervisor's user may not enter {inner}: chmod g+x" in done.stderr, \
        done.stderr      # its group is that of root
    assert "quredisd starts with it" in done.stderr
    shutil.chown(d.dir, "root")         # the lock cannot be made there
    done = check()
    assert done.returncode == EX_CANTCREAT and f"may not enter {inner}" in done.stderr and "supervisor.lock_file: " in done.stderr, done.stderr
    assert "quredisd starts with it" not in done.stderr


@as_root
@pytest.mark.parametrize("kind", ["program", "script", "function"])
def test_a_directory_that_the_user_may_not_enter(quredisd, tmp, kind):
    inner = tmp / "inner"
    inner.mkdir(0o700)
    path = script(inner, "def handle(message): pass\n" if kind == "function" else "#!/bin/sh\nexit 0\n", name="x.py" if kind == "function" else "x")
    keys = {"program": queue("bad", path), "script": queue("bad", "/bin/sh", path), "function": {"name": "bad", "function": str(path)}}[kind]
    d = quredisd(queues=[{**keys, "run_as": {"user": "nobody"}}], start=False)
    done = d.check()
    assert done.returncode == EX_CONFIG, done.stderr
    assert f"{'function' if kind == 'function' else 'handler'}: {path}: nobody may not enter {inner}: chmod o+x {inner}" in done.stderr
    inner.chmod(0o711)
    assert d.check().returncode == 0, d.check().stderr
    os.chown(inner, 0, pwd.getpwnam("nobody").pw_gid)
    inner.chmod(0o710)
    assert d.check().returncode == 0, d.check().stderr


@as_root
@pytest.mark.parametrize("owner, group, who", [("nobody", "nogroup", "u"), ("root", "nogroup", "g"), ("root", "root", "o")])
def test_the_advice_changes_the_part_of_a_mode_that_counts_for_its_user(quredisd, tmp, owner, group, who):
    inner = tmp / "inner"
    inner.mkdir()
    tmp.chmod(0o711)
    path = script(inner, "#!/bin/sh\nexit 0\n", mode=0o111)
    d = quredisd(queues=[{**queue("bad", path), "run_as": {"user": "nobody"}}], start=False)
    for closed, advice in (path, f"may not read it, but its interpreter has to: chmod {who}+r {path}"), \
            (inner, f"may not enter {inner}: chmod {who}+x {inner}"):
        shutil.chown(closed, owner, group)
        closed.chmod(0o111 if closed == path else 0)
        done = d.check()
        assert done.returncode == EX_CONFIG and f"nobody {advice}" in done.stderr, done.stderr


@as_root
@pytest.mark.parametrize("kind", ["script", "relative", "function"])
def test_a_file_that_the_user_may_not_read(quredisd, tmp, kind):
    path = script(tmp, "def handle(message): pass\n", mode=0o600, name="x.py")
    tmp.chmod(0o711)
    keys = {"script": queue("bad", "/bin/sh", path), "relative": queue("bad", "/bin/sh", "./x.py"), "function": {"name": "bad", "function": str(path)}}[kind]
    d = quredisd(queues=[{**keys, "run_as": {"user": "nobody", "directory": str(tmp)}}], start=False)
    done, found = d.check(), f"{tmp}/./x.py" if kind == "relative" else path
    assert done.returncode == EX_CONFIG, done.stderr
    assert f"{'function' if kind == 'function' else 'handler'}: {found}: nobody may not read it, but its interpreter has to: chmod o+r {found}" in done.stderr
    path.chmod(0o604)
    assert d.check().returncode == 0, d.check().stderr


def test_the_other_queues_run(quredisd, redis, tmp):
    """Also after a reload: one handler that lost its interpreter must not keep a new configuration away."""
    bad, good = queue("bad", script(tmp, BAD[0][0])), queue("good", "/bin/true")
    d = quredisd(queues=[bad, good])
    assert any("did you mean /usr/bin/python3?" in e["reason"] for e in d.events("config_problem", level="warning"))
    redis.client().lpush("ingress:good", "1")
    wait_for(lambda: status(d, "good")["counters"]["done"] == 1)
    d.reload(queues=[bad, good, queue("more", "/bin/true")])
    redis.client().lpush("ingress:more", "1")
    wait_for(lambda: status(d, "more")["counters"]["done"] == 1)


REASONS = {"program": "execve {name}/x: No such file", "script": "script {name}/x: No such file", "function": "{name}/x.py: no such file",
           "interpreter": "execve {name}/python: No such file", "directory": "chdir: No such file or directory: {name}: it does not exist"}


@pytest.mark.parametrize("kind", REASONS)
def test_a_missing_file_holds_its_queue_alone(quredisd, redis, tmp, kind):
    """As a link of a deploy that leads nowhere, or a mount that is late: the others run, and it runs when the file is there."""
    c, name = redis.client(), tmp / "current"
    (tmp / "release").mkdir()
    script(tmp / "release", "#!/bin/sh\ncat >/dev/null\n", name="x")
    (tmp / "release/x.py").write_text("def handle(message): pass\n")
    (tmp / "release/python").symlink_to("/usr/bin/python3")
    bad = {"program": queue("bad", name / "x"), "script": queue("bad", "/bin/sh", name / "x"), "function": {"name": "bad", "function": f"{name}/x.py"},
           "interpreter": {"name": "bad", "function": f"{tmp}/release/x.py", "interpreter": [f"{name}/python"]},
           "directory": queue("bad", "/bin/cat", run_as={"directory": str(name)})}[kind]
    d = quredisd(queues=[bad, queue("good", "/bin/true")])
    done = d.check()
    assert done.returncode == EX_CONFIG and "queue held: " in done.stderr and f": {name}" in done.stderr and "it does not exist" in done.stderr, done.stderr
    assert "quredisd starts with it" in done.stderr
    assert any("it does not exist" in e["reason"] for e in d.events("config_problem", level="warning"))
    c.lpush("ingress:bad", "1")
    c.lpush("ingress:good", "1")
    wait_for(lambda: status(d, "good")["counters"]["done"] == 1)
    wait_for(lambda: status(d, "bad")["state"] == "breaker" and REASONS[kind].format(name=name) in status(d, "bad")["reason"], 60)
    d.reload(queues=[bad, queue("good", "/bin/true"), queue("more", "/bin/true")])
    c.lpush("ingress:more", "1")
    wait_for(lambda: status(d, "more")["counters"]["done"] == 1)
    name.symlink_to("release")
    wait_for(lambda: status(d, "bad")["counters"]["done"] == 1, 90)
    assert c.llen("escape:bad") == 0 and d.check().returncode == 0 and d.stop() == 0


@pytest.mark.parametrize("words", [("/bin/sh", "DIR"), ("/bin/bash", "DIR"), ("/usr/bin/perl", "DIR"), ("/usr/bin/env", "sh", "DIR"), ("/bin/sh", "UNREADABLE"),
                                   ("/usr/bin/env", "-i", "quredis-none"), ("/usr/bin/env", "-i", "DIR"), ("/usr/bin/env", "NOTEXEC"), ("BADLINE",)],
                         ids=" ".join)
def test_what_the_check_finds_is_held_whatever_its_status(quredisd, redis, tmp, words):
    """It neither loses nor charges a message, which waits until the handler is good."""
    (tmp / "DIR").mkdir()
    script(tmp, "#!/bin/sh\nexit 1\n", 0o600 if words[0] == "/bin/sh" else 0o644, "UNREADABLE")
    script(tmp, "#!/bin/sh\nexit 0\n", 0o644, "NOTEXEC")
    script(tmp, "#!/usr/bin/env -S quredis-none -x\n", name="BADLINE")
    d = quredisd(queues=[queue("bad", *(tmp / w if w.isupper() else w for w in words), workers=1, **USER)])
    done = d.check()
    assert done.returncode == EX_CONFIG and "queue held: " in done.stderr, done.stderr
    redis.client().lpush("ingress:bad", "1")
    wait_for(lambda: status(d, "bad")["state"] == "breaker", 60)
    counted = status(d, "bad")["counters"]
    assert not any(counted[c] for c in ("done", "failed", "retried", "escaped")), counted
    assert d.stop() == 0 and redis.client().llen("ingress:bad") == 1


def test_env_without_a_program_is_refused(quredisd, tmp):
    """It would succeed with each message."""
    for words in (["/usr/bin/env"], ["/usr/bin/env", "A=1"], ["/usr/bin/env", "-S", "A=1"]):
        d = quredisd(queues=[queue("bad", *words)], start=False)
        done = d.check()
        assert done.returncode == EX_CONFIG and "handler: /usr/bin/env runs no program, so each message would count as done" in done.stderr, done.stderr
        assert "queue held: " not in done.stderr and "does not start with it" in done.stderr


def test_a_file_that_goes_away_is_not_reloaded(quredisd, redis, tmp):
    """A deploy hears that the new release lacks the function, and the old worker goes on."""
    path = tmp / "x.py"
    path.write_text("def handle(message): pass\n")
    d = quredisd(queues=[{"name": "mail", "function": str(path), "workers": 1}])
    redis.client().lpush("ingress:mail", "1")
    wait_for(lambda: status(d, "mail")["counters"]["done"] == 1, 30)
    path.unlink()
    r = d.quredis("reload")
    assert r.code == EX_CONFIG and f"{path}: no such file" in r.err, r
    redis.client().lpush("ingress:mail", "2")
    wait_for(lambda: status(d, "mail")["counters"]["done"] == 2, 30)
    assert d.stop() == 0


def of_line(first, body="echo ran", name="x"):
    """A script with this first line, in the directory in which it runs."""
    return lambda tmp: [script(tmp, f"{first}\n{body}\n", name=name)]


def tree(name, command, **files):
    """A command that gets a directory."""
    def make(tmp):
        (tmp / name).mkdir()
        for file, text in files.items():
            (tmp / name / file.replace("_js", ".js").replace("main_py", "__main__.py")).write_text(text)
        return [*command, tmp / name]
    return make


def link(target, name, then):
    def make(tmp):
        (tmp / name).parent.mkdir(exist_ok=True)
        (tmp / name).symlink_to(target)
        return then(tmp)
    return make


def scripts(n):
    """Each is the interpreter of the next."""
    def make(tmp):
        path = "/bin/sh"
        for i in range(n):
            path = script(tmp, f"#!{path}\necho ran\n", name=f"s{i}")
        return [path]
    return make


def given(*command):
    """To a Python program."""
    return lambda tmp: [*command, script(tmp, "#!/usr/bin/python3\nprint('ran')\n", name="x.py")]


PRINT, ENV = "print('ran')", "#!/usr/bin/env "
ODD = {
    "python-dir": tree("d", ["/usr/bin/python3"], main_py=PRINT), "python-dir-without-main": tree("d", ["/usr/bin/python3"]),
    "env-python-dir": tree("d", ["/usr/bin/env", "python3"], main_py=PRINT), "sh-dir": tree("d", ["/bin/sh"]),
    "node-dir": tree("d", ["/usr/bin/node"], index_js="console.log('ran')"), "node-dir-with-dot": tree("d.1", ["/usr/bin/node"], index_js="console.log('ran')"),
    "node-no-extension": lambda tmp: [*tree("d", ["/usr/bin/node"], index_js="console.log('ran')")(tmp)[:1], tmp / "d" / "index"],
    "relative": link("/bin/sh", "bin/sh", of_line("#!bin/sh")),
    "relative-dot": link("/bin/sh", "tool", of_line("#!./tool")),
    "relative-missing": of_line("#!no/sh"),
    "env-relative": link("/bin/sh", "tool", of_line(ENV + "./tool")), "name-alone": of_line("#!python3", PRINT),
    "env": given("/usr/bin/env", "python3"), "env-typo": given("/usr/bin/env", "pyhton3"),
    "env-S-typo": given("/usr/bin/env", "-S", "pyhton3"),
    "env-i": given("/usr/bin/env", "-i", "python3"),
    "env-i-typo": given("/usr/bin/env", "-i", "A=b", "pyhton3"),
    "env-path": given("/usr/bin/env", "PATH=/nowhere", "python3"),
    "env-executes": lambda tmp: ["/usr/bin/env", script(tmp, "echo ran\n")], "env-whole-typo": given("/usr/bin/env", "/usr/bin/pyhton3"),
    "line-i": of_line(ENV + "-i python3", PRINT), "line-S-i": of_line(ENV + "-S -i python3", PRINT), "line-S-i-typo": of_line(ENV + "-S -i pyhton3", PRINT),
    "line-S-A": of_line(ENV + "-S A=b python3", PRINT), "line-S-A-typo": of_line(ENV + "-S A=b pyhton3", PRINT), "line-A": of_line(ENV + "A=b"),
    "line-S-path": of_line(ENV + "-S PATH=/nowhere python3", PRINT), "line-S-u": of_line(ENV + "-S -u PATH python3", PRINT),
    "bare-env": of_line("#!/usr/bin/env"), "other-name-of-env": lambda tmp: link("/usr/bin/env", "e", of_line(f"#!{tmp}/e python3", PRINT))(tmp),
    "other-name-of-env-typo": lambda tmp: link("/usr/bin/env", "e", of_line(f"#!{tmp}/e pyhton3", PRINT))(tmp),
    "itself": of_line("#!./x"),
    "itself-by-env": of_line(ENV + "./x"),
    "five-scripts": scripts(5), "six-scripts": scripts(6),
    "loop-of-links": link("l", "l", of_line("#!./l")),
    "perl-w-cr": of_line("#!/usr/bin/perl -w\r", "print \"ran\\n\";"),
    "empty-behind-env": lambda tmp: ["/usr/bin/env", script(tmp, "#!\necho ran\n")],
    "empty": of_line("#! "),
    "S-cr": of_line(ENV + "-S sh\r"), "good": of_line("#!/bin/sh"),
}


@pytest.mark.parametrize("name", ODD)
def test_what_is_said_is_what_happens(quredisd, tmp, name):
    """The judge and the kernel, with env and the interpreters of this host, agree."""
    argv = [str(word) for word in ODD[name](tmp)]
    if not os.path.exists(argv[0]):
        pytest.skip(f"{argv[0]} is not installed")
    how = {"cwd": tmp, "env": {"PATH": os.environ["PATH"]}, "stdin": subprocess.DEVNULL, "capture_output": True, "timeout": 60,
           "preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_CPU, (2, 2))}        # for a script that runs itself
    try:
        ran = b"ran\n" in subprocess.run(argv, check=False, **how).stdout
    except OSError:
        ran = False
    done = quredisd(queues=[queue("mail", *argv, run_as={"directory": str(tmp)})], start=False).check()
    assert (done.returncode == 0) == ran, (ran, done.stderr)
