/*
 * The handler of the chaos regime (tests/harness/regime_handler.h): does what the first letter of its message says, and writes into the
 * ledger when each run begins and how it ends.
 *
 *	b NAME RUN ATTEMPT REDELIVERED INCARNATION WORKER-PID	begins; RUN is PID:MICROSECONDS
 *	t NAME RUN MICROSECONDS					is still at work
 *	e NAME RUN OUTCOME MICROSECONDS				ends: ok retry fail crash poison damaged
 *
 * A message is a letter and a number, its name, and perhaps " ADLER32 BYTES": what the letters ask for is
 * said where they are made, in load.py.
 */
#include <ctype.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../harness/regime_handler.h"

/* A run of a job. */
struct run {
	const struct job *job;
	char name[32], id[48];
};

static long long now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

static void end(const struct run *r, const char *outcome)
{
	note("e %s %s %s %lld\n", r->name, r->id, outcome, now_us());
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
static bool is_whole(const struct run *r)
{
	size_t at = strlen(r->name);

	if (r->job->len == at)
		return true;
	return r->job->len >= at + 10 && r->job->message[at] == ' ' && r->job->message[at + 9] == ' ' &&
	       strtoul(r->job->message + at + 1, NULL, 16) == adler32(r->job->message + at + 10, r->job->len - at - 10);
}

static void begin(struct run *r)
{
	const char *incarnation = getenv("QUREDIS_INCARNATION");
	size_t n = 1;

	while (n < r->job->len && n < sizeof(r->name) - 1 && r->job->message[n] >= '0' && r->job->message[n] <= '9')
		n++;
	memcpy(r->name, r->job->message, n);
	r->name[n] = '\0';
	snprintf(r->id, sizeof(r->id), "%d:%lld", (int)getpid(), now_us());
	note("b %s %s %d %d %s %d\n", r->name, r->id, r->job->attempt, r->job->redelivered, incarnation == NULL ? "-" : incarnation,
	    (int)getppid());
}

/* 50 to 300 ms, by its number */
static void take_a_while(const struct run *r)
{
	for (int i = 5 * (1 + atoi(r->name + 1) % 6); i > 0; i--) {
		if (r->name[0] == 'k')
			note("t %s %s %lld\n", r->name, r->id, now_us());
		usleep(10000);
	}
}

enum outcome handle_job(const struct job *j)
{
	static const char *const words[] = { "ok", "retry", "fail", "fail" };
	struct run r = { .job = j };
	enum outcome outcome = OK;

	begin(&r);
	if (!is_whole(&r)) {
		end(&r, "damaged");
		return FAIL;
	}
	switch (tolower(r.name[0])) {
	case 's':
	case 'k':
		take_a_while(&r);
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
		end(&r, "crash");
		_exit(3);
	case 'p':
		end(&r, "poison");
		kill(getppid(), SIGKILL);
		pause();
	}
	end(&r, words[outcome]);
	return outcome;
}

void after_answer(const char *answer)
{
	(void)answer;
}
