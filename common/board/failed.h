#ifndef COMMON_BOARD_FAILED_H
#define COMMON_BOARD_FAILED_H

#include <stdbool.h>

#include "common/board/classes.h"

/*
 * The failed attempts of a queue by class, retries as well as dead letters, since the sweeper took them last. Handlers choose the names, so a queue
 * has at most FAILED_NAMES of them at a time, and the rest is CLASS_OTHER. A new name takes the place of the one with the smallest count, unless its
 * own count is smaller. So a class that fails again and again gets a place, however many classes stood there before it.
 */
#define FAILED_RETRY "HandlerRetry"		/* the class of an answer RETRY that names none */
#define FAILED_FIGURES (FAILED_NAMES + 1)	/* the last one is CLASS_OTHER */

void failed_count(struct queue_failed_words *f, const char *name, uint64_t n);
bool failed_any(const struct queue_failed_words *f);	/* false: there is nothing to take */
/* Takes the counts away: each is given to one caller. n is 0 where no name is counted; two figures may have the same name. */
void failed_take(struct queue_failed_words *f, struct class_figure out[FAILED_FIGURES]);

#endif
