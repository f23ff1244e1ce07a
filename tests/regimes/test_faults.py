"""The fault proxy: it breaks what it is told to, the points of a conversation are all there, and of all points a sample is right.
FAULTS_SECONDS (18) and FAULTS_SEED (1) say how many and which; `make faults` goes through all of them."""
import collections
import os
import re
import socket
import subprocess
import sys
import time

import pytest
from redis import Redis
from redis.exceptions import ConnectionError

from harness import BUILD, ROOT, Authority, RedisProxy, wait_for
from harness.redis_proxy import CUT, Tap
from harness.resp import end_of, sort_of, words

FAULTS = ROOT / "tests/faults"
sys.path.insert(0, str(FAULTS))

import points  # noqa: E402

SECONDS = float(os.environ.get("FAULTS_SECONDS", "18"))
SEED = os.environ.get("FAULTS_SEED", "1")


def test_values_end_where_they_end():
    values = [b"+OK\r\n", b":12\r\n", b"$-1\r\n", b"*-1\r\n", b"*0\r\n", b"$0\r\n\r\n", b"$3\r\na\r\n\r\n", b"-ERR x\r\n",
              b"*3\r\n$1\r\na\r\n*2\r\n:1\r\n$-1\r\n+x\r\n"]
    stream = b"".join(values)
    at = 0
    for value in values:
        for cut in range(at, at + len(value)):
            assert end_of(stream[:cut], at) is None, (value, cut)
        at = end_of(stream, at)
        assert stream[at - len(value):at] == value
    assert at == len(stream)
    assert words(b"*2\r\n$3\r\nGET\r\n$3\r\n\r\n\0\r\n") == [b"GET", b"\r\n\0"]
    assert [sort_of(v) for v in values] == ["ok", "int", "nil", "nil", "empty", "text", "text", "error", "array"]
    assert sort_of(b":0\r\n") == "0" and sort_of(bytearray(b":1\r\n")) == "1"


class Script(Tap):
    """What to do at the next command of a name."""

    def __init__(self):
        self.at, self.seen = {}, []

    def request(self, pair, words):
        self.seen.append(b" ".join(words))
        verdict = self.at.get((words[0], "command"))
        return verdict

    def reply(self, pair, words, reply):
        return self.at.get((words[0], "answer"))


@pytest.fixture
def tapped(tmp, redis):
    tap = Script()
    proxy = RedisProxy(tmp, redis, tap)
    yield tap, proxy
    proxy.close()


def raw(proxy, *commands):
    """A connection on which these commands were sent, in one write."""
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(20)
    s.connect(proxy.path)
    s.sendall(b"".join(b"*%d\r\n" % len(c) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in c) for c in commands))
    return s


def received(s):
    """Everything that comes until it is closed."""
    data = b""
    while chunk := s.recv(65536):
        data += chunk
    s.close()
    return data


def test_a_command_is_cut_off(redis, tapped):
    """What was before it in the same write is done; it is not, nor is what comes after."""
    tap, proxy = tapped
    tap.at[b"LPUSH", "command"] = CUT
    assert received(raw(proxy, [b"SET", b"a", b"1"], [b"LPUSH", b"l", b"x"], [b"SET", b"b", b"1"])) == b""
    wait_for(lambda: redis.client().get("a") == b"1")
    assert redis.client().exists("l", "b") == 0 and proxy.lost == 1


@pytest.mark.parametrize("byte", range(12))
def test_an_answer_is_cut_at_each_byte(redis, tapped, byte):
    tap, proxy = tapped
    redis.client().set("k", "value")
    tap.at[b"GET", "answer"] = byte
    answers = b":1\r\n" + b"$5\r\nvalue\r\n"
    assert received(raw(proxy, [b"LPUSH", b"l", b"x"], [b"GET", b"k"], [b"SET", b"b", b"1"])) == answers[:4 + byte]
    assert redis.client().exists("l", "b") == 2          # Redis did all of it


def test_nothing_passes_for_a_while(redis, tapped):
    tap, proxy = tapped
    tap.at[b"SET", "command"] = 1.0
    other = Redis(unix_socket_path=proxy.path, socket_timeout=20, retry=None)
    other.ping()
    began = time.monotonic()
    s = raw(proxy, [b"SET", b"a", b"1"], [b"LPUSH", b"l", b"x"])
    wait_for(lambda: redis.client().exists("a"))
    assert other.ping() and time.monotonic() - began < 0.9 and not redis.client().exists("l")
    tap.at.clear()
    s.shutdown(1)
    assert received(s) in (b"+OK\r\n:1\r\n", b"+OK\r\n", b"")    # it closes while it sleeps: what was on its way may be lost
    wait_for(lambda: redis.client().exists("l"))
    assert time.monotonic() - began >= 1


def test_points_are_all_bytes_and_commands():
    record = (collections.Counter({"DEL": 5, "CLIENT ID": 1}), {("DEL", "1"): [4, 4], ("INFO SERVER", "text"): [1000]})
    found = points.points_of(record)
    by = collections.Counter((p.label, p.what) for p in found)
    assert by["DEL", "before"] == points.OFTEN and by["DEL", "silence"] == points.OFTEN and by["CLIENT ID", "before"] == 1
    assert [p.byte for p in found if p[:4] == ("DEL", "1", 2, "answer")] == [0, 1, 2, 3, 4]
    long = [p.byte for p in found if p.label == "INFO SERVER"]
    assert long[:33] == list(range(33)) and long[-33:] == list(range(968, 1001)) and 66 < len(long) < 100
    assert len(set(found)) == len(found)
    assert points.points_of(record, found) == []


def test_a_proxy_with_tls_hears_the_same(tmp, redis):
    """Also a command that comes in several records, and an answer of many."""
    tap, ca = Script(), Authority(tmp / "ca")
    proxy = RedisProxy(tmp, redis, tap, ca.sign("proxy", "IP:127.0.0.1"))
    try:
        client = Redis.from_url(proxy.url, ssl_ca_certs=str(ca.cert), socket_timeout=20, retry=None)
        client.set("k", b"x" * 300000)
        assert client.get("k") == b"x" * 300000 and [s.split()[0] for s in tap.seen if s[:3] in (b"SET", b"GET")] == [b"SET", b"GET"]
        tap.at[b"LPUSH", "command"] = CUT
        with pytest.raises(ConnectionError):
            client.lpush("l", "x")
        assert not redis.client().exists("l")
    finally:
        proxy.close()


@pytest.mark.verdict
@pytest.mark.limit(300)
@pytest.mark.parametrize("flags", [[], ["--tls"]], ids=["plain", "tls"])
def test_a_sample_of_all_points(flags):
    seconds = SECONDS / 2 if flags else SECONDS
    done = subprocess.run([str(FAULTS / "faults"), "--seconds", str(seconds), "--seed", SEED, "--lanes", "6", *flags], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=280, cwd=ROOT,
                          env={**os.environ, "QUREDIS_BUILD": str(BUILD)})
    print(done.stdout)
    assert done.returncode == 0 and " 0 wrong\n" in done.stdout
    names = "worker, exec|worker, persistent|worker, shared|worker, exec, maxmemory|sweeper|sweeper, shared|sweeper, by rule"
    conversations = re.findall(rf"^({names}) +(\d+)", done.stdout, re.M)
    assert len(conversations) == 7 and all(int(commands) > 25 for _, commands in conversations)
    assert int(re.search(r"^(\d+) points in", done.stdout, re.M)[1]) >= (20 if flags else 40)
