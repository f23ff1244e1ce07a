/*
 * Decides when queues are measured, and when figures are sent: health at its interval, statsd and the Prometheus file
 * at theirs. Only queues that this sweeper leads are measured, a few in each turn.
 */
#include "sweeper/report/metrics.h"

#include <stdlib.h>
#include <unistd.h>

#include "sweeper/report/gauge.h"
#include "sweeper/report/health.h"
#include "sweeper/core/core.h"

#define CLOCK_LOOK_MS 100	/* between looks while the server's clock is not known */
#define FRESH_LOOKS 3		/* a result is reported for this many intervals */

static bool is_exported(const struct conf *conf)
{
	return conf->metrics.statsd != NULL || conf->metrics.textfile != NULL;
}

static int64_t interval_ms(const struct sweeper *s)
{
	const struct conf *c = s->conf;

	if (!is_exported(c) || (c->health.enabled && c->health.interval_ms < c->metrics.interval_ms))
		return c->health.interval_ms;
	return c->metrics.interval_ms;
}

struct metrics *metrics_own(const struct sweeper *s)
{
	return task_own(s, &metrics_task);
}

static void free_own(struct sweeper *s)
{
	struct metrics *m = metrics_own(s);

	subprocess_free(&m->statsd.asked);
	subprocess_free(&m->textfile.writing);
	buffer_free(&m->statsd.packet);
	buffer_free(&m->textfile.text);
	if (m->statsd.connected)
		close(m->statsd.fd);
}

/* ---- measuring ---- */

static enum task_end run_metrics(struct sweeper *s, struct sweeper_queue *q, int budget, int64_t now_ms)
{
	struct gauge *g = gauge_of(q);
	int rc = gauge_take(s, q, g);

	(void)budget;
	task_wake_at(q, &metrics_task, g->at_ms == 0 ? now_ms + CLOCK_LOOK_MS : g->taken_ms + interval_ms(s));
	if (g->at_ms > 0)
		metrics_own(s)->looks++;
	return rc == -1 ? TASK_FAILED : TASK_DONE;
}

static void free_state(struct sweeper_queue *q)
{
	free(metrics_of(q)->failed);
}

static bool is_wanted(const struct sweeper *s, const struct sweeper_queue *q)
{
	(void)q;
	return sweeper_measures_queues(s);
}

/* ---- sending ---- */

bool metrics_is_fresh(const struct sweeper *s, const struct sweeper_queue *q, int64_t now_ms)
{
	return s->connection.up && lead_is_ours(q) && gauge_of(q)->at_ms > 0 &&
	    now_ms - gauge_of(q)->taken_ms < FRESH_LOOKS * interval_ms(s);
}

/* Runs also without a connection, and sends what is known. */
static void send_figures(struct sweeper *s, int64_t now_ms)
{
	struct metrics *m = metrics_own(s);

	textfile_look(s, now_ms);
	statsd_look(s, now_ms);
	if (!is_exported(s->conf) || now_ms < m->due_ms || !sweeper_is_active(s))
		return;
	m->due_ms = now_ms + s->conf->metrics.interval_ms;
	if (s->conf->metrics.textfile != NULL)
		textfile_write(s, now_ms);
	if (s->conf->metrics.statsd != NULL)
		statsd_send(s, now_ms);
}

const struct task metrics_task = { .name = "figures", .budget = 1, .unsealed = true, .leads = true, .wanted = is_wanted,
	.urgent = health_is_outdated, .steady = true,
	.queues = 8, .run_queue = run_metrics, .each_turn = send_figures, .state_size = sizeof(struct metrics_state),
	.free = free_state,
	.own_size = sizeof(struct metrics), .free_own = free_own };
