"""A Redis Cluster on loopback whose slots move while others work: RedisServer says what each node is like."""
import pathlib
import time

import redis

from .redis_server import RedisServer, free_port
from .waiting import wait_for

SLOTS = 16384
KEYS_AT_ONCE = 3        # that move to another node


class Cluster:
    """`masters` masters, which share the slots, and as many replicas: nodes[masters + i] follows nodes[i] at first. slot: the one that moves."""

    def __init__(self, directory, *, tag="", masters=3, slot=15495, node_timeout_ms=2000, server_options=None):
        self.slot, self.masters = slot, masters
        self._bus = [free_port() for _ in range(2 * masters)]
        self.nodes = [self._node(pathlib.Path(directory) / f"n{i}", tag, bus, node_timeout_ms, server_options or {}) for i, bus in enumerate(self._bus)]
        self._ids = [self._ask(node, "MYID").decode() for node in self.nodes]
        self._meet()
        self._share_slots()
        self._replicate()

    def _node(self, directory, tag, bus, timeout_ms, options):
        config = {"cluster-enabled": "yes", "cluster-port": bus, "cluster-node-timeout": timeout_ms, "cluster-allow-replica-migration": "no",
                  "cluster-replica-validity-factor": 0, **options.get("config", {})}
        return RedisServer(directory, tag=tag, tcp=True, **{"aof": "always", **options, "config": config}).start()

    @staticmethod
    def _ask(node, *words):
        """A command of CLUSTER, with its raw answer."""
        with node.connect() as c:
            return c.execute_command("CLUSTER", *words)

    def _meet(self):
        for i, node in enumerate(self.nodes):
            self._ask(node, "SET-CONFIG-EPOCH", i + 1)
        for node, bus in zip(self.nodes[1:], self._bus[1:]):
            self._ask(self.nodes[0], "MEET", "127.0.0.1", node.port, bus)
        wait_for(lambda: all(self._info(n)["cluster_known_nodes"] == str(len(self.nodes)) for n in self.nodes), 60, "the nodes to meet")

    def _share_slots(self):
        for i, node in enumerate(self.nodes[:self.masters]):
            self._ask(node, "ADDSLOTSRANGE", SLOTS * i // self.masters, SLOTS * (i + 1) // self.masters - 1)

    def _replicate(self):
        for i in range(self.masters):
            wait_for(lambda i=i: self._follows(i), 60, "a replica to know its master")
        wait_for(self.is_ok, 60, "the Cluster to serve all slots")
        self.wait_in_sync()

    def _follows(self, i):
        try:
            return self._ask(self.nodes[self.masters + i], "REPLICATE", self._ids[i])
        except redis.ResponseError:             # the gossip about its master has not arrived
            return False

    # ---- what the nodes say ----

    def _info(self, node):
        return dict(line.split(":", 1) for line in self._ask(node, "INFO").decode().split("\r\n") if ":" in line)

    @property
    def alive(self):
        return [n for n in self.nodes if n.pid]

    def _said_owner(self, node):
        """The node that serves the slot, as this one believes; None: none does."""
        for first, last, master, *_ in self._ask(node, "SLOTS"):
            if first <= self.slot <= last:
                return self.at_port(master[1])
        return None

    def at_port(self, port):
        return next(n for n in self.nodes if n.port == port)

    def is_ok(self):
        """All that live serve, and name the same owner of the slot, which lives."""
        try:
            owners = {self._said_owner(n) for n in self.alive}
            return len(owners) == 1 and owners <= set(self.alive) and all(self._info(n)["cluster_state"] == "ok" for n in self.alive)
        except redis.RedisError:
            return False

    def owner(self):
        wait_for(self.is_ok, 60, "the nodes to agree")
        return self._said_owner(self.alive[0])

    def _is_master(self, node):
        with node.connect() as c:
            return c.info("replication")["role"] == "master"

    def replicas_of(self, master):
        with master.connect() as c:
            said = c.info("replication")
        return [said[f"slave{i}"] for i in range(said["connected_slaves"])]

    def is_in_sync(self):
        """Every node lives, every master has its replica, and these have what was written before this call."""
        if len(self.alive) < len(self.nodes) or not self.is_ok():
            return False
        masters = [n for n in self.nodes if self._is_master(n)]
        return len(masters) == self.masters and all([r["state"] for r in self.replicas_of(m)] == ["online"] for m in masters) and \
            all(self._is_replicated(m) for m in masters)

    @staticmethod
    def _is_replicated(master):
        with master.connect(single_connection_client=True) as c:
            c.ping()                            # what WAIT waits for is what was there at this connection's last command
            return c.wait(1, 1000) >= 1

    def wait_in_sync(self):
        """So that the death of a node loses nothing that was acknowledged before this."""
        wait_for(self.is_in_sync, 60, "the replicas to have all")

    def stray_keys(self):
        """Keys of the slot on masters that do not own it."""
        owner, found = self.owner(), []
        for node in self.nodes:
            if node is not owner and self._is_master(node):
                found += self._ask(node, "GETKEYSINSLOT", self.slot, 100)
        return found

    def client(self):
        return self.owner().client()

    @property
    def url(self):
        """One that names every node."""
        return "redis://" + ",".join(f"127.0.0.1:{n.port}" for n in self.nodes)

    # ---- what can happen ----

    def reshard(self, *, pause_s=0.02, hold_s=0.0):
        """The slot moves to the next master, a few keys at a time. hold_s: with half of the keys moved it stays so for this long."""
        self.begin_move(pause_s)
        time.sleep(hold_s)
        return self.end_move(pause_s)

    def begin_move(self, pause_s=0.0):
        """Half of the keys of the slot move to the next master, and the slot stays open. Returns that master."""
        source = self.owner()
        masters = [n for n in self.nodes if self._is_master(n)]
        target = masters[(masters.index(source) + 1) % len(masters)]
        self._set_slot(target, "IMPORTING", self._id_of(source))
        self._set_slot(source, "MIGRATING", self._id_of(target))
        self._move = source, target
        self._move_keys(self._ask(source, "COUNTKEYSINSLOT", self.slot) // 2, pause_s)
        return target

    def end_move(self, pause_s=0.0):
        """The other keys, too; then the slot is that master's."""
        source, target = self._move
        self._move_keys(0, pause_s)
        for node in [target, source, *(n for n in self.nodes if n not in (source, target) and self._is_master(n))]:
            self._set_slot(node, "NODE", self._id_of(target))
        wait_for(lambda: self.is_ok() and self._said_owner(self.nodes[0]) is target, 60, "all to know the new owner")
        return target

    def _move_keys(self, leave, pause_s):
        source, target = self._move
        while self._ask(source, "COUNTKEYSINSLOT", self.slot) > leave:
            keys = self._ask(source, "GETKEYSINSLOT", self.slot, KEYS_AT_ONCE)
            with source.connect() as c:
                c.execute_command("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
            time.sleep(pause_s)

    def _id_of(self, node):
        return self._ids[self.nodes.index(node)]

    def _set_slot(self, node, *words):
        self._ask(node, "SETSLOT", self.slot, *words)

    def kill_owner(self):
        """kill -9 of the master that has the slot; it comes back as a replica once another has been promoted."""
        old = self.owner()
        old.kill9()
        wait_for(lambda: self.is_ok() and self._said_owner(self.alive[0]) is not old, 60, "the promotion")
        return old

    @property
    def pids(self):
        return {n.pid for n in self.nodes if n.pid}

    def close(self):
        for node in self.nodes:
            node.close()
