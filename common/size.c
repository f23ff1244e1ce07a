/* Sizes as a person writes them ("64K"), as bytes. Binary units. Ranges are the caller's business. */
#include <stdio.h>
#include <string.h>

#include "common/size.h"

static const char units[] = "KMGT";

int size_parse(const char *s, int64_t *bytes)
{
	const char *p = s, *unit;
	int64_t n = 0;

	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *p - '0', &n))
			return -1;
	if (p == s)
		return -1;
	if (*p != '\0') {
		unit = strchr(units, *p++);
		if (unit == NULL || *p != '\0' || __builtin_mul_overflow(n, INT64_C(1024) << (10 * (unit - units)), &n))
			return -1;
	}
	*bytes = n;
	return 0;
}

const char *size_format(int64_t bytes, char out[SIZE_SIZE])
{
	size_t i = 0;

	while (bytes != 0 && bytes % 1024 == 0 && i < strlen(units)) {
		bytes /= 1024;
		i++;
	}
	snprintf(out, SIZE_SIZE, "%lld%.*s", (long long)bytes, i == 0 ? 0 : 1, &units[i == 0 ? 0 : i - 1]);
	return out;
}
