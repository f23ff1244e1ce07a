#ifndef COMMON_QUEUE_ADMIN_H
#define COMMON_QUEUE_ADMIN_H

#include "common/queue/moves.h"

/*
 * Requests of operators about a queue, beyond the moves of common/queue/moves.h. As there, every function that takes a
 * struct redis appends one command or script and returns at once; the caller takes the answer later.
 */
#define QUEUE_BATCH 64		/* the most messages of one queue_push() or queue_push_delayed() */

struct queue_bytes {
	const void *data;
	size_t len;
};
/* -> INTEGER length of ingress. Workers fetch the messages in this order; urgent ones before all that wait, the last of
 * them first */
void queue_push(struct redis *r, const struct queue_keys *k, bool urgent, const struct queue_bytes *messages,
    size_t n);
/* messages are wrapped. They are due delay_ms after from_ms, by the clock of Redis; from_ms 0: from now on. first: how
 * many messages this run has delayed before; it keeps their order. -> INTEGER when the first of these is due */
void queue_push_delayed(struct redis *r, const struct queue_keys *k, int64_t from_ms, int64_t delay_ms, int64_t first,
    const struct queue_bytes *messages, size_t n);

/*
 * Pushes a message, unless one was pushed with this key in the time for which that key is kept: for_ms from its push
 * on, by the clock of Redis. for_ms 0: only looks. id "": none. -> ARRAY for queue_pushed_unique()
 */
void queue_push_unique(struct redis *r, const struct queue_keys *k, const char *key, int64_t for_ms, bool urgent,
    const char *id, const struct queue_bytes *message);
struct queue_unique {
	bool pushed;		/* or it would be; else of the message with the same key: */
	int64_t pushed_ms;	/* ms since 1970, by the clock of Redis; -1: a producer wrote something else there */
	char id[IDENTIFIER_ID_MAX + 1];		/* "": not known */
	int64_t left_ms;	/* how long the key stays; -1: without an end */
};
/* -1: unexpected reply type */
int queue_pushed_unique(const struct redis_reply *reply, struct queue_unique *out);

/* -> INTEGER messages removed, all at once, in constant time. Escape is removed with its records. */
void queue_purge_ingress(struct redis *r, const struct queue_keys *k);
void queue_purge_escape(struct redis *r, const struct queue_keys *k);
void queue_purge_delayed(struct redis *r, const struct queue_keys *k);
void queue_purge_pushed(struct redis *r, const struct queue_keys *k);	/* what producers delayed */
void queue_purge_bare(struct redis *r, const struct queue_keys *k);	/* the bare transit list and its rescue list */
/* The same for the trays of one owner. -> -1: the owner is alive (it has a lease) and force is not set */
void queue_purge_owner(struct redis *r, const struct queue_keys *k, const char *incarnation, bool force);

/*
 * -> INTEGER 1: deleted; 0: the message was missing; -1: the record was missing. In both cases nothing is deleted.
 * record_id NULL: no record
 */
void queue_discard(struct redis *r, const struct queue_keys *k, const struct queue_entry *e, const char *record_id);
/*
 * One waiting or delayed message: QUEUE_PICK_FIRST moves it to the pop end of ingress, so that a worker fetches it
 * next; QUEUE_PICK_DELETE deletes it. -> INTEGER 1; 0: it is not there any more; -1 (delayed, QUEUE_PICK_FIRST): its
 * payload, which was stored apart, is missing
 */
enum queue_pick { QUEUE_PICK_FIRST, QUEUE_PICK_DELETE };
void queue_pick_waiting(struct redis *r, const struct queue_keys *k, enum queue_pick pick, const struct queue_entry *e);
struct queue_delayed {
	bool pushed;			/* it is a delayed push of a producer */
	int64_t rank;			/* its place in the set: 0 is the first due */
	const char *due;		/* its score, as Redis wrote it */
	/* with the payload if that is stored apart. tail: only whether raw has the beginning alone; at is not used */
	struct queue_entry entry;
	/* bytes at its beginning that ingress must not get: the wrapper, if the queue is shared now */
	size_t strip;
};
void queue_pick_delayed(struct redis *r, const struct queue_keys *k, enum queue_pick pick,
    const struct queue_delayed *d);
/* -> ARRAY id, sha1, id, sha1 ... of count records, from id start on ("-": from the oldest) */
void queue_log_page(struct redis *r, const struct queue_keys *k, const char *start, int count);
/* The same with the values of these n <= QUEUE_LOG_FIELDS fields in place of sha1; "": the record has no such field */
#define QUEUE_LOG_FIELDS 8
void queue_log_fields(struct redis *r, const struct queue_keys *k, const char *start, int count,
    const char *const *fields, size_t n);

/* -> ARRAY for queue_apart_counted() */
void queue_apart_count(struct redis *r, const struct queue_keys *k);
struct queue_apart_count {
	int64_t payloads;	/* payloads of large messages, which are stored apart from delayed */
	int64_t delayed;	/* messages in delayed */
};
/* -1: unexpected reply type */
int queue_apart_counted(const struct redis_reply *reply, struct queue_apart_count *out);

/* Takes the place of a hold. -> INTEGER 1; 0: an operator had paused the queue already. why: JSON */
void queue_pause(struct redis *r, const struct queue_keys *k, const char *why);
void queue_resume(struct redis *r, const struct queue_keys *k);		/* -> INTEGER 1; 0: the queue was not paused */

/*
 * Removes a queue: deletes all its keys in groups of at most QUEUE_KEYS_GROUP. The keys from which the others are found
 * go last, so that an interrupted removal can be run again. Each group -> INTEGER keys removed.
 */
#define QUEUE_KEYS_GROUP 100
/* All keys of the table in types.c, but those of queue_destroy_registration(). Two groups */
void queue_destroy_lists(struct redis *r, const struct queue_keys *k);
void queue_destroy_owner(struct redis *r, const struct queue_keys *k, const char *incarnation);
/* The figures of n <= QUEUE_KEYS_GROUP minutes, counted since 1970 */
void queue_destroy_rates(struct redis *r, const struct queue_keys *k, int64_t first_minute, int n);
/* the backlog of such a number of hours */
void queue_destroy_backlog(struct redis *r, const struct queue_keys *k, int64_t first_hour, int n);
/* -> three INTEGERs */
void queue_destroy_registration(struct redis *r, const struct queue_keys *k);

#endif
