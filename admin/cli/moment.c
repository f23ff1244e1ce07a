/* Parses moments: options such as --since. Pure: the present time is a parameter. */
#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "admin/cli/moment.h"

#include "common/base/base.h"

#define DAY_MS INT64_C(86400000)

/* n digits. */
static int parse_number(const char **s, int n, int *value)
{
	*value = 0;
	for (int i = 0; i < n; i++, (*s)++) {
		if (!isdigit((unsigned char)**s))
			return -1;
		*value = *value * 10 + (**s - '0');
	}
	return 0;
}

/* "02:00", "02:00:05", "02:00:05.123" */
static int parse_clock(const char **s, int64_t *ms)
{
	int hour, minute, second = 0, unit = 100;
	bool seconds;

	if (parse_number(s, 2, &hour) == -1 || *(*s)++ != ':' || parse_number(s, 2, &minute) == -1)
		return -1;
	seconds = **s == ':';
	*s += seconds;
	if (seconds && parse_number(s, 2, &second) == -1)
		return -1;
	*ms = ((int64_t)hour * 3600 + minute * 60 + second) * 1000;
	if (seconds && **s == '.' && isdigit((unsigned char)(*s)[1]))
		for ((*s)++; isdigit((unsigned char)**s); (*s)++, unit /= 10)
			*ms += (**s - '0') * unit;
	return hour > 23 || minute > 59 || second > 60 ? -1 : 0;
}

/* "", "Z", "+01:00" */
static int parse_zone(const char *s, int64_t *ms)
{
	int hour, minute, sign = *s == '-' ? -1 : 1;

	*ms = 0;
	if (*s == '\0' || strcmp(s, "Z") == 0)
		return 0;
	if (*s != '+' && *s != '-')
		return -1;
	s++;
	if (parse_number(&s, 2, &hour) == -1 || (*s == ':' && *++s == '\0') || parse_number(&s, 2, &minute) == -1 ||
	    *s != '\0')
		return -1;
	*ms = sign * ((int64_t)hour * 60 + minute) * 60000;
	return 0;
}

static int parse_date(const char **s, int64_t *ms)
{
	int year, month, day;
	struct tm tm = {0};
	time_t at;

	if (parse_number(s, 4, &year) == -1 || *(*s)++ != '-' || parse_number(s, 2, &month) == -1 || *(*s)++ != '-' ||
	    parse_number(s, 2, &day) == -1)
		return -1;
	tm.tm_year = year - 1900;
	tm.tm_mon = month - 1;
	tm.tm_mday = day;
	at = timegm(&tm);
	*ms = (int64_t)at * 1000;
	/* timegm() turns the 31st of a month of 30 days into another date */
	return tm.tm_mon != month - 1 || tm.tm_mday != day || at < 0 ? -1 : 0;
}

enum form { FORM_DURATION, FORM_CLOCK, FORM_DATE, FORM_NONE };

/* A duration, also as a table shows it: "49s ago", "in 5m". coming: which of the two may be. */
static int parse_duration(const char *text, bool coming, int64_t *ms)
{
	static const char before[] = "in ", after[] = " ago";
	size_t len = strlen(text), first = coming && strncmp(text, before, strlen(before)) == 0 ? strlen(before) : 0;
	bool ago = !coming && len > strlen(after) && strcmp(text + len - strlen(after), after) == 0;
	char *duration = alloc_copy(text + first, len - first - (ago ? strlen(after) : 0));
	int rc = units_parse_duration(duration, ms);

	free(duration);
	return rc;
}

/* *ms: a duration, a time of day of the day of now_ms, or a date. */
static enum form parse(const char *text, int64_t now_ms, bool coming, int64_t *ms)
{
	int64_t day, clock = 0, zone = 0;
	const char *s = text;

	if (parse_duration(text, coming, ms) == 0)
		return FORM_DURATION;
	if (parse_clock(&s, &clock) == 0 && parse_zone(s, &zone) == 0) {
		*ms = now_ms / DAY_MS * DAY_MS + clock - zone;
		return FORM_CLOCK;
	}
	s = text;
	if (parse_date(&s, &day) == -1)
		return FORM_NONE;
	if (*s != '\0' && ((*s != 'T' && *s != ' ') || (s++, parse_clock(&s, &clock)) == -1 ||
	    parse_zone(s, &zone) == -1))
		return FORM_NONE;
	*ms = day + clock - zone;
	return FORM_DATE;
}

int moment_parse(const char *text, int64_t now_ms, int64_t *ms)
{
	enum form form = parse(text, now_ms, false, ms);

	if (form == FORM_DURATION)
		*ms = now_ms - *ms;
	while (form == FORM_CLOCK && *ms > now_ms)
		*ms -= DAY_MS;
	return form == FORM_NONE || *ms < 0 ? -1 : 0;
}

bool moment_is_relative(const char *text)
{
	int64_t ms;
	enum form form = parse(text, 0, false, &ms);

	return form == FORM_DURATION || form == FORM_CLOCK;
}

int moment_parse_coming(const char *text, int64_t now_ms, int64_t *ms)
{
	enum form form = parse(text, now_ms, true, ms);

	if (form == FORM_DURATION && __builtin_add_overflow(now_ms, *ms, ms))
		return -1;
	while (form == FORM_CLOCK && *ms < now_ms)
		*ms += DAY_MS;
	while (form == FORM_CLOCK && *ms >= now_ms + DAY_MS)
		*ms -= DAY_MS;
	return form == FORM_NONE ? -1 : 0;
}
