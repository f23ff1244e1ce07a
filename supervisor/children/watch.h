#ifndef SUPERVISOR_CHILDREN_WATCH_H
#define SUPERVISOR_CHILDREN_WATCH_H

#include <stdint.h>

#include "supervisor/children/processes.h"

/* Kills children that hang, or that did not end in time. Called once a second. */
void watch_children(struct processes *ps, int64_t now_ms);

/*
 * Kills workers whose lease is about to expire while a handler runs that must not outlive it (fence = "kill"). Called
 * in each turn. Returns when to call again; INT64_MAX: after the next event. lease_ms: of the configuration.
 */
int64_t watch_fences(struct processes *ps, int64_t lease_ms, int64_t now_ms, int64_t boottime_ms);

#endif
