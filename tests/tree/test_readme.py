"""The README's walk-through, walked: its own blocks, with paths of the test and its Redis."""
import os
import re
import subprocess

import pytest

from harness import BUILD, ROOT, queue, wait_for
from harness.control import status

README = (ROOT / "README.md").read_text()


def blocks(section):
    """The indented blocks of a section."""
    text = re.search(rf"^## {section}\n(.*?)(?=^## )", README, re.M | re.S)[1]
    found = re.findall(r"(?:^    .*\n|^\n(?=    ))+", text, re.M)
    return ["\n".join(line[4:] for line in block.splitlines()).strip() for block in found]


@pytest.fixture
def walk(tmp, redis, quredisd):
    """Runs a block in a shell, at places of the test's own."""
    daemon = quredisd(start=False)
    (daemon.dir / "conf.d").mkdir()
    env = {**os.environ, "PATH": f"{BUILD}:{os.environ['PATH']}"}
    (tmp / "bin").mkdir()

    def run(block):
        for old, new in (("/usr/local/bin", f"{tmp}/bin"), ("/etc/quredis/", f"{daemon.dir}/"),
                         ("/tmp/greetings", f"{tmp}/greetings"), ("redis-cli", f"redis-cli -s {redis.socket}")):
            block = block.replace(old, new)
        block = re.sub(r"\b(quredisd?) ", rf"\1 -c {daemon.conf} ", block)
        return subprocess.run(["sh", "-euc", block], env=env, timeout=60, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
    run.daemon = daemon
    return run


def test_walk_through(walk, tmp):
    install, handler, conf, start, send = blocks("A handler of your own, in five minutes")
    assert install == "./bootstrap build && sudo make install"
    for block in (handler, conf):
        done = walk(block)
        assert done.returncode == 0, done.stderr
    assert start == "quredisd -t && quredisd"
    done = walk("quredisd -t && true")
    assert done.returncode == 0, done.stderr
    walk.daemon.start()
    pushes, looks = send.split("cat /tmp/greetings")
    done = walk(pushes)
    assert done.returncode == 0, done.stderr
    wait_for(lambda: (tmp / "greetings").exists() and len((tmp / "greetings").read_text().splitlines()) == 2)
    walk.daemon.wait_event("message_escaped", queue="greet")
    done = walk("cat /tmp/greetings" + looks)
    assert done.returncode == 0, done.stderr
    assert {"hello, Ada", "hello, Grace"} <= set(done.stdout.splitlines())
    assert "ingress:greet (0)" in done.stdout and "escape:greet (1)" in done.stdout
    assert "nobody to greet" in done.stdout and "retried 1 dead letter" in done.stdout


def test_the_first_queue_needs_no_root(tmp):
    build, start, send = blocks("A first queue, without root")
    bootstrap, init = build.splitlines()
    assert bootstrap == "./bootstrap build"

    def at_home(line):
        return ["sh", "-c", "exec " + line.replace("build/release/", f"{BUILD}/")]
    subprocess.run(at_home(init), cwd=tmp, check=True, timeout=60)
    with open(tmp / "log", "wb") as log:
        master = subprocess.Popen(at_home(start), cwd=tmp, stdout=log, stderr=log)
    try:
        push, look = send.splitlines()
        wait_for(lambda: subprocess.run(at_home(push), cwd=tmp, check=False, timeout=60).returncode == 0, 30, "a push")
        wait_for(lambda: b"Ada" in subprocess.run(at_home(look), cwd=tmp, check=True, timeout=60, stdout=subprocess.PIPE).stdout, 30, "the message to be done")
    finally:
        master.terminate()
        assert master.wait(60) == 0, (tmp / "log").read_text()


def test_the_handler_that_stays(tmp, redis, quredisd):
    script, = blocks("A handler that stays")
    (tmp / "greet").write_text(script.replace("/tmp/greetings", f"{tmp}/greetings"))
    (tmp / "greet").chmod(0o755)
    daemon = quredisd(queues=[queue("greet", [str(tmp / "greet")], mode="persistent")])
    redis.client().lpush("ingress:greet", "Ada", "Grace")
    wait_for(lambda: status(daemon, "greet")["counters"]["done"] == 2)
    assert (tmp / "greetings").read_text() == "hello, Ada\nhello, Grace\n"


def test_the_two_commands_come_first():
    first = re.search(r"(?:^    .*\n)+", README, re.M)[0]
    assert [line.split()[:2] for line in first.splitlines()] == [["./bootstrap", "demo"], ["./bootstrap", "check"]]


def test_folders_are_there():
    for name in re.findall(r"\b([a-z]+)/(?=[ ,;:])", re.search(r"^## Folders\n(.*)", README, re.M | re.S)[1]):
        assert (ROOT / name).is_dir() or (ROOT / "common" / name).is_dir(), name
