"""The control socket of a daemon."""
import json
import socket


class Control:
    """One connection; used as a context manager."""

    def __init__(self, daemon, timeout=20):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(timeout)
        self.socket.connect(str(daemon.sections["supervisor"]["control_socket"]))
        self._buffer = b""

    def send(self, data):
        self.socket.sendall(data)

    def line(self):
        """The next line, or None at the end."""
        while b"\n" not in self._buffer:
            data = self.socket.recv(65536)
            if not data:
                return None
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line

    def ask(self, command, **arguments):
        self.send(json.dumps({"command": command, **arguments}).encode() + b"\n")
        line = self.line()
        assert line is not None, "the connection was closed"
        return json.loads(line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()


def ask(daemon, command, **arguments):
    with Control(daemon) as c:
        return c.ask(command, **arguments)


def status(daemon, queue=None):
    """The whole document, or one queue of it."""
    document = ask(daemon, "status")
    assert document["ok"], document
    return document if queue is None else next(q for q in document["queues"] if q["name"] == queue)


def by_class(d, queue):
    """How many dead letters of which class the supervisor counted; those of Purged are the rest of purged."""
    n = status(d, queue)["counters"]
    classes = {"HandlerExit": "handler_exit", "HandlerFail": "handler_fail", "HandlerSignal": "handler_signal",
               "HandlerTimeout": "handler_timeout", "Rejected": "rejected",
               "Unrepresentable": "unrepresentable", "UnknownVersion": "unknown_version", "UnknownSeal": "unknown_seal", "TooLarge": "too_large",
               "WorkerLost": "worker_lost",
               "DeadlineExceeded": "deadline_exceeded", "TTLExpired": "expired"}
    found = {c: n[name] for c, name in classes.items() if n[name]} | status(d, queue)["classes"]
    if n["purged"] > n["deadline_exceeded"]:
        found["Purged"] = n["purged"] - n["deadline_exceeded"]
    assert sum(found.values()) == n["escaped"], n
    return found
