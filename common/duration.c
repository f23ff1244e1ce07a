/* Durations as a person writes them ("30s"), as milliseconds. Ranges are the caller's business. */
#include <stdio.h>
#include <string.h>

#include "common/duration.h"

#include "common/nitems.h"

static const struct {
	const char *name;
	int64_t ms;
} units[] = { { "d", 86400000 }, { "h", 3600000 }, { "m", 60000 }, { "s", 1000 }, { "ms", 1 } };

static int parse_digits(const char **s, int64_t *n)
{
	const char *p = *s;

	for (*n = 0; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(*n, 10, n) || __builtin_add_overflow(*n, *p - '0', n))
			return -1;
	if (p == *s)
		return -1;
	*s = p;
	return 0;
}

int duration_parse(const char *s, int64_t *ms)
{
	int64_t n;

	if (parse_digits(&s, &n) == -1)
		return -1;
	for (size_t i = 0; i < nitems(units); i++)
		if (strcmp(s, units[i].name) == 0)
			return __builtin_mul_overflow(n, units[i].ms, ms) ? -1 : 0;
	return -1;
}

const char *duration_format(int64_t ms, char out[DURATION_SIZE])
{
	size_t i = 0;

	if (ms == 0)
		return memcpy(out, "0s", 3);
	while (ms % units[i].ms != 0)
		i++;
	snprintf(out, DURATION_SIZE, "%lld%s", (long long)(ms / units[i].ms), units[i].name);
	return out;
}
