#ifndef SWEEPER_WAITING_H
#define SWEEPER_WAITING_H

#include <stdbool.h>
#include <stdint.h>

#include "sweeper/trouble.h"

/* The marks of a queue (marks.c). */
struct marks {
	int64_t at_ms;		/* CLOCK_MONOTONIC: the next mark */
	struct trouble trouble;
};

/*
 * Where the sweeper is with what waits in a queue. It goes from the pop end, page by page, in rounds. The
 * first mark that is not old enough tells when something may be: before that it looks further only for
 * messages that know their own time. Nothing here is believed by the scripts: they look again.
 */
struct waiting {
	int64_t at_ms;		/* CLOCK_MONOTONIC: the next turn */
	int64_t seen;		/* entries from the pop end that this round has looked at */
	int64_t due_ms;		/* the server's: no mark is old enough before; 0: none was found yet */
	int64_t since_ms;	/* the epoch of due_ms */
	int page;		/* entries looked at at once: fewer when they are big */
	uint64_t expired;	/* in this turn */
	int64_t oldest_ms;	/* of those */
	struct trouble trouble;
};

#endif
