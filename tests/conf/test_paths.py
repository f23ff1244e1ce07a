"""Which paths quredisd trusts: only root and the user of a handler may be able to change what it runs, reads or writes."""
import os
import pathlib
import shutil
import subprocess

import pytest

from harness import queue, wait_for

AS_NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can give files to another user")


@as_root
def test_a_handler_of_root_that_another_user_can_replace_is_refused(redis, quredisd, handler, tmp):
    """Another user owns the grandparent directory, and could replace everything below it."""
    home = tmp / "home"
    (home / "bin").mkdir(parents=True)
    mine = home / "bin/run"
    shutil.copy(handler("cat >/dev/null; id -u >@TMP@/ran"), mine)
    d = quredisd(queues=[queue("mail", mine, timeout="5s")], start=False)
    assert d.check().returncode == 0
    os.chown(home, 65534, 65534)
    subprocess.run([*AS_NOBODY, "sh", "-c", f"mv {home}/bin {home}/old && mkdir {home}/bin && echo '#!/bin/sh' >{mine} && chmod 755 {mine}"],
                   check=True)
    refused = d.check()
    assert refused.returncode == 78 and f"handler: {home} belongs to uid 65534, expected root: chown root {home}" in refused.stderr
    d.write_conf(queues=[queue("mail", mine, timeout="5s", run_as={"user": "nobody"})])
    good = d.check()
    assert good.returncode == 0 and "belongs" not in good.stderr


@as_root
def test_a_link_to_what_another_user_owns_is_refused(redis, quredisd, handler, tmp):
    theirs = pathlib.Path(handler("cat >/dev/null", name="theirs"))
    os.chown(theirs, 65534, 65534)
    (tmp / "link").symlink_to(theirs)
    d = quredisd(queues=[queue("mail", tmp / "link", timeout="5s")], start=False)
    refused = d.check()
    assert refused.returncode == 78 and f"{theirs} belongs to uid 65534" in refused.stderr


def test_print_hides_what_env_sets(redis, quredisd, handler):
    d = quredisd(queues=[queue("mail", handler("cat"), timeout="5s", env=["TOKEN=hush", "PATH"])], start=False)
    os.chmod(d.conf, 0o644)
    printed = d.check("-T")
    assert printed.returncode == 0 and "hush" not in printed.stdout + printed.stderr
    assert 'env = ["TOKEN=***", "PATH"];' in printed.stdout
    assert f"env: every user can read this file, and the values in it: chmod o-r {d.conf}" in printed.stderr


def test_the_log_is_never_written_through_a_link(redis, quredisd, handler, tmp):
    (tmp / "target").touch()
    (tmp / "log").symlink_to(tmp / "target")
    d = quredisd(queues=[queue("mail", handler("cat"), timeout="5s")], log={"target": str(tmp / "log")}, start=False)
    d.start(wait=False)
    assert d.wait_exit() == 73 and f"log.target {tmp / 'log'}: is a link" in d.text()
    assert (tmp / "target").read_text() == ""


@as_root
def test_figures_are_not_written_into_a_file_of_another_user(redis, quredisd, handler, tmp):
    page, theirs = tmp / "quredis.prom", tmp / "quredis.prom.tmp"
    theirs.touch()
    os.chown(theirs, 65534, 65534)
    d = quredisd(queues=[queue("mail", handler("cat"), timeout="5s")], metrics={"textfile": str(page), "interval": "1s"})
    assert d.wait_event("textfile_failed")["error"] == f"{theirs}: belongs to another user: remove it"
    assert theirs.read_text() == "" and not page.exists()
    theirs.unlink()
    wait_for(page.exists)
    assert d.stop() == 0


@as_root
def test_a_configuration_that_another_user_can_replace_is_refused(redis, quredisd, handler, tmp):
    d = quredisd(queues=[queue("mail", handler("cat"), timeout="5s")], start=False)
    os.chown(d.dir, 65534, 65534)
    refused = d.check()
    assert refused.returncode == 78 and f"the configuration file: {d.dir} belongs to uid 65534" in refused.stderr


@as_root
def test_no_path_that_is_written_leads_through_a_link_of_another_user(redis, quredisd, handler, tmp):
    """In every key that names such a path: when the configuration is loaded, and again when the path is opened."""
    (tmp / "public").mkdir()
    os.chmod(tmp / "public", 0o1777)
    (tmp / "mine").mkdir()
    places = {"dead_letter": {"archive": ""}, "metrics": {"textfile": "q.prom"}, "log": {"target": "log"},
              "supervisor": {"lock_file": "lock", "control_socket": "c"}}
    d = quredisd(queues=[queue("mail", handler("exit 65"), timeout="5s")], start=False)
    link, theirs = tmp / "public/arch", tmp / "public/theirs"
    (tmp / "real").mkdir()
    link.symlink_to(tmp / "real")
    subprocess.run([*AS_NOBODY, "ln", "-s", str(tmp / "mine"), str(theirs)], check=True)
    d.write_conf(dead_letter={"archive": str(link), "max_entries": 1})
    d.start()
    theirs.rename(link)         # at once: the sweeper opens the archive at its start, too, and would find no directory
    redis.client().lpush("ingress:mail", "a", "b")
    assert "is a link of uid 65534" in d.wait_event("queue_error", at="archive")["error"]
    wait_for(lambda: redis.client().llen("escape:mail") == 2)
    assert not list((tmp / "mine").iterdir())
    d.stop()
    good = dict(d.sections, dead_letter={}, metrics={})
    for group, key, name in [(g, k, n) for g, keys in places.items() for k, n in keys.items()]:
        d.write_conf(**{**good, group: {**good[group], key: str(link / name)}})
        refused = d.check()
        assert refused.returncode == 78 and f"{group}.{key}: {link} is a link of uid 65534" in refused.stderr, refused.stderr
