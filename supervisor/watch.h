#ifndef SUPERVISOR_WATCH_H
#define SUPERVISOR_WATCH_H

#include <stdbool.h>
#include <stdint.h>

struct master;

/* Kills children that hang, or did not go when they had to. Once a second. */
void watch_children(struct master *m, int64_t now_ms);

/* Kills workers whose lease runs out under a handler that must not outlive it (fence = "kill"). Each turn. */
void watch_fences(struct master *m, int64_t now_ms, int64_t boottime_ms);

/* Whether a child with these figures makes no progress any more. allowance_ms: beyond its deadline. */
bool watch_is_late(int64_t heartbeat_ms, int64_t deadline_ms, int64_t allowance_ms, int64_t now_ms);

#endif
