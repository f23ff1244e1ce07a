/* The master reads its signals from a descriptor in its loop; it has no signal handlers. master.c decides what each
 * signal means. */
#include <sys/signalfd.h>

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

#include "common/base/base.h"
#include "supervisor/host/signals.h"

static const int orders[] = { SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGCHLD };
/* XFSZ: a write beyond the file size limit fails instead, as on a full disk */
static const int ignored[] = { SIGPIPE, SIGXFSZ, SIGTTIN, SIGTTOU, SIGWINCH };
static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT };

static void set_all(const int *list, size_t n, void (*disposition)(int))
{
	struct sigaction action = { .sa_handler = disposition };

	for (size_t i = 0; i < n; i++)
		sigaction(list[i], &action, NULL);
}

static sigset_t set_of_orders(void)
{
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < nitems(orders); i++)
		sigaddset(&set, orders[i]);
	return set;
}

void signals_hold(void)
{
	sigset_t set = set_of_orders();

	sigprocmask(SIG_BLOCK, &set, NULL);
}

void signals_release(void)
{
	sigset_t set = set_of_orders();

	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

int signals_open(void)
{
	sigset_t set = set_of_orders();

	set_all(orders, nitems(orders), SIG_DFL);	/* a signal inherited as ignored would never arrive */
	set_all(ignored, nitems(ignored), SIG_IGN);
	if (sigprocmask(SIG_SETMASK, &set, NULL) == -1)
		return -1;
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int signals_next(int fd)
{
	struct signalfd_siginfo info;
	ssize_t n;

	do
		n = read(fd, &info, sizeof(info));
	while (n == -1 && errno == EINTR);
	return n == (ssize_t)sizeof(info) ? (int)info.ssi_signo : 0;
}

/*
 * Blocks all signals but faults. For the child a blocked signal, SIGPIPE included, is as good as an ignored one, and no
 * disposition has to be restored before exec.
 */
void signals_child(void)
{
	sigset_t set;

	sigfillset(&set);
	for (size_t i = 0; i < nitems(faults); i++)
		sigdelset(&set, faults[i]);
	sigprocmask(SIG_SETMASK, &set, NULL);
	set_all(ignored, nitems(ignored), SIG_DFL);
}

int signals_wait_stop(int timeout_ms)
{
	struct timespec ts = { .tv_sec = timeout_ms / 1000, .tv_nsec = timeout_ms % 1000 * 1000000L };
	sigset_t set;
	int sig;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGQUIT);
	sig = sigtimedwait(&set, NULL, &ts);
	return sig > 0 ? sig : 0;
}
