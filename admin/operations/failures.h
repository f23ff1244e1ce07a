#ifndef ADMIN_OPERATIONS_FAILURES_H
#define ADMIN_OPERATIONS_FAILURES_H

#include <stdint.h>

#include "admin/cli/cli.h"
#include "admin/dead_letters/dead_letters.h"
#include "admin/operations/redriven.h"

/* Why messages that were moved back failed again: each has the cause that it had before, or another one.
 * UNKNOWN: its cause before is not known. */
enum failure_kind { FAILURE_SAME, FAILURE_OTHER, FAILURE_UNKNOWN, FAILURE_KINDS };
struct failures {
	struct groups causes[FAILURE_KINDS];
	int64_t n[FAILURE_KINDS];
	int64_t read;			/* failures of all kinds: the newest, at most FAILURES_MAX */
	int64_t records;		/* records that were read to find them */
	const struct redriven *redriven;
};
#define FAILURES_MAX 1000

/* Reads their records, in few round trips. -1: error of Redis */
int failures_read(struct admin *a, const struct redriven *r, struct failures *f);
/* "All 3 have the same cause as before: 'HandlerExit exit 3: no route'": a new string; "": no record was found. */
char *failures_text(const struct failures *f);
/* The most frequent cause of all; NULL: no record was found. */
const char *failures_most_frequent(const struct failures *f);
void failures_free(struct failures *f);

#endif
