"""The rehearsal of rights on scratch keys: what one that was cut off leaves, and that it is repeated where the server changed."""
import json

import pytest
from redis.exceptions import ResponseError

from harness import CUT, Tap, queue, wait_for


class Rehearsal(Tap):
    """Hears its commands. act() comes when Redis has had number `at` of all, and not the next one."""

    def __init__(self, at=0, act=None):
        self.at, self.act, self.said = at, act, []

    def request(self, pair, words):
        if not any(b":scratch:" in w for w in words):
            return None
        self.said.append(words)
        if self.act is None or not self.at <= len(self.said) <= self.at + 1:
            return None
        return 0.1 if len(self.said) == self.at else self.act()


def mail(handler, **keys):
    return queue("mail", handler("cat >/dev/null"), workers=0, **keys)


DAILY = {"name": "daily", "queue": "mail", "cron": "0 0 * * *", "message": "m"}


def scratch(c):
    return sorted(c.keys("*:scratch:*"))


def answers(c, commands):
    def answer(words):
        try:
            return c.execute_command(*words)
        except ResponseError as e:
            return str(e)
    return [answer(words) for words in commands]


@pytest.mark.parametrize("keys", [{"ttl": "1h", "rate": "9/1s"}, {"shared": True}], ids=["ages", "shared"])
def test_the_next_one_begins_anew_wherever_the_last_was_cut_off(redis, redis_proxy, quredisd, handler, keys):
    c = redis.client()
    tap = Rehearsal()
    d = quredisd(redis=redis_proxy(redis, tap), queues=[mail(handler, **keys)], schedules=[DAILY])
    d.wait_event("queue_recovered", queue="mail")
    assert d.stop() == 0 and scratch(c) == []

    def outcomes(commands):
        return [a if isinstance(a, int) else type(a) for a in answers(c, commands)][1:]     # the first one tells what was left
    whole = outcomes(tap.said)
    assert len(whole) > 30 and str not in whole
    for n in range(len(whole)):
        answers(c, tap.said[:n])
        assert outcomes(tap.said) == whole, f"after the first {n} commands of one"
        assert scratch(c) == []


def test_the_next_start_removes_what_one_left_that_was_cut_off(redis_server, redis_proxy, quredisd, handler):
    """Supervisor and Redis died in the middle of it."""
    server = redis_server()
    c = server.client()
    left = []

    def die():
        d.kill9()
        left.extend(wait_for(lambda: scratch(c)))
        return CUT
    proxy = redis_proxy(server, Rehearsal(12, die))
    d = quredisd(redis=proxy, queues=[mail(handler)], wait=False)
    wait_for(lambda: left)
    assert scratch(c) == left
    d.start()
    d.wait_event("queue_recovered", queue="mail")
    assert scratch(c) == [] and d.stop() == 0


def test_redis_returns_to_the_middle_of_one(redis_server, redis_proxy, quredisd, handler):
    server = redis_server()
    c = server.client()

    def save():
        wait_for(lambda: scratch(c))
        c.save()
    proxy = redis_proxy(server, Rehearsal(12, save))
    d = quredisd(redis=proxy, queues=[mail(handler)])
    d.wait_event("queue_recovered", queue="mail")
    assert scratch(c) == []
    server.kill9()
    proxy.refuse(True)
    server.start()
    assert scratch(c)
    proxy.refuse(False)
    d.wait_event("redis_changed")
    wait_for(lambda: scratch(c) == [])
    assert not d.events("queue_error") and d.stop() == 0


def test_rights_that_another_server_does_not_give(redis_server, redis_proxy, quredisd, handler, ledger):
    """They are told before a message needs them, and the queue stays open."""
    first, second = redis_server(), redis_server()
    c = second.client()
    c.execute_command("ACL", "SETUSER", "default", "-zadd")
    proxy = redis_proxy(first)
    d = quredisd(redis=proxy, queues=[queue("mail", handler("cat >>@LEDGER@; echo >>@LEDGER@"))])
    d.wait_event("queue_recovered", queue="mail")
    proxy.forward_to(second)
    told = d.wait_event("queue_error", queue="mail", at="rights")
    assert told["error"].startswith("retry:") and "grant" in told["advice"]
    c.lpush("ingress:mail", "m")
    wait_for(lambda: ledger.lines() == ["m"], 60)
    c.execute_command("ACL", "SETUSER", "default", "+zadd")
    d.wait_event("queue_error_cleared", 40, queue="mail")
    assert scratch(c) == [] and d.stop() == 0


def all_keys_but(suffix):
    """Patterns of an access list: a name does not end with the suffix where it differs from it in one byte."""
    return [f"~*[^{suffix[i]}]{suffix[i + 1:]}" for i in range(len(suffix))]


@pytest.fixture
def limited(redis_server, quredisd, handler, tmp):
    """A supervisor whose user of Redis may not run the command (None: none) on scratch keys with that suffix."""
    server = redis_server(tcp=True)     # the address of a unix socket has no user
    c = server.client()

    def start(command, suffix, schedules=(), throttles=(), beside=(), **keys):
        but = all_keys_but(f":here:{suffix}".rstrip(":"))
        rules = but if command is None else ["allkeys", f"-{command}", f"(+{command} {' '.join(but)})"]
        c.execute_command("ACL", "SETUSER", "supervisor", "on", ">its-password", "+@all", *rules)
        (tmp / "password").write_text("its-password\n")
        (tmp / "password").chmod(0o600)
        return quredisd(redis={"url": f"redis://supervisor@127.0.0.1:{server.port}", "password_file": tmp / "password"},
                        supervisor={"node": "here"}, queues=[mail(handler, **keys), *beside], schedules=list(schedules), throttles=list(throttles)), c
    return start


@pytest.mark.parametrize("command, suffix, step, more", [
    (None, "throttle", "clear", {"rate": "9/1s"}),
    ("get", "throttle", "throttle", {"rate": "9/1s"}),
    ("set", "throttle", "throttle", {"rate": "9/1s"}),
    (None, "throttle", "clear", {"throttle": "api", "throttles": [{"name": "api", "rate": "9/1s"}]}),
    (None, "seats", "clear", {"max_in_flight": 5}),
    ("hgetall", "seats", "ask for a seat", {"max_in_flight": 5}),
    ("pexpire", "seats", "ask for a seat", {"max_in_flight": 5}),
    ("rpush", "seats:free", "wake for a seat", {"max_in_flight": 5}),
    ("blpop", "seats:free", "await a seat", {"max_in_flight": 5}),
    ("ltrim", "", "hand back", {}),
    ("zrem", "delayed", "retry", {}),
    ("zadd", "delayed", "retry", {}),
    (None, "schedules", "clear", {"schedules": [DAILY]}),
    ("hget", "schedules", "tick", {"schedules": [DAILY]}),
    ("hkeys", "schedules", "forget schedules", {"schedules": [DAILY]}),
    (None, "paused", "clear", {}),
    ("set", "paused", "write the hold", {})])
def test_rights_to_what_a_queue_uses(limited, command, suffix, step, more):
    """Told before a message, a tick or a hold needs them; doctor says the same, and a right that is given later ends it."""
    d, c = limited(command, suffix, **more)

    def found():
        return [f["what"] for f in json.loads(d.quredis("doctor", "--json").out) if f["check"] == "rights" and f["severity"] == "error"]
    assert d.wait_event("queue_error", 30, queue="mail", at="rights")["error"].startswith(f"{step}:")
    assert {f'the step "{step}"' in what for what in found()} == {True}
    c.execute_command("ACL", "SETUSER", "supervisor", "allkeys", "+@all")
    d.wait_event("queue_error_cleared", 40, queue="mail")
    assert not found() and scratch(c) == []


@pytest.mark.parametrize("suffix", ["throttle", "schedules", "seats"])
def test_a_queue_needs_no_rights_to_keys_that_it_does_not_use(limited, suffix):
    d, c = limited(None, suffix)
    d.wait_event("queue_recovered", queue="mail")
    assert not d.events("queue_error") and scratch(c) == []
