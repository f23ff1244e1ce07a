#ifndef SUPERVISOR_HOST_SIGNALS_H
#define SUPERVISOR_HOST_SIGNALS_H

#include <stdbool.h>

/*
 * The first step of main(): an order that arrives before signals_open() waits, and neither ends the process nor gets
 * lost (PID 1). Before main() no program can hold a signal: an order then has its default action, or none as PID 1,
 * unless who executes the master has blocked it. None of the master's children is executed: they are forked, with this
 * mask, and signals_child() widens it. signals_release(): in a process that will be no master.
 */
void signals_hold(void);
void signals_release(void);

/*
 * Blocks the signals that are orders to the master, and ignores the others that a terminal sends. Call it before the
 * first fork. Returns a signalfd (close-on-exec, non-blocking), or -1 and errno.
 */
int signals_open(void);

/* The next signal; 0: none. */
int signals_next(int fd);

/* In a child right after fork: the state that common/board/child.h promises. */
void signals_child(void);

/* Waits at most timeout_ms for a signal that ends a start. Returns the signal, or 0. */
int signals_wait_stop(int timeout_ms);

#endif
