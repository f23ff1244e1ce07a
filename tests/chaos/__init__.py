"""The chaos regime: everything dies at random, and a checker proves afterwards that nothing was lost.

Two supervisors, as of two hosts, work on one Redis (`appendfsync always`), one of them over a wire that can be cut.
Producers push, faults happen, and everybody writes down what he did: the ledger. When all is quiet again the
checker holds the ledger against what Redis then holds.

    load.py      the queues, what is pushed into them, the producers
    handler.c    does what a message says, and writes down each run; its frame is harness/regime_handler.c
    others.py    another program, which takes some of what is in shared queues
    host.py      one supervisor, and what can happen to it
    server.py    Redis and the way to it, and what can happen to them; wire.py: that way
    regime.py    how much of what; one whole run
    ledger.py    what is written down: files of lines in one directory
    checker.py   what must hold of it
    table.py     one run as a table
    soak         the long form: make soak

A run is checked again, without running it, by `PYTHONPATH=tests /usr/bin/python3 -m chaos.checker DIRECTORY`.
"""
