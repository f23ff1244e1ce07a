#ifndef ADMIN_OPERATIONS_STATES_H
#define ADMIN_OPERATIONS_STATES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/queue/queue.h"

/* The states of an operation that is not complete. */
enum operation_state {
	OPERATION_FOREGROUND,
	OPERATION_RUNNING,
	OPERATION_WAITING,
	OPERATION_STOPPING,
	OPERATION_STOPPED,
	OPERATION_INTERRUPTED,
	OPERATION_STATES
};

struct operation_state_words {
	const char *name;	/* in `quredis operations` and its JSON */
	const char *level;	/* of its badge in the console */
	const char *text;	/* its meaning, for operators */
	bool can_stop;		/* `quredis operations --stop` changes it */
};
extern const struct operation_state_words operations_states[OPERATION_STATES];

/* text: the fields as Redis has them; any program may have written them. now_ms: by the clock of Redis */
bool operations_is_held(const char *const text[OPERATION_FIELDS], int64_t now_ms);	/* a process works on it */
bool operations_is_wanted(const char *const text[OPERATION_FIELDS]);	/* a supervisor has it, or has to stop it */
enum operation_state operations_state(const char *const text[OPERATION_FIELDS], int64_t now_ms);

#endif
