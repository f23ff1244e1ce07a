/* Checks of dead_letter: what it says about one queue, and where records are forwarded to. */
#include <stdlib.h>

#include "common/conf.h"

#include "common/alloc.h"
#include "common/conf_load.h"
#include "common/nearest.h"
#include "common/nitems.h"

static const struct conf_origin *place_of(const struct conf_queue *q, const char *key)
{
	const struct conf_origin *own = conf_queue_origin(q, key);

	return conf_given(own) ? own : conf_queue_place(q);
}

/* Who leaves, and when, is told by records. */
static void check_records(struct conf_loading *l, const struct conf_queue *q)
{
	const struct conf_dead_letter *d = &q->dead_letter;
	const struct {
		const char *key;
		bool set;
	} need[] = { { "ttl", d->ttl_ms > 0 }, { "max_entries", d->max_entries > 0 }, { "forward_to", d->forward_to != NULL } };

	for (size_t i = 0; i < nitems(need) && !d->enabled; i++)
		if (need[i].set)
			conf_warning(l, place_of(q, "dead_letter.enabled"),
			    "queue %s: dead_letter.%s has no effect without records (dead_letter.enabled = false)", q->name, need[i].key);
}

static void check_archive(struct conf_loading *l, const struct conf_queue *q)
{
	const struct conf_dead_letter *d = &q->dead_letter;

	if (d->enabled && d->archive != NULL && d->ttl_ms <= 0 && d->max_entries <= 0)
		conf_warning(l, place_of(q, "dead_letter.archive"),
		    "queue %s: dead_letter.archive has no effect without dead_letter.ttl or dead_letter.max_entries", q->name);
}

/* A dead letter of the last would come back to the first, for ever. */
static void check_cycle(struct conf_loading *l, const struct conf_queue *q)
{
	const struct conf_queue *next = q;

	for (size_t steps = 0; steps <= l->conf->nqueues && next->dead_letter.forward_to != NULL; steps++) {
		next = conf_queue_find(l->conf, next->dead_letter.forward_to);
		if (next == NULL)
			return;
		if (next != q)
			continue;
		conf_error(l, place_of(q, "dead_letter.forward_to"),
		    "queue %s: dead_letter.forward_to = \"%s\" leads back to it", q->name, q->dead_letter.forward_to);
		return;
	}
}

static const char *nearest_other(const struct conf *conf, const struct conf_queue *q, const char *name)
{
	const char **names = alloc_zero(conf->nqueues, sizeof(*names)), *near;
	size_t n = 0;

	for (size_t i = 0; i < conf->nqueues; i++)
		if (conf->queues[i] != q && conf->queues[i]->name != NULL)
			names[n++] = conf->queues[i]->name;
	near = nearest(name, names, n);
	free(names);
	return near;
}

static void no_such_queue(struct conf_loading *l, const struct conf_queue *q, const char *name)
{
	const char *near = nearest_other(l->conf, q, name);

	conf_error(l, place_of(q, "dead_letter.forward_to"), "queue %s: dead_letter.forward_to: there is no queue %s%s%s%s", q->name, name,
	    near == NULL ? "" : ": did you mean ", near == NULL ? "" : near, near == NULL ? "" : "?");
}

static void check_forward(struct conf_loading *l, const struct conf_queue *q)
{
	const char *to = q->dead_letter.forward_to;

	if (to == NULL)
		return;
	if (conf_queue_find(l->conf, to) != NULL)
		check_cycle(l, q);
	else if (!l->broken)
		no_such_queue(l, q, to);
}

void conf_check_letters(struct conf_loading *l, const struct conf_queue *q)
{
	if (q->name == NULL)
		return;
	check_records(l, q);
	check_archive(l, q);
	check_forward(l, q);
}
