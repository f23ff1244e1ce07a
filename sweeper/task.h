#ifndef SWEEPER_TASK_H
#define SWEEPER_TASK_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sweeper/trouble.h"

struct errand;
struct sweeper;
struct swept;

/*
 * The tasks of the sweeper, the most urgent first. A task is a file of this folder that defines `const struct task NAME_task`; its name here is
 * the only entry that it needs. task.c runs all of them in each turn of the loop.
 */
#define SWEEPER_TASKS(X) \
	X(deaths) X(rescue) X(departures) X(recover) X(poll) X(due) X(pulse) X(dead_boots) X(look) X(lead) X(registry) X(secret) X(tally) \
	X(stamps) X(ttl) X(purge) X(transit) X(vacancies) X(aside) X(orphans) X(history) X(metrics) X(health) X(health_sum) X(forward) X(letters) X(node) \
	X(clock) X(server)

enum task_id {
#define TASK_ID(name) TASK_##name,
	SWEEPER_TASKS(TASK_ID)
#undef TASK_ID
	TASKS
};

enum task_end {
	TASK_DONE,		/* nothing is left to do before the next run */
	TASK_MORE,		/* budget is used up: the next run is in the next turn */
	TASK_FAILED		/* s->error, s->error_kind: logged, shown in status and health, tried again after a back-off */
};

/* Constant. A task has either run or run_queue. */
struct task {
	const char *name;		/* in the log, as "at" */
	int64_t interval_ms;		/* between two runs; of run_queue: in one queue, unless the task calls task_wake_at(). 0: each turn */
	int per_lease;			/* run: so many times a lease, if that is more often than interval_ms; 0: interval_ms alone counts */
	int budget;			/* units of work of one run: run() in all or in each queue, as the task says; run_queue() in its queue */
	bool finishing;			/* runs also after the order to finish */

	/* Looks at all queues itself. True: there is more to do at once. */
	bool (*run)(struct sweeper *s, int budget, int64_t now_ms);
	bool in_queues;			/* run: the task has errors, and perhaps a state, in each queue */

	/* Works in one queue. Called when the queue's time has come, for each queue that wants it. */
	enum task_end (*run_queue)(struct sweeper *s, struct swept *q, int budget, int64_t now_ms);
	bool (*wanted)(const struct sweeper *s, const struct swept *q);
	bool leads;			/* wanted only while this host has the lead of the queue (lead.c) */
	bool (*urgent)(const struct sweeper *s, const struct swept *q, int64_t now_ms);	/* the time has come although it has not. NULL: never */
	bool steady;			/* after an error it runs as often as before */
	int queues;			/* so many of them a turn; 0: all */
	/* The queue does not want it any more. False: it cannot be stopped yet; asked again in the next turn. NULL: nothing to stop */
	bool (*stop)(struct sweeper *s, struct swept *q, int64_t now_ms);
	size_t state_size;		/* bytes of a queue's state, zeroed at first; owned by task.c, and passed by task_state() */
	void (*free)(struct swept *q);	/* of what the state owns. NULL: nothing */
	const struct errand *(*errand)(const struct swept *q);	/* whose output wakes it. NULL: none */
};

#define TASK_DECLARED(name) extern const struct task name##_task;
SWEEPER_TASKS(TASK_DECLARED)
#undef TASK_DECLARED

/* A task in one queue. */
struct task_in_queue {
	int64_t at_ms;			/* CLOCK_MONOTONIC: the next run */
	bool runs;			/* it ran since it was wanted, so it is to be stopped */
	struct trouble trouble;
	void *state;			/* NULL: state_size is 0 */
};

void tasks_enter(struct swept *q);	/* a new queue */
void tasks_leave(struct swept *q);	/* frees what they have of it */
void *task_state(const struct swept *q, enum task_id id);
int64_t task_at_ms(const struct swept *q, enum task_id id);
void task_wake_at(struct swept *q, enum task_id id, int64_t at_ms);
bool task_fails(const struct swept *q, enum task_id id);	/* its last run in this queue failed */
struct trouble *task_trouble(struct swept *q, enum task_id id);	/* for a task with run: its error in this queue */

bool tasks_run(struct sweeper *s);	/* one turn of all. True: there is more to do at once */
/* The outputs of errands, at most `most`; and, after poll(2), which tasks run in the next turn because of them. Others run when their time has come. */
nfds_t tasks_pollfds(const struct sweeper *s, struct pollfd *p, nfds_t most);
void tasks_polled(struct sweeper *s, const struct pollfd *p, nfds_t n);
int64_t tasks_wake_ms(const struct sweeper *s, int64_t latest_ms);	/* when the next one runs, but not after latest_ms */

#endif
