#ifndef COMMON_BACKOFF_H
#define COMMON_BACKOFF_H

#include <stdint.h>

/*
 * The n-th wait (n = 1, 2, …): min(cap, base * factor^(n-1)), of which the share `jitter` (0..1) is
 * random: 1 is "full jitter", anything from 0 up. random: 32 random bits.
 */
int64_t backoff_ms(int64_t base_ms, double factor, int64_t cap_ms, double jitter, unsigned n, uint32_t random);

#endif
