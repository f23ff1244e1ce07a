#ifndef COMMON_SIZE_H
#define COMMON_SIZE_H

#include <stdint.h>

#define SIZE_SIZE 32

/* "512" "64K" "512M" "5G": bytes, binary units (K = 1024). Returns 0, or -1 for anything else. */
int size_parse(const char *s, int64_t *bytes);

/* The shortest exact form, which parses again. Returns out. */
const char *size_format(int64_t bytes, char out[SIZE_SIZE]);

#endif
