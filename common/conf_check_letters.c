/* Checks of dead_letter: what it says about one queue, and where records are forwarded to. */
#include "common/conf.h"

#include "common/conf_load.h"

static const struct conf_origin *place_of(const struct conf_queue *q, const char *key)
{
	const struct conf_origin *own = conf_queue_origin(q, key);

	return conf_given(own) ? own : conf_queue_place(q);
}

/* Who leaves, and when, is told by records. */
static void check_records(struct conf_loading *l, const struct conf_queue *q)
{
	const struct conf_dead_letter *d = &q->dead_letter;
	const char *key = d->ttl_ms > 0 ? "ttl" : d->max_entries > 0 ? "max_entries" : NULL;

	if (!d->enabled && key != NULL)
		conf_warning(l, place_of(q, "dead_letter.enabled"),
		    "queue %s: dead_letter.%s has no effect without records (dead_letter.enabled = false)", q->name, key);
}

static void check_archive(struct conf_loading *l, const struct conf_queue *q)
{
	const struct conf_dead_letter *d = &q->dead_letter;

	if (d->enabled && d->archive != NULL && d->ttl_ms <= 0 && d->max_entries <= 0)
		conf_warning(l, place_of(q, "dead_letter.archive"),
		    "queue %s: dead_letter.archive has no effect without dead_letter.ttl or dead_letter.max_entries", q->name);
}

void conf_check_letters(struct conf_loading *l, const struct conf_queue *q)
{
	if (q->name == NULL)
		return;
	check_records(l, q);
	check_archive(l, q);
}
