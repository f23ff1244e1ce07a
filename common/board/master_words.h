#ifndef COMMON_BOARD_MASTER_WORDS_H
#define COMMON_BOARD_MASTER_WORDS_H

#include <stdatomic.h>
#include <stdint.h>

#include "common/base/base.h"
#include "common/board/slot_text.h"
#include "common/facts/facts.h"

/* An order of the master to a child. It is only raised, except QUIET <-> RUN. */
enum order {
	ORDER_RUN,
	ORDER_QUIET,		/* fetch nothing */
	ORDER_FINISH,		/* finish what runs, for as long as the handler's own deadline allows, then exit 0 */
	ORDER_HAND_BACK		/* TERM to the handler's group, after kill_grace KILL; hand back; exit 0 */
};

/* The words of the master, which alone writes them. The children read them. */
struct board_master {
	/* enum order of the child in each slot; RUN in a free slot. It is only raised while the child lives, except
	 * QUIET <-> RUN. Reader: that child */
	_Alignas(64) _Atomic uint32_t orders[SCOREBOARD_SLOTS];
	/* The place in queues[] of the worker in each slot, + 1; 0: no worker. It stays until the worker is reaped.
	 * Reader: the sweeper */
	_Atomic int32_t queue_of[SCOREBOARD_SLOTS];
	/* 1: the child in the slot is no worker of its queue any more, since it leaves and finishes what it runs, or
	 * not yet, since it loads its handler. Reader: the judge (common/holds/) */
	_Atomic uint32_t leaving[SCOREBOARD_SLOTS];
	/*
	 * A generation for each slot, kept when the slot is cleared: the workers that had this one or a lower one are
	 * dead, nothing of them runs, and the sweeper has returned their messages, or they left none. It only grows,
	 * and never exceeds the generation of the slot. Reader: the sweeper.
	 */
	_Atomic uint64_t buried[SCOREBOARD_SLOTS];
	/* Slot of the sweeper that does the periodic work; it changes only when the next sweeper is forked. The others
	 * finish. Reader: each sweeper */
	_Atomic int32_t active_sweeper;
	/* problems of the configuration for which the last reload failed; 0: it was taken, or there was no reload.
	 * Readers: the judge (common/holds/), the sweeper */
	_Atomic uint32_t reload_failed;
	_Atomic uint32_t stopping;	/* 1: the supervisor stops; never 0 again. Reader: the judge (common/holds/) */
	/* CLOCK_REALTIME, ms: when the master started; written once. Readers: the sweeper, the workers */
	_Atomic int64_t started_ms;
	/* USR1 raises it by one. It may wrap: children compare it by log_follow(). Readers: all children */
	_Atomic uint32_t log_epoch;
};

/* The crash policy of a queue, which decides when dead workers are replaced (supervisor/children/policy.h). */
enum queue_policy { QUEUE_NORMAL, QUEUE_BACKOFF, QUEUE_QUARANTINE };
#define QUEUE_ENDED_BY_SIGNAL 0x100U

/* The last failure of a handler that has to say READY. */
enum queue_not_ready {
	NOT_READY_NONE,
	/* that of the last reload or restart was not ready; workers with an earlier one go on */
	NOT_READY_NEW,
	NOT_READY_ALL		/* the handler failed, and none has been READY since. No breaker says so */
};

/* The same for one queue. All of it is zeroed when the queue gives up its place (scoreboard_clear_queue()). */
struct queue_master {
	/*
	 * By enum figure: the counts of workers that have ended, and of queues whose heir this queue is. They only
	 * grow, so totals never fall. Reader: the sweeper, before it reads the slots.
	 */
	_Alignas(64) _Atomic uint64_t past[SCOREBOARD_FIGURES];
	/* workers that the configuration, or the operator, asks for. Reader: the sweeper */
	_Atomic uint32_t wanted;
	/*
	 * Why the queue has fewer workers than wanted, or why they do not fetch. Reader of all: the judge
	 * (common/holds/), in master and sweeper. The master publishes them in each turn.
	 */
	_Atomic uint32_t policy;		/* enum queue_policy */
	_Atomic uint32_t quiet;			/* 1: an operator stopped its fetches, or those of all queues */
	_Atomic uint32_t scaled;		/* 1: the operator set `wanted` */
	/* 1: a missing worker may start only when one that leaves has finished */
	_Atomic uint32_t waits;
	_Atomic int64_t next_start_ms;		/* CLOCK_MONOTONIC: no worker starts before */
	/* How the last worker that ended did so: its exit status, or its signal | QUEUE_ENDED_BY_SIGNAL; and when,
	 * CLOCK_MONOTONIC, 0: none ended */
	_Atomic uint32_t ended;
	_Atomic int64_t ended_ms;
	/* workers started in place of dead ones, also in the places whose heir this queue is; it only grows. Reader:
	 * the sweeper */
	_Atomic uint64_t restarts;
	/*
	 * The newest handler that works. Each reload or restart of the queue raises it, since the handler may have
	 * changed, at once or when that is ready (supervisor/queues/renewal.c). It may wrap: it is only compared for
	 * equality. Readers: the workers of the queue (worker/breaker.c).
	 */
	_Atomic uint32_t handler_generation;
	/*
	 * The handler of the last reload or restart, whether it works or not, and the first one with the configuration
	 * that the queue has now, written before. A process that a worker starts with an older configuration is an
	 * older handler; any other one is the newest, since it is what lies there. Readers: the workers (loader.c).
	 */
	_Atomic uint32_t newest_generation;
	_Atomic uint32_t conf_generation;
	/*
	 * ms since 1970: when a reload read the rate of the queue last, and when one changed it last, written before;
	 * 0: none did. A worker whose configuration was read before the change has another rate. Readers: the workers
	 * and the sweeper, by board_limits_loaded_ms().
	 */
	_Atomic int64_t rate_loaded_ms;
	_Atomic int64_t rate_changed_ms;
	/* enum queue_not_ready; with it, why. Readers: the judge (common/holds/), the workers (loader.c) */
	_Atomic uint32_t not_ready;
	struct slot_text not_ready_why;
	/* 1: the queue left the configuration; never 0 again. The sweeper that still knows it logs what waits in it */
	_Atomic uint32_t left;
};

#endif
