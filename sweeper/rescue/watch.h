#ifndef SWEEPER_RESCUE_WATCH_H
#define SWEEPER_RESCUE_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "common/queue/queue.h"

struct sweeper;
struct sweeper_queue;
struct task;

extern const struct task watch_task;

void watch_round(struct sweeper *s, int64_t now_ms);	/* begins a look at each queue, unless the last round is not over */
bool watch_misses_owners(struct sweeper *s);	/* an owner had no lease at the last look */
void watch_pulse(struct sweeper *s, const struct pulse *p);	/* a pulse was accepted: other hosts could renew their leases */
void watch_break_calm(struct sweeper *s, enum doubt why);	/* no pulse was accepted: nothing proves any more that other hosts could renew */
/* Shows in status, health and the node's report why messages of a silent worker are not returned. */
void watch_publish_undecided(struct sweeper_queue *q);

#endif
