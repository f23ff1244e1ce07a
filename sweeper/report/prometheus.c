/*
 * The page of metrics.textfile. Figures of a queue come only from the sweeper that leads it; figures of workers only from
 * their own supervisor. So a sum over all hosts counts everything once. Counters begin when the supervisor starts.
 */
#include "sweeper/report/metrics.h"

#include <stdlib.h>

#include "common/base/base.h"
#include "common/handler/handler.h"
#include "sweeper/report/gauge.h"
#include "sweeper/report/errors.h"
#include "sweeper/report/health.h"
#include "sweeper/report/node.h"
#include "sweeper/dead_letters/dead_letters.h"
#include "sweeper/core/core.h"
#include "sweeper/report/tally.h"

struct queue_metric;

struct page {
	struct sweeper *s;
	struct buffer *out;
	const struct queue_figures *counted;	/* of each queue, by its index on the board */
	const struct facts *host;		/* the same */
	int64_t now_ms;				/* CLOCK_MONOTONIC */
	const struct queue_metric *row;		/* the row that is being written */
	enum metric metric;			/* the metric of that row */
	size_t queue_label;			/* index of the label "queue"; a label "node" may precede it, which this page leaves out */
};

/* Writes one sample of a queue. value: the value of the label after "queue", or NULL. n < 0: the figure is not known, and nothing is written. */
static void write_sample(struct page *p, const struct sweeper_queue *q, const char *value, int64_t n)
{
	const char *values[METRIC_LABELS] = {0};

	values[p->queue_label] = q->keys.name;
	values[p->queue_label + 1] = value;
	if (n >= 0)
		exposition_sample(p->out, p->metric, values, n);
}

/* ---- of the queues that this sweeper leads ---- */

static void write_facts(struct page *p, const struct sweeper_queue *q)
{
	facts_expose(p->out, p->metric, NULL, q->keys.name, &gauge_of(q)->facts);
}

static void write_unarchived(struct page *p, const struct sweeper_queue *q)
{
	write_sample(p, q, NULL, archiver_fails(q));
}

static void write_over(struct page *p, const struct sweeper_queue *q)
{
	write_sample(p, q, NULL, bounds_are_exceeded(q));
}

static void write_health(struct page *p, const struct sweeper_queue *q)
{
	if (p->s->conf->health.enabled && health_of(q)->since_ms > 0)
		write_sample(p, q, NULL, health_of(q)->status);
}

static void write_reasons(struct page *p, const struct sweeper_queue *q)
{
	for (int i = 0; p->s->conf->health.enabled && i < HEALTH_CODES; i++)
		if (health_of(q)->checks[i].level != QUEUE_HEALTHY)
			write_sample(p, q, health_codes_name((enum health_code)i), health_of(q)->checks[i].level);
}

static void write_recovering(struct page *p, const struct sweeper_queue *q)
{
	for (int i = 0; p->s->conf->health.enabled && i < HEALTH_CODES; i++)
		if (health_of(q)->checks[i].level != QUEUE_HEALTHY)
			write_sample(p, q, health_codes_name((enum health_code)i),
			    health_codes_is_recovering(health_of(q), (enum health_code)i));
}

/* ---- of the workers of this supervisor ---- */

static const struct queue_figures *figures_of(const struct page *p, const struct sweeper_queue *q)
{
	return &p->counted[q->board - p->s->child->board->queues];
}

static void write_counters(struct page *p, const struct sweeper_queue *q)
{
	counters_expose(p->out, p->metric, q->keys.name, figures_of(p, q));
}

static void write_classes(struct page *p, const struct sweeper_queue *q)
{
	struct class_figure classes[CLASS_FIGURES];
	size_t n = classes_sum(&q->board->workers.classes, classes);

	for (size_t i = 0; i < n; i++)
		write_sample(p, q, classes[i].name, (int64_t)classes[i].n);
}

static void write_host(struct page *p, const struct sweeper_queue *q)
{
	facts_expose(p->out, p->metric, NULL, q->keys.name, &p->host[q->board - p->s->child->board->queues]);
}

static void write_state(struct page *p, const struct sweeper_queue *q)
{
	struct judged judged = holds_judge(p->s->child->board, q->board, errors_slots(p->s));

	write_sample(p, q, holds_table[judged.hold].name, 1);
}

static void write_breaker_cause(struct page *p, const struct sweeper_queue *q)
{
	char label[HANDLER_CAUSE_SIZE];

	if (atomic_load(&q->board->workers.breaker.step) > 0)
		write_sample(p, q, handler_cause_label(atomic_load(&q->board->workers.breaker.cause), label), 1);
}

/* ---- the page ---- */

static const struct queue_metric {
	enum metric metric;
	/* the queues of the row: those that this sweeper leads; those of its own workers; the same without the label "node" */
	enum { LED, OURS, OURS_WITHOUT_NODE } of;
	void (*write)(struct page *p, const struct sweeper_queue *q);
} queue_metrics[] = {
	{ METRIC_QUEUE_MESSAGES, LED, write_facts },
	{ METRIC_OLDEST_AGE, LED, write_facts },
	{ METRIC_AVERAGE_AGE, LED, write_facts },
	{ METRIC_STUCK, LED, write_facts },
	{ METRIC_PAUSED, LED, write_facts },
	{ METRIC_QUEUE_WORKERS, LED, write_facts },
	{ METRIC_ORPHAN_REGISTRATIONS, LED, write_facts },
	{ METRIC_ORPHAN_MESSAGES, LED, write_facts },
	{ METRIC_DEAD_LETTERS_UNARCHIVED, LED, write_unarchived },
	{ METRIC_DEAD_LETTERS_OVER, LED, write_over },
	{ METRIC_HEALTH_STATUS, LED, write_health },
	{ METRIC_HEALTH_REASON, LED, write_reasons },
	{ METRIC_HEALTH_RECOVERING, LED, write_recovering },
	{ METRIC_MESSAGES, OURS, write_counters },
	{ METRIC_ESCAPED_CLASSES, OURS, write_classes },
	{ METRIC_HANDLER_DURATION, OURS, write_counters },
	{ METRIC_SWEEP_LAG, OURS, write_counters },
	{ METRIC_PURGED, OURS, write_counters },
	{ METRIC_PURGE_DRY_RUN, OURS, write_counters },
	{ METRIC_WORKERS, OURS_WITHOUT_NODE, write_host },
	{ METRIC_WORKER_RESTARTS, OURS_WITHOUT_NODE, write_host },
	{ METRIC_QUEUE_STATE, OURS_WITHOUT_NODE, write_state },
	{ METRIC_BREAKER_CAUSE, OURS_WITHOUT_NODE, write_breaker_cause },
	{ METRIC_BREAKER_NEXT_ATTEMPT, OURS_WITHOUT_NODE, write_host },
	{ METRIC_BREAKER_OPEN, OURS_WITHOUT_NODE, write_host },
};

static void write_if_known(struct sweeper *s, struct sweeper_queue *q, void *arg)
{
	struct page *p = arg;

	if (q->conf != NULL && (p->row->of == LED ? metrics_is_fresh(s, q, p->now_ms) : q->board != NULL))
		p->row->write(p, q);
}

static void write_queue_metric(struct page *p, const struct queue_metric *m)
{
	p->row = m;
	p->metric = m->metric;
	p->queue_label = m->of == OURS_WITHOUT_NODE;
	exposition_metric(p->out, m->metric);
	sweeper_queues_each(p->s, write_if_known, p);
}

static void write_process_metric(struct page *p, enum metric m, const char *value, int64_t n)
{
	exposition_metric(p->out, m);
	exposition_sample(p->out, m, (const char *const[METRIC_LABELS]){ value }, n);
}

static void write_process(struct page *p)
{
	write_process_metric(p, METRIC_REGISTRATIONS_REMOVED, NULL, (int64_t)atomic_load(&p->s->child->board->sweeper.registry.left));
	write_process_metric(p, METRIC_BUILD_INFO, QUREDIS_VERSION, 1);
	write_process_metric(p, METRIC_REDIS_UP, NULL, p->s->connection.up);
	write_process_metric(p, METRIC_SWEEPER_LOOKS, NULL, (int64_t)metrics_own(p->s)->looks);
	write_process_metric(p, METRIC_WRITTEN, NULL, clock_realtime_ms());
}

void prometheus_page(struct sweeper *s, struct buffer *out, int64_t now_ms)
{
	struct queue_figures *counted = tally_add_up(s);
	struct facts *host = node_facts(s, false, now_ms);
	struct page p = { .s = s, .out = out, .counted = counted, .host = host, .now_ms = now_ms };

	write_process(&p);
	for (size_t i = 0; i < nitems(queue_metrics); i++)
		write_queue_metric(&p, &queue_metrics[i]);
	free(counted);
	free(host);
}
