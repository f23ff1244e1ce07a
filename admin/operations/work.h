#ifndef ADMIN_OPERATIONS_WORK_H
#define ADMIN_OPERATIONS_WORK_H

#include <stdbool.h>
#include <stdint.h>

#include "admin/cli/cli.h"
#include "admin/dead_letters/dead_letters.h"
#include "admin/operations/paced.h"
#include "admin/operations/selection.h"

/* One piece of long work, and the process that does it: a command, or a process of the leading sweeper (execute.h). */
struct work {
	struct admin *a;
	const char *action;		/* "dlq retry" or "dlq rm" */
	bool retry, is_paced;
	struct filter filter;
	struct operation op;
	struct selection selection;
	struct paced paced;
	struct progress progress;
	/* of a sweeper's: the lines that it would print, for the result; NULL: it prints them */
	const struct buffer *notes;
};

/* How far a run of it came. */
struct work_report {
	int status;			/* sysexits(3) */
	bool says;			/* there is an outcome: it ended without an error, or has done something */
	bool complete, interrupted, settled;
	int64_t count;			/* dead letters that left in this run */
	int64_t total, done, failed, same_cause, left;	/* as in struct outcome and outcome_operation */
	char *failed_cause;		/* owned; NULL: none is known */
};

/* Reads filter and pace from the options, and finds the operation. 1: Redis remembers it; 0: it does not; -1: error.
 * work_free() in each case */
int work_find(struct work *w, struct admin *a, const char *action);
/* Counts the dead letters up to the bound. *n -1: there are too many to count before the work begins. */
int work_count(struct work *w, int64_t *n);
/*
 * Holds the operation, takes all that it means, ends or releases it, and fills r, which work_report_free() frees. -1:
 * error; r->says is false if it was not held
 */
int work_run(struct work *w, struct work_report *r);
void work_free(struct work *w);

/* The first error among lines that were noted; NULL: none. *len: without its newline */
const char *work_error(const char *notes, size_t *len);

/* "TIME JSON", with the lines of w->notes: a new string. at_ms: by the clock of Redis */
char *work_report_text(const struct work *w, const struct work_report *r, int64_t at_ms);
/* Reads such a text, which any program may have written, and prints its lines. begun_ms: of the operation; 0: of any.
 * at_ms: its time. -1: it is none, or that of another operation, also if the same command began both */
int work_report_parse(const char *text, int64_t begun_ms, struct work_report *r, int64_t *at_ms);
int64_t work_report_begun(const char *text);	/* when its operation began; -1: it is no such text */
void work_report_free(struct work_report *r);

#endif
