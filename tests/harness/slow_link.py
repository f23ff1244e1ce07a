"""A slow link between a client and a RedisServer."""
import pathlib
import threading
import time

from .unix_front import UnixFront, end

PIECE = 4096
CREDIT_S = 0.02     # a pause that came out too long is made up for, up to so much


class SlowLink(UnixFront):
    """Listens on a unix socket (url) and passes `rate` bytes a second each way, of all connections together.

    .down, .up: bytes passed to the clients and to Redis so far. While .rate is None nothing is slowed down.
    The link is narrow: the kernel must not hold what has not passed yet.
    """

    def __init__(self, directory, server, rate):
        self.rate, self.down, self.up = rate, 0, 0
        self._turn = {"up": threading.Lock(), "down": threading.Lock()}
        self._free_at = {"up": 0.0, "down": 0.0}
        super().__init__(pathlib.Path(directory) / "slow", server, PIECE)

    def serve(self, client, redis):
        for way, source, sink in (("up", client, redis), ("down", redis, client)):
            threading.Thread(target=self._pass_on, args=(way, source, sink), daemon=True).start()

    def _pause(self, way, seconds):
        now = time.monotonic()
        self._free_at[way] = max(self._free_at[way], now - CREDIT_S) + seconds
        time.sleep(max(0.0, self._free_at[way] - now))

    def _pass_on(self, way, source, sink):
        try:
            while data := source.recv(PIECE):
                with self._turn[way]:
                    if self.rate:
                        self._pause(way, len(data) / self.rate)
                    setattr(self, way, getattr(self, way) + len(data))
                sink.sendall(data)
        except OSError:
            pass
        end(source, sink)
