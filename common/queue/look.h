#ifndef COMMON_QUEUE_LOOK_H
#define COMMON_QUEUE_LOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/redis/redis.h"

/*
 * Reads lists whose entries may be large. A limit in bytes, not only in entries, bounds what Redis copies in one step
 * and what it sends. As in common/queue/moves.h, each function appends one script.
 */
struct queue_look {
	const char *key;		/* of a list or a sorted set */
	const char *apart;		/* for delayed: delayed_apart of its queue; else NULL */
	bool sorted;			/* key is a sorted set. It need not be set with apart */
	int64_t first;			/* the index to begin with, as LINDEX counts */
	bool backwards;			/* towards lower indexes: from -1 on, oldest first */
	int64_t most;			/* entries */
	int64_t bytes;			/* limit for what Redis reads in one step; the last entry may exceed it */
	int64_t shown;			/* bytes returned of each entry */
	/* if the entry is longer than shown: so many of its last bytes are returned, too */
	int64_t ends;
	/* also the sha1 of an entry that is longer than shown and not longer than QUEUE_LOOK_SUM_MAX */
	bool sums;
};
#define QUEUE_LOOK_SUM_MAX (16 * 1024 * 1024)

/* -> ARRAY of STRING for queue_looked(). Empty: no entry from there on */
void queue_look(struct redis *r, const struct queue_look *l);
struct queue_looked {			/* views into the answer; "": not requested, or not computed */
	size_t size;			/* of the whole entry */
	struct redis_reply head, tail, sha1, score;
};
/* the number of entries in it; SIZE_MAX: unexpected reply type */
size_t queue_look_count(const struct redis_reply *reply);
void queue_looked(const struct redis_reply *reply, size_t i, struct queue_looked *out);
/* true: the answer to a look with these `shown` and with ends of QUEUE_ENTRY_ENDS has the bytes by which a move names
 * the entry. A server that sends fewer would let the move read past them. */
bool queue_looked_is_named(const struct queue_looked *l, size_t shown);

/*
 * -> ARRAY of records as of XRANGE, upwards or downwards: from the id `from` to the id `to`, at most `most`, of about
 * `bytes` bytes. Empty: no record from there on
 */
struct queue_records_look {
	const char *key;		/* of the stream */
	const char *from, *to;
	bool up;
	int64_t most, bytes, shown;	/* as above */
	const char *const *fields;	/* only these, of "name:N" the first N bytes; NULL: all */
	size_t nfields;			/* at most QUEUE_LOOK_FIELDS */
};
#define QUEUE_LOOK_FIELDS 32
void queue_look_records(struct redis *r, const struct queue_records_look *l);

/*
 * Asks how many entries at one end of a list fit into one look. Redis copies no entry for that, so it also works if
 * even one entry may be too large to read. no_lease: the key of a lease that does not exist. -> ARRAY for
 * queue_weighed()
 */
enum queue_end { QUEUE_END_LEFT, QUEUE_END_RIGHT };
void queue_weigh(struct redis *r, const char *no_lease, const char *list, enum queue_end end, int64_t most,
    int64_t bytes);
struct queue_weight {
	int64_t entries;	/* of the list */
	int64_t page;		/* entries from that end that fit into `bytes`; at least one */
	/* 0; or, if the first entry exceeds `bytes`, the memory that it takes: its size and at most a quarter more */
	int64_t first;
};
int queue_weighed(const struct redis_reply *reply, struct queue_weight *out);	/* -1: unexpected reply type */

#endif
