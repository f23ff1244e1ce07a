/*
 * The figures of a queue in Redis, over all hosts and restarts. Workers count on the scoreboard, and
 * sweeper/report/tally.c writes the sums.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/queue/stats.h"

#include "common/base/base.h"
#include "common/queue/scripts.h"

#define CLASS_FIELD "class:"		/* tally.lua knows it, too */

/* The bounds of the buckets double. */
#define BUCKETS(of) \
	of "below_1", of "below_2", of "below_4", of "below_8", of "below_16", of "below_32", of "below_64", \
	    of "below_128", \
	of "below_256", of "below_512", of "below_1024", of "below_2048", of "below_4096", of "below_8192", \
	    of "below_16384", \
	of "below_32768", of "below_65536", of "below_131072", of "below_262144", of "below_524288", \
	    of "below_1048576", \
	of "below_2097152", of "below_4194304", of "longer"

static const char *const names_after_counters[(int)SCOREBOARD_FIGURES - (int)COUNTERS] = {
	BUCKETS(""), "duration_ms", BUCKETS("lag_"), "lag_ms",
};

static const char *figure_name(int i)
{
	return i < COUNTERS ? counters_table[i].name : names_after_counters[i - COUNTERS];
}

/* The arguments of the script, and the memory that they need. */
struct tally {
	struct script_arg args[2 + 2 * (QUEUE_FIGURES + CLASS_FIGURES)];
	struct script_number numbers[2 + QUEUE_FIGURES + CLASS_FIGURES];
	char names[CLASS_FIGURES][sizeof(CLASS_FIELD) + CLASS_NAME_MAX];
	size_t n, nnumbers;
};

static void tally_number(struct tally *t, int64_t number)
{
	t->args[t->n++] = script_number(&t->numbers[t->nnumbers++], number);
}

static void tally_classes(struct tally *t, const struct class_figure *classes)
{
	for (size_t i = 0; i < CLASS_FIGURES; i++) {
		if (classes[i].n == 0)
			continue;
		snprintf(t->names[i], sizeof(t->names[i]), CLASS_FIELD "%s", classes[i].name);
		t->args[t->n++] = script_string(t->names[i]);
		tally_number(t, (int64_t)classes[i].n);
	}
}

bool queue_tally(struct redis *r, const struct queue_keys *k, int64_t minute, const struct queue_figures *done,
    const struct class_figure *classes)
{
	struct tally t;
	size_t head;

	t.n = t.nnumbers = 0;
	tally_number(&t, QUEUE_RATE_KEPT_MS);
	tally_number(&t, CLASS_NAMES);
	head = t.n;
	for (int i = 0; i < QUEUE_FIGURES; i++) {
		if (done->n[i] == 0)
			continue;
		t.args[t.n++] = script_string(figure_name(i));
		tally_number(&t, (int64_t)done->n[i]);
	}
	tally_classes(&t, classes);
	if (t.n > head) {
		char *none = queue_lease_key(k, NULL), *rate = queue_rate_key(k, minute);

		queue_script(r, QUEUE_SCRIPT_tally, 3, (const char *[]){ none, k->stats, rate }, t.n, t.args);
		free(none);
		free(rate);
	}
	return t.n > head;
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

int64_t queue_stats_count(const struct redis_reply *value)
{
	long long n;
	char *end;

	if (value->type != REDIS_STRING)
		return 0;
	n = strtoll(value->str, &end, 10);
	return *end != '\0' || n < 0 ? 0 : n > QUEUE_STATS_COUNT_MOST ? QUEUE_STATS_COUNT_MOST : n;
}

void queue_figures_parse(struct queue_figures *out, const struct redis_reply *reply)
{
	*out = (struct queue_figures){0};
	if (reply->type != REDIS_ARRAY)
		return;
	for (size_t i = 0; i + 1 < reply->n; i += 2) {
		struct redis_reply name = redis_element(reply, i), value = redis_element(reply, i + 1);
		uint64_t *n = figure(out, &name);

		if (n != NULL && queue_stats_count(&value) > 0)
			*n = (uint64_t)queue_stats_count(&value);
	}
}

void queue_classes_parse(const struct redis_reply *reply, void (*each)(void *arg, const char *class, uint64_t n),
    void *arg)
{
	if (reply->type != REDIS_ARRAY)
		return;
	for (size_t i = 0; i + 1 < reply->n; i += 2) {
		struct redis_reply name = redis_element(reply, i), value = redis_element(reply, i + 1);

		if (name.type == REDIS_STRING && strncmp(name.str, CLASS_FIELD, strlen(CLASS_FIELD)) == 0 &&
		    queue_stats_count(&value) > 0)
			each(arg, name.str + strlen(CLASS_FIELD), (uint64_t)queue_stats_count(&value));
	}
}

void queue_outcomes(struct redis *r, const struct queue_keys *k, int64_t minute)
{
	char *key = minute == QUEUE_TOTALS ? alloc_string(k->stats) : queue_rate_key(k, minute);

	redis_appendf(r, "HMGET %s %s %s", key, counters_table[COUNT_DONE].name,
	    counters_table[COUNT_FAILED].name);
	free(key);
}

bool queue_outcomes_parse(struct queue_outcomes *out, const struct redis_reply *reply)
{
	struct redis_reply done, failed;

	*out = (struct queue_outcomes){0};
	if (reply->type != REDIS_ARRAY || reply->n != 2)
		return false;
	done = redis_element(reply, 0);
	failed = redis_element(reply, 1);
	*out = (struct queue_outcomes){ .done = queue_stats_count(&done), .failed = queue_stats_count(&failed) };
	return true;
}

bool queue_outcomes_in(struct queue_outcomes *out, const struct redis_reply *reply)
{
	*out = (struct queue_outcomes){0};
	for (size_t i = 0; reply->type == REDIS_ARRAY && i + 1 < reply->n; i += 2) {
		struct redis_reply name = redis_element(reply, i), value = redis_element(reply, i + 1);

		if (name.type == REDIS_STRING && strcmp(name.str, counters_table[COUNT_DONE].name) == 0)
			out->done = queue_stats_count(&value);
		else if (name.type == REDIS_STRING && strcmp(name.str, counters_table[COUNT_FAILED].name) == 0)
			out->failed = queue_stats_count(&value);
	}
	return reply->type == REDIS_ARRAY;
}

void queue_backlog_note(struct redis *r, const struct queue_keys *k, int64_t minute)
{
	char *none = queue_lease_key(k, NULL), *backlog = queue_backlog_key(k, minute / QUEUE_HOUR_MINUTES);
	struct script_number room[2];

	queue_script(r, QUEUE_SCRIPT_backlog, 3, (const char *[]){ none, k->ingress, backlog }, 2,
	    (struct script_arg[]){ script_number(&room[0], minute % QUEUE_HOUR_MINUTES),
	    script_number(&room[1], QUEUE_RATE_KEPT_MS) });
	free(none);
	free(backlog);
}

void queue_backlog(struct redis *r, const struct queue_keys *k, int64_t hour)
{
	char *key = queue_backlog_key(k, hour);

	redis_appendf(r, "HGETALL %s", key);
	free(key);
}

/* -1: no minute of an hour */
static int backlog_minute(const struct redis_reply *field)
{
	char *end;
	long n;

	if (field->type != REDIS_STRING || field->len == 0)
		return -1;
	n = strtol(field->str, &end, 10);
	return *end != '\0' || n < 0 || n >= QUEUE_HOUR_MINUTES ? -1 : (int)n;
}

void queue_backlog_parse(int64_t out[QUEUE_HOUR_MINUTES], const struct redis_reply *reply)
{
	for (int i = 0; i < QUEUE_HOUR_MINUTES; i++)
		out[i] = QUEUE_BACKLOG_UNKNOWN;
	for (size_t i = 0; reply->type == REDIS_ARRAY && i + 1 < reply->n; i += 2) {
		struct redis_reply minute = redis_element(reply, i), n = redis_element(reply, i + 1);

		if (backlog_minute(&minute) != -1 && n.type == REDIS_STRING)
			out[backlog_minute(&minute)] = queue_stats_count(&n);
	}
}

int64_t queue_left_ingress(const struct queue_figures *f)
{
	static const enum counter out[] = { COUNT_FETCHED, COUNT_EXPIRED_WAITING, COUNT_PURGED };
	static const enum counter back[] = { COUNT_HANDED_BACK, COUNT_RESCUED, COUNT_PURGED_DELAYED };
	uint64_t n = 0;

	for (size_t i = 0; i < nitems(out); i++)
		n += f->n[out[i]];
	for (size_t i = 0; i < nitems(back); i++)
		n -= f->n[back[i]];
	return (int64_t)n;
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
