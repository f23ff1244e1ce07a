/* In which order messages leave the trays of a worker. */
#include <stdlib.h>

#include "worker/leaving.h"

#include "common/base/base.h"

static int newest_first(const void *a, const void *b)
{
	uint64_t x = ((const struct leaving_move *)a)->serial, y = ((const struct leaving_move *)b)->serial;

	return (x < y) - (x > y);
}

static void list_tray(struct leaving *l, const struct tray *t, int tray)
{
	for (int i = 0; i < t->n; i++)
		if (t->items[i].state == ITEM_MOVING && !t->items[i].sent)
			l->moves[l->n++] = (struct leaving_move){ t->items[i].serial, { tray, i } };
}

void leaving_list(struct leaving *l, const struct trays *ts)
{
	size_t most = (size_t)tray_count(ts, ITEM_MOVING);

	l->n = 0;
	if (most > l->cap)
		l->moves = alloc_resize(l->moves, l->cap = most, sizeof(*l->moves));
	for (int i = 0; i < QUEUE_TRAYS; i++)
		if (ts->tray[i].state == TRAY_FILLED && ts->tray[i].count[ITEM_MOVING] > 0)
			list_tray(l, &ts->tray[i], i);
	if (l->n > 1)
		qsort(l->moves, l->n, sizeof(*l->moves), newest_first);
}

void leaving_free(struct leaving *l)
{
	free(l->moves);
	*l = (struct leaving){ 0 };
}
