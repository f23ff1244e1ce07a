#ifndef SUPERVISOR_CHILDREN_PROCESSES_H
#define SUPERVISOR_CHILDREN_PROCESSES_H

#include <sys/types.h>

#include <stdbool.h>
#include <stdint.h>

#include "common/board/board.h"

/*
 * The table of the master's children. Every action of the master on a child is a function here. A child keeps its place
 * in this table as long as it lives; the place is its slot on the scoreboard. processes.c alone assigns the fields of a
 * process and the master's words about a slot (order, queue_of, active_sweeper). Other files read processes and call
 * these functions.
 */
enum process_kind { PROCESS_ANY, PROCESS_WORKER, PROCESS_SWEEPER, PROCESS_KEEPER };

/*
 *	FREE -> STARTING	the master is about to fork it
 *	STARTING -> SERVING	forked
 *	STARTING -> LOADING	forked to replace another worker as soon as its handler is ready
 *	STARTING -> FREE	fork failed
 *	LOADING -> SERVING	it has replaced that worker
 *	LOADING -> LEAVING	its handler was not ready, or is not wanted any more
 *	SERVING -> LEAVING	surplus or replaced: it does not count among the wanted ones, and ends as soon as it may
 *	LOADING -> FREE, SERVING -> FREE, LEAVING -> FREE	it ended and was reaped
 */
enum process_state { PROCESS_FREE, PROCESS_STARTING, PROCESS_LOADING, PROCESS_SERVING, PROCESS_LEAVING };

#define PROCESS_QUEUE_SIZE 65

struct process_role {		/* what a process is forked for */
	enum process_kind kind;
	int queue;		/* worker: its queue's place, on the scoreboard and in struct queues; else -1 */
	/* worker: after the queue has left the configuration, another queue may take its place */
	char queue_name[PROCESS_QUEUE_SIZE];
	int index;		/* worker: the 2 of "mail/2" */
	int64_t kill_grace_ms;	/* worker: its queue's */
	bool fence_kills;	/* worker: its queue has fence = "kill" */
	bool successor;		/* worker: it loads before it replaces another one */
	uint32_t generation;	/* worker: of its handler, as in struct queue_workers */
	int socket;		/* sweeper: our end of its socket; else -1 */
	unsigned epoch;		/* of the configuration it is forked with */
};

struct process {
	enum process_state state;
	pid_t pid;		/* > 0 exactly in LOADING, SERVING and LEAVING */
	struct process_role role;
	int64_t spawned_ms;
	uint64_t first_generation;	/* of its first registration, if it registers */
	int64_t leaving_ms;	/* since when it is LEAVING */
	int64_t kill_at_ms;	/* the master kills it if it lives at this time; 0: no limit */
	bool fenced;		/* killed because its lease ran out under a handler */
	bool stuck;		/* killed because it stood still */
	int64_t stuck_heartbeat_ms;	/* its heartbeat if that was too old at the last look; 0: it was not */
};

struct processes {
	struct scoreboard *board;
	struct process items[SCOREBOARD_SLOTS];
	int top;		/* places from this index on were never used */
};

void processes_init(struct processes *ps, struct scoreboard *board);

/* Returns the next living process of this kind after p; p NULL: the first one. NULL: there is no further one. */
const struct process *processes_next(const struct processes *ps, const struct process *p, enum process_kind kind);
int processes_slot(const struct processes *ps, const struct process *p);
const struct process *processes_by_pid(const struct processes *ps, pid_t pid);	/* NULL: no child has this pid */
const struct process *processes_sweeper(const struct processes *ps);	/* the sweeper in SERVING; NULL: none */
bool processes_any(const struct processes *ps, enum process_kind kind);

/* ---- from before the fork to the end ---- */

/* Takes a free place, and prepares its slot, so that the child has its order before it runs. -1 and ENOSPC: all places
 * are taken. */
int processes_start(struct processes *ps, const struct process_role *role, enum order order, int64_t now_ms);
void processes_forked(struct processes *ps, int slot, pid_t pid);
void processes_promote(struct processes *ps, int slot);	/* a successor has replaced its worker */
void processes_not_forked(struct processes *ps, int slot);
void processes_leave(struct processes *ps, int slot, int64_t now_ms);
void processes_release(struct processes *ps, int slot);	/* its pid is reaped; closes its socket */

/* ---- what the master does to a child ---- */

/* Changes the order of the child, and wakes it. An order is only raised, except RUN <-> QUIET; a lower one has no
 * effect. */
void processes_order(struct processes *ps, int slot, enum order order, int64_t now_ms);
/* ends its sleep: it reads its order and the gate of its queue */
void processes_wake(const struct processes *ps, int slot);
void processes_order_all(struct processes *ps, enum process_kind kind, enum order order, int64_t now_ms);
bool processes_is_finishing(const struct processes *ps, int slot);	/* its order is FINISH or HAND_BACK */
void processes_signal_all(const struct processes *ps, int sig);

void processes_kill(struct processes *ps, int slot);		/* SIGKILL to it and to its handler's group */
void processes_kill_handler(struct processes *ps, int slot);
void processes_kill_at(struct processes *ps, int slot, int64_t at_ms);
void processes_fence(struct processes *ps, int slot);		/* kills it; its death charges no message */
void processes_stuck(struct processes *ps, int slot);		/* the caller kills it because it stands still */
/* heartbeat_ms 0: its loop turns again */
void processes_suspect(struct processes *ps, int slot, int64_t heartbeat_ms);
void processes_close_socket(struct processes *ps, int slot);

#define PROCESS_NAME_SIZE 80
const char *process_name(const struct process_role *role, char out[PROCESS_NAME_SIZE]);	/* "mail/2", "sweeper" */

static inline bool process_lives(const struct process *p)
{
	return p->state >= PROCESS_LOADING;
}

#endif
