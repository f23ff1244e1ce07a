"""Signals that arrive before a process has begun: at the exec of the master, and at the birth of its children."""
import random
import signal
import subprocess
import time

import pytest

from harness import SANITIZED, queue, wait_for

# As a starter that blocks the signal: one that comes before the exec is pending after it.
PENDING = """
import os, signal, sys
sig = signal.Signals[sys.argv[1]]
signal.pthread_sigmask(signal.SIG_BLOCK, [sig])
os.kill(os.getpid(), sig)
os.execv(sys.argv[2], sys.argv[2:])
"""


def started_with(quredisd, handler, name):
    return quredisd(queues=[queue("mail", handler("cat"))], inside=["/usr/bin/python3", "-c", PENDING, name], start=False).start(wait=False)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGQUIT"])
def test_a_stop_that_is_pending_at_exec_stops(quredisd, handler, name):
    d = started_with(quredisd, handler, name)
    assert d.wait_exit() == 0 and d.events("stopped")


def test_a_reload_that_is_pending_at_exec_reloads(quredisd, handler):
    d = started_with(quredisd, handler, "SIGHUP")
    d.wait_ready()
    d.wait_event("signal_received", signal="SIGHUP")
    assert d.running() and d.stop() == 0


def test_a_stop_at_any_time_after_exec_ends_a_start(quredisd, handler):
    """Before main() nobody can hold a signal, so it has its default action; then nothing has been begun."""
    rng = random.Random(1)
    d = quredisd(queues=[queue("mail", handler("cat"), workers=2)], start=False)
    codes = []
    for n in range(30):
        said = len(d.lines)
        d.start(wait=False)
        time.sleep(rng.uniform(0, 0.02 * 2 ** (n // 5)))         # under load a start takes longer
        d.signal(signal.SIGTERM)
        codes.append(d.wait_exit())
        assert codes[-1] in (0, 75, -signal.SIGTERM) and (codes[-1] >= 0 or len(d.lines) == said), d.text()
    print(codes)
    assert codes.count(0) > 0


# A process that makes itself unreadable, or asks for a signal at the death of its parent, gets SIGTERM there: the master
# in its second step, a child at its birth.
EARLY = """
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

int prctl(int what, ...)
{
	int (*real)(int, unsigned long, unsigned long, unsigned long, unsigned long) = dlsym(RTLD_NEXT, "prctl");
	unsigned long a[4];
	va_list ap;

	va_start(ap, what);
	for (int i = 0; i < 4; i++)
		a[i] = va_arg(ap, unsigned long);
	va_end(ap);
	if (what == atoi(getenv("EARLY")) && strncmp(program_invocation_short_name, "quredisd", 8) == 0)
		kill(getpid(), SIGTERM);
	return real(what, a[0], a[1], a[2], a[3]);
}
"""
PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 1, 4


@pytest.fixture
def early(tmp):
    if SANITIZED:
        pytest.skip("a sanitizer must come first")
    (tmp / "early.c").write_text(EARLY)
    subprocess.run(["cc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", tmp / "early.so", tmp / "early.c"], check=True, timeout=60)
    return lambda where: {"LD_PRELOAD": str(tmp / "early.so"), "EARLY": str(where)}


def test_the_first_step_of_the_master_holds_signals(quredisd, handler, early):
    d = quredisd(queues=[queue("mail", handler("cat"))], env=early(PR_SET_DUMPABLE), start=False).start(wait=False)
    assert d.wait_exit() == 0 and d.events("stopped")


def test_a_signal_at_its_birth_ends_no_child(quredisd, handler, early):
    """It is born with the mask of the master, and holds every signal until it waits for one."""
    d = quredisd(queues=[queue("mail", handler("cat"), workers=4)], env=early(PR_SET_PDEATHSIG))
    before = d.wait_workers("mail", 4)
    assert d.quredis("restart", "mail").code == 0
    wait_for(lambda: len(d.workers()) == 4 and not set(d.workers().values()) & set(before.values()), 60, "other workers")
    assert d.stop() == 0
    assert not d.events("worker_died") and not d.events("sweeper_died")
