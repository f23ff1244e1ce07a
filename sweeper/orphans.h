#ifndef SWEEPER_ORPHANS_H
#define SWEEPER_ORPHANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/letters_walk.h"

struct sweeper;
struct swept;

/*
 * Records come before the messages of a round: what those add to the list makes less certain what is an orphan, and a dry
 * run adds nothing. True: they are still at it.
 */
bool orphans_come_first(const struct sweeper *s, const struct swept *q);
void orphans_begin(struct swept *q, int64_t now_ms);

#endif
