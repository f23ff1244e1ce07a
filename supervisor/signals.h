#ifndef SUPERVISOR_SIGNALS_H
#define SUPERVISOR_SIGNALS_H

#include <stdbool.h>

/* Blocks what the master takes orders by and ignores what a terminal sends besides. Before the first fork.
 * Returns a signalfd (close-on-exec, non-blocking), or -1 and errno. */
int signals_open(void);

/* The next signal that arrived; 0: none. */
int signals_next(int fd);

/* In a just-forked child: what common/child.h promises. */
void signals_child(void);

/* Waits for one of those that end a start, at most timeout_ms. Returns it, or 0. */
int signals_wait_stop(int timeout_ms);

#endif
