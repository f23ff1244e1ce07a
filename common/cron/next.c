/*
 * The next time of a cron expression. Two numbers of seconds stand for a moment: that since 1970, t, and the same of
 * the clock on the wall, which is t + the offset of the zone at t. A clock on the wall jumps: no moment has the times
 * in a gap, two have those of a doubled hour.
 *
 * TZ is process-wide. Each call sets it and sets it back, since children that the process forks inherit it.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/cron/cron.h"

#include "common/base/base.h"

#define HOUR_S 3600
#define DAY_S (24 * HOUR_S)
#define AROUND_S (26 * INT64_C(3600))	/* more than any offset */
#define STEP_S (15 * 60)
#define DAYS_MAX (60 * 366)		/* 29 February on a given day of the week comes within 40 years */
#define ZONES "/usr/share/zoneinfo"
#define ZONE_BYTES "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-/"

/* ---- zones ---- */

static bool is_zone_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char magic[4] = "";
	struct stat st;
	bool is;

	if (fd == -1)
		return false;
	is = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && read(fd, magic, sizeof(magic)) == (ssize_t)sizeof(magic) &&
	    memcmp(magic, "TZif", sizeof(magic)) == 0;
	close(fd);
	return is;
}

/* The name has no dot, so it names no file outside the directory. */
bool cron_zone_exists(const char *zone)
{
	const char *dir = getenv("TZDIR");
	char path[PATH_MAX];

	if (strcmp(zone, "UTC") == 0)
		return true;	/* libc needs no file for it */
	if (zone[0] == '\0' || zone[0] == '/' || zone[strspn(zone, ZONE_BYTES)] != '\0')
		return false;
	if (dir == NULL || dir[0] == '\0')
		dir = ZONES;
	return snprintf(path, sizeof(path), "%s/%s", dir, zone) < (int)sizeof(path) && is_zone_file(path);
}

/* Returns the value that TZ had, a new string; NULL: none. */
static char *enter_zone(const char *zone)
{
	const char *now = getenv("TZ");
	char *before = now == NULL ? NULL : alloc_string(now);

	if (setenv("TZ", strcmp(zone, "UTC") == 0 ? "UTC0" : zone, 1) == -1)
		alloc_failed();
	tzset();
	return before;
}

static void leave_zone(char *before)
{
	if (before == NULL)
		unsetenv("TZ");
	else if (setenv("TZ", before, 1) == -1)
		alloc_failed();
	tzset();
	free(before);
}

/* The clock on the wall at t. */
static int64_t wall_at(int64_t t)
{
	time_t time = (time_t)t;
	struct tm tm;

	return localtime_r(&time, &tm) == NULL ? t : t + tm.tm_gmtoff;
}

/* The first moment between `before` and `after` at which the clock on the wall shows `wall` or later. */
static int64_t end_of_gap(int64_t wall, int64_t before, int64_t after)
{
	while (after - before > 1) {
		int64_t middle = before + (after - before) / 2;

		if (wall_at(middle) >= wall)
			after = middle;
		else
			before = middle;
	}
	return after;
}

/* The first moment at which the clock on the wall shows it; the end of the gap if it never does. */
static int64_t first_at(int64_t wall)
{
	int64_t offset_before = wall_at(wall - AROUND_S) - (wall - AROUND_S);
	int64_t offset_after = wall_at(wall + AROUND_S) - (wall + AROUND_S);
	int64_t larger = offset_before > offset_after ? offset_before : offset_after;
	int64_t smaller = offset_before > offset_after ? offset_after : offset_before;

	if (wall_at(wall - larger) == wall)
		return wall - larger;
	if (wall_at(wall - smaller) == wall)
		return wall - smaller;
	return end_of_gap(wall, wall - AROUND_S, wall + AROUND_S);
}

/* ---- the next time ---- */

/* Fixed times, in the order of the clock on the wall, which is also the order of their first moments. */
static int64_t next_on_day(const struct cron *c, int64_t day, int64_t wall, int64_t after)
{
	for (int hour = 0; hour < 24; hour++)
		for (int minute = 0; (c->hours >> hour & 1) != 0 && minute < 60; minute++) {
			int64_t at = day * DAY_S + hour * HOUR_S + minute * 60, first;

			if ((c->minutes >> minute & 1) == 0 || at < wall)
				continue;
			first = first_at(at);
			if (first > after)
				return first;
		}
	return -1;
}

static int64_t next_fixed(const struct cron *c, int64_t after)
{
	int64_t wall = wall_at(after), day = wall / DAY_S - (wall % DAY_S < 0);

	for (int i = 0; i < DAYS_MAX; i++, day++) {
		int64_t next = cron_day_matches(c, day) ? next_on_day(c, day, wall, after) : -1;

		if (next != -1)
			return next;
	}
	return -1;
}

/* The next moment to look at, while the clock on the wall shows no matching time at t. Skips the rest of the day, or of
 * the quarter of an hour, if the clock does not change in it. */
static int64_t later(int64_t t, int64_t wall, int64_t in_day, bool day_matches)
{
	const int64_t steps[] = { day_matches ? 0 : DAY_S - in_day % DAY_S, STEP_S - in_day % STEP_S };

	for (size_t i = 0; i < nitems(steps); i++)
		if (steps[i] > 0 && wall_at(t + steps[i]) == wall + steps[i])
			return t + steps[i];
	return t + 60 - in_day % 60;
}

static int64_t next_elapsed(const struct cron *c, int64_t after)
{
	int64_t t = after + 1, end = after + (int64_t)DAYS_MAX * DAY_S;

	while (t < end) {
		int64_t wall = wall_at(t), in_day = (wall % DAY_S + DAY_S) % DAY_S;
		bool day_matches = cron_day_matches(c, (wall - in_day) / DAY_S);

		if (!day_matches || (c->hours >> (in_day / HOUR_S) & 1) == 0)
			t = later(t, wall, in_day, day_matches);
		else if (in_day % 60 == 0 && (c->minutes >> (in_day / 60 % 60) & 1) != 0)
			return t;
		else
			t += 60 - in_day % 60;
	}
	return -1;
}

int64_t cron_next(const struct cron *c, const char *zone, int64_t after_s)
{
	int64_t next;
	char *before;

	if (after_s < 0 || after_s > CRON_LAST || !cron_zone_exists(zone))
		return -1;
	before = enter_zone(zone);
	next = c->elapsed ? next_elapsed(c, after_s) : next_fixed(c, after_s);
	leave_zone(before);
	return next;
}
