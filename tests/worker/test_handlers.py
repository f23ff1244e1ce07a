"""The output and the exit of a handler, as seen from outside."""
import json
import os
from signal import SIGQUIT, SIGUSR1

from harness import queue, wait_for
from harness.messages import anywhere

HOSTILE = r'''
import os, sys
sys.stdin.buffer.read()
os.write(1, b'plain\n{"fake": "line"}\n\xff\xfe\x00\x1b[2J\r\xc2\x9b31m\n' + "Käse \u202e".encode() + b'\nhalf')
os.write(2, bytes(range(256)) + b"\n")
'''


def test_every_line_of_a_json_log_is_json(redis, quredisd, handler, tmp):
    log = tmp / "log.json"
    d = quredisd(queues=[queue("mail", handler(HOSTILE, "python"))], log={"target": str(log), "format": "json"}, wait=False)
    redis.client().lpush("ingress:mail", "quredis/1 id=m1\nx")

    def lines():
        return [json.loads(line) for line in log.read_bytes().splitlines()] if log.exists() else []
    wait_for(lambda: len([e for e in lines() if e["event"] == "handler_output"]) >= 7, 30)
    shown = [e["line"] for e in lines() if e["event"] == "handler_output" and e["stream"] == "stdout"]
    assert shown == ["plain", '{"fake": "line"}', "\\xff\\xfe\0\x1b[2J\r\x9b31m", "Käse \u202e", "half"]
    assert all(b"\x1b" not in line and b"\xc2\x9b" not in line for line in log.read_bytes().splitlines())
    assert {(e["queue"], e["id"], e["worker"]) for e in lines() if e["event"] == "handler_output"} == {("mail", "m1", "mail/0")}
    assert d.stop() == 0


def test_a_full_disk_for_the_log_stops_nothing(redis, quredisd, handler):
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler("cat >/dev/null; echo many words; echo oops >&2"), workers=2)],
                 log={"target": "/dev/full"}, wait=False)
    c.lpush("ingress:mail", *[f"m{i}" for i in range(50)])
    wait_for(lambda: not anywhere(c, "mail"), 40)
    assert d.running() and d.stop() == 0
    assert c.llen("escape:mail") == 0


def test_the_log_is_reopened_while_a_handler_talks(redis, quredisd, handler, tmp):
    """After USR1 nothing more goes to the file that was moved away, not even from a handler that runs."""
    log, old = tmp / "log", tmp / "log.1"
    body = "cat >/dev/null; while :; do echo tick; sleep 0.02; done"
    d = quredisd(queues=[queue("mail", handler(body), kill_grace="1s")], log={"target": str(log)}, wait=False)
    redis.client().lpush("ingress:mail", "x")
    wait_for(lambda: log.exists() and b"line=tick" in log.read_bytes(), 30)
    os.rename(log, old)
    d.signal(SIGUSR1)
    wait_for(lambda: log.exists() and b"line=tick" in log.read_bytes(), 30)
    size = old.stat().st_size
    seen = log.read_bytes().count(b"line=tick")
    wait_for(lambda: log.read_bytes().count(b"line=tick") > seen + 5, 30)
    assert old.stat().st_size == size
    assert d.stop(SIGQUIT) == 0


def test_many_short_floods_are_limited_like_a_long_one(redis, quredisd, handler):
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler("cat >/dev/null; seq 500"))], log={"level": "info"})
    c.lpush("ingress:mail", *[f"m{i}" for i in range(40)])
    wait_for(lambda: not anywhere(c, "mail"), 60)
    assert d.stop() == 0
    dropped = sum(int(e["count"]) for e in d.events("handler_output_dropped"))
    assert len(d.events("handler_output")) + dropped == 40 * 500
    assert dropped > 0


def test_done_is_done_also_when_told_to_stop(redis, quredisd, handler, tmp):
    """A handler that finishes within its grace and exits with 0 is not run again."""
    c = redis.client()
    body = "cat >/dev/null; trap 'sleep 0.2; echo saved >@TMP@/saved; exit 0' TERM; : >@TMP@/up; while :; do sleep 0.01; done"
    d = quredisd(queues=[queue("mail", handler(body), kill_grace="20s")])
    c.lpush("ingress:mail", "x")
    wait_for((tmp / "up").exists)
    assert d.stop(SIGQUIT) == 0
    assert (tmp / "saved").read_text() == "saved\n"
    assert not anywhere(c, "mail") and c.llen("escape:mail") == 0
