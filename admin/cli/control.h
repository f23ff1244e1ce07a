#ifndef ADMIN_CLI_CONTROL_H
#define ADMIN_CLI_CONTROL_H

#include <stdint.h>

#include <jansson.h>

#include "admin/cli/admin.h"

/*
 * The supervisor's control socket: one JSON object a line, each way. supervisor/status.c describes the answer to
 * "status"; the commands only show it.
 */

/* The path of the control socket: of the option -s, or of the configuration. */
const char *control_path(const struct admin *a);

/*
 * Sends {"command": command, ...more}. more: its reference is taken; NULL: nothing. Returns a new reference; or NULL,
 * after an error was printed. An answer that is not "ok" is returned, too, because of its other members, after its
 * error was printed (EX_TEMPFAIL).
 */
json_t *control_ask(struct admin *a, const char *command, json_t *more);

/* The status of the supervisor. NULL: it does not answer, and errno is for control_silence(); nothing was printed. */
json_t *control_status(struct admin *a);

/* Why there is no answer. error: errno; 0: the connection was closed. */
const char *control_silence(int error);

/* Orders a stop and waits until the supervisor has exited; wait_ms 0: does not wait. */
int control_stop(struct admin *a, bool fast, int64_t wait_ms);

/* status: an answer to "status". Why the stop waits for the file of the embedded Redis, and what ends that: a new
 * string. NULL: no stop does. */
char *control_unsaved(const json_t *status);

/* Returns how long the handler of this worker has been running, if the supervisor of this host knows it. -1: not known.
 * Prints nothing. */
int64_t control_elapsed(struct admin *a, const struct queue_worker *w);

#endif
