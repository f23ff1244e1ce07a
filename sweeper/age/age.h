#ifndef SWEEPER_AGE_AGE_H
#define SWEEPER_AGE_AGE_H

#include <stdint.h>

struct sweeper_queue;

/* The functions of this folder that other folders call. */

void due_wake(struct sweeper_queue *q);	/* messages are delayed: looks at once for those that are due */
/* producers have delayed pushes: moves those that are due in this turn */
void pushed_wake(struct sweeper_queue *q);

/*
 * How many messages that are due may go to ingress, however long it is: one for two that the workers of this host have
 * settled, at most `most`. until: board->workers.done up to which messages went there; zeroed at first, and changed by
 * this function only.
 */
int age_take_share(struct sweeper_queue *q, uint64_t *until, int most);

#endif
