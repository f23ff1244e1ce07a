#ifndef SWEEPER_REPORT_ERRORS_H
#define SWEEPER_REPORT_ERRORS_H

#include "sweeper/core/core.h"

extern const struct task errors_task;

/* queue_error_shown() in this turn */
uint32_t errors_shown(const struct sweeper *s, const struct sweeper_queue *q);

#endif
