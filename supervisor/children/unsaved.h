#ifndef SUPERVISOR_CHILDREN_UNSAVED_H
#define SUPERVISOR_CHILDREN_UNSAVED_H

#include <stdbool.h>
#include <stdint.h>

#include "common/board/board.h"

struct unsaved {
	/* that Redis acknowledged and that are not in its append-only file; SLOT_UNSAVED_UNKNOWN: cannot tell */
	int64_t bytes;
	char why[128];
};

/*
 * Asks the Redis in dir, for a few seconds at most. False: all that it acknowledged is in its file, and it accepts no
 * write for the next UNSAVED_PAUSE_MS (Redis before 6.2 has no such pause). True: *u says what is not in the file, and
 * producers may go on. A file that CONFIG SET has switched off is switched on again.
 */
#define UNSAVED_PAUSE_MS "10000"
bool unsaved_ask(const char *dir, struct unsaved *u);

#endif
