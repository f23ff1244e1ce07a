/* INT and TERM during long work. The signal handler only notes the signal; the work asks interrupt_asked() between its
 * steps. */
#include <stdio.h>

#include "admin/cli/interrupt.h"

#include "common/base/base.h"

static volatile sig_atomic_t asked;	/* the signal that came last; 0: none */
static volatile sig_atomic_t count;

static void on_signal(int sig)
{
	if (sig == SIGCHLD)
		return;
	asked = sig;
	count++;
}

void interrupt_begin(void)
{
	/* The first signal resets it: the second one ends the process. */
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };

	sigemptyset(&action.sa_mask);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

bool interrupt_asked(void)
{
	return asked != 0;
}

void interrupt_ask(void)
{
	on_signal(SIGTERM);
}

void interrupt_begin_counting(sigset_t *open)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGCHLD };
	struct sigaction action = { .sa_handler = on_signal };
	sigset_t closed;

	sigemptyset(&action.sa_mask);
	sigemptyset(&closed);
	for (size_t i = 0; i < nitems(signals); i++) {
		sigaddset(&closed, signals[i]);
		sigaction(signals[i], &action, NULL);
	}
	sigprocmask(SIG_BLOCK, &closed, open);
}

int interrupt_count(void)
{
	return count;
}

void interrupt_forget(void)
{
	asked = 0;
}

void interrupt_end(void)
{
	sigset_t ours;

	sigemptyset(&ours);
	sigaddset(&ours, SIGINT);
	sigaddset(&ours, SIGTERM);
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	if (asked != 0)
		fflush(NULL);
	sigprocmask(SIG_UNBLOCK, &ours, NULL);
	if (asked != 0)
		raise(asked);
}
