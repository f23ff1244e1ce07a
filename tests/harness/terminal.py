"""quredis, or another program, on a pseudo-terminal."""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

from .paths import QUREDIS
from .waiting import wait_for


class OnTerminal:
    """A program on a pseudo-terminal of its own; stdin, stdout and stderr are that terminal."""

    def __init__(self, command, columns=80, env=None, stdout=None, stdin=None):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        clean = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS")}
        self.process = subprocess.Popen(command, stdin=stdin or slave, stdout=stdout or slave, stderr=slave,
                                        start_new_session=True, env={**clean, "LC_ALL": "C.UTF-8", "TERM": "xterm", **(env or {})},
                                        preexec_fn=lambda: fcntl.ioctl(2, termios.TIOCSCTTY, 0))
        self.name = os.ttyname(slave)
        os.close(slave)
        self.text = ""

    def read(self):
        """What there is within a moment; False at the end."""
        if not select.select([self.master], [], [], 0.05)[0]:
            return True
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        self.text += data.decode(errors="replace")
        return bool(data)

    def expect(self, pattern, timeout=30):
        def seen():
            self.read()
            return re.search(pattern, self.text)
        return wait_for(seen, timeout, f"{pattern!r} in {self.text!r}", interval=0)

    def type(self, text):
        os.write(self.master, text.encode())

    def end(self, timeout=60):
        """The exit status; text is complete then."""
        deadline = time.monotonic() + timeout
        while self.read() and time.monotonic() < deadline:
            pass
        code = self.process.wait(timeout)
        os.close(self.master)
        return code


class Terminal(OnTerminal):
    """quredis on a pseudo-terminal."""

    def __init__(self, url, *args, under=(), **options):
        super().__init__([*under, QUREDIS, "-u", url, *args], **options)
