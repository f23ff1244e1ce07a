/*
 * When queues are measured, and who is told: health at its interval, statsd and the Prometheus file at theirs. Only queues
 * whose periodic work is ours are measured, a few a turn.
 */
#include "sweeper/metrics.h"

#include <unistd.h>

#include "sweeper/gauge.h"
#include "sweeper/health.h"
#include "sweeper/sweeper.h"

#define CLOCK_LOOK_MS 100	/* between looks while the server's clock is not known */
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

static enum task_end run_metrics(struct sweeper *s, struct swept *q, int budget, int64_t now_ms)
{
	struct gauge *g = gauge_of(q);
	int rc = gauge_take(s, q, g);

	(void)budget;
	task_wake_at(q, TASK_metrics, now_ms + (g->at_ms == 0 ? CLOCK_LOOK_MS : interval_ms(s)));
	if (g->at_ms > 0)
		s->metrics.looks++;
	return rc == -1 ? TASK_FAILED : TASK_DONE;
}

static bool is_wanted(const struct sweeper *s, const struct swept *q)
{
	(void)q;
	return metrics_wanted(s->conf);
}

const struct task metrics_task = { .name = "figures", .budget = 1, .leads = true, .wanted = is_wanted, .urgent = health_is_outdated, .steady = true,
	.queues = 8, .run_queue = run_metrics, .state_size = sizeof(struct metrics_state) };

/* ---- telling ---- */

bool metrics_is_fresh(const struct sweeper *s, const struct swept *q, int64_t now_ms)
{
	return s->up && lead_is_ours(q) && gauge_of(q)->at_ms > 0 && now_ms - gauge_of(q)->taken_ms < FRESH_LOOKS * interval_ms(s);
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
