#ifndef ADMIN_OPERATIONS_SELECTION_H
#define ADMIN_OPERATIONS_SELECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "admin/dead_letters/dead_letters.h"
#include "admin/operations/operation.h"

/* A dead letter that the operation means. */
struct selected {
	char record_id[RECORD_ID_SIZE], sha1[ENCODE_SHA1_SIZE], size_text[24];
	size_t size;
	struct message_lineage lineage;	/* of the message */
	int64_t before;			/* records before it */
	uint32_t cause_hash;		/* redriven_cause_hash(); 0: the cause was not read */
	int searches;
	bool single;			/* large, or with a note beside it: handled alone */
};

/*
 * Takes the dead letters of an operation, the oldest first. It walks over the records, and knows the place of each
 * message in escape: both are in the same order, so it is the number of records before it that stay. If it is not there
 * (a message without a record, a record without a message, another command), Redis searches for it, and from then on
 * the difference is known. So a message is found in the middle of a million that stay without reading them.
 */
struct selection {
	struct operation *op;
	struct filter *filter;
	bool retry;
	struct selected page[QUEUE_TAKEN_MAX];
	size_t n, at;
	char gone[48];			/* within one script it replaces a message that leaves escape */
	int64_t seen, removed;		/* records read; how many of their messages are not in escape any more */
	/* how many entries the messages are further to the left than their records say */
	int64_t shift;
	bool at_end;			/* no record follows */
	bool went_back;			/* Redis went back meanwhile, so older records may be there again */
	int64_t done, missing, claimed;	/* by this command */
	int64_t unsure;			/* they stay: nothing tells them from others of the same size */
	struct redriven *redriven;
};

/* s is zeroed, or has taken some before. redriven: notes the messages that move back, so that their failures are
 * counted; NULL: nothing does. */
void selection_begin(struct selection *s, struct operation *op, struct filter *f, bool retry,
    struct redriven *redriven);
/* Takes up to `most`, at most QUEUE_TAKEN_MAX. 1: there may be more; 0: that was the last; -1: error. */
int selection_take(struct selection *s, int64_t most);
/* The next one to take. 1: it is *next; 0: there is none; -1: error of Redis */
int selection_next(struct selection *s, const struct selected **next);
void selection_step_back(struct selection *s);	/* moves op->next from behind the page to the next one to take */
int64_t selection_place(const struct selection *s, const struct selected *one);	/* index in escape, from the right */

#endif
