#ifndef COMMON_DURATION_H
#define COMMON_DURATION_H

#include <stddef.h>
#include <stdint.h>

#define DURATION_SIZE 32

/* "250ms" "30s" "5m" "1h" "7d": a whole number and a unit. Returns 0, or -1 for anything else
 * (also overflow and negative numbers). */
int duration_parse(const char *s, int64_t *ms);

/* The shortest exact form, which parses again. Returns out. */
const char *duration_format(int64_t ms, char out[DURATION_SIZE]);

#endif
