"""A resolver that takes long: it is no silence of Redis, delays no handler, and the master does not take the process for stuck."""
import os
import subprocess

import pytest

from harness import QUREDIS, SANITIZED, queue, wait_for
from harness.messages import anywhere
from harness.resolver import Resolver

pytestmark = pytest.mark.skipif(SANITIZED, reason="a sanitizer must come first")


@pytest.fixture
def resolver(tmp):
    return Resolver(tmp)


def test_a_connection_has_its_time_after_the_name_is_resolved(redis_server, resolver, quredisd, ledger):
    """As with a first name server that is dead: each name takes longer than an answer may."""
    server = redis_server(tcp=True)
    resolver.take(6)
    d = quredisd(redis={"url": resolver.slow(server.tcp_url)}, queues=[queue("mail", ledger.recorder())], env=resolver.env)
    server.client().lpush("ingress:mail", "m")
    wait_for(lambda: ledger.runs(), 60)
    assert subprocess.run([QUREDIS, "-c", d.conf, "ls"], env={**os.environ, **resolver.env}, timeout=60, check=False).returncode == 0
    assert not d.events("redis_down") and not d.events("redis_error")


@pytest.mark.limit(150)
def test_a_worker_that_resolves_a_name_is_not_stuck(redis_server, resolver, quredisd, handler, ledger, tmp):
    """It reconnects while its handler runs, and the name takes longer than a loop may stand still. The handler ends meanwhile; nothing runs twice."""
    server = redis_server(tcp=True)
    body = handler("read -r m; echo $m >>@LEDGER@; until grep -qsx $PPID @TMP@/resolving; do sleep 0.02; done")
    d = quredisd(redis={"url": resolver.slow(server.tcp_url)}, queues=[queue("mail", body, timeout="5s")], supervisor={"kill_grace": "1s"}, env=resolver.env)
    worker = d.workers()["mail/0"]
    server.client().lpush("ingress:mail", "m")
    wait_for(ledger.lines, 30)
    resolver.take(25)
    server.client().client_kill_filter(_type="normal", skipme=True)
    resolver.wait_asked(worker)
    resolver.take(0)
    wait_for(lambda: d.events("redis_error_cleared", queue="mail"), 100)
    assert d.workers()["mail/0"] == worker and not d.events("worker_stuck")
    wait_for(lambda: not anywhere(server.client(), "mail"), 60)
    assert ledger.lines() == ["m"] and server.client().llen("escape:mail") == 0


@pytest.mark.limit(150)
def test_the_workers_of_a_reload_know_the_last_good_address(redis_server, resolver, quredisd, handler, ledger):
    """They have had no connection, and the resolver hangs: the second reload, too, delays no message."""
    server = redis_server(tcp=True)
    d = quredisd(redis={"url": resolver.slow(server.tcp_url)}, queues=[queue("mail", ledger.recorder(), env=["RELEASE=1"])], env=resolver.env)
    client = server.client()
    client.lpush("ingress:mail", "first")
    wait_for(ledger.runs, 30)
    resolver.take(120)
    for release in ("2", "3"):
        before = d.workers()["mail/0"]
        d.reload(queues=[queue("mail", ledger.recorder(), env=["RELEASE=" + release])])
        wait_for(lambda: d.workers().get("mail/0") not in (None, before), 30)
        resolver.wait_asked(d.workers()["mail/0"])
        client.lpush("ingress:mail", release)
        wait_for(lambda: [r.payload for r in ledger.runs()].count(release.encode()) == 1, 30)


WORK = """echo "$m" >>@LEDGER@
until grep -qsx $PPID @TMP@/resolving; do sleep 0.02; done
head -c 300000 /dev/zero | tr '\\0' x
echo
[ "$m" != hang ] || sleep 1000
"""
BODIES = {"exec": f"read -r m\n{WORK}", "persistent": f"while read -r job serial rest; do\nread -r m\n{WORK}\necho OK $serial\ndone"}


@pytest.mark.parametrize("mode", BODIES)
def test_a_resolver_that_hangs_delays_no_handler_and_no_stop(redis_server, resolver, quredisd, handler, ledger, mode):
    """One handler fills its pipe and ends in its time; the other one hangs, and is ended in its time. Then the supervisor stops. The resolver still hangs."""
    server = redis_server(tcp=True)
    d = quredisd(redis={"url": resolver.slow(server.tcp_url)}, env=resolver.env,
                 queues=[queue("mail", handler(BODIES[mode]), mode=mode, timeout="5s", workers=2)], supervisor={"kill_grace": "1s"})
    client = server.client()
    client.lpush("ingress:mail", "hang", "good")
    wait_for(lambda: len(ledger.lines()) == 2, 30)
    resolver.take(90)
    client.client_kill_filter(_type="normal", skipme=True)
    d.wait_event("message_escaped", timeout=40, queue="mail", **{"class": "HandlerTimeout"})
    wait_for(lambda: not list(client.scan_iter("transit:mail*", _type="list")), 20)
    assert [b"hang" in m for m in client.lrange("escape:mail", 0, -1)] == [True]
    assert sorted(ledger.lines()) == ["good", "hang"]
    assert d.stop(timeout=30) == 0
