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

static void add_to_group(struct group *group, int64_t count, int64_t oldest_ms, int64_t newest_ms)
{
	group->oldest_ms = group->count == 0 || oldest_ms < group->oldest_ms ? oldest_ms : group->oldest_ms;
	group->newest_ms = group->count == 0 || newest_ms > group->newest_ms ? newest_ms : group->newest_ms;
	group->count += count;
}

void groups_count(struct groups *g, const char *key, int64_t at_ms)
{
	add_to_group(group_of(g, key), 1, at_ms, at_ms);
}

void groups_merge(struct groups *g)
{
	struct groups shapes = {0}, merged = {0};
	char shape[CAUSE_SIZE];

	for (size_t i = 0; i < g->n; i++) {
		cause_shape(g->all[i]->key, shape);
		groups_count(&shapes, shape, 0);
	}
	for (size_t i = 0; i < g->n; i++) {
		const struct group *one = g->all[i];

		cause_shape(one->key, shape);
		add_to_group(group_of(&merged, group_of(&shapes, shape)->count > CAUSES_OF_A_SHAPE ? shape : one->key),
		    one->count, one->oldest_ms, one->newest_ms);
	}
	groups_free(&shapes);
	groups_free(g);
	*g = merged;
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
