#ifndef TESTS_FUZZ_FAKE_TIME_H
#define TESTS_FUZZ_FAKE_TIME_H

#include <stdint.h>

/*
 * Clocks that stand until they are told, and chance that repeats: the same input does the same each time.
 * Needs --wrap of clock_monotonic_ms, clock_monotonic_us, clock_boottime_ms, clock_realtime_ms, arc4random,
 * arc4random_buf.
 */
void fake_time_begin(void);
void fake_time_pass_ms(int64_t ms);
void fake_time_sleep_ms(int64_t ms);	/* the machine slept: not seen by CLOCK_MONOTONIC */
int64_t fake_time_passed_ms(void);	/* since the beginning, by CLOCK_BOOTTIME */

#endif
