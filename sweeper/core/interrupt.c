/* TERM tells the sweeper to read its order, and to check that the master lives. It is delivered only while the sweeper polls. */
#include <sys/types.h>

#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include "sweeper/core/interrupt.h"

static pid_t master_pid;

static void on_term(int sig)
{
	(void)sig;
}

void interrupt_catch(pid_t master, sigset_t *while_polling)
{
	struct sigaction sa = { .sa_handler = on_term };

	master_pid = master;
	sigemptyset(&sa.sa_mask);
	sigaction(SIGTERM, &sa, NULL);
	sigprocmask(SIG_SETMASK, NULL, while_polling);
	sigdelset(while_polling, SIGTERM);
}

bool interrupt_came(void)
{
	return getppid() != master_pid;
}
