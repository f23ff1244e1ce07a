"""Containers without a container program: each has its own mounts, processes and network.

Everybody's network leads over one in the middle, where the Redis is:

    net = containers()                              # the fixture; skips the test where namespaces are not permitted
    server = redis_server(tcp=True, inside=net.middle, config=net.redis_config)
    a = net.container()
    d = quredisd(redis={"url": a.redis_url(server)}, inside=a.command(f"mount -t tmpfs none {run}"))
    a.cut(), a.mend()                               # its link goes down and up

The daemon is then PID 1 of its namespace. Files that no mount hides are the same for all, also unix sockets.
"""
import os
import subprocess

from . import reach
from .processes import WITH_US
from .waiting import wait_for

_NEEDED = ("unshare", "nsenter", "ip", "mount")
_PROBE = "mount -t tmpfs none /mnt && ip link add name probe0 type veth peer name probe1"


def namespace_of(pid, kind):
    return os.readlink(f"/proc/{pid}/ns/{kind}")


def unshared(script, *kinds):
    """The beginning of a command that runs script in new namespaces and then becomes the rest of the command."""
    return ["unshare", *kinds, "--", "sh", "-c", f'{script} && exec "$@"', "sh"]


def why_not(probe=_PROBE, kinds=("--mount", "--net", "--pid", "--fork", "--mount-proc")):
    """Why this user of this machine cannot have namespaces of these kinds, and run probe in them; None: it can."""
    try:
        done = subprocess.run(unshared(probe, *kinds) + ["true"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=30)
    except OSError as e:
        return f"{e} (needed: {' '.join(_NEEDED)}; Debian: util-linux, iproute2)"
    return f"namespaces are not permitted here: {done.stdout.strip()}" if done.returncode else None


class _Net:
    """A network namespace, held by a process that sleeps."""

    def __init__(self):
        own = namespace_of("self", "net")
        self._process = subprocess.Popen([*WITH_US, "unshare", "--net", "sleep", "infinity"], stdin=subprocess.DEVNULL)
        self.pid = self._process.pid
        wait_for(lambda: namespace_of(self.pid, "net") != own, 20, "a network namespace")
        self.enter = ["nsenter", f"--net=/proc/{self.pid}/ns/net", "--"]
        self.ip("link", "set", "lo", "up")

    def ip(self, *args):
        subprocess.run([*self.enter, "ip", *map(str, args)], check=True, timeout=30)

    def close(self):
        self._process.kill()
        self._process.wait(20)


class Container:
    """One end of a link to the middle."""

    def __init__(self, middle, number):
        self._middle, self._link, self.net = middle, f"c{number}", _Net()
        self._there, self.address = f"10.77.{number}.1", f"10.77.{number}.2"
        middle.ip("link", "add", "name", self._link, "type", "veth", "peer", "name", "eth0", "netns", self.net.pid)
        for net, link, address in ((middle, self._link, self._there), (self.net, "eth0", self.address)):
            net.ip("address", "add", f"{address}/24", "dev", link)
            net.ip("link", "set", link, "up")

    @property
    def middle_address(self):
        """Of the middle, as seen from here."""
        return self._there

    def redis_url(self, server):
        url = f"redis://{self._there}:{server.port}/0"
        reach.register_address(url, server, self._there)
        return url

    def command(self, script="true"):
        """What a command is to begin with to run in here, after script, which may mount something."""
        return [*self.net.enter, *unshared(script, "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")]

    def cut(self):
        self._middle.ip("link", "set", self._link, "down")

    def mend(self):
        self._middle.ip("link", "set", self._link, "up")


class Containers:
    redis_config = {"bind": "0.0.0.0", "protected-mode": "no"}

    def __init__(self):
        self._middle = _Net()
        self._nets = [self._middle]
        self.middle = self._middle.enter

    def container(self):
        c = Container(self._middle, len(self._nets))
        self._nets.append(c.net)
        return c

    @property
    def pids(self):
        return {n.pid for n in self._nets}

    def close(self):
        for net in self._nets:
            net.close()
