/* Which message starts next, and which tray takes what is fetched next. */
#include "worker/tray_find.h"

struct place tray_find_next(struct trays *ts)
{
	struct tray *oldest = NULL;

	for (int i = 0; i < QUEUE_TRAYS; i++) {
		struct tray *t = &ts->tray[i];

		if (t->state == TRAY_FILLED && t->count[ITEM_WAITING] > 0 &&
		    (oldest == NULL || t->serial < oldest->serial))
			oldest = t;
	}
	if (oldest == NULL || oldest->notes != NOTES_KNOWN)
		return (struct place){ -1, -1 };
	while (oldest->items[oldest->next].state != ITEM_WAITING)
		oldest->next++;		/* the count says that there is a WAITING item */
	return (struct place){ (int)(oldest - ts->tray), oldest->next };
}

int tray_find_empty(struct trays *ts)
{
	for (int n = 0; n < QUEUE_TRAYS; n++) {
		int i = (ts->next + n) % QUEUE_TRAYS;

		if (ts->tray[i].state == TRAY_EMPTY) {
			ts->next = (i + 1) % QUEUE_TRAYS;
			return i;
		}
	}
	return -1;
}

bool tray_find_since(const struct trays *ts, uint64_t serial)
{
	for (const struct tray *t = ts->tray; t < ts->tray + QUEUE_TRAYS; t++)
		for (const struct item *item = t->items; item < t->items + t->n; item++)
			if (item->state != ITEM_GONE && !item->lost && item->serial > serial)
				return true;
	return false;
}

int tray_find_open(const struct trays *ts, int n)
{
	int found = -1, fewest = BATCH_MAX - n + 1;

	for (int i = 0; i < QUEUE_TRAYS; i++) {
		const struct tray *t = &ts->tray[i];

		if (t->state != TRAY_FILLED || t->count[ITEM_WAITING] > 0)
			return -1;
		if (t->count[ITEM_RUNNING] > 0 && t->count[ITEM_MOVING] == 0 && t->n - t->count[ITEM_GONE] < fewest) {
			fewest = t->n - t->count[ITEM_GONE];
			found = i;
		}
	}
	return found;
}
