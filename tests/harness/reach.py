"""How the programs under test reach Redis.

QUREDIS_TEST_REACH is "tls", "sentinel" or "cluster"; nothing: the unix socket. Tests stay as they are: the addresses (url) of servers and proxies are
names, which quredisd's configuration and the command line get replaced by what the reach needs. The client of a test stays on the unix socket.

    tls         a server, or a proxy, with a certificate on a TCP port: rediss:// and ca_file
    sentinel    a Sentinel for each server, and what answers like one for each proxy: sentinels and master
    cluster     the server is the only node of a Cluster; redis.prefix is PREFIX. Clients of the test, taps, output and log show keys without it
"""
import atexit
import collections
import contextlib
import os
import pathlib
import shutil
import socketserver
import tempfile
import threading

import pytest

from . import resp

REACHES = ("tls", "sentinel", "cluster")
REACH = os.environ.get("QUREDIS_TEST_REACH", "")
assert REACH in ("", *REACHES), f"QUREDIS_TEST_REACH={REACH}: expected {', '.join(REACHES)}"
PREFIX = "{reach}" if REACH == "cluster" else ""

COMMANDS = ("ping", "publish") if REACH == "sentinel" else ()       # what a server is asked that no program of ours asks

# What is about something that a reach does not have: file of tests/promises, a test or a fixture of it ("" all), reaches, reason
Absent = collections.namedtuple("Absent", "file name reaches reason")
_REPLICA = "REPLICAOF is refused by a Cluster (tests/reach/test_resharding.py and make soak-cluster have replicas)"
ABSENT = [Absent(*row) for row in (
    ("test_tls.py", "", REACHES, "it makes a reach of its own, TLS"),
    ("test_cluster.py", "", REACHES, "it makes a reach of its own, a Cluster"),
    ("test_prefix.py", "", REACHES, "it makes a reach of its own, several prefixes"),
    ("test_declared_keys.py", "", REACHES, "what checks the scripts listens on a unix socket, and runs each key's slot itself"),
    ("test_hosted.py", "", ["cluster"], "its servers refuse CLUSTER, with which the test would make the Cluster"),
    ("test_hosted.py", "test_a_database_is_an_error_that_says_so", ["tls", "sentinel"], "the database is the end of a unix address"),
    ("test_containers.py", "pair", ["sentinel"], "a Sentinel names one address, and each container has another one for the server"),
    ("test_large.py", "slow_link", ["tls", "sentinel"], "the slow link is a unix socket, whose buffers can be made small"),
    ("test_versions.py", "test_the_layout_of_a_prefix", ["cluster"], "the prefixes that it uses share no slot, and the reach has a prefix of its own"),
    ("test_rollback.py", "test_a_replica_is_promoted", ["cluster"], _REPLICA),
    ("test_rollback.py", "test_demoted_and_promoted_again", ["cluster"], _REPLICA),
    ("test_ttl.py", "test_a_replica_takes_over", ["cluster"], _REPLICA),
    ("test_weather.py", "test_a_read_only_replica", ["cluster"], _REPLICA),
)]


def why_absent(file, names):
    """Why a test is left out of this reach, by its file and the names of itself and its fixtures; None: it is not."""
    for row in ABSENT:
        if REACH in row.reaches and row.file == file and (row.name == "" or row.name in names):
            return f"not through {REACH}: {row.reason}"
    return None


# ---- servers and proxies ----

_groups = {}            # address of a server or proxy, as tests know it -> the group `redis` that reaches it


def _certificate():
    """Of all servers and proxies, signed by one CA, for loopback and the ends of the links of harness/containers.py."""
    if not _made:
        from .tls import Authority
        directory = pathlib.Path(tempfile.mkdtemp(prefix="qt."))
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
        directory.chmod(0o755)
        ca = Authority(directory)
        _made.extend([ca, ca.sign("server", "IP:127.0.0.1", *(f"IP:10.77.{i}.1" for i in range(1, 9)))])
    return _made


_made = []


def server_options():
    """Further options of a RedisServer."""
    return {"tls": {"tls": _certificate()[1]} if REACH == "tls" else {}, "sentinel": {"tcp": True}, "cluster": {"cluster": True}}.get(REACH, {})


def proxy_options():
    """Further options of a RedisProxy."""
    return {"tls": {"tls": _certificate()[1]} if REACH == "tls" else {}, "sentinel": {"tcp": True}}.get(REACH, {})


def register_server(server, directory, tag):
    """Returns what must be closed with it, or None."""
    if REACH != "sentinel":
        register_address(server.url, server)
        return None
    from .sentinels import Sentinel
    sentinel = Sentinel(directory, tag=tag).start("reach", server, 1, down_after_ms=3600000)
    _groups[server.url] = {"sentinels": [sentinel.address], "master": "reach"}
    return sentinel


def register_address(url, server, host="127.0.0.1"):
    """Another address of a RedisServer, in a network where it has this name."""
    if REACH == "tls":
        _groups[url] = {"url": f"rediss://{host}:{server.tls_port}/0", "ca_file": _certificate()[0].cert}
    elif REACH == "cluster":
        _groups[url] = {"url": f"redis://{host}:{server.port}/0", "prefix": PREFIX}


def register_proxy(proxy):
    """Returns what must be closed with it, or None."""
    if REACH == "tls":
        _groups[proxy.url] = {"url": proxy.url, "ca_file": _certificate()[0].cert}
    elif REACH == "cluster":
        _groups[proxy.url] = {"url": proxy.url, "prefix": PREFIX}
    elif REACH == "sentinel":
        guide = Guide(proxy.port)
        _groups[proxy.url] = {"sentinels": [guide.address], "master": "reach"}
        return guide
    return None


class Guide:
    """Answers the one question that quredis has for a Sentinel: the port of a proxy."""

    def __init__(self, port):
        answer = b"*2\r\n$9\r\n127.0.0.1\r\n$%d\r\n%d\r\n" % (len(str(port)), port)

        class Answers(socketserver.BaseRequestHandler):
            def handle(self):
                data = bytearray()
                try:
                    while got := self.request.recv(4096):
                        data += got
                        while (end := resp.end_of(data)) is not None:
                            asked = resp.words(data[:end])
                            del data[:end]
                            self.request.sendall(answer if asked[:2] == [b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME"] else b"-ERR unknown command\r\n")
                except OSError:
                    pass
        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answers)
        self._server.daemon_threads = True
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        self.pid = None
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


# ---- what the programs get ----

def group_of(redis):
    """The group `redis` of a configuration, from a RedisServer, a RedisProxy or the group of a test."""
    group = {"url": redis.url} if hasattr(redis, "url") else dict(redis)
    if not REACH or "url" not in group:
        return group
    if group["url"] not in _groups:
        pytest.fail(f"{group['url']} is not reached through {REACH}: it wants a row in ABSENT of tests/harness/reach.py, or a registration there")
    return {**_groups[group.pop("url")], **group}


def configured(sections):
    """The sections of a configuration, with the reach."""
    out = {**sections, "redis": group_of(sections["redis"])} if "redis" in sections else dict(sections)
    if PREFIX:
        out["queues"] = [{k: PREFIX + v if k in ("ingress", "transit", "escape") else v for k, v in q.items()} for q in sections.get("queues", ())]
    return out


@contextlib.contextmanager
def arguments(args):
    """Those of the command line: in place of -u ADDRESS a file, while the command runs."""
    args = [str(a) for a in args]
    if not REACH or "-u" not in args or args[args.index("-u") + 1] not in _groups:
        yield args
        return
    from .config import render
    at = args.index("-u")
    with tempfile.NamedTemporaryFile("w", prefix="qc.", suffix=".conf") as conf:
        conf.write(render({"redis": _groups[args[at + 1]]}))
        conf.flush()
        yield [*args[:at], "-c", conf.name, *args[at + 2:]]


def key(name):
    """A key as Redis has it."""
    return PREFIX + name


def seen_words(words):
    """Those of a command of quredis, as the tests know them."""
    prefix = PREFIX.encode()
    return [w[len(prefix):] if w.startswith(prefix) else w for w in words] if PREFIX else words


def seen(text):
    """Output of quredis as the tests know it."""
    return text.replace(PREFIX.encode() if isinstance(text, bytes) else PREFIX, type(text)()) if PREFIX else text
