"""docs/producers.md: its programs push with the rights that it gives, and its script is that of quredis push --unique."""
import os
import re
import shutil
import subprocess

import pytest

from harness import ROOT, queue, wait_for

PAGE = (ROOT / "docs/producers.md").read_text()
PROGRAMS = {"python": "/usr/bin/python3", "ruby": "ruby", "perl": "perl", "php": "php", "javascript": "node"}


def block(language):
    return re.search(rf"^```{language}\n(.*?)^```$", PAGE, re.M | re.S)[1]


def test_the_script_is_that_of_unique_pushes():
    assert block("lua") == (ROOT / "common/queue/scripts/unique.lua").read_text()


@pytest.mark.parametrize("language", PROGRAMS)
def test_an_example(language, redis_server, quredisd, handler, ledger, tmp):
    """All it pushes arrives, with the id of its header; the unique message once."""
    if shutil.which(PROGRAMS[language]) is None:
        pytest.skip(f"{PROGRAMS[language]} is not installed")
    server = redis_server(tcp=True)
    c = server.client()
    c.execute_command(*re.search(r"^    (ACL SETUSER producer .*)$", PAGE, re.M)[1].split())
    (tmp / "example").write_text(block(language))
    (tmp / "unique.lua").write_text(block("lua"))
    done = subprocess.run([PROGRAMS[language], tmp / "example"], cwd=tmp, capture_output=True, text=True, timeout=60,
                          env={**os.environ, "REDIS_HOST": "127.0.0.1", "REDIS_PORT": str(server.port), "REDIS_PASSWORD": "PASSWORD"})
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said[:4] == ["push 1", "urgent 2", "delayed 1", "unique 1"] and re.fullmatch(r"unique 0 \d{13} unique-1 \d+", said[4]), said
    assert c.lrange("ingress:mail", 0, -1) == [b"quredis/1 id=unique-1\nunique", b"quredis/1 id=plain-1 ttl=1h\nplain", b"quredis/1 id=urgent-1\nurgent"]
    quredisd(redis=server, queues=[queue("mail", handler('echo "$QUREDIS_ID $(cat)" >>@LEDGER@'))])
    wait_for(lambda: len(ledger.lines()) >= 4, 60, "all to run")
    assert ledger.lines()[0] == "urgent-1 urgent"
    assert sorted(ledger.lines()) == ["delayed-1 delayed", "plain-1 plain", "unique-1 unique", "urgent-1 urgent"]
