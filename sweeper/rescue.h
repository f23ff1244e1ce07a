#ifndef SWEEPER_RESCUE_H
#define SWEEPER_RESCUE_H

#include <bsd/sys/queue.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/child.h"
#include "common/message.h"
#include "common/queue_notes.h"
#include "common/queue.h"
#include "sweeper/trouble.h"

struct sweeper;
struct swept;

/*
 * One dead owner whose messages are being returned:
 *	rescue list empty? -no-> return a page, again
 *	  └yes-> fence a tray -something was in it-> again
 *	           └all are empty-> mark dead, over
 * All of this state is in Redis: a sweeper that continues after a kill begins at the top.
 */
struct rescue {
	TAILQ_ENTRY(rescue) entry;
	char incarnation[INCARNATION_SIZE];	/* "": the bare transit list */
	struct incarnation who;
	const char *why;	/* "reported", "lock", "lease", "left", "late", "bare"; static */
	enum blame blame;
	char trial[QUEUE_NOTE_FIELD];	/* queue_trial_name() of the message that it tried; "": none */
	bool fence;		/* false: only what already lies in rescue (the bare list after the start) */
	bool gate;		/* the queue opens only when this is over */
	uint64_t returned, escaped;
	struct trouble trouble;
};
TAILQ_HEAD(rescue_list, rescue);

/* incarnation NULL: the bare list. An owner is added only once; one that the master reports goes first. */
struct rescue *rescue_add(struct swept *q, const char *incarnation, const char *why, enum blame blame, bool gate);
/* The same for a registered owner. If its registration shows that its death is nobody's fault, blame is ignored. */
struct rescue *rescue_add_owner(struct swept *q, const struct queue_worker *who, const char *why, enum blame blame, bool gate);
void rescue_free_all(struct swept *q);

/*
 * Decides what the death charges to a message (docs/design.md, "Who is blamed"), and writes into w what goes back with it. tried: the
 * message was on trial. tray: how many messages the dead owner's trays held; -1: not known. True: no attempts are left, and the
 * message escapes.
 */
bool rescue_judge(struct wrapper *w, enum blame blame, bool tried, int64_t tray, int recovery_attempts);

/* The next page's size after one of n entries with so many bytes. */
int rescue_page(size_t n, size_t bytes);

#endif
