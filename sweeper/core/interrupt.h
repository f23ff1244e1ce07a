#ifndef SWEEPER_CORE_INTERRUPT_H
#define SWEEPER_CORE_INTERRUPT_H

#include <sys/types.h>

#include <signal.h>
#include <stdbool.h>

/* Catches TERM; *while_polling: the mask to poll with. master: whose end ends us. */
void interrupt_catch(pid_t master, sigset_t *while_polling);

/* For redis_wait(): the master is gone. An order alone lets what is under way be finished. */
bool interrupt_asked(void);

#endif
