#ifndef SWEEPER_DEAD_LETTERS_PAGE_H
#define SWEEPER_DEAD_LETTERS_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/dead_letters/dead_letters.h"

struct sweeper;
struct sweeper_queue;

/* Remembers whether the oldest dead letter of a queue is too long to be read; zeroed: it is not. */
struct dead_letters_stuck {
	bool too_long;
	int64_t logged_ms;		/* the last warning; CLOCK_MONOTONIC */
};

/*
 * Reads a page of dead letters and records from their old end; a view, valid until the next answer. walk NULL: the
 * first page. 1: done; 0: the oldest dead letter is too long to be read, which is logged; -1: error.
 */
int dead_letters_page_read(struct sweeper *s, struct sweeper_queue *q, const struct dead_letters_walk *walk,
    struct queue_dead_letters_page *page);

#endif
