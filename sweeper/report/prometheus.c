/*
 * The page of metrics.textfile. Figures of a queue come only from the sweeper that leads it; figures of workers only
 * from their own supervisor. So a sum over all hosts counts everything once. Counters begin when the supervisor starts.
 */
#include "sweeper/report/metrics.h"

#include <stdlib.h>

#include "common/base/base.h"
#include "common/handler/handler.h"
#include "sweeper/report/gauge.h"
#include "sweeper/report/health.h"
#include "sweeper/report/node.h"
#include "sweeper/dead_letters/dead_letters.h"
#include "sweeper/core/core.h"
#include "sweeper/report/tally.h"

struct page {
	struct sweeper *s;
	struct buffer *out;
	enum metric metric;			/* that is being written */
	struct facts_row *rows;
	size_t n;
	const struct queue_figures *counted;	/* of each queue, by its place on the board */
	struct facts *host;			/* the same */
	struct hold_slots slots;
	int64_t now_ms;				/* CLOCK_MONOTONIC */
};

static void write_one(struct page *p, const char *label, int64_t n)
{
	exposition_sample(p->out, p->metric, (const char *const[METRIC_LABELS]){ label }, n);
}

/* ---- of the queues that this sweeper leads ---- */

static void write_sample(struct page *p, const struct sweeper_queue *q, const char *label, int64_t n)
{
	exposition_sample(p->out, p->metric, (const char *const[METRIC_LABELS]){ q->keys.name, label }, n);
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
			write_sample(p, q, holds_code_name((enum health_code)i), health_of(q)->checks[i].level);
}

static void write_recovering(struct page *p, const struct sweeper_queue *q)
{
	for (int i = 0; p->s->conf->health.enabled && i < HEALTH_CODES; i++)
		if (health_of(q)->checks[i].level != QUEUE_HEALTHY)
			write_sample(p, q, holds_code_name((enum health_code)i),
			    health_codes_is_recovering(health_of(q), (enum health_code)i));
}

static void write_failed(struct page *p, const struct sweeper_queue *q)
{
	struct class_figure figures[QUEUE_FAILED_FIGURES];
	size_t n = metrics_of(q)->failed == NULL ? 0 : queue_failed_figures(metrics_of(q)->failed, figures);

	for (size_t i = 0; i < n; i++)
		write_sample(p, q, figures[i].name, (int64_t)figures[i].n);
}

/* ---- of the workers of this supervisor ---- */

static void write_classes(struct page *p, const struct sweeper_queue *q)
{
	struct class_figure classes[CLASS_FIGURES];
	size_t n = classes_sum(&q->board->workers.classes, classes);

	for (size_t i = 0; i < n; i++)
		write_sample(p, q, classes[i].name, (int64_t)classes[i].n);
}

/* Its label "node" is left out. */
static void write_word(struct page *p, const struct sweeper_queue *q, const char *word)
{
	exposition_sample(p->out, p->metric, (const char *const[METRIC_LABELS]){ NULL, q->keys.name, word }, 1);
}

static void write_state(struct page *p, const struct sweeper_queue *q)
{
	struct judged judged = holds_judge(p->s->child->board, q->board, &p->slots);

	write_word(p, q, holds_table[judged.hold].name);
}

static void write_breaker_cause(struct page *p, const struct sweeper_queue *q)
{
	char label[HANDLER_CAUSE_SIZE];

	if (atomic_load(&q->board->workers.breaker.step) > 0)
		write_word(p, q, handler_cause_label(atomic_load(&q->board->workers.breaker.cause), label));
}

/* ---- the page ---- */

/* A queue that this sweeper leads has a row of its own: the row of its host is there also if it does not. */
static void add_rows(struct sweeper *s, struct sweeper_queue *q, void *arg)
{
	struct page *p = arg;

	if (q->conf == NULL)
		return;
	p->rows = alloc_resize(p->rows, p->n + 2, sizeof(*p->rows));
	if (metrics_is_fresh(s, q, p->now_ms))
		p->rows[p->n++] = (struct facts_row){ .queue = q->keys.name, .facts = &gauge_of(q)->facts };
	if (q->board != NULL) {
		size_t place = (size_t)(q->board - s->child->board->queues);
		struct judged judged = holds_judge(s->child->board, q->board, &p->slots);

		p->host[place] = holds_host_facts(s->child->board, q->board, &p->slots, &judged, q->conf, p->now_ms);
		p->rows[p->n++] = (struct facts_row){ NULL, q->keys.name, &p->host[place], &p->counted[place] };
	}
}

static void write_words(struct sweeper *s, struct sweeper_queue *q, void *arg)
{
	static void (*const led[METRICS_END])(struct page *p, const struct sweeper_queue *q) = {
		[METRIC_DEAD_LETTERS_UNARCHIVED] = write_unarchived, [METRIC_DEAD_LETTERS_OVER] = write_over,
		[METRIC_HEALTH_STATUS] = write_health, [METRIC_HEALTH_REASON] = write_reasons,
		[METRIC_HEALTH_RECOVERING] = write_recovering, [METRIC_FAILED_ATTEMPTS] = write_failed,
	}, (*const ours[METRICS_END])(struct page *p, const struct sweeper_queue *q) = {
		[METRIC_ESCAPED_CLASSES] = write_classes, [METRIC_QUEUE_STATE] = write_state,
		[METRIC_BREAKER_CAUSE] = write_breaker_cause,
	};
	struct page *p = arg;

	if (q->conf != NULL && led[p->metric] != NULL && metrics_is_fresh(s, q, p->now_ms))
		led[p->metric](p, q);
	if (q->conf != NULL && ours[p->metric] != NULL && q->board != NULL)
		ours[p->metric](p, q);
}

static void write_others(void *arg, enum metric m)
{
	struct page *p = arg;

	p->metric = m;
	if (m == METRIC_BUILD_INFO)
		write_one(p, QUREDIS_VERSION, 1);
	else if (m == METRIC_REDIS_UP)
		write_one(p, NULL, p->s->connection.up);
	else if (m == METRIC_WRITTEN)
		write_one(p, NULL, clock_realtime_ms());
	else if (m == METRIC_SWEEPER_LOOKS)
		write_one(p, NULL, (int64_t)metrics_own(p->s)->looks);
	else if (m == METRIC_REGISTRATIONS_REMOVED)
		write_one(p, NULL, (int64_t)atomic_load(&p->s->child->board->sweeper.registry.left));
	else
		sweeper_queues_each(p->s, write_words, p);
}

void prometheus_page(struct sweeper *s, struct buffer *out, int64_t now_ms)
{
	struct queue_figures *counted = tally_add_up(s);
	struct facts *host = alloc_zero(SCOREBOARD_QUEUES, sizeof(*host));
	struct page p = { .s = s, .out = out, .counted = counted, .host = host, .now_ms = now_ms };

	holds_read_slots(s->child->board, &p.slots);
	sweeper_queues_each(s, add_rows, &p);
	facts_page(out, PAGE_FILE, p.rows, p.n, write_others, &p);
	free(p.rows);
	free(counted);
	free(host);
}
