#ifndef SWEEPER_REPORT_NODE_H
#define SWEEPER_REPORT_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/facts/facts.h"
#include "sweeper/core/core.h"

extern const struct task node_task;

#endif
