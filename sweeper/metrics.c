/*
 * When queues are measured, and who is told: health at its interval, statsd and the Prometheus file at theirs. Only queues
 * whose periodic work is ours are measured, a few a turn.
 */
#include "sweeper/sweeper.h"

static bool is_on(const struct sweeper *s)
{
	return s->conf->health.enabled;
}

static int64_t interval_ms(const struct sweeper *s)
{
	return s->conf->health.interval_ms;
}

bool metrics_wanted(const struct conf *conf)
{
	return conf->health.enabled;
}

static void measure(struct sweeper *s, struct swept *q, int64_t now_ms)
{
	int rc = gauge_take(s, q, &q->gauge);

	q->gauge_at_ms = now_ms + interval_ms(s);
	if (s->redis.state == REDIS_CLOSED)
		return;
	if (rc == -1)
		trouble_note(s, q, &q->gauge_trouble, "figures", now_ms);
	else
		trouble_over(s, q, &q->gauge_trouble);
	if (q->gauge.at_ms == 0)
		q->gauge_at_ms = now_ms;	/* as soon as the clock is known */
	else
		health_queue(s, q, now_ms);
}

bool metrics_task(struct sweeper *s, int budget, int64_t now_ms)
{
	bool any = false;
	struct swept *q;

	if (!is_on(s))
		return false;
	TAILQ_FOREACH(q, &s->queues, entry) {
		if (!lead_is_ours(q) || now_ms < q->gauge_at_ms || !sweeper_goes_on(s))
			continue;
		if (budget-- == 0)
			return true;
		measure(s, q, now_ms);
		connection_drain(s);
		any = any || q->gauge.at_ms > 0;
	}
	if (any || s->health.due_ms > 0)
		health_add_up(s, now_ms);
	return false;
}
