/* Decides when a silent owner is dead. Pure: looks, clocks and pulses are parameters; this file sends no command. */
#include <string.h>

#include "common/queue/dead.h"

#define STAYS "a silent worker's messages cannot be returned: "
#define LEASES_UNDECIDED 3	/* after the patience, which is one lease: four leases in all */

const char *doubt_text(enum doubt d)
{
	static const char *const texts[DOUBTS] = {
		[DOUBT_NONE] = STAYS "no two looks at it were a lease apart yet",
		[DOUBT_REFUSED] = STAYS "Redis keeps refusing writes",
		[DOUBT_SERVER] = STAYS "Redis keeps restarting, or different servers answer at its address",
		[DOUBT_CONNECTION] = STAYS "the connection keeps breaking, and INFO does not show run_id, which would "
		    "prove that it is the same Redis",
		[DOUBT_STALL] = STAYS "Redis or this host keeps stalling for more than half a lease",
		[DOUBT_CLOCK] = STAYS "the clock of Redis keeps changing",
		[DOUBT_LOOK] = STAYS "reading the queue keeps failing",
		[DOUBT_MOVES] = STAYS "moving them keeps failing, as the log tells (queue_error)",
	};

	return texts[d < DOUBTS ? d : DOUBT_NONE];
}

void calm_broken(struct calm *c, enum doubt why)
{
	*c = (struct calm){ .doubt = why };
}

static int64_t distance(int64_t a, int64_t b)
{
	return a > b ? a - b : b - a;
}

/*
 * Decides whether every owner could renew its lease between the last pulse and this one. DOUBT_NONE: yes, since the
 * same server took both writes, neither the sweeper nor the server stood still, and no clock was set.
 *
 * A connection that broke in between is no doubt, since the same server took the write before and the write after. A
 * restart, a failover and a promotion are, and they change the identity.
 *
 * A server can also go back in time under one identity (DEBUG RELOAD NOSAVE, a virtual machine that was reset), and may
 * then lack a lease. That is harmless: the two looks are a whole lease apart, so a living owner has renewed in between;
 * and a worker whose lease ran out never uses that name again (renew.lua).
 */
static enum doubt doubt_of(const struct calm *c, const struct pulse *p, int64_t lease_ms)
{
	int64_t ours = p->boottime_ms - c->since_boottime_ms, theirs = p->server_ms - c->since_server_ms;
	int64_t step = p->boottime_ms - c->last_boottime_ms, their_step = p->server_ms - c->last_server_ms;

	if (!redis_identity_same(&c->server, &p->server))
		return DOUBT_SERVER;
	if (!redis_identity_known(&p->server) && c->connection != p->connection)
		return DOUBT_CONNECTION;
	if (step > lease_ms / 2)
		return DOUBT_STALL;
	if (distance(step, their_step) > lease_ms / 8 || distance(ours, theirs) > lease_ms / 8)
		return DOUBT_CLOCK;
	return DOUBT_NONE;
}

void calm_pulse(struct calm *c, const struct pulse *p, int64_t lease_ms)
{
	enum doubt why = c->since_boottime_ms == 0 ? c->doubt : doubt_of(c, p, lease_ms);

	if (p->boottime_ms == 0)
		return;
	if (c->since_boottime_ms == 0 || why != DOUBT_NONE) {
		c->since_boottime_ms = p->boottime_ms;
		c->since_server_ms = p->server_ms;
		c->server = p->server;
		c->doubt = why;
	}
	c->connection = p->connection;
	c->last_boottime_ms = p->boottime_ms;
	c->last_server_ms = p->server_ms;
}

/* A look from before the calm does not count, so the first look within the calm starts the time. */
bool dead_missed(struct absence *a, int64_t asked_ms, int64_t answered_ms, int64_t patience_ms)
{
	if (a->first_ms == 0)
		a->first_ms = answered_ms;
	if (a->calm.since_boottime_ms == 0 || a->since_ms < a->calm.since_boottime_ms) {
		a->since_ms = answered_ms;
		return false;
	}
	return asked_ms - a->since_ms >= patience_ms;
}

void dead_unseen(struct absence *a)
{
	a->since_ms = 0;
	a->calm.doubt = DOUBT_LOOK;
}

bool dead_is_undecided(const struct absence *a, int64_t now_ms, int64_t patience_ms)
{
	return a->first_ms != 0 && now_ms - a->first_ms >= patience_ms + LEASES_UNDECIDED * a->lease_ms;
}
