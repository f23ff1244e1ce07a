/*
 * Durations and sizes as the configuration and the command line write them. A size is decimal digits and at most one
 * unit; a duration is one or more of such parts. The value is exact, or the text is refused: an empty text, a sign, a
 * space, a fraction other than "2.5s", another unit, or a value beyond int64_t. Callers check the range.
 *
 * expand_number(3) and humanize_number(3) of libbsd do not fit. expand_number() also accepts leading space and a sign
 * ("-1" becomes 2^64 - 1), octal and hexadecimal numbers ("010" is 8), lower-case units and a trailing "b"; a typing
 * error would become another value. humanize_number() rounds, and quredisd -T must print a value that parses to the
 * same.
 */
#include <stdio.h>
#include <string.h>

#include "common/base/units.h"

#include "common/base/nitems.h"

static const struct {
	const char *name;
	int64_t ms;
} duration_units[] = { { "d", 86400000 }, { "h", 3600000 }, { "m", 60000 }, { "s", 1000 }, { "ms", 1 } };

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

/* Parses one unit, which ends the text or stands before a digit. Returns its index; -1: none of them. */
static int parse_unit(const char **s)
{
	size_t len = strcspn(*s, "0123456789");

	for (size_t i = 0; i < nitems(duration_units); i++)
		if (len == strlen(duration_units[i].name) && strncmp(*s, duration_units[i].name, len) == 0) {
			*s += len;
			return (int)i;
		}
	return -1;
}

/* Parses the decimal places of "2.5s", the only fraction that units_elapsed() writes. */
static int parse_tenths(const char **s, int64_t *ms)
{
	const char *p = *s;

	if (p[0] != '.' || p[1] < '0' || p[1] > '9' || strcmp(p + 2, "s") != 0)
		return -1;
	*ms = (p[1] - '0') * 100;
	*s += 2;
	return 0;
}

int units_parse_duration(const char *s, int64_t *ms)
{
	int64_t n, part, tenths = 0, sum = 0;
	int unit = -1, next;

	do {
		if (parse_digits(&s, &n) == -1 || (*s == '.' && parse_tenths(&s, &tenths) == -1))
			return -1;
		next = parse_unit(&s);
		if (next <= unit || __builtin_mul_overflow(n, duration_units[next].ms, &part) ||
		    __builtin_add_overflow(part, tenths, &part) || __builtin_add_overflow(sum, part, &sum))
			return -1;
		unit = next;
	} while (*s != '\0');
	*ms = sum;
	return 0;
}

const char *units_format_duration(int64_t ms, char out[UNITS_SIZE])
{
	size_t i = 0;

	if (ms == 0)
		return memcpy(out, "0s", 3);
	while (ms % duration_units[i].ms != 0)
		i++;
	snprintf(out, UNITS_SIZE, "%lld%s", (long long)(ms / duration_units[i].ms), duration_units[i].name);
	return out;
}

const char *units_elapsed(int64_t ms, char out[UNITS_SIZE])
{
	long long s = ms / 1000;

	if (ms < 1000)
		snprintf(out, UNITS_SIZE, "%lldms", ms < 0 ? 0LL : (long long)ms);
	else if (s < 60)
		snprintf(out, UNITS_SIZE, "%lld.%llds", s, (long long)ms % 1000 / 100);
	else if (s < 3600)
		snprintf(out, UNITS_SIZE, "%lldm%02llds", s / 60, s % 60);
	else if (s < 86400)
		snprintf(out, UNITS_SIZE, "%lldh%02lldm", s / 3600, s % 3600 / 60);
	else
		snprintf(out, UNITS_SIZE, "%lldd%02lldh", s / 86400, s % 86400 / 3600);
	return out;
}

static const char size_units[] = "KMGT";

int units_parse_size(const char *s, int64_t *bytes)
{
	const char *unit;
	int64_t n;

	if (parse_digits(&s, &n) == -1)
		return -1;
	if (*s != '\0') {
		unit = strchr(size_units, *s++);
		if (unit == NULL || *s != '\0' ||
		    __builtin_mul_overflow(n, INT64_C(1024) << (10 * (unit - size_units)), &n))
			return -1;
	}
	*bytes = n;
	return 0;
}

const char *units_format_size(int64_t bytes, char out[UNITS_SIZE])
{
	size_t i = 0;

	while (bytes != 0 && bytes % 1024 == 0 && i < strlen(size_units)) {
		bytes /= 1024;
		i++;
	}
	snprintf(out, UNITS_SIZE, "%lld%.*s", (long long)bytes, i == 0 ? 0 : 1, &size_units[i == 0 ? 0 : i - 1]);
	return out;
}
