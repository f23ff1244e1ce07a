#ifndef SWEEPER_DEAD_LETTERS_DEAD_LETTERS_H
#define SWEEPER_DEAD_LETTERS_DEAD_LETTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sweeper;
struct sweeper_queue;

/* The functions of this folder that other folders call. */

/*
 * The purge of records without a dead letter precedes each round of purge: messages that the round adds to escape would
 * make it less certain which records are orphaned. orphans_begin() starts it. orphans_come_first(): it has not finished
 * yet.
 */
bool orphans_come_first(const struct sweeper *s, const struct sweeper_queue *q);
void orphans_begin(struct sweeper_queue *q, int64_t now_ms);

/* whether the queue has operations; a command may have given one to the sweeper */
void operations_seen(struct sweeper_queue *q, bool there);
/* there are more dead letters than the bounds allow, and nothing can remove them */
bool bounds_are_exceeded(const struct sweeper_queue *q);
/* the oldest dead letter is too long to be read, so none leaves */
bool bounds_are_stuck(const struct sweeper_queue *q);
/* the last error of the archive, as logged; "": no error */
const char *archiver_error(const struct sweeper_queue *q);
/* dead letters must leave, and the archive accepts none */
bool archiver_fails(const struct sweeper_queue *q);

#endif
