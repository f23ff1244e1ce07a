/* Counts equal texts of dead letters, such as causes. */
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "admin/dead_letters/groups.h"

#include "common/base/base.h"

static int by_key(const void *a, const void *b)
{
	return strcmp(((const struct group *)a)->key, ((const struct group *)b)->key);
}

static struct group *group_of(struct groups *g, const char *key)
{
	struct group *group = alloc_zero(1, sizeof(*group)), **found;

	strlcpy(group->key, key, sizeof(group->key));
	found = tfind(group, &g->tree, by_key);
	if (found == NULL && g->n >= GROUPS_MAX) {
		strlcpy(group->key, "(others)", sizeof(group->key));
		found = tfind(group, &g->tree, by_key);
	}
	if (found != NULL) {
		free(group);
		return *found;
	}
	if (tsearch(group, &g->tree, by_key) == NULL)
		alloc_failed();
	g->all = alloc_resize(g->all, g->n + 1, sizeof(*g->all));
	return g->all[g->n++] = group;
}

void groups_count(struct groups *g, const char *key, int64_t at_ms)
{
	struct group *group = group_of(g, key);

	if (group->count++ == 0)
		group->oldest_ms = group->newest_ms = at_ms;
	group->oldest_ms = at_ms < group->oldest_ms ? at_ms : group->oldest_ms;
	group->newest_ms = at_ms > group->newest_ms ? at_ms : group->newest_ms;
}

static int most_first(const void *a, const void *b)
{
	const struct group *g = *(const struct group *const *)a, *h = *(const struct group *const *)b;

	return g->count != h->count ? (g->count > h->count ? -1 : 1) : strcmp(g->key, h->key);
}

void groups_sort(struct groups *g)
{
	if (g->n > 0)
		qsort(g->all, g->n, sizeof(*g->all), most_first);
}

static void keep_node(void *p)
{
	(void)p;
}

void groups_free(struct groups *g)
{
	tdestroy(g->tree, keep_node);
	for (size_t i = 0; i < g->n; i++)
		free(g->all[i]);
	free(g->all);
	*g = (struct groups){0};
}
