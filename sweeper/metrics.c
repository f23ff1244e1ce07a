/*
 * When queues are measured, and who is told: health at its interval, statsd and the Prometheus file at theirs. Only queues
 * whose periodic work is ours are measured, a few a turn.
 */
#include "sweeper/metrics.h"

#include <unistd.h>

#include "sweeper/sweeper.h"

#define FRESH_LOOKS 3		/* what was found is told for so many intervals */

static bool is_told(const struct conf *conf)
{
	return conf->metrics.statsd != NULL || conf->metrics.textfile != NULL;
}

bool metrics_wanted(const struct conf *conf)
{
	return conf->health.enabled || is_told(conf);
}

static int64_t interval_ms(const struct sweeper *s)
{
	const struct conf *c = s->conf;

	if (!is_told(c) || (c->health.enabled && c->health.interval_ms < c->metrics.interval_ms))
		return c->health.interval_ms;
	return c->metrics.interval_ms;
}

void metrics_init(struct sweeper *s)
{
	s->metrics.statsd.fd = -1;
}

void metrics_free(struct sweeper *s)
{
	struct metrics *m = &s->metrics;

	errand_free(&m->statsd.asked);
	errand_free(&m->textfile.writing);
	buffer_free(&m->statsd.packet);
	buffer_free(&m->textfile.text);
	if (m->statsd.fd != -1)
		close(m->statsd.fd);
}

/* ---- measuring ---- */

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
	if (q->gauge.at_ms == 0) {
		q->gauge_at_ms = now_ms;	/* as soon as the clock is known */
		return;
	}
	s->metrics.looks++;
	health_queue(s, q, now_ms);
}

bool metrics_task(struct sweeper *s, int budget, int64_t now_ms)
{
	bool any = false;
	struct swept *q;

	if (!metrics_wanted(s->conf))
		return false;
	TAILQ_FOREACH(q, &s->queues, entry) {
		if (!lead_is_ours(q) || (now_ms < q->gauge_at_ms && !health_is_outdated(s, q, now_ms)) || !sweeper_goes_on(s))
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

/* ---- telling ---- */

bool metrics_is_fresh(const struct sweeper *s, const struct swept *q, int64_t now_ms)
{
	return s->up && lead_is_ours(q) && q->gauge.at_ms > 0 && now_ms - q->gauge.taken_ms < FRESH_LOOKS * interval_ms(s);
}

void metrics_tell(struct sweeper *s, int64_t now_ms)
{
	struct metrics *m = &s->metrics;

	textfile_look(s, now_ms);
	statsd_look(s, now_ms);
	if (!is_told(s->conf) || now_ms < m->due_ms || atomic_load(&s->child->board->sweeper) != s->child->slot)
		return;
	m->due_ms = now_ms + s->conf->metrics.interval_ms;
	if (s->conf->metrics.textfile != NULL)
		textfile_write(s, now_ms);
	if (s->conf->metrics.statsd != NULL)
		statsd_send(s, now_ms);
}
