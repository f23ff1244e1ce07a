/*
 * A handler that stays and does what its messages say, one command a line: answers, in its own time or any order, noise, deaths.
 * It is the test program itself, executed again.
 */
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/persistent/scripted_handler.h"

#include "common/base/alloc.h"

static FILE *answers;
static unsigned long held[1024];
static int nheld;

static void say(FILE *out, const char *text, unsigned long serial, bool newline)
{
	for (; *text != '\0'; text++)
		if (*text == '@')
			fprintf(out, "%lu", serial);
		else
			putc(*text, out);
	if (newline)
		putc('\n', out);
	fflush(out);
}

static void fill(FILE *out, long n)
{
	while (n-- > 0)
		putc('x', out);
	fflush(out);
}

static void release(void)
{
	while (nheld > 0)
		fprintf(answers, "OK %lu\n", held[--nheld]);
	fflush(answers);
}

static void refuse(void)
{
	for (int i = 0; i < nheld; i++)
		fprintf(answers, "FAIL %lu\n", held[i]);
	nheld = 0;
	fflush(answers);
}

static void leave_a_process(void)
{
	if (fork() == 0) {
		setsid();
		for (;;)
			pause();
	}
}

static void obey_word(const char *word, const char *rest, unsigned long serial)
{
	if (strcmp(word, "say") == 0)
		say(answers, rest, serial, true);
	else if (strcmp(word, "part") == 0)
		say(answers, rest, serial, false);
	else if (strcmp(word, "out") == 0)
		say(stdout, rest, serial, true);
	else if (strcmp(word, "err") == 0)
		say(stderr, rest, serial, true);
	else if (strcmp(word, "errpart") == 0)
		say(stderr, rest, serial, false);
	else if (strcmp(word, "fill") == 0)
		fill(answers, atol(rest));
	else if (strcmp(word, "nap") == 0)
		poll(NULL, 0, atoi(rest));
	else if (strcmp(word, "hold") == 0)
		held[nheld++] = serial;
	else if (strcmp(word, "release") == 0)
		release();
	else if (strcmp(word, "refuse") == 0)
		refuse();
	else if (strcmp(word, "closein") == 0)
		close(0);
	else if (strcmp(word, "closeout") == 0)
		close(fileno(answers));
	else if (strcmp(word, "deaf") == 0)
		signal(SIGTERM, SIG_IGN);
	else if (strcmp(word, "spawn") == 0)
		leave_a_process();
	else if (strcmp(word, "die") == 0)
		kill(getpid(), SIGKILL);
	else if (strcmp(word, "exit") == 0)
		_exit(atoi(rest));
	else if (strcmp(word, "stuck") == 0)
		for (;;)
			pause();
	else if (strcmp(word, "flood") == 0)
		for (;;)
			fprintf(answers, "line after line\n");
}

static void obey(char *commands, unsigned long serial)
{
	char *line;

	while ((line = strsep(&commands, "\n")) != NULL) {
		char *rest = line, *word = strsep(&rest, " ");

		obey_word(word, rest == NULL ? "" : rest, serial);
	}
}

uint32_t scripted_sum(const char *data, size_t len)
{
	uint32_t sum = 2166136261u;

	for (size_t i = 0; i < len; i++)
		sum = (sum ^ (unsigned char)data[i]) * 16777619u;
	return sum;
}

/* How it reads, and whether it does what it is told, is in argv. */
int scripted_handler(const char *how)
{
	bool only_ok = strcmp(how, "ok") == 0, sums = strcmp(how, "sum") == 0;
	const char *reply_fd = getenv("QUREDIS_REPLY_FD");
	unsigned long serial, attempt, bytes;
	char head[1024], *payload = NULL;

	answers = reply_fd == NULL ? stdout : fdopen(atoi(reply_fd), "w");
	if (strcmp(how, "bytewise") == 0)
		setvbuf(stdin, NULL, _IONBF, 0);
	while (fgets(head, sizeof(head), stdin) != NULL) {
		if (sscanf(head, "JOB %lu %lu %lu", &serial, &attempt, &bytes) != 3)
			_exit(99);
		payload = alloc_resize(payload, bytes + 1, 1);
		if (fread(payload, 1, bytes + 1, stdin) != bytes + 1 || payload[bytes] != '\n')
			_exit(98);
		payload[bytes] = '\0';
		if (only_ok)
			say(answers, "OK @", serial, true);
		else if (sums)
			fprintf(answers, "FAIL %lu %08x %s", serial, scripted_sum(payload, bytes), head), fflush(answers);
		else
			obey(payload, serial);
	}
	release();
	free(payload);
	return 0;
}
