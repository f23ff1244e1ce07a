/*
 * Commands on their way out: hiredis formats and keeps them, redis_flush() sends.
 */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <bsd/string.h>
#include <hiredis/hiredis.h>

#include "common/redis.h"

#define ARGUMENTS_MAX 128

void redis_append(struct redis *r, size_t argc, const char *const *argv, const size_t *lens)
{
	if (r->state == REDIS_CLOSED)
		return;
	/* Fails only without memory, and then leaves nothing in the buffer and its error in the context: the next flush closes. */
	if (redisAppendCommandArgv(r->context, (int)argc, (const char **)(uintptr_t)argv, lens) == REDIS_OK)
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

		assert(argc < ARGUMENTS_MAX && nnumbers < 16);
		if (strncmp(p, "%s", word) == 0) {
			argv[argc] = va_arg(ap, const char *);
			lens[argc] = strlen(argv[argc]);
		} else if (strncmp(p, "%b", word) == 0) {
			argv[argc] = va_arg(ap, const char *);
			lens[argc] = va_arg(ap, size_t);
		} else if (strncmp(p, "%d", word) == 0) {
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
