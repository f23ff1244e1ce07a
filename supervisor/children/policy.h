#ifndef SUPERVISOR_CHILDREN_POLICY_H
#define SUPERVISOR_CHILDREN_POLICY_H

#include <stddef.h>
#include <stdint.h>

/*
 * Decides when the master replaces a dead child (docs/design.md, "Children that die"). Each queue has a policy; the
 * sweeper and the keeper have one each. Pure: time and chance are parameters. Zeroed is new.
 *
 *	normal -(5 events in 30 s)-> backoff -(30 s without one)-> normal
 *	any -(10 events in 300 s, no success)-> quarantine -(success)-> normal
 */
#define POLICY_EVENTS 10		/* remembered events: as many as lead to quarantine */
#define POLICY_ALIVE_MS 30000		/* a child that lives this long is a success */

enum policy_state { POLICY_NORMAL, POLICY_BACKOFF, POLICY_QUARANTINE };

struct policy {
	enum policy_state state;
	int streak;				/* events since the last success: n of the delay; <= events */
	/* the same, but never more than POLICY_EVENTS: min(streak, POLICY_EVENTS) */
	int failures;
	uint64_t events;			/* since the master's start; only grows */
	int64_t event_ms[POLICY_EVENTS];	/* event n began at event_ms[n % POLICY_EVENTS] */
	int64_t last_spawn_ms;
	int64_t next_spawn_ms;			/* no child is spawned before */
};

/*
 * A child spawned at spawned_ms died. Deaths within a second of each other are one event, if all these children were
 * spawned before it. chance: 0..1.
 */
void policy_death(struct policy *p, int64_t spawned_ms, int64_t now_ms, double chance);

void policy_reset(struct policy *p);	/* as new: another handler, or another configuration */

/* A message was done. */
void policy_success(struct policy *p);

/* Leaves backoff and quarantine when they expire. alive: how many of the children live. */
void policy_tick(struct policy *p, size_t alive, int64_t now_ms);

/* policy_allowed() returns how many children may be spawned now, so that `wanted` live. Call policy_spawned() after
 * each fork. */
size_t policy_allowed(const struct policy *p, size_t alive, size_t wanted, int64_t now_ms);
void policy_spawned(struct policy *p, int64_t now_ms);

/* Returns min(60 s, 0.5 s * 2^(n-1)), less up to half of it by chance (0..1). */
int64_t policy_delay_ms(int n, double chance);

#endif
