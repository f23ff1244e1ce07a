"""A resolver that takes long: to resolve a name blocks, but it is no silence of Redis, and the master does not take the process for stuck."""
import os
import subprocess

import pytest

from harness import QUREDIS, SANITIZED, queue, wait_for

pytestmark = pytest.mark.skipif(SANITIZED, reason="a sanitizer must come first")

# A name that begins with "slow." is the host behind it, after as many seconds as the file SLOW says.
RESOLVER = r"""
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void note(const char *file)
{
	int fd = open(file, O_WRONLY | O_CREAT | O_APPEND, 0600);

	dprintf(fd, "%d\n", (int)getpid());
	close(fd);
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **out)
{
	int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = dlsym(RTLD_NEXT, "getaddrinfo");
	FILE *f = fopen(getenv("SLOW"), "r");
	unsigned left = 0;

	if (node == NULL || strncmp(node, "slow.", 5) != 0)
		return real(node, service, hints, out);
	if (f != NULL && fscanf(f, "%u", &left) == 1 && left > 0)
		note(getenv("RESOLVING"));
	while (left > 0)
		left = sleep(left);
	return real(node + 5, service, hints, out);
}
"""


class Resolver:
    def __init__(self, tmp):
        self._file, self._asked = tmp / "slow", tmp / "resolving"
        (tmp / "slow.c").write_text(RESOLVER)
        subprocess.run(["cc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", tmp / "slow.so", tmp / "slow.c"], check=True, timeout=60)
        self.env = {"LD_PRELOAD": str(tmp / "slow.so"), "SLOW": str(self._file), "RESOLVING": str(self._asked)}
        self.take(0)

    def take(self, seconds):
        self._asked.unlink(missing_ok=True)
        self._file.write_text(f"{seconds}\n")

    def wait_asked(self, pid):
        wait_for(lambda: self._asked.exists() and str(pid) in self._asked.read_text().split(), 60, "a question to the resolver")


@pytest.fixture
def resolver(tmp):
    return Resolver(tmp)


def slow(server):
    return {"url": server.tcp_url.replace("127.0.0.1", "slow.127.0.0.1")}


def test_a_connection_has_its_time_after_the_name_is_resolved(redis_server, resolver, quredisd, ledger):
    """As with a first name server that is dead: each name takes longer than an answer may."""
    server = redis_server(tcp=True)
    resolver.take(6)
    d = quredisd(redis=slow(server), queues=[queue("mail", ledger.recorder())], env=resolver.env)
    server.client().lpush("ingress:mail", "m")
    wait_for(lambda: ledger.runs(), 60)
    assert subprocess.run([QUREDIS, "-c", d.conf, "ls"], env={**os.environ, **resolver.env}, timeout=60, check=False).returncode == 0
    assert not d.events("redis_down") and not d.events("redis_error")


@pytest.mark.limit(150)
def test_a_worker_that_resolves_a_name_is_not_stuck(redis_server, resolver, quredisd, handler, ledger, tmp):
    """It reconnects while its handler runs, and the name takes longer than a loop may stand still. The handler ends meanwhile; nothing runs twice."""
    server = redis_server(tcp=True)
    body = handler("read -r m; echo $m >>@LEDGER@; until grep -qsx $PPID @TMP@/resolving; do sleep 0.02; done")
    d = quredisd(redis=slow(server), queues=[queue("mail", body, timeout="2s")], supervisor={"kill_grace": "1s"}, env=resolver.env)
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
