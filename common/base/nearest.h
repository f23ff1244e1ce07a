#ifndef COMMON_BASE_NEAREST_H
#define COMMON_BASE_NEAREST_H

#include <stddef.h>

/*
 * Returns the candidate with the smallest edit distance to name, if it is similar enough (distance <= 1 + length/6);
 * else NULL.
 */
const char *nearest(const char *name, const char *const *candidates, size_t n);
/* All candidates that are as similar as this one, in their order: at most `most` of them. Returns their number. */
size_t nearest_all(const char *name, const char *const *candidates, size_t n, const char **found, size_t most);

#endif
