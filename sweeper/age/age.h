#ifndef SWEEPER_AGE_AGE_H
#define SWEEPER_AGE_AGE_H

struct sweeper_queue;

/* The functions of this folder that other folders call. */

void due_wake(struct sweeper_queue *q);	/* messages are delayed: moves those that are due in this turn, without asking first */
void pushed_wake(struct sweeper_queue *q);	/* producers have delayed pushes: the same for those */

#endif
