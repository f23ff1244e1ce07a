#ifndef ADMIN_CLI_PROGRESS_H
#define ADMIN_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* A line on standard error that shows how far long work is. It appears only on a terminal, and only after a moment. */
struct progress {
	const char *what;		/* "retry mail escape" */
	int64_t total;			/* 0: not known */
	int64_t before;			/* of it done by earlier commands */
	bool terminal, drawn;
	int64_t started_ms, drawn_ms;	/* CLOCK_MONOTONIC */
};

void progress_begin(struct progress *p, const char *what, int64_t before, int64_t total);
void progress_show(struct progress *p, int64_t done);		/* done: with what was done before */
void progress_end(struct progress *p);		/* wipes the line */

#endif
