/*
 * The three clocks, in milliseconds, and the waits between attempts. A function that decides by time or by chance takes
 * both as parameters; only the loops read the clocks.
 */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "common/base/clock.h"

#define LAST_MS INT64_C(253402300799999)	/* the end of the year 9999 */
#define PAUSE_MS 20

static int64_t read_us(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int64_t clock_monotonic_ms(void)
{
	return read_us(CLOCK_MONOTONIC) / 1000;
}

int64_t clock_monotonic_us(void)
{
	return read_us(CLOCK_MONOTONIC);
}

int64_t clock_boottime_ms(void)
{
	return read_us(CLOCK_BOOTTIME) / 1000;
}

int64_t clock_realtime_ms(void)
{
	return read_us(CLOCK_REALTIME) / 1000;
}

int64_t clock_ms_of(double ms)
{
	return ms >= (double)LAST_MS ? LAST_MS : ms > 0 ? (int64_t)ms : 0;
}

void clock_pause_ms(int64_t ms)
{
	const struct timespec moment = { .tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000 };

	nanosleep(&moment, NULL);
}

void clock_poll_failed(void)
{
	if (errno != EINTR)
		clock_pause_ms(PAUSE_MS);
}

const char *clock_rfc3339(int64_t realtime_ms, char out[CLOCK_RFC3339_SIZE])
{
	time_t seconds = (time_t)(realtime_ms / 1000);
	struct tm tm;
	size_t n;

	gmtime_r(&seconds, &tm);
	n = strftime(out, CLOCK_RFC3339_SIZE, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(out + n, CLOCK_RFC3339_SIZE - n, ".%03dZ", (int)(realtime_ms % 1000));
	return out;
}

int64_t clock_rfc3339_parse(const char *stamp)
{
	struct tm tm = {0};
	const char *end = strptime(stamp, "%Y-%m-%dT%H:%M:%S", &tm);

	return end == NULL || (*end != '.' && *end != 'Z') ? -1 : (int64_t)timegm(&tm) * 1000;
}

int64_t clock_backoff_ms(int64_t base_ms, double factor, int64_t cap_ms, double jitter, unsigned n, uint32_t random)
{
	double delay = (double)base_ms, cap = (double)cap_ms;

	for (unsigned i = 1; i < n && delay < cap; i++)
		delay *= factor;
	if (delay > cap)
		delay = cap;
	return (int64_t)(delay * (1 - jitter) + delay * jitter * ((double)random / (double)UINT32_MAX));
}
