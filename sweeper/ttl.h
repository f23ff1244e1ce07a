#ifndef SWEEPER_TTL_H
#define SWEEPER_TTL_H

#include <stddef.h>
#include <stdint.h>

#include "common/age.h"
#include "common/queue_waiting.h"

struct sweeper;
struct swept;

/* A turn of ttl.c through one queue's ingress, and what it hands to expire.c. */
#define LOOK_PAGE_MAX 100
#define LOOK_FOUND_MAX (2 * LOOK_PAGE_MAX)	/* of this page, and those of pages before that wait for a mark to their left */
#define LOOK_EXPIRED_MAX 2000		/* in one turn: others have work, too */

/* The wrapper of a marked message; entries are counted as the list does, -1 is the pop end. */
struct mark {
	char line[QUEUE_MARK_LINE_SIZE];
	size_t len;			/* 0: none */
	int64_t at, since_ms;
};

struct mark mark_of(const struct message *m, int64_t at, const struct age_clock *c);	/* of a marked message (marks.c) */

/* One that may be over by itself. */
struct found {
	int64_t at;
	int64_t limit_ms;		/* it does not know its time: the next mark to its left tells. -1: it is over */
	struct mark mark;		/* which proved it */
};

/* A turn of one queue. */
struct look {
	struct sweeper *s;
	struct swept *q;
	struct age_clock clock;
	struct mark old;		/* the leftmost in this page that is old enough: it and all to its right are over */
	struct found found[LOOK_FOUND_MAX];	/* from right to left */
	size_t nfound;
};

/* The oldest up to the old mark of this page, a page at a time. -1: error */
int expire_behind(struct look *l);
/* Those found by themselves. -1: error */
int expire_found(struct look *l);

/* What is known of one that leaves ingress unhandled, but for why. Strings are the queue's and the configuration's. */
struct record expire_record(const struct sweeper *s, const struct swept *q, const struct message *m, const char *class);
/* Out of ingress, one like this: it says so itself, and so does each that is equal to it. Answers as queue_escape(). */
void expire_by_value(struct sweeper *s, const struct swept *q, struct message *m, const struct record *record);

#endif
