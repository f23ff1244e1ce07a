/* The rules of purge{}: judges a message or an entry. The callers choose the entries, and remove them. */
#include "common/queue/purge_rule.h"

bool purge_judge(const struct conf_purge *limits, bool waits, const struct message *m, const struct age_clock *c, struct verdict *out)
{
	int64_t since = waits ? age_since(&m->wrapper, c) : 0, born = age_born(m, c);

	if (since != 0 && c->now_ms - since >= limits->max_ingress_age_ms) {
		*out = (struct verdict){ "Purged", "max_ingress_age", { c->now_ms - since, limits->max_ingress_age_ms } };
		return true;
	}
	*out = (struct verdict){ "DeadlineExceeded", "max_message_age", { c->now_ms - born, limits->max_message_age_ms } };
	return born != 0 && out->excess.age_ms >= out->excess.limit_ms;
}

bool purge_takes_done(const struct conf_queue *q)
{
	return q->done.keep <= 0 || q->purge.max_done_age_ms < q->done.max_age_ms;
}

bool purge_oldest(int64_t max_age_ms, const struct age_clock *c, int64_t *oldest_ms)
{
	*oldest_ms = c->now_ms - max_age_ms;
	return c->stepped_ms == 0 || *oldest_ms > c->stepped_ms;
}
