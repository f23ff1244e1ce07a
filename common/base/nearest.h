#ifndef COMMON_BASE_NEAREST_H
#define COMMON_BASE_NEAREST_H

#include <stddef.h>

/*
 * Returns the candidate with the smallest edit distance to name, if it is similar enough (distance <= 1 + length/6); else NULL.
 */
const char *nearest(const char *name, const char *const *candidates, size_t n);

#endif
