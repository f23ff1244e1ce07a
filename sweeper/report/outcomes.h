#ifndef SWEEPER_REPORT_OUTCOMES_H
#define SWEEPER_REPORT_OUTCOMES_H

#include <stdbool.h>

#include "sweeper/core/core.h"

extern const struct task outcomes_task;

/* True: since health judged the queue, so many attempts failed that its level may be worse now. */
bool outcomes_alarm(const struct sweeper *s, const struct sweeper_queue *q);
void outcomes_judged(const struct sweeper_queue *q);	/* health judges the queue now */

#endif
