"""The demo, made small, and that it notices when something is wrong."""
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from harness import BUILD, ROOT, wait_for
from harness.processes import belonging_to

SMALL = """
import importlib.machinery, importlib.util, os, pathlib, sys
loader = importlib.machinery.SourceFileLoader("demo", sys.argv[1])
demo = importlib.util.module_from_spec(importlib.util.spec_from_loader("demo", loader))
loader.exec_module(demo)
demo.ROOT, demo.BUILD = pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
demo.CHECKSUMS, demo.MISSING, demo.SQUEEZES, demo.TOPS = 40, 5, 15, [os.fsencode(os.path.dirname(os.__file__))]
del sys.argv[1:4]
sys.exit(demo.main())
"""


@pytest.fixture
def demo(machine, tmp, tag):
    """The demo's own folder, copied, and how to run it."""
    folder = tmp / "demo"
    shutil.copytree(ROOT / "etc/demo", folder)

    def run(*args):
        env = {**os.environ, "TMPDIR": str(tmp), "QUREDIS_TEST_TAG": tag, "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run([sys.executable, "-c", SMALL, str(folder / "run"), str(ROOT), str(BUILD), *args], env=env,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=250)
    run.folder = folder
    return run


@pytest.mark.limit(300)
def test_demo(demo, tmp):
    done = demo()
    assert done.returncode == 0, done.stdout
    for words in ("SIGKILL, while its handler runs", "no such file: /usr/share/quredis-demo/absent-",
                  "35 digests and 15 gzips equal those of a direct run"):
        assert words in done.stdout, done.stdout
    assert list(tmp.glob("quredis-demo.*")) == []


@pytest.mark.limit(300)
def test_demo_keeps_running_on_demand_in_a_checkout_that_others_can_write(demo, tmp, tag):
    """As git leaves it under umask 002: quredisd, run by root, starts no handler that others can replace."""
    for path in (demo.folder, *demo.folder.iterdir()):
        path.chmod(path.stat().st_mode | 0o020)
    before = os.umask(0o002)
    try:
        done = demo("--keep")
    finally:
        os.umask(before)
    assert done.returncode == 0, done.stdout
    (directory,) = tmp.glob("quredis-demo.*")
    cli = [str(BUILD / "quredis"), "-c", str(directory / "quredis.conf")]
    assert f"-c {directory}/quredis.conf status" in done.stdout
    assert "checksum" in subprocess.run([*cli, "ls"], check=True, stdout=subprocess.PIPE, text=True, timeout=60).stdout
    subprocess.run([*cli, "stop"], check=True, timeout=60)
    wait_for(lambda: belonging_to(tag) == [], 30, "the end of quredisd and its redis-server")


@pytest.mark.limit(300)
@pytest.mark.parametrize("name, old, new, complaint", [
    ("checksum", 'sha256sum <"$name"', 'sha256sum </dev/null', "another digest of"),
    ("squeeze", "out.write(data)", "out.write(data[:-1])", "no gzip of"),
    ("checksum", "no such file", "I cannot find", "escaped:"),
], ids=["digest", "gzip", "words"])
def test_demo_notices(demo, name, old, new, complaint):
    path = pathlib.Path(demo.folder / name)
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    done = demo()
    assert done.returncode == 1 and f"WRONG: {name if 'escaped' not in complaint else 'escaped'}" in done.stdout, done.stdout
    assert complaint in done.stdout
