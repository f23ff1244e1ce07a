#ifndef ADMIN_DEAD_LETTERS_GROUPS_H
#define ADMIN_DEAD_LETTERS_GROUPS_H

#include <stddef.h>
#include <stdint.h>

#include "admin/dead_letters/cause.h"

/* Counts equal texts: causes, classes or hours. Zeroed: none. At most GROUPS_MAX different ones; further ones count as
 * "(others)". */
#define GROUPS_MAX 10000

struct group {
	char key[CAUSE_SIZE];
	int64_t count, oldest_ms, newest_ms;
};

struct groups {
	void *tree;		/* tsearch(3) */
	struct group **all;
	size_t n;
};

void groups_count(struct groups *g, const char *key, int64_t at_ms);
/* Of causes: makes one group of those that have one shape, if they are more than CAUSES_OF_A_SHAPE. */
void groups_merge(struct groups *g);
/* Sorts them: the most frequent first, equally frequent ones by their text. */
void groups_sort(struct groups *g);
void groups_free(struct groups *g);

#endif
