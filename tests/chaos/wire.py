"""The way to Redis. Each direction of each connection has a thread: who does not read holds up nobody else.

harness.RedisProxy is exact about which byte is lost, and single-threaded; this one is neither.
"""
import pathlib
import threading

from harness.unix_front import UnixFront, end


class Wire(UnixFront):
    """Listens on a unix socket (url), and forwards to a RedisServer."""

    def __init__(self, directory, server):
        self._lock = threading.Lock()
        self._pairs = set()
        self._lose = {}                         # "request" or "reply" -> the pattern that is waited for
        self._flows = threading.Event()
        self._flows.set()
        super().__init__(pathlib.Path(directory) / "w", server)

    def cut(self):
        for pair in list(self._pairs):
            self._close(pair)

    def stall(self):
        self._flows.clear()

    def resume(self):
        self._flows.set()

    def lose(self, what, pattern):
        """The next request that has the pattern in it is not passed on ("request"), or not answered ("reply"), and its
        connection ends."""
        self._lose[what] = pattern

    def close(self):
        super().close()
        self.resume()
        self.cut()

    # ---- threads ----

    def serve(self, client, redis):
        pair = (client, redis)
        doomed = threading.Event()              # its next answer is lost
        self._pairs.add(pair)
        for flow in (self._requests, self._replies):
            threading.Thread(target=flow, args=(pair, doomed), daemon=True).start()

    def _requests(self, pair, doomed):
        self._forward(pair, *pair, lambda data: self._request_passes(data, doomed))

    def _replies(self, pair, doomed):
        self._forward(pair, *reversed(pair), lambda data: not doomed.is_set())

    def _forward(self, pair, source, sink, passes):
        try:
            while (data := source.recv(1 << 18)):
                self._flows.wait()
                if not passes(data):
                    break
                sink.sendall(data)
        except OSError:
            pass
        self._close(pair)

    def _request_passes(self, data, doomed):
        with self._lock:
            for what, pattern in list(self._lose.items()):
                if pattern in data:
                    del self._lose[what]
                    if what == "request":
                        return False
                    doomed.set()
        return True

    def _close(self, pair):
        """Closes both ends. Both threads notice it and end, and the sockets are closed with them."""
        self._pairs.discard(pair)
        end(*pair)
