"""A handler that its user cannot execute: quredisd -t names it, a start and a reload run the other queues, doctor says the same."""
import os
import pwd

import pytest

from harness import queue, wait_for
from harness.control import status

EX_CONFIG = 78
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
BAD = [
    ("#!/usr/bin/pyhton3\n", "its interpreter /usr/bin/pyhton3 does not exist: did you mean /usr/bin/python3?"),
    ("#!/no/such/sh\n", "its interpreter /no/such/sh does not exist: install it"),
    ("#!/bin/sh\r\nexit 0\r\n", "its lines end with CR LF"),
    ("exit 0\n", "it is neither a program nor a script that begins with #!"),
    ("#!/usr/bin/env pyhton3\n", "its first line asks env for pyhton3, which is not in "),
    ("#!/bin/env pyhton3\n", "its first line asks env for pyhton3, which is not in "),
    ("#!/usr/bin/env python3 -u\n", "its first line asks env for python3 -u, which is not in "),
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


@pytest.mark.parametrize("first", ["#!/bin/sh", "#! /bin/sh -e", "#!/bin/sh \t", "#!/usr/bin/env sh", "#!/usr/bin/env sh ", "#!/usr/bin/env -S sh -e",
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
