/* The queues that handlers emit to: a worker needs what the configuration says of each, so all of them stand there. */
#include <stdlib.h>
#include <string.h>

#include "common/conf/conf.h"

#include "common/base/base.h"
#include "common/conf/load.h"

/* The places of `defaults` count for a queue that sets nothing itself. */
static const struct conf_origin *place_of(const struct conf_queue *q)
{
	const struct conf_origin *own = conf_queue_origin(q, "emit.queues");

	return conf_given(own) ? own : conf_queue_place(q);
}

static bool named_before(char *const *names, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (strcmp(names[k], names[i]) == 0)
			return true;
	return false;
}

static void resolve_target(struct conf_loading *l, struct conf_queue *q, size_t i)
{
	const char *name = q->emit.queues[i], *near;

	q->emit.targets[i] = conf_queue_find(l->conf, name);
	if (named_before(q->emit.queues, i)) {
		conf_error(l, place_of(q), "queue %s: emit.queues has %s twice", conf_shown_name(q), name);
	} else if (q->emit.targets[i] == NULL && !l->broken) {
		near = conf_nearest_queue(l->conf, NULL, name);
		conf_error(l, place_of(q), "queue %s: emit.queues: queue %s does not exist%s%s%s", conf_shown_name(q),
		    name, near == NULL ? ": a queue of other hosts needs a group here, too, with workers = 0"
		    : ": did you mean ", near == NULL ? "" : near, near == NULL ? "" : "?");
	}
}

/* Warns only of keys that the queue itself sets. */
static void check_use(struct conf_loading *l, const struct conf_queue *q)
{
	static const char *const limits[] = { "emit.max", "emit.max_bytes", "emit.max_depth" };
	const bool emits = q->emit.queues != NULL || conf_queue_origin(q, "emit.queues")->kind == CONF_ORIGIN_BAD;

	for (size_t i = 0; i < nitems(limits) && !emits; i++)
		if (conf_given_in_queue(l, q, limits[i]))
			conf_warning(l, conf_queue_origin(q, limits[i]),
			    "queue %s: %s has no effect without emit.queues", conf_shown_name(q), limits[i]);
	if (q->emit.queues != NULL && q->mode == CONF_MODE_EXEC && q->reply_fd < 0)
		conf_warning(l, place_of(q), "queue %s: emit.queues has no effect without reply_fd, on which a handler "
		    "emits", conf_shown_name(q));
}

void conf_check_emit(struct conf_loading *l)
{
	for (size_t k = 0; k < l->conf->nqueues; k++) {
		struct conf_queue *q = l->conf->queues[k];
		size_t n = 0;

		check_use(l, q);
		if (q->emit.queues == NULL)
			continue;
		while (q->emit.queues[n] != NULL)
			n++;
		q->emit.targets = alloc_zero(n + 1, sizeof(*q->emit.targets));
		for (size_t i = 0; i < n; i++)
			resolve_target(l, q, i);
	}
}

static bool is_same_target(const struct conf_queue *a, const struct conf_queue *b)
{
	return a == NULL || b == NULL ? a == b : strcmp(a->ingress, b->ingress) == 0 && a->shared == b->shared &&
	    a->message_max == b->message_max;
}

bool conf_emit_equal(const struct conf_emit *a, const struct conf_emit *b)
{
	size_t i = 0;

	if (a->targets == NULL || b->targets == NULL)
		return a->targets == b->targets;
	while (a->targets[i] != NULL && is_same_target(a->targets[i], b->targets[i]))
		i++;
	return is_same_target(a->targets[i], b->targets[i]);
}
