#ifndef SWEEPER_RESCUE_H
#define SWEEPER_RESCUE_H

#include <bsd/sys/queue.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/message.h"
#include "common/queue.h"
#include "sweeper/trouble.h"

struct sweeper;
struct swept;

/*
 * One dead owner whose messages are being returned:
 *	rescue list empty? -no-> return a page, again
 *	  └yes-> fence a tray -something was in it-> again
 *	           └all are empty-> mark dead, over
 * Nothing is remembered that Redis does not know: whoever continues after a kill begins at the top.
 */
struct rescue {
	TAILQ_ENTRY(rescue) entry;
	char incarnation[INCARNATION_SIZE];	/* "": the bare transit list */
	struct incarnation who;
	const char *why;	/* "reported", "lock", "lease", "late", "bare"; static */
	bool charge;		/* its death may have been its message's doing */
	bool fence;		/* false: only what already lies in rescue (the bare list after the start) */
	bool gate;		/* the queue opens only when this is over */
	int page;		/* entries read at once: fewer when they are big */
	uint64_t returned, escaped;
	struct trouble trouble;
};
TAILQ_HEAD(rescue_list, rescue);

/* incarnation NULL: the bare list. Nothing is added twice; an owner reported in the meantime goes first. */
struct rescue *rescue_add(struct swept *q, const char *incarnation, const char *why, bool charge, bool gate);
void rescue_free_all(struct swept *q);

/*
 * Who is blamed (docs/design.md). Changes w to what goes back. tray: how many lay in the dead owner's trays,
 * -1 not known. True: it has had its chances and escapes.
 */
bool rescue_judge(struct wrapper *w, bool charge, int64_t tray, int recovery_attempts);

/* The next page's size after one of n entries with so many bytes. */
int rescue_page(size_t n, size_t bytes);

#endif
