/*
 * Computes how old a message is: which of the times that it carries count, and from when. common/board/server_clock.c
 * decides which readings of the clock can be trusted; the callers decide what becomes of the message.
 */
#include <stdio.h>

#include "common/message/age.h"

#include "common/base/base.h"

/*
 * Corrects a time that quredis wrote by the server's clock. A time before since_ms, or one in the future (the clock was
 * set back meanwhile), was written before since_ms. It proves only that the message existed at since_ms, so that
 * counts.
 */
static int64_t noted_time(int64_t ms, const struct age_clock *c)
{
	return ms < c->since_ms || ms > c->latest_ms ? c->since_ms : ms;
}

int64_t age_since(const struct wrapper *w, const struct age_clock *c)
{
	return w->own_ms > 0 ? noted_time(w->own_ms, c) : 0;
}

int64_t age_born(const struct message *m, const struct age_clock *c)
{
	/* by the clocks of producers and workers */
	const int64_t noted[] = { m->enqueued_ms, m->wrapper.first_failed_ms };
	int64_t born = age_since(&m->wrapper, c);

	for (size_t i = 0; i < nitems(noted); i++) {
		int64_t at = noted[i] > c->stepped_ms ? noted[i] : c->stepped_ms;

		if (noted[i] > 0 && noted[i] <= c->now_ms && (born == 0 || at < born))
			born = at;
	}
	return born;
}

static bool exceeds(int64_t since_ms, int64_t limit_ms, const struct age_clock *c, struct age_excess *out)
{
	*out = (struct age_excess){ c->now_ms - since_ms, limit_ms };
	return out->age_ms >= 0 && out->age_ms >= limit_ms;
}

/* The producer's time is trusted. If an operator redrove the message after its ttl had passed, the ttl counts from
 * then. */
static bool exceeds_header(const struct message *m, const struct age_clock *c, struct age_excess *out)
{
	int64_t since = m->enqueued_ms > c->stepped_ms ? m->enqueued_ms : c->stepped_ms,
	    redriven = m->wrapper.redriven_ms;

	if (m->enqueued_ms > c->now_ms)
		return false;
	if (redriven > m->enqueued_ms && redriven - m->enqueued_ms >= m->ttl_ms)
		since = noted_time(redriven, c);
	return exceeds(since, m->ttl_ms, c, out);
}

bool age_expired(const struct message *m, int64_t ttl_ms, const struct age_clock *c, struct age_excess *out)
{
	int64_t limit = ttl_ms > 0 ? ttl_ms : -1, since;

	if (m->ttl_ms >= 0 && m->enqueued_ms >= 0 && exceeds_header(m, c, out))
		return true;
	if (m->ttl_ms >= 0 && m->enqueued_ms < 0 && (limit == -1 || m->ttl_ms < limit))
		limit = m->ttl_ms;
	since = age_since(&m->wrapper, c);
	return limit >= 0 && since != 0 && exceeds(since, limit, c, out);
}

const char *age_describe(const struct age_excess *e, char out[AGE_TEXT_SIZE])
{
	char age[UNITS_SIZE], limit[UNITS_SIZE];

	snprintf(out, AGE_TEXT_SIZE, "Worker queue TTL expired: waited %s, limit %s",
	    units_format_duration(e->age_ms, age), units_format_duration(e->limit_ms, limit));
	return out;
}
