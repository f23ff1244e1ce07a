"""conf.d on a read-only mount: one for everybody, as a kubelet makes it, and one of the daemon's own."""
import os
import shutil
import subprocess

import pytest

from harness import QUREDISD, unshared
from harness.containers import why_not
from harness.control import ask, status

MOUNTED_ALONE, MOUNTED_FOR_ALL = ("--mount",), ("--mount", "--pid", "--fork", "--mount-proc", "--kill-child")


def volume(tmp, workers):
    """What a kubelet publishes for a ConfigMap: everybody may write, and the files are links through ..data, which it swaps."""
    old, new = tmp / f"volume/..{workers - 1}", tmp / f"volume/..{workers}"
    new.mkdir(parents=True)
    (new / "mail.conf").write_text(f'queues = ( {{ name = "mail"; handler = ["/bin/cat"]; workers = {workers}; }} );\n')
    (new / "mail.conf").chmod(0o644)
    for path in (new, tmp / "volume"):
        path.chmod(0o777)
    (tmp / "volume/..next").symlink_to(new.name)
    os.rename(tmp / "volume/..next", tmp / "volume/..data")
    if not (tmp / "volume/mail.conf").is_symlink():
        (tmp / "volume/mail.conf").symlink_to("..data/mail.conf")
    shutil.rmtree(old, ignore_errors=True)


def mount_read_only(tmp, d, kinds):
    if why_not("true", kinds):
        pytest.skip(why_not("true", kinds))
    (d.dir / "conf.d").mkdir()
    there = d.dir / "conf.d"
    d._inside = unshared(f"mount --bind {tmp}/volume {there} && mount -o remount,ro,bind {there}", *kinds)


def test_a_reload_follows_a_mount_that_nobody_can_write(redis, quredisd, tmp):
    """conf.d is a ConfigMap with its default modes: two reloads in a row, each after the kubelet has swapped ..data."""
    d = quredisd(queues=[], start=False)
    volume(tmp, 1)
    mount_read_only(tmp, d, MOUNTED_FOR_ALL)
    d.start()
    assert status(d, "mail")["workers"]["wanted"] == 1
    for n in (2, 3):
        volume(tmp, n)
        assert ask(d, "reload")["ok"] and status(d, "mail")["workers"]["wanted"] == n


def test_a_mount_of_its_own_makes_nothing_safe(redis, quredisd, tmp):
    """As systemd makes it for ProtectSystem=: the daemon sees a read-only directory, and every other user a writable one."""
    d = quredisd(queues=[], start=False)
    volume(tmp, 1)
    mount_read_only(tmp, d, MOUNTED_ALONE)
    done = subprocess.run([*d._inside, str(QUREDISD), "-t", "-c", str(d.conf)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    assert done.returncode != 0 and "can be written by others (mode 0777)" in done.stdout, done.stdout
