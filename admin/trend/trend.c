/*
 * quredis trend: shows the course of a queue over the last hours: how many messages waited and for how long, and how many attempts ended well or badly.
 * The minutes of all hosts (common/queue/stats.h) are added up to points of equal length, few enough for a chart. A point that no supervisor saw is
 * unknown, not 0.
 */
#include <stdlib.h>
#include <sysexits.h>

#include "admin/trend/trend.h"

#include "admin/trend/waits.h"
#include "common/base/base.h"
#include "common/queue/queue.h"

#define MINUTE_MS INT64_C(60000)
#define PAGE 500		/* minutes in one request */
#define POINTS_MAX 100
#define SINCE "1h"		/* without --since */

static const int64_t steps[] = { 1, 5, 15, 60 };	/* minutes of a point; the last one is enough for all that is kept */

struct point {
	int64_t seen;			/* its minutes of which anything is known; 0: none */
	int64_t backlog;		/* the most messages that waited; QUEUE_BACKLOG_UNKNOWN */
	int64_t p50, p99;		/* as of waits_below_minutes() */
	struct queue_figures sum;
};

struct trend {
	int64_t first, last;		/* the minutes to be shown, since 1970 */
	int64_t from;			/* what was read begins here: messages that left at `first` may have come before */
	int64_t step;			/* minutes */
	size_t n;
	struct point points[POINTS_MAX + 2];
	struct waits_minute minutes[QUEUE_RATE_MINUTES];	/* those that Redis keeps; only from `from` on they were read */
	bool seen[QUEUE_RATE_MINUTES];
};

/* The index of a minute. */
static size_t place_of(const struct trend *t, int64_t minute)
{
	return (size_t)(minute - t->last + QUEUE_RATE_MINUTES - 1);
}

static struct point *point_of(struct trend *t, int64_t minute)
{
	return &t->points[minute / t->step - t->first / t->step];
}

static void see_minute(struct trend *t, int64_t minute)
{
	if (minute >= t->first)
		point_of(t, minute)->seen += !t->seen[place_of(t, minute)];
	t->seen[place_of(t, minute)] = true;
}

/* ---- reading ---- */

/* The minutes are those of stats. The last one is not over yet. */
static void choose_points(struct trend *t, int64_t server_ms, int64_t since_ms)
{
	size_t i = 0;

	t->last = server_ms / MINUTE_MS;
	t->first = since_ms / MINUTE_MS;
	if (t->last - t->first >= QUEUE_RATE_MINUTES)
		t->first = t->last - QUEUE_RATE_MINUTES + 1;
	while (i < nitems(steps) - 1 && t->last - t->first > steps[i] * POINTS_MAX)
		i++;
	t->step = steps[i];
	t->n = (size_t)(t->last / t->step - t->first / t->step + 1);
	for (i = 0; i < t->n; i++)
		t->points[i].backlog = QUEUE_BACKLOG_UNKNOWN;
	for (i = 0; i < nitems(t->minutes); i++)
		t->minutes[i].backlog = QUEUE_BACKLOG_UNKNOWN;
	t->from = t->last + 1;
}

static int take_figures(struct admin *a, struct trend *t, int64_t first, int64_t n)
{
	struct queue_figures f;
	struct redis_reply reply;

	for (int64_t i = 0; i < n; i++)
		queue_rate(&a->redis, &a->keys, first + i);
	for (int64_t i = 0; i < n; i++) {
		if (admin_reply_of(a, &reply, queue_rate_key(&a->keys, first + i)) == -1)
			return -1;
		if (reply.type != REDIS_ARRAY || reply.n == 0)
			continue;
		queue_figures_parse(&f, &reply);
		see_minute(t, first + i);
		t->minutes[place_of(t, first + i)].left = queue_left_ingress(&f);
		for (int k = 0; first + i >= t->first && k < QUEUE_FIGURES; k++)
			point_of(t, first + i)->sum.n[k] += f.n[k];
	}
	return 0;
}

static void note_backlog(struct trend *t, int64_t minute, int64_t n)
{
	see_minute(t, minute);
	t->minutes[place_of(t, minute)].backlog = n;
	if (minute >= t->first && n > point_of(t, minute)->backlog)
		point_of(t, minute)->backlog = n;
}

static int take_backlog(struct admin *a, struct trend *t, int64_t from, int64_t until)
{
	int64_t first = from / QUEUE_HOUR_MINUTES, last = (until - 1) / QUEUE_HOUR_MINUTES, minutes[QUEUE_HOUR_MINUTES];
	struct redis_reply reply;

	for (int64_t hour = first; hour <= last; hour++)
		queue_backlog(&a->redis, &a->keys, hour);
	for (int64_t hour = first; hour <= last; hour++) {
		if (admin_reply_of(a, &reply, queue_backlog_key(&a->keys, hour)) == -1)
			return -1;
		queue_backlog_parse(minutes, &reply);
		for (int i = 0; i < QUEUE_HOUR_MINUTES; i++) {
			int64_t minute = hour * QUEUE_HOUR_MINUTES + i;

			if (minute >= from && minute < until && minutes[i] != QUEUE_BACKLOG_UNKNOWN)
				note_backlog(t, minute, minutes[i]);
		}
	}
	return 0;
}

/* Reads on, backwards, to the minute `from`. */
static int take_minutes(struct admin *a, struct trend *t, int64_t from)
{
	int64_t until = t->from;

	t->from = from;
	for (int64_t at = from; at < until; at += PAGE)
		if (take_figures(a, t, at, until - at < PAGE ? until - at : PAGE) == -1)
			return -1;
	return take_backlog(a, t, from, until);
}

static void estimate_point(struct trend *t, const struct waits *w, size_t i)
{
	int64_t from = (t->first / t->step + (int64_t)i) * t->step, until = from + t->step;
	size_t first = (size_t)((from < t->first ? t->first : from) - t->from), end = (size_t)((until > t->last ? t->last + 1 : until) - t->from);

	t->points[i].p50 = waits_below_minutes(w, first, end - first, 50);
	t->points[i].p99 = waits_below_minutes(w, first, end - first, 99);
}

/* False: it needs the minutes before. */
static bool estimate_waits(struct trend *t, bool more)
{
	struct waits *w = waits_new(&t->minutes[place_of(t, t->from)], (size_t)(t->last - t->from + 1));
	bool enough = !more || waits_oldest(w, (size_t)(t->first - t->from)) > 0;

	for (size_t i = 0; enough && i < t->n; i++)
		estimate_point(t, w, i);
	waits_free(w);
	return enough;
}

static int take_trend(struct admin *a, struct trend *t)
{
	int64_t oldest = t->last - QUEUE_RATE_MINUTES + 1, from = t->first;

	do {
		if (take_minutes(a, t, from) == -1)
			return -1;
		from -= t->last - from + 1;	/* twice as much */
		from = from < oldest ? oldest : from;
	} while (!estimate_waits(t, t->from > oldest));
	return 0;
}

/* ---- output ---- */

static const struct column columns[] = {
	{ "from", "From", false }, { "until", NULL, false }, { "minutes", NULL, true }, { "backlog", "Waiting at most", true }, { "done", "Done", true },
	{ "failed", "Failed", true }, { "wait_p50_below_ms", "Wait p50 <", true }, { "wait_p99_below_ms", "p99 <", true },
};

static struct cell cell_wait(int64_t minutes)
{
	return minutes < 0 ? cell_none() : cell_elapsed(minutes * MINUTE_MS);
}

static void show_point(struct admin *a, const struct trend *t, size_t i)
{
	int64_t from = (t->first / t->step + (int64_t)i) * t->step, until = from + t->step;
	const struct point *p = &t->points[i];
	struct cell cells[nitems(columns)] = {
		cell_time((from < t->first ? t->first : from) * MINUTE_MS), cell_time((until > t->last ? t->last + 1 : until) * MINUTE_MS), cell_int(p->seen),
		p->backlog == QUEUE_BACKLOG_UNKNOWN ? cell_none() : cell_int(p->backlog),
		p->seen == 0 ? cell_none() : cell_int((int64_t)p->sum.n[COUNT_DONE]),
		p->seen == 0 ? cell_none() : cell_int((int64_t)p->sum.n[COUNT_FAILED]), cell_wait(p->p50), cell_wait(p->p99),
	};

	output_row(&a->output, cells);
}

int cmd_trend(struct admin *a)
{
	int64_t server_ms, since_ms;
	struct trend *t;
	int rc;

	if (admin_server_time(a, &server_ms) == -1)
		return -1;
	if (moment_parse(a->options.since == NULL ? SINCE : a->options.since, server_ms, &since_ms) == -1 || since_ms > server_ms)
		return admin_fail(a, EX_USAGE, "--since: expected " MOMENT_WANTED);
	t = alloc_zero(1, sizeof(*t));
	choose_points(t, server_ms, since_ms);
	rc = take_trend(a, t);
	output_begin(&a->output, columns, nitems(columns));
	for (size_t i = 0; rc == 0 && i < t->n; i++)
		show_point(a, t, i);
	output_end(&a->output, rc == 0);
	free(t);
	return rc;
}
