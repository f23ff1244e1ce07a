#ifndef COMMON_QUEUE_THROTTLE_H
#define COMMON_QUEUE_THROTTLE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/base.h"
#include "common/queue/moves.h"

/*
 * The throttle of a queue: how many handlers may start, on all hosts together (common/queue/scripts/throttle.lua).
 * Redis has the only clock of it. As in common/queue/moves.h, each function appends one script or command.
 */
struct queue_throttle_figures {
	int64_t n, per_ms;		/* n starts in per_ms */
	int64_t burst;			/* starts that may come at once */
	int64_t loaded_ms;		/* ms since 1970: when a host loaded them; of different ones the last count */
	char node[QUEUE_NAME_MAX + 1];	/* that host */
};

/* The text of figures, as the key has it, and each_us, the time from one start to the next. */
#define QUEUE_THROTTLE_TEXT_SIZE (QUEUE_NAME_MAX + 4 * 24)
struct queue_throttle_text {
	char figures[QUEUE_THROTTLE_TEXT_SIZE], each_us[48], burst[24];
};
void queue_throttle_format(const struct queue_throttle_figures *f, struct queue_throttle_text *out);

/* Makes figures known that a host has loaded, without a start. -> ARRAY for queue_throttle_parse() */
void queue_throttle_announce(struct redis *r, const struct queue_keys *k, const struct queue_throttle_text *figures);
/*
 * Asks for at most `wanted` starts. from_ingress: and for no more than messages wait in ingress. unused: of the last
 * answer. -> ARRAY for queue_throttle_parse()
 */
struct queue_throttle_unused {
	int64_t appointment;		/* as that answer has it */
	int64_t starts;			/* given by it, or kept by it, and not used; 0: none */
};
void queue_throttle(struct redis *r, const struct queue_keys *k, const struct queue_throttle_text *figures, int wanted,
    bool from_ingress, struct queue_throttle_unused unused);
struct queue_throttle_answer {
	int64_t starts;			/* so many may start now; -1: no message waits in ingress */
	int64_t wait_us;		/* of 0 starts: the next one is due then */
	/* names the starts; of 0 starts: the next one is kept for the worker that asked, unless it is 0 */
	int64_t appointment;
	int64_t now_us;			/* us since 1970, by the clock of Redis */
};
int queue_throttle_parse(const struct redis_reply *reply, struct queue_throttle_answer *out);	/* -1: another form */

/* Reads the figures that count. -> STRING or NIL for queue_throttle_figures_parse() */
void queue_throttle_figures(struct redis *r, const struct queue_keys *k);
/* -1: the key does not exist, or holds something else */
int queue_throttle_figures_parse(const struct redis_reply *reply, struct queue_throttle_figures *out);

#endif
