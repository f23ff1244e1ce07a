#ifndef COMMON_BOARD_FAILED_H
#define COMMON_BOARD_FAILED_H

#include <stdbool.h>

#include "common/board/classes.h"

/*
 * The failed attempts of a queue by class, retries as well as dead letters, until Redis has them. Handlers choose the
 * names, so a queue has at most FAILED_NAMES of them at a time, and the rest is CLASS_OTHER. A new name takes the place
 * of the one with the smallest count, unless its own count is smaller. So a class that fails again and again gets a
 * place, however many classes stood there before it.
 */
#define FAILED_RETRY "HandlerRetry"		/* the class of an answer RETRY that names none */
#define FAILED_FIGURES (FAILED_NAMES + 1)	/* the last one is CLASS_OTHER */

void failed_count(struct queue_failed_words *f, const char *name, uint64_t n);
bool failed_any(const struct queue_failed_words *f);	/* false: there is nothing to write to Redis */

/*
 * The sweeper writes this to Redis at once. It stays on the scoreboard, unchanged, until Redis has confirmed it: a
 * sweeper that follows one that was killed sends the same batch again, and Redis counts it once (failed.lua).
 */
struct failed_batch {
	int64_t id;		/* not 0 */
	int64_t minute;		/* by the clock of Redis */
	/* n is 0 where no name is counted; two may have the same name */
	struct class_figure figures[FAILED_FIGURES];
};
/*
 * One process at a time calls these two: the sweeper that holds queue_sweeper.failed_sender, or the master when no
 * sweeper knows the queue any more. failed_begin(): the batch that was not confirmed; or else a new one of all counts
 * since, with this id. False: there is nothing to write.
 */
bool failed_begin(struct queue_failed_words *f, int64_t id, int64_t minute, struct failed_batch *out);
void failed_confirm(struct queue_failed_words *f, int64_t id);

#endif
