"""quredis restart waits for a new handler, and the supervisor falls silent: that is no proof that it ended."""
import json
import socket
import threading

import pytest


def report(**renewal):
    queue = {"name": "mail", "workers": {"wanted": 1}, "renewal": {"generation": 1, **renewal}}
    return {"ok": True, "state": "running", "queues": [queue]}


NOT_YET, READY = report(outdated=1, waits_for="x"), report(outdated=0, ready=True)


class Supervisor:
    """Answers on a control socket as the test says: an order first, then each status. None hangs up."""

    def __init__(self, path):
        self.path = path
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen(0)
        self.waiting = []

    def answer(self, document, meanwhile=lambda: None):
        client = self.listener.accept()[0]
        with client:
            client.recv(1000)
            meanwhile()
            if document is not None:
                client.sendall(json.dumps(document).encode() + b"\n")

    def order(self, limit_ms, meanwhile=lambda: None):
        self.answer({"ok": True, "renewals": [{"queue": "mail", "generation": 1, "limit_ms": limit_ms}]}, meanwhile)

    def fill(self):
        """Lets no client in any more."""
        while True:
            client = socket.socket(socket.AF_UNIX)
            client.setblocking(False)
            self.waiting.append(client)
            try:
                client.connect(str(self.path))
            except BlockingIOError:
                return

    def end(self):
        self.path.unlink()
        self.listener.close()

    def close(self):
        for client in self.waiting:
            client.close()
        self.listener.close()


@pytest.fixture
def supervisor(tmp):
    s = Supervisor(tmp / "silent.sock")
    yield s
    s.close()


def restart(quredis, supervisor, steps):
    threading.Thread(target=steps, daemon=True).start()
    return quredis("--json", "-s", supervisor.path, "restart", "mail")


def test_a_supervisor_that_does_not_answer_has_not_ended(quredis, supervisor):
    r = restart(quredis, supervisor, lambda: supervisor.order(300, supervisor.fill))
    assert r.code == 75 and "the supervisor does not answer" in r.err and "ended" not in r.err, r
    assert "temporarily unavailable" in r.err, r
    assert "does not answer" in json.loads(r.out)["errors"][0]


def test_a_supervisor_that_hangs_up_is_asked_again(quredis, supervisor):
    def steps():
        supervisor.order(60000)
        supervisor.answer(NOT_YET)
        supervisor.answer(None)
        supervisor.answer(READY)
    r = restart(quredis, supervisor, steps)
    assert r.code == 0 and json.loads(r.out)["ok"], r


def test_a_supervisor_that_ended_is_not_waited_for(quredis, supervisor):
    def steps():
        supervisor.order(60000)
        supervisor.answer(NOT_YET, supervisor.end)
    r = restart(quredis, supervisor, steps)
    assert r.code == 75 and "mail: the supervisor ended before the new handler was ready" in r.err, r
