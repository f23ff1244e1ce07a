/* The process's clocks and its chance, put in the hands of a target. */
#include <stddef.h>
#include <string.h>

#include "tests/fuzz/fake_time.h"

#include "common/base/clock.h"

#define START_US (INT64_C(1000) * 1000 * 1000)
#define REALTIME_MS INT64_C(1700000000000)

static int64_t passed_us, slept_us;
static uint32_t chance;

int64_t __wrap_clock_monotonic_ms(void);
int64_t __wrap_clock_monotonic_us(void);
int64_t __wrap_clock_boottime_ms(void);
int64_t __wrap_clock_realtime_ms(void);
uint32_t __wrap_arc4random(void);
void __wrap_arc4random_buf(void *out, size_t len);

void fake_time_begin(void)
{
	passed_us = slept_us = 0;
	chance = 1;
}

void fake_time_pass_ms(int64_t ms)
{
	passed_us += ms * 1000;
}

void fake_time_sleep_ms(int64_t ms)
{
	slept_us += ms * 1000;
}

int64_t fake_time_passed_ms(void)
{
	return (passed_us + slept_us) / 1000;
}

int64_t __wrap_clock_monotonic_us(void)
{
	return START_US + passed_us++;		/* it never stands quite still */
}

int64_t __wrap_clock_monotonic_ms(void)
{
	return __wrap_clock_monotonic_us() / 1000;
}

int64_t __wrap_clock_boottime_ms(void)
{
	return START_US / 1000 + fake_time_passed_ms();
}

int64_t __wrap_clock_realtime_ms(void)
{
	return REALTIME_MS + fake_time_passed_ms();
}

uint32_t __wrap_arc4random(void)
{
	return chance = chance * 1664525u + 1013904223u;
}

void __wrap_arc4random_buf(void *out, size_t len)
{
	unsigned char *to = out;

	for (size_t i = 0; i < len; i++)
		to[i] = (unsigned char)(__wrap_arc4random() >> 24);
}
