/*
 * The trays of those who are dead, and emptied: a command that was on its way for long can still put something
 * there. They are many, since each new connection leaves a dead name for an hour, and nearly all are empty: asked
 * for together, a group at a time.
 */
#include "sweeper/sweeper.h"

#include "common/queue_watch.h"

#define GROUP 25	/* owners; four keys each */

static int look_at_each(struct sweeper *s, struct swept *q, const char *const *names, size_t n, bool gate)
{
	int64_t holding;
	int rc = 0;

	for (size_t i = 0; i < n; i++)
		queue_holdings(&s->redis, &q->keys, &names[i], 1);
	for (size_t i = 0; i < n; i++)
		if (connection_integer(s, &holding) == -1)
			rc = -1;
		else if (holding > 0)
			rescue_add(q, names[i], "late", BLAME_NOBODY, gate);
	return rc;
}

int late_look(struct sweeper *s, struct swept *q, const char *const *names, size_t n, bool gate)
{
	for (size_t i = 0; i < n; i += GROUP) {
		size_t some = n - i < GROUP ? n - i : GROUP;
		int64_t holding;

		queue_holdings(&s->redis, &q->keys, &names[i], some);
		if (connection_integer(s, &holding) == -1 || (holding > 0 && look_at_each(s, q, &names[i], some, gate) == -1))
			return -1;
	}
	return 0;
}
