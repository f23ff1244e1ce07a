/* Cron expressions: what is accepted, and the next time of each, also in the nights in which clocks change. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/base/nitems.h"
#include "common/cron/cron.h"
#include "tests/unit/unit.h"

static int64_t utc(const char *text)
{
	struct tm tm = {0};

	assert_non_null(strptime(text, "%Y-%m-%dT%H:%M", &tm));
	return timegm(&tm);
}

static const char *written(int64_t s, char out[32])
{
	time_t t = (time_t)s;
	struct tm tm;

	gmtime_r(&t, &tm);
	strftime(out, 32, tm.tm_sec == 0 ? "%Y-%m-%dT%H:%M" : "%Y-%m-%dT%H:%M:%S", &tm);
	return out;
}

static struct cron parsed(const char *text)
{
	char why[CRON_WHY_SIZE] = "";
	struct cron c;

	if (cron_parse(&c, text, why) == -1)
		fail_msg("%s: %s", text, why);
	return c;
}

/* ticks: separated by blanks, in UTC, after `from`. */
static void follows(const char *text, const char *zone, const char *from, const char *ticks)
{
	struct cron c = parsed(text);
	int64_t at = utc(from);
	char all[512] = "", one[32];

	for (const char *p = ticks; p != NULL; p = strchr(p + 1, ' ')) {
		at = cron_next(&c, zone, at);
		snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s", all[0] == '\0' ? "" : " ", written(at, one));
	}
	if (strcmp(all, ticks) != 0)
		fail_msg("%s in %s after %s: %s, expected %s", text, zone, from, all, ticks);
}

TEST(lists_ranges_steps_and_names_are_read)
{
	struct cron c = parsed("0,15-20/5,59 */6 1,31 jan,MAR-may 1-5");

	assert_true(c.minutes == (1ULL | 1ULL << 15 | 1ULL << 20 | 1ULL << 59));
	assert_int_equal(c.hours, 1 | 1 << 6 | 1 << 12 | 1 << 18);
	assert_true(c.days == (1U << 1 | 1U << 31));
	assert_int_equal(c.months, 1 << 1 | 1 << 3 | 1 << 4 | 1 << 5);
	assert_int_equal(c.weekdays, 0x3e);
	assert_true(c.elapsed && !c.any_day && !c.any_weekday);
	assert_false(parsed("5 4 * * sun").elapsed);
}

TEST(sunday_is_0_or_7)
{
	static const struct {
		const char *text;
		int bits;
	} known[] = { { "0", 1 }, { "7", 1 }, { "sun", 1 }, { "5-7", 0x61 }, { "fri-sun", 0x61 }, { "0-7", 0x7f },
		{ "*", 0x7f }, { "*/2", 0x55 }, { "Sat,sun", 0x41 } };
	char text[64];

	for (size_t i = 0; i < nitems(known); i++) {
		snprintf(text, sizeof(text), "0 0 * * %s", known[i].text);
		assert_int_equal(parsed(text).weekdays, known[i].bits);
	}
}

TEST(words_stand_for_their_fields)
{
	follows("@hourly", "UTC", "2026-11-28T10:30", "2026-11-28T11:00 2026-11-28T12:00");
	follows("@daily", "UTC", "2026-11-28T10:30", "2026-11-29T00:00 2026-11-30T00:00");
	follows("@midnight", "UTC", "2026-11-28T10:30", "2026-11-29T00:00");
	follows("@weekly", "UTC", "2026-11-28T10:30", "2026-11-29T00:00 2026-12-06T00:00");
	follows("@monthly", "UTC", "2026-11-28T10:30", "2026-12-01T00:00 2027-01-01T00:00");
	follows("@yearly", "UTC", "2026-11-28T10:30", "2027-01-01T00:00 2028-01-01T00:00");
	follows("@ANNUALLY", "UTC", "2026-11-28T10:30", "2027-01-01T00:00");
}

TEST(wrong_expressions_say_why)
{
	static const struct {
		const char *text, *why;
	} wrong[] = { { "", "five fields" }, { "* * * *", "not 4" }, { "* * * * * *", "not 6" }, { "60 * * * *", "minute: \"60\"" },
		{ "* 24 * * *", "hour: \"24\"" }, { "* * 0 * *", "day of month" }, { "* * 32 * *", "day of month" },
		{ "* * * 13 *", "month: \"13\"" }, { "* * * foo *", "month: \"foo\"" }, { "* * * * 8", "day of week" },
		{ "5/10 * * * *", "minute: \"5/10\"" }, { "*/0 * * * *", "minute" }, { "*/60 * * * *", "minute" }, { "5-3 * * * *", "minute" },
		{ "1,,2 * * * *", "minute" }, { "-1 * * * *", "minute" }, { "1- * * * *", "minute" }, { "001 * * * *", "minute" },
		{ "** * * * *", "minute" }, { "*/ * * * *", "minute" }, { "1-2-3 * * * *", "minute" }, { "mon * * * *", "minute" },
		{ "@reboot", "@reboot" }, { "@x", ", @midnight or @hourly" }, { "@", "@" },
		{ "0 0 30 2 *", "no date matches" }, { "0 0 31 2,4,6 *", "no date matches" },
		{ "0 0 30 2 */2", "no date matches" } };
	char why[CRON_WHY_SIZE];
	struct cron c;

	for (size_t i = 0; i < nitems(wrong); i++) {
		strcpy(why, "");
		if (cron_parse(&c, wrong[i].text, why) != -1 || strstr(why, wrong[i].why) == NULL)
			fail_msg("%s: %s", wrong[i].text, why);
	}
}

TEST(a_day_matches_by_either_field_unless_one_begins_with_a_star)
{
	follows("0 0 13 * 5", "UTC", "2026-11-12T12:00", "2026-11-13T00:00 2026-11-20T00:00 2026-11-27T00:00 2026-12-04T00:00");
	follows("0 0 */13 * 5", "UTC", "2026-11-12T12:00", "2026-11-27T00:00 2027-01-01T00:00");
	follows("0 0 13 * */7", "UTC", "2026-11-28T12:00", "2026-12-13T00:00 2027-06-13T00:00");
	follows("0 0 30 2 1", "UTC", "2026-11-28T12:00", "2027-02-01T00:00 2027-02-08T00:00");
}

TEST(leap_day_comes_when_there_is_one)
{
	follows("0 12 29 2 *", "UTC", "2026-01-01T00:00", "2028-02-29T12:00 2032-02-29T12:00");
	follows("0 12 29 2 *", "Europe/Berlin", "2096-03-01T00:00", "2104-02-29T11:00");
	follows("*/30 12 29 2 *", "UTC", "2096-03-01T00:00", "2104-02-29T12:00 2104-02-29T12:30 2108-02-29T12:00");
	follows("0 0 29 2 */7", "UTC", "2004-03-01T00:00", "2032-02-29T00:00 2060-02-29T00:00");
}

TEST(a_fixed_time_in_a_gap_is_at_its_end)
{
	follows("30 2 * * *", "Europe/Berlin", "2026-03-28T00:00", "2026-03-28T01:30 2026-03-29T01:00 2026-03-30T00:30");
	follows("0,30 2 * * *", "Europe/Berlin", "2026-03-28T02:00", "2026-03-29T01:00 2026-03-30T00:00 2026-03-30T00:30");
	follows("30 2,3 * * *", "Europe/Berlin", "2026-03-28T02:40", "2026-03-29T01:00 2026-03-29T01:30 2026-03-30T00:30");
	follows("15 2 * * *", "America/New_York", "2026-03-07T12:00", "2026-03-08T07:00 2026-03-09T06:15");
	follows("15 2 * * *", "Australia/Lord_Howe", "2026-10-02T22:00", "2026-10-03T15:30 2026-10-04T15:15");
	follows("45 2 * * *", "Australia/Lord_Howe", "2026-10-02T22:00", "2026-10-03T15:45 2026-10-04T15:45");
	follows("30 0 * * *", "America/Sao_Paulo", "2018-11-03T04:00", "2018-11-04T03:00 2018-11-05T02:30");
	follows("30 2 * * *", "Africa/Casablanca", "2026-03-21T03:00", "2026-03-22T02:00 2026-03-23T01:30");
	follows("0 12 30 12 *", "Pacific/Apia", "2011-12-29T00:00", "2011-12-30T10:00 2012-12-29T22:00");
}

TEST(a_fixed_time_that_comes_twice_counts_once_the_first_time)
{
	follows("30 2 * * *", "Europe/Berlin", "2026-10-24T00:40", "2026-10-25T00:30 2026-10-26T01:30");
	follows("0 2,3 * * *", "Europe/Berlin", "2026-10-24T12:00", "2026-10-25T00:00 2026-10-25T02:00 2026-10-26T01:00");
	follows("30 2 * * *", "Europe/Berlin", "2026-10-25T01:10", "2026-10-26T01:30");
	follows("30 1 * * *", "America/New_York", "2026-10-31T12:00", "2026-11-01T05:30 2026-11-02T06:30");
	follows("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00", "2026-04-04T14:45 2026-04-05T15:15");
	follows("30 23 * * *", "America/Sao_Paulo", "2018-02-17T00:00", "2018-02-17T01:30 2018-02-18T01:30 2018-02-19T02:30");
	follows("30 2 * * *", "Africa/Casablanca", "2026-02-14T12:00", "2026-02-15T01:30 2026-02-16T02:30");
}

TEST(wildcards_follow_elapsed_time)
{
	follows("*/30 * * * *", "Europe/Berlin", "2026-03-29T00:10", "2026-03-29T00:30 2026-03-29T01:00 2026-03-29T01:30");
	follows("*/30 * * * *", "Europe/Berlin", "2026-10-25T00:10",
	    "2026-10-25T00:30 2026-10-25T01:00 2026-10-25T01:30 2026-10-25T02:00");
	follows("15 * * * *", "America/New_York", "2026-11-01T04:30", "2026-11-01T05:15 2026-11-01T06:15 2026-11-01T07:15");
	follows("*/30 2 * * *", "Europe/Berlin", "2026-03-28T02:00", "2026-03-30T00:00 2026-03-30T00:30");
	follows("*/30 * * * *", "Australia/Lord_Howe", "2026-10-03T14:40", "2026-10-03T15:00 2026-10-03T15:30 2026-10-03T16:00");
	follows("*/30 * * * *", "Australia/Lord_Howe", "2026-04-04T14:10", "2026-04-04T14:30 2026-04-04T15:00 2026-04-04T15:30");
	follows("0 */6 * * *", "Africa/Casablanca", "2026-03-21T20:00", "2026-03-22T00:00 2026-03-22T05:00 2026-03-22T11:00");
	follows("*/20 23 * * sat", "America/St_Johns", "2010-11-07T02:10",
	    "2010-11-07T02:50 2010-11-07T03:10 2010-11-14T02:30");
}

TEST(zones_are_files_of_libc)
{
	static const char *const wrong[] = { "", "/etc/localtime", "../zoneinfo/UTC", "Europe", "Europe/Berlinn", "Europe/Berlin ",
		"tzdata.zi", ":Europe/Berlin", "EST5EDT4", "Europe/../UTC" };
	struct cron c = parsed("0 0 * * *");

	assert_true(cron_zone_exists("Europe/Berlin") && cron_zone_exists("UTC") && cron_zone_exists("Etc/GMT+5"));
	for (size_t i = 0; i < nitems(wrong); i++) {
		assert_false(cron_zone_exists(wrong[i]));
		assert_int_equal(cron_next(&c, wrong[i], 1000000000), -1);
	}
	setenv("TZDIR", "/nonexistent", 1);
	assert_false(cron_zone_exists("Europe/Berlin"));
	assert_true(cron_zone_exists("UTC"));
	unsetenv("TZDIR");
}

TEST(the_zone_of_the_process_stays)
{
	struct cron c = parsed("0 0 * * *");
	time_t then = 1000000000;
	struct tm before, after;

	setenv("TZ", "Asia/Tokyo", 1);
	tzset();
	localtime_r(&then, &before);
	assert_int_equal(cron_next(&c, "America/New_York", 1000000000), utc("2001-09-09T04:00"));
	assert_string_equal(getenv("TZ"), "Asia/Tokyo");
	localtime_r(&then, &after);
	assert_int_equal(before.tm_hour, after.tm_hour);
	unsetenv("TZ");
	cron_next(&c, "America/New_York", 1000000000);
	assert_null(getenv("TZ"));
}

TEST(times_out_of_range_have_no_next)
{
	struct cron c = parsed("0 0 * * *");

	assert_int_equal(cron_next(&c, "UTC", -1), -1);
	assert_int_equal(cron_next(&c, "UTC", CRON_LAST + 1), -1);
	assert_int_equal(cron_next(&c, "UTC", 0), 86400);
	assert_int_equal(cron_next(&c, "America/New_York", 0), 5 * 3600);
	assert_int_equal(cron_next(&c, "UTC", CRON_LAST), CRON_LAST + 1);
}

static struct cron_times times_of(const char *text)
{
	return (struct cron_times){ .every_ms = -1, .cron = parsed(text), .zone = "UTC" };
}

TEST(the_last_tick_that_is_due_is_found_and_those_before_it_are_counted)
{
	struct cron_times minutes = times_of("* * * * *"), every = { .every_ms = 300000 }, nights = times_of("30 2 * * *");
	int64_t noon = utc("2026-11-28T12:00") * 1000, missed = -1;

	assert_int_equal(cron_times_due(&nights, noon - 86400000, noon - 86400000, &missed), 0);
	assert_int_equal(cron_times_due(&nights, noon - 3 * 86400000LL, noon, &missed), utc("2026-11-28T02:30") * 1000);
	assert_int_equal(missed, 2);
	assert_int_equal(cron_times_due(&nights, utc("2026-11-28T02:30") * 1000, noon, &missed), 0);
	assert_int_equal(cron_times_due(&minutes, noon - 60001, noon, &missed), noon);
	assert_int_equal(missed, 1);
	assert_int_equal(cron_times_due(&minutes, 0, noon + 59999, &missed), noon);
	assert_int_equal(missed, 1000);
	assert_int_equal(cron_times_due(&nights, 0, noon, &missed), utc("2026-11-28T02:30") * 1000);
	assert_int_equal(cron_times_due(&every, noon - 1500000, noon + 299999, &missed), noon);
	assert_int_equal(missed, 4);
	assert_int_equal(cron_times_due(&every, noon, noon + 299999, &missed), 0);
	assert_int_equal(cron_times_next(&every, noon), noon + 300000);
	assert_int_equal(cron_times_next(&nights, noon), utc("2026-11-29T02:30") * 1000);
	nights.zone = "Nowhere";
	assert_int_equal(cron_times_due(&nights, 0, noon, &missed), 0);
}

UNIT_MAIN(NULL, NULL)
