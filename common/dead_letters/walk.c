/*
 * Walks through records page by page and removes none: the caller only names those that would leave, and each later page is as
 * if they were gone.
 */
#include "common/dead_letters/walk.h"

#include <stdlib.h>

#include <bsd/string.h>

#include "common/queue/queue.h"

void dead_letters_walk_weigh(struct redis *r, const struct queue_keys *k)
{
	char *nobody = queue_lease_key(k, NULL);

	queue_weigh(r, nobody, k->escape, QUEUE_END_RIGHT, DEAD_LETTERS_PAGE, DEAD_LETTERS_PAGE_BYTES);
	free(nobody);
}

void dead_letters_walk_ask(struct redis *r, const struct queue_keys *k, const struct dead_letters_walk *w, int64_t entries)
{
	const char *ids[DEAD_LETTERS_PAGE];

	for (size_t i = 0; i < w->nstay; i++)
		ids[i] = w->stay[i];
	queue_dead_letters_page_of(r, k, entries, DEAD_LETTERS_PAGE, DEAD_LETTERS_PAGE_BYTES, w->from[0] == '\0' ? "-" : w->from, ids, w->nstay);
}

struct dead_letters *dead_letters_walk_page(const struct dead_letters_walk *w, struct queue_dead_letters_page *page)
{
	page->records -= w->left;
	return dead_letters_new(page);
}

void dead_letters_walk_on(struct dead_letters_walk *w, const struct dead_letters *judged)
{
	w->nstay = 0;
	for (size_t i = 0; i < judged->nrecords; i++) {
		const struct dead_letter_record *r = &judged->records[i];

		if (r->fate == DEAD_LETTER_LEAVES)
			w->left++;
		else
			strlcpy(w->stay[w->nstay++], r->id, sizeof(w->stay[0]));
		queue_record_id_next(r->id, w->from);
	}
}
