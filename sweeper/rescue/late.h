#ifndef SWEEPER_RESCUE_LATE_H
#define SWEEPER_RESCUE_LATE_H

#include <stdbool.h>
#include <stddef.h>

struct sweeper;
struct sweeper_queue;

/* Begins a rescue of each of these dead owners whose trays hold messages again. gate: before the queue is opened. -1: error */
int late_look(struct sweeper *s, struct sweeper_queue *q, const char *const *names, size_t n, bool gate);

#endif
