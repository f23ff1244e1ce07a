/*
 * Purge: the rules of purge{}, which judge a message or an entry, and the walk over those that they may take. The
 * sweeper and `quredis stale` share both, so that stale counts what a purge takes. The callers choose the entries, and
 * remove them.
 */
#include "common/queue/purge.h"

#include "common/queue/waiting.h"

/* ---- rules ---- */

bool purge_judge(const struct conf_purge *limits, bool waits, const struct message *m, const struct age_clock *c,
    struct verdict *out)
{
	int64_t since = waits ? age_since(&m->wrapper, c) : 0, born = age_born(m, c);

	if (since != 0 && c->now_ms - since >= limits->max_ingress_age_ms) {
		*out = (struct verdict){ "Purged", "max_ingress_age",
		    { c->now_ms - since, limits->max_ingress_age_ms } };
		return true;
	}
	*out = (struct verdict){ "DeadlineExceeded", "max_message_age",
	    { c->now_ms - born, limits->max_message_age_ms } };
	return born != 0 && out->excess.age_ms >= out->excess.limit_ms;
}

bool purge_takes_done(const struct conf_queue *q)
{
	return q->done.keep <= 0 || q->purge.max_done_age_ms < q->done.max_age_ms;
}

bool purge_takes_orphans(const struct conf_queue *q)
{
	return q->dead_letter.archive == NULL;
}

bool purge_takes_messages(const struct conf_queue *q)
{
	return !q->shared;
}

bool purge_oldest(int64_t max_age_ms, const struct age_clock *c, int64_t *oldest_ms)
{
	*oldest_ms = c->now_ms - max_age_ms;
	return c->stepped_ms == 0 || *oldest_ms > c->stepped_ms;
}

/* ---- the walk ---- */

/* Redis lists entries from the left end, so a page of ingress is read from its last entry to its first. */
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

bool purge_walk_judge(const struct purge_walk *w, const struct purge_page *page, size_t i,
    const struct age_clock *clock, struct message *m, struct verdict *verdict)
{
	struct redis_reply beginning = redis_element(&page->entries, w->delayed ? i : page->n - 1 - i);

	message_parse(m, &w->keys->lines, beginning.str, beginning.len);
	return purge_judge(w->limits, !w->delayed, m, clock, verdict);
}
