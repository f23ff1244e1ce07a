/*
 * Appends commands to the output buffer of hiredis; redis_flush() sends them. Short commands are formatted here: a worker sends two
 * for each message, and hiredis needs several times as many instructions, with two allocations a command. hiredis formats long ones.
 */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <bsd/string.h>
#include <hiredis/hiredis.h>

#include "common/redis.h"

#define ARGUMENTS_MAX 128
#define SHORT 1024		/* bytes of a command that is formatted here */
#define COUNT_MAX (1 + 20 + 2)	/* bytes of a count: '*' or '$', the digits of a size_t, CR LF */

static char *put_count(char *to, char kind, size_t n)
{
	char digits[20];
	size_t len = 0;

	do
		digits[len++] = (char)('0' + n % 10);
	while ((n /= 10) > 0);
	*to++ = kind;
	while (len > 0)
		*to++ = digits[--len];
	return mempcpy(to, "\r\n", 2);
}

/* Returns the length; 0: the command is longer than SHORT. */
static size_t format_short(char out[SHORT], size_t argc, const char *const *argv, const size_t *lens)
{
	char *to = put_count(out, '*', argc);

	for (size_t i = 0; i < argc; i++) {
		size_t len = lens == NULL ? strlen(argv[i]) : lens[i], room = SHORT - (size_t)(to - out);

		if (room < COUNT_MAX + 2 || len > room - COUNT_MAX - 2)
			return 0;
		to = put_count(to, '$', len);
		if (len > 0)		/* else argv[i] may be NULL */
			to = mempcpy(to, argv[i], len);
		to = mempcpy(to, "\r\n", 2);
	}
	return (size_t)(to - out);
}

void redis_append(struct redis *r, size_t argc, const char *const *argv, const size_t *lens)
{
	char text[SHORT];
	size_t len;
	int rc;

	if (r->state == REDIS_CLOSED)
		return;
	if ((len = format_short(text, argc, argv, lens)) > 0)
		rc = redisAppendFormattedCommand(r->context, text, len);
	else
		rc = redisAppendCommandArgv(r->context, (int)argc, (const char **)(uintptr_t)argv, lens);
	/* Fails only without memory, and then leaves nothing in the buffer and its error in the context: the next flush closes. */
	if (rc == REDIS_OK)
		r->pending++;
}

void redis_append_times(struct redis *r, int times, size_t argc, const char *const *argv)
{
	char *command;
	long long len;			/* int in hiredis 0.14 */

	if (r->state == REDIS_CLOSED)
		return;
	len = redisFormatCommandArgv(&command, (int)argc, (const char **)(uintptr_t)argv, NULL);
	if (len == -1) {
		r->context->err = REDIS_ERR_OOM;	/* as above; hiredis says so only where it appends */
		strlcpy(r->context->errstr, "Out of memory", sizeof(r->context->errstr));
		return;
	}
	for (int i = 0; i < times; i++)
		if (redisAppendFormattedCommand(r->context, command, (size_t)len) == REDIS_OK)
			r->pending++;
	redisFreeCommand(command);
}

void redis_appendf(struct redis *r, const char *format, ...)
{
	const char *argv[ARGUMENTS_MAX];
	size_t lens[ARGUMENTS_MAX], argc = 0;
	char numbers[16][24];
	size_t nnumbers = 0;
	va_list ap;

	va_start(ap, format);
	for (const char *p = format; *p != '\0'; p += strspn(p, " ")) {
		size_t word = strcspn(p, " ");
		char kind = p[0] == '%' && word == 2 ? p[1] : '\0';

		assert(argc < ARGUMENTS_MAX && nnumbers < 16);
		if (kind == 's') {
			argv[argc] = va_arg(ap, const char *);
			lens[argc] = strlen(argv[argc]);
		} else if (kind == 'b') {
			argv[argc] = va_arg(ap, const char *);
			lens[argc] = va_arg(ap, size_t);
		} else if (kind == 'd') {
			int n = snprintf(numbers[nnumbers], sizeof(numbers[0]), "%lld", (long long)va_arg(ap, int64_t));

			argv[argc] = numbers[nnumbers++];
			lens[argc] = (size_t)n;
		} else {
			argv[argc] = p;
			lens[argc] = word;
		}
		argc++;
		p += word;
	}
	va_end(ap);
	redis_append(r, argc, argv, lens);
}
