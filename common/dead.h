#ifndef COMMON_DEAD_H
#define COMMON_DEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/queue.h"
#include "common/redis_info.h"

/*
 * Dead by lease: an owner without one at two looks a whole lease apart, while nothing but its death can
 * have kept it from renewing. Pure: clocks and answers come in.
 */

/* One renewing write of our own that the server took. */
struct pulse {
	int64_t boottime_ms;	/* CLOCK_BOOTTIME when the answer came; 0: no answer came */
	int64_t server_ms;	/* the server's clock */
	struct redis_identity server;	/* the server that took the write. Zeroed (unknown): only pulses of one connection are compared */
	int64_t connection;	/* redis.connection */
};

/* Why earlier pulses and looks do not prove that an owner is dead. */
enum doubt {
	DOUBT_NONE,		/* nothing was seen before */
	DOUBT_REFUSED,		/* a write was refused */
	DOUBT_SERVER,		/* another server answered, or the same one after a restart or a promotion */
	DOUBT_CONNECTION,	/* another connection, to a server that does not say which one it is */
	DOUBT_STALL,		/* no write was taken for more than half a lease */
	DOUBT_CLOCK,		/* the clocks moved apart */
	DOUBT_LOOK,		/* a look was cut short, or too few looks were made */
	DOUBT_MOVES,		/* nothing is to be proven: the moves themselves fail (sweeper/rescue.c) */
	DOUBTS
};
const char *doubt_text(enum doubt d);

/* Since when all pulses were taken, by one server, with clocks that agree. Zeroed: not at all. */
struct calm {
	int64_t since_boottime_ms;	/* 0: not calm */
	int64_t since_server_ms;
	int64_t last_boottime_ms, last_server_ms;	/* of the latest pulse */
	struct redis_identity server;
	int64_t connection;
	enum doubt doubt;		/* why this calm did not begin earlier */
};

void calm_pulse(struct calm *c, const struct pulse *p, int64_t lease_ms);
void calm_broken(struct calm *c, enum doubt why);

/*
 * An owner whose lease a look has missed. What disturbs is measured by its own lease, so its calm is its own:
 * begun with the last pulse before that look, and told of every one since.
 */
struct absence {
	char incarnation[INCARNATION_SIZE];
	int64_t first_ms;	/* CLOCK_BOOTTIME of the first look that missed it; 0: none yet */
	int64_t since_ms;	/* CLOCK_BOOTTIME of the first such look within the present calm; 0: none */
	int64_t lease_ms;	/* its host's or ours, whichever is longer */
	bool undecided;		/* rescue_undecided was logged */
	struct calm calm;
};

/* It is missed by a look at asked_ms, which was answered at answered_ms. True: it is dead. */
bool dead_missed(struct absence *a, int64_t asked_ms, int64_t answered_ms, int64_t patience_ms);

/* A look at the queue failed before it came to this owner: the next look starts the count anew. */
void dead_unseen(struct absence *a);

/* The owner has been missed for its patience and three leases, and is not proven dead: calm.doubt says why. */
bool dead_is_undecided(const struct absence *a, int64_t now_ms, int64_t patience_ms);

#endif
