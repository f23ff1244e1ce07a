/*
 * Checks of a queue that other programs consume, too. Nothing of quredis's may be before its messages, so whatever would have
 * to travel with them is refused: a second attempt, a delay, the time since when one waits.
 */
#include <sysexits.h>

#include "common/conf.h"

#include "common/conf_load.h"
#include "common/duration.h"
#include "common/nitems.h"

static const char *shown_name(const struct conf_queue *q)
{
	return q->name == NULL ? "?" : q->name;
}

/* What the queue says itself, or `defaults`; else the queue as a whole. */
static const struct conf_origin *place_of(const struct conf_queue *q, const char *key)
{
	const struct conf_origin *own = conf_queue_origin(q, key);

	return conf_given(own) ? own : conf_queue_place(q);
}

static bool is_bad(const struct conf_queue *q, const char *key)
{
	return conf_queue_origin(q, key)->kind == CONF_ORIGIN_BAD;
}

static void check_attempts(struct conf_loading *l, const struct conf_queue *q)
{
	if (q->max_attempts > 1 && !is_bad(q, "max_attempts"))
		conf_error(l, place_of(q, "max_attempts"),
		    "queue %s: max_attempts = %d with shared = true: a retry would put a line of quredis's before the message, "
		    "which the other programs would get: each message has one attempt", shown_name(q), q->max_attempts);
}

/* That 75 is one by default is nobody's wish: it is a failure then (worker/settle.c). */
static void check_codes(struct conf_loading *l, const struct conf_queue *q)
{
	for (size_t code = 0; code < nitems(q->exit_codes) && !is_bad(q, "exit_codes"); code++) {
		if (q->exit_codes[code] != CONF_OUTCOME_RETRY || code == EX_TEMPFAIL)
			continue;
		conf_error(l, place_of(q, "exit_codes"),
		    "queue %s: exit_codes.retry = [%zu] with shared = true: a retry would put a line of quredis's before the message, "
		    "which the other programs would get", shown_name(q), code);
		return;
	}
}

static void check_ttl(struct conf_loading *l, const struct conf_queue *q)
{
	char ttl[DURATION_SIZE];

	if (q->ttl_ms > 0 && !is_bad(q, "ttl"))
		conf_error(l, place_of(q, "ttl"),
		    "queue %s: ttl = %s with shared = true: since when a message waits would have to be written before it, "
		    "and the other programs would get that line; a message may tell its own ttl and enqueued", shown_name(q),
		    duration_format(q->ttl_ms, ttl));
}

/* What `purge` says for all queues need not fit each. */
static void check_purge(struct conf_loading *l, const struct conf_queue *q)
{
	static const char *const ages[] = { "purge.max_ingress_age", "purge.max_message_age" };

	for (size_t i = 0; i < nitems(ages); i++)
		if (conf_given(conf_queue_origin(q, ages[i])))
			conf_error(l, conf_queue_origin(q, ages[i]),
			    "queue %s: %s with shared = true: since when a message waits would have to be written before it, "
			    "and the other programs would get that line", shown_name(q), ages[i]);
	if (l->conf->purge.enabled)
		conf_warning(l, place_of(q, "shared"), "queue %s: with shared = true purge looks at nothing that waits", shown_name(q));
}

void conf_check_shared(struct conf_loading *l, const struct conf_queue *q)
{
	if (!q->shared)
		return;
	check_attempts(l, q);
	check_codes(l, q);
	check_ttl(l, q);
	check_purge(l, q);
}
