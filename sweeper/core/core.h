#ifndef SWEEPER_CORE_CORE_H
#define SWEEPER_CORE_CORE_H

#include <sys/types.h>

#include <bsd/sys/queue.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/board/board.h"
#include "common/queue/queue.h"
#include "common/redis/redis.h"
#include "sweeper/core/command.h"
#include "sweeper/core/queue.h"
#include "sweeper/core/server.h"
#include "sweeper/core/subprocess.h"
#include "sweeper/core/task.h"

/*
 * The core of the sweeper: one process, one connection to Redis, one loop that runs a table of tasks (task.h). It knows
 * no task but those of its own folder. The folders of the tasks use it, and struct sweeper, by this header.
 *
 *	loop.c		the loop, orders of the master, the end
 *	task.c		runs the tasks: when, in which queues, and after an error
 *	queue.c		the queues that the sweeper knows, their gates, what the scoreboard shows of them
 *	task_error.c	errors of a task in a queue: logged once, shown in status and health, retried less and less
 *			often
 *	connection.c	the connection, answers, secrets
 *	server.c	kind and version of the server, and whether it is refused
 *	clock.c		the server's time
 *	lead.c		which host does a queue's periodic work
 *	subprocess.c	children that do work which may block
 *	command.c	one that runs a command of the configuration as a handler
 *
 * Fields of struct sweeper belong to the file that is named above them. Other files read them.
 */
/* Each part belongs to the file that its comment names; other files read it. */
struct sweeper_connection {		/* connection.c */
	char client_name[QUEUE_NAME_MAX + 32];	/* CLIENT SETNAME */
	bool up;			/* connected, and the server takes our writes */
	struct redis_outage outage;	/* why it is not up, as far as it was logged */
	unsigned failures;		/* failed attempts to open it, in a row */
	int64_t open_at_ms;		/* CLOCK_MONOTONIC: not before, unless another process has reached the server */
	uint32_t reached;		/* the word of the scoreboard at the last attempt, or when it was up */
	int64_t opened_ms;		/* CLOCK_MONOTONIC: the last attempt */
	char error[256];		/* the last error answer to a request of a queue; connection_set_error() */
	enum queue_error error_kind;
	int64_t secret_at_ms;		/* CLOCK_MONOTONIC: the next look at the secrets, unless they are lost */
	bool secret_failed;		/* the secrets could not be read; that was logged */
};

struct sweeper_clock_keeping {		/* clock.c */
	int64_t logged_ms;		/* CLOCK_MONOTONIC: when the sweeper last logged that the clock was set */
	int64_t at_ms;			/* CLOCK_MONOTONIC: the next write to Redis */
	/* it was read from Redis after a restart, and no answer has agreed with it yet */
	bool recalled;
};

struct sweeper_server {			/* server.c */
	struct server is;
	int64_t looked_ms;		/* CLOCK_MONOTONIC: the last INFO */
	enum queue_error refusal;	/* NONE: the server is accepted; else every gate is shut */
};

struct sweeper_loop {			/* loop.c */
	/* CLOCK_MONOTONIC: after the order to finish, it exits by then; 0: no such order */
	int64_t finish_by_ms;
	bool master_gone;
	bool clearing;			/* adopted children of killed subprocesses are still ending (subprocess.c) */
};

struct sweeper {			/* loop.c makes it */
	const struct child *child;
	const struct conf *conf;
	struct slot *slot;
	struct redis_target target;
	struct redis redis;
	struct server_clock clock;
	struct sweeper_connection connection;
	struct sweeper_clock_keeping clock_keeping;
	struct sweeper_server server;
	struct sweeper_loop loop;
	struct sweeper_queue_list queues;	/* queue.c */
	struct sweeper_queue_names queues_by_name;	/* the same, since the registry may name any number of queues */
	struct sweeper_queue_transits queues_by_transit;
	struct sweeper_tasks tasks;		/* task.c */
};

/* The process: runs these tasks, the most urgent first, until the master orders it to finish. */
_Noreturn void core_run(const struct child *child, const struct task *const *tasks, size_t ntasks);

/* Writes the heartbeat. The master kills a sweeper without a heartbeat for 10 s (supervisor/children/watch.c). */
void sweeper_beat(const struct sweeper *s);
/*
 * A task calls it between two units of work. Writes the heartbeat. False: the task ends its run, since the connection
 * or the master is gone, or since the master has ordered the sweeper to finish and the task is not `finishing`.
 */
bool sweeper_goes_on(struct sweeper *s);
bool core_is_finishing(const struct sweeper *s);	/* the master has ordered it to finish */
/* True: this sweeper does the periodic work of its supervisor. False: it only finishes, after a reload. */
bool sweeper_is_active(const struct sweeper *s);
/*
 * For what two sweepers of a supervisor must not do at once. True: this one holds the word now, until it stores 0
 * there. False: it holds the word already, or another sweeper does that has not ended.
 */
bool core_hold(const struct sweeper *s, _Atomic int64_t *holder);
/* True: health or metrics need the sizes of the queues. */
bool sweeper_measures_queues(const struct sweeper *s);
void sweeper_lost_master(struct sweeper *s);	/* the master has closed its end of the socket: the sweeper exits */
/* Catches TERM. Sets *while_polling to the signal mask for ppoll(2). master: its pid; the sweeper ends when the master
 * dies. */
void core_catch_term(pid_t master, sigset_t *while_polling);
/* The master has died, so redis_wait() gives up. After a mere order the sweeper first finishes its present request. */
bool core_lost_master(void);
/* child->search_pid has ended, so nothing can be said about leftovers */
_Noreturn void core_lost_search(const struct child *child);

/* ---- connection.c ---- */

int connection_init(struct sweeper *s);
void connection_free(struct sweeper *s);
/* redis_connect() and redis_find_master() of a connection r of the sweeper; they write the heartbeat. */
int connection_connect(struct redis *r);
int connection_find_master(struct redis *r);
/* of the server behind r; left alone if INFO is refused. -1: lost */
int connection_identity(struct redis *r, struct redis_identity *id);
/* Connects, and checks the server; it may take 5 s. -1: failed; connect_at_ms is the time of the next attempt. */
int connection_start(struct sweeper *s, int64_t now_ms);
bool connection_is_due(const struct sweeper *s, int64_t now_ms);	/* it may be opened now */
void connection_lost(struct sweeper *s, int64_t now_ms);	/* the reason is in redis.error */
/*
 * Waits for the next answer. 0: the answer is no error. -1: the connection is lost (redis.state), or the answer is an
 * error that concerns this queue alone (s->connection.error, s->connection.error_kind).
 */
int connection_answer(struct sweeper *s, struct redis_reply *reply);
/*
 * Returns the length of the first entry of a list, and writes the first `wanted` bytes of the entry to begin. It uses a
 * second connection to the same server, reads only the beginning of the answer, and closes the connection. -1: the
 * entry is not longer than that, or Redis did not answer. Redis copies the entry once.
 */
int64_t connection_glimpse(struct sweeper *s, const char *list, char *begin, size_t wanted);
/* sets the error of s->connection; nothing else does */
void connection_set_error(struct sweeper *s, enum queue_error kind, const char *error);
int connection_unexpected(struct sweeper *s);		/* sets the error "unexpected reply type"; returns -1 */
/* connection_answer() for an INTEGER; other types are errors */
int connection_integer(struct sweeper *s, int64_t *out);
/* reads the secrets, and restores them if Redis lost them. -1: as connection_answer() */
int connection_secret(struct sweeper *s);
void connection_drain(struct sweeper *s);	/* drops outstanding answers after an error, and keeps that error */

/* ---- task_error.c ---- */

/*
 * Keeps s->connection.error as the error of `at` ("due", "rescue"): logs it if it is new, and sets the back-off. Does
 * nothing if the connection is lost. Returns -1.
 */
int task_error_note(struct sweeper *s, struct sweeper_queue *q, struct task_error *t, const char *at, int64_t now_ms);
/* The connection was lost during `at`, perhaps because of it: sets a back-off, so that other work comes first. Logs it
 * if it repeats. */
void task_error_note_cut(struct sweeper_queue *q, struct task_error *t, const char *at, int64_t now_ms);
void task_error_clear(struct sweeper *s, struct sweeper_queue *q, struct task_error *t);
/* task_error_clear() without a log line, before its owner is freed */
void task_error_forget(struct sweeper_queue *q, struct task_error *t);

/* ---- server.c ---- */

/* INFO; sets server, refusal and every gate. -1: lost */
int server_look(struct sweeper *s, int64_t now_ms);

/* ---- queue.c ---- */

void sweeper_queues_init(struct sweeper *s);
void sweeper_queues_free(struct sweeper *s);
struct sweeper_queue *sweeper_queue_find(struct sweeper *s, const char *name);	/* NULL: none */
/* by its place on the scoreboard. NULL: none */
struct sweeper_queue *sweeper_queue_of_board(struct sweeper *s, int64_t index);
/* one of the queues has this transit list, whatever its name */
bool sweeper_queue_has_transit(const struct sweeper *s, const char *transit);
/* Calls visit() for each queue. For tasks that report on all queues together; it must not add or remove one. */
void sweeper_queues_each(struct sweeper *s, void (*visit)(struct sweeper *s, struct sweeper_queue *q, void *arg),
    void *arg);
/* keys become its own */
struct sweeper_queue *sweeper_queue_add(struct sweeper *s, struct queue_keys keys, const struct conf_queue *conf);
void sweeper_queue_remove(struct sweeper *s, struct sweeper_queue *q);
/* its messages of dead owners are returned; opens the gate */
void sweeper_queue_set_recovered(struct sweeper *s, struct sweeper_queue *q);
/* Uses the registrations of the workers of a queue. reply: what they were read from, valid until the next answer. -1:
 * error */
typedef int use_workers(struct sweeper *s, struct sweeper_queue *q, const struct redis_reply *reply,
    const struct queue_worker *workers, size_t n, void *arg);
/*
 * Reads the registrations of the workers of a queue, calls use() with them, and frees them. If the queue is not
 * configured here, they also show whether it is shared. -1: as connection_answer(), or use() returned it
 */
int sweeper_queue_use_workers(struct sweeper *s, struct sweeper_queue *q, use_workers *use, void *arg);
/* sets the gate by what is known of server and queue */
void sweeper_queue_update_gate(struct sweeper *s, struct sweeper_queue *q);
/* so many orders to cancel messages are in Redis */
void sweeper_queue_set_cancels(struct sweeper *s, struct sweeper_queue *q, int64_t n);
/* Redis has answered whether the queue is paused; also sets the gate */
void sweeper_queue_set_paused(struct sweeper *s, struct sweeper_queue *q, bool paused);
/*
 * Redis has answered until when a handler holds the queue (CLOCK_MONOTONIC), and why; 0, NULL: none does. seen:
 * core_hold_seen() when it was asked.
 */
void core_set_hold(struct sweeper *s, struct sweeper_queue *q, int64_t seen, int64_t until_ms,
    const struct queue_hold *hold);
int64_t core_hold_seen(const struct sweeper_queue *q);
/* shows its most important error on the scoreboard */
void sweeper_queue_publish_error(struct sweeper *s, struct sweeper_queue *q);
/* Shows more of this error of the queue on the scoreboard: the text of Redis, or the key. why "": no more is known of
 * it. */
void core_publish_why(struct sweeper_queue *q, enum queue_error error, const char *why);
void core_publish_loss(struct sweeper *s);	/* shows on all queues why the connection was closed */
void sweeper_queue_count(struct sweeper_queue *q, enum counter counter, uint64_t n);
/* a message was moved so long after it was due, or had expired */
void sweeper_queue_observe_lag(struct sweeper_queue *q, int64_t lag_ms);

/* ---- lead.c ---- */

extern const struct task lead_task, clock_task, server_task, secret_task, sentinel_task;

bool lead_wanted(const struct sweeper *s, const struct sweeper_queue *q);	/* the queue has periodic work */
/* this host holds a lease that has not expired, from this connection */
bool lead_is_ours(const struct sweeper_queue *q);
/* by the last answer, even if the lease has expired since; status uses it */
bool lead_was_ours(const struct sweeper_queue *q);
uint64_t lead_term(const struct sweeper_queue *q);	/* another one: another sweeper may have led meanwhile */
#define LEAD_NAME_SIZE (QUEUE_NAME_MAX + 160)	/* node, boot, identity of the lock */
void lead_name(const struct sweeper *s, char out[LEAD_NAME_SIZE]);	/* the name of this sweeper in the lease */

/* ---- clock.c ---- */

void clock_init(struct sweeper *s);
/* Learns from an answer that has just arrived with the time of the server. Its request was sent at sent_ms of
 * CLOCK_BOOTTIME. */
void clock_learn(struct sweeper *s, int64_t server_ms, int64_t sent_ms);

/* reads the clock that a sweeper wrote before a restart, if none is known. -1: the connection is lost */
int clock_recall(struct sweeper *s);

#endif
