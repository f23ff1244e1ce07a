#ifndef SWEEPER_REPORT_TYPES_H
#define SWEEPER_REPORT_TYPES_H

#include "sweeper/core/core.h"

extern const struct task types_task;

#endif
