#ifndef SWEEPER_CORE_TASK_H
#define SWEEPER_CORE_TASK_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sweeper/core/task_error.h"

struct subprocess;
struct sweeper;
struct sweeper_queue;

/*
 * The contract of a task. A task is a file that defines `const struct task NAME_task`, and its name in the table of
 * sweeper/sweeper.c. The core (task.c) runs all tasks in each turn of the loop, in the order of the table. Only the
 * core iterates over queues, wakes tasks, backs off after an error, publishes errors and frees states. A task knows
 * another one only through a function that the other one declares for it.
 */

enum task_end {
	TASK_DONE,		/* nothing is left to do before the next run */
	TASK_MORE,		/* the budget is used up: the next run is in the next turn */
	TASK_ASK,		/* take(): ask() has another request for this queue, which is sent in this turn, too */
	/* the core logs s->connection.error, shows s->connection.error_kind in status and health, and retries after a
	 * back-off */
	TASK_FAILED,
	/* only from run_queue(): the sweeper does not need the queue any more; the core frees it */
	TASK_REMOVE
};

#define TASK_WHEN_WOKEN_MS (INT64_MAX / 2)	/* as interval_ms: the task runs only when it is woken */

/* Constant. A task has run(); or it works in queues and has run_queue(), or ask() and take(). Every other member may be
 * NULL or 0. */
struct task {
	const char *name;		/* in the log, as "at" */
	/*
	 * Between two runs, of the task or in one queue; 0: each turn. The first run is at once. A task with ask() then
	 * runs when CLOCK_MONOTONIC passes a multiple of it, so that all queues share one write: its second run may
	 * come earlier.
	 */
	int64_t interval_ms;
	int per_lease;			/* at least so many runs in the time of a lease; 0: interval_ms alone counts */
	int budget;			/* units of work of one run; in each queue, if it runs in queues */
	bool unsealed;			/* runs also while no secret is known: it neither seals nor verifies a line */
	bool finishing;			/* runs also after the order to finish */

	/* ---- the sweeper as a whole ---- */
	bool (*run)(struct sweeper *s, int budget, int64_t now_ms);	/* true: there is more to do at once */
	/* at the start of each turn of the loop, also without a connection. It must not wait */
	void (*each_turn)(struct sweeper *s, int64_t now_ms);
	/* True: there is work whose end poll(2) does not show. The loop then sleeps 100 ms at most, and a finishing
	 * sweeper does not exit */
	bool (*is_pending)(struct sweeper *s);
	/* Sends the first requests on each new connection. -1: refused (s->connection.error), or lost; the core closes
	 * the connection */
	int (*connected)(struct sweeper *s);
	void (*disconnected)(struct sweeper *s);
	void (*settle)(struct sweeper *s);	/* at the end of the process, if it has a connection */
	size_t own_size;		/* bytes of the task's own state, zeroed at first; task_own() */
	void (*free_own)(struct sweeper *s);	/* frees what that state owns */

	/* ---- in each queue that wants it ---- */
	enum task_end (*run_queue)(struct sweeper *s, struct sweeper_queue *q, int budget, int64_t now_ms);
	/*
	 * Instead of run_queue(), for a task that would wait for an answer of Redis in each queue. The core calls ask()
	 * for all queues whose time has come: it appends a request, or returns false if it has none. Then the core
	 * calls take() for each of these queues, which reads the answers to its request: all of them, also after an
	 * error, unless the connection is closed. The next answer belongs to the next queue.
	 */
	bool (*ask)(struct sweeper *s, struct sweeper_queue *q, int budget, int64_t now_ms);
	enum task_end (*take)(struct sweeper *s, struct sweeper_queue *q, int64_t now_ms);
	bool configured;		/* wanted only in queues that the configuration has */
	bool served;			/* wanted only in queues that have a place on the scoreboard */
	bool (*wanted)(const struct sweeper *s, const struct sweeper_queue *q);	/* of these; NULL: in every queue */
	bool leads;			/* wanted only while this host has the lead of the queue (lead.c) */
	/* true: the next run is now, whatever the interval says */
	bool (*urgent)(const struct sweeper *s, const struct sweeper_queue *q, int64_t now_ms);
	bool steady;			/* after an error it runs as often as before */
	int queues;			/* so many of them a turn; 0: all */
	/* not wanted any more. False: not yet; the core calls again */
	bool (*stop)(struct sweeper *s, struct sweeper_queue *q, int64_t now_ms);
	/* the step that failed, which the log shows instead of name */
	const char *(*step)(const struct sweeper_queue *q);
	size_t state_size;		/* bytes of a queue's state, zeroed at first; task_state() */
	void (*free)(struct sweeper_queue *q);	/* frees what that state owns */
	const struct subprocess *(*subprocess)(const struct sweeper_queue *q);	/* its output wakes the task */
};

/* A task in the sweeper. */
struct task_in_sweeper {
	const struct task *task;
	int64_t due_ms;			/* CLOCK_MONOTONIC: the next run */
	void *own;			/* NULL: own_size is 0 */
	size_t in_queue;		/* its place in queue_tasks, if it works in queues */
};

struct sweeper_tasks {
	struct task_in_sweeper *in;	/* in the order of the table */
	size_t n, in_queues;		/* number of all tasks; of those that work in queues */
	const struct task *running;	/* in this turn: the task that runs, or ran last; NULL: none */
};

/* A task in one queue. */
struct task_in_queue {
	const struct task *task;
	int64_t at_ms;			/* CLOCK_MONOTONIC: the next run */
	/* it has run since it was wanted, so stop() must follow when it is not wanted any more */
	bool runs;
	bool takes_part, asked;		/* in this round of requests: its ask() is called; it has sent a request */
	struct task_error error;
	void *state;			/* NULL: state_size is 0 */
};

struct queue_tasks {
	struct task_in_queue *in;
	size_t n;
};

/* ---- for the core ---- */

void tasks_init(struct sweeper *s, const struct task *const *table, size_t n);
void tasks_free(struct sweeper *s);
void tasks_enter(struct sweeper *s, struct sweeper_queue *q);	/* a new queue */
void tasks_leave(struct sweeper_queue *q);	/* frees what the tasks keep of it */
bool tasks_run(struct sweeper *s);	/* one turn of all. True: there is more to do at once */
/* Adds the outputs of subprocesses, at most `most`. After poll(2), tasks_polled() makes the tasks whose subprocess has
 * output run in the next turn. */
nfds_t tasks_pollfds(const struct sweeper *s, struct pollfd *p, nfds_t most);
void tasks_polled(struct sweeper *s, const struct pollfd *p, nfds_t n);
/* when the next one runs, but not after latest_ms */
int64_t tasks_wake_ms(const struct sweeper *s, int64_t latest_ms);
void tasks_each_turn(struct sweeper *s, int64_t now_ms);
bool tasks_are_pending(struct sweeper *s);
void task_end_backoffs(struct sweeper *s, int64_t now_ms);	/* tasks that failed run at once */
int tasks_connected(struct sweeper *s);
void tasks_disconnected(struct sweeper *s);
void tasks_settle(struct sweeper *s);
/* a task of it runs only on the host that leads */
bool tasks_need_lead(const struct sweeper *s, const struct sweeper_queue *q);

/* ---- for tasks ---- */

void *task_own(const struct sweeper *s, const struct task *t);
void *task_state(const struct sweeper_queue *q, const struct task *t);
int64_t task_at_ms(const struct sweeper_queue *q, const struct task *t);
void task_wake_at(struct sweeper_queue *q, const struct task *t, int64_t at_ms);
/* Wakes a task in all queues, but not before the end of a back-off. False: some queues wait for their turn since it was
 * woken last; nothing is done */
bool task_wake_all(struct sweeper *s, const struct task *t, int64_t now_ms);
bool task_fails(const struct sweeper_queue *q, const struct task *t);	/* its last run in this queue failed */
/* Runs it in this queue at once, whether its time has come or not. False: the queue was removed */
bool task_run_now(struct sweeper *s, struct sweeper_queue *q, const struct task *t, int64_t now_ms);

#endif
