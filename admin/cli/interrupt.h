#ifndef ADMIN_CLI_INTERRUPT_H
#define ADMIN_CLI_INTERRUPT_H

#include <signal.h>
#include <stdbool.h>

/*
 * INT or TERM stops long work between two steps, so that the command can print its result. A second one ends the
 * program at once. interrupt_end() restores the signals, and raises the signal again, so that the shell sees how the
 * program ended. Call it after the last line was printed.
 */
void interrupt_begin(void);
bool interrupt_asked(void);
void interrupt_ask(void);		/* as if TERM had come */

/*
 * As interrupt_begin(), for a caller that also waits for children in ppoll(2): INT, TERM and CHLD are blocked, except
 * during the poll, and the second INT or TERM only counts. *open: the signal mask for ppoll().
 */
void interrupt_begin_counting(sigset_t *open);
int interrupt_count(void);

/* the work failed anyway: interrupt_end() raises no signal, so that the exit status says why */
void interrupt_forget(void);
void interrupt_end(void);

#endif
