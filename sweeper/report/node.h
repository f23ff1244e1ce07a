#ifndef SWEEPER_REPORT_NODE_H
#define SWEEPER_REPORT_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/facts/facts.h"
#include "sweeper/core/core.h"

extern const struct task node_task;

/*
 * The figures of FACT_OF_HOST but FACT_NEXT_CONNECT, of each queue of this sweeper, by its place on the board: a new
 * array. memory: also those of memory, which reads /proc for each process.
 */
struct facts *node_facts(struct sweeper *s, bool memory, int64_t now_ms);

#endif
