"""The file of etc/logrotate in the real logrotate."""
import gzip
import os
import subprocess

import pytest

from harness import ROOT, open_files, queue, wait_for

from .inits import environment, find_program

pytestmark = [pytest.mark.skipif(find_program("logrotate") is None, reason="no logrotate: make inits fetches it"),
              pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it gives the log to the user of the supervisor")]


@pytest.fixture
def rotate(tmp):
    """rotate(d): as the day has come on which the log is rotated. The directory of the log belongs to root, as /var/log does."""
    (tmp / "log").mkdir(mode=0o755)

    def run(d):
        text = (ROOT / "etc/logrotate/quredis").read_text()
        for old, new in (("/var/log/quredis.log", tmp / "log/quredis.log"), ("/run/quredis/quredisd.lock", d.dir / "lock")):
            assert str(old) in text
            text = text.replace(old, str(new))
        (tmp / "rotate.conf").write_text(text)
        (tmp / "rotate.conf").chmod(0o644)
        done = subprocess.run(["logrotate", "-f", "-s", tmp / "rotate.state", tmp / "rotate.conf"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=60, env=environment())
        assert (done.returncode, done.stdout) == (0, "")
    return run


def read_all(directory):
    """The lines of all files of the log, the oldest first."""
    files = sorted(directory.iterdir(), key=lambda p: p.stat().st_mtime)
    return [line for p in files for line in (gzip.decompress(p.read_bytes()) if p.suffix == ".gz" else p.read_bytes()).decode().splitlines()]


@pytest.mark.parametrize("user", [None, "daemon"])
def test_each_rotation_begins_a_new_file_and_loses_no_line(redis, quredisd, ledger, tmp, rotate, user):
    log = tmp / "log/quredis.log"
    d = quredisd(queues=[queue("mail", ledger.recorder(), workers=2)], log={"target": str(log)}, supervisor={"user": user}, wait=False)
    wait_for(lambda: log.exists() and "event=ready" in log.read_text(), what="ready in the file")

    def files_of(pid):
        return {path for path in open_files(pid).values() if path.startswith(f"{tmp}/log/")}
    for n in range(3):
        rotate(d)
        wait_for(lambda: log.exists() and all(files_of(p) == {str(log)} for p in [d.pid, *d.workers().values(), d.sweeper()]), what="all write to the new file")
        redis.client().lpush("ingress:mail", f"m{n}")
        wait_for(lambda: len(ledger.runs()) == n + 1 and "event=message_done" in log.read_text(), what="a line: logrotate leaves an empty file alone")
    assert d.stop() == 0
    assert sorted(p.name for p in log.parent.iterdir()) == ["quredis.log", "quredis.log.1", "quredis.log.2.gz", "quredis.log.3.gz"]
    lines = read_all(log.parent)
    assert sum("event=ready" in line for line in lines) == 1 and sum("event=stopped" in line for line in lines) == 1
    assert sum("signal=SIGUSR1" in line for line in lines) == 3
    rotate(d)                                                       # nobody holds the lock: no process gets a signal
    assert not log.exists() and (log.parent / "quredis.log.1").exists()
