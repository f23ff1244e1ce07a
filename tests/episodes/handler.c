/*
 * The handler of the episodes (tests/harness/regime_handler.h): does what its message asks for, and notes each run in the ledger.
 *
 *	B NAME ATTEMPT REDELIVERED PID		a run begins
 *	E NAME ATTEMPT OUTCOME PID		it ends: ok retry fail reject crash
 *	X ATTEMPT LENGTH PID			a payload that is no message of the producer
 *
 * A message is "NAME KIND MILLISECONDS |BYTES"; load.py describes the kinds. What must not depend on a well-behaved handler, it
 * does badly: it prints its payload where answers are read, dies after it has answered, and answers twice.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "../harness/regime_handler.h"

enum { LATE_MS = 20 };

static char name[32], kind;	/* of the last message */
static char twice[64];		/* the answer that is given once more; empty: the process dies instead */

static void work(int ms)
{
	struct timespec left = { ms / 1000, ms % 1000 * 1000000L };

	while (ms > 0 && nanosleep(&left, &left) != 0)
		;
}

static void die(int sig)
{
	struct rlimit none = { 0, 0 };

	setrlimit(RLIMIT_CORE, &none);
	signal(sig, SIG_DFL);
	raise(sig);
}

static void is_late(int sig)
{
	(void)sig;
	if (twice[0] == '\0')
		die(SIGSEGV);
	if (write(STDOUT_FILENO, twice, strlen(twice)) == -1)
		_exit(70);
}

static void be_late(const char *answer)
{
	struct itimerval once = { .it_value = { .tv_usec = LATE_MS * 1000 } };
	struct sigaction action = { .sa_handler = is_late, .sa_flags = SA_RESTART };

	snprintf(twice, sizeof(twice), "%s", answer);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &once, NULL);
}

/* A process of its own session, which must end with this run. */
static void leave_a_daemon(void)
{
	if (fork() == 0) {
		setsid();
		for (int fd = 0; fd < 20; fd++)
			close(fd);
		sleep(600);
		_exit(0);
	}
}

enum outcome handle_job(const struct job *j)
{
	static const char *const words[] = { "ok", "retry", "fail", "reject" };
	enum outcome outcome = OK;
	int ms;

	kind = '\0';
	if (sscanf(j->message, "%31s %c %d |", name, &kind, &ms) != 3 || name[0] != 'm') {
		note("X %d %zu %d\n", j->attempt, j->len, (int)getpid());
		return OK;
	}
	note("B %s %d %d %d\n", name, j->attempt, j->redelivered, (int)getpid());
	work(ms);
	switch (kind) {
	case 'r':
		outcome = j->attempt == 1 ? RETRY : OK;
		break;
	case 'f':
		outcome = j->attempt == 1 ? FAIL : OK;
		break;
	case 'j':
		outcome = REJECT;
		break;
	case 'c':
		note("E %s %d crash %d\n", name, j->attempt, (int)getpid());
		die(SIGKILL);
		break;
	case 'd':
		leave_a_daemon();
		break;
	case 'g':
		print_all(j->message, j->len);
		break;
	}
	note("E %s %d %s %d\n", name, j->attempt, words[outcome], (int)getpid());
	return outcome;
}

void after_answer(const char *answer)
{
	if (kind == 't' || kind == 'l')
		be_late(kind == 't' ? answer : "");
}
