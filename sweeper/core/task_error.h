#ifndef SWEEPER_CORE_TASK_ERROR_H
#define SWEEPER_CORE_TASK_ERROR_H

#include <bsd/sys/queue.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/board/board.h"

#define TASK_ERROR_PERSISTS 4	/* failures in a row; with the back-off they take about three seconds */

/*
 * The error of one task, rescue or death in one queue; zeroed: none. The list of the queue holds it from the first
 * failure until a success, and status and health show what is in that list. Its owner calls task_error_forget() before
 * freeing it.
 */
struct task_error {
	TAILQ_ENTRY(task_error) entry;	/* of the queue's list of this kind; of none while kind is NONE */
	bool leads;		/* of periodic work: shown only while this host leads the queue */
	enum queue_error kind;	/* NONE also if only the connection was lost, perhaps because of it */
	char text[256];		/* as logged last; "": nothing was logged */
	unsigned times;		/* in a row */
	int64_t retry_at_ms;	/* CLOCK_MONOTONIC */
};

/* The errors of a queue, by kind: there may be as many as owners whose rescue fails, and only the most important one is
 * shown. */
struct task_errors {
	/* of each kind the oldest first; none in NONE */
	TAILQ_HEAD(task_error_list, task_error) of[QUEUE_ERRORS];
};

void task_error_list_init(struct task_errors *all);
void task_error_list_retry_at(struct task_errors *all, int64_t at_ms);	/* each of them */
/* The most important one; NULL: none. leads: errors of periodic work count */
const struct task_error *task_error_list_worst(const struct task_errors *all, bool leads);
void task_error_list_forget(struct task_errors *all);	/* each of them, before their owners are freed */
void task_error_init(struct task_error *t, bool leads);	/* zeroed before */
void task_error_retry_at(struct task_error *t, int64_t at_ms);	/* no error: its owner waits for something else */

static inline bool task_error_waits(const struct task_error *t, int64_t now_ms)
{
	return now_ms < t->retry_at_ms;
}

#endif
