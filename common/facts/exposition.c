/* The text format of Prometheus, 0.0.4. It writes what its callers measured, and knows no queue. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/facts/exposition.h"

static const struct {
	const char *name, *type;
	enum { UNIT_ONE, UNIT_MS } unit;
	enum metric_page pages;
	const char *help;
	const char *labels[METRIC_LABELS];	/* NULL after the last */
} metrics[] = {
#define X(id, name, type, unit, pages, help, ...) [METRIC_##id] = { name, type, unit, pages, help, { __VA_ARGS__ } },
	METRICS(X)
#undef X
};

static void append_deprecation(struct buffer *b, const char *name)
{
	const struct deprecated *d = deprecated_find(DEPRECATED_METRIC, "", name);
	char *advice;

	if (d == NULL)
		return;
	advice = deprecated_advice(d);
	buffer_format(b, " This metric is %s.", advice);
	free(advice);
}

bool exposition_metric(struct buffer *b, enum metric_page page, enum metric m)
{
	if ((metrics[m].pages & page) == 0)
		return false;
	buffer_format(b, "# HELP %s %s", metrics[m].name, metrics[m].help);
	append_deprecation(b, metrics[m].name);
	buffer_format(b, "\n# TYPE %s %s\n", metrics[m].name, metrics[m].type);
	return true;
}

static void append_label_value(struct buffer *b, const char *value)
{
	for (const char *c = value; *c != '\0'; c++)
		if (*c == '\n')
			buffer_format(b, "\\n");
		else if (*c == '"' || *c == '\\')
			buffer_append(b, (const char[]){ '\\', *c }, 2);
		else
			buffer_append(b, c, 1);
}

/* The name with this suffix, the labels, and the label le if it is not NULL. */
static void append_series(struct buffer *b, enum metric m, const char *suffix, const char *const values[METRIC_LABELS],
    const char *le)
{
	char before = '{';

	buffer_format(b, "%s%s", metrics[m].name, suffix);
	for (size_t i = 0; i < METRIC_LABELS && metrics[m].labels[i] != NULL; i++) {
		if (values[i] == NULL)
			continue;
		buffer_format(b, "%c%s=\"", before, metrics[m].labels[i]);
		append_label_value(b, values[i]);
		buffer_append(b, "\"", 1);
		before = ',';
	}
	if (le != NULL)
		buffer_format(b, "%cle=\"%s\"", before, le);
	buffer_format(b, le != NULL || before == ',' ? "} " : " ");
}

static void append_seconds(struct buffer *b, int64_t ms)
{
	buffer_format(b, "%" PRId64 ".%03d\n", ms / 1000, (int)(ms % 1000));
}

void exposition_sample(struct buffer *b, enum metric m, const char *const values[METRIC_LABELS], int64_t value)
{
	append_series(b, m, "", values, NULL);
	if (metrics[m].unit == UNIT_MS)
		append_seconds(b, value);
	else
		buffer_format(b, "%" PRId64 "\n", value);
}

void exposition_histogram(struct buffer *b, enum metric m, const char *const values[METRIC_LABELS],
    const struct exposition_bucket *buckets, size_t nbuckets, int64_t sum_ms)
{
	int64_t below = 0;		/* Prometheus counts in each bucket those below it, too */
	char le[32];

	for (size_t i = 0; i < nbuckets; i++) {
		below += buckets[i].n;
		snprintf(le, sizeof(le), isinf(buckets[i].below_s) ? "+Inf" : "%g", buckets[i].below_s);
		append_series(b, m, "_bucket", values, le);
		buffer_format(b, "%" PRId64 "\n", below);
	}
	append_series(b, m, "_sum", values, NULL);
	append_seconds(b, sum_ms);
	append_series(b, m, "_count", values, NULL);
	buffer_format(b, "%" PRId64 "\n", below);
}
