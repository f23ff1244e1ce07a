/*
 * The rates of quredis top: the growth of a counter of stats since an earlier look, or else the rate of the last
 * whole minute from health.
 */
#include <string.h>

#include <jansson.h>

#include "admin/top/top.h"

#include "common/base/base.h"

#define RATE_MS 10000		/* sweepers write every five seconds: over a shorter time the rate would jump */

void top_rates_free(struct top_rates *r)
{
	while (r->n > 0)
		json_decref(r->stats[--r->n]);
}

/* Drops the oldest sample as soon as the next one is old enough to compare with. */
void top_rates_add(struct top_rates *r, json_t *overview, int64_t now_ms)
{
	while (r->n == TOP_SAMPLES || (r->n > 1 && now_ms - r->at_ms[1] >= RATE_MS)) {
		json_decref(r->stats[0]);
		memmove(r->stats, r->stats + 1, (size_t)(r->n - 1) * sizeof(*r->stats));
		memmove(r->at_ms, r->at_ms + 1, (size_t)(r->n - 1) * sizeof(*r->at_ms));
		r->n--;
	}
	r->stats[r->n] = json_incref(json_object_get(overview, "stats"));
	r->at_ms[r->n++] = now_ms;
}

int64_t top_rate(const struct top_rates *r, const json_t *before, const json_t *now, enum counter counter,
    int64_t a_minute)
{
	int last = r->n - 1;
	int64_t from, to;

	if (last > 0 && r->at_ms[last] - r->at_ms[0] >= RATE_MS / 2) {
		from = admin_count_in(json_object_get(before, "counters"), counters_table[counter].name);
		to = admin_count_in(json_object_get(now, "counters"), counters_table[counter].name);
		if (from >= 0 && to >= from)
			return (to - from) * 100000 / (r->at_ms[last] - r->at_ms[0]);
	}
	return a_minute < 0 ? -1 : a_minute * 100 / 60;
}

char *top_rate_text(int64_t hundredths)
{
	if (hundredths < 0)
		return alloc_string("-");
	if (hundredths >= 10000 || hundredths % 100 == 0)
		return alloc_format("%lld", (long long)hundredths / 100);
	return alloc_format("%lld.%02d", (long long)hundredths / 100, (int)(hundredths % 100));
}
