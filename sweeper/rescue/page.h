#ifndef SWEEPER_RESCUE_PAGE_H
#define SWEEPER_RESCUE_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/message/message.h"
#include "common/queue/queue.h"

struct sweeper;
struct sweeper_queue;
struct rescue;

#define RESCUE_PAGE_MAX 100

/* The state while a page is returned. */
struct rescue_page {
	struct sweeper *s;
	struct sweeper_queue *q;
	struct rescue *r;
	const char *owner;	/* NULL: the bare list */
	char *rescue, *lease;	/* keys */
	int64_t tray;		/* messages that lay in the tray; -1: not known */
	size_t n;
	struct held {
		/* views into an answer that lives until the moves are sent. The left end of the list when its move
		 * runs */
		struct queue_entry entry;
		size_t shown;			/* bytes in entry.raw */
		struct message m;		/* raw as in entry */
		int64_t size;			/* bytes without the wrapper */
		struct wrapper fate;		/* the counts that its new wrapper or note gets */
		const char *class;		/* it escapes with that class; NULL: it goes back */
	} held[RESCUE_PAGE_MAX];
};

struct rescue_page *rescue_page_new(struct sweeper *s, struct sweeper_queue *q, struct rescue *r);
void rescue_page_free(struct rescue_page *p);

/* 1: some messages were returned; 0: the list is empty; -1: error. */
int rescue_page_return(struct rescue_page *p);

/* Decides about one message of the page: sets fate, and class if it must escape. */
void rescue_page_judge(const struct rescue_page *p, struct held *h);
/* Reads all that rescue_page_judge() needs, for each message of `held`. 0: done; 1: the list has changed meanwhile, and
 * is read again; -1: error. */
int rescue_page_learn(struct rescue_page *p);

#endif
