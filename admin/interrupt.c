/* INT and TERM while long work is under way. The handler sets a flag, nothing more. */
#include <signal.h>
#include <stdio.h>

#include "admin/interrupt.h"

static volatile sig_atomic_t asked;	/* the signal that came; 0: none */

static void on_signal(int sig)
{
	asked = sig;
}

void interrupt_begin(void)
{
	/* Reset by the first: the second one ends us. */
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };

	sigemptyset(&action.sa_mask);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

bool interrupt_asked(void)
{
	return asked != 0;
}

void interrupt_end(void)
{
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	if (asked == 0)
		return;
	fflush(NULL);
	raise(asked);
}
