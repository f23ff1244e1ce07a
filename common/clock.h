#ifndef COMMON_CLOCK_H
#define COMMON_CLOCK_H

#include <stdint.h>

/* "2026-11-20T14:31:07.123Z" and its NUL */
#define CLOCK_RFC3339_SIZE 32

int64_t clock_monotonic_ms(void);	/* stops while the machine sleeps: timers, heartbeats */
int64_t clock_monotonic_us(void);	/* the same: how long things take */
int64_t clock_boottime_ms(void);	/* runs while it sleeps: lease deadlines */
int64_t clock_realtime_ms(void);	/* ms since 1970: only shown, never compared between hosts */

/* ms since 1970 as somebody else wrote them: what no date shows (before 1970, after 9999, no number) becomes the nearest that one does. */
int64_t clock_ms_of(double ms);

/* After a poll that failed (errno): it waited for nothing, so this does for a moment, unless a signal ended it. No loop spins. */
void clock_poll_failed(void);

/* UTC with milliseconds. Returns out. */
const char *clock_rfc3339(int64_t realtime_ms, char out[CLOCK_RFC3339_SIZE]);
/* Such a time in whole seconds, as ms since 1970; -1: it is something else */
int64_t clock_rfc3339_parse(const char *stamp);

#endif
