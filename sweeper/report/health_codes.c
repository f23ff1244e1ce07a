/* The codes of health, and the reason of each as a sentence for an operator, which states the figure and the limit. */
#include "sweeper/report/health.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/base.h"
#include "common/queue/queue.h"
#include "sweeper/age/age.h"
#include "sweeper/rescue/rescue.h"
#include "sweeper/report/gauge.h"
#include "sweeper/report/metrics.h"
#include "sweeper/dead_letters/dead_letters.h"
#include "sweeper/core/core.h"

/* ---- the texts ---- */

/* The parts of a text. value -1: unknown in this look; the previous level is kept. */
struct reason {
	const struct sweeper *s;
	const struct sweeper_queue *q;
	int64_t value, limit;
	const char *what;		/* of the row: its words, or the beginning of them */
	char *out;			/* HEALTH_TEXT_SIZE bytes */
};

static void add_text(const struct reason *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add_text(const struct reason *r, const char *fmt, ...)
{
	size_t len = strlen(r->out);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(r->out + len, HEALTH_TEXT_SIZE - len, fmt, ap);
	va_end(ap);
}

static void what_text(const struct reason *r)
{
	add_text(r, "%s", r->what);
}

static void count_text(const struct reason *r)
{
	if (r->value < 0)
		add_text(r, "more than %" PRId64 " %s", r->limit, r->what);
	else
		add_text(r, "%" PRId64 " %s, the limit is %" PRId64, r->value, r->what, r->limit);
}

static void orphans_text(const struct reason *r)
{
	uint32_t undecided = r->q->board == NULL ? 0 : atomic_load(&r->q->board->sweeper.undecided);

	count_text(r);
	if (undecided > 0)
		add_text(r, "; %s", doubt_text((enum doubt)(undecided - 1)));
}

static void failures_text(const struct reason *r)
{
	const struct conf_thresholds *t = gauge_thresholds(r->s, r->q);
	const int64_t *n = gauge_of(r->q)->facts.n;
	const struct queue_failed *failed = metrics_of(r->q)->failed;
	char window[UNITS_SIZE], why[QUEUE_FAILED_TEXT_SIZE];

	if (r->value < 0) {
		add_text(r, "too many %s; the limit is %" PRId64 " %%", r->what, r->limit);
		return;
	}
	add_text(r, "%" PRId64 " of %" PRId64 " %s in the last %s", n[FACT_FAILURES], n[FACT_ATTEMPTS], r->what,
	    units_format_duration(t->failure_window_ms, window));
	if (n[FACT_ATTEMPTS] == 0 || n[FACT_ATTEMPTS] < t->failure_min)
		add_text(r, "; fewer than %" PRId64 " are not judged", t->failure_min);
	else
		add_text(r, ": %.1f %%, the limit is %" PRId64 " %%",
		    (double)n[FACT_FAILURES] * 100 / (double)n[FACT_ATTEMPTS], r->limit);
	if (failed != NULL && queue_failed_text(failed, why)[0] != '\0')
		add_text(r, "; %s", why);
}

/* "paused for 19m07s, the limit is 10m" */
static void duration_text(const struct reason *r)
{
	char text[UNITS_SIZE], limit[UNITS_SIZE];

	if (r->value < 0)
		add_text(r, "%s more than %s", r->what, units_format_duration(r->limit, limit));
	else
		add_text(r, "%s %s, the limit is %s", r->what, units_elapsed(r->value, text),
		    units_format_duration(r->limit, limit));
}

/* In the words of `quredis status`, without times: the report is read later. Each other hold has a reason of its
 * own. */
static void add_hold(const struct reason *r, const struct judged *judged)
{
	char text[HOLD_TEXT_SIZE];

	add_text(r, "%s", holds_explain_alone(r->s->child->board, r->q->board, health_slots(r->s), judged, r->q->conf,
	    0, text));
}

/* An operator who is told that a queue is paused must learn that its handler wants it so. */
static void paused_text(const struct reason *r)
{
	const int64_t *n = gauge_of(r->q)->facts.n;
	const struct judged *held = &health_of(r->q)->holds.now[HOLD_HELD];

	duration_text(r);
	if (held->reason != NULL && r->q->board != NULL) {
		add_text(r, "; ");
		add_hold(r, held);
	}
	if (n[FACT_INGRESS_SIZE] == 1)
		add_text(r, "; 1 message waits");
	else if (n[FACT_INGRESS_SIZE] > 1)
		add_text(r, "; %" PRId64 " messages wait", n[FACT_INGRESS_SIZE]);
}

static void growth_text(const struct reason *r)
{
	const struct growth *g = &metrics_of(r->q)->growth;

	if (g->span_ms > 0)
		add_text(r, "will not catch up: %.1f arrivals a minute, %.1f completions; ",
		    growth_a_minute(g, g->came), growth_a_minute(g, g->left));
	if (g->last.size > 0)
		add_text(r, "%" PRId64 " messages wait; ", g->last.size);
	duration_text(r);
}

static void delayed_text(const struct reason *r)
{
	const int64_t *n = gauge_of(r->q)->facts.n;

	count_text(r);
	if (n[FACT_RATE_RETRIED] >= 0)
		add_text(r, "; %" PRId64 " retries in the last whole minute", n[FACT_RATE_RETRIED]);
}

static void archive_text(const struct reason *r)
{
	const char *archive = archiver_error(r->q);

	add_text(r, "%s%s%s", r->what, archive[0] == '\0' ? "" : ": ", archive);
}

static void bounds_text(const struct reason *r)
{
	add_text(r, "%s", !bounds_are_stuck(r->q) ? r->what :
	    "dead letters stay, since the oldest is too long to be read: retry or delete it, or raise message_max");
}

static void not_ready_text(const struct reason *r)
{
	char text[HOLD_TEXT_SIZE];
	const char *why = r->q->board == NULL ? NULL : holds_explain_not_ready(r->q->board, text);

	add_text(r, "%s", why == NULL ? r->what : why);
	if (r->q->board != NULL && atomic_load(&r->q->board->master.not_ready) != NOT_READY_ALL)
		add_text(r, "; correct it, then quredis restart %s", r->q->keys.name);
}

static void aside_text(const struct reason *r)
{
	add_text(r, "%" PRId64 " %s; the newest has %" PRId64 " bytes; %s", r->value, r->what, aside_of(r->q)->size,
	    aside_of(r->q)->why);
}

static void late_text(const struct reason *r)
{
	const char *name;

	if (schedules_late_ms(r->q, &name) == 0)
		name = "?";
	add_text(r, "schedule %s: ", name);
	duration_text(r);
}

/* ---- the figures ---- */

static int64_t late_ms(const struct sweeper_queue *q)
{
	const char *name;

	return schedules_late_ms(q, &name);
}

/* The sum of the known values; -1: none is known. */
static int64_t sum_known(int64_t a, int64_t b)
{
	return a < 0 ? b : b < 0 ? a : a + b;
}

/* During a pause the pause is the reason. */
static int64_t growth_to_judge_ms(const struct sweeper_queue *q, const struct conf_thresholds *t)
{
	return gauge_of(q)->facts.n[FACT_PAUSED] > 0 ? 0 :
	    growth_ms(&metrics_of(q)->growth, health_of(q)->checks[HEALTH_GROWTH].level != QUEUE_HEALTHY,
	    t->growth_max_ms);
}

/* A pause for which no message waits does no harm yet, but an operator may have forgotten it. */
static int64_t paused_limit_ms(const struct conf_thresholds *t, const int64_t *n)
{
	return n[FACT_INGRESS_SIZE] > 0 || t->stuck_age_ms < t->paused_max_ms ? t->paused_max_ms : t->stuck_age_ms;
}

/* Messages that no worker of any host will fetch, since an operator wants none here; -1: not known. */
static int64_t waits_for_scale(const struct sweeper_queue *q)
{
	const int64_t *n = gauge_of(q)->facts.n;

	if (q->board == NULL || atomic_load(&q->board->master.wanted) > 0 || atomic_load(&q->board->master.scaled) == 0)
		return 0;
	return n[FACT_ALIVE] == 0 ? n[FACT_INGRESS_SIZE] : n[FACT_ALIVE] > 0 ? 0 : -1;
}

static void scaled_text(const struct reason *r)
{
	add_text(r, "%" PRId64 " %s%s, and the queue is scaled to no workers: quredis scale %s N, or quredis reload",
	    r->value, r->what, r->value == 1 ? " waits" : "s wait", r->q->keys.name);
}

static bool handler_is_not_ready(const struct sweeper_queue *q)
{
	return q->board != NULL && holds_not_ready(q->board) != NULL;
}

/* ---- the table ---- */

/*
 * A row for each of common/holds/codes.h. It has
 *	figure		as its text function takes it: a number, ms or percent; -1: not known. It and the limits are
 *			expressions of s (sweeper), q (queue), n (its facts) and t (its thresholds)
 *	degraded, unhealthy, looks	health_rule.h
 *	text, what	the function that writes the reason, and its words
 *	over		the reason while the queue recovers and the figure is 0; NULL: text is right then, too
 */
#define NONE HEALTH_NO_LIMIT
#define CODES(X) \
	X(HEALTH_INGRESS, n[FACT_INGRESS_SIZE], t->ingress_max, NONE, 1, count_text, "messages wait", NULL) \
	X(HEALTH_TRANSIT, n[FACT_TRANSIT_SIZE], t->transit_max, NONE, 1, count_text, \
	    "messages are in flight", NULL) \
	X(HEALTH_DEAD_LETTERS, n[FACT_ESCAPE_SIZE], t->dlq_max_warning, t->dlq_max_critical, 1, \
	    count_text, "dead letters", NULL) \
	X(HEALTH_STUCK, sum_known(n[FACT_INGRESS_STUCK], n[FACT_TRANSIT_STUCK]), t->stuck_max_warning, \
	    t->stuck_max_critical, 1, count_text, "messages are stuck", NULL) \
	X(HEALTH_DELAYED, n[FACT_DELAYED_SIZE], t->delayed_max, NONE, 1, delayed_text, \
	    "messages are delayed", NULL) \
	X(HEALTH_OLDEST_AGE, n[FACT_INGRESS_SIZE] == 0 ? 0 : n[FACT_INGRESS_OLDEST], \
	    t->oldest_age_warning_ms, t->oldest_age_critical_ms, 1, \
	    duration_text, "the oldest message has waited for", "no old message waits") \
	X(HEALTH_GROWTH, growth_to_judge_ms(q, t), t->growth_max_ms, NONE, 1, growth_text, \
	    "the backlog has grown for", "the backlog does not grow, or the queue is paused") \
	X(HEALTH_FAILURES, health_rule_failure_rate(n[FACT_FAILURES], n[FACT_ATTEMPTS], t->failure_min), \
	    t->failure_rate_warning, t->failure_rate_critical, 1, failures_text, "attempts failed", NULL) \
	X(HEALTH_ORPHANS, sum_known(n[FACT_ORPHAN_REGISTRATIONS], n[FACT_ORPHAN_MESSAGES]), 0, NONE, 2, \
	    orphans_text, "registrations and messages without an owner that lives", \
	    "each registration and message has an owner that lives") \
	X(HEALTH_PAUSED, n[FACT_PAUSED], paused_limit_ms(t, n), NONE, 1, paused_text, "paused for", \
	    "the queue is not paused") \
	X(HEALTH_ARCHIVE, archiver_fails(q), 0, NONE, 1, archive_text, \
	    "dead letters stay, since the archive takes none", "the archive refuses no dead letters") \
	X(HEALTH_BOUNDS, bounds_are_exceeded(q), 0, NONE, 1, bounds_text, \
	    "more or older dead letters than dead_letter allows, and neither archive nor discard is set", \
	    "dead letters are within the bounds") \
	X(HEALTH_HANDLER_NOT_READY, handler_is_not_ready(q), 0, NONE, 1, not_ready_text, \
	    "its " HOLD_NOT_READY_WORDS, NULL) \
	X(HEALTH_SCALED, waits_for_scale(q), 0, NONE, 1, scaled_text, "message", \
	    "a worker is wanted, or no message waits") \
	X(HEALTH_RELOAD_FAILED, (int64_t)atomic_load(&s->child->board->master.reload_failed), 0, NONE, 1, \
	    what_text, HOLD_RELOAD_FAILED_WORDS ": quredis status says why", "a reload has taken the configuration") \
	X(HEALTH_LEFTOVERS, (int64_t)atomic_load(&s->child->board->sweeper.leftovers), 0, NONE, 1, \
	    what_text, "processes of a dead supervisor may still run: its messages may run twice", \
	    "no process of a dead supervisor runs") \
	X(HEALTH_ASIDE, aside_of(q)->n, 0, NONE, 1, aside_text, \
	    "set aside, since Redis refuses to move them", "no message is set aside") \
	X(HEALTH_SCHEDULE_LATE, late_ms(q), schedules_on_time_ms(s), NONE, 1, late_text, \
	    "no tick has been pushed or ruled out for", "no tick is late")

#define ONE(...) + 1
_Static_assert(0 CODES(ONE) == HEALTH_HOLDS, "each figure of health has one row");

/* ---- the holds ---- */

/* Processes of dead supervisors and the archive have codes of their own. */
static bool has_own_code(const struct judged *judged)
{
	enum queue_error error = queue_error_in(judged->error);

	return error == QUEUE_ERROR_LEFTOVERS || error == QUEUE_ERROR_ARCHIVE;
}

static void measure_holds(const struct health_holds *holds, struct health_figure figures[HEALTH_CODES])
{
	for (int code = HEALTH_HOLDS; code < HEALTH_CODES; code++)
		figures[code] = (struct health_figure){ 0, { HEALTH_NO_LIMIT, HEALTH_NO_LIMIT, 1, false } };
	for (int i = 0; i < HOLDS; i++) {
		int code = (int)holds_code((enum hold)i);
		bool unhealthy = holds_table[i].unhealthy;

		if (code < HEALTH_HOLDS || code == HEALTH_CODES)
			continue;
		figures[code].limit = (struct health_limit){ unhealthy ? HEALTH_NO_LIMIT : 0,
		    unhealthy ? 0 : HEALTH_NO_LIMIT, 1, false };
		if (holds->counts[i] && !has_own_code(&holds->now[i]))
			figures[code].value = 1;
	}
}

static void hold_text(const struct reason *r, enum hold first)
{
	const struct health_holds *holds = &health_of(r->q)->holds;
	const struct judged *judged = NULL;

	for (int i = (int)first; i < HOLDS; i++)
		if (holds->now[i].reason != NULL && (int)holds_code((enum hold)i) == HEALTH_HOLDS + (int)first)
			judged = &holds->now[i];
	if (judged == NULL || r->q->board == NULL) {
		add_text(r, "%s", holds_table[first].text);
		return;
	}
	if (judged->hold == HOLD_BREAKER)
		add_text(r, "the breaker is open: ");
	add_hold(r, judged);
	if (judged->hold == HOLD_BREAKER && !judged->shut)
		add_text(r, "; workers test the handler at least every 30 s");
}

/* ---- all codes ---- */

size_t health_codes_list(const struct health *h, enum health_code list[HEALTH_CODES])
{
	size_t n = 0;

	for (int level = QUEUE_UNHEALTHY; level > QUEUE_HEALTHY; level--)
		for (int i = 0; i < HEALTH_CODES; i++) {
			/* holds first: a figure may exceed its limit because of one */
			int code = (i + HEALTH_HOLDS) % HEALTH_CODES;

			if ((int)h->checks[code].level == level)
				list[n++] = (enum health_code)code;
		}
	return n;
}

void health_codes_measure(const struct sweeper *s, const struct sweeper_queue *q,
    struct health_figure figures[HEALTH_CODES])
{
	const struct conf_thresholds *t = gauge_thresholds(s, q);
	const int64_t *n = gauge_of(q)->facts.n;

#define FIGURE(code, figure, degraded, unhealthy, looks, ...) figures[code] = \
    (struct health_figure){ figure, { degraded, unhealthy, looks, false } };
	CODES(FIGURE)
	figures[HEALTH_HANDLER_NOT_READY].limit.proven = true;	/* a handler is READY */
	measure_holds(&health_of(q)->holds, figures);
}

int64_t health_codes_limit(const struct health *h, enum health_code code)
{
	const struct health_limit *limit = &h->figures[code].limit;

	return h->checks[code].level == QUEUE_UNHEALTHY ? limit->unhealthy : limit->degraded;
}

bool health_codes_is_recovering(const struct health *h, enum health_code code)
{
	return health_rule_is_recovering(&h->checks[code], h->figures[code].value, &h->figures[code].limit);
}

/* Says why the level stays although the figure does not exceed its limit: health_rule.h. */
static void add_recovery(const struct reason *r, const struct health_check *c)
{
	if (c->falling > 0)
		add_text(r, "; good at %d of %d looks", c->falling, HEALTH_CALM_LOOKS);
	else
		add_text(r, "; it must fall to nine tenths of the limit at %d looks", HEALTH_CALM_LOOKS);
}

const char *health_codes_text(const struct sweeper *s, const struct sweeper_queue *q, enum health_code code,
    char out[HEALTH_TEXT_SIZE])
{
	static const struct {
		void (*text)(const struct reason *r);
		const char *what, *over;
	} rows[HEALTH_HOLDS] = {
#define TEXT(code, figure, degraded, unhealthy, looks, text, what, over) [code] = { text, what, over },
		CODES(TEXT)
	};
	const struct health *h = health_of(q);
	bool recovering = health_codes_is_recovering(h, code), holds = code >= HEALTH_HOLDS;
	const char *over = holds ? holds_table[code - HEALTH_HOLDS].over : rows[code].over;
	const struct reason r = { .s = s, .q = q, .value = h->figures[code].value, .limit = health_codes_limit(h, code),
		.what = holds ? NULL : rows[code].what, .out = out };

	out[0] = '\0';
	if (recovering)
		add_text(&r, "recovering: ");
	if (recovering && r.value == 0 && over != NULL)
		add_text(&r, "%s", over);
	else if (holds)
		hold_text(&r, (enum hold)(code - HEALTH_HOLDS));
	else
		rows[code].text(&r);
	if (recovering)
		add_recovery(&r, &h->checks[code]);
	return out;
}
