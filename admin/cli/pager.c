/* Adapts the number of entries in a page to their size. */
#include "admin/cli/pager.h"

#define BYTES_LOW (256 * 1024)
#define BYTES_HIGH (1024 * 1024)

void pager_learn(struct pager *p, size_t entries, size_t bytes)
{
	if (bytes > BYTES_HIGH && entries > 0)
		p->count = (int64_t)(BYTES_HIGH / (bytes / entries + 1)) + 1;
	else if (bytes < BYTES_LOW)
		p->count *= 2;
	if (p->count > PAGER_MAX)
		p->count = PAGER_MAX;
}
