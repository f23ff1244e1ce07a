/*
 * quredis trend: shows the course of a queue over the last hours: how many messages waited, and how many attempts ended well or badly. The minutes of
 * all hosts (common/queue/stats.h) are added up to points of equal length, few enough for a chart. A point that no supervisor saw is unknown, not 0.
 */
#include <stdlib.h>
#include <sysexits.h>

#include "admin/commands/commands.h"

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
	struct queue_figures sum;
};

struct trend {
	int64_t first, last;		/* minutes since 1970 */
	int64_t step;			/* minutes */
	size_t n;
	struct point points[POINTS_MAX + 2];
	bool *seen;			/* for each minute from `first` on */
};

static struct point *point_of(struct trend *t, int64_t minute)
{
	return &t->points[minute / t->step - t->first / t->step];
}

static void see_minute(struct trend *t, int64_t minute)
{
	point_of(t, minute)->seen += !t->seen[minute - t->first];
	t->seen[minute - t->first] = true;
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
	t->seen = alloc_zero((size_t)(t->last - t->first + 1), sizeof(*t->seen));
}

static int take_figures(struct admin *a, struct trend *t, int64_t first, int64_t n)
{
	struct queue_figures f;
	struct redis_reply reply;

	for (int64_t i = 0; i < n; i++)
		queue_rate(&a->redis, &a->keys, first + i);
	for (int64_t i = 0; i < n; i++) {
		if (admin_reply(a, &reply, a->keys.stats) == -1)
			return -1;
		if (reply.type != REDIS_ARRAY || reply.n == 0)
			continue;
		queue_figures_parse(&f, &reply);
		see_minute(t, first + i);
		for (int k = 0; k < QUEUE_FIGURES; k++)
			point_of(t, first + i)->sum.n[k] += f.n[k];
	}
	return 0;
}

static int take_backlog(struct admin *a, struct trend *t)
{
	int64_t from = t->first / QUEUE_HOUR_MINUTES, to = t->last / QUEUE_HOUR_MINUTES, minutes[QUEUE_HOUR_MINUTES];
	struct redis_reply reply;

	for (int64_t hour = from; hour <= to; hour++)
		queue_backlog(&a->redis, &a->keys, hour);
	for (int64_t hour = from; hour <= to; hour++) {
		if (admin_reply(a, &reply, a->keys.ingress) == -1)
			return -1;
		queue_backlog_parse(minutes, &reply);
		for (int i = 0; i < QUEUE_HOUR_MINUTES; i++) {
			int64_t minute = hour * QUEUE_HOUR_MINUTES + i;

			if (minute < t->first || minute > t->last || minutes[i] == QUEUE_BACKLOG_UNKNOWN)
				continue;
			see_minute(t, minute);
			if (minutes[i] > point_of(t, minute)->backlog)
				point_of(t, minute)->backlog = minutes[i];
		}
	}
	return 0;
}

static int take_trend(struct admin *a, struct trend *t)
{
	for (int64_t at = t->first; at <= t->last; at += PAGE)
		if (take_figures(a, t, at, t->last - at + 1 < PAGE ? t->last - at + 1 : PAGE) == -1)
			return -1;
	return take_backlog(a, t);
}

/* ---- output ---- */

static const struct column columns[] = {
	{ "from", "From", false }, { "until", NULL, false }, { "minutes", NULL, true }, { "backlog", "Waiting at most", true }, { "done", "Done", true },
	{ "failed", "Failed", true },
};

static void show_point(struct admin *a, const struct trend *t, size_t i)
{
	int64_t from = (t->first / t->step + (int64_t)i) * t->step, until = from + t->step;
	const struct point *p = &t->points[i];
	struct cell cells[nitems(columns)] = {
		cell_time((from < t->first ? t->first : from) * MINUTE_MS), cell_time((until > t->last ? t->last + 1 : until) * MINUTE_MS), cell_int(p->seen),
		p->backlog == QUEUE_BACKLOG_UNKNOWN ? cell_none() : cell_int(p->backlog),
		p->seen == 0 ? cell_none() : cell_int((int64_t)p->sum.n[COUNT_DONE]),
		p->seen == 0 ? cell_none() : cell_int((int64_t)p->sum.n[COUNT_FAILED]),
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
	free(t->seen);
	free(t);
	return rc;
}
