#ifndef TESTS_CRASHPOINTS_CALL_H
#define TESTS_CRASHPOINTS_CALL_H

#include <sys/types.h>

#include <stdbool.h>
#include <stdint.h>

const char *call_name(long nr);		/* valid until the next one; a number if it has none */

/* What it is made on, as far as it matters for what it can fail with: "socket", "pipe", "log" (the process's stderr), "create", … */
const char *call_kind(pid_t pid, long nr, const uint64_t *args);

/* "name" or "name@kind" is one of the words, which commas part. */
bool call_is_named(const char *words, const char *name, const char *kind);

void call_skip(pid_t pid);			/* at its entry: it is not made */
void call_set_length(pid_t pid, uint64_t length);	/* at its entry: its third argument */
void call_set_result(pid_t pid, long result);	/* at its exit */

#endif
