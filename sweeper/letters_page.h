#ifndef SWEEPER_LETTERS_PAGE_H
#define SWEEPER_LETTERS_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/letters_walk.h"
#include "common/queue_letters.h"

struct sweeper;
struct swept;

/* The oldest dead letter of a queue is longer than may be read; zeroed: it is not. */
struct letters_stuck {
	bool too_long;
	int64_t logged_ms;		/* the last warning; CLOCK_MONOTONIC */
};

/*
 * Reads a page of dead letters and records from their old end; a view, good until the next answer. walk NULL: the first page.
 * 1: done; 0: the oldest dead letter is too long to be read, which is logged; -1: error.
 */
int letters_page_read(struct sweeper *s, struct swept *q, const struct letters_walk *walk, struct queue_letters_page *page);

#endif
