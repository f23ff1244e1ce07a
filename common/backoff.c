/* How long to wait before trying again. Pure: chance comes in as a parameter. */
#include "common/backoff.h"

int64_t backoff_ms(int64_t base_ms, double factor, int64_t cap_ms, double jitter, unsigned n, uint32_t random)
{
	double delay = (double)base_ms, cap = (double)cap_ms;

	for (unsigned i = 1; i < n && delay < cap; i++)
		delay *= factor;
	if (delay > cap)
		delay = cap;
	return (int64_t)(delay * (1 - jitter) + delay * jitter * ((double)random / (double)UINT32_MAX));
}
