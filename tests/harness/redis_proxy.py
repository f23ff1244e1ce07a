"""Between the daemon and Redis: what a network does to connections, on demand."""
import collections
import hashlib
import pathlib
import re
import selectors
import socket
import ssl
import threading
import time

from . import reach, resp
from .paths import ROOT

CUT = "cut"


def shared_texts():
    """Script -> the texts of scripts/shared that stand before it, from the table in common/queue/scripts.h."""
    text = (ROOT / "common/queue/scripts.h").read_text()
    return {name: before.lower().split() for name, before in re.findall(r"X\((\w+), ([A-Z_ ]*)\)", text)}


def script_text(name):
    """As Redis gets it: no indentation, and of comment lines only their ends."""
    files = [*(f"shared/{f}" for f in shared_texts()[name]), name]
    text = b"".join((ROOT / f"common/queue/scripts/{f}.lua").read_bytes() for f in files)
    return re.sub(rb"^ *(?:--.*)?", b"", text, flags=re.M)


def script_hash(name):
    return hashlib.sha1(script_text(name)).hexdigest().encode()


SCRIPTS = {script_hash(p.stem): p.stem for p in (ROOT / "common/queue/scripts").glob("*.lua")}


class Tap:
    """Hears every command and every answer, in the proxy's thread, and may do something to its connection."""

    def opened(self, pair):
        pass

    def request(self, pair, words):
        """Before a command is passed on. CUT: it is not, and the connection is closed. A number: nothing passes for so many
        seconds, either way, once Redis has it. None: it passes."""

    def reply(self, pair, words, reply):
        """Before the answer to it is passed on. A number: of so many bytes of it, then the connection is closed."""


class Watch(Tap):
    """Keeps what was said by the connections whose name has `name` in it, and calls back."""

    def __init__(self, name):
        self.name, self.said, self.before, self.after = name.encode(), [], {}, {}

    def request(self, pair, words):
        """before[b"CLIENT UNBLOCK"]() is called once, before that is passed on."""
        if self.name in pair.name:
            self.said.append(b" ".join(words[:2] if words[0] in (b"CLIENT", b"SCRIPT") else words[:1]))
            return self.before.pop(self.said[-1], lambda: None)()
        return None

    def reply(self, pair, words, reply):
        """after[...](answer) when it is answered."""
        if self.name in pair.name:
            key = b" ".join(words[:2] if words[0] in (b"CLIENT", b"SCRIPT") else words[:1])
            self.after.pop(key, lambda _: None)(bytes(reply))

    def count(self, *names):
        return sum(self.said.count(n) for n in names)


class Once(Tap):
    """act() before the first command of this name, or script, that names this key; what it returns is the verdict on it."""

    def __init__(self, what, key, act):
        self.what, self.key, self.act = what, key, act

    def request(self, pair, words):
        name = SCRIPTS.get(words[1]) if words[0] == b"EVALSHA" and len(words) > 1 else words[0].decode()
        if self.act is None or name != self.what or self.key.encode() not in words:
            return None
        act, self.act = self.act, None
        return act()


class Pair:
    """A connection of the daemon, and ours to Redis for it."""

    def __init__(self, client, redis):
        self.client, self.redis = client, redis
        self.name = b""                         # by CLIENT SETNAME
        self.doomed = False                     # the next answer is lost
        self.until = 0.0                        # stalled
        self.slice = 0                          # answers are passed in pieces of so many bytes
        self.requests, self.replies = bytearray(), bytearray()      # with a tap: what is not whole yet
        self.asked = collections.deque()        # with a tap: commands without an answer


class RedisProxy:
    """Listens on a unix socket (url) and forwards to a RedisServer.

    cut(name=b"")      closes every connection now, or those of which the name has this in it
    refuse(True)       and accepts no new ones until refuse(False)
    leave()            nobody listens at its address any more; connections stay
    stall() resume()   forwards nothing, closes nothing: a network that swallows
    stall_after(b)     the same once the next request that contains b is forwarded: Redis does it, and no answer comes
    lose_request(b)    the next request that contains b is not forwarded: its connection is cut
    lose_reply(b)      it is forwarded, and its connection cut when Redis answers, before a byte is passed on
    forward_to(server) cuts all, and forwards to another server from now on
    tap                a Tap sees commands and answers one by one
    tls                a Certificate (harness/tls.py) for 127.0.0.1: clients reach it with TLS, at url, on a port of its own; the server is reached as ever
    tcp                clients reach it on 127.0.0.1:self.port, at url
    counts: .connections opened so far, .lost requests or replies so far
    """

    def __init__(self, directory, server, tap=None, tls=None, tcp=False):
        self.path = str(pathlib.Path(directory) / "p")
        self._tls = None
        self.connections = self.lost = 0
        self.tap = tap
        self._upstream = str(server.socket)
        self._selector = selectors.DefaultSelector()
        self._lock = threading.RLock()
        self._refuse = self._stalled = self._closing = False
        self._lose = []                 # [pattern, "request" | "reply" | "stall"]
        self._pairs = {}                # socket -> Pair
        self._sleeping = set()          # pairs whose time is not up
        self._listener = self._listen_with_tls(tls) if tls else self._listen_on_tcp("redis") if tcp else self._listen()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._wake, self._woken = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _listen(self):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.path)
        pathlib.Path(self.path).chmod(0o777)
        listener.listen(64)
        self.url = f"unix://{self.path}"
        return listener

    def _listen_with_tls(self, certificate):
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(certificate.cert, certificate.key)
        return self._listen_on_tcp("rediss")

    def _listen_on_tcp(self, scheme):
        listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = listener.getsockname()[1]
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        return listener

    def address(self, db=0):
        """url with a database."""
        return f"{self.url}/{db}" if self._tls else f"{self.url}?db={db}"

    def cut(self, name=b""):
        with self._lock:
            for pair in {p for p in self._pairs.values() if name in p.name}:
                self._close(pair)

    def forward_to(self, server):
        with self._lock:
            self._upstream = str(server.socket)
            self.cut()

    def refuse(self, yes=True):
        with self._lock:
            self._refuse = yes

    def leave(self):
        with self._lock:
            self._selector.unregister(self._listener)
            self._listener.close()

    def stall(self):
        with self._lock:
            self._stalled = True

    def stalled(self):
        return self._stalled

    def stall_after(self, pattern):
        with self._lock:
            self._lose.append((pattern, "stall"))

    def asleep(self):
        """A connection is held up by the tap."""
        return bool(self._sleeping)

    def resume(self):
        with self._lock:
            self._stalled = False
        self._wake.send(b"x")

    def lose_request(self, pattern):
        with self._lock:
            self._lose.append((pattern, "request"))

    def lose_reply(self, pattern):
        with self._lock:
            self._lose.append((pattern, "reply"))

    def close(self):
        self._closing = True
        self._wake.send(b"x")
        self._thread.join(10)
        self.cut()
        for s in (self._listener, self._wake, self._woken):
            s.close()

    # ---- the thread ----

    def _run(self):
        while not self._closing:
            for key, _ in self._selector.select(0.05 if self._stalled or self._sleeping else None):
                with self._lock:
                    if key.fileobj is self._woken:
                        self._woken.recv(64)
                    elif key.fileobj is self._listener:
                        self._accept()
                    elif not self._stalled and self._pairs.get(key.fileobj, self) not in {self, *self._sleeping}:
                        self._forward(key.fileobj)
            with self._lock:
                self._wake_sleepers()
            if self._stalled and not self._closing:
                threading.Event().wait(0.02)

    def _accept(self):
        client, _ = self._listener.accept()
        redis = socket.socket(socket.AF_UNIX)
        try:
            if self._refuse:
                raise ConnectionRefusedError
            redis.connect(self._upstream)
        except OSError:
            client.close()
            redis.close()
            return
        self.connections += 1
        for s in (client, redis):
            s.settimeout(10)
        if self._tls and (client := self._shake_hands(client)) is None:
            redis.close()
            return
        pair = Pair(client, redis)
        for s in (client, redis):
            self._pairs[s] = pair
            self._selector.register(s, selectors.EVENT_READ)
        if self.tap:
            self.tap.opened(pair)

    def _shake_hands(self, client):
        """The encrypted socket; None: the client went away."""
        try:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return self._tls.wrap_socket(client, server_side=True)
        except OSError:
            client.close()
            return None

    def _receive(self, s):
        """Everything that has come: what the TLS of a socket holds, select() does not see."""
        data = s.recv(1 << 20)
        while data and isinstance(s, ssl.SSLSocket) and s.pending():
            data += s.recv(s.pending())
        return data

    def _sleep(self, pair, seconds):
        pair.until = time.monotonic() + seconds
        self._sleeping.add(pair)
        for s in (pair.client, pair.redis):
            self._selector.unregister(s)

    def _wake_sleepers(self):
        for pair in [p for p in self._sleeping if p.until <= time.monotonic()]:
            self._sleeping.discard(pair)
            for s in (pair.client, pair.redis):
                self._selector.register(s, selectors.EVENT_READ)
            try:
                self._tapped_requests(pair, b"")        # what came after the one that put it to sleep
            except OSError:
                self._close(pair)

    def _forward(self, s):
        pair = self._pairs[s]
        try:
            data = self._receive(s)
            if not data:
                self._close(pair)
            elif s is pair.client and self._passes(pair, data):
                self._tapped_requests(pair, data) if self.tap else pair.redis.sendall(data)
            elif s is pair.redis and pair.doomed:
                self._lose_now(pair)
            elif s is pair.redis:
                self._tapped_replies(pair, data) if self.tap else pair.client.sendall(data)
        except OSError:
            if s in self._pairs:
                self._close(pair)

    def _lose_now(self, pair):
        self.lost += 1
        self._close(pair)

    def _passes(self, pair, data):
        for rule in self._lose:
            if rule[0] not in data:
                continue
            self._lose.remove(rule)
            if rule[1] == "request":
                self._lose_now(pair)
                return False
            if rule[1] == "stall":
                self._stalled = True
            pair.doomed = rule[1] == "reply"
            return True
        return True

    def _tapped_requests(self, pair, data):
        pair.requests += data
        passed, verdict = 0, None
        while verdict is None and (end := resp.end_of(pair.requests, passed)) is not None:
            words = reach.seen_words(resp.words(pair.requests[passed:end]))
            if words[:2] == [b"CLIENT", b"SETNAME"]:
                pair.name = words[2]
            verdict = self.tap.request(pair, words)
            if verdict != CUT:
                pair.asked.append(words)
                passed = end
        pair.redis.sendall(pair.requests[:passed])
        del pair.requests[:passed]
        if verdict == CUT:
            self._lose_now(pair)
        elif verdict is not None:
            self._sleep(pair, verdict)

    def _tapped_replies(self, pair, data):
        pair.replies += data
        passed, limit = 0, None
        while limit is None and pair.asked and (end := resp.end_of(pair.replies, passed)) is not None:
            limit = self.tap.reply(pair, pair.asked.popleft(), pair.replies[passed:end])
            passed = end if limit is None else passed + limit
        self._pass_on(pair, pair.replies[:passed])
        del pair.replies[:passed]
        if limit is not None:
            self._lose_now(pair)

    def _pass_on(self, pair, data):
        step = pair.slice or len(data) or 1
        for at in range(0, len(data), step):
            pair.client.sendall(data[at:at + step])
            if pair.slice:
                time.sleep(0.0003)                  # so that it is not read together with the next piece

    def _close(self, pair):
        asleep = pair in self._sleeping
        self._sleeping.discard(pair)
        for s in (pair.client, pair.redis):
            if not asleep:
                self._selector.unregister(s)
            del self._pairs[s]
            s.close()
