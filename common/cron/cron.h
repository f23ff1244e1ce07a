#ifndef COMMON_CRON_CRON_H
#define COMMON_CRON_CRON_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Times that a cron expression describes, by the local time of a zone (quredis.conf(5), "KEYS OF A SCHEDULE"). Pure but
 * for the zone: its rules are those of libc, so a call sets TZ for its duration. A process with threads must not call
 * it.
 */
struct cron {
	uint64_t minutes;		/* bit N: minute N */
	uint32_t hours, days;		/* bit N: hour N; day N of the month */
	uint16_t months;		/* bit N: month N, 1 to 12 */
	uint8_t weekdays;		/* bit N: 0 is Sunday */
	/* The field begins with a star. If neither does, a day matches if one of the two fields matches, as in
	 * cron(8). */
	bool any_day, any_weekday;
	/* Minute or hour begins with a star: then the times follow elapsed time, also in the hours in which a clock is
	 * changed. */
	bool elapsed;
};

/* Parses five fields, or a word such as @daily. -1: why says what is wrong. An expression that no date matches, such as
 * 30 February, is wrong, too. */
#define CRON_WHY_SIZE 200
int cron_parse(struct cron *c, const char *text, char why[CRON_WHY_SIZE]);

/*
 * The first time after after_s that matches, both in seconds since 1970. A fixed time that a change of the clock skips
 * is at the end of the gap; one that comes twice counts the first time. -1: the zone is not known, or after_s is not
 * between 1970 and CRON_LAST.
 */
#define CRON_LAST INT64_C(253402300799)		/* the end of the year 9999 */
int64_t cron_next(const struct cron *c, const char *zone, int64_t after_s);

/* True: libc has the rules of the zone. libc itself takes an unknown name for UTC. */
bool cron_zone_exists(const char *zone);

/* The times of a schedule. */
struct cron_times {
	int64_t every_ms;		/* above 0: its multiples since 1970; the other members are not used */
	struct cron cron;
	const char *zone;		/* a view */
};
/* The first of them after after_ms, both in ms since 1970. -1: as cron_next() */
int64_t cron_times_next(const struct cron_times *t, int64_t after_ms);
/* The last of them after after_ms and until now_ms; 0: none. missed: how many of these come before it; counting ends at
 * 1000, unless they are multiples */
int64_t cron_times_due(const struct cron_times *t, int64_t after_ms, int64_t now_ms, int64_t *missed);

/* ---- shared by the files of this folder ---- */

/* day: since 1970 */
bool cron_day_matches(const struct cron *c, int64_t day);

#endif
