/*
 * The handler of the episodes: does what its message asks for, and notes each run in the ledger, a line with one write(2).
 *
 *	handler LEDGER		one message on standard input, the exit status is the answer
 *	handler LEDGER stay	a persistent one
 *
 *	B NAME ATTEMPT REDELIVERED PID		a run begins
 *	E NAME ATTEMPT OUTCOME PID		it ends: ok retry fail reject crash
 *	X ATTEMPT LENGTH PID			a payload that is no message of the producer
 *
 * A message is "NAME KIND MILLISECONDS |BYTES"; load.py describes the kinds. What must not depend on a well-behaved handler, it
 * does badly: it prints its payload where answers are read, dies after it has answered, and answers twice.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { LATE_MS = 20 };

struct job {
	char name[32], kind;
	int attempt, ms;
	bool redelivered;
	const char *message;
	size_t len;
};

static int ledger;
static char twice[64];		/* the answer that is given once more; empty: the process dies instead */

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...)
{
	char line[256];
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(line, sizeof(line), format, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(line) || write(ledger, line, (size_t)n) != n)
		_exit(70);
}

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

static void print_all(const char *data, size_t len)
{
	while (len > 0) {
		ssize_t n = write(STDOUT_FILENO, data, len);

		if (n <= 0)
			_exit(70);
		data += n;
		len -= (size_t)n;
	}
}

enum outcome { OK, RETRY, FAIL, REJECT };

static enum outcome handle(struct job *j)
{
	static const char *const words[] = { "ok", "retry", "fail", "reject" };
	enum outcome outcome = OK;

	if (sscanf(j->message, "%31s %c %d |", j->name, &j->kind, &j->ms) != 3 || j->name[0] != 'm') {
		note("X %d %zu %d\n", j->attempt, j->len, (int)getpid());
		return OK;
	}
	note("B %s %d %d %d\n", j->name, j->attempt, j->redelivered, (int)getpid());
	work(j->ms);
	switch (j->kind) {
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
		note("E %s %d crash %d\n", j->name, j->attempt, (int)getpid());
		die(SIGKILL);
		break;
	case 'd':
		leave_a_daemon();
		break;
	case 'g':
		print_all(j->message, j->len);
		break;
	}
	note("E %s %d %s %d\n", j->name, j->attempt, words[outcome], (int)getpid());
	return outcome;
}

static char *grown(char *p, size_t size)
{
	p = realloc(p, size);
	if (p == NULL)
		_exit(71);
	return p;
}

static int number(const char *variable)
{
	const char *value = getenv(variable);

	return value == NULL ? 0 : atoi(value);
}

static int once(void)
{
	static const int statuses[] = { 0, 75, 1, 65 };
	struct job j = { .attempt = number("QUREDIS_ATTEMPT"), .redelivered = number("QUREDIS_REDELIVERED") == 1 };
	char *message = NULL;
	size_t room = 0;
	ssize_t n = 1;

	for (; n > 0; j.len += (size_t)n) {
		if (room - j.len < 65536)
			message = grown(message, room = 2 * room + 131072);
		n = read(STDIN_FILENO, message + j.len, room - j.len - 1);
		if (n < 0)
			return 70;
	}
	message[j.len] = '\0';
	j.message = message;
	return statuses[handle(&j)];
}

static int stay(void)
{
	static const char *const answers[] = { "OK %s\n", "RETRY %s 50ms\n", "FAIL %s\n", "REJECT %s\n" };
	char head[1024], serial[32], answer[64], *message = NULL;

	while (fgets(head, sizeof(head), stdin) != NULL) {
		struct job j = { .kind = '\0' };

		if (sscanf(head, "JOB %31s %d %zu", serial, &j.attempt, &j.len) != 3)
			return 1;
		message = grown(message, j.len + 1);
		if (fread(message, 1, j.len + 1, stdin) != j.len + 1)
			return 1;
		message[j.len] = '\0';
		j.message = message;
		j.redelivered = strstr(head, " redelivered=1") != NULL;
		snprintf(answer, sizeof(answer), answers[handle(&j)], serial);
		print_all(answer, strlen(answer));
		if (j.kind == 't' || j.kind == 'l')
			be_late(j.kind == 't' ? answer : "");
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc < 2 || (ledger = open(argv[1], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666)) == -1)
		return 64;
	return argc > 2 ? stay() : once();
}
