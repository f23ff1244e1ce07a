"""What a message costs, by counts. They depend on no clock, so a change that makes a message dearer is seen on any machine, however busy."""
import collections
import pathlib
import re
import shutil
import signal
import subprocess

import pytest

from harness import SANITIZED, queue, wait_for
from harness.messages import anywhere

pytestmark = pytest.mark.skipif(SANITIZED, reason="sanitizers have costs of their own")

PAYLOAD = b"x" * 93
ANSWERS = r"""
#include <stdio.h>
int main(void)
{
    char line[1024], serial[64];
    static char message[1 << 21];
    unsigned long size;

    while (fgets(line, sizeof(line), stdin) && sscanf(line, "JOB %63s %*u %lu", serial, &size) == 2) {
        if (fread(message, 1, size + 1, stdin) != size + 1)
            return 1;
        printf("OK %s\n", serial);
        fflush(stdout);
    }
}
"""

# How a queue runs, how many messages wait at once, and what each of them may cost. calls: system calls of the worker, without those of a child before it
# becomes the handler. Bytes are those of all clients but the producer. Most depend on how often the worker is faster than its handler and than Redis, so the
# limits are a quarter or more above the dearest order that was measured, also on a busy machine. The instructions of exec do not depend on that: under valgrind
# a handler starts so slowly that the worker takes one message at a time, which is the dearest order. It costs 10,800 to 10,850.
Mode = collections.namedtuple("Mode", "options pushed calls commands to_redis from_redis instructions")
MODES = {
    "exec": Mode({}, 400, 25, 2.2, 230, 150, 12_000),
    "persistent": Mode({"mode": "persistent"}, 400, 6.5, 2.2, 200, 170, 8_500),
    "window": Mode({"mode": "persistent", "window": 64}, 4000, 0.8, 1.7, 160, 150, 5_200),
    "one": Mode({"mode": "persistent"}, 1, 12, 4.2, None, None, 21_500),
}
# While others load the machine, a handler that stays answers one job at a time, and each answer costs the worker its own calls: a look counts again. What makes
# a message dearer does so at each look.
LOOKS = 3
# The id of a message without a header is its SHA-1. valgrind has no SHA instructions, so nettle's substitute for them would count 2,660 instructions a message
# in place of some 300 (docs/design.md, "Libraries").
UNCOUNTED = ["--toggle-collect=nettle_sha1_compress", "--collect-atstart=yes"]
FEWEST = 500        # instructions: fewer are no difference of two runs, but what one of them waited
by_mode = pytest.mark.parametrize("mode", MODES)


@pytest.fixture
def program(tmp):
    """A handler that costs next to nothing."""
    def of(mode):
        if not MODES[mode].options:
            return ["/bin/true"]
        (tmp / "answers.c").write_text(ANSWERS)
        subprocess.run(["cc", "-O2", "-o", tmp / "answers", tmp / "answers.c"], check=True)
        return [tmp / "answers"]
    return of


def figures(client):
    stats, commands = client.info("stats"), client.info("commandstats")
    of_workers = ("brpoplpush", "rpoplpush", "blmove", "lmove", "del", "lrem", "evalsha", "exists")
    return [sum(commands.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in of_workers),
            stats["total_net_input_bytes"], stats["total_net_output_bytes"]]


def run(client, n, at_once):
    """Pushes n messages, and waits until all are done. The figures before and after, without the pushes of many at once."""
    for i in range(0, n, at_once):
        client.lpush("ingress:mail", *[b"%07d" % k + PAYLOAD for k in range(i, i + at_once)])
        before = figures(client) if i == 0 else before
        wait_for(lambda: client.llen("ingress:mail") == 0, 90)
        after = figures(client)
        wait_for(lambda: not anywhere(client, "mail"), 60)
    return [(b - a) / n for a, b in zip(before, after)]


def traced(pid, tmp, what, *options):
    """The system calls of a process during what(), by name; and what that returns."""
    file = tmp / "calls"
    trace = subprocess.Popen(["strace", "-c", *options, "-p", str(pid), "-o", file], stderr=subprocess.PIPE, text=True)
    if "attached" not in trace.stderr.readline():
        pytest.skip("strace may not attach here")
    returned = what()
    trace.send_signal(signal.SIGINT)
    trace.wait(30)
    rows = [line.split() for line in file.read_text().splitlines()]
    return {row[-1]: int(row[3]) for row in rows if len(row) >= 5 and row[3].isdigit() and row[-1] != "total"}, returned


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@by_mode
def test_calls_commands_and_bytes(redis, quredisd, program, tmp, mode):
    m, c = MODES[mode], redis.client()
    n = max(m.pushed, 100)
    d = quredisd(queues=[queue("mail", program(mode), **m.options)], log={"level": "info"})
    worker = d.wait_workers("mail", 1)["mail/0"]
    run(c, 10, 10)
    for _ in range(LOOKS):
        calls, (commands, to_redis, from_redis) = traced(worker, tmp, lambda: run(c, n, m.pushed))
        print(f"\n{mode}: {sum(calls.values()) / n:.2f} calls, {commands:.2f} commands, {to_redis:.0f} and {from_redis:.0f} bytes a message; {calls}")
        if sum(calls.values()) / n <= m.calls:
            break
    assert sum(calls.values()) / n <= m.calls, calls
    assert commands <= m.commands
    assert m.to_redis is None or to_redis <= m.to_redis and from_redis <= m.from_redis


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_a_large_message_is_read_in_large_pieces(redis, quredisd, program, tmp):
    """And not with a wait before each. In pieces of 16 KiB, each with a wait, 1 MiB was 74 reads and 73 waits; with large ones it is 31 and 22."""
    c, n = redis.client(), 20
    d = quredisd(queues=[queue("mail", program("persistent"), mode="persistent", batch={"max": 1})], log={"level": "info"})
    worker = d.wait_workers("mail", 1)["mail/0"]
    run(c, 10, 10)

    def push():
        for _ in range(n):
            c.lpush("ingress:mail", b"x" * (1 << 20))
            wait_for(lambda: not anywhere(c, "mail"), 60)
    for _ in range(LOOKS):
        calls, _ = traced(worker, tmp, push)
        print(calls)
        if calls["read"] + calls["ppoll"] <= 90 * n:
            break
    assert calls["read"] + calls["ppoll"] <= 90 * n, calls


def test_a_busy_queue_fetches_without_blocking(redis, quredisd, program):
    """Also one message at a time: RPOPLPUSH costs Redis a sixth less than BRPOPLPUSH."""
    c = redis.client()
    quredisd(queues=[queue("mail", program("persistent"), mode="persistent", batch={"max": 1})], log={"level": "info"}).wait_workers("mail", 1)
    run(c, 10, 10)

    def blocking():
        return c.info("commandstats")["cmdstat_brpoplpush"]["calls"]
    before = blocking()
    run(c, 400, 400)
    assert blocking() - before < 100


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_a_handler_starts_with_few_signals_reset(redis, quredisd, program, tmp):
    """The two that the worker catches, and those that a supervisor inherits as ignored."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", program("exec"))], log={"level": "info"})
    worker = d.wait_workers("mail", 1)["mail/0"]
    run(c, 10, 10)
    ignored = int(re.search(r"^SigIgn:\t(\w+)", pathlib.Path(f"/proc/{worker}/status").read_text(), re.M)[1], 16).bit_count()
    calls, _ = traced(worker, tmp, lambda: run(c, 50, 50), "-f")
    assert calls["execve"] == 50 and calls["rt_sigaction"] == (2 + ignored) * 50, calls


def instructions(tmp, redis, d, n, at_once):
    """Of the process that has run most of the messages: a worker."""
    out = tmp / f"of-{n}"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    process = subprocess.Popen(["valgrind", "--tool=callgrind", *UNCOUNTED, f"--callgrind-out-file={out}/%p", *d.command()], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=d.environment())
    try:
        run(redis.client(), n, at_once)
    finally:
        process.terminate()
        process.wait(60)
    texts = [p.read_text() for p in out.iterdir()]
    return max(int(re.search(r"^(?:summary|totals): (\d+)", text, re.M)[1]) for text in texts if "session_io" in text)


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
@pytest.mark.limit(300)
@by_mode
def test_instructions(redis, quredisd, program, tmp, mode):
    m = MODES[mode]
    few, many = (400, 1200) if mode == "window" else (100, 300)
    d = quredisd(queues=[queue("mail", program(mode), **m.options)], log={"level": "info"})
    run(redis.client(), 10, 10)
    d.stop()    # Redis has the scripts and the secret
    for _ in range(LOOKS):
        each = (instructions(tmp, redis, d, many, min(many, m.pushed)) - instructions(tmp, redis, d, few, min(few, m.pushed))) / (many - few)
        print(f"\n{mode}: {each:.0f} instructions a message")
        if FEWEST < each <= m.instructions:
            break
    assert FEWEST < each <= m.instructions
