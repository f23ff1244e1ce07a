/*
 * Keeps what a handler emits until its message is done, and refuses what the configuration does not allow. Only the
 * length tells where the bytes of a message end: they may be anything, also lines that look like verbs.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/handler/emit.h"

void handler_emissions_free(struct handler_emissions *e)
{
	if (e == NULL)
		return;
	free(e->list);
	buffer_free(&e->bytes);
	free(e);
}

struct handler_emissions *handler_emissions_take(struct handler_emissions *e)
{
	struct handler_emissions *taken = alloc_zero(1, sizeof(*taken));

	*taken = *e;
	*e = (struct handler_emissions){0};
	return taken;
}

/* The first reason counts. Nothing of this message will be pushed, so nothing is kept. */
static void refuse(struct handler_emissions *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void refuse(struct handler_emissions *e, const char *fmt, ...)
{
	va_list args;

	if (e->refused[0] != '\0')
		return;
	va_start(args, fmt);
	vsnprintf(e->refused, sizeof(e->refused), fmt, args);
	va_end(args);
	e->n = 0;
	buffer_free(&e->bytes);
}

static const struct conf_queue *find_target(const struct conf_emit *conf, const struct handler_reply *r, size_t *i)
{
	for (*i = 0; conf->targets[*i] != NULL; ++*i)
		if (strlen(conf->queues[*i]) == r->queue_len &&
		    memcmp(conf->queues[*i], r->queue, r->queue_len) == 0)
			return conf->targets[*i];
	return NULL;
}

static void check_form(struct handler_emissions *e, const struct handler_reply *r)
{
	if (r->length < 0)
		refuse(e, "EMIT: expected QUEUE LENGTH [delay=DURATION], not \"%.*s\"",
		    (int)(r->reason_len < 100 ? r->reason_len : 100), r->reason);
}

static void check_target(struct handler_emissions *e, const struct conf_queue *to, const struct handler_reply *r)
{
	char most[UNITS_SIZE];

	if (to == NULL)
		refuse(e, "EMIT: queue \"%.*s\" is not in emit.queues",
		    (int)(r->queue_len < QUEUE_NAME_MAX ? r->queue_len : QUEUE_NAME_MAX), r->queue);
	else if (to->message_max > 0 && r->length > to->message_max)
		refuse(e, "EMIT: a message of %lld bytes is longer than message_max = \"%s\" of queue %s",
		    (long long)r->length, units_format_size(to->message_max, most), to->name);
	else if (to->shared && r->delay_ms > 0)
		refuse(e, "EMIT: queue %s is shared with other programs, so it has no delayed messages", to->name);
}

static void check_room(struct handler_emissions *e, const struct conf_emit *conf, const struct handler_reply *r)
{
	char most[UNITS_SIZE];

	if (e->n >= (size_t)conf->max)
		refuse(e, "EMIT: more than emit.max = %d messages", conf->max);
	else if (r->length > conf->max_bytes - (int64_t)e->bytes.len)
		refuse(e, "EMIT: more than emit.max_bytes = \"%s\" in all", units_format_size(conf->max_bytes, most));
}

/* The list grows by doubling, so its length need not be kept: a power of two is full. */
static void add_emission(struct handler_emissions *e, size_t target, const struct handler_reply *r)
{
	if ((e->n & (e->n - 1)) == 0)
		e->list = alloc_resize(e->list, e->n == 0 ? 1 : 2 * e->n, sizeof(*e->list));
	e->list[e->n++] = (struct handler_emission){ .target = target, .at = e->bytes.len, .len = (size_t)r->length,
		.delay_ms = r->delay_ms < 0 ? 0 : r->delay_ms };
}

bool handler_emit_skip(struct handler_intake *in, const struct handler_reply *r)
{
	*in = (struct handler_intake){ .open = r->length >= 0, .left = r->length };
	return in->open;
}

bool handler_emit_begin(struct handler_emissions **e, struct handler_intake *in, const struct conf_queue *conf,
    const struct handler_reply *r)
{
	const struct conf_queue *to;
	size_t target;

	if (*e == NULL)
		*e = alloc_zero(1, sizeof(**e));
	check_form(*e, r);
	if (!handler_emit_skip(in, r))
		return false;
	to = find_target(&conf->emit, r, &target);
	check_target(*e, to, r);
	check_room(*e, &conf->emit, r);
	in->kept = (*e)->refused[0] == '\0';
	if (in->kept)
		add_emission(*e, target, r);
	return true;
}

void handler_emit_lose(struct handler_emissions **e, const char *line, size_t len)
{
	if (*e == NULL)
		*e = alloc_zero(1, sizeof(**e));
	refuse(*e, "EMIT: expected SERIAL QUEUE LENGTH [delay=DURATION], not \"%.*s\"",
	    (int)(len < 100 ? len : 100), line);
}

size_t handler_emit_take(struct handler_intake *in, struct handler_emissions *e, const char *data, size_t len,
    bool *broken)
{
	size_t n = (int64_t)len < in->left ? len : (size_t)in->left;

	if (e != NULL && in->kept && e->refused[0] == '\0')
		buffer_append(&e->bytes, data, n);
	in->left -= (int64_t)n;
	if (n == len)
		return n;
	in->open = false;
	*broken = data[n] != '\n';
	if (*broken && e != NULL)
		refuse(e, "EMIT: expected a newline behind the bytes of the message");
	return *broken ? n : n + 1;
}

void handler_emit_end(struct handler_intake *in, struct handler_emissions *e)
{
	if (in->open && e != NULL)
		refuse(e, "EMIT: the handler ended before the last byte of the message");
	in->open = false;
}
