"""A consumer that knows nothing of quredis, as the Ruby gem is one: BRPOPLPUSH, work, LREM, on lists of its own."""
import threading


class PlainConsumer(threading.Thread):
    """Takes from ingress:QUEUE until stop(); done: what it did, as it came. between: called after each.
    seconds: what one takes it."""

    def __init__(self, server, queue, between=lambda: None, seconds=0.0):
        super().__init__(daemon=True)
        self.done = []
        self.wrong = None
        self._client, self._queue, self._between, self._seconds = server.client(), queue, between, seconds
        self._ends = threading.Event()
        self.start()

    def run(self):
        ingress, transit = f"ingress:{self._queue}", f"transit:{self._queue}"
        try:
            while not self._ends.is_set():
                message = self._client.brpoplpush(ingress, transit, 1)
                if message is None:
                    continue
                self._ends.wait(self._seconds)
                self.done.append(message)
                self._client.lrem(transit, 1, message)
                self._between()
        except Exception as e:      # told by stop(), in the test's own thread
            self.wrong = e

    def stop(self):
        """What it did."""
        self._ends.set()
        self.join(30)
        assert not self.is_alive() and self.wrong is None, self.wrong
        return self.done
