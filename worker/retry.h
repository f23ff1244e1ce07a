#ifndef WORKER_RETRY_H
#define WORKER_RETRY_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Owner: retry.c. The back-off after errors of one kind. The component that holds the struct makes no attempt before
 * at_ms, and calls one of the functions after each attempt. errors == 0 if and only if no attempt failed since the last
 * one that succeeded.
 */
struct retry {
	int64_t at_ms;		/* CLOCK_MONOTONIC; 0: at once */
	unsigned errors;	/* consecutive errors */
};

struct retry_backoff {
	int64_t base_ms;	/* after the first error; each further error doubles it */
	int64_t cap_ms;
	/* fraction that is random: with 0.5 a wait is between half and all of the computed time */
	double jitter;
};

void retry_failed(struct retry *r, const struct retry_backoff *b, int64_t now_ms);
void retry_succeeded(struct retry *r);		/* ends the row of errors; at_ms stays */
void retry_not_before(struct retry *r, int64_t at_ms);	/* sets at_ms without an error; 0: at once */

#endif
