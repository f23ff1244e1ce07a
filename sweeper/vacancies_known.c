/* Since when entries of the registry have nothing behind them: memory alone. Who looks, and what follows, is vacancies.c's. */
#include <stdlib.h>
#include <string.h>

#include "sweeper/vacancies.h"

#include "common/alloc.h"

static int by_name(const struct vacancy *a, const struct vacancy *b)
{
	return strcmp(a->name, b->name);
}

RB_PROTOTYPE(vacancy_tree, vacancy, entry, by_name)
RB_GENERATE(vacancy_tree, vacancy, entry, by_name)

static struct vacancy *find(struct vacancies *v, const char *name)
{
	const struct vacancy like = { .name = (char *)(uintptr_t)name };

	return RB_FIND(vacancy_tree, &v->tree, (struct vacancy *)(uintptr_t)&like);
}

static void drop(struct vacancies *v, struct vacancy *of)
{
	RB_REMOVE(vacancy_tree, &v->tree, of);
	v->n--;
	free(of->name);
	free(of->score);
	free(of->json);
	free(of);
}

static bool is_same(const struct vacancy *known, const struct registered *e)
{
	if ((known->json == NULL) != (e->json == NULL) || strcmp(known->score, e->score) != 0)
		return false;
	return e->json == NULL || strcmp(known->json, e->json) == 0;
}

static struct vacancy *add(struct vacancies *v, const struct registered *e, int64_t now_ms)
{
	struct vacancy *new;

	if (v->n >= VACANCIES_MAX)
		return NULL;
	new = alloc_zero(1, sizeof(*new));
	new->name = alloc_string(e->name);
	new->score = alloc_string(e->score);
	new->json = e->json == NULL ? NULL : alloc_string(e->json);
	new->since_ms = now_ms;
	RB_INSERT(vacancy_tree, &v->tree, new);
	v->n++;
	return new;
}

struct vacancy *vacancies_note(struct vacancies *v, const struct registered *e, int64_t gap_ms, int64_t now_ms)
{
	struct vacancy *known = find(v, e->name);

	if (known != NULL && (!is_same(known, e) || now_ms - known->looked_ms > gap_ms)) {
		drop(v, known);
		known = NULL;
	}
	if (known == NULL)
		known = add(v, e, now_ms);
	if (known == NULL)
		return NULL;
	known->looked_ms = now_ms;
	known->turn = v->turn;
	return known;
}

void vacancies_forget(struct vacancies *v, const char *name)
{
	struct vacancy *known = find(v, name);

	if (known != NULL)
		drop(v, known);
}

void vacancies_end_turn(struct vacancies *v)
{
	struct vacancy *known, *next;

	RB_FOREACH_SAFE(known, vacancy_tree, &v->tree, next)
		if (known->turn != v->turn)
			drop(v, known);
	v->turn++;
}

void vacancies_free(struct vacancies *v)
{
	struct vacancy *known, *next;

	RB_FOREACH_SAFE(known, vacancy_tree, &v->tree, next)
		drop(v, known);
}
