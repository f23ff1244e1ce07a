"""quredis web under test, and a client that says exactly what it is told."""
import collections
import http.client
import json
import os
import re
import signal
import socket
import subprocess

from .config import render
from .paths import QUREDIS
from .processes import WITH_US
from .waiting import wait_for

Answer = collections.namedtuple("Answer", "code headers body")


class Console:
    """A console on a free port of loopback, over the Redis of the test. conf: more sections of the configuration.
    inside: what its command begins with (containers.py)."""

    def __init__(self, directory, redis, tag="", options=(), inside=(), **conf):
        self.dir = directory
        self.dir.mkdir(parents=True, exist_ok=True)
        self.conf, self.log = self.dir / "quredis.conf", self.dir / "console.log"
        self.conf.write_text(render({"redis": {"url": redis.url}, "supervisor": {"control_socket": str(self.dir / "c"), "lock_file": str(self.dir / "l")},
                                     **conf}))
        with open(self.log, "wb") as log:
            self._process = subprocess.Popen([*WITH_US, *inside, str(QUREDIS), "-c", str(self.conf), "web", "-p", "0", *options], stdin=subprocess.DEVNULL,
                                             stdout=log, stderr=log, env={**os.environ, "QUREDIS_TEST_TAG": tag})
        where = wait_for(lambda: self._process.poll() is not None or re.search(r"http://([^/]*):(\d+)/(?:#token=(\S+))?\n", self.text()), what="the console")
        assert where is not True, self.text()
        self.host, self.port, self.token = where[1].strip("[]"), int(where[2]), where[3]

    @property
    def pid(self):
        return self._process.pid

    def text(self):
        return self.log.read_text(errors="replace")

    def ask(self, path, method="GET", token=None, timeout=60, body=None, **headers):
        """headers: Sec_Fetch_Site="..." for Sec-Fetch-Site."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        if token:
            headers["Authorization"] = f"Bearer {token}"
        try:
            connection.request(method, path, body=body, headers={k.replace("_", "-"): v for k, v in headers.items()})
            r = connection.getresponse()
            return Answer(r.status, {k.lower(): v for k, v in r.getheaders()}, r.read())
        finally:
            connection.close()

    def get(self, path, **options):
        """The document; the answer has to be 200."""
        a = self.ask(path, **options)
        assert a.code == 200, a
        return json.loads(a.body)

    def post(self, path, **options):
        return self.ask(path, "POST", self.token, **options)

    def raw(self, data, timeout=60):
        """All that comes back on a connection over which data is sent."""
        with socket.create_connection((self.host, self.port), timeout=timeout) as s:
            answer = b""
            try:
                s.sendall(data)
                s.shutdown(socket.SHUT_WR)
            except OSError:
                pass            # it has said all it will say
            try:
                while chunk := s.recv(65536):
                    answer += chunk
            except ConnectionResetError:
                pass
            return answer

    def stop(self, sig=signal.SIGTERM):
        """Its exit status."""
        if self._process.poll() is None:
            self._process.send_signal(sig)
        return self._process.wait(30)

    def close(self):
        code = self.stop()
        text = self.text()
        assert "Sanitizer" not in text and "runtime error:" not in text, text
        assert code == 0, (code, text)


class Stream:
    """Server-sent events of a console, as they come."""

    def __init__(self, console, timeout=60, **headers):
        self.connection = http.client.HTTPConnection(console.host, console.port, timeout=timeout)
        self.connection.request("GET", "/api/v1/events", headers=headers)
        self.answer = self.connection.getresponse()

    def next(self):
        """(event, document); comments and the rest are skipped."""
        event = None
        while True:
            line = self.answer.readline().decode().rstrip("\n")
            if line.startswith("event: "):
                event = line[7:]
            elif line.startswith("data: "):
                return event, json.loads(line[6:])

    def until(self, condition):
        while True:
            event, document = self.next()
            if condition(event, document):
                return document

    def close(self):
        self.connection.close()
