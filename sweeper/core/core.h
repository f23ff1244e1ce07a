#ifndef SWEEPER_CORE_CORE_H
#define SWEEPER_CORE_CORE_H

#include <bsd/sys/queue.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/board/board.h"
#include "common/queue/queue.h"
#include "common/redis/redis.h"
#include "sweeper/core/queue.h"
#include "sweeper/core/server.h"
#include "sweeper/core/subprocess.h"
#include "sweeper/core/task.h"

/*
 * The core of the sweeper: one process, one connection to Redis, one loop that runs a table of tasks (task.h). It knows no task but
 * those of its own folder. The folders of the tasks use it, and struct sweeper, by this header.
 *
 *	loop.c		the loop, orders of the master, the end
 *	task.c		runs the tasks: when, in which queues, and after an error
 *	queue.c		the queues that the sweeper knows, their gates, what the scoreboard shows of them
 *	task_error.c	errors of a task in a queue: logged once, shown in status and health, retried less and less often
 *	connection.c	the connection, answers, secrets	server.c	what kind of server it is, and whether it is refused
 *	clock.c		the server's time			lead.c		which host does a queue's periodic work
 *	subprocess.c	children that do work which may block	interrupt.c	signals
 *
 * Fields of struct sweeper belong to the file that is named above them. Other files read them.
 */
struct sweeper {
	const struct child *child;
	const struct conf *conf;
	struct slot *slot;

	/* connection.c */
	struct redis_target target;
	struct redis redis;
	char client_name[QUEUE_NAME_MAX + 32];	/* CLIENT SETNAME */
	bool up;			/* connected, and the server takes our writes */
	char down[256];			/* why not, as logged last; "": it is or never was up */
	unsigned failures;		/* openings in vain, in a row */
	int64_t connect_at_ms;		/* CLOCK_MONOTONIC: not before */
	char error[256];		/* the last error answer of a queue */
	enum queue_error error_kind;

	/* clock.c */
	struct server_clock clock;
	int64_t clock_logged_ms;	/* CLOCK_MONOTONIC: that it was set */
	int64_t clock_keep_at_ms;	/* the same: it is written down */
	bool clock_recalled;		/* from what was written down; no answer has agreed yet */

	/* server.c */
	struct server server;
	int64_t server_looked_ms;	/* CLOCK_MONOTONIC */
	enum queue_error refusal;	/* other than NONE: every gate is shut */

	/* queue.c */
	struct sweeper_queue_list queues;

	bool secret_failed;		/* connection.c: the secrets could not be read; that was logged */

	/* task.c */
	struct task_in_sweeper *tasks;	/* in the order of the table */
	size_t ntasks, nqueue_tasks;	/* all; those that work in queues */

	/* loop.c */
	int64_t finish_by_ms;		/* 0: not ordered to */
	bool master_gone;
	bool clearing;			/* something that killed subprocesses left is dying (subprocess.c) */
	uint32_t log_epoch;
};

/* The process: runs these tasks, the most urgent first, until the master orders it to finish. */
_Noreturn void core_run(const struct child *child, const struct task *const *tasks, size_t ntasks);

/* The sweeper makes progress: the master ends one that says nothing for 10 s (supervisor/children/watch.c). */
void sweeper_beat(const struct sweeper *s);
/* Between two units: beats, and says whether there may be another one. */
bool sweeper_goes_on(struct sweeper *s);
/* It is the sweeper that does periodic work for its host. False: it only finishes, after a reload. */
bool sweeper_is_active(const struct sweeper *s);
/* Queues are measured, for health or metrics. */
bool sweeper_measures_queues(const struct sweeper *s);
void sweeper_lost_master(struct sweeper *s);	/* the master has closed its end of our socket: the process ends */

/* ---- connection.c ---- */

int connection_init(struct sweeper *s);
void connection_free(struct sweeper *s);
/* Opens, and looks at the server. -1: not now; connect_at_ms says when again. May take 5 s. */
int connection_open(struct sweeper *s, int64_t now_ms);
void connection_lost(struct sweeper *s, int64_t now_ms);	/* the reason is in redis.error */
/*
 * Waits for the next answer. 0: a good one. -1: the connection is lost (redis.state), or it is an error
 * that concerns this queue alone: s->error, s->error_kind.
 */
int connection_answer(struct sweeper *s, struct redis_reply *reply);
/*
 * The length of the first entry of a list, from the beginning of an answer that is then given up, with a connection of its own. Writes the first
 * `wanted` bytes of the entry to begin. -1: the entry is not longer than that, or Redis did not answer. Redis copies the entry once.
 */
int64_t connection_glimpse(struct sweeper *s, const char *list, char *begin, size_t wanted);
void connection_set_error(struct sweeper *s, enum queue_error kind, const char *error);	/* sets s->error and s->error_kind; nothing else does */
int connection_unexpected(struct sweeper *s);		/* says that an answer was of another type; returns -1 */
int connection_integer(struct sweeper *s, int64_t *out);	/* the same for INTEGER; other types are errors */
int connection_secret(struct sweeper *s);	/* learns the secrets, and puts ours back where they are missing. -1: as connection_answer() */
void connection_drain(struct sweeper *s);	/* drops the answers that are left after an error, and keeps that error */

/* ---- task_error.c ---- */

/* Notes s->error as the error of `at` ("due", "rescue"): logged if it is new, retried after a back-off. Returns -1. Without effect if the connection is lost. */
int task_error_note(struct sweeper *s, struct sweeper_queue *q, struct task_error *t, const char *at, int64_t now_ms);
/* The connection was lost during `at`, perhaps because of it: a back-off lets other work come first. Logged if that repeats. */
void task_error_note_cut(struct sweeper_queue *q, struct task_error *t, const char *at, int64_t now_ms);
void task_error_clear(struct sweeper *s, struct sweeper_queue *q, struct task_error *t);
void task_error_forget(struct sweeper_queue *q, struct task_error *t);	/* the same without a log line: its owner is about to be freed */

/* ---- server.c ---- */

int server_look(struct sweeper *s, int64_t now_ms);		/* INFO; sets server, refusal and every gate. -1: lost */

/* ---- queue.c ---- */

void sweeper_queues_init(struct sweeper *s);
void sweeper_queues_free(struct sweeper *s);
struct sweeper_queue *sweeper_queue_find(struct sweeper *s, const char *name);	/* NULL: none */
struct sweeper_queue *sweeper_queue_of_board(struct sweeper *s, int64_t index);	/* by its place on the scoreboard. NULL: none */
bool sweeper_queue_has_transit(const struct sweeper *s, const char *transit);	/* one of the queues has this transit list, whatever its name */
/* Calls visit() for each queue. For tasks that report on all queues together; it must not add or remove one. */
void sweeper_queues_each(struct sweeper *s, void (*visit)(struct sweeper *s, struct sweeper_queue *q, void *arg), void *arg);
struct sweeper_queue *sweeper_queue_add(struct sweeper *s, struct queue_keys keys, const struct conf_queue *conf);	/* keys become its own */
void sweeper_queue_remove(struct sweeper *s, struct sweeper_queue *q);
void sweeper_queue_set_recovered(struct sweeper *s, struct sweeper_queue *q);	/* its gate need not wait any longer */
/*
 * Reads the registrations of its workers. If the queue is not configured here, they also tell whether it is shared.
 * workers: to be freed; reply: what they were read from, good until the next answer. -1: as connection_answer()
 */
int sweeper_queue_read_workers(struct sweeper *s, struct sweeper_queue *q, struct redis_reply *reply, struct queue_worker **workers, size_t *n);
void sweeper_queue_update_gate(struct sweeper *s, struct sweeper_queue *q);	/* brings the gate to what is known */
void sweeper_queue_set_paused(struct sweeper *s, struct sweeper_queue *q, bool paused);	/* as Redis says; and the gate */
void sweeper_queue_publish_error(struct sweeper *s, struct sweeper_queue *q);	/* the same for the error shown */
void sweeper_queues_publish_error(struct sweeper *s, enum queue_error kind);	/* it concerns them all; NONE: it is over */
void sweeper_queue_count(struct sweeper_queue *q, enum counter counter, uint64_t n);
void sweeper_queue_observe_lag(struct sweeper_queue *q, int64_t lag_ms);	/* so long after it was due or expired a message was moved */

/* ---- lead.c ---- */

extern const struct task lead_task, clock_task, server_task, secret_task;

bool lead_wanted(const struct sweeper *s, const struct sweeper_queue *q);	/* it has periodic work */
bool lead_is_ours(const struct sweeper_queue *q);	/* by a lease that has not run out, on this connection */
bool lead_was_ours(const struct sweeper_queue *q);	/* by the last answer: what status goes by */
#define LEAD_NAME_SIZE (QUEUE_NAME_MAX + 32)
void lead_name(const struct sweeper *s, char out[LEAD_NAME_SIZE]);	/* by which Redis knows the leader */

/* ---- clock.c ---- */

void clock_init(struct sweeper *s);
/* Learns from the time that the server told in an answer which has just arrived; its request was sent at sent_ms of CLOCK_BOOTTIME. */
void clock_learn(struct sweeper *s, int64_t server_ms, int64_t sent_ms);

int clock_recall(struct sweeper *s);	/* what was written down before a restart, if nothing is known. -1: the connection is lost */

#endif
