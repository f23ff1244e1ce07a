#ifndef SUPERVISOR_CHILDREN_POLICY_H
#define SUPERVISOR_CHILDREN_POLICY_H

#include <stddef.h>
#include <stdint.h>

/*
 * When a child that died is replaced (docs/design.md, "Children that die"). One policy a queue; the sweeper
 * and the keeper have one each. Pure: time and chance come in as parameters. Zeroed is new.
 *
 *	normal -(5 events in 30 s)-> backoff -(30 s without one)-> normal
 *	any -(10 events in 300 s, no success)-> quarantine -(success)-> normal
 */
#define POLICY_EVENTS 10		/* remembered; = those that lead to quarantine */
#define POLICY_ALIVE_MS 30000		/* this long without a death is a success */

enum policy_state { POLICY_NORMAL, POLICY_BACKOFF, POLICY_QUARANTINE };

struct policy {
	enum policy_state state;
	int streak;				/* events since the last success: n of the delay; <= events */
	int failures;				/* the same, but never more than POLICY_EVENTS: min(streak, POLICY_EVENTS) */
	uint64_t events;			/* in all; only ever rises */
	int64_t event_ms[POLICY_EVENTS];	/* event n began at event_ms[n % POLICY_EVENTS] */
	int64_t last_spawn_ms;
	int64_t next_spawn_ms;			/* no child is spawned before */
};

/* A child spawned at spawned_ms died. Those that die within a second of each other and were all there before are
 * one event. chance: 0..1. */
void policy_death(struct policy *p, int64_t spawned_ms, int64_t now_ms, double chance);

void policy_reset(struct policy *p);	/* as new: another handler, or another configuration */

/* A message was done. */
void policy_success(struct policy *p);

/* Time passes; alive: how many of the children live. */
void policy_tick(struct policy *p, size_t alive, int64_t now_ms);

/* How many of `wanted` may be spawned now, and that one was. */
size_t policy_allowed(const struct policy *p, size_t alive, size_t wanted, int64_t now_ms);
void policy_spawned(struct policy *p, int64_t now_ms);

/* min(60 s, 0.5 s * 2^(n-1)), of which chance takes away up to half. */
int64_t policy_delay_ms(int n, double chance);

#endif
