/* The states of an operation, and which of them the fields in Redis mean. */
#include <string.h>

#include "admin/operations/states.h"

#include "admin/operations/operation.h"

const struct operation_state_words operations_states[OPERATION_STATES] = {
	[OPERATION_FOREGROUND] = { "foreground", "run", "a command works on it", true },
	[OPERATION_RUNNING] = { "running", "run", "the supervisor that leads the queue works on it", true },
	[OPERATION_WAITING] = { "waiting", "idle", "the supervisor that leads the queue will begin or continue it",
	    true },
	[OPERATION_STOPPING] = { "stopping", "off", "it stops after its next message", false },
	[OPERATION_STOPPED] = { "stopped", "off", "an operator stopped it; the same command continues it, and Redis "
	    "forgets it 7 days after its last step", false },
	[OPERATION_INTERRUPTED] = { "interrupted", "off", "no process works on it; the same command continues it, and "
	    "Redis forgets it 7 days after its last step", false },
};

/* The scripts judge it alike: a hold that ends later than one that begins now is of a clock that went back. */
bool operations_is_held(const char *const text[OPERATION_FIELDS], int64_t now_ms)
{
	int64_t held_ms = operation_figure(text[OPERATION_HELD], OPERATION_TIME_MAX_MS, 0);

	return text[OPERATION_HOLDER][0] != '\0' && held_ms > now_ms && held_ms <= now_ms + QUEUE_OPERATION_HOLD_MS;
}

bool operations_is_wanted(const char *const text[OPERATION_FIELDS])
{
	return strcmp(text[OPERATION_WANTED], "run") == 0 || strcmp(text[OPERATION_WANTED], "stop") == 0;
}

/* A command that was interrupted leaves it without a holder. */
enum operation_state operations_state(const char *const text[OPERATION_FIELDS], int64_t now_ms)
{
	bool held = operations_is_held(text, now_ms);

	if (strcmp(text[OPERATION_WANTED], "stop") == 0)
		return held ? OPERATION_STOPPING : OPERATION_STOPPED;
	if (strcmp(text[OPERATION_WANTED], "stopped") == 0 && !held)
		return OPERATION_STOPPED;
	if (strcmp(text[OPERATION_WANTED], "run") == 0)
		return held ? OPERATION_RUNNING : OPERATION_WAITING;
	return held ? OPERATION_FOREGROUND : OPERATION_INTERRUPTED;
}
