#ifndef COMMON_DEAD_LETTERS_WALK_H
#define COMMON_DEAD_LETTERS_WALK_H

#include <stddef.h>
#include <stdint.h>

#include "common/dead_letters/pair.h"

/*
 * A walk over all records that removes none, for callers that only name the records that would leave. Each page is as
 * it would be if the records named so far were gone: it begins with those that stay, and continues after the last one
 * seen. Zeroed: at the beginning.
 */
struct dead_letters_walk {
	char stay[DEAD_LETTERS_PAGE][QUEUE_RECORD_ID_SIZE];
	size_t nstay;
	char from[QUEUE_RECORD_ID_SIZE];	/* "": from the first record on */
	int64_t left;				/* records that would have left so far */
};

/* Reads how many of the oldest dead letters fit on a page, and whether even the oldest is too long. -> ARRAY for
 * queue_weighed() */
void dead_letters_walk_weigh(struct redis *r, const struct queue_keys *k);
/* The reply is that of queue_dead_letters_page_of(). */
void dead_letters_walk_ask(struct redis *r, const struct queue_keys *k, const struct dead_letters_walk *w,
    int64_t entries);
/* Parses the page from its answer, which must live as long. */
struct dead_letters *dead_letters_walk_page(const struct dead_letters_walk *w,
    const struct queue_dead_letters_page *page);
void dead_letters_walk_on(struct dead_letters_walk *w, const struct dead_letters *judged);

#endif
