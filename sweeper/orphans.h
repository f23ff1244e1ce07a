#ifndef SWEEPER_ORPHANS_H
#define SWEEPER_ORPHANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/queue_letters.h"
#include "sweeper/letters.h"

/*
 * Where a dry run is among the records of a queue: as a live run would be that had removed what was named so far. Its page
 * begins with those that stay and goes on behind the last that was seen.
 */
struct orphans_named {
	char stay[LETTERS_PAGE][QUEUE_RECORD_ID_SIZE];
	size_t nstay;
	char from[QUEUE_RECORD_ID_SIZE];
	int64_t n;			/* named: they count as gone */
};

struct sweeper;
struct swept;

/*
 * Records come before the messages of a round: what those add to the list makes less certain what is an orphan, and a dry
 * run adds nothing. True: they are still at it.
 */
bool orphans_come_first(const struct sweeper *s, const struct swept *q);
void orphans_begin(struct swept *q, int64_t now_ms);

#endif
