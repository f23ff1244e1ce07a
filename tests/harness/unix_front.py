"""A unix socket in front of a RedisServer."""
import pathlib
import socket
import threading


class UnixFront:
    """Listens on a unix socket (url), and connects to the server for each client. The subclass says what happens to such a pair.

    buffer: bytes that the kernel may hold for each socket of a pair and direction; None: as many as it likes.
    """

    def __init__(self, path, server, buffer=None):
        self.path = str(path)
        self.url = f"unix://{self.path}"
        self._upstream = str(server.socket)
        self._buffer = buffer
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        pathlib.Path(self.path).chmod(0o777)
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def serve(self, client, redis):
        raise NotImplementedError

    def close(self):
        # shutdown(2), since close(2) alone does not end an accept(2) in another thread
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            redis = socket.socket(socket.AF_UNIX)
            for s in (client, redis) if self._buffer else ():
                s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._buffer)
                s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._buffer)
            try:
                redis.connect(self._upstream)
            except OSError:
                client.close()
                redis.close()
                continue
            self.serve(client, redis)


def end(*sockets):
    """Both ends of each connection hear of it; threads that wait there wake up."""
    for s in sockets:
        try:
            s.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
