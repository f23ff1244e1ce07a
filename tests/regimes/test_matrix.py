"""Redis 8 and Valkey 8 of Debian 13, on any Debian: the short form of `make check-matrix`."""
import os
import subprocess
import sys

import pytest

from harness import BUILD, ROOT, SANITIZED

SERVERS = BUILD.parent / "servers"
PROMISES = ["tests/promises/test_escape.py"]


def units():
    """Those that run each script in a server of their own."""
    sources = [p for p in sorted((ROOT / "tests/unit/queue").glob("test_*.c")) if "tests/unit/private_redis.c" in p.read_text()]
    return [BUILD / "unit" / p.stem for p in sources]


@pytest.mark.limit(600)
@pytest.mark.skipif(SANITIZED, reason="the servers are not ours, and the sanitized programs are tested with the server of this system")
@pytest.mark.skipif(not SERVERS.exists(), reason="no servers of Debian 13: `make servers` fetches them, or says what is missing")
@pytest.mark.parametrize("server", ["redis-server", "valkey-server"])
def test_servers_of_debian_13(server):
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")} | {"QUREDIS_TEST_SERVER": str(SERVERS / server)}
    commands = [*([u] for u in units()), [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *PROMISES]]
    wrong = []
    for command in commands:
        done = subprocess.run(command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        wrong += [done.stdout] if done.returncode else []
    assert not wrong, "\n".join(wrong)
    assert len(commands) > 15
