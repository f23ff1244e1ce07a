"""A resolver that takes long: to resolve a name blocks, but it is no silence of Redis, and the master does not take the process for stuck."""
import os
import subprocess

import pytest

from harness import QUREDIS, SANITIZED, queue, wait_for
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
    d = quredisd(redis={"url": resolver.slow(server.tcp_url)}, queues=[queue("mail", body, timeout="2s")], supervisor={"kill_grace": "1s"}, env=resolver.env)
    worker = d.workers()["mail/0"]
    server.client().lpush("ingress:mail", "m")
    wait_for(ledger.lines, 30)
    resolver.take(25)
    server.client().client_kill_filter(_type="normal", skipme=True)
    resolver.wait_asked(worker)
    resolver.take(0)
    wait_for(lambda: d.events("redis_error_cleared", queue="mail"), 100)
    assert d.workers()["mail/0"] == worker and not d.events("worker_stuck")
    assert ledger.lines() == ["m"]
