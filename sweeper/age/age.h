#ifndef SWEEPER_AGE_AGE_H
#define SWEEPER_AGE_AGE_H

#include <stdint.h>

struct sweeper;
struct sweeper_queue;

/* The functions of this folder that other folders call. */

void due_wake(struct sweeper_queue *q);	/* messages are delayed: looks at once for those that are due */
/* producers have delayed pushes: moves those that are due in this turn */
void pushed_wake(struct sweeper_queue *q);

/*
 * How long a tick of a schedule of the queue has been due, or a next one has not been known; name: of which schedule.
 * 0: none is. Only the sweeper that leads the queue knows. A tick is late after schedules_on_time_ms(): for catch_up =
 * "none", and for health.
 */
int64_t schedules_late_ms(const struct sweeper_queue *q, const char **name);
int64_t schedules_on_time_ms(const struct sweeper *s);

/*
 * How many messages that are due may go to ingress, however long it is: one for two that the workers of this host have
 * settled, at most `most`. until: board->workers.done up to which messages went there; zeroed at first, and changed by
 * this function only.
 */
int age_take_share(struct sweeper_queue *q, uint64_t *until, int most);
/* CLOCK_MONOTONIC: when to look for the message that is due in next_ms, by the answer that came just now */
int64_t age_next_look_ms(int64_t next_ms);

#endif
