/* The faces of each figure, by its row: the members of reports, and the samples of metrics. */
#include "common/facts/facts.h"

#include <jansson.h>

#define FACT_MOST (INT64_C(1) << 48)	/* no figure of quredis is higher; the sum of two does not overflow */
#define LEFT_MOST_MS (INT64_C(3650) * 24 * 3600 * 1000)

const struct fact_words facts_table[FACTS] = {
#define X(id, ...) [FACT_##id] = { __VA_ARGS__ },
	FACTS_TABLE(X)
#undef X
};

struct facts facts_unknown(void)
{
	struct facts f;

	for (int i = 0; i < FACTS; i++)
		f.n[i] = -1;
	return f;
}

void facts_add(struct facts *sum, const struct facts *host)
{
	for (int i = 0; i < FACTS; i++) {
		if (facts_table[i].scope != FACT_OF_HOST || facts_table[i].type > FACT_SOME || host->n[i] < 0)
			continue;
		sum->n[i] = sum->n[i] < 0 ? host->n[i] : sum->n[i] + host->n[i];
		if (sum->n[i] > FACT_MOST)		/* any program may have written any number of reports */
			sum->n[i] = FACT_MOST;
	}
}

int64_t facts_workers(const struct facts *f)
{
	int64_t n = 0;

	for (int i = FACT_STARTING; i <= FACT_STOPPING; i++)
		n += f->n[i] > 0 ? f->n[i] : 0;
	return n;
}

/* ---- reports ---- */

static json_t *json_of(enum fact_type type, int64_t n)
{
	switch (type) {
	case FACT_FLAG:
		return json_boolean(n > 0);
	case FACT_AGE:
	case FACT_PACE:
		return json_real((double)n / 1000);
	case FACT_SOME:
		return n == 0 ? NULL : json_integer(n);
	case FACT_COUNT:
	case FACT_LEFT:
		break;
	}
	return json_integer(n);
}

/* An object stands in the report also if none of its figures is known. */
void facts_write(json_t *report, enum fact_scope scope, unsigned tables, const struct facts *f)
{
	for (int i = 0; i < FACTS; i++) {
		const struct fact_words *w = &facts_table[i];
		json_t *in = w->object == NULL ? report : json_object_get(report, w->object);

		if (w->scope != scope || (tables != 0 && (w->in & tables) == 0))
			continue;
		if (in == NULL && json_object_set_new(report, w->object, in = json_object()) == -1)
			continue;
		if (f->n[i] >= 0)
			json_object_set_new(in, w->key, json_of(w->type, f->n[i]));	/* NULL: nothing */
	}
}

static int64_t integer_of(const json_t *n, int64_t most)
{
	return json_is_integer(n) && json_integer_value(n) >= 0 && json_integer_value(n) <= most ? json_integer_value(n)
	    : -1;
}

static int64_t value_of(enum fact_type type, const json_t *n, int64_t age_ms)
{
	double real = json_number_value(n);
	int64_t left;

	switch (type) {
	case FACT_FLAG:
		return json_is_boolean(n) ? json_is_true(n) : -1;
	case FACT_AGE:
	case FACT_PACE:
		return json_is_number(n) && real >= 0 && real <= (double)FACT_MOST / 1000 ? (int64_t)(real * 1000 + 0.5)
		    : -1;
	case FACT_LEFT:
		left = integer_of(n, LEFT_MOST_MS);
		return left < age_ms ? -1 : left - age_ms;	/* it has become due since */
	case FACT_COUNT:
	case FACT_SOME:
		break;
	}
	return integer_of(n, FACT_MOST);
}

void facts_read(struct facts *f, enum fact_scope scope, const json_t *report, int64_t age_ms)
{
	for (int i = 0; i < FACTS; i++) {
		const struct fact_words *w = &facts_table[i];
		const json_t *in = w->object == NULL ? report : json_object_get(report, w->object);

		if (w->scope == scope)
			f->n[i] = value_of(w->type, json_object_get(in, w->key), age_ms > 0 ? age_ms : 0);
	}
}

void facts_read_listed(struct facts *f, const json_t *row)
{
	for (int i = 0; i < FACTS; i++)
		if (facts_table[i].listed != NULL)
			f->n[i] = value_of(facts_table[i].type, json_object_get(row, facts_table[i].listed), 0);
}

/* ---- metrics ---- */

static void expose(struct buffer *out, enum metric m, const struct facts_row *row)
{
	for (int i = 0; i < FACTS; i++) {
		const struct fact_words *w = &facts_table[i];
		const char *const of_host[METRIC_LABELS] = { row->node, row->queue, w->label };
		const char *const of_queue[METRIC_LABELS] = { row->queue, w->label };
		int64_t n = row->facts->n[i];

		if (w->metric == m && n >= 0)
			exposition_sample(out, m, w->scope == FACT_OF_HOST ? of_host : of_queue,
			    w->type == FACT_FLAG ? n > 0 : n);
	}
}

void facts_page(struct buffer *out, enum metric_page page, const struct facts_row *rows, size_t n,
    void (*others)(void *arg, enum metric m), void *arg)
{
	for (int m = METRIC_NONE + 1; m < METRICS_END; m++) {
		if (!exposition_metric(out, page, (enum metric)m))
			continue;
		for (size_t i = 0; i < n; i++) {
			if (rows[i].facts != NULL)
				expose(out, (enum metric)m, &rows[i]);
			if (rows[i].counted != NULL)
				counters_expose(out, (enum metric)m, rows[i].queue, rows[i].counted);
		}
		others(arg, (enum metric)m);
	}
}
