#ifndef COMMON_BOARD_SLOT_H
#define COMMON_BOARD_SLOT_H

#include <stdatomic.h>
#include <stdint.h>

#include "common/facts/facts.h"
#include "common/board/slot_text.h"

#define PROGRESS_SHOWN 60		/* bytes of the text of PROGRESS */

struct board_queue;

enum slot_state {
	/* waiting: it may request no message now (enum worker_hold) */
	SLOT_FREE, SLOT_STARTING, SLOT_CONNECTING, SLOT_WAITING,
	SLOT_IDLE, SLOT_RUNNING, SLOT_SETTLING, SLOT_STOPPING
};
extern const char *const slot_state_names[];			/* "free", "starting", … */

/* Why a worker requests no message now, by rank: of several the first one counts (worker/admission.c). */
enum worker_hold {
	WORKER_ADMITTED, WORKER_LEAVES, WORKER_CONNECTS, WORKER_QUIET, WORKER_GATE_SHUT, WORKER_PAUSED, WORKER_BREAKER,
	    WORKER_LOADS, WORKER_LEASE_IN_DOUBT,
	WORKER_PUT_OFF, WORKER_FETCHING, WORKER_MOVES, WORKER_ALONE, WORKER_NOTES, WORKER_THROTTLED, WORKER_ENOUGH,
	    WORKER_TOO_FEW, WORKER_NO_TRAY,
	WORKER_HOLDS
};
/* The name of the hold. NULL: the worker waits for nothing, or no hold has this number */
const char *slot_waits_for(uint32_t hold);

/* The handler of one worker, if it has to say READY. */
enum slot_load {
	SLOT_NEVER_LOADS,	/* it need not say READY */
	SLOT_UNLOADED,		/* no start of it is decided */
	SLOT_LOADED,		/* its last start that is decided was READY */
	SLOT_NOT_LOADED		/* the same failed */
};

#define SLOT_UNSAVED_UNKNOWN (-1)

/*
 * The words of one child: a worker, a sweeper, or the keeper. The child in the slot writes them while it lives. The
 * master writes them before the child starts and after it has ended: it clears all but the generation. It reads all of
 * them for status; other readers are named below.
 *
 * A child may be killed between any two writes, so no word proves another one. A counter only grows while its child
 * lives (atomic add).
 */
struct slot {
	/*
	 * generation << 8 | enum slot_state, in one word so that it is never torn. The generation only grows: each
	 * process in the slot takes a higher one, and a worker takes one for each incarnation. 56 bits do not wrap.
	 * Readers: the sweeper also (proofs of death, the holder of an archive).
	 */
	_Alignas(64) _Atomic uint64_t state;
	/* CLOCK_MONOTONIC, ms: the last turn of its loop. The master kills a child whose heartbeat is too old
	 * (supervisor/children/watch.c). */
	_Atomic int64_t heartbeat_ms;
	_Atomic uint64_t serial;		/* messages that the worker started; it only grows */
	_Atomic int64_t started_ms;		/* CLOCK_MONOTONIC, ms: since when a message runs; 0: none runs */
	/* CLOCK_MONOTONIC, ms. Worker: when the handler and its kill grace end. 0: none. The master waits so long. */
	_Atomic int64_t deadline_ms;
	/* CLOCK_BOOTTIME, ms: the handler is dead by then, or the master kills the worker; 0: it may finish */
	_Atomic int64_t fence_ms;
	/* a generation: no message runs here that was fetched under a lower one; 0: not known. Reader: the sweeper */
	_Atomic uint64_t abandoned;
	/*
	 * A process group: worker: of its handler; keeper: of redis-server. 0: none; never 1, nor the supervisor's own.
	 * The master kills the group when the worker dies, before it reaps the worker, so no other process can have the
	 * number.
	 */
	_Atomic int32_t handler_pgid;
	_Atomic int32_t pid;			/* of the child; 0: not known yet. Reader: the sweeper */
	_Atomic uint32_t redis_down;		/* 1: it has no connection; else 0. slot_lose_redis() */
	/* worker: queue_error_word(), what Redis refused last; NONE after the next success. Readers: queue_error.h */
	_Atomic uint32_t error;
	/* why its last attempt to connect failed, or what Redis refused. It counts only with redis_down, or error */
	struct slot_text redis_why;
	/*
	 * Keeper: bytes that its Redis acknowledged and that are not in the append-only file, for which a stop waits;
	 * SLOT_UNSAVED_UNKNOWN: the keeper cannot tell; 0: no stop waits. redis_why says why.
	 */
	_Atomic int64_t unsaved;
	/* CLOCK_MONOTONIC: its next attempt to connect. It counts only with redis_down */
	_Atomic int64_t redis_retry_ms;
	_Atomic uint64_t load_cause;		/* of NOT_LOADED: common/handler/cause.h; written before */
	_Atomic int64_t handler_started_ms;	/* with load: CLOCK_MONOTONIC, the last start; 0: none was */
	_Atomic uint64_t handler_files;		/* conf_handler_files() before the last start; 0: none was */
	_Atomic uint32_t hold;			/* enum worker_hold: why the worker requests no message now */
	/* enum slot_load. With it, 1: a process of its handler loads now. Readers: the workers of the queue also */
	_Atomic uint32_t load;
	_Atomic uint32_t loading;
	/* With it, of its process: 1: it is READY now; and which handler it is (queue_master.newest_generation), by the
	 * master at the fork, and by the worker at each later start */
	_Atomic uint32_t ready;
	_Atomic uint32_t handler_generation;
	/*
	 * Worker: errno for which it could not start its handler several times in a row, as EAGAIN; 0: its last start
	 * succeeded, or it has tried none. With it, CLOCK_MONOTONIC, ms: no start before. Readers: the judge
	 * (common/holds/).
	 */
	_Atomic uint32_t not_started;
	_Atomic int64_t next_start_ms;
	/*
	 * Worker: CLOCK_MONOTONIC, ms: when the rate of its queue allows its next start, or allowed the last one; 0: no
	 * message waits here for that. Readers: the judge.
	 */
	_Atomic int64_t throttled_ms;
	/*
	 * Worker: a message waits here for a seat: how many are taken on all hosts (bits 32 to 63) of how many (bits 0
	 * to 31). None taken: Redis gives none yet, since it may have gone back in time. 0: no message waits for one.
	 * Readers: the judge.
	 */
	_Atomic uint64_t seats;
	/*
	 * Worker: CLOCK_MONOTONIC, ms: the end of the longest hold for which its handler asked and about which Redis
	 * has not answered yet; 0: none. It ends with the worker: the message runs again, and its handler may ask
	 * again. Reader: the sweeper (board_set_hold()).
	 */
	_Atomic int64_t unanswered_hold_ms;
	/* of the message that runs: its percentage and text. Readers: the sweeper also */
	struct slot_text progress;
	/* the handler's words about the last failure here (slot_note_failure()). Readers: the sweeper also */
	struct slot_text failure;
	_Atomic int64_t failed_ms;		/* CLOCK_MONOTONIC: when that was; 0: none was */
	/* "CLASS TEXT" of the last failed attempt here, and when it ended (CLOCK_MONOTONIC; 0: none did).
	 * slot_note_attempt(). Reader: the sweeper */
	struct slot_text attempt;
	_Atomic int64_t attempt_ms;
	/*
	 * Messages, by enum counter; runs of handlers, by duration, and the sum of their durations in ms. Each only
	 * grows until slot_fold() moves it to queue_master.past. The sum may lag behind the histogram by one run.
	 * Reader: the sweeper, for stats and metrics.
	 */
	_Atomic uint64_t counters[COUNTERS];
	_Atomic uint64_t durations[SCOREBOARD_BUCKETS];
	_Atomic uint64_t duration_ms;
};

static inline enum slot_state slot_state(const struct slot *s)
{
	return (enum slot_state)(atomic_load(&s->state) & 0xff);
}

static inline uint64_t slot_generation(const struct slot *s)
{
	return atomic_load(&s->state) >> 8;
}

/* ---- the child calls these ---- */

void slot_set_state(struct slot *s, enum slot_state state);	/* keeps the generation */
uint64_t slot_next_generation(struct slot *s);			/* raises it by one and returns it */
/* The process has no connection to Redis, and tries again at retry_ms. Worker and sweeper set redis_down to 0
 * themselves when they have one. */
void slot_lose_redis(struct slot *s, const char *why, int64_t retry_ms);
/* The keeper: bytes as in unsaved. Every call is a heartbeat. */
void slot_wait_for_file(struct slot *s, int64_t bytes, const char *why, int64_t now_ms);
/* The handler failed. words: the last line of its stderr, or the reason of its reply; may be empty */
void slot_note_failure(struct slot *s, const char *words, size_t len, int64_t now_ms);
void slot_note_attempt(struct slot *s, const char *class, const char *text, int64_t now_ms);	/* an attempt failed */
void slot_observe(struct slot *s, int64_t duration_ms);		/* into the histogram */

/* ---- the master calls these for a child that has ended ---- */

/* Moves its counts to the past of its queue. A reader that reads the past first counts nothing twice. */
void slot_fold(struct slot *s, struct board_queue *q);
void slot_clear(struct slot *s);	/* all but the generation */

#endif
