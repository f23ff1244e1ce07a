#ifndef SUPERVISOR_QUEUES_QUEUE_STATE_H
#define SUPERVISOR_QUEUES_QUEUE_STATE_H

#include "supervisor/queues/queues.h"

extern const char *const queue_state_names[];	/* "running", "paused", … */

/* Returns the state of a queue. *reason is static; NULL: no reason. errors: read from the scoreboard in this turn. */
enum queue_state queue_state_judge(const struct queues *qs, const struct queue_workers *q, const struct worker_errors *errors, const char **reason);
/*
 * The same reason with what workers and sweeper know of it: the step that failed, its error, the key, and the time of the next attempt.
 * now_ms: CLOCK_MONOTONIC; 0: without that time, for a text that lasts. Returns out; NULL: reason is NULL.
 */
#define QUEUE_STATE_TEXT_SIZE 640
const char *queue_state_explain(const struct queues *qs, const struct queue_workers *q, enum queue_state state, const struct worker_errors *errors,
    const char *reason, int64_t now_ms, char out[QUEUE_STATE_TEXT_SIZE]);
const char *queue_state_aside(const struct queues *qs, const struct queue_workers *q);	/* why messages are set aside; NULL: none is */
const char *queue_state_undecided(const struct queues *qs, const struct queue_workers *q);	/* why a silent worker cannot be proven dead; NULL: there is no such worker */

#endif
