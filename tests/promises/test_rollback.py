"""Redis returns to an earlier state: a restart from an older copy, a promotion, a reload that no connection notices.
Whatever lies in the state to which it returned is done, or escapes, and nothing of it is deleted on the word of a process
that remembers later times."""
import os
import signal
import threading

import pytest

from harness import Tap, queue, wait_for
from harness.messages import anywhere, stray_keys, trays, unwrap
from harness.redis_proxy import SCRIPTS

# A message whose name begins with "early" fails, until it is told that it may have run before; one that begins with "gate"
# ends when its file is there.
EXEC = """
read -r m
echo "start $m $QUREDIS_REDELIVERED" >>@LEDGER@
case $m in early*) [ $QUREDIS_REDELIVERED = 1 ] || exit 1;; gate*) until [ -e @TMP@/$m ]; do sleep 0.01; done;; esac
echo "end $m" >>@LEDGER@
"""
STAYS = """
while read -r _ serial attempt size keys; do
	read -r m
	again=0 answer=OK
	case " $keys " in *" redelivered=1 "*) again=1 ;; esac
	echo "start $m $again" >>@LEDGER@
	case $m in early*) [ $again = 1 ] || answer=FAIL;; gate*) until [ -e @TMP@/$m ]; do sleep 0.01; done;; esac
	[ $answer = FAIL ] || echo "end $m" >>@LEDGER@
	echo "$answer $serial"
done
"""
MODES = {"exec": (EXEC, {}), "persistent": (STAYS, {"mode": "persistent"})}
MOVES = {
    "retry": {"max_attempts": 3, "backoff": {"base": "1h", "cap": "1h"}},
    "escape": {"max_attempts": 1},
    "hand_back": {},
}
FAR = {"lease": "240s"}         # nothing renews it meanwhile


class Before(Tap):
    """act() before Redis is asked for the move `script` of a message that begins with `start`; tray: where it lay."""

    def __init__(self, script, start, act):
        self.script, self.start, self.act, self.tray = script, start, act, None

    def request(self, pair, words):
        if self.tray is None and words[0] == b"EVALSHA" and SCRIPTS.get(words[1]) == self.script and \
                any(unwrap(w)[1].startswith(self.start) for w in words):
            self.tray = next(w for w in words if w.startswith(b"transit:") and b":lease:" not in w).decode()
            self.act()


class Fetches(Tap):
    """tray: into which the last blocking fetch was sent."""
    tray = None

    def request(self, pair, words):
        if words[0] == b"BRPOPLPUSH":
            self.tray = words[2].decode()


class Scene:
    """A message "early" was moved out of its tray, after a copy of Redis was made, and now "gateN" runs in that very tray."""

    def __init__(self, mode, move, server, act, start, more=None):
        self.c, self.server = server.client(), server
        self.tap = Before(move, b"early", act)
        body, keys = MODES[mode]
        self.d, self.ledger, self.tmp = start(self.tap, body, {"workers": 1, "batch": {"max": 1}, **keys, **MOVES[move], **(more or {})})
        self.workers = self.d.wait_workers("mail", 1)
        self.d.wait_event("queue_recovered", queue="mail")
        if move == "hand_back":
            self._handed_back()
        else:
            self.c.lpush("ingress:mail", "early")
            wait_for(lambda: self.c.zcard("quredis:of:ingress:mail:delayed") + self.c.llen("escape:mail"), 30, "the move")
        self._gate()

    def _handed_back(self):
        """A message arrives when the queue is paused, is handed back, and then another client takes it."""
        wait_for(lambda: any(x[b"cmd"] in (b"brpoplpush",) for x in _clients(self.c)), 30, "a waiting worker")
        with self.c.pipeline() as p:
            p.set("quredis:of:ingress:mail:paused", "a test").lpush("ingress:mail", "early").execute()
        wait_for(lambda: self.tap.tray and self.c.llen("ingress:mail"), 30, "the hand-back")
        self.c.rename("ingress:mail", "aside")
        self.c.delete("quredis:of:ingress:mail:paused")

    def _gate(self):
        for i in range(6):
            self.gate = f"gate{i}"
            self.c.lpush("ingress:mail", self.gate)
            wait_for(lambda: self.ledger.count(f"start {self.gate} 0"), 30, "a gate")
            if trays(self.c, "mail").get(self.tap.tray):
                return
            self.open_gate()
        raise AssertionError(f"nothing was fetched into {self.tap.tray} again")

    def open_gate(self):
        (self.tmp / self.gate).touch()
        wait_for(lambda: self.ledger.count(f"end {self.gate}"))

    def early_is_done(self, client=None):
        c = client or self.c
        c.delete("quredis:of:ingress:mail:paused")         # as it was then
        wait_for(lambda: self.ledger.count("end early"), 60, "it to be run again")
        assert self.ledger.count("start early 1") == 1
        wait_for(lambda: not anywhere(c, "mail"), 60, "everything done")
        assert not c.exists("escape:mail", "escape:mail:log") and self.d.workers("mail") == self.workers
        assert stray_keys(c, "mail") in ([], ["aside"])


def _clients(c):
    return [{k.encode(): v.encode() for k, v in x.items()} for x in c.client_list()]


@pytest.fixture
def start(redis_proxy, quredisd, handler, ledger, tmp):
    def begin(server, supervisor=None):
        def with_tap(tap, body, keys):
            proxy = redis_proxy(server, tap)
            begin.proxy = proxy
            return quredisd(redis=proxy, queues=[queue("mail", handler(body), **keys)], supervisor=supervisor or {}), ledger, tmp
        return with_tap
    return begin


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("move", MOVES)
def test_an_older_copy(redis_server, start, mode, move):
    """Redis is killed, and starts with what it held before the move. The worker has an acknowledgement of that tray to send."""
    server = redis_server()
    copies = []
    scene = Scene(mode, move, server, lambda: copies.append(server.keep()), start(server))
    server.kill9()
    scene.open_gate()
    server.go_back(copies[0])
    scene.early_is_done()
    assert scene.d.wait_event("messages_reappeared", queue="mail")["messages"] == "1"


@pytest.mark.parametrize("mode", MODES)
def test_what_was_done_comes_back_into_the_tray_of_a_fetch(redis_server, start, mode):
    """The worker waits for a message of that very tray when Redis is killed. What lies there then was not just fetched: it ran."""
    server = redis_server()
    c, body = server.client(), MODES[mode]
    tap = Fetches()
    d, ledger, tmp = start(server)(tap, body[0], {"workers": 1, "batch": {"max": 1}, **body[1]})
    d.wait_workers("mail", 1)
    c.lpush("ingress:mail", "gate")
    wait_for(lambda: ledger.count("start gate 0"), 30)
    tray, = trays(c, "mail")
    copy = server.keep()
    (tmp / "gate").touch()
    wait_for(lambda: tap.tray == tray and not trays(c, "mail"), 30, "a fetch into the same tray")
    server.kill9()
    server.go_back(copy)
    wait_for(lambda: ledger.count("end gate") == 2, 60, "it to be run again")
    assert ledger.count("start gate 1") == 1


@pytest.mark.parametrize("keys, reason", [({}, "a message of ours was no longer there"),
                                          ({"done": {"keep": 10}}, "Redis counted other moves out of a tray")], ids=["value", "script"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("move", MOVES)
def test_no_connection_notices(redis_server, start, mode, move, keys, reason):
    """The same while every connection lives. The acknowledgement removes the message by its value, or, where history is kept, by a
    script for the whole tray: either takes nothing."""
    server = redis_server(config={"enable-debug-command": "yes"})
    copies = []
    scene = Scene(mode, move, server, lambda: copies.append(server.keep()), start(server, FAR), keys)
    server.go_back_unnoticed(copies[0])
    assert trays(scene.c, "mail") == {scene.tap.tray: [b"early"]}
    scene.open_gate()
    scene.d.wait_event("incarnation_renewed", 30, reason=reason)
    scene.early_is_done()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("move", MOVES)
def test_an_idle_worker_notices(redis_server, start, mode, move):
    """No message is acknowledged: the worker notices at the next renewal of its lease."""
    server = redis_server(config={"enable-debug-command": "yes"})
    copies = []
    scene = Scene(mode, move, server, lambda: copies.append(server.keep()), start(server, {"lease": "4s"}))
    scene.open_gate()
    wait_for(lambda: not scene.c.llen("ingress:mail") and not trays(scene.c, "mail"), 20)
    server.go_back_unnoticed(copies[0])
    scene.early_is_done()


@pytest.mark.parametrize("noticed", [True, False], ids=["restart", "unnoticed"])
@pytest.mark.parametrize("end", ["killed", "left"])
def test_the_message_of_a_worker_that_is_gone_comes_back_soon(redis_server, quredisd, handler, ledger, tmp, end, noticed):
    """Redis returns to a state in which a worker has a message that died since, or finished it and left. The master remembers that
    nothing of that worker lives, so nobody waits for its lease, or for the patience that a worker of a living master is given."""
    server = redis_server(config={"enable-debug-command": "yes"})
    c = server.client()
    d = quredisd(redis=server, queues=[queue("mail", handler(EXEC), workers=1)], supervisor={"lease": "4s"})
    worker = d.wait_workers("mail", 1)["mail/0"]
    c.lpush("ingress:mail", "gate")
    wait_for(lambda: ledger.count("start gate 0"), 30)
    copy = server.keep()
    if end == "killed":
        os.kill(worker, signal.SIGKILL)
        d.wait_event("death_confirmed", queue="mail")
    else:
        assert d.quredis("restart", "mail").code == 0
    (tmp / "gate").touch()
    wait_for(lambda: ledger.count("end gate") == 1 and not anywhere(c, "mail"), 60)
    if end == "left":
        d.wait_event("worker_exited", child=worker)
    if noticed:
        server.kill9()
        server.go_back(copy)
    else:
        server.go_back_unnoticed(copy)
    wait_for(lambda: ledger.count("end gate") == 2, 60, "it to be run again")
    assert ledger.count("start gate 1") == (2 if end == "killed" else 1)
    wait_for(lambda: not anywhere(server.client(), "mail"))
    assert not d.events("owner_lost")


def master_and_replica(redis_server):
    """The third is a function that promotes the replica as soon as it has everything: from then on their histories differ."""
    master = redis_server(tcp=True, config={"repl-diskless-sync-delay": "0"})
    replica = redis_server(tcp=True, config={"repl-diskless-sync-delay": "0"}).follow(master)

    def fork():
        master.wait_replicated()
        replica.promote()
    return master, replica, fork


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("move", MOVES)
def test_a_replica_is_promoted(redis_server, start, mode, move):
    """The worker stays on the old master for a while; what it did there is undone."""
    master, replica, fork = master_and_replica(redis_server)
    scene = Scene(mode, move, master, fork, start(master))
    start.proxy.forward_to(replica)
    master.follow(replica)
    scene.open_gate()
    scene.early_is_done(replica.client())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("move", MOVES)
def test_demoted_and_promoted_again(redis_server, start, mode, move):
    """While the worker's connection was idle, its server has followed another one that knew less."""
    master, replica, fork = master_and_replica(redis_server)
    scene = Scene(mode, move, master, fork, start(master, FAR))
    master.follow(replica)
    master.promote()
    assert trays(scene.c, "mail") == {scene.tap.tray: [b"early"]}
    assert not scene.d.events("redis_error", worker="mail/0")
    scene.open_gate()
    scene.early_is_done()


def twin(name):
    """Those with names of one length differ only in their middle: place, length and ends do not tell them apart."""
    return b"x" * 2048 + name + b"x" * 3000


class Together(Before):
    """Lays two messages into one tray: once the worker asks for two, they are all that ingress holds."""

    def __init__(self, client, script, start, act):
        super().__init__(script, start, act)
        self.client, self.lock, self.messages = client, threading.Lock(), None

    def request(self, pair, words):
        with self.lock:
            if self.messages and words[0] == b"RPOPLPUSH" and self.tray in (None, words[2].decode()) and pair.requests.count(words[2]) > 1:
                with self.client.pipeline() as p:
                    p.delete("ingress:mail").rpush("ingress:mail", *self.messages).execute()
                self.messages = None
        super().request(pair, words)

    def lay(self, *messages):
        """Puts messages there, the last one first. A worker that is busy with others asks for two at the end, in any tray."""
        def keep_busy():
            with self.lock:
                if self.messages and self.client.llen("ingress:mail") < 20:
                    self.client.lpush("ingress:mail", *["quick"] * 40)
                return not self.messages
        self.messages = messages
        wait_for(keep_busy, 60, "two to be asked for at once")


def test_large_twins_lie_in_their_places(redis_server, redis_proxy, quredisd, handler, ledger, tmp):
    """Two large messages lie in one tray, and one leaves it alive. Redis returns there while a twin of it runs from the same place
    of the same tray. The twin is acknowledged alone, because its neighbour takes long."""
    server = redis_server(config={"enable-debug-command": "yes"})
    c, copies, there = server.client(), [], []

    def keep():
        there[:] = trays(c, "mail")[tap.tray]
        copies.append(server.keep())
    tap = Together(c, "retry", twin(b"early")[:1024], keep)
    body = """
read -r m
case $m in *early*) name=early;; *later*) name=later;; *slow*) name=slow;; *) name=quick;; esac
[ $name = quick ] || echo "start $name $QUREDIS_REDELIVERED" >>@LEDGER@
case $name in
later|slow) until [ -e @TMP@/$name ]; do sleep 0.01; done;;
early) [ $QUREDIS_REDELIVERED = 1 ] || exit 1;;
esac
echo "end $name" >>@LEDGER@
"""
    d = quredisd(redis=redis_proxy(server, tap), supervisor=FAR,
                 queues=[queue("mail", handler(body), workers=1, batch={"max": 2, "time": "5s"}, max_attempts=3,
                               backoff={"base": "1h", "cap": "1h"})])
    d.wait_workers("mail", 1)
    d.wait_event("queue_recovered", queue="mail")

    tap.lay(twin(b"beside"), twin(b"early"))
    wait_for(lambda: c.zcard("quredis:of:ingress:mail:delayed") == 1 and len(anywhere(c, "mail")) == 1, 30, "the retry")
    assert there == [twin(b"beside"), twin(b"early")]
    both = [twin(b"slow"), twin(b"later")]
    tap.lay(*both)
    wait_for(lambda: ledger.count("start later 0") == 1, 30, "the twin")
    wait_for(lambda: trays(c, "mail") == {tap.tray: both}, 30, "the others to be acknowledged")
    server.go_back_unnoticed(copies[0])
    assert trays(c, "mail") == {tap.tray: there}
    (tmp / "later").touch()
    wait_for(lambda: ledger.count("start slow 0") == 1, 30, "its neighbour")
    d.wait_event("claim_lost", queue="mail")
    (tmp / "slow").touch()
    wait_for(lambda: ledger.count("end early"), 60, "it to be run again")
    wait_for(lambda: not trays(c, "mail"), 60, "everything done")
    assert not c.exists("escape:mail", "escape:mail:log")
