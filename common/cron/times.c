/* The times of a schedule: those of a cron expression, or the multiples of a duration. */
#include "common/cron/cron.h"

#define COUNTED_MAX 1000
#define FIRST_LOOK_MS INT64_C(60000)

int64_t cron_times_next(const struct cron_times *t, int64_t after_ms)
{
	int64_t next;

	if (after_ms < 0 || after_ms / 1000 > CRON_LAST)
		return -1;
	if (t->every_ms > 0)
		return (after_ms / t->every_ms + 1) * t->every_ms;
	next = cron_next(&t->cron, t->zone, after_ms / 1000);
	return next == -1 ? -1 : next * 1000;
}

/* The last time until now_ms, without counting those before it: looks at longer and longer spans until one has a time.
 * There is one after after_ms. */
static int64_t last_until(const struct cron_times *t, int64_t after_ms, int64_t now_ms)
{
	int64_t at, next, span = FIRST_LOOK_MS;

	do {
		at = cron_times_next(t, now_ms - span > after_ms ? now_ms - span : after_ms);
		span *= 2;
	} while (at > now_ms);
	while (at != -1 && (next = cron_times_next(t, at)) != -1 && next <= now_ms)
		at = next;
	return at == -1 ? 0 : at;
}

int64_t cron_times_due(const struct cron_times *t, int64_t after_ms, int64_t now_ms, int64_t *missed)
{
	int64_t at = cron_times_next(t, after_ms), next = at;

	*missed = 0;
	if (at == -1 || at > now_ms)
		return 0;
	if (t->every_ms > 0) {
		next = now_ms / t->every_ms * t->every_ms;
		*missed = (next - at) / t->every_ms;
		return next;
	}
	while ((next = cron_times_next(t, at)) != -1 && next <= now_ms) {
		if (++*missed == COUNTED_MAX)
			return last_until(t, at, now_ms);
		at = next;
	}
	return at;
}
