/* links: tests/fuzz/input.c */
/*
 * Cron expressions in some zones: the next time is after the one before it, is the same for each moment between them,
 * and a wildcard's is a time that the expression names.
 */
#include <string.h>
#include <time.h>

#include "tests/fuzz/input.h"

#include "common/base/alloc.h"
#include "common/base/nitems.h"
#include "common/cron/cron.h"

#define TICKS 4
#define YEAR_S (INT64_C(365) * 24 * 3600)

static const char *const zones[] = { "UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo",
	"Africa/Casablanca", "America/St_Johns", "Pacific/Apia" };

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	for (size_t i = 0; i < nitems(zones); i++)
		FUZZ_ASSERT(cron_zone_exists(zones[i]));
	return 0;
}

static bool names(const struct cron *c, const char *zone, int64_t s)
{
	time_t t = (time_t)s;
	struct tm tm;
	bool named;

	setenv("TZ", zone, 1);
	tzset();
	localtime_r(&t, &tm);
	named = tm.tm_sec == 0 && (c->minutes >> tm.tm_min & 1) != 0 && (c->hours >> tm.tm_hour & 1) != 0 &&
	    cron_day_matches(c, (s + tm.tm_gmtoff) / 86400);
	unsetenv("TZ");
	return named;
}

static void check_ticks(const struct cron *c, const char *zone, int64_t from, struct input *in)
{
	for (int i = 0; i < TICKS; i++) {
		int64_t next = cron_next(c, zone, from);

		FUZZ_ASSERT(next > from);
		FUZZ_ASSERT(!c->elapsed || names(c, zone, next));
		FUZZ_ASSERT(cron_next(c, zone, next - 1) == next);
		FUZZ_ASSERT(cron_next(c, zone, from + (int64_t)((uint64_t)input_number(in) % (uint64_t)(next - from))) == next);
		from = next;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	const char *zone = zones[input_below(&in, nitems(zones))];
	int64_t from = (int64_t)((uint64_t)input_number(&in) % (uint64_t)(130 * YEAR_S));
	char why[CRON_WHY_SIZE] = "", *text = input_text(&in);
	struct cron c;

	if (cron_parse(&c, text, why) == 0)
		check_ticks(&c, zone, from, &in);
	else
		FUZZ_ASSERT(why[0] != '\0' && strlen(why) < sizeof(why) - 1);
	free(text);
	text = input_text(&in);
	if (cron_zone_exists(text))
		FUZZ_ASSERT(strstr(text, "..") == NULL && text[0] != '/');
	free(text);
	return 0;
}
