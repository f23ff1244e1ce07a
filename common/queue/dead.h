#ifndef COMMON_QUEUE_DEAD_H
#define COMMON_QUEUE_DEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/queue/moves.h"
#include "common/redis/redis.h"

/*
 * Decides that an owner is dead by its lease: at two looks, a whole lease apart, the owner had no lease, and in between
 * nothing but its death can have kept it from renewing. Pure: clocks and replies are parameters.
 */

/* A renewing write of this sweeper that the server accepted. */
struct pulse {
	int64_t boottime_ms;	/* CLOCK_BOOTTIME when the answer arrived; 0: no answer arrived */
	int64_t server_ms;	/* the server's clock */
	/* the server that accepted the write. Zeroed (unknown): only pulses of one connection are comparable */
	struct redis_identity server;
	int64_t connection;	/* redis.connection */
};

/* Why the pulses and looks so far do not prove that an owner is dead. */
enum doubt {
	DOUBT_NONE,		/* no earlier pulse or look */
	DOUBT_REFUSED,		/* Redis refused a write */
	DOUBT_SERVER,		/* another server answered, or the same one after a restart or a promotion */
	DOUBT_CONNECTION,	/* another connection, to a server that does not tell its identity */
	DOUBT_STALL,		/* no write was accepted for more than half a lease */
	DOUBT_CLOCK,		/* the clock of the server and ours diverged */
	DOUBT_LOOK,		/* a look was incomplete, or there were too few looks */
	DOUBT_MOVES,		/* no proof is needed: the moves themselves fail (sweeper/rescue/rescue.c) */
	DOUBTS
};
const char *doubt_text(enum doubt d);

/* The time since which one server has accepted every pulse, with clocks that agree. Zeroed: no such time. */
struct calm {
	int64_t since_boottime_ms;	/* 0: not calm */
	int64_t since_server_ms;
	int64_t last_boottime_ms, last_server_ms;	/* clocks at the latest pulse */
	struct redis_identity server;
	int64_t connection;
	enum doubt doubt;		/* why this calm did not begin earlier */
};

void calm_pulse(struct calm *c, const struct pulse *p, int64_t lease_ms);
void calm_broken(struct calm *c, enum doubt why);

/*
 * An owner that had no lease at a look. Disturbances are measured against the lease of this owner, so each absence has
 * a calm of its own: it begins with the last pulse before that look, and learns every pulse since.
 */
struct absence {
	char incarnation[INCARNATION_SIZE];
	int64_t first_ms;	/* CLOCK_BOOTTIME of the first look that found no lease; 0: none yet */
	int64_t since_ms;	/* CLOCK_BOOTTIME of the first such look during the present calm; 0: none */
	int64_t lease_ms;	/* the lease of the owner's host or ours, whichever is longer */
	bool undecided;		/* rescue_undecided was logged */
	struct calm calm;
};

/* A look that was sent at asked_ms and answered at answered_ms found no lease. True: the owner is dead. */
bool dead_missed(struct absence *a, int64_t asked_ms, int64_t answered_ms, int64_t patience_ms);

/* A look at the queue failed before it reached this owner: the next look starts the count anew. */
void dead_unseen(struct absence *a);

/* No lease for patience + 3 leases, and death not proven: calm.doubt says why. */
bool dead_is_undecided(const struct absence *a, int64_t now_ms, int64_t patience_ms);

#endif
