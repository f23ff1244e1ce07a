#ifndef ADMIN_CLI_MOMENT_H
#define ADMIN_CLI_MOMENT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A moment on the command line: a time as quredis prints it ("2026-11-23T02:10:05.123Z"; the day alone, and a time
 * without seconds, T or Z, too), a time of day ("02:00": of today, or of yesterday if it has not come yet), or a
 * duration ago ("1h30m", "49s ago"). Times without a zone are UTC, as all that quredis prints. now_ms: ms since 1970.
 * -1: text is none of these, or before 1970.
 */
int moment_parse(const char *text, int64_t now_ms, int64_t *ms);
bool moment_is_relative(const char *text);	/* a time of day or a duration, which means another moment later */
/* The same for a moment that comes: the next such time of day, or a duration from now on ("5m", "in 5m"). A time as it
 * is printed may be over. */
int moment_parse_coming(const char *text, int64_t now_ms, int64_t *ms);
#define MOMENT_COMING_WANTED "a time to come, as it is printed (2026-11-23T02:10:05Z), a time of day in UTC (02:00), " \
    "or a duration from now on (1h30m)"
#define MOMENT_AFTER_WANTED "a time as it is printed (2026-11-23T02:10:05Z), a time of day in UTC that comes " \
    "(02:00), or a duration from now on (1h30m)"
#define MOMENT_WANTED "a time as it is printed (2026-11-23T02:10:05Z), a time of day in UTC (02:00), or a duration " \
    "ago (30m, 1h30m)"

#endif
