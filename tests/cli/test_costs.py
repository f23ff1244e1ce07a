"""What a command that looks costs grows with the number of things that Redis holds, all kinds of them at once."""
import os
import re
import subprocess

import pytest

from harness import QUREDIS, queue
from harness.crowd import THINGS, fill, grows_with
from harness.paths import ROOT

MANY, TIMES = 5000, 12      # and a tenth of them
NOISE_MS = 10

# each command that looks, as one works with much
COMMANDS = """
dlq export mail
dlq ls mail
dlq ls mail --class E7
dlq show mail no-such-id
dlq stats mail
doctor
done ls mail
done ls mail -n 20000
health
ls
nodes
peek mail delayed
peek mail delayed --text zzz
peek mail escape --text zzz
peek mail ingress --text zzz
operations
peek mail transit --text zzz
schedule
stale
stats
top --once
trend mail
dlq rm mail --all --dry-run
retry mail transit --dry-run
""".strip().splitlines()
# these read nothing of Redis, or one message
OTHERS = {"completion", "help", "run", "status", "version", "web"}


def test_every_command_that_looks_is_here():
    text = (ROOT / "admin/commands/table.c").read_text()
    looks = [row.split('"')[1] for row in re.findall(r"\n\t\{(.*?)\},\n", text, re.DOTALL) if "COMMAND_LOOKS" in row]
    assert {c for c in looks if c not in OTHERS} == {c for c in looks if any(line.startswith(c) for line in COMMANDS)}


def cost(d, command):
    """Its processor time in ms."""
    with subprocess.Popen([str(QUREDIS), "-c", str(d.conf), *command.split()], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as p:
        _, status, used = os.wait4(p.pid, 0)
        p.returncode = os.waitstatus_to_exitcode(status)
    assert p.returncode in (0, 1, 2, 3, 65, 66), (command, p.returncode)
    return (used.ru_utime + used.ru_stime) * 1000


def crowded(redis, n):
    """A Redis with n of each thing. A key of a wrong type would end commands."""
    for thing in THINGS:
        if thing != "with_broken_trays":
            fill(redis.client(), thing, n)
    return redis


@pytest.mark.limit(300)
def test_a_cost_grows_with_the_number_of_things(redis_server, quredisd):
    """Others on the machine make processors slower, so a command is measured anew if it seems to cost too much."""
    few, many = [quredisd(redis=crowded(redis_server(), n), queues=[queue("mail", "/bin/cat")], start=False) for n in (MANY // 10, MANY)]

    def is_dear(command):
        less, more = cost(few, command), cost(many, command)
        print(f"{command}: {less:.0f} ms, {more:.0f} ms")
        return not grows_with(less, more, TIMES, NOISE_MS)
    assert not [c for c in COMMANDS if is_dear(c) and is_dear(c) and is_dear(c)]
