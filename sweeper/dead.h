#ifndef SWEEPER_DEAD_H
#define SWEEPER_DEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/queue.h"
#include "sweeper/server.h"

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
	char run_id[SERVER_RUN_ID_SIZE];
	int64_t connection;
};

void calm_pulse(struct calm *c, const struct pulse *p, int64_t lease_ms);
void calm_broken(struct calm *c);	/* a pulse was refused, or the connection is lost */

struct absence {
	char incarnation[INCARNATION_SIZE];
	int64_t since_ms;	/* CLOCK_BOOTTIME of the first look that missed its lease */
};

/* An owner is missed by a look at now_ms; before: since when it was (0: it was not). Returns since when it counts. */
int64_t dead_absent_since(int64_t before_ms, const struct calm *c, int64_t now_ms);
bool dead_by_lease(int64_t since_ms, const struct calm *c, int64_t now_ms, int64_t lease_ms);

#endif
