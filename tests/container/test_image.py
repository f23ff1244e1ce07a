"""The root of Containerfile's last stage: read-only, as a user without rights, quredisd as the first process."""
import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from harness import QUREDIS, QUREDISD, alive, descendants_of, render, wait_for
from harness.image import FILE, owners, stages

# A volume of a container program begins with what the image has there.
VOLUME = "mount -t tmpfs -o mode=755,uid=65534,gid=65534 none \"$at\""
# Each run waits for a file, and leaves a process that does the same.
HANDLER = """
read -r m
cd /run/quredis
setsid -f sh -c "echo orphan >>ran; until [ -e go.orphan ]; do sleep 0.05; done"
echo "start $m" >>ran
until [ -e go.$m ]; do sleep 0.05; done
echo "end $m" >>ran
"""


def of_host(path, tmp):
    return f"mount --bind {tmp / path} \"$at\" && mount -o remount,bind,ro \"$at\""


@pytest.fixture
def supervisor(containers, redis_server, started, tmp):
    """A container with a configuration of its own; its Redis is c.redis."""
    net = containers.container()
    server = redis_server(tcp=True, inside=containers.middle, config=containers.redis_config)
    (tmp / "conf").mkdir()
    (tmp / "conf/quredis.conf").write_text(render({
        "redis": {"url": net.redis_url(server)}, "supervisor": {"drain_timeout": "60s"},
        "queues": [{"name": "mail", "handler": ["/bin/sh", "-c", HANDLER], "kill_grace": "1s", "timeout": "50s"}]}))
    c = started(inside=net.net.enter, mounts=[("/run/quredis", VOLUME), ("/etc/quredis", of_host("conf", tmp))])
    c.redis = server.client()
    c.ran = lambda: (c.root / "run/quredis/ran").read_text().splitlines() if (c.root / "run/quredis/ran").exists() else []
    wait_for(lambda: "event=ready" in c.text() or c.ended(), what=c.text)
    assert not c.ended(), c.text()
    return c


def is_orphan(command):
    return b"go.orphan" in command and b"go.$m" not in command


def linked():
    """Names of the libraries that both programs need."""
    text = subprocess.check_output(["readelf", "-d", QUREDISD, QUREDIS], text=True)
    return set(re.findall(r"\(NEEDED\).*\[(\S+)\]", text))


def test_last_stage_installs_what_is_linked_and_nothing_else(image):
    where = dict(re.findall(r"(\S+) => (\S+) \(", subprocess.check_output(["ldd", QUREDISD, QUREDIS], text=True)))
    (_, last) = stages(FILE.read_text())
    assert sorted(last.packages()) == sorted(owners(where[name] for name in linked()) - {"libc6"})
    assert image.last.packages() == last.packages()


def test_first_process_is_quredisd_without_any_right(supervisor):
    status = dict(re.findall(r"^(\w+):\s*(.*)$", (supervisor.root.parent / "status").read_text(), re.M))
    assert (status["Name"], status["NSpid"].split()[-1]) == ("quredisd", "1")
    assert set((status["Uid"] + "\t" + status["Gid"] + "\t" + status["Groups"]).split()) == {"65534"}
    assert int(status["CapPrm"], 16) == int(status["CapEff"], 16) == 0 and status["NoNewPrivs"] == "1"


def test_nothing_but_run_quredis_can_be_written(supervisor):
    found = supervisor.run("find", "/", "-path", "/proc", "-prune", "-o", "-path", "/dev", "-prune", "-o", "-writable", "!", "-type", "l", "-print")
    written = [path for path in found.stdout.splitlines() if not path.startswith("/run/quredis/")]
    assert written == ["/run/quredis"], found
    assert supervisor.run("touch", "/etc/quredis/x").returncode == 1 and supervisor.run("touch", "/run/quredis/x").returncode == 0


def test_messages_are_done_orphans_reaped_and_a_stop_waits_for_the_handler(supervisor):
    c, redis = supervisor, supervisor.redis
    assert "level=warning" not in c.text() and "level=error" not in c.text(), c.text()
    redis.lpush("ingress:mail", "first")
    wait_for(lambda: "start first" in c.ran() and "orphan" in c.ran())
    orphan = next(p for p in descendants_of(c.pid) if is_orphan(Path(f"/proc/{p}/cmdline").read_bytes()))
    (c.root / "run/quredis/go.orphan").touch()
    (c.root / "run/quredis/go.first").touch()
    wait_for(lambda: not os.path.exists(f"/proc/{orphan}"), what="the orphan to be reaped")
    wait_for(lambda: "end first" in c.ran() and not redis.exists("ingress:mail", "escape:mail"))
    assert c.run("quredis", "status").returncode == 0

    redis.lpush("ingress:mail", "second")
    wait_for(lambda: "start second" in c.ran())
    c.signal(getattr(signal, c.image.last.one("STOPSIGNAL")))
    wait_for(lambda: json.loads(c.run("quredis", "status", "--json").stdout)["state"] == "draining")
    redis.lpush("ingress:mail", "third")
    assert alive(c.pid) and "end second" not in c.ran()
    ran = os.open(c.root / "run/quredis/ran", os.O_RDONLY)         # the mount ends with its last process
    (c.root / "run/quredis/go.second").touch()
    assert c.wait_exit() == 0, c.text()
    with open(ran) as file:
        lines = file.read().splitlines()
    assert [line for line in lines if line != "orphan"] == ["start first", "end first", "start second", "end second"]
    assert redis.lrange("ingress:mail", 0, -1) == [b"third"] and not redis.exists("escape:mail")


def test_without_a_configuration_it_waits_for_one_and_says_so(containers, started):
    c = started(inside=containers.container().net.enter, mounts=[("/run/quredis", VOLUME)])
    wait_for(lambda: "event=ready" in c.text() or c.ended(), what=c.text)
    assert "no queue is defined: nothing will run" in c.text() and not c.ended()
    c.signal(signal.SIGTERM)
    assert c.wait_exit() == 0
