#ifndef COMMON_BOARD_SCOREBOARD_H
#define COMMON_BOARD_SCOREBOARD_H

#include <sys/types.h>

#include <stdatomic.h>
#include <stdint.h>

#include "common/message/message.h"
#include "common/redis/redis.h"

/*
 * The scoreboard: anonymous shared memory between the master and its children. It has no locks, no pointers and no
 * strings. Each word is atomic by itself, and no two words change together, so a reader may see one of them new and
 * the other one old. The words are grouped by their writer:
 *
 *	struct board_master, struct queue_master	the master alone
 *	struct slot					the child in this slot alone, while it lives; before and after that the master
 *	struct board_workers, struct queue_workers_words	every worker (of the queue): atomic add, or compare and swap
 *	struct board_sweeper, struct queue_sweeper	the sweeper. After a reload two sweepers live for a while: where that
 *							matters the word is changed by atomic add, or compare and swap
 *
 * A process may be killed between any two writes. So no reader concludes anything from two words that must agree.
 */
#define SCOREBOARD_BUCKETS 24	/* duration histogram: bucket i counts durations < 2^i ms, the last the rest */

enum counter {
	COUNT_FETCHED, COUNT_DONE, COUNT_FAILED, COUNT_RETRIED, COUNT_ESCAPED, COUNT_TIMED_OUT, COUNT_HANDED_BACK,
	COUNT_REDELIVERED, COUNT_CLAIM_LOST, COUNT_UNRUNNABLE, COUNT_RECONNECTED,
	COUNT_EXPIRED,		/* of those escaped: they waited longer than their TTL */
	COUNT_EXPIRED_WAITING,	/* of those expired: no worker had fetched them */
	COUNT_PURGED,		/* of those escaped: by the sweeper's purge */
	COUNT_PURGED_DELAYED,	/* of those purged: while they were delayed */
	COUNT_DEADLINE_EXCEEDED,	/* of those purged: by max_message_age */
	COUNT_HANDLER_EXIT, COUNT_HANDLER_SIGNAL, COUNT_HANDLER_TIMEOUT, COUNT_REJECTED, COUNT_UNREPRESENTABLE, COUNT_UNKNOWN_VERSION, COUNT_TOO_LARGE,
	COUNT_WORKER_LOST,	/* of those escaped: by class (dead_letters/class.h) */
	COUNT_PURGED_DONE,	/* purge: entries of the history */
	COUNT_TRANSIT_OLD,	/* purge: in work for too long; logged, but not moved */
	COUNT_WOULD_PURGE,	/* named by a dry run: never written to Redis */
	COUNT_RESCUED, COUNT_DUE,	/* sweeper, kept per queue */
	COUNT_ARCHIVED, COUNT_DISCARDED, COUNT_ORPHANED, COUNT_FORWARDED,	/* the same: dead letters that left, records without one */
	COUNTERS
};
enum figure {			/* counters, then these */
	FIGURE_DURATIONS = COUNTERS,				/* of handlers: a histogram */
	FIGURE_DURATION_MS = FIGURE_DURATIONS + SCOREBOARD_BUCKETS,	/* and their sum */
	FIGURE_LAGS,						/* how late the sweeper moved what was due or expired: the same */
	FIGURE_LAG_MS = FIGURE_LAGS + SCOREBOARD_BUCKETS,
	SCOREBOARD_FIGURES
};
extern const char *const counter_names[COUNTERS];	/* "fetched", … as in status, stats and metrics */

/*
 * What is wrong with a queue. The most important first, since of several errors of a queue status shows only one: first those that an
 * operator must mend, then those that may pass by themselves, and last those during which Redis works.
 */
enum queue_error {
	QUEUE_ERROR_NONE, QUEUE_ERROR_WRONG_TYPE, QUEUE_ERROR_NO_PERMISSION, QUEUE_ERROR_EVICTION, QUEUE_ERROR_NO_REDIS,
	QUEUE_ERROR_TRANSIENT,	/* Redis refuses commands for now: it loads, is a replica, has no memory */
	QUEUE_ERROR_OTHER,
	QUEUE_ERROR_ARCHIVE,	/* the archive of dead letters cannot be read or written; Redis works */
	QUEUE_ERROR_LEFTOVERS	/* recovery waits until processes of a dead supervisor have ended; Redis works */
};
enum queue_error queue_error_of(enum redis_error_class class);
enum queue_error queue_error_worse(enum queue_error a, enum queue_error b);	/* the more important one */

/* ---- a child's words ---- */

enum slot_state {
	SLOT_FREE, SLOT_STARTING, SLOT_CONNECTING, SLOT_WAITING,	/* waiting: for its queue's recovery, a pause, the breaker */
	SLOT_IDLE, SLOT_RUNNING, SLOT_SETTLING, SLOT_STOPPING
};
extern const char *const slot_state_names[];			/* "free", "starting", … */

struct slot {
	_Alignas(64) _Atomic uint64_t state;	/* generation << 8 | enum slot_state: one word, never torn */
	_Atomic int64_t heartbeat_ms;		/* CLOCK_MONOTONIC of the last turn of its loop */
	_Atomic uint64_t serial;		/* messages started */
	_Atomic int64_t started_ms;		/* CLOCK_MONOTONIC; 0: none runs */
	_Atomic int64_t deadline_ms;		/* worker: of the running handler, including its kill grace. Sweeper: of a call that blocks. 0: none */
	_Atomic int64_t fence_ms;		/* CLOCK_BOOTTIME: what runs is dead by then, else its worker is killed; 0: it may finish */
	_Atomic uint64_t abandoned;		/* a generation: no message runs here that was fetched under a lower one. 0: not known */
	_Atomic int32_t handler_pgid;		/* 0: none; the master kills it when the worker dies */
	_Atomic int32_t pid;			/* its own; 0: not known yet */
	_Atomic uint32_t redis_down;		/* 1 while it has no connection */
	_Atomic uint32_t error;			/* worker: enum queue_error, what Redis refused last; QUEUE_ERROR_NONE once a command succeeds again */
	_Atomic uint64_t counters[COUNTERS];
	_Atomic uint64_t durations[SCOREBOARD_BUCKETS];
	_Atomic uint64_t duration_ms;		/* their sum */
};

/* ---- the master's words ---- */

/* What the master wants of a child. Only ever raised, but for QUIET <-> RUN. */
enum order {
	ORDER_RUN,
	ORDER_QUIET,		/* fetch nothing */
	ORDER_FINISH,		/* finish what runs, for as long as the handler's own deadline allows, then exit 0 */
	ORDER_HAND_BACK		/* TERM to the handler's group, after kill_grace KILL; hand back; exit 0 */
};

struct board_master {
	_Alignas(64) _Atomic uint32_t orders[SCOREBOARD_SLOTS];	/* enum order of the child in each slot */
	_Atomic int32_t queue_of[SCOREBOARD_SLOTS];	/* the place in queues[] of the worker in each slot, + 1; 0: no worker */
	/*
	 * A generation for each slot, kept when the slot is cleared: the workers that had this one or a lower one are dead, nothing of them
	 * runs, and the sweeper has returned their messages, or they left none.
	 */
	_Atomic uint64_t buried[SCOREBOARD_SLOTS];
	_Atomic int32_t active_sweeper;	/* slot of the sweeper that does the periodic work; others only finish */
	_Atomic int64_t started_ms;	/* CLOCK_REALTIME of the master's start */
	_Atomic uint32_t log_epoch;	/* raised by USR1: a child that sees another value calls log_reopen() */
};

struct queue_master {
	_Alignas(64) _Atomic uint64_t past[SCOREBOARD_FIGURES];	/* of workers that are gone: totals never fall */
	_Atomic uint32_t wanted;		/* workers that are to be */
	_Atomic uint64_t restarts;		/* workers started in place of dead ones */
	_Atomic uint32_t handler_generation;	/* raised by each reload or restart of the queue, since the handler may have changed */
	_Atomic uint32_t left;			/* 1: the queue left the configuration. The sweeper that still knows it logs what waits in it */
};

/* ---- words of all workers ---- */

#define BREAKER_RING 64

/* Compare and swap (worker/breaker.c). The master starts it anew when it raises handler_generation. */
struct queue_breaker {
	_Alignas(64) _Atomic uint32_t step;	/* 0: closed; else consecutive openings */
	_Atomic int64_t until_ms;		/* CLOCK_MONOTONIC: when the next probe may run */
	_Atomic uint32_t failures;		/* failed in a row */
	_Atomic uint32_t failed_seen;		/* entries ever written to failed_ids; the last ones are there */
	_Atomic uint64_t failed_ids[BREAKER_RING];	/* kept after a success, so that a message that fails again is not counted again */
	_Atomic uint32_t answered_generation;	/* 1 + the last generation in which a handler answered anything; 0: none */
};

struct board_workers {
	_Alignas(64) _Atomic int32_t trial;	/* slot + 1 of the worker that runs a message on trial; 0: none. Compare and swap; the master frees it if that worker dies */
};

struct queue_workers_words {
	_Alignas(64) _Atomic uint64_t done;	/* messages done or settled: atomic add */
	_Atomic uint32_t renamed;		/* how often workers took a new name: atomic add */
	struct queue_breaker breaker;
};

/* ---- the sweeper's words ---- */

/* Whether workers may fetch: in QUEUE_OPEN only. */
enum queue_gate { QUEUE_RECOVERING, QUEUE_OPEN, QUEUE_PAUSED, QUEUE_REFUSED };

enum queue_recovered { RECOVERED_NOTHING, RECOVERED_BARE, RECOVERED_ALL };	/* BARE: nothing new is taken from transit:<q> */

/* What is known of the clock of Redis (server_clock.h). */
struct board_clock {
	_Alignas(64) _Atomic int64_t since_ms;
	_Atomic int64_t stepped_ms, low_ms, high_ms, checked_ms;
};

/* Of the registry, over all queues that are not ours: entries that left it, or would in a dry run. Atomic add. */
struct board_registry {
	_Alignas(64) _Atomic uint64_t left, would_leave;
	_Atomic uint64_t left_told, would_leave_told;	/* sent to statsd: compare and swap */
};

struct board_sweeper {
	struct board_clock clock;
	struct board_registry registry;
	_Atomic uint64_t leftovers;	/* processes of dead supervisors that could not be killed, after the alarm */
};

struct queue_sweeper {
	_Alignas(64) _Atomic uint32_t gate;	/* enum queue_gate */
	_Atomic uint32_t error;			/* enum queue_error: what failed for the sweeper */
	_Atomic uint32_t undecided;		/* 1 + enum doubt: why a silent owner cannot be proven dead; 0: there is no such owner */
	_Atomic uint64_t aside;			/* messages that Redis refused to move (sweeper's aside.c) */
	_Atomic int64_t aside_size;		/* of the newest of them; -1: not known */
	_Atomic uint32_t aside_error;		/* enum queue_error: why Redis refused */
	_Atomic uint32_t recovered;		/* enum queue_recovered: what its successor need not do again */
	_Atomic uint32_t left_logged;		/* 1: a sweeper has logged what waits in the queue that left the configuration. Compare and swap */
	_Atomic int64_t archiver;		/* sweeper whose the archive is: generation << 16 | slot + 1; 0: nobody's. Compare and swap */
	_Atomic uint64_t swept[COUNTERS];	/* counted by sweepers: COUNT_RESCUED, COUNT_DUE, COUNT_ESCAPED, COUNT_EXPIRED, …; atomic add */
	_Atomic uint64_t tallied[SCOREBOARD_FIGURES];	/* written to Redis, or being written; compare and swap */
	_Atomic uint64_t sent[SCOREBOARD_FIGURES];	/* sent to statsd; compare and swap */
	_Atomic uint64_t lags[SCOREBOARD_BUCKETS], lag_ms;	/* FIGURE_LAGS and their sum; atomic add */
	_Atomic uint64_t lag_max_ms;		/* since the last datagram to statsd */
};

/* ---- all of it ---- */

struct board_queue {
	struct queue_master master;
	struct queue_workers_words workers;
	struct queue_sweeper sweeper;
};

struct scoreboard {
	struct slot slots[SCOREBOARD_SLOTS];
	struct board_master master;
	struct board_workers workers;
	struct board_sweeper sweeper;
	struct seal_shared secrets;	/* of the seals; workers and sweepers, as seal.h says */
	struct board_queue queues[SCOREBOARD_QUEUES];
};

struct scoreboard *scoreboard_new(void);	/* MAP_SHARED|MAP_ANONYMOUS, zeroed; NULL and errno */
void scoreboard_free(struct scoreboard *b);

static inline enum slot_state slot_state(const struct slot *s)
{
	return (enum slot_state)(atomic_load(&s->state) & 0xff);
}

static inline uint64_t slot_generation(const struct slot *s)
{
	return atomic_load(&s->state) >> 8;
}

void slot_set_state(struct slot *s, enum slot_state state);	/* keeps the generation */
uint64_t slot_next_generation(struct slot *s);			/* raises it by one and returns it */
void slot_observe(struct slot *s, int64_t duration_ms);		/* into the histogram */
void board_observe_lag(struct board_queue *q, int64_t lag_ms);	/* the same */
/*
 * The most important error of the workers of each queue, by the place of the queue. It is true for the moment of the read: read it once
 * for all queues, and again in the next turn. A read is one pass over the slots; a pass for each queue would cost 2,048 words each.
 */
struct worker_errors {
	enum queue_error of_queue[SCOREBOARD_QUEUES];
};
void scoreboard_read_worker_errors(const struct scoreboard *b, struct worker_errors *errors);
/*
 * The most important error of a queue: of the sweeper's word and of the word of each worker that lives. The end of one worker's error, or of
 * the worker, thus never hides another's.
 */
enum queue_error scoreboard_queue_error(const struct scoreboard *b, const struct board_queue *q, const struct worker_errors *errors);
/* Moves what the slot of one that is gone counted to its queue's past. A reader who takes the past first sees nothing twice. */
void slot_fold(struct slot *s, struct board_queue *q);
void slot_clear(struct slot *s);	/* all but the generation; the master, when its child is reaped */

/* The master alone calls these. A queue that gives up its place passes its totals to its heir; what was not written to Redis yet is then new with the heir. */
void scoreboard_inherit(struct board_queue *heir, const struct board_queue *q);
void scoreboard_clear_queue(struct board_queue *q);
/* Starts a new generation of the queue's handler: failures that old workers report from now on are no evidence against the new one. */
void scoreboard_new_handler(struct board_queue *q, uint32_t generation);

#endif
