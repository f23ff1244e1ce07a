/* Parses cron expressions. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include <bsd/string.h>

#include "common/cron/cron.h"

#include "common/base/base.h"

#define FIELDS 5
#define TEXT_MAX 256
#define DAY_S 86400

static const char *const month_names[] = { "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov",
	"dec", NULL };
static const char *const weekday_names[] = { "sun", "mon", "tue", "wed", "thu", "fri", "sat", NULL };

struct field {
	const char *name;
	int min, max;
	const char *const *names;	/* of min and the numbers after it; NULL: none */
};

enum { MINUTE, HOUR, DAY, MONTH, WEEKDAY };
static const struct field fields[FIELDS] = {
	[MINUTE] = { "minute", 0, 59, NULL },
	[HOUR] = { "hour", 0, 23, NULL },
	[DAY] = { "day of month", 1, 31, NULL },
	[MONTH] = { "month", 1, 12, month_names },
	[WEEKDAY] = { "day of week", 0, 7, weekday_names },
};

static const struct {
	const char *word, *means;
} words[] = {
	{ "@yearly", "0 0 1 1 *" },
	{ "@annually", "0 0 1 1 *" },
	{ "@monthly", "0 0 1 * *" },
	{ "@weekly", "0 0 * * 0" },
	{ "@daily", "0 0 * * *" },
	{ "@midnight", "0 0 * * *" },
	{ "@hourly", "0 * * * *" },
};

/* -1: neither a name of the field nor a number in its range. */
static int parse_number(const struct field *f, const char *text, size_t len)
{
	int n = 0;

	for (int i = 0; f->names != NULL && f->names[i] != NULL; i++)
		if (strlen(f->names[i]) == len && strncasecmp(f->names[i], text, len) == 0)
			return f->min + i;
	if (len == 0 || len > 2)
		return -1;
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return -1;
		n = 10 * n + (text[i] - '0');
	}
	return n >= f->min && n <= f->max ? n : -1;
}

static int refuse(const struct field *f, const char *text, char why[CRON_WHY_SIZE])
{
	snprintf(why, CRON_WHY_SIZE, "%s: \"%.40s\" is not *, a number from %d to %d%s, or a range such as %d-%d, "
	    "perhaps with a step (/2)", f->name, text, f->min, f->max,
	    f->names == NULL ? "" : f->names == month_names ? ", a name such as jan" : ", a name such as mon", f->min,
	    f->max);
	return -1;
}

/* first-last, or one number: then *last is *first. */
static int parse_range(const struct field *f, const char *text, int *first, int *last)
{
	const char *dash = strchr(text, '-');
	size_t len = dash == NULL ? strlen(text) : (size_t)(dash - text);

	*first = *last = parse_number(f, text, len);
	if (dash != NULL)
		*last = parse_number(f, dash + 1, strlen(dash + 1));
	if (f == &fields[WEEKDAY] && *last == 0 && *first > 0)	/* fri-sun */
		*last = 7;
	return *first == -1 || *last < *first ? -1 : 0;
}

/* Parses an element of a list, and changes its text. */
static int parse_element(const struct field *f, char *text, uint64_t *bits)
{
	char *slash = strchr(text, '/');
	int first = f->min, last = f->max, step = 1;

	if (slash != NULL) {
		*slash = '\0';
		step = parse_number(&(struct field){ "step", 1, f->max, NULL }, slash + 1, strlen(slash + 1));
		if (step == -1 || (strcmp(text, "*") != 0 && strchr(text, '-') == NULL))
			return -1;
	}
	if (strcmp(text, "*") == 0)
		last = f == &fields[WEEKDAY] ? 6 : f->max;
	else if (parse_range(f, text, &first, &last) == -1)
		return -1;
	for (int n = first; n <= last; n += step)
		*bits |= UINT64_C(1) << (f == &fields[WEEKDAY] ? n % 7 : n);
	return 0;
}

/* Parses a field, and changes its text. */
static int parse_field(const struct field *f, char *text, uint64_t *bits, char why[CRON_WHY_SIZE])
{
	char copy[TEXT_MAX], *element;

	*bits = 0;
	strlcpy(copy, text, sizeof(copy));
	while ((element = strsep(&text, ",")) != NULL)
		if (parse_element(f, element, bits) == -1)
			return refuse(f, copy, why);
	return 0;
}

static const char *meaning_of(const char *text)
{
	for (size_t i = 0; i < nitems(words); i++)
		if (strcasecmp(words[i].word, text) == 0)
			return words[i].means;
	return NULL;
}

static void refuse_word(const char *text, char why[CRON_WHY_SIZE])
{
	int n = snprintf(why, CRON_WHY_SIZE, "\"%.40s\" is not", text);

	for (size_t i = 0; i < nitems(words); i++)
		n += snprintf(why + n, CRON_WHY_SIZE - (size_t)n, "%s %s",
		    i == 0 ? "" : i + 1 < nitems(words) ? "," : " or", words[i].word);
}

/* NULL: *why says that there are other than five. */
static char *split(char *text, char *out[FIELDS], char why[CRON_WHY_SIZE])
{
	int n = 0;
	char *word;

	while ((word = strsep(&text, " \t")) != NULL) {
		if (*word == '\0')
			continue;
		if (n < FIELDS)
			out[n] = word;
		n++;
	}
	if (n == FIELDS)
		return out[0];
	snprintf(why, CRON_WHY_SIZE, "expected five fields (minute, hour, day of month, month, day of week), not %d",
	    n);
	return NULL;
}

static int days_of(int month)
{
	return month == 2 ? 29 : month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
}

static bool has_date(const struct cron *c)
{
	if (!c->any_day && !c->any_weekday)
		return true;	/* a day of the week is enough, and each month has all of them */
	for (int month = 1; month <= 12; month++)
		for (int day = 1; (c->months >> month & 1) != 0 && day <= days_of(month); day++)
			if ((c->days >> day & 1) != 0)
				return true;
	return false;
}

static void fill(struct cron *c, char *const text[FIELDS], const uint64_t bits[FIELDS])
{
	*c = (struct cron){ .minutes = bits[MINUTE], .hours = (uint32_t)bits[HOUR], .days = (uint32_t)bits[DAY],
		.months = (uint16_t)bits[MONTH], .weekdays = (uint8_t)bits[WEEKDAY], .any_day = text[DAY][0] == '*',
		.any_weekday = text[WEEKDAY][0] == '*', .elapsed = text[MINUTE][0] == '*' || text[HOUR][0] == '*' };
}

int cron_parse(struct cron *c, const char *text, char why[CRON_WHY_SIZE])
{
	const char *means = text[0] == '@' ? meaning_of(text) : text;
	char copy[TEXT_MAX], *field[FIELDS];
	uint64_t bits[FIELDS];

	if (means == NULL) {
		refuse_word(text, why);
		return -1;
	}
	if (strlcpy(copy, means, sizeof(copy)) >= sizeof(copy)) {
		snprintf(why, CRON_WHY_SIZE, "expected at most %d bytes", TEXT_MAX - 1);
		return -1;
	}
	if (split(copy, field, why) == NULL)
		return -1;
	for (int i = 0; i < FIELDS; i++)
		if (parse_field(&fields[i], field[i], &bits[i], why) == -1)
			return -1;
	fill(c, field, bits);
	if (has_date(c))
		return 0;
	snprintf(why, CRON_WHY_SIZE, "no date matches: none of these months has such a day");
	return -1;
}

bool cron_day_matches(const struct cron *c, int64_t day)
{
	time_t t = (time_t)(day * DAY_S);
	bool by_day, by_weekday;
	struct tm tm;

	if (gmtime_r(&t, &tm) == NULL || (c->months >> (tm.tm_mon + 1) & 1) == 0)
		return false;
	by_day = (c->days >> tm.tm_mday & 1) != 0;
	by_weekday = (c->weekdays >> tm.tm_wday & 1) != 0;
	return c->any_day || c->any_weekday ? by_day && by_weekday : by_day || by_weekday;
}
