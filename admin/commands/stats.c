/*
 * quredis stats: shows the figures of queues for all hosts, in total or for a given time, as Redis holds them
 * (common/queue/stats.h). Workers count on the scoreboard, and sweepers write the sums to Redis every few seconds, so
 * the figures are some seconds late.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <jansson.h>

#include "admin/commands/commands.h"
#include "admin/queues/queues.h"

#include "common/base/base.h"
#include "common/queue/queue.h"

#define MINUTE_MS INT64_C(60000)
#define PAGE 500		/* minutes in one request */

static const int percents[] = { 50, 90, 99 };

struct stats {
	const struct queue_keys *keys;
	struct queue_figures sum;
	json_t *classes;		/* the dead letters of each class that the handler named */
	struct queue_failed failed;	/* why attempts failed */
	int64_t since_ms;		/* with minutes: so long ago they begin */
	json_t *minutes;		/* the minutes with any figure; NULL: totals */
};

/* ---- reading ---- */

static void add_class(void *classes, const char *class, uint64_t n)
{
	json_int_t before = json_integer_value(json_object_get(classes, class));

	json_object_set_new(classes, class, json_integer(before + (json_int_t)n));
}

static void keep_minute(struct stats *s, int64_t minute, const struct queue_figures *f)
{
	json_t *counters = counters_json(f->n, COUNTERS_ABOVE_0);
	char at[CLOCK_RFC3339_SIZE];

	if (json_object_size(counters) > 0)
		json_array_append_new(s->minutes,
		    json_pack("{s:s, s:O}", "minute", clock_rfc3339(minute * MINUTE_MS, at), "counters", counters));
	json_decref(counters);
}

static int take_minutes(struct admin *a, struct stats *s, int64_t first, int64_t n)
{
	struct queue_figures f;
	struct redis_reply reply;

	for (int64_t i = 0; i < n; i++)
		queue_rate(&a->redis, s->keys, first + i);
	for (int64_t i = 0; i < n; i++) {
		if (admin_reply_of(a, &reply, queue_rate_key(s->keys, first + i)) == -1)
			return -1;
		queue_figures_parse(&f, &reply);
		for (int figure = 0; figure < QUEUE_FIGURES; figure++)
			s->sum.n[figure] += f.n[figure];
		queue_classes_parse(&reply, add_class, s->classes);
		queue_failed_add(&s->failed, &reply);
		keep_minute(s, first + i, &f);
	}
	return 0;
}

/* The latest failed attempt, if it is not older than the minutes, or of a clock that ran ahead. */
static int take_latest(struct admin *a, struct stats *s, int64_t first_ms, int64_t server_ms)
{
	struct redis_reply reply;

	queue_totals(&a->redis, s->keys);
	if (admin_reply(a, &reply, s->keys->stats) == -1)
		return -1;
	queue_failed_latest(&s->failed, &reply);
	if (s->failed.at_ms < first_ms || s->failed.at_ms > server_ms)
		s->failed.at_ms = 0;
	return 0;
}

/* Sums the minutes of the given time. The first and the last one count in full. */
static int take_since(struct admin *a, struct stats *s, int64_t server_ms)
{
	int64_t last = server_ms / MINUTE_MS, first = (server_ms - s->since_ms) / MINUTE_MS, begin_ms;

	if (last - first >= QUEUE_RATE_MINUTES)
		first = last - QUEUE_RATE_MINUTES + 1;
	begin_ms = first * MINUTE_MS;
	s->minutes = json_array();
	for (; first <= last; first += PAGE)
		if (take_minutes(a, s, first, last - first + 1 < PAGE ? last - first + 1 : PAGE) == -1)
			return -1;
	return take_latest(a, s, begin_ms, server_ms);
}

static int take_totals(struct admin *a, struct stats *s)
{
	struct redis_reply reply;

	if (admin_reply(a, &reply, s->keys->stats) == -1)
		return -1;
	queue_figures_parse(&s->sum, &reply);
	queue_classes_parse(&reply, add_class, s->classes);
	queue_failed_add(&s->failed, &reply);
	queue_failed_latest(&s->failed, &reply);
	return 0;
}

/* ---- output ---- */

static json_t *percentiles_of(const struct queue_figures *f,
    int64_t (*percentile)(const struct queue_figures *f, int percent))
{
	json_t *o = json_object();

	for (size_t i = 0; i < nitems(percents); i++) {
		int64_t ms = percentile(f, percents[i]);
		char name[16];

		snprintf(name, sizeof(name), "p%d", percents[i]);
		json_object_set_new(o, name, ms > 0 ? json_integer(ms) : json_null());
	}
	return o;
}

static json_t *document(const struct stats *s)
{
	const struct queue_figures *f = &s->sum;
	json_t *o = json_pack("{s:s, s:O, s:{}, s:o}", "name", s->keys->name, "classes", s->classes, "failures",
	    "below_ms", percentiles_of(f, queue_percentile));

	counters_write(o, f);
	queue_failed_json(&s->failed, json_object_get(o, "failures"));
	json_object_set_new(json_object_get(o, "lag"), "below_ms", percentiles_of(f, queue_lag_percentile));
	if (s->minutes != NULL) {
		json_object_set_new(o, "since_ms", json_integer(s->since_ms));
		json_object_set(o, "minutes", s->minutes);
	}
	return o;
}

static void dump(struct admin *a, json_t *json)
{
	output_json_document(&a->output, json);
	json_decref(json);
}

/* A new string: "<8ms", since the histogram knows only the bounds of its buckets. NULL: there is nothing to know. */
static char *percentile_text(int64_t ms)
{
	char *bound, *text;

	if (ms == -1)
		return NULL;
	if (ms == 0)
		return alloc_string("long");
	bound = cell_text(&(struct cell){ .type = CELL_ELAPSED, .value = ms }, SIZE_MAX);
	text = alloc_format("<%s", bound);
	free(bound);
	return text;
}

static void show_table(struct admin *a, const struct stats *all, size_t n)
{
	static const struct column columns[] =
	    { { NULL, "Queue", COLUMN_NAME }, { NULL, NULL, FIGURES_OF(IN_STATS) },
		{ NULL, "p50", COLUMN_NUMBER | YIELDS(5) }, { NULL, "p90", COLUMN_NUMBER | YIELDS(8) },
		{ NULL, "p99", COLUMN_NUMBER | YIELDS(9) }, { NULL, "Failures", COLUMN_TEXT } };

	output_begin(&a->output, columns, nitems(columns));
	for (size_t q = 0; q < n; q++) {
		char *texts[nitems(percents)], why[QUEUE_FAILED_TEXT_SIZE];

		for (size_t i = 0; i < nitems(percents); i++)
			texts[i] = percentile_text(queue_percentile(&all[q].sum, percents[i]));
		output_row(&a->output, (struct cell[]){ cell_str(all[q].keys->name), cell_figures(&all[q].sum, NULL),
		    cell_str(texts[0]), cell_str(texts[1]), cell_str(texts[2]),
		    cell_str(queue_failed_text(&all[q].failed, why)[0] == '\0' ? NULL : why) });
		for (size_t i = 0; i < nitems(percents); i++)
			free(texts[i]);
	}
	output_end(&a->output, true);
}

/* ---- one queue ---- */

#define FIGURES_MOST (1 + COUNTERS + QUEUE_FAILED_FIGURES + 1 + CLASS_FIGURES + nitems(percents) + 1)

/* The figures of one queue: an object, and on a terminal a table that says what each of them is. */
struct figures {
	struct output *output;
	struct column columns[FIGURES_MOST];
	struct cell cells[FIGURES_MOST];
	char *texts[FIGURES_MOST];	/* of titles and cells */
	size_t n, ntexts;
};

static void add_figure(struct figures *f, const char *title, struct cell value, const char *meaning)
{
	if (f->output->terminal) {
		output_row(f->output, (struct cell[]){ cell_str(title), value, cell_str(meaning) });
		return;
	}
	assert(f->n < FIGURES_MOST);
	f->columns[f->n] = (struct column){ NULL, title, COLUMN_NUMBER };
	f->cells[f->n++] = value;
}

static const char *keep_text(struct figures *f, char *text)
{
	assert(f->ntexts < FIGURES_MOST);
	return f->texts[f->ntexts++] = text;
}

static void add_failed(struct figures *f, const struct queue_failed *failed)
{
	struct class_figure figures[QUEUE_FAILED_FIGURES];
	size_t n = queue_failed_figures(failed, figures);
	char *latest;

	for (size_t i = 0; i < n; i++)
		add_figure(f, keep_text(f, alloc_format("failed: %s", figures[i].name)),
		    cell_int((int64_t)figures[i].n), "attempts that failed for this reason");
	if (failed->at_ms == 0)
		return;
	latest = alloc_format("%s%s%s", failed->class, failed->text[0] == '\0' ? "" : ": ", failed->text);
	keep_text(f, latest);
	add_figure(f, "latest failure", f->output->terminal ? cell_time(failed->at_ms) : cell_str(latest), latest);
}

/* Returns the number of counters that would move the others off the screen of a terminal. */
static size_t add_counters(struct figures *f, const struct stats *s)
{
	size_t zeros = 0, nclasses = 0;
	const char *class;
	json_t *count;

	for (int i = 0; i < COUNTERS; i++)
		if (counters_are_in_redis(i) && f->output->terminal && !counters_table[i].at_0 &&
		    s->sum.n[i] == 0)
			zeros++;
		else if (counters_are_in_redis(i))
			add_figure(f, counters_table[i].name, cell_int((int64_t)s->sum.n[i]), counters_table[i].text);
	add_failed(f, &s->failed);
	json_object_foreach(s->classes, class, count)
		if (nclasses++ < CLASS_FIGURES)
			add_figure(f, keep_text(f, visible(class, strlen(class), CLASS_NAME_MAX)),
			    cell_int(json_integer_value(count)), "escaped: a class that the handler named");
	return zeros;
}

static void show_one(struct admin *a, const struct stats *s)
{
	static const char *const titles[nitems(percents)] = { "median run", "90 % of runs", "99 % of runs" };
	static const struct column table[] =
	    { { NULL, "Counter", COLUMN_NAME }, { NULL, "Number", COLUMN_NUMBER }, { NULL, "Meaning", COLUMN_TEXT } };
	struct figures f = { .output = &a->output };
	size_t zeros;

	if (a->output.terminal)
		output_begin(&a->output, table, nitems(table));
	else
		add_figure(&f, "queue", cell_str(s->keys->name), NULL);
	zeros = add_counters(&f, s);
	for (size_t i = 0; i < nitems(percents); i++)
		add_figure(&f, titles[i], cell_str(keep_text(&f,
		    percentile_text(queue_percentile(&s->sum, percents[i])))), "how long the handler ran");
	add_figure(&f, "99 % of lags", cell_str(keep_text(&f, percentile_text(queue_lag_percentile(&s->sum, 99)))),
	    "how late due and expired messages were moved");
	if (a->output.terminal)
		output_end(&a->output, true);
	else
		output_object(&a->output, f.columns, f.n, f.cells);
	if (zeros > 0)
		admin_note("%zu other counters are 0", zeros);
	while (f.ntexts > 0)
		free(f.texts[--f.ntexts]);
}

static void show_stats(struct admin *a, const struct stats *all, size_t n)
{
	json_t *array;

	if (!a->options.json) {
		if (a->noperands == 1)
			show_one(a, &all[0]);
		else
			show_table(a, all, n);
		return;
	}
	if (a->noperands == 1) {
		dump(a, document(&all[0]));
		return;
	}
	array = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(array, document(&all[i]));
	dump(a, array);
}

/* ---- choosing queues ---- */

static int read_since(struct admin *a, struct stats *all, size_t n)
{
	int64_t server_ms, since_ms;

	if (admin_since(a, a->options.since, &server_ms, &since_ms) == -1)
		return -1;
	for (size_t i = 0; i < n; i++) {
		all[i].since_ms = server_ms - since_ms;
		if (take_since(a, &all[i], server_ms) == -1)
			return -1;
	}
	return 0;
}

int cmd_stats(struct admin *a)
{
	struct registry_queue *queues;
	struct stats *all;
	size_t n;
	int rc = registry_choose(a, &queues, &n);

	if (rc == -1)
		return -1;
	all = alloc_zero(n, sizeof(*all));
	for (size_t i = 0; i < n; i++)
		all[i] = (struct stats){ .keys = &queues[i].keys, .classes = json_object() };
	rc = a->options.since != NULL ? read_since(a, all, n) : 0;
	for (size_t i = 0; i < n && a->options.since == NULL; i++)
		queue_totals(&a->redis, all[i].keys);
	for (size_t i = 0; i < n && a->options.since == NULL && rc == 0; i++)
		rc = take_totals(a, &all[i]);
	for (size_t i = 0; i < n; i++)
		queue_failed_sort(&all[i].failed);
	rc = rc == 0 ? admin_show_ages(a) : rc;
	if (rc == 0)
		show_stats(a, all, n);
	for (size_t i = 0; i < n; i++) {
		json_decref(all[i].classes);
		json_decref(all[i].minutes);
	}
	free(all);
	registry_free(queues, n);
	return rc;
}
