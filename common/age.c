/*
 * The rule of ages: which of the times a message carries count, and from when. Whose clock it is, and
 * whether it can be believed, is common/server_clock.c's; what becomes of the message, the callers'.
 */
#include <stdio.h>

#include "common/age.h"

#include "common/duration.h"
#include "common/nitems.h"

/*
 * A time that quredis noted by the server's clock. One from before since_ms was noted before that moment, and so
 * was one that is not reached yet, since the clock was put back since: both say "it was there at since_ms".
 */
static int64_t noted(int64_t ms, const struct age_clock *c)
{
	return ms < c->since_ms || ms > c->latest_ms ? c->since_ms : ms;
}

static void earliest(int64_t *since, int64_t ms, const struct age_clock *c)
{
	if (ms > 0 && (*since == 0 || noted(ms, c) < *since))
		*since = noted(ms, c);
}

int64_t age_since(const struct wrapper *w, int64_t left_mark_ms, const struct age_clock *c)
{
	int64_t since = 0;

	earliest(&since, w->own_ms, c);
	earliest(&since, w->mark_ms, c);	/* it was there when it was marked */
	earliest(&since, left_mark_ms, c);
	return since;
}

int64_t age_born(const struct message *m, int64_t left_mark_ms, const struct age_clock *c)
{
	const int64_t told[] = { m->enqueued_ms, m->wrapper.first_failed_ms };	/* by clocks of others */
	int64_t born = age_since(&m->wrapper, left_mark_ms, c);

	for (size_t i = 0; i < nitems(told); i++) {
		int64_t at = told[i] > c->stepped_ms ? told[i] : c->stepped_ms;

		if (told[i] > 0 && told[i] <= c->now_ms && (born == 0 || at < born))
			born = at;
	}
	return born;
}

static bool exceeds(int64_t since_ms, int64_t limit_ms, const struct age_clock *c, struct age_excess *out)
{
	*out = (struct age_excess){ c->now_ms - since_ms, limit_ms };
	return out->age_ms >= 0 && out->age_ms >= limit_ms;
}

/* What the producer wrote is believed. One that somebody put back when it was over already begins anew. */
static bool exceeds_header(const struct message *m, const struct age_clock *c, struct age_excess *out)
{
	int64_t since = m->enqueued_ms > c->stepped_ms ? m->enqueued_ms : c->stepped_ms, own = m->wrapper.own_ms;

	if (m->enqueued_ms > c->now_ms)
		return false;
	if (own > m->enqueued_ms && own - m->enqueued_ms >= m->ttl_ms)
		since = noted(own, c);
	return exceeds(since, m->ttl_ms, c, out);
}

bool age_expired(const struct message *m, int64_t ttl_ms, int64_t left_mark_ms, const struct age_clock *c,
    struct age_excess *out)
{
	int64_t limit = ttl_ms > 0 ? ttl_ms : -1, since;

	if (m->ttl_ms >= 0 && m->enqueued_ms >= 0 && exceeds_header(m, c, out))
		return true;
	if (m->ttl_ms >= 0 && m->enqueued_ms < 0 && (limit == -1 || m->ttl_ms < limit))
		limit = m->ttl_ms;
	since = age_since(&m->wrapper, left_mark_ms, c);
	return limit >= 0 && since != 0 && exceeds(since, limit, c, out);
}

const char *age_describe(const struct age_excess *e, char out[AGE_TEXT_SIZE])
{
	char age[DURATION_SIZE], limit[DURATION_SIZE];

	snprintf(out, AGE_TEXT_SIZE, "Worker queue TTL expired: waited %s, limit %s", duration_format(e->age_ms, age),
	    duration_format(e->limit_ms, limit));
	return out;
}
