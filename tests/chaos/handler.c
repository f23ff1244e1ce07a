/*
 * The handler of the chaos regime: does what the first letter of its message says, and writes into the
 * ledger when each run begins and how it ends, each line with one write(2) to a file opened O_APPEND.
 *
 *	handler LEDGER		one message on standard input, the exit status is the answer
 *	handler LEDGER stay	a persistent one
 *
 *	b NAME RUN ATTEMPT REDELIVERED INCARNATION WORKER-PID	begins; RUN is PID:MICROSECONDS
 *	t NAME RUN MICROSECONDS					is still at work
 *	e NAME RUN OUTCOME MICROSECONDS				ends: ok retry fail crash poison damaged
 *
 * A message is a letter and a number, its name, and perhaps " ADLER32 BYTES": what the letters ask for is
 * said where they are made, in load.py.
 */
#include <ctype.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct job {
	const char *message;
	size_t len;
	int attempt;
	bool redelivered;
	char name[32], run[48];
};

static int ledger;

static long long now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...)
{
	char line[512];
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(line, sizeof(line), format, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(line) || write(ledger, line, (size_t)n) != n)
		_exit(70);
}

static void end(const struct job *j, const char *outcome)
{
	note("e %s %s %s %lld\n", j->name, j->run, outcome, now_us());
}

static uint32_t adler32(const char *data, size_t len)
{
	uint32_t a = 1, b = 0;

	for (size_t i = 0; i < len; i++) {
		a = (a + (unsigned char)data[i]) % 65521;
		b = (b + a) % 65521;
	}
	return b << 16 | a;
}

/* Whether the bytes behind the name, if there are any, are those that were pushed. */
static bool is_whole(const struct job *j)
{
	size_t at = strlen(j->name);

	if (j->len == at)
		return true;
	return j->len >= at + 10 && j->message[at] == ' ' && j->message[at + 9] == ' ' &&
	       strtoul(j->message + at + 1, NULL, 16) == adler32(j->message + at + 10, j->len - at - 10);
}

static void begin(struct job *j)
{
	const char *incarnation = getenv("QUREDIS_INCARNATION");
	size_t n = 1;

	while (n < j->len && n < sizeof(j->name) - 1 && j->message[n] >= '0' && j->message[n] <= '9')
		n++;
	memcpy(j->name, j->message, n);
	j->name[n] = '\0';
	snprintf(j->run, sizeof(j->run), "%d:%lld", (int)getpid(), now_us());
	note("b %s %s %d %d %s %d\n", j->name, j->run, j->attempt, j->redelivered, incarnation == NULL ? "-" : incarnation,
	    (int)getppid());
}

/* 50 to 300 ms, by its number */
static void take_a_while(const struct job *j)
{
	for (int i = 5 * (1 + atoi(j->name + 1) % 6); i > 0; i--) {
		if (j->name[0] == 'k')
			note("t %s %s %lld\n", j->name, j->run, now_us());
		usleep(10000);
	}
}

enum outcome { OK, RETRY, FAIL, REJECT };

static enum outcome handle(struct job *j)
{
	static const char *const words[] = { "ok", "retry", "fail", "fail" };
	enum outcome outcome = OK;

	begin(j);
	if (!is_whole(j)) {
		end(j, "damaged");
		return FAIL;
	}
	switch (tolower(j->name[0])) {
	case 's':
	case 'k':
		take_a_while(j);
		break;
	case 'r':
		outcome = j->attempt == 1 ? RETRY : OK;
		break;
	case 'f':
		outcome = FAIL;
		break;
	case 'x':
		outcome = REJECT;
		break;
	case 'c':
		end(j, "crash");
		_exit(3);
	case 'p':
		end(j, "poison");
		kill(getppid(), SIGKILL);
		pause();
	}
	end(j, words[outcome]);
	return outcome;
}

static void *grown(void *p, size_t size)
{
	p = realloc(p, size);
	if (p == NULL)
		_exit(71);
	return p;
}

static int once(void)
{
	static const int statuses[] = { 0, 75, 1, 65 };
	const char *attempt = getenv("QUREDIS_ATTEMPT"), *redelivered = getenv("QUREDIS_REDELIVERED");
	struct job j = { .attempt = atoi(attempt == NULL ? "0" : attempt),
		.redelivered = redelivered != NULL && *redelivered == '1' };
	char *message = NULL;
	size_t room = 0;
	ssize_t n = 1;

	for (; n > 0; j.len += (size_t)n) {
		if (room - j.len < 65536)
			message = grown(message, room = 2 * room + 131072);
		n = read(0, message + j.len, room - j.len);
		if (n < 0)
			return 70;
	}
	j.message = message;
	return statuses[handle(&j)];
}

static int stay(void)
{
	static const char *const answers[] = { "OK %lu\n", "RETRY %lu 50ms\n", "FAIL %lu\n", "REJECT %lu\n" };
	unsigned long serial;
	char head[1024], *message = NULL;
	struct job j;

	while (fgets(head, sizeof(head), stdin) != NULL &&
	       sscanf(head, "JOB %lu %d %zu", &serial, &j.attempt, &j.len) == 3) {
		message = grown(message, j.len + 1);
		if (fread(message, 1, j.len + 1, stdin) != j.len + 1)
			return 1;
		j.message = message;
		j.redelivered = strstr(head, " redelivered=1") != NULL;
		printf(answers[handle(&j)], serial);
		fflush(stdout);
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc < 2 || (ledger = open(argv[1], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666)) == -1)
		return 64;
	return argc > 2 ? stay() : once();
}
