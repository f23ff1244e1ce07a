/*
 * The walk that the sweeper and `quredis stale` share, so that stale counts what a purge takes. Redis lists entries from the left
 * end, so a page of ingress is read from its last entry to its first.
 */
#include "common/queue/purge_walk.h"

#include "common/queue/waiting.h"

void purge_walk_ask(struct redis *r, const struct purge_walk *w)
{
	int64_t last = w->cursor + PURGE_PAGE - 1;

	if (w->delayed)
		queue_glance_delayed(r, w->keys, w->cursor, last);
	else
		queue_glance(r, w->keys->ingress, -1 - last, -1 - w->cursor);
}

int purge_walk_read(const struct redis_reply *reply, struct purge_page *page)
{
	struct queue_glanced glanced;

	if (queue_glanced(reply, &glanced) == -1)
		return -1;
	*page = (struct purge_page){ *reply, glanced.n, !glanced.more && glanced.n < PURGE_PAGE, glanced.server_ms };
	return 0;
}

bool purge_walk_judge(const struct purge_walk *w, const struct purge_page *page, size_t i, const struct age_clock *clock, struct message *m,
    struct verdict *verdict)
{
	struct redis_reply beginning = redis_element(&page->entries, w->delayed ? i : page->n - 1 - i);

	message_parse(m, &w->keys->lines, beginning.str, beginning.len);
	return purge_judge(w->limits, !w->delayed, m, clock, verdict);
}
