#ifndef ADMIN_CONTROL_H
#define ADMIN_CONTROL_H

#include <stdint.h>

#include <jansson.h>

#include "admin/admin.h"

/*
 * The supervisor's control socket: one JSON object a line, each way. What it answers to "status" is
 * described in supervisor/status.c; the CLI only shows it.
 */

/* Sends {"command": command, ...more} (more is stolen; NULL: nothing). A new reference, or NULL: said why. An answer
 * that is not "ok" is returned too, for what else it tells, after its error was said (EX_TEMPFAIL). */
json_t *control_ask(struct admin *a, const char *command, json_t *more);

/* Orders a stop and waits until the supervisor is gone; wait_ms 0: does not wait. */
int control_stop(struct admin *a, bool fast, int64_t wait_ms);

/* How long this worker's handler has been running, if a supervisor here knows it. -1: not known. Silent. */
int64_t control_elapsed(struct admin *a, const struct queue_worker *w);

#endif
