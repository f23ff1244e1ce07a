#ifndef SWEEPER_REPORT_ERRORS_H
#define SWEEPER_REPORT_ERRORS_H

#include "common/holds/holds.h"
#include "sweeper/core/core.h"

extern const struct task errors_task;

const struct hold_slots *errors_slots(const struct sweeper *s);	/* of this turn */

#endif
