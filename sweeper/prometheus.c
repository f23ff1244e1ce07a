/*
 * What is told to Prometheus: of queues whose periodic work is ours what the last look found, of our own workers what the
 * scoreboard counts. So over all hosts each figure of a queue is there once, and counters can be added up.
 */
#include "sweeper/metrics.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/clock.h"
#include "common/exposition.h"
#include "common/nitems.h"
#include "sweeper/gauge.h"
#include "sweeper/letters.h"
#include "sweeper/health.h"
#include "sweeper/sweeper.h"
#include "sweeper/tally.h"

struct page {
	const struct sweeper *s;
	struct buffer *out;
	const struct queue_figures *counted;	/* by place on the board */
	int64_t now_ms;				/* CLOCK_MONOTONIC */
	const char *name;			/* of the metric being written */
};

/* ---- of queues we lead ---- */

static void count(struct page *p, const struct swept *q, const char *label, const char *value, int64_t n)
{
	if (n >= 0)
		exposition_count(p->out, p->name, (const char *const[]){ "queue", q->keys.name, label, value, NULL }, n);
}

static void seconds(struct page *p, const struct swept *q, const char *label, const char *value, int64_t ms)
{
	if (ms >= 0)
		exposition_seconds(p->out, p->name, (const char *const[]){ "queue", q->keys.name, label, value, NULL }, ms);
}

static void sizes(struct page *p, const struct swept *q)
{
	count(p, q, "list", "ingress", gauge_of(q)->ingress.size);
	count(p, q, "list", "transit", gauge_of(q)->transit.size);
	count(p, q, "list", "escape", gauge_of(q)->escape.size);
	count(p, q, "list", "delayed", gauge_of(q)->delayed);
}

static void oldest(struct page *p, const struct swept *q)
{
	seconds(p, q, "list", "ingress", gauge_of(q)->ingress.oldest_ms);
	seconds(p, q, "list", "transit", gauge_of(q)->transit.oldest_ms);
	seconds(p, q, "list", "escape", gauge_of(q)->escape.oldest_ms);
}

static void average(struct page *p, const struct swept *q)
{
	seconds(p, q, "list", "ingress", gauge_of(q)->ingress.average_ms);
	seconds(p, q, "list", "transit", gauge_of(q)->transit.average_ms);
	seconds(p, q, "list", "escape", gauge_of(q)->escape.average_ms);
}

static void stuck(struct page *p, const struct swept *q)
{
	count(p, q, "list", "ingress", gauge_of(q)->ingress.stuck);
	count(p, q, "list", "transit", gauge_of(q)->transit.stuck);
}

static void paused(struct page *p, const struct swept *q)
{
	if (gauge_of(q)->paused_ms >= 0)
		count(p, q, NULL, NULL, gauge_of(q)->paused_ms > 0);
}

static void owners(struct page *p, const struct swept *q)
{
	count(p, q, "state", "active", gauge_of(q)->active);
	count(p, q, "state", "waiting", gauge_of(q)->workers - gauge_of(q)->active);
}

static void orphan_owners(struct page *p, const struct swept *q)
{
	count(p, q, NULL, NULL, gauge_of(q)->orphan_owners);
}

static void orphans(struct page *p, const struct swept *q)
{
	count(p, q, NULL, NULL, gauge_of(q)->orphans);
}

static void unarchived(struct page *p, const struct swept *q)
{
	count(p, q, NULL, NULL, letters_are_unarchived(q));
}

static void over(struct page *p, const struct swept *q)
{
	count(p, q, NULL, NULL, letters_are_over(q));
}

static void health(struct page *p, const struct swept *q)
{
	if (p->s->conf->health.enabled && health_of(q)->since_ms > 0)
		count(p, q, NULL, NULL, health_of(q)->status);
}

/* ---- of our own workers ---- */

static const struct queue_figures *figures_of(const struct page *p, const struct swept *q)
{
	return &p->counted[q->board - p->s->child->board->queues];
}

static void outcomes(struct page *p, const struct swept *q)
{
	for (int i = 0; i < COUNTERS; i++)
		if (i != COUNT_RECONNECTED)
			count(p, q, "event", counter_names[i], (int64_t)figures_of(p, q)->n[i]);
}

static void histogram(struct page *p, const struct swept *q, const char *name, const uint64_t buckets[SCOREBOARD_BUCKETS], uint64_t ms)
{
	char le[32], part[64];
	int64_t sum = 0;

	p->name = part;
	snprintf(part, sizeof(part), "%s_bucket", name);
	for (int i = 0; i < SCOREBOARD_BUCKETS; i++) {
		sum += (int64_t)buckets[i];
		if (i < SCOREBOARD_BUCKETS - 1)
			snprintf(le, sizeof(le), "%g", (double)(INT64_C(1) << i) / 1000);
		count(p, q, "le", i < SCOREBOARD_BUCKETS - 1 ? le : "+Inf", sum);
	}
	snprintf(part, sizeof(part), "%s_sum", name);
	seconds(p, q, NULL, NULL, (int64_t)ms);
	snprintf(part, sizeof(part), "%s_count", name);
	count(p, q, NULL, NULL, sum);
	p->name = name;
}

static void durations(struct page *p, const struct swept *q)
{
	const struct queue_figures *f = figures_of(p, q);

	histogram(p, q, p->name, &f->n[FIGURE_DURATIONS], f->n[FIGURE_DURATION_MS]);
}

static void lags(struct page *p, const struct swept *q)
{
	const struct queue_figures *f = figures_of(p, q);

	histogram(p, q, p->name, &f->n[FIGURE_LAGS], f->n[FIGURE_LAG_MS]);
}

static void purged(struct page *p, const struct swept *q)
{
	const uint64_t *n = figures_of(p, q)->n;

	count(p, q, "kind", "ingress", (int64_t)tally_purged_waiting(figures_of(p, q)));
	count(p, q, "kind", "delayed", (int64_t)n[COUNT_PURGED_DELAYED]);
	count(p, q, "kind", "transit", (int64_t)n[COUNT_TRANSIT_OLD]);
	count(p, q, "kind", "done", (int64_t)n[COUNT_PURGED_DONE]);
	count(p, q, "kind", "orphaned", (int64_t)n[COUNT_ORPHANED]);
}

static void would_purge(struct page *p, const struct swept *q)
{
	count(p, q, NULL, NULL, (int64_t)figures_of(p, q)->n[COUNT_WOULD_PURGE]);
}

static void restarts(struct page *p, const struct swept *q)
{
	count(p, q, NULL, NULL, (int64_t)atomic_load(&q->board->restarts));
}

static void workers(struct page *p, const struct swept *q)
{
	const struct scoreboard *board = p->s->child->board;
	int64_t n[SLOT_STOPPING + 1] = {0};

	for (int i = 0; i < SCOREBOARD_SLOTS; i++)
		if (atomic_load(&board->slots[i].queue) == q->board - board->queues + 1 && slot_state(&board->slots[i]) <= SLOT_STOPPING)
			n[slot_state(&board->slots[i])]++;
	for (int state = SLOT_STARTING; state <= SLOT_STOPPING; state++)
		count(p, q, "state", slot_state_names[state], n[state]);
}

static void breaker(struct page *p, const struct swept *q)
{
	count(p, q, NULL, NULL, atomic_load(&q->board->breaker_step) > 0);
}

/* ---- the page ---- */

static const struct family {
	const char *name, *type, *help;
	bool led;		/* of queues we lead; else of our own workers */
	void (*write)(struct page *p, const struct swept *q);
} families[] = {
	{ "quredis_queue_messages", "gauge", "Messages in a list of a queue.", true, sizes },
	{ "quredis_queue_oldest_age_seconds", "gauge", "How long the oldest message is in its list, as far as it is known.", true, oldest },
	{ "quredis_queue_average_age_seconds", "gauge", "How long messages are in their list, as far as it is known.", true, average },
	{ "quredis_queue_stuck_messages", "gauge", "Messages as old as health.thresholds.stuck_age.", true, stuck },
	{ "quredis_queue_paused", "gauge", "1 while a queue is paused.", true, paused },
	{ "quredis_queue_workers", "gauge", "Workers of a queue on all hosts.", true, owners },
	{ "quredis_queue_orphan_registrations", "gauge", "Workers registered without a lease.", true, orphan_owners },
	{ "quredis_queue_orphan_messages", "gauge", "Messages that nobody who lives owns.", true, orphans },
	{ "quredis_dead_letters_unarchived", "gauge", "1 while dead letters are to leave and the archive takes none.", true, unarchived },
	{ "quredis_dead_letters_over", "gauge", "1 while there are more, or older ones, than bounds allow, and nothing may remove them.", true, over },
	{ "quredis_health_status", "gauge", "0 healthy, 1 degraded, 2 unhealthy.", true, health },
	{ "quredis_messages_total", "counter", "What became of messages, since this supervisor started.", false, outcomes },
	{ "quredis_handler_duration_seconds", "histogram", "How long handlers ran, since this supervisor started.", false, durations },
	{ "quredis_sweep_lag_seconds", "histogram", "How late what was due or expired was moved, since this supervisor started.", false, lags },
	{ "quredis_purged_total", "counter", "What purge took, or told of (transit), since this supervisor started.", false, purged },
	{ "quredis_purge_dry_run_total", "counter", "What dry runs of purge named, since this supervisor started.", false, would_purge },
	{ "quredis_workers", "gauge", "Workers of this supervisor by their state.", false, workers },
	{ "quredis_worker_restarts_total", "counter", "Workers started in place of dead ones, since this supervisor started.", false, restarts },
	{ "quredis_breaker_open", "gauge", "1 while the breaker of a queue is open.", false, breaker },
};

static void write_family(struct page *p, const struct family *f)
{
	const struct swept *q;

	exposition_metric(p->out, f->name, f->type, f->help);
	TAILQ_FOREACH(q, &p->s->queues, entry) {
		p->name = f->name;
		if (q->conf != NULL && (f->led ? metrics_is_fresh(p->s, q, p->now_ms) : q->board != NULL))
			f->write(p, q);
	}
}

static void write_process(struct page *p)
{
	const struct board_registry *r = &p->s->child->board->registry;

	exposition_metric(p->out, "quredis_registrations_removed_total", "counter", "Queues that left the registry, since this supervisor started.");
	exposition_count(p->out, "quredis_registrations_removed_total", NULL, (int64_t)atomic_load(&r->left));
	exposition_metric(p->out, "quredis_build_info", "gauge", "The version that runs.");
	exposition_count(p->out, "quredis_build_info", (const char *const[]){ "version", QUREDIS_VERSION, NULL }, 1);
	exposition_metric(p->out, "quredis_redis_up", "gauge", "1 while the sweeper has its connection to Redis.");
	exposition_count(p->out, "quredis_redis_up", NULL, p->s->up);
	exposition_metric(p->out, "quredis_sweeper_looks_total", "counter", "Queues that were measured, since the sweeper started.");
	exposition_count(p->out, "quredis_sweeper_looks_total", NULL, (int64_t)p->s->metrics.looks);
	exposition_metric(p->out, "quredis_written_timestamp_seconds", "gauge", "When these figures were taken.");
	exposition_seconds(p->out, "quredis_written_timestamp_seconds", NULL, clock_realtime_ms());
}

void prometheus_page(const struct sweeper *s, struct buffer *out, int64_t now_ms)
{
	struct queue_figures *counted = tally_add_up(s);
	struct page p = { .s = s, .out = out, .counted = counted, .now_ms = now_ms };

	write_process(&p);
	for (size_t i = 0; i < nitems(families); i++)
		write_family(&p, &families[i]);
	free(counted);
}
