#ifndef SWEEPER_HISTORY_H
#define SWEEPER_HISTORY_H

#include <stdint.h>

#include "common/queue_letters.h"

/* What purge.max_done_age does to the history of a queue. Times: CLOCK_MONOTONIC. */
struct history_purge {
	int64_t gone;			/* since it was told last */
	int64_t told_ms;		/* 0: never */
	int64_t name_at_ms;		/* a dry run: its next page */
	int64_t begun_ms;		/* its round */
	char from[QUEUE_RECORD_ID_SIZE];	/* where that is; "": it begins */
};

#endif
