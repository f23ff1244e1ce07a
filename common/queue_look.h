#ifndef COMMON_QUEUE_LOOK_H
#define COMMON_QUEUE_LOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/redis.h"

/*
 * Looks at lists whose entries may be large. What Redis copies in one step, and what it sends, is bounded by bytes and not by
 * entries alone. As in common/queue.h, each function appends one script.
 */
struct queue_look {
	const char *key;		/* a list, or a sorted set; of records: the stream */
	const char *apart;		/* of the sorted set: its queue's delayed_apart; NULL: key is no sorted set */
	int64_t first;			/* index, as LINDEX counts */
	bool backwards;			/* towards lower indexes: from -1 on, what was pushed first */
	int64_t most;			/* entries */
	int64_t bytes;			/* read in one step; the last entry may exceed them */
	int64_t shown;			/* bytes of each entry, or of each value of a record */
	int64_t ends;			/* so many of its last bytes besides, if it is longer than shown */
	bool sums;			/* its sha1, too, if it is longer than shown and not longer than QUEUE_LOOK_SUM_MAX */
};
#define QUEUE_LOOK_SUM_MAX (16 * 1024 * 1024)

/* -> ARRAY of STRING for queue_looked(). Empty: at the end */
void queue_look(struct redis *r, const struct queue_look *l);
struct queue_looked {			/* views into the answer; "" is what was not asked for, or not worked out */
	size_t size;			/* of the whole entry */
	struct redis_reply head, tail, sha1, score;
};
size_t queue_look_count(const struct redis_reply *reply);	/* how many entries there are in it; SIZE_MAX: it is none */
void queue_looked(const struct redis_reply *reply, size_t i, struct queue_looked *out);

/*
 * -> ARRAY of records as of XRANGE, from the id `from` on: downwards, or upwards to the id `until` if that is not NULL. Uses
 * key, most, bytes and shown of l. Empty: at the end
 */
void queue_look_records(struct redis *r, const struct queue_look *l, const char *from, const char *until);

/*
 * How many entries at one end of a list may be read with one look, where not even one of any length may: no entry is
 * copied to find that out. nobody: the key of a lease that does not exist. -> ARRAY for queue_weighed()
 */
enum queue_end { QUEUE_END_LEFT, QUEUE_END_RIGHT };
void queue_weigh(struct redis *r, const char *nobody, const char *list, enum queue_end end, int64_t most, int64_t bytes);
struct queue_weight {
	int64_t entries;	/* of the list */
	int64_t page;		/* so many are within `bytes`; one at least */
	int64_t first;		/* the memory that the first one takes, if it exceeds `bytes`, at most a quarter more than its size; else 0 */
};
int queue_weighed(const struct redis_reply *reply, struct queue_weight *out);	/* -1: it is none */

#endif
