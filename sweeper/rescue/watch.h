#ifndef SWEEPER_RESCUE_WATCH_H
#define SWEEPER_RESCUE_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "common/queue/queue.h"

struct sweeper;
struct sweeper_queue;
struct task;

extern const struct task watch_task;

/* begins a look at each queue, unless the last round is not over */
void watch_round(struct sweeper *s, int64_t now_ms);
bool watch_misses_owners(struct sweeper *s);	/* an owner had no lease at the last look */
/* a pulse was accepted: other hosts could renew their leases */
void watch_pulse(struct sweeper *s, const struct pulse *p);
/* no pulse was accepted: nothing proves any more that other hosts could renew */
void watch_break_calm(struct sweeper *s, enum doubt why);
/* Shows in status, health and the node's report why messages of a silent worker are not returned. */
void watch_publish_undecided(struct sweeper_queue *q);

#endif
