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
	int64_t boottime_ms;	/* CLOCK_BOOTTIME when its answer was there */
	int64_t server_ms;	/* the server's clock */
	const char *run_id;	/* "": not known; then nobody is ever judged */
	int64_t connection;	/* redis.connection */
};

/* Since when all pulses were taken, by one server, with clocks that agree. Zeroed: not at all. */
struct calm {
	int64_t since_boottime_ms;	/* 0: not calm */
	int64_t since_server_ms;
	int64_t last_boottime_ms, last_server_ms;	/* of the latest pulse */
	char run_id[REDIS_RUN_ID_SIZE];
	int64_t connection;
};

void calm_pulse(struct calm *c, const struct pulse *p, int64_t lease_ms);
void calm_broken(struct calm *c);	/* a pulse was refused, or the connection is lost */

/*
 * An owner whose lease a look has missed. What disturbs is measured by its own lease, so its calm is its own:
 * begun with the last pulse before that look, and told of every one since.
 */
struct absence {
	char incarnation[INCARNATION_SIZE];
	int64_t since_ms;	/* CLOCK_BOOTTIME of the first look that counts; 0: none yet */
	int64_t lease_ms;	/* its host's or ours, whichever is longer */
	struct calm calm;
};

/* It is missed by a look at asked_ms, which was answered at answered_ms. True: it is dead. */
bool dead_missed(struct absence *a, int64_t asked_ms, int64_t answered_ms, int64_t patience_ms);

#endif
