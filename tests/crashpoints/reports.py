"""What others read of us: the text file, datagrams, the reports of health and of this node."""
import json
import re
import socket

_LINE = re.compile(r'#.*|[a-z_]+(\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\})? [0-9.eE+-]+')
LAST = "quredis_handler_not_ready"        # the last figure of the file


class TextFile:
    """The text file is complete whenever it is read, and no other file but its successor is beside it."""

    def __init__(self, path, queue):
        self.path, self.queue, self.broken, self.seen = path, queue, [], set()
        path.parent.mkdir()

    def settled(self):
        """Whether the file is there, complete and newer than the first one, and no other file is left."""
        self.look()
        return len(self.seen) > 1 and [p.name for p in self.path.parent.iterdir()] == [self.path.name]

    def look(self):
        try:
            text = self.path.read_text()
        except FileNotFoundError:
            return
        lines = text.split("\n")
        ends = lines[-2:-1]
        whole = text.endswith("\n") and (ends == [f"# TYPE {LAST} gauge"] or ends[0].startswith(f'{LAST}{{queue="{self.queue}"'))
        if not whole or not all(map(_LINE.fullmatch, lines[:-1])):
            self.broken.append(text)
        self.seen.add(next((line for line in lines if line.startswith("quredis_written_timestamp_seconds ")), ""))

    def lost(self):
        return []

    def wrong(self, faulty):
        self.look()
        names = {p.name for p in self.path.parent.iterdir()} - {self.path.name, f"{self.path.name}.tmp"}
        return [f"half a file of {len(t)} bytes" for t in self.broken] + [f"{n} is left beside the text file" for n in names]


class Datagrams:
    """A listener for statsd, which takes what has come. awaited: something is to be told soon."""

    awaited = True

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.setblocking(False)
        self.port, self.packets, self.done, self.broken = self.socket.getsockname()[1], 0, 0, []

    def settled(self):
        """Whether the datagrams arrived. Counts may be missing if the sweeper died while it sent them."""
        while True:
            try:
                packet = self.socket.recv(65536).decode()
            except BlockingIOError:
                return self.packets > 0 or not self.awaited
            self.packets += 1
            for line in packet.split("\n"):
                match = re.fullmatch(r"(quredis(?:\.[A-Za-z0-9_-]+)+):(\d+)\|([gc])", line)
                self.broken += [] if match else [line]
                self.done += int(match[2]) if match and match[1].endswith(".done") else 0

    def lost(self):
        return []

    def wrong(self, faulty):
        """Counters are never sent twice."""
        self.settled()
        self.socket.close()
        return [f"a datagram {b!r}" for b in self.broken] + ([f"{self.done} done of one"] if self.done > 1 else [])


class Documents:
    """Each is whole, and its queues are those that are there. The node's is gone after a stop in which nobody died. What is done is
    counted once; what is being written when the sweeper dies may be missing."""

    def __init__(self, client, node, queues):
        self.client, self.node, self.queues, self.broken = client, f"quredis:node:{node}", set(queues), []

    def _parsed(self, text):
        try:
            return json.loads(text)
        except ValueError:
            self.broken.append(text)
            return {}

    def settled(self):
        health = {name.decode(): self._parsed(text) for name, text in self.client.hgetall("quredis:health").items()}
        node = self._parsed(self.client.get(self.node) or b"{}")
        return self.queues <= set(health) and self.queues <= {q["name"] for q in node.get("queues", [])}

    def lost(self):
        return []

    def wrong(self, faulty):
        found = [f"a report that is none: {t!r}" for t in self.broken]
        done = int(self.client.hget("quredis:of:ingress:q0:stats", "done") or 0)
        if done > 1 or done < 1 and not faulty:
            found.append(f"{done} done of one, in the statistics")
        return found + ([f"{self.node} is left after a stop"] if self.client.exists(self.node) and not faulty else [])
