/* The counters and histograms of a queue: their names, and how each document and metric shows them. */
#include "common/facts/facts.h"

#include <math.h>

#include <jansson.h>

const struct counter_words counters_table[COUNTERS] = {
#define X(id, word, of_purge, meaning, ...) \
	[COUNT_##id] = { .name = (word), .purged = (of_purge), .text = (meaning), __VA_ARGS__ },
	COUNTERS_TABLE(X)
#undef X
};

int counters_bucket(int64_t ms)
{
	int i = 0;

	while (i < SCOREBOARD_BUCKETS - 1 && ms >= INT64_C(1) << i)
		i++;
	return i;
}

uint64_t counters_purged(const struct queue_figures *f, enum counter counter)
{
	uint64_t n = f->n[counter], delayed = f->n[COUNT_PURGED_DELAYED];

	if (counter != COUNT_PURGED || n == COUNTERS_UNKNOWN || delayed == COUNTERS_UNKNOWN)
		return n;
	return n > delayed ? n - delayed : 0;
}

/* ---- documents ---- */

json_t *counters_json(const uint64_t n[COUNTERS], enum counters_shown shown)
{
	json_t *o = json_object();

	for (int i = 0; i < COUNTERS; i++)
		if (shown == COUNTERS_ALL || (counters_are_in_redis(i) && (shown == COUNTERS_OF_REDIS || n[i] > 0)))
			json_object_set_new(o, counters_table[i].name, json_integer((json_int_t)n[i]));
	return o;
}

json_t *counters_histogram_json(const uint64_t n[SCOREBOARD_BUCKETS])
{
	json_t *all = json_array();

	for (int i = 0; i < SCOREBOARD_BUCKETS; i++)
		json_array_append_new(all, json_pack("{s:o, s:I}",
		    "below_ms", i < SCOREBOARD_BUCKETS - 1 ? json_integer((json_int_t)1 << i) : json_null(),
		    "count", (json_int_t)n[i]));
	return all;
}

void counters_write(json_t *document, const struct queue_figures *f)
{
	json_object_set_new(document, "counters", counters_json(f->n, COUNTERS_OF_REDIS));
	json_object_set_new(document, "durations", counters_histogram_json(&f->n[FIGURE_DURATIONS]));
	json_object_set_new(document, "duration_ms", json_integer((json_int_t)f->n[FIGURE_DURATION_MS]));
	json_object_set_new(document, "lag", json_pack("{s:o, s:I}",
	    "durations", counters_histogram_json(&f->n[FIGURE_LAGS]), "duration_ms", (json_int_t)f->n[FIGURE_LAG_MS]));
}

static uint64_t number_in(const json_t *object, const char *key)
{
	const json_t *n = json_object_get(object, key);

	return json_is_integer(n) && json_integer_value(n) >= 0 ? (uint64_t)json_integer_value(n) : COUNTERS_UNKNOWN;
}

static void read_histogram(uint64_t n[SCOREBOARD_BUCKETS + 1], const json_t *object)
{
	for (size_t i = 0; i < SCOREBOARD_BUCKETS; i++)
		n[i] = number_in(json_array_get(json_object_get(object, "durations"), i), "count");
	n[SCOREBOARD_BUCKETS] = number_in(object, "duration_ms");
}

void counters_read(struct queue_figures *f, const json_t *document)
{
	const json_t *counters = json_object_get(document, "counters");

	for (int i = 0; i < COUNTERS; i++)
		f->n[i] = number_in(counters, counters_table[i].name);
	read_histogram(&f->n[FIGURE_DURATIONS], document);
	read_histogram(&f->n[FIGURE_LAGS], json_object_get(document, "lag"));
}

/* ---- metrics ---- */

static void expose_number(struct buffer *page, enum metric m, const char *queue, const char *label, uint64_t n)
{
	if (n != COUNTERS_UNKNOWN)
		exposition_sample(page, m, (const char *const[METRIC_LABELS]){ queue, label }, (int64_t)n);
}

/* n: the buckets, and behind them the sum */
static void expose_histogram(struct buffer *page, enum metric m, const char *queue,
    const uint64_t n[SCOREBOARD_BUCKETS + 1])
{
	struct exposition_bucket buckets[SCOREBOARD_BUCKETS];

	for (int i = 0; i < SCOREBOARD_BUCKETS; i++) {
		if (n[i] == COUNTERS_UNKNOWN)
			return;
		buckets[i].below_s = i < SCOREBOARD_BUCKETS - 1 ? (double)(INT64_C(1) << i) / 1000 : INFINITY;
		buckets[i].n = (int64_t)n[i];
	}
	if (n[SCOREBOARD_BUCKETS] != COUNTERS_UNKNOWN)
		exposition_histogram(page, m, (const char *const[METRIC_LABELS]){ queue }, buckets, SCOREBOARD_BUCKETS,
		    (int64_t)n[SCOREBOARD_BUCKETS]);
}

/* A connection is no outcome of a message. */
void counters_expose(struct buffer *page, enum metric m, const char *queue, const struct queue_figures *f)
{
	for (int i = 0; m == METRIC_MESSAGES && i < COUNTERS; i++)
		if (i != COUNT_RECONNECTED)
			expose_number(page, m, queue, counters_table[i].name, f->n[i]);
	for (int i = 0; m == METRIC_PURGED && i < COUNTERS; i++)
		if (counters_table[i].purged != NULL && counters_are_in_redis(i))
			expose_number(page, m, queue, counters_table[i].purged, counters_purged(f, (enum counter)i));
	if (m == METRIC_PURGE_DRY_RUN)
		expose_number(page, m, queue, NULL, f->n[COUNT_WOULD_PURGE]);
	if (m == METRIC_HANDLER_DURATION)
		expose_histogram(page, m, queue, &f->n[FIGURE_DURATIONS]);
	if (m == METRIC_SWEEP_LAG)
		expose_histogram(page, m, queue, &f->n[FIGURE_LAGS]);
}
