#ifndef SWEEPER_REGISTRY_PAGE_H
#define SWEEPER_REGISTRY_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sweeper;

#define REGISTRY_PAGE 100

/* One page of the registry, whatever its length. Zeroed: no page was read, and the first one is next. */
struct registry_page {
	int64_t rank;			/* of the next page; 0: the last page was the end, or no turn has begun */
	struct registered {
		char *name;
		char *score;		/* as Redis writes it */
		char *json;		/* its entry; NULL: the name has no entry, or Redis did not return it */
		bool unread;		/* the entry could not be read */
	} entries[REGISTRY_PAGE];
	size_t n;
};

/* Replaces the page by the next one. -1: it cannot be read; an error was noted. Leaves out names that no configuration
 * allows. */
int registry_page_next(struct sweeper *s, struct registry_page *p);
void registry_page_drop(struct registry_page *p);	/* drops the entries; the rank stays */

#endif
