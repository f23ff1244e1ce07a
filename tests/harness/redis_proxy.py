"""Between the daemon and Redis: what a network does to connections, on demand."""
import pathlib
import selectors
import socket
import threading


class RedisProxy:
    """Listens on a unix socket (url) and forwards to a RedisServer.

    cut()              closes every connection now
    refuse(True)       and accepts no new ones until refuse(False)
    stall() resume()   forwards nothing, closes nothing: a network that swallows
    stall_after(b)     the same once the next request that contains b is forwarded: Redis does it, and no answer comes
    lose_request(b)    the next request that contains b is not forwarded: its connection is cut
    lose_reply(b)      it is forwarded, and its connection cut when Redis answers, before a byte is passed on
    counts: .connections opened so far, .lost requests or replies so far
    """

    def __init__(self, directory, server):
        self.path = str(pathlib.Path(directory) / "p")
        self.url = f"unix://{self.path}"
        self.connections = self.lost = 0
        self._upstream = str(server.socket)
        self._selector = selectors.DefaultSelector()
        self._lock = threading.Lock()
        self._refuse = self._stalled = self._closing = False
        self._lose = []                 # [pattern, "request" | "reply" | "stall"]
        self._pairs = {}                # socket -> (peer, from the client?)
        self._doomed = set()            # sockets of Redis whose next answer is lost
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        pathlib.Path(self.path).chmod(0o777)
        self._listener.listen(64)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._wake, self._woken = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def cut(self):
        with self._lock:
            while self._pairs:
                self._close(next(iter(self._pairs)))

    def refuse(self, yes=True):
        with self._lock:
            self._refuse = yes

    def stall(self):
        with self._lock:
            self._stalled = True

    def stalled(self):
        return self._stalled

    def stall_after(self, pattern):
        with self._lock:
            self._lose.append((pattern, "stall"))

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
            for key, _ in self._selector.select(0.05 if self._stalled else None):
                with self._lock:
                    if key.fileobj is self._woken:
                        self._woken.recv(64)
                    elif key.fileobj is self._listener:
                        self._accept()
                    elif not self._stalled and key.fileobj in self._pairs:
                        self._forward(key.fileobj)
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
        for s, peer, from_client in ((client, redis, True), (redis, client, False)):
            s.settimeout(10)
            self._pairs[s] = (peer, from_client)
            self._selector.register(s, selectors.EVENT_READ)

    def _forward(self, s):
        peer, from_client = self._pairs[s]
        try:
            data = s.recv(1 << 20)
            if not data:
                self._close(s)
            elif self._passes(s, peer, from_client, data):
                peer.sendall(data)
        except OSError:
            self._close(s)

    def _passes(self, s, peer, from_client, data):
        if not from_client:
            if s not in self._doomed:
                return True
            self.lost += 1
            self._close(s)
            return False
        for rule in self._lose:
            if rule[0] in data:
                self._lose.remove(rule)
                if rule[1] == "stall":
                    self._stalled = True
                    return True
                if rule[1] == "reply":
                    self._doomed.add(peer)
                    return True
                self.lost += 1
                self._close(s)
                return False
        return True

    def _close(self, s):
        for one in (s, self._pairs[s][0]):
            self._selector.unregister(one)
            self._doomed.discard(one)
            del self._pairs[one]
            one.close()
