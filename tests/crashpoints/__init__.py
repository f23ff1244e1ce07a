"""Every system call is a crash point.

A whole cycle of messages runs once for each system call of one process: in run N that process is killed at its
Nth call (or the call fails, or its Nth allocation does). Then what a user would start again is started again,
and the ledger is checked. docs/crashpoints.md says what is covered and what came of it.

    faults.py       what is done to a process, which errno which call can have, what is skipped
    tracer.c descent.c call.c       do it, by ptrace; nomem.c: the same for malloc
    lane.py         a redis-server and a directory in which one run follows the other
    cycle.py        one run: daemon, waits that all end, what a user would do
    worker.py sweeper.py shared.py rules.py errand.py master.py       the cycles, by whose calls are counted
    ledger.py       what was pushed and noted, and what must be true of it at the end
    letters.py waiting.py reports.py    the same of what rules apply to: settled(), lost(), wrong(whether there was a fault)
    sweep.py        N = 1, 2, ... until a run ends without a fault
    crashpoints     the program: make crashpoints
"""
