/*
 * Equal messages of a tray. After a lost connection the list tells how many of them are left, and not which: Redis may
 * have refused the move of one, and executed that of the next.
 */
#include <string.h>

#include "worker/equal.h"

/* Two equal messages with such a move are one as good as the other: the move puts nothing, or their bytes. */
static bool is_plain(const struct item *item)
{
	return item->outcome == NULL && (item->move == MOVE_DONE || item->move == MOVE_HAND_BACK);
}

bool equal_may_leave(const struct tray *t, const struct item *item)
{
	for (int i = 0; i < t->n; i++) {
		const struct item *other = &t->items[i];

		if (other->state == ITEM_MOVING && other->sent && other->len == item->len &&
		    !(is_plain(item) && is_plain(other) && item->move == other->move) &&
		    memcmp(tray_raw(t, other), tray_raw(t, item), item->len) == 0)
			return false;
	}
	return true;
}
