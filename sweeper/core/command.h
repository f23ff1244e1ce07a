#ifndef SWEEPER_CORE_COMMAND_H
#define SWEEPER_CORE_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sweeper/core/subprocess.h"

struct sweeper;
struct sweeper_queue;

#define COMMAND_FACTS_MOST 8

/* "NAME=VALUE" of the environment of a command; NULL at the end. command_start() frees them. */
struct command_facts {
	char *list[COMMAND_FACTS_MOST + 1];
	size_t n;
};
void command_fact(struct command_facts *f, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * A command that a key of a queue names, such as purge.check. It runs as a handler of the queue does: the same user,
 * limits and environment, a message on standard input, and the sweeper kills all processes that it leaves. Only its
 * exit status has another meaning. It has 10 s.
 */
struct command_run {
	const char *role;		/* its process is QUEUE/role in the log */
	char **argv;
	const char *input;		/* what a producer could push; the command gets it without header and wrapper */
	size_t len;
	struct command_facts *facts;
};

enum command_end {
	COMMAND_SUCCEEDED,
	COMMAND_REFUSED,		/* an exit status from 1 to 125 */
	COMMAND_FAILED			/* it could not run, or a signal or the timeout ended it */
};

/* Borrows *c until it returns. Returns why it could not start, valid until the next call; NULL: it has. */
const char *command_start(struct subprocess *e, const struct sweeper *s, const struct sweeper_queue *q,
    const struct command_run *c, int64_t now_ms);

/* True once. *why: how it ended, if it did not succeed; e owns it, until its next start. */
bool command_ended(struct subprocess *e, enum command_end *end, const char **why, int64_t now_ms);

#endif
