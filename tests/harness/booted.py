"""A Debian in which systemd is the first process, by systemd-nspawn. Needs root."""
import os
import subprocess
import uuid

from .processes import WITH_US, children_of
from .waiting import wait_for

NSPAWN = ["systemd-nspawn", "-q", "-b", "--register=no", "--keep-unit", "--private-network", "--console=pipe"]


class Booted:
    """command begins with what its processes shall be in, and has NSPAWN and the root; log is a file for its console."""

    def __init__(self, log, command):
        self.log = log
        i = command.index(NSPAWN[-1]) + 1
        command = [*command[:i], f"--machine=q{uuid.uuid4().hex[:12]}", *command[i:]]
        with open(log, "wb") as out:
            self.process = subprocess.Popen([*WITH_US, *command], stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def leader(self):
        """Its first process, once there is one."""
        return next(iter(children_of(self.process.pid)), None)

    def wait_booted(self, unavailable):
        """Calls unavailable with the reason, if systemd-nspawn ends."""
        def booted():
            if self.process.poll() is not None:
                unavailable("systemd-nspawn cannot boot here: " + self.log.read_text(errors="replace")[-500:])
            return self.leader() and self.run("systemctl", "is-system-running", check=False).stdout.strip() in ("running", "degraded")
        wait_for(booted, 60, "the container to boot")

    def inside(self, *command):
        """A command that runs another one in it."""
        return ["nsenter", "-t", str(self.leader()), "-a", *command]

    def run(self, *command, check=True, stdin=None, timeout=100):
        done = subprocess.run(self.inside(*command), input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=timeout)
        assert done.returncode == 0 or not check, (command, done)
        return done

    def write(self, path, text, mode="644"):
        self.run("sh", "-c", f"mkdir -p {os.path.dirname(path)} && cat >{path}.new && chmod {mode} {path}.new && mv {path}.new {path}", stdin=text)

    def close(self):
        self.process.terminate()                # to systemd-nspawn: an orderly power off
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
