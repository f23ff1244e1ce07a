/*
 * Commands on their way out: hiredis formats and keeps them, redis_flush() sends.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "common/base/base.h"
#include "common/redis/output.h"
#include "common/redis/redis.h"

#define ARGUMENTS_MAX 128
#define NUMBERS_MAX 16

void redis_append(struct redis *r, size_t argc, const char *const *argv, const size_t *lens)
{
	if (r->context == NULL)
		return;
	/* Fails only without memory, and then leaves nothing in the buffer and its error in the context: the next flush
	 * closes. */
	if (redisAppendCommandArgv(r->context, (int)argc, (const char **)(uintptr_t)argv, lens) == REDIS_OK)
		r->pending++;
}

/* The arguments of one command. They point into the format and into what the caller passed. */
struct arguments {
	const char *argv[ARGUMENTS_MAX];
	size_t lens[ARGUMENTS_MAX], argc;
	char numbers[NUMBERS_MAX][24];
	size_t nnumbers;
};

static const char *format_number(struct arguments *a, int64_t n, size_t *len)
{
	char *text = a->numbers[a->nnumbers++];

	*len = (size_t)snprintf(text, sizeof(a->numbers[0]), "%" PRId64, n);
	return text;
}

static void parse_format(struct arguments *a, const char *format, va_list ap)
{
	a->argc = a->nnumbers = 0;
	for (const char *p = format; *p != '\0'; p += strspn(p, " ")) {
		size_t word = strcspn(p, " "), *len = &a->lens[a->argc];
		const char **arg = &a->argv[a->argc];

		assert(a->argc < ARGUMENTS_MAX && a->nnumbers < NUMBERS_MAX);
		if (strncmp(p, "%s", word) == 0) {
			*arg = va_arg(ap, const char *);
			*len = strlen(*arg);
		} else if (strncmp(p, "%b", word) == 0) {
			*arg = va_arg(ap, const char *);
			*len = va_arg(ap, size_t);
		} else if (strncmp(p, "%d", word) == 0) {
			*arg = format_number(a, va_arg(ap, int64_t), len);
		} else {
			*arg = p;
			*len = word;
		}
		a->argc++;
		p += word;
	}
}

void redis_appendf(struct redis *r, const char *format, ...)
{
	struct arguments a;
	va_list ap;

	va_start(ap, format);
	parse_format(&a, format, ap);
	va_end(ap);
	redis_append(r, a.argc, a.argv, a.lens);
}

void redis_format(struct redis_command *c, const char *format, ...)
{
	struct arguments a;
	long long len;			/* int in hiredis 0.14 */
	va_list ap;

	va_start(ap, format);
	parse_format(&a, format, ap);
	va_end(ap);
	redis_command_free(c);
	len = redisFormatCommandArgv(&c->bytes, (int)a.argc, a.argv, a.lens);
	if (len == -1)
		alloc_failed();
	c->len = (size_t)len;
}

void redis_free_memory(struct redis *r)
{
	if (r->context != NULL)
		redis_output_free_memory(r->context);
}

void redis_append_command(struct redis *r, const struct redis_command *c, int times)
{
	for (int i = 0; i < times && r->state != REDIS_CLOSED; i++)
		if (redisAppendFormattedCommand(r->context, c->bytes, c->len) == REDIS_OK)
			r->pending++;
}

void redis_command_free(struct redis_command *c)
{
	redisFreeCommand(c->bytes);
	*c = (struct redis_command){0};
}
