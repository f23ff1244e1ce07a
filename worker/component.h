#ifndef WORKER_COMPONENT_H
#define WORKER_COMPONENT_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/tray.h"

struct worker;

/*
 * The contract of a component. worker.c has the table. The loop and session.c call these functions, each where it is
 * not NULL, in the order of the table; free() in the opposite order. So session.c calls no component by its name, and
 * no files of worker/ call each other in a circle.
 */
struct component {
	const char *name;
	void (*init)(struct worker *w);
	void (*tick)(struct worker *w, int64_t now_ms);		/* once in a turn */
	/* CLOCK_MONOTONIC: when it wants a turn; INT64_MAX: after an event */
	int64_t (*deadline_ms)(const struct worker *w, int64_t now_ms);
	/* Right behind the renewal of a new name, on the same connection. */
	void (*named)(struct worker *w);
	void (*confirmed)(struct worker *w);			/* Redis has answered that renewal */
	void (*adopted)(struct worker *w);			/* every tray has been read under that name */
	/* the connection is lost: no answer comes. session still says what it was */
	void (*lost)(struct worker *w);
	/* While an answer arrives. True: closes the connection, since the component does not want the rest of it */
	bool (*refuses_arriving)(struct worker *w);
	void (*free)(struct worker *w);
};

/* Names the request to which an expected answer belongs. */
enum answer {
	ANSWER_SERVER, ANSWER_RENEW, ANSWER_TOO_LARGE, ANSWER_ADOPT, ANSWER_LEASE, ANSWER_COUNTS, ANSWER_FETCH,
	    ANSWER_PAUSED, ANSWER_THROTTLE, ANSWER_SEATS, ANSWER_SEAT_FREE,
	ANSWER_NOTES, ANSWER_SECRET, ANSWER_EVIDENCE, ANSWER_UNDELIVERABLE, ANSWER_TIME, ANSWER_CANCELS,
	ANSWER_MOVE, ANSWER_DELETE, ANSWER_DEREGISTER, ANSWERS
};

/* Takes an answer. of: tray and item as session_expect() got them. */
typedef void answer_taker(struct worker *w, struct place of, const struct redis_reply *reply, int64_t now_ms);

struct components {
	const struct component *all;
	size_t n;
	answer_taker *const *takers;	/* by enum answer */
};

#endif
