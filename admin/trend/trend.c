/*
 * quredis trend: shows the course of a queue over the last hours: how many messages waited and for how long, and how
 * many attempts ended well or badly. The minutes of all hosts (common/queue/stats.h) are added up to points of equal
 * length, few enough for a chart. A point that no supervisor saw is unknown, not 0.
 */
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "admin/trend/trend.h"

#include "admin/trend/waits.h"
#include "common/base/base.h"
#include "common/queue/queue.h"

#define MINUTE_MS INT64_C(60000)
#define DAY_MINUTES (24 * 60)
#define PAGE 500		/* minutes in one request */
#define POINTS_MAX 100
#define SINCE "1h"		/* without --since */

/* minutes of a point; the last one is enough for all that is kept */
static const int64_t steps[] = { 1, 5, 15, 60 };

struct point {
	int64_t known_minutes;		/* how many of its minutes any supervisor saw */
	int64_t backlog;		/* the most messages that waited; QUEUE_BACKLOG_UNKNOWN */
	int64_t p50, p99;		/* as of waits_below_minutes() */
	struct queue_figures sum;
};

struct trend {
	int64_t first, last;		/* the minutes to be shown, since 1970 */
	/* the first minute that was read: messages that left at `first` may have come earlier */
	int64_t read_from;
	int64_t step;			/* minutes */
	size_t n;
	struct point points[POINTS_MAX + 2];
	/* all that Redis keeps, up to `last`; those before read_from are not read yet */
	struct waits_minute minutes[QUEUE_RATE_MINUTES];
	bool known[QUEUE_RATE_MINUTES];		/* some supervisor saw this minute */
};

/* The index of a minute in `minutes` and `known`. */
static size_t index_of(const struct trend *t, int64_t minute)
{
	return (size_t)(minute - t->last + QUEUE_RATE_MINUTES - 1);
}

static struct point *point_of(struct trend *t, int64_t minute)
{
	return &t->points[minute / t->step - t->first / t->step];
}

static void mark_known(struct trend *t, int64_t minute)
{
	if (minute >= t->first)
		point_of(t, minute)->known_minutes += !t->known[index_of(t, minute)];
	t->known[index_of(t, minute)] = true;
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
	t->read_from = t->last + 1;
}

static int read_figures(struct admin *a, struct trend *t, int64_t first, int64_t n)
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
		mark_known(t, first + i);
		t->minutes[index_of(t, first + i)].left = queue_left_ingress(&f);
		for (int k = 0; first + i >= t->first && k < QUEUE_FIGURES; k++)
			point_of(t, first + i)->sum.n[k] += f.n[k];
	}
	return 0;
}

static void add_backlog(struct trend *t, int64_t minute, int64_t n)
{
	mark_known(t, minute);
	t->minutes[index_of(t, minute)].backlog = n;
	if (minute >= t->first && n > point_of(t, minute)->backlog)
		point_of(t, minute)->backlog = n;
}

static int read_backlog(struct admin *a, struct trend *t, int64_t from, int64_t until)
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
				add_backlog(t, minute, minutes[i]);
		}
	}
	return 0;
}

/* Reads the minutes from `from` on that were not read yet. */
static int read_minutes(struct admin *a, struct trend *t, int64_t from)
{
	int64_t until = t->read_from;

	t->read_from = from;
	for (int64_t at = from; at < until; at += PAGE)
		if (read_figures(a, t, at, until - at < PAGE ? until - at : PAGE) == -1)
			return -1;
	return read_backlog(a, t, from, until);
}

/* The minutes of a point that are shown: *from up to, without, *until. */
static void point_range(const struct trend *t, size_t i, int64_t *from, int64_t *until)
{
	int64_t begin = (t->first / t->step + (int64_t)i) * t->step, end = begin + t->step;

	*from = begin < t->first ? t->first : begin;
	*until = end > t->last ? t->last + 1 : end;
}

static void estimate_point(struct trend *t, const struct waits *w, size_t i)
{
	int64_t from, until;
	size_t first, n;

	point_range(t, i, &from, &until);
	first = (size_t)(from - t->read_from);
	n = (size_t)(until - from);
	t->points[i].p50 = waits_below_minutes(w, first, n, 50);
	t->points[i].p99 = waits_below_minutes(w, first, n, 99);
}

/* False: earlier minutes must be read first. may_read_more: Redis keeps some. */
static bool estimate_waits(struct trend *t, bool may_read_more)
{
	struct waits *w = waits_new(&t->minutes[index_of(t, t->read_from)], (size_t)(t->last - t->read_from + 1));
	bool enough = !may_read_more || waits_oldest(w, (size_t)(t->first - t->read_from)) > 0;

	for (size_t i = 0; enough && i < t->n; i++)
		estimate_point(t, w, i);
	waits_free(w);
	return enough;
}

static int read_trend(struct admin *a, struct trend *t)
{
	int64_t oldest = t->last - QUEUE_RATE_MINUTES + 1, from = t->first;

	do {
		if (read_minutes(a, t, from) == -1)
			return -1;
		from -= t->last - from + 1;	/* the next round has twice as many minutes */
		from = from < oldest ? oldest : from;
	} while (!estimate_waits(t, t->read_from > oldest));
	return 0;
}

/* ---- output ---- */

enum { FROM, UNTIL, MINUTES, BACKLOG, DONE, FAILED, P50, P99, NCOLUMNS };

static const struct column all_columns[NCOLUMNS] = {
	[FROM] = { "from", "From", COLUMN_STATE },
	[UNTIL] = { "until", NULL, COLUMN_NAME },
	[MINUTES] = { "minutes", NULL, COLUMN_NUMBER },
	[BACKLOG] = { "backlog", "Waiting at most", COLUMN_NUMBER },
	[DONE] = { "done", "Done", COLUMN_NUMBER },
	[FAILED] = { "failed", "Failed", COLUMN_NUMBER },
	[P50] = { "wait_p50_below_ms", "Wait p50 <", COLUMN_NUMBER },
	[P99] = { "wait_p99_below_ms", "p99 <", COLUMN_NUMBER },
};

#define CLOCK_SIZE sizeof("2026-11-26 10:14")

/* "10:14" if it is today, otherwise "2026-11-25 10:14": in UTC, and as --since takes it. */
static const char *clock_text(const struct trend *t, int64_t minute, char out[CLOCK_SIZE])
{
	char stamp[CLOCK_RFC3339_SIZE];
	bool today = minute / DAY_MINUTES == t->last / DAY_MINUTES;

	clock_rfc3339(minute * MINUTE_MS, stamp);
	stamp[strlen("2026-11-26")] = ' ';
	stamp[strlen("2026-11-26 10:14")] = '\0';
	strlcpy(out, stamp + (today ? strlen("2026-11-26 ") : 0), CLOCK_SIZE);
	return out;
}

static struct cell cell_wait(int64_t minutes)
{
	return minutes < 0 ? cell_none() : cell_elapsed(minutes * MINUTE_MS);
}

static void show_point(struct admin *a, const struct trend *t, size_t i, bool briefly)
{
	const struct point *p = &t->points[i];
	bool known = p->known_minutes > 0;
	char clock[CLOCK_SIZE];
	int64_t from, until;

	point_range(t, i, &from, &until);
	output_row(&a->output, (struct cell[NCOLUMNS]){
		briefly ? cell_str(clock_text(t, from, clock)) : cell_time(from * MINUTE_MS),
		    cell_time(until * MINUTE_MS), cell_int(p->known_minutes),
		p->backlog == QUEUE_BACKLOG_UNKNOWN ? cell_none() : cell_int(p->backlog),
		known ? cell_int((int64_t)p->sum.n[COUNT_DONE]) : cell_none(),
		known ? cell_int((int64_t)p->sum.n[COUNT_FAILED]) : cell_none(), cell_wait(p->p50), cell_wait(p->p99),
	});
}

/* Shows the points without figures from i on as one line, but not the current minute, which may get some. Returns the
 * index of the last point. */
static size_t show_gap(struct admin *a, const struct trend *t, size_t i)
{
	char begin[CLOCK_SIZE], end[CLOCK_SIZE], *line;
	int64_t from, until, next;

	point_range(t, i, &from, &until);
	while (i + 1 < t->n && t->points[i + 1].known_minutes == 0)
		point_range(t, ++i, &next, &until);
	until = until > t->last ? t->last : until;
	if (from < until) {
		line = alloc_format("%s to %s: no supervisor served the queue", clock_text(t, from, begin),
		    clock_text(t, until, end));
		output_line(&a->output, line);
		free(line);
	}
	return i;
}

/* A person sees short times, and no rows without figures. */
static void show_trend(struct admin *a, const struct trend *t)
{
	bool briefly = a->output.terminal && !a->options.json;
	struct column columns[NCOLUMNS];

	memcpy(columns, all_columns, sizeof(columns));
	if (briefly)
		columns[FROM].title = "From (UTC)";
	output_begin(&a->output, columns, NCOLUMNS);
	for (size_t i = 0; i < t->n; i++)
		if (briefly && t->points[i].known_minutes == 0)
			i = show_gap(a, t, i);
		else
			show_point(a, t, i, briefly);
	output_end(&a->output, true);
}

int cmd_trend(struct admin *a)
{
	int64_t server_ms, since_ms;
	struct trend *t;
	int rc;

	if (admin_since(a, a->options.since == NULL ? SINCE : a->options.since, &server_ms, &since_ms) == -1)
		return -1;
	t = alloc_zero(1, sizeof(*t));
	choose_points(t, server_ms, since_ms);
	rc = read_trend(a, t);
	if (rc == 0)
		show_trend(a, t);
	free(t);
	return rc;
}
