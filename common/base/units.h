#ifndef COMMON_BASE_UNITS_H
#define COMMON_BASE_UNITS_H

#include <stdint.h>

#define UNITS_SIZE 32		/* bytes of a formatted value, with its NUL */

/*
 * "250ms" "30s" "5m" "1h" "7d": a whole number and a unit; or several of them, the larger unit first: "1h30m". Also
 * what units_elapsed() writes: "2.5s" "19m07s". Returns 0, or -1 for any other text, and for a value beyond int64_t.
 */
int units_parse_duration(const char *s, int64_t *ms);

/* Writes the shortest form that parses to the same value. Returns out. */
const char *units_format_duration(int64_t ms, char out[UNITS_SIZE]);

/* Writes at most two units, for a person: "9ms" "2.5s" "19m07s" "5h00m" "3d04h". Negative: 0. Returns out. */
const char *units_elapsed(int64_t ms, char out[UNITS_SIZE]);

/* "512" "64K" "512M" "5G": bytes, binary units (K = 1024). Returns 0, or -1 for any other text, and for a value beyond
 * int64_t. */
int units_parse_size(const char *s, int64_t *bytes);

/* Writes the shortest form that parses to the same value. Returns out. */
const char *units_format_size(int64_t bytes, char out[UNITS_SIZE]);

#endif
