"""Where a shard of the points is gone through: its directory, its proxy and its daemon. The server is shared."""
import itertools
import pathlib
import shutil
import tempfile

from harness import Quredisd, RedisProxy, write_handler
from ledger import Queue
from points import Talk, Talks


ALWAYS = ("worker_stuck", "worker_overdue", "tray_unexpected", "messages_reappeared", "claim_lost", "Sanitizer", "runtime error:")


class Lane:
    """What lanes have in common: a queue, a talk, and the part of the daemon's log that is about their cycle."""

    def __init__(self, mode, place, queue, talk, bad):
        self.mode, self.place, self.bad, self.heard, self.hangs = mode, place, bad, 0, False
        self.queue = queue
        self.talk = place.talk(talk)
        self.cycles = itertools.count()

    def log(self):
        """The log since the last cycle, without lines of other queues."""
        return [line for line in self.place.daemon.lines[self.heard:] if "process=" not in line or f" queue={self.queue.name} " in line
                or " queue=" not in line]

    def complaints(self):
        """Log lines that a lost connection does not explain. A worker that may not wait for Redis any longer exits with status 75, unsettled."""
        return [line for line in self.log() if any(word in line for word in (*self.bad, *ALWAYS)) and "exit=75" not in line]

    def clear(self):
        self.heard = len(self.place.daemon.lines)
        for path in self.queue.dir.glob("go.*"):
            path.unlink()
        self.queue.clear()


class Place:
    """tls: a CA (harness/tls.py): the daemon reaches its proxy with TLS."""

    def __init__(self, server, tag, bodies, db=0, tls=None):
        self.server, self.tag, self.db = server, tag, db
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="qr."))
        self.dir.chmod(0o755)
        self.client = server.client(db=db)
        self.talks = Talks()
        self.proxy = RedisProxy(self.dir, server, self.talks, tls and tls.sign("proxy", "IP:127.0.0.1"))
        self.redis = {"url": self.proxy.address(db), **({"ca_file": tls.cert} if tls else {})}
        self.handlers = {name: write_handler(self.dir / "h", body) for name, body in bodies.items()}
        self.daemon = None

    def queue(self, name, **options):
        return Queue(self.client, name, self.dir / name, **options)

    def talk(self, name):
        return self.talks.talks.setdefault(name, Talk())

    def handler(self, name):
        return self.handlers[name]

    def start(self, sections, **options):
        self.daemon = Quredisd(self.dir / "d", tag=self.tag, redis=self.redis, queues=sections,
                               log={"level": "info"}, supervisor={"lease": "1s", "kill_grace": "500ms"}, **options).start()

    def close(self):
        wrong = self.daemon and self.daemon.close()
        self.proxy.close()
        if not wrong:
            shutil.rmtree(self.dir, ignore_errors=True)
        return wrong
