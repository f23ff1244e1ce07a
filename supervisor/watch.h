#ifndef SUPERVISOR_WATCH_H
#define SUPERVISOR_WATCH_H

#include <stdint.h>

struct master;

/* Kills children that hang, or did not go when they had to. Once a second. */
void watch_children(struct master *m, int64_t now_ms);

/* Kills workers whose lease runs out under a handler that must not outlive it (fence = "kill"). Each turn. */
void watch_fences(struct master *m, int64_t now_ms, int64_t boottime_ms);

#endif
