#ifndef COMMON_BASE_CLOCK_H
#define COMMON_BASE_CLOCK_H

#include <stdint.h>

/* "2026-11-20T14:31:07.123Z" and its NUL */
#define CLOCK_RFC3339_SIZE 32

int64_t clock_monotonic_ms(void);	/* stops while the machine sleeps: for timers */
int64_t clock_monotonic_us(void);	/* the same, to measure how long things take */
int64_t clock_boottime_ms(void);	/* continues while the machine sleeps: for lease deadlines */
int64_t clock_realtime_ms(void);	/* ms since 1970: only for display, never compared between hosts */

static inline int64_t clock_earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/*
 * Converts ms since 1970 that another program wrote: a value that no date can show (before 1970, after 9999, not a
 * number) becomes the nearest one that can.
 */
int64_t clock_ms_of(double ms);

/* waits that long, or until a signal. Unlike poll(), it needs no memory */
void clock_pause_ms(int64_t ms);

/*
 * Call it after a poll that failed (errno): the poll has not waited, so this waits a moment, unless a signal ended the
 * poll. It keeps a loop from spinning.
 */
void clock_poll_failed(void);

/* UTC with milliseconds. Returns out. */
const char *clock_rfc3339(int64_t realtime_ms, char out[CLOCK_RFC3339_SIZE]);
/* Such a time in whole seconds, as ms since 1970; -1: another text */
int64_t clock_rfc3339_parse(const char *stamp);

/*
 * The n-th wait (n = 1, 2, …): min(cap, base * factor^(n-1)). The share `jitter` (0..1) of it is random: with 1 ("full
 * jitter") a wait is anything from 0 up. random: 32 random bits.
 */
int64_t clock_backoff_ms(int64_t base_ms, double factor, int64_t cap_ms, double jitter, unsigned n, uint32_t random);

#endif
