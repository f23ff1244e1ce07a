#ifndef COMMON_BOARD_WORKER_WORDS_H
#define COMMON_BOARD_WORKER_WORDS_H

#include <stdatomic.h>
#include <stdint.h>

/*
 * The words that workers share: each worker of a queue, or each worker of the supervisor, may write them, by atomic add
 * or by compare and swap. Words that one worker writes alone are in its slot (slot.h).
 */

/* For all queues. */
struct board_workers {
	/*
	 * The slot + 1 of the worker that runs a message on trial; 0: none. At most one worker runs a trial, so the
	 * word goes from 0 to a slot by compare and swap, and from a slot to 0: by its worker, or by the master when it
	 * reaps that worker. scoreboard_begin_trial(), scoreboard_end_trial(). Readers: the workers.
	 */
	_Alignas(64) _Atomic int32_t trial;
	/*
	 * How often a process reached the server: each worker and the sweeper add one when their connection is usable.
	 * It may wrap: a process in its back-off that sees another value than at its last attempt tries again. Readers:
	 * all children.
	 */
	_Atomic uint32_t reached;
};

#define BREAKER_RING 64

/*
 * The circuit breaker of a queue. worker/breaker.c changes it by compare and swap; the master resets all but failed_ids
 * and answered_generation when it raises handler_generation (scoreboard_new_handler()). A worker that dies between two
 * words leaves a breaker that opens or closes one failure later. Readers: the workers; master and sweeper read step,
 * until_ms and cause.
 */
struct queue_breaker {
	/* 0: closed; else openings in a row: +1 for each probe, 0 at a success */
	_Alignas(64) _Atomic uint32_t step;
	/* CLOCK_MONOTONIC: when the next probe may run. The worker that moves it forward runs the probe */
	_Atomic int64_t until_ms;
	/*
	 * The last evidence for which it opened or stayed open (common/handler/cause.h); it counts only while step > 0.
	 * Readers: master, sweeper
	 */
	_Atomic uint64_t cause;
	_Atomic uint32_t failures;		/* different messages that failed in a row; a success sets it to 0 */
	/* processes that read a job and ended, since a handler of this generation answered last */
	_Atomic uint32_t mute;
	_Atomic uint32_t failed_seen;		/* entries ever written to failed_ids: its index, modulo BREAKER_RING */
	/* kept after a success, so that a message that fails again is not counted again */
	_Atomic uint64_t failed_ids[BREAKER_RING];
	/* 1 + the last handler_generation in which a handler answered anything; 0: none */
	_Atomic uint32_t answered_generation;
};

#define CLASS_NAMES 32			/* names that are counted one by one */
#define CLASS_NAME_MAX 64		/* bytes */
#define CLASS_NAME_WORDS (CLASS_NAME_MAX / 8)

enum class_state { CLASS_FREE, CLASS_BEING_NAMED, CLASS_NAMED };

/*
 * A class that the queue's handler named, and the dead letters of it. A worker claims a free entry by compare and swap
 * of its state; the name is written once, before the state becomes NAMED, and never changes. A worker that dies before
 * that leaves an entry that stays unused. n only grows.
 */
struct queue_class {
	_Atomic uint32_t state;			/* enum class_state; it only rises */
	/* its bytes, then NULs; not terminated if it has CLASS_NAME_MAX */
	_Atomic uint64_t name[CLASS_NAME_WORDS];
	_Atomic uint64_t n;
};

/* classes.c writes them, for the workers and, with an heir, for the master. Readers: the sweeper, the master. */
struct queue_classes {
	_Alignas(64) struct queue_class named[CLASS_NAMES];
	_Atomic uint64_t other;			/* dead letters of all further names */
};

/* classes of failed attempts that are counted one by one between two looks of the sweeper */
#define FAILED_NAMES 16

/*
 * A class of failed attempts, and how many there were since the sweeper took them last. The word has a generation, a
 * phase and the count (failed.c), and changes by compare and swap. The name changes only with the generation, so who
 * changes the word has read the name that belongs to it. A worker that dies while it writes the name leaves an entry
 * that stays unused.
 */
struct failed_class {
	_Atomic uint64_t word;
	_Atomic uint64_t name[CLASS_NAME_WORDS];	/* as in queue_class */
};

/* A class of the batch. */
struct failed_sent {
	_Atomic uint64_t n;			/* 0: none */
	_Atomic uint64_t name[CLASS_NAME_WORDS];
};

/* failed.c writes them, for the workers, for the sweeper, which takes the counts, and, with an heir, for the master. */
struct queue_failed_words {
	_Alignas(64) struct failed_class named[FAILED_NAMES];
	_Atomic uint64_t other;			/* failed attempts of all further classes */
	/* of the counts that the sweeper has taken, and whose addition Redis has not confirmed; 0: none */
	_Atomic int64_t batch;
	/* for which the batch counts; 0: the sweeper has not taken all of it yet */
	_Atomic int64_t minute;
	struct failed_sent sent[FAILED_NAMES + 1];	/* the batch; the last one is CLASS_OTHER */
};

/* For one queue. */
struct queue_workers_words {
	/* messages done or settled; it only grows. Reader: the master, which ends its back-off when it grows */
	_Alignas(64) _Atomic uint64_t done;
	/* how often workers took a new incarnation; it only grows. Reader: the sweeper */
	_Atomic uint32_t renamed;
	/*
	 * CLOCK_MONOTONIC: until when a hold lasts that a handler asked for (HOLD); 0: none. A worker whose handler
	 * asks raises it (board_hold()); the sweeper sets what Redis says, unless a worker has raised it since the
	 * question, and no earlier than the unanswered holds of the workers, slot.unanswered_hold_ms
	 * (board_set_hold()). Readers: the workers, which start nothing before, the master, the sweeper.
	 */
	_Atomic int64_t held_until_ms;
	struct queue_breaker breaker;
	struct queue_classes classes;
	struct queue_failed_words failed;
};

#endif
