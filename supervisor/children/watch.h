#ifndef SUPERVISOR_CHILDREN_WATCH_H
#define SUPERVISOR_CHILDREN_WATCH_H

#include <stdint.h>

#include "supervisor/children/processes.h"

/* Kills children that hang, or did not end when they had to. Once a second. */
void watch_children(struct processes *ps, int64_t now_ms);

/*
 * Kills workers whose lease runs out under a handler that must not outlive it (fence = "kill"). In each turn. Returns when to
 * call again; INT64_MAX: when something happens. lease_ms: of the configuration.
 */
int64_t watch_fences(struct processes *ps, int64_t lease_ms, int64_t now_ms, int64_t boottime_ms);

#endif
