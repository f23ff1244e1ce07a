#ifndef WORKER_LEAVING_H
#define WORKER_LEAVING_H

#include <stddef.h>
#include <stdint.h>

#include "worker/tray.h"

/* The moves that are not sent yet, in the order in which they are to leave. */
struct leaving {
	struct leaving_move {
		uint64_t serial;	/* of the message */
		struct place place;
	} *moves;			/* owned */
	size_t n, cap;
};

/*
 * Of the trays whose fetch is over, the newest message first: a worker fetches first the message that went back to the
 * pop end last, so the order stays. Called twice a turn, so it reads no tray in which nothing moves.
 */
void leaving_list(struct leaving *l, const struct trays *ts);
void leaving_free(struct leaving *l);

#endif
