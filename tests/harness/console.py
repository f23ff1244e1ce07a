"""quredis web under test, and a client that says exactly what it is told."""
import collections
import http.client
import json
import os
import re
import signal
import socket
import subprocess

from . import reach
from .config import render
from .paths import QUREDIS
from .processes import WITH_US
from .waiting import wait_for

Answer = collections.namedtuple("Answer", "code headers body")


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


OURS = object()         # the token of the console, where it is known


class Console:
    """A console on a free port of loopback, or on web.listen = "unix:/path", over the Redis of the test. conf: more sections of the
    configuration. inside: what its command begins with (containers.py). code: what a browser is let in with at the start, or None."""

    def __init__(self, directory, redis, tag="", options=(), inside=(), **conf):
        self.dir = directory
        self.dir.mkdir(parents=True, exist_ok=True)
        self.conf, self.log = self.dir / "quredis.conf", self.dir / "console.log"
        self.conf.write_text(render({"redis": reach.group_of(redis),
                                     "supervisor": {"control_socket": str(self.dir / "c"), "lock_file": str(self.dir / "l")},
                                     **conf}))
        web = conf.get("web", {})
        self.path = web["listen"].removeprefix("unix:") if web.get("listen", "").startswith("unix:") else None
        with open(self.log, "wb") as log:
            self._process = subprocess.Popen([*WITH_US, *inside, str(QUREDIS), "-c", str(self.conf), "web", *(["-p", "0"] if self.path is None else []), *options],
                                             stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, "QUREDIS_TEST_TAG": tag})
        last = r"quredis: (?:http|unix)\S+\n" if "token_file" in web else r"quredis: the token for programs is (\S+)\n"
        wait_for(lambda: self._process.poll() is not None or re.search(last, self.text()), what="the console")
        assert self._process.poll() is None, self.text()
        where = re.search(r"http://(.*):(\d+)/", self.text())
        self.host, self.port = (where[1].strip("[]"), int(where[2])) if where else ("localhost", None)
        self.token = None if "token_file" in web else re.search(last, self.text())[1]

    @property
    def codes(self):
        """Those that were shown so far."""
        return re.findall(r"#code=(\S+)\n", self.text())

    def new_code(self):
        before = len(self.codes)
        os.kill(self.pid, signal.SIGUSR1)
        return wait_for(lambda: self.codes[before:])[0]

    @property
    def auth(self):
        """The header with the token, for who writes a request by hand."""
        return f"Authorization: Bearer {self.token}\r\n".encode()

    def connect(self, timeout=60):
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout) if self.path is None else _UnixConnection(self.path, timeout)

    @property
    def pid(self):
        return self._process.pid

    def text(self):
        return self.log.read_text(errors="replace")

    def ask(self, path, method="GET", token=OURS, timeout=60, body=None, **headers):
        """headers: Sec_Fetch_Site="..." for Sec-Fetch-Site. token: None for none."""
        connection = self.connect(timeout)
        token = self.token if token is OURS else token
        if token and "Authorization" not in headers:
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
        return self.ask(path, "POST", **options)

    def finish(self, path):
        """The whole count of an action: one that takes 10 s stops between two batches, and is asked for again."""
        count, interrupted = 0, True
        while interrupted:
            answer = json.loads(self.post(path).body)
            count, interrupted = count + answer["count"], answer["interrupted"]
        return count

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
        self.connection = console.connect(timeout)
        self.connection.request("GET", "/api/v1/events", headers={"Authorization": f"Bearer {console.token}", **headers})
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
