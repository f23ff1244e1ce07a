/*
 * Owners whose trays fill again. A rescue fences the trays of an owner, empties its rescue list, and marks the owner
 * dead. But a command of that owner may still be on its way: a BRPOPLPUSH that a proxy or a full socket held back puts
 * a message into the tray after it was emptied. No worker fetches from there, so the message would wait forever.
 * Therefore each look (watch.c) and each recovery checks the trays of all owners that are marked dead and not yet
 * forgotten, and begins a new rescue where one is not empty. That rescue charges no message, since such a message
 * never ran.
 *
 * There can be thousands of dead owners, because each new connection of a worker leaves a dead name for an hour, and
 * the trays of nearly all are empty. So a request asks for the sum of a group, and only a group that is not empty is
 * checked one by one.
 */
#include "sweeper/rescue/rescue.h"

#include "sweeper/core/core.h"

#include "common/queue/queue.h"

#define GROUP 25	/* owners; four keys each */

static int look_at_each(struct sweeper *s, struct sweeper_queue *q, const char *const *names, size_t n, bool gate)
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

int rescue_add_late(struct sweeper *s, struct sweeper_queue *q, const char *const *names, size_t n, bool gate)
{
	for (size_t i = 0; i < n; i += GROUP) {
		size_t some = n - i < GROUP ? n - i : GROUP;
		int64_t holding;

		queue_holdings(&s->redis, &q->keys, &names[i], some);
		if (connection_integer(s, &holding) == -1 ||
		    (holding > 0 && look_at_each(s, q, &names[i], some, gate) == -1))
			return -1;
	}
	return 0;
}
