#ifndef COMMON_LETTERS_WALK_H
#define COMMON_LETTERS_WALK_H

#include <stddef.h>
#include <stdint.h>

#include "common/letters_pair.h"

/*
 * Looking through all records without removing any, for who only tells which would leave: each page is as it would be if
 * those that were told so far were gone. It begins with those that stay and goes on behind the last that was seen.
 * Zeroed: at the beginning.
 */
struct letters_walk {
	char stay[LETTERS_PAGE][QUEUE_RECORD_ID_SIZE];
	size_t nstay;
	char from[QUEUE_RECORD_ID_SIZE];	/* "": the first */
	int64_t left;				/* so many would have left */
};

/* How many of the oldest dead letters a page may have, and whether even the oldest is too long. -> ARRAY for queue_weighed() */
void letters_walk_weigh(struct redis *r, const struct queue_keys *k);
void letters_walk_ask(struct redis *r, const struct queue_keys *k, const struct letters_walk *w, int64_t entries);	/* -> as queue_letters_page_of() */
/* The page of the answer; it lives as long as that. */
struct letters *letters_walk_page(const struct letters_walk *w, struct queue_letters_page *page);
void letters_walk_on(struct letters_walk *w, const struct letters *judged);

#endif
