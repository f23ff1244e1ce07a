#ifndef SWEEPER_RESCUE_RESCUE_H
#define SWEEPER_RESCUE_RESCUE_H

#include <bsd/sys/tree.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/board/board.h"
#include "common/message/message.h"
#include "common/queue/queue.h"
#include "sweeper/core/core.h"
#include "sweeper/rescue/aside.h"
#include "sweeper/rescue/search.h"

struct sweeper;
struct sweeper_queue;

/*
 * One dead owner whose messages are being returned:
 *	rescue list empty? -no-> return a page, again
 *	  └yes-> fence a tray -something was in it-> again
 *	           └all are empty-> mark dead, over
 * All of this state is in Redis: a sweeper that continues after a kill begins at the top.
 */
struct rescue {
	RB_ENTRY(rescue) by_name, by_time;
	char incarnation[INCARNATION_SIZE];	/* "": the bare transit list */
	struct incarnation who;
	const char *why;	/* "reported", "lock", "lease", "left", "late", "bare"; static */
	enum blame blame;
	char trial[QUEUE_NOTE_FIELD];	/* queue_trial_name() of the message that it tried; "": none */
	bool fence;		/* false: only what already lies in rescue (the bare list after the start) */
	bool gate;		/* the queue opens only when this is over */
	uint64_t returned, escaped;
	struct task_error error;
	int64_t at_ms;		/* CLOCK_MONOTONIC: the next step; 0: at once */
	uint64_t number;	/* in the order in which they began */
};
RB_HEAD(rescue_names, rescue);
RB_HEAD(rescue_times, rescue);

/* The state of the task rescue in a queue. */
struct rescues {
	struct rescue_names by_name;	/* of one process, the oldest name first */
	struct rescue_times reported, others;	/* the same by at_ms: those that the master reported go first */
	size_t gates, failing;	/* how many have `gate`; how many keep failing */
	uint64_t begun;
	int64_t connection;	/* redis.connection of the last run */
	uint64_t returned, escaped;	/* of those that the gate waited for */
};

extern const struct task rescue_task;
struct rescues *rescues_of(const struct sweeper_queue *q);

/* NULL: none under way. incarnation "": of the bare list */
struct rescue *rescue_find(const struct sweeper_queue *q, const char *incarnation);
/* True: a rescue is under way of a name of this process, from generation first on. i->generation: the last one */
bool rescue_covers(const struct sweeper_queue *q, const struct incarnation *i, uint64_t first);
bool rescue_gates(const struct sweeper_queue *q);	/* the queue opens only when some rescue is over */
bool rescue_keeps_failing(const struct sweeper_queue *q);	/* one of the queue's rescues keeps failing */

/* Adds a rescue, unless the owner has one. A rescue that the master reported goes first. */
struct rescue *rescue_add(struct sweeper_queue *q, const char *incarnation, const char *why, enum blame blame,
    bool gate);
/* The same for a registered owner. If its registration shows that its death must charge no message, blame is
 * ignored. */
struct rescue *rescue_add_owner(struct sweeper_queue *q, const struct queue_worker *who, const char *why,
    enum blame blame, bool gate);

/* Adds the rescue of the bare list. fence: also returns the messages of the list itself, not only those of its rescue
 * list. */
void rescue_add_bare(struct sweeper_queue *q, const char *why, enum blame blame, bool fence, bool gate);
/* Begins a rescue of each of these dead owners whose trays hold messages again. gate: before the queue is opened. -1:
 * as connection_answer() */
int rescue_add_late(struct sweeper *s, struct sweeper_queue *q, const char *const *names, size_t n, bool gate);
void rescue_count(struct rescue *r, bool escaped);	/* one of its messages went back, or escaped */

/*
 * Decides what the death charges to a message (docs/design.md, "What a death charges"), and writes the new counts into
 * w, which goes back with it. tried: the message was on trial. tray: how many messages the dead owner's trays held; -1:
 * not known. True: no attempts are left, and the message escapes.
 */
bool rescue_judge(struct wrapper *w, enum blame blame, bool tried, int64_t tray, int recovery_attempts);

/* Returns the number of entries for the next page, after a page of n entries with so many bytes. */
int rescue_page(size_t n, size_t bytes);

#endif
