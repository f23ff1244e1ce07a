"""Redis and the way to it, and what can happen to them."""
import random
import time

import redis

from harness import wait_for

from .ledger import now_us

LOSE = [b"DEL", b"LREM", b"RPOPLPUSH", b"EVALSHA", b"PEXPIRE"]


class Server:
    """node: the host behind the wire."""

    def __init__(self, server, wire, node, ledger, lease_s, seed):
        self.server, self.wire, self.node, self.ledger, self.lease_s = server, wire, node, ledger, lease_s
        self.rng = random.Random(seed)

    def _ask(self, *command):
        """Sends a command. Redis may be at maxmemory, or may just have closed this connection."""
        c = self.server.connect()
        try:
            return c.execute_command(*command)
        except redis.RedisError:
            return None
        finally:
            c.close()

    def up(self):
        """Does nothing: only this object kills Redis, and it starts Redis again at once."""

    def kill_redis(self):
        at = now_us()
        self.server.kill9()
        time.sleep(self.rng.choice([0, 0, 0.1, 0.3]))
        self.server.start(wait=False)
        wait_for(self.server.answers, 300, "redis-server to answer")        # with all it has to read
        self.ledger.fault("kill_redis", at)

    def cut_all(self):
        """Lets Redis close every connection."""
        at = now_us()
        self._ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        self.ledger.fault("cut_all", at)

    def cut(self):
        at = now_us()
        self.wire.cut()
        self.ledger.fault("cut", at, node=self.node)

    def lose_answer(self):
        """Lets Redis execute a request, and closes the connection before the answer arrives."""
        at = now_us()
        self.wire.lose("reply", self.rng.choice(LOSE))
        self.ledger.fault("lose_answer", at, node=self.node)

    def lose_request(self):
        at = now_us()
        self.wire.lose("request", self.rng.choice(LOSE))
        self.ledger.fault("lose_request", at, node=self.node)

    def stall(self):
        """Stalls the network: nothing arrives, and no connection closes."""
        at = now_us()
        self.wire.stall()
        time.sleep(self.lease_s * self.rng.uniform(0.1, 2))
        self.wire.resume()
        self.ledger.fault("stall", at, node=self.node)

    def storm(self):
        """Redis is at maxmemory."""
        at = now_us()
        self._ask("CONFIG", "SET", "maxmemory", "1mb")
        time.sleep(self.rng.uniform(0.1, 1))
        self._ask("CONFIG", "SET", "maxmemory", "0")
        self.ledger.fault("storm", at)
