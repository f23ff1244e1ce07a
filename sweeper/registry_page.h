#ifndef SWEEPER_REGISTRY_PAGE_H
#define SWEEPER_REGISTRY_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sweeper;

#define REGISTRY_PAGE 100

/* One page of the registry, however long that is. Zeroed: nothing is read, and the first page is next. */
struct registry_page {
	int64_t rank;			/* of the next page; 0: the last one was the end, or a turn was not begun */
	struct registered {
		char *name;
		char *score;		/* as the server writes it */
		char *json;		/* its entry; NULL: there is none, or it could not be read */
		bool unread;		/* that is why */
	} entries[REGISTRY_PAGE];
	size_t n;
};

/* Reads the next page instead of this one. -1: it cannot be read, which was told. Names that no configuration allows are left out. */
int registry_page_next(struct sweeper *s, struct registry_page *p);
void registry_page_drop(struct registry_page *p);	/* its entries; the rank stays */

#endif
