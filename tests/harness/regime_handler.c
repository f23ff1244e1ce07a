/* See regime_handler.h. */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "regime_handler.h"

static int ledger;

void note(const char *format, ...)
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

void print_all(const char *data, size_t len)
{
	while (len > 0) {
		ssize_t n = write(STDOUT_FILENO, data, len);

		if (n <= 0)
			_exit(70);
		data += n;
		len -= (size_t)n;
	}
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
	static const int statuses[] = { [OK] = 0, [RETRY] = 75, [FAIL] = 1, [REJECT] = 65 };
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
	return statuses[handle_job(&j)];
}

static int stay(void)
{
	static const char *const answers[] = { [OK] = "OK %s\n", [RETRY] = "RETRY %s 50ms\n", [FAIL] = "FAIL %s\n", [REJECT] = "REJECT %s\n" };
	char head[1024], serial[32], answer[64], *message = NULL;

	while (fgets(head, sizeof(head), stdin) != NULL) {
		struct job j = {0};

		if (sscanf(head, "JOB %31s %d %zu", serial, &j.attempt, &j.len) != 3)
			return 1;
		message = grown(message, j.len + 1);
		if (fread(message, 1, j.len + 1, stdin) != j.len + 1)
			return 1;
		message[j.len] = '\0';
		j.message = message;
		j.redelivered = strstr(head, " redelivered=1") != NULL;
		snprintf(answer, sizeof(answer), answers[handle_job(&j)], serial);
		print_all(answer, strlen(answer));
		after_answer(answer);
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc < 2 || (ledger = open(argv[1], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666)) == -1)
		return 64;
	return argc > 2 ? stay() : once();
}
