#ifndef SWEEPER_RESCUE_FOREIGN_H
#define SWEEPER_RESCUE_FOREIGN_H

#include <stdbool.h>

struct sweeper;

bool foreign_is_busy(const struct sweeper *s);	/* the last round is still under way */
void foreign_round(struct sweeper *s);	/* begins a round */

#endif
