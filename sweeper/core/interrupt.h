#ifndef SWEEPER_CORE_INTERRUPT_H
#define SWEEPER_CORE_INTERRUPT_H

#include <sys/types.h>

#include <signal.h>
#include <stdbool.h>

/* Catches TERM. Sets *while_polling to the signal mask for ppoll(2). master: its pid; the sweeper ends when the master dies. */
void interrupt_catch(pid_t master, sigset_t *while_polling);

/* True: the master has died, so redis_wait() gives up. After a mere order the sweeper first finishes its present request. */
bool interrupt_came(void);

#endif
