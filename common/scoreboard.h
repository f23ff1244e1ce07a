#ifndef COMMON_SCOREBOARD_H
#define COMMON_SCOREBOARD_H

#include <sys/types.h>

#include <stdatomic.h>
#include <stdint.h>

#include "common/seal.h"

/*
 * Anonymous shared memory between the master and its children. No locks, no pointers, no strings.
 * A slot is written by its child alone, an order by the master alone; queue words as each says.
 */
#define SCOREBOARD_SLOTS 2048
#define SCOREBOARD_WORKERS ((SCOREBOARD_SLOTS - 16) / 2)	/* configured: each may have a successor; the rest for sweepers and keeper */
#define SCOREBOARD_QUEUES 1024
#define SCOREBOARD_BUCKETS 24	/* duration histogram: bucket i counts durations < 2^i ms, the last the rest */

enum slot_state {
	SLOT_FREE, SLOT_STARTING, SLOT_CONNECTING, SLOT_WAITING,	/* waiting: for its queue's recovery, a pause, the breaker */
	SLOT_IDLE, SLOT_RUNNING, SLOT_SETTLING, SLOT_STOPPING
};

enum counter {
	COUNT_FETCHED, COUNT_DONE, COUNT_FAILED, COUNT_RETRIED, COUNT_ESCAPED, COUNT_TIMED_OUT, COUNT_HANDED_BACK,
	COUNT_REDELIVERED, COUNT_CLAIM_LOST, COUNT_UNRUNNABLE, COUNT_RECONNECTED,
	COUNT_EXPIRED,		/* of those escaped: they waited for too long */
	COUNT_EXPIRED_WAITING,	/* of those expired: nobody had fetched them */
	COUNT_PURGED,		/* of those escaped: by the sweeper's purge */
	COUNT_PURGED_DELAYED,	/* of those purged: while they were delayed */
	COUNT_DEADLINE_EXCEEDED,	/* of those purged: by max_message_age */
	COUNT_HANDLER_EXIT, COUNT_HANDLER_SIGNAL, COUNT_HANDLER_TIMEOUT, COUNT_REJECTED, COUNT_UNREPRESENTABLE, COUNT_UNKNOWN_VERSION, COUNT_TOO_LARGE,
	COUNT_WORKER_LOST,	/* of those escaped: by class (letter_class.h) */
	COUNT_PURGED_DONE,	/* purge: entries of the history */
	COUNT_TRANSIT_OLD,	/* purge: in work for too long, told of and left alone */
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
	_Atomic int64_t redis_down;		/* 1 while it has no connection */
	_Atomic int64_t queue;			/* index of its queue + 1; 0: none. The master */
	_Atomic uint64_t counters[COUNTERS];
	_Atomic uint64_t durations[SCOREBOARD_BUCKETS];
	_Atomic uint64_t duration_ms;		/* their sum */
};

/* What the master wants of a child. Only ever raised, but for QUIET <-> RUN. */
enum order {
	ORDER_RUN,
	ORDER_QUIET,		/* fetch nothing */
	ORDER_FINISH,		/* finish what runs, for as long as the handler's own deadline allows, then exit 0 */
	ORDER_HAND_BACK		/* TERM to the handler's group, after kill_grace KILL; hand back; exit 0 */
};

/* Where the sweeper is with a queue. Workers fetch in QUEUE_OPEN only. */
enum queue_gate { QUEUE_RECOVERING, QUEUE_OPEN, QUEUE_PAUSED, QUEUE_REFUSED };

/* A queue left the configuration. The master sets LEFT; the sweeper that still knows the queue logs what waits in it and sets LEFT_TOLD. */
enum queue_departure { QUEUE_STAYS, QUEUE_LEFT, QUEUE_LEFT_TOLD };

enum queue_recovered { RECOVERED_NOTHING, RECOVERED_BARE, RECOVERED_ALL };	/* BARE: nothing new is taken from transit:<q> */

/*
 * Why a gate is shut, or what is wrong. The most important first, since of several errors of a queue status shows only one: first those that an
 * operator must mend, then those that may pass by themselves, and last those during which Redis works.
 */
enum queue_trouble {
	TROUBLE_NONE, TROUBLE_WRONG_TYPE, TROUBLE_NO_PERMISSION, TROUBLE_EVICTION, TROUBLE_NO_REDIS, TROUBLE_STORM, TROUBLE_OTHER,
	TROUBLE_ARCHIVE,	/* the archive of dead letters cannot be read or written; Redis works */
	TROUBLE_LEFTOVERS	/* recovery waits until processes of a dead supervisor have ended; Redis works */
};
enum queue_trouble trouble_worse(enum queue_trouble a, enum queue_trouble b);	/* the more important one */

#define BREAKER_RING 64

struct board_queue {
	_Alignas(64) _Atomic uint32_t gate;	/* enum queue_gate; sweeper */
	_Atomic uint32_t trouble;		/* enum queue_trouble: what failed for the sweeper; sweeper */
	_Atomic uint32_t worker_trouble;	/* enum queue_trouble: what failed for a worker last; workers, and the master when one of them is gone */
	_Atomic uint32_t undecided;		/* 1 + enum doubt: why a silent owner cannot be proven dead; 0: there is no such owner. Sweeper */
	_Atomic uint64_t aside;			/* messages that Redis refused to move (sweeper/aside.c); sweeper */
	_Atomic int64_t aside_size;		/* of the newest of them; -1: not known. Sweeper */
	_Atomic uint32_t aside_why;		/* enum queue_trouble; sweeper */
	_Atomic uint32_t recovered;		/* enum queue_recovered; sweeper. What its successor need not do again */
	_Atomic uint64_t swept[COUNTERS];	/* COUNT_RESCUED, COUNT_DUE, COUNT_ESCAPED, COUNT_EXPIRED of the sweeper */
	_Atomic uint64_t past[SCOREBOARD_FIGURES];	/* of workers that are gone: totals never fall. The master */
	_Atomic uint64_t tallied[SCOREBOARD_FIGURES];	/* written to Redis, or being written; sweepers, compare and swap */
	_Atomic uint64_t lags[SCOREBOARD_BUCKETS], lag_ms;	/* FIGURE_LAGS and their sum; sweepers, atomic add */
	_Atomic uint64_t lag_most_ms;		/* since statsd was told */
	_Atomic uint64_t told[SCOREBOARD_FIGURES];	/* sent to statsd; sweepers, compare and swap */
	_Atomic uint32_t departure;		/* enum queue_departure; master, then one sweeper, compare and swap */
	_Atomic uint32_t wanted;		/* workers that are to be; the master */
	_Atomic uint64_t restarts;		/* workers started in place of dead ones; the master */
	_Atomic int64_t archiver;		/* sweeper whose the archive is: generation << 16 | slot + 1; 0: nobody's. Compare and swap */
	_Atomic uint32_t renamed;		/* how often workers took a new name; any worker, atomic add */
	_Atomic uint64_t workers_done;		/* messages done or settled; any worker, atomic add */
	/* breaker; any worker, compare and swap (worker/breaker.c) */
	_Atomic uint32_t breaker_step;		/* 0: closed; else consecutive openings */
	_Atomic int64_t breaker_until_ms;	/* CLOCK_MONOTONIC: when the next probe may run */
	_Atomic uint32_t failures;		/* failed in a row */
	_Atomic uint32_t failed_seen;		/* entries ever written to failed_ids; the last ones are there */
	_Atomic uint64_t failed_ids[BREAKER_RING];	/* kept after a success, so that a message that fails again is not counted again */
	_Atomic uint32_t handler_generation;	/* raised by each reload or restart of the queue, since the handler may have changed; master */
	_Atomic uint32_t answered_generation;	/* 1 + the last generation in which a handler answered anything; 0: none */
};

/* What is known of the clock of Redis (common/server_clock.h); sweeper */
struct board_clock {
	_Alignas(64) _Atomic int64_t since_ms;
	_Atomic int64_t stepped_ms, low_ms, high_ms, checked_ms;
};

/* Of the registry, over all queues that are not ours: entries that left it, or would in a dry run; sweeper */
struct board_registry {
	_Alignas(64) _Atomic uint64_t left, would_leave;
	_Atomic uint64_t left_told, would_leave_told;	/* sent to statsd; sweepers, compare and swap */
};

struct scoreboard {
	struct slot slots[SCOREBOARD_SLOTS];
	_Alignas(64) _Atomic uint32_t orders[SCOREBOARD_SLOTS];	/* enum order; master */
	/*
	 * A generation for each slot, kept when the slot is cleared: the workers that had this one or a lower one are dead, nothing of them
	 * runs, and the sweeper has returned their messages, or they left none. Master.
	 */
	_Atomic uint64_t buried[SCOREBOARD_SLOTS];
	_Atomic int32_t trial;		/* slot + 1 of the worker that runs a message on trial; 0: none. Workers, compare and swap; the master, of dead ones */
	_Atomic int32_t sweeper;	/* master: slot of the one that does the periodic work; others only finish */
	struct board_clock clock;
	struct board_registry registry;
	_Atomic int64_t started_ms;	/* CLOCK_REALTIME of the master's start; master */
	_Atomic uint64_t leftovers;	/* processes of dead supervisors that could not be killed, after the alarm; sweeper */
	struct seal_shared secrets;	/* of the seals; workers and sweepers, as seal.h says */
	_Atomic uint32_t log_epoch;	/* master; raised by USR1: a child that sees another value calls log_reopen() */
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
enum queue_trouble board_trouble(const struct board_queue *q);	/* the more important of the sweeper's and the workers' */
/* Moves what the slot of one that is gone counted to its queue's past. A reader who takes the past first sees nothing twice. */
void slot_fold(struct slot *s, struct board_queue *q);
void slot_clear(struct slot *s);	/* all but the generation; the master, when its child is reaped */
extern const char *const slot_state_names[];			/* "free", "starting", … */

#endif
