#ifndef ADMIN_INTERRUPT_H
#define ADMIN_INTERRUPT_H

#include <signal.h>
#include <stdbool.h>

/*
 * Long work is interrupted between two steps, so that what was done can be told. A second INT or
 * TERM ends the program at once. interrupt_end() gives the signals back; if one came, it is raised
 * again, so that the shell sees how the program ended. Call it after the last line was written.
 */
void interrupt_begin(void);
bool interrupt_asked(void);

/* The same for who waits in ppoll(2) for children too: INT, TERM and CHLD are blocked and wake it, the second
 * INT or TERM is counted like the first. Fills in what to poll with. */
void interrupt_begin_counting(sigset_t *open);
int interrupt_count(void);

void interrupt_end(void);

#endif
