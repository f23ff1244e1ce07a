#ifndef ADMIN_CLI_PAGER_H
#define ADMIN_CLI_PAGER_H

#include <stddef.h>
#include <stdint.h>

/* How many entries of a list to read at a time: as many as make a page of some hundred KiB, at most PAGER_MAX. */
struct pager {
	int64_t count;
};
#define PAGER_MAX 100

static inline struct pager pager_of(int64_t first)
{
	return (struct pager){ first };
}
void pager_learn(struct pager *p, size_t entries, size_t bytes);	/* call it with the size of the last page */

#endif
