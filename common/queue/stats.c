/*
 * The figures of a queue in Redis, over all hosts and restarts. Workers count on the scoreboard, and sweeper/report/tally.c
 * writes the sums.
 */
#include <stdlib.h>
#include <string.h>

#include "common/queue/stats.h"

#include "common/base/base.h"
#include "common/queue/scripts.h"

#define KEPT_MS (INT64_C(60000) * QUEUE_RATE_MINUTES)

/* The bounds of the buckets double. */
#define BUCKETS(of)                                                                                                       \
	of "below_1", of "below_2", of "below_4", of "below_8", of "below_16", of "below_32", of "below_64", of "below_128",      \
	of "below_256", of "below_512", of "below_1024", of "below_2048", of "below_4096", of "below_8192", of "below_16384",     \
	of "below_32768", of "below_65536", of "below_131072", of "below_262144", of "below_524288", of "below_1048576",        \
	of "below_2097152", of "below_4194304", of "longer"

static const char *const names_after_counters[(int)SCOREBOARD_FIGURES - (int)COUNTERS] = {
	BUCKETS(""), "duration_ms", BUCKETS("lag_"), "lag_ms",
};

static const char *figure_name(int i)
{
	return i < COUNTERS ? counter_names[i] : names_after_counters[i - COUNTERS];
}

bool queue_tally(struct redis *r, const struct queue_keys *k, int64_t minute, const struct queue_figures *done)
{
	struct script_arg args[1 + 2 * QUEUE_FIGURES];
	struct script_number kept, numbers[QUEUE_FIGURES];
	size_t n = 0;

	args[n++] = script_number(&kept, KEPT_MS);
	for (int i = 0; i < QUEUE_FIGURES; i++) {
		if (done->n[i] == 0)
			continue;
		args[n++] = script_string(figure_name(i));
		args[n++] = script_number(&numbers[i], (int64_t)done->n[i]);
	}
	if (n > 1) {
		char *none = queue_lease_key(k, NULL), *rate = queue_rate_key(k, minute);

		queue_script(r, QUEUE_SCRIPT_tally, 3, (const char *[]){ none, k->stats, rate }, n, args);
		free(none);
		free(rate);
	}
	return n > 1;
}

void queue_totals(struct redis *r, const struct queue_keys *k)
{
	redis_appendf(r, "HGETALL %s", k->stats);
}

void queue_rate(struct redis *r, const struct queue_keys *k, int64_t minute)
{
	char *key = queue_rate_key(k, minute);

	redis_appendf(r, "HGETALL %s", key);
	free(key);
}

static uint64_t *figure(struct queue_figures *f, const struct redis_reply *name)
{
	for (int i = 0; i < QUEUE_FIGURES; i++)
		if (name->type == REDIS_STRING && strcmp(name->str, figure_name(i)) == 0)
			return &f->n[i];
	return NULL;
}

void queue_figures_parse(struct queue_figures *out, const struct redis_reply *reply)
{
	*out = (struct queue_figures){0};
	if (reply->type != REDIS_ARRAY)
		return;
	for (size_t i = 0; i + 1 < reply->n; i += 2) {
		struct redis_reply name = redis_element(reply, i), value = redis_element(reply, i + 1);
		uint64_t *n = figure(out, &name);
		long long parsed;
		char *end;

		if (n == NULL || value.type != REDIS_STRING)
			continue;
		parsed = strtoll(value.str, &end, 10);
		if (parsed > 0 && *end == '\0')
			*n = (uint64_t)parsed;
	}
}

void queue_outcomes(struct redis *r, const struct queue_keys *k, int64_t minute)
{
	char *key = minute == QUEUE_TOTALS ? alloc_string(k->stats) : queue_rate_key(k, minute);

	redis_appendf(r, "HMGET %s %s %s", key, counter_names[COUNT_DONE], counter_names[COUNT_FAILED]);
	free(key);
}

/* So many never happen: another program wrote it. The bound keeps sums and percentages in range. */
#define OUTCOMES_MAX INT64_C(1000000000000000)

static int64_t outcome_count(const struct redis_reply *reply)
{
	char *end;
	long long n;

	if (reply->type != REDIS_STRING)
		return 0;
	n = strtoll(reply->str, &end, 10);
	return *end != '\0' || n < 0 ? 0 : n > OUTCOMES_MAX ? OUTCOMES_MAX : n;
}

bool queue_outcomes_parse(struct queue_outcomes *out, const struct redis_reply *reply)
{
	struct redis_reply done, failed;

	*out = (struct queue_outcomes){0};
	if (reply->type != REDIS_ARRAY || reply->n != 2)
		return false;
	done = redis_element(reply, 0);
	failed = redis_element(reply, 1);
	*out = (struct queue_outcomes){ .done = outcome_count(&done), .failed = outcome_count(&failed) };
	return true;
}

static int64_t percentile(const uint64_t buckets[SCOREBOARD_BUCKETS], int percent)
{
	uint64_t total = 0, below = 0;

	for (int i = 0; i < SCOREBOARD_BUCKETS; i++)
		total += buckets[i];
	for (int i = 0; i < SCOREBOARD_BUCKETS - 1; i++) {
		below += buckets[i];
		if (total > 0 && (double)below * 100 >= (double)total * percent)
			return INT64_C(1) << i;
	}
	return total == 0 ? -1 : 0;
}

int64_t queue_percentile(const struct queue_figures *f, int percent)
{
	return percentile(&f->n[FIGURE_DURATIONS], percent);
}

int64_t queue_lag_percentile(const struct queue_figures *f, int percent)
{
	return percentile(&f->n[FIGURE_LAGS], percent);
}
