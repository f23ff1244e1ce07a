#ifndef COMMON_BOARD_SCOREBOARD_H
#define COMMON_BOARD_SCOREBOARD_H

#include <stdbool.h>

#include "common/base/base.h"
#include "common/board/master_words.h"
#include "common/board/queue_error.h"
#include "common/board/slot.h"
#include "common/board/sweeper_words.h"
#include "common/board/worker_words.h"
#include "common/message/message.h"
#include "common/redis/redis.h"

/*
 * The scoreboard: anonymous shared memory between the master and its children. It has no locks, no pointers and no
 * strings. Each word is atomic by itself, and no two words change together, so a reader may see one of them new and
 * the other one old. A process may be killed between any two writes, so no reader concludes anything from two words
 * that must agree.
 *
 * The words are grouped by their writer. Each header says for each word its unit, its invariant, and its readers:
 *
 *	slot.h		the child in the slot, while it lives; before and after that the master
 *	master_words.h	the master
 *	worker_words.h	every worker, by atomic add or compare and swap
 *	sweeper_words.h	the sweeper; after a reload two of them, for a while
 *
 * No process trusts a number of another one with its life: readers check a word before they use it as an index.
 */
struct board_queue {
	struct queue_master master;
	struct queue_workers_words workers;
	struct queue_sweeper sweeper;
	struct queue_reported reported;
};

struct scoreboard {
	struct slot slots[SCOREBOARD_SLOTS];
	struct board_master master;
	struct board_workers workers;
	struct board_sweeper sweeper;
	struct seal_shared secrets;	/* of the seals; workers and sweepers write them, as seal.h says */
	struct resolve_shared addresses;	/* of servers; workers and sweepers write them, as resolve.h says */
	struct board_queue queues[SCOREBOARD_QUEUES];
};

struct scoreboard *scoreboard_new(void);	/* zeroed memory that children inherit; NULL and errno */
void scoreboard_free(struct scoreboard *b);

/* ---- a worker calls these; the master ends the trial of a worker that it reaps ---- */

void scoreboard_announce_master(struct scoreboard *b, size_t sentinel);	/* this Sentinel named another master */
/* The sweeper calls these: most Sentinels name the server that it is connected to; it is not known any more whether
 * they do. */
void scoreboard_confirm_master(struct scoreboard *b, uint64_t target_mark, uint64_t server_mark, size_t sentinel,
    int64_t now_ms);
void scoreboard_doubt_master(struct scoreboard *b);
/* True: most Sentinels name another server than this one; sentinel is the index of one of them. False also if nobody
 * knows. */
bool scoreboard_names_other(struct scoreboard *b, uint64_t target_mark, uint64_t server_mark, int64_t now_ms,
    size_t *sentinel);
bool scoreboard_begin_trial(struct scoreboard *b, int slot);	/* false: another worker runs a message on trial */
bool scoreboard_end_trial(struct scoreboard *b, int slot);	/* false: the worker in this slot had none */
/*
 * No process has reached the embedded Redis since the start of the supervisor, and that is so young that it may still
 * start: to fail to connect is no trouble yet.
 */
bool scoreboard_redis_starts(const struct scoreboard *b, bool embedded);
/* ms since 1970: when this host loaded the limits of the queue last. own_ms: when the configuration of the caller was
 * read; a reload that did not change them keeps the process */
int64_t board_limits_loaded_ms(struct board_queue *q, int64_t own_ms);
/* A handler asked for a hold. Until Redis knows it, slot.unanswered_hold_ms says so, which the worker raises before. */
void board_hold(struct board_queue *q, int64_t until_ms);	/* never shortens one */

/* The sweeper, or two at a time: it moved a message so long after its time; negative: counts as 0 */
void board_observe_lag(struct board_queue *q, int64_t lag_ms);

/* Redis says until when a hold lasts; 0: there is none. seen: held_until_ms when the sweeper asked. Returns what counts
 * now: that, or the end of one that Redis does not know yet, whichever is later. -1: a worker has raised it since. */
int64_t board_set_hold(const struct scoreboard *b, struct board_queue *q, int64_t seen, int64_t until_ms,
    int64_t now_ms);

/* ---- the master calls these ---- */

/* A queue that gives up its place passes its totals to its heir. The part that no sweeper has written to Redis yet is
 * then new with the heir. */
void scoreboard_inherit(struct board_queue *heir, struct board_queue *q);
void scoreboard_clear_queue(struct board_queue *q);	/* no process uses the place any more */
/*
 * Starts the next generation of the queue's handler: failures that workers of earlier generations report are no
 * evidence against it.
 */
void scoreboard_new_handler(struct board_queue *q, uint32_t generation);

#endif
