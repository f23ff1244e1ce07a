/* Remembers since when registry entries have been unused, in memory only. unused_entries.c looks at the entries, and
 * removes them. */
#include <stdlib.h>
#include <string.h>

#include "sweeper/registry/unused_entries.h"

#include "common/base/base.h"

static int by_name(const struct unused_entry *a, const struct unused_entry *b)
{
	return strcmp(a->name, b->name);
}

RB_PROTOTYPE(unused_entry_tree, unused_entry, entry, by_name)
RB_GENERATE(unused_entry_tree, unused_entry, entry, by_name)

static struct unused_entry *find_entry(struct unused_entries *v, const char *name)
{
	const struct unused_entry like = { .name = (char *)(uintptr_t)name };

	return RB_FIND(unused_entry_tree, &v->tree, (struct unused_entry *)(uintptr_t)&like);
}

static void drop_entry(struct unused_entries *v, struct unused_entry *of)
{
	RB_REMOVE(unused_entry_tree, &v->tree, of);
	v->n--;
	free(of->name);
	free(of->score);
	free(of->json);
	free(of);
}

static bool is_same(const struct unused_entry *known, const struct registered *e)
{
	if ((known->json == NULL) != (e->json == NULL) || strcmp(known->score, e->score) != 0)
		return false;
	return e->json == NULL || strcmp(known->json, e->json) == 0;
}

static struct unused_entry *add_entry(struct unused_entries *v, const struct registered *e, int64_t now_ms)
{
	struct unused_entry *new;

	if (v->n >= UNUSED_ENTRIES_MAX)
		return NULL;
	new = alloc_zero(1, sizeof(*new));
	new->name = alloc_string(e->name);
	new->score = alloc_string(e->score);
	new->json = e->json == NULL ? NULL : alloc_string(e->json);
	new->since_ms = now_ms;
	RB_INSERT(unused_entry_tree, &v->tree, new);
	v->n++;
	return new;
}

struct unused_entry *unused_entries_note(struct unused_entries *v, const struct registered *e, int64_t gap_ms,
    int64_t now_ms)
{
	struct unused_entry *known = find_entry(v, e->name);

	if (known != NULL && (!is_same(known, e) || now_ms - known->looked_ms > gap_ms)) {
		drop_entry(v, known);
		known = NULL;
	}
	if (known == NULL)
		known = add_entry(v, e, now_ms);
	if (known == NULL)
		return NULL;
	known->looked_ms = now_ms;
	known->turn = v->turn;
	return known;
}

void unused_entries_forget(struct unused_entries *v, const char *name)
{
	struct unused_entry *known = find_entry(v, name);

	if (known != NULL)
		drop_entry(v, known);
}

void unused_entries_end_turn(struct unused_entries *v)
{
	struct unused_entry *known, *next;

	RB_FOREACH_SAFE(known, unused_entry_tree, &v->tree, next)
		if (known->turn != v->turn)
			drop_entry(v, known);
	v->turn++;
}

void unused_entries_free(struct unused_entries *v)
{
	struct unused_entry *known, *next;

	RB_FOREACH_SAFE(known, unused_entry_tree, &v->tree, next)
		drop_entry(v, known);
}
