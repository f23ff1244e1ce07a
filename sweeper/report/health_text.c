/* The limits of each code of health, and its reason as a sentence for an operator, which states the figure and the limit. */
#include "sweeper/report/health.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <bsd/string.h>

#include "common/base/base.h"
#include "common/handler/handler.h"
#include "common/queue/queue.h"
#include "sweeper/rescue/rescue.h"
#include "sweeper/report/gauge.h"
#include "sweeper/dead_letters/dead_letters.h"
#include "sweeper/core/core.h"

/* A pause for which no message waits does no harm yet, but somebody may have forgotten it. */
static int64_t paused_limit_ms(const struct conf_thresholds *t, const struct gauge *g)
{
	return g->ingress.size > 0 || t->stuck_age_ms < t->paused_max_ms ? t->paused_max_ms : t->stuck_age_ms;
}

struct health_limit health_limit(const struct sweeper *s, const struct sweeper_queue *q, enum health_code code)
{
	const struct conf_thresholds *t = gauge_thresholds(s, q);

	switch (code) {
	case HEALTH_INGRESS:
		return (struct health_limit){ t->ingress_max, HEALTH_NO_LIMIT };
	case HEALTH_TRANSIT:
		return (struct health_limit){ t->transit_max, HEALTH_NO_LIMIT };
	case HEALTH_DEAD_LETTERS:
		return (struct health_limit){ t->dlq_max_warning, t->dlq_max_critical };
	case HEALTH_STUCK:
		return (struct health_limit){ t->stuck_max_warning, t->stuck_max_critical };
	case HEALTH_DELAYED:
		return (struct health_limit){ t->delayed_max, HEALTH_NO_LIMIT };
	case HEALTH_OLDEST_AGE:
		return (struct health_limit){ t->oldest_age_warning_ms, t->oldest_age_critical_ms };
	case HEALTH_GROWTH:
		return (struct health_limit){ t->growth_max_ms, HEALTH_NO_LIMIT };
	case HEALTH_FAILURES:
		return (struct health_limit){ t->failure_rate_warning, t->failure_rate_critical };
	case HEALTH_PAUSED:
		return (struct health_limit){ paused_limit_ms(t, gauge_of(q)), HEALTH_NO_LIMIT };
	case HEALTH_ERROR:
		return (struct health_limit){ HEALTH_NO_LIMIT, 0 };
	case HEALTH_ORPHANS:
	case HEALTH_BREAKER:
	case HEALTH_ARCHIVE:
	case HEALTH_BOUNDS:
	case HEALTH_LEFTOVERS:
	case HEALTH_ASIDE:
	case HEALTH_CODES:
		break;
	}
	return (struct health_limit){ 0, HEALTH_NO_LIMIT };
}

int64_t health_text_limit(const struct sweeper *s, const struct sweeper_queue *q, enum health_code code)
{
	struct health_limit limit = health_limit(s, q, code);

	return health_of(q)->checks[code].level == HEALTH_UNHEALTHY ? limit.unhealthy : limit.degraded;
}

/* ---- the texts ---- */

/* What a text is made of. value -1: not known now, but the level of the last look stays. */
struct reason {
	const struct sweeper *s;
	const struct sweeper_queue *q;
	int64_t value, limit;
	char *out;		/* HEALTH_TEXT_SIZE bytes */
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

static void count_text(const struct reason *r, const char *what)
{
	if (r->value < 0)
		add_text(r, "more than %" PRId64 " %s", r->limit, what);
	else
		add_text(r, "%" PRId64 " %s, the limit is %" PRId64, r->value, what, r->limit);
}

static void orphans_text(const struct reason *r)
{
	uint32_t undecided = r->q->board == NULL ? 0 : atomic_load(&r->q->board->sweeper.undecided);

	count_text(r, "registrations and messages without an owner that lives");
	if (undecided > 0)
		add_text(r, "; %s", doubt_text((enum doubt)(undecided - 1)));
}

static void failures_text(const struct reason *r)
{
	const struct gauge *g = gauge_of(r->q);
	char window[UNITS_SIZE];

	if (r->value < 0 || g->attempts <= 0)
		add_text(r, "too many attempts failed; the limit is %" PRId64 " %%", r->limit);
	else
		add_text(r, "%" PRId64 " of %" PRId64 " attempts failed in the last %s: %.1f %%, the limit is %" PRId64 " %%", g->failures, g->attempts,
		    units_format_duration(gauge_thresholds(r->s, r->q)->failure_window_ms, window), (double)g->failures * 100 / (double)g->attempts, r->limit);
}

/* "paused for 19m07s, the limit is 10m" */
static void duration_text(const struct reason *r, const char *what)
{
	char text[UNITS_SIZE], limit[UNITS_SIZE];

	if (r->value < 0)
		add_text(r, "%s more than %s", what, units_format_duration(r->limit, limit));
	else
		add_text(r, "%s %s, the limit is %s", what, units_elapsed(r->value, text), units_format_duration(r->limit, limit));
}

static void paused_text(const struct reason *r)
{
	const struct gauge *g = gauge_of(r->q);

	duration_text(r, "paused for");
	if (g->ingress.size == 1)
		add_text(r, "; 1 message waits");
	else if (g->ingress.size > 1)
		add_text(r, "; %" PRId64 " messages wait", g->ingress.size);
}

static void oldest_age_text(const struct reason *r)
{
	duration_text(r, "the oldest message has waited for");
}

static void growth_text(const struct reason *r)
{
	const struct growth *g = &metrics_of(r->q)->growth;

	if (g->span_ms > 0)
		add_text(r, "will not catch up: %.1f arrivals a minute, %.1f completions; ", growth_a_minute(g, g->came), growth_a_minute(g, g->left));
	if (g->last.size > 0)
		add_text(r, "%" PRId64 " messages wait; ", g->last.size);
	duration_text(r, "the backlog has grown for");
}

static void delayed_text(const struct reason *r)
{
	const struct gauge *g = gauge_of(r->q);

	count_text(r, "messages are delayed");
	if (g->rated)
		add_text(r, "; %" PRIu64 " retries in the last minute", g->rate.n[COUNT_RETRIED]);
}

static void error_text(const struct reason *r)
{
	static const char *const texts[] = {
		[QUEUE_ERROR_WRONG_TYPE] = "one of its keys has the wrong type",
		[QUEUE_ERROR_NO_REDIS] = "a worker has no connection to Redis",
		[QUEUE_ERROR_TRANSIENT] = "Redis refuses commands for now: it loads, is a replica, or has no memory",
	};
	const struct health *h = health_of(r->q);

	if (h->refused != COMMAND_UNNAMED)
		add_text(r, "Redis refuses %s, which the queue needs", command_name_text(h->refused));
	else
		add_text(r, "%s", h->error < nitems(texts) && texts[h->error] != NULL ? texts[h->error] : "Redis refuses something of this queue");
}

static void breaker_text(const struct reason *r)
{
	const char *program = r->q->conf == NULL || r->q->conf->handler == NULL ? NULL : r->q->conf->handler[0];
	const struct queue_breaker *b = r->q->board == NULL ? NULL : &r->q->board->workers.breaker;
	char cause[HANDLER_CAUSE_SIZE];

	add_text(r, "the breaker is open");
	if (b != NULL && atomic_load(&b->step) > 0)
		add_text(r, ": %s; workers test the handler at least every 30 s", handler_cause_text(atomic_load(&b->cause), program, cause));
}

static void archive_text(const struct reason *r)
{
	const char *archive = archiver_error(r->q);

	add_text(r, "dead letters stay, since the archive takes none%s%s", archive[0] == '\0' ? "" : ": ", archive);
}

static void bounds_text(const struct reason *r)
{
	add_text(r, "%s", bounds_are_stuck(r->q)
	    ? "dead letters stay, since the oldest is too long to be read: retry or delete it, or raise message_max"
	    : "more or older dead letters than dead_letter allows, and neither archive nor discard is set");
}

static void aside_text(const struct reason *r)
{
	add_text(r, "%" PRId64 " set aside, since Redis refuses to move them; the newest has %" PRId64 " bytes; %s", r->value, aside_of(r->q)->size,
	    aside_of(r->q)->why);
}

/* counted: the value and the limit are numbers of these. Else text() writes the reason, or said is the reason. */
static const struct {
	const char *counted, *said;
	void (*text)(const struct reason *r);
} texts[HEALTH_CODES] = {
	[HEALTH_INGRESS] = { .counted = "messages wait" },
	[HEALTH_TRANSIT] = { .counted = "messages are in flight" },
	[HEALTH_DEAD_LETTERS] = { .counted = "dead letters" },
	[HEALTH_STUCK] = { .counted = "messages are stuck" },
	[HEALTH_DELAYED] = { .text = delayed_text },
	[HEALTH_OLDEST_AGE] = { .text = oldest_age_text },
	[HEALTH_GROWTH] = { .text = growth_text },
	[HEALTH_FAILURES] = { .text = failures_text },
	[HEALTH_ORPHANS] = { .text = orphans_text },
	[HEALTH_PAUSED] = { .text = paused_text },
	[HEALTH_BREAKER] = { .text = breaker_text },
	[HEALTH_ERROR] = { .text = error_text },
	[HEALTH_ARCHIVE] = { .text = archive_text },
	[HEALTH_BOUNDS] = { .text = bounds_text },
	[HEALTH_LEFTOVERS] = { .said = "processes of a dead supervisor may still run: its messages may run twice" },
	[HEALTH_ASIDE] = { .text = aside_text },
};

const char *health_text(const struct sweeper *s, const struct sweeper_queue *q, enum health_code code, char out[HEALTH_TEXT_SIZE])
{
	struct reason r = { .s = s, .q = q, .value = health_of(q)->value[code], .limit = health_text_limit(s, q, code), .out = out };

	out[0] = '\0';
	if (texts[code].counted != NULL)
		count_text(&r, texts[code].counted);
	else if (texts[code].text != NULL)
		texts[code].text(&r);
	else
		strlcpy(out, texts[code].said, HEALTH_TEXT_SIZE);
	return out;
}
