#ifndef COMMON_QUEUE_ADMIN_H
#define COMMON_QUEUE_ADMIN_H

#include "common/queue.h"

/*
 * What an operator does to a queue beyond the moves of common/queue.h. As there, every function that
 * takes a struct redis appends one command or script; the answer comes later.
 */
#define QUEUE_BATCH 64		/* messages that queue_push() and queue_push_delayed() take at most */

char *queue_registered_key(const char *name);	/* of a queue whose lists are not known yet; a new string */

struct queue_bytes {
	const void *data;
	size_t len;
};
/* -> INTEGER length of ingress. In their order: the first is fetched first */
void queue_push(struct redis *r, const struct queue_keys *k, const struct queue_bytes *messages, size_t n);
/* -> INTEGER n. messages are wrapped. first: how many this run delayed before, for their order */
void queue_push_delayed(struct redis *r, const struct queue_keys *k, int64_t delay_ms, int64_t first,
    const struct queue_bytes *messages, size_t n);

/* -> INTEGER messages removed; all of them in one step that takes no time. Escape goes with its records. */
void queue_purge_ingress(struct redis *r, const struct queue_keys *k);
void queue_purge_escape(struct redis *r, const struct queue_keys *k);
void queue_purge_delayed(struct redis *r, const struct queue_keys *k);
void queue_purge_bare(struct redis *r, const struct queue_keys *k);	/* the bare transit list and its rescue */
/* The same for one owner's trays; -1: it lives (its lease is there) and force is not set */
void queue_purge_owner(struct redis *r, const struct queue_keys *k, const char *incarnation, bool force);

/* -> INTEGER 1; 0: the message was not there, -1: its record was not there, and nothing is deleted. record_id NULL: none */
void queue_discard(struct redis *r, const struct queue_keys *k, const struct queue_entry *e, const char *record_id);
/* -> ARRAY id, sha1, id, sha1 ... of the records from id start on ("-": the oldest) */
void queue_log_page(struct redis *r, const struct queue_keys *k, const char *start, int count);
/* The same with the values of these n <= QUEUE_LOG_FIELDS fields in place of sha1; "": it has none */
#define QUEUE_LOG_FIELDS 8
void queue_log_fields(struct redis *r, const struct queue_keys *k, const char *start, int count, const char *const *fields, size_t n);

/* -> ARRAY for queue_apart_counted() */
void queue_apart_count(struct redis *r, const struct queue_keys *k);
struct queue_apart_count {
	int64_t payloads;	/* of large messages, stored apart from delayed */
	int64_t delayed;	/* messages */
};
int queue_apart_counted(const struct redis_reply *reply, struct queue_apart_count *out);	/* -1: it is none */

/* -> STATUS; NIL: it was paused already. why: JSON */
void queue_pause(struct redis *r, const struct queue_keys *k, const char *why);
void queue_resume(struct redis *r, const struct queue_keys *k);		/* -> INTEGER 1; 0: was not paused */

/*
 * Removing a queue: every key in groups of at most QUEUE_KEYS_GROUP, those last that tell what else
 * there is, so that what was interrupted can be run again. Each group -> INTEGER keys removed.
 */
#define QUEUE_KEYS_GROUP 100
void queue_destroy_lists(struct redis *r, const struct queue_keys *k);
void queue_destroy_owner(struct redis *r, const struct queue_keys *k, const char *incarnation);
/* The per-minute figures of n <= QUEUE_KEYS_GROUP minutes since 1970 */
void queue_destroy_rates(struct redis *r, const struct queue_keys *k, int64_t first_minute, int n);
/* Three answers: INTEGER each */
void queue_destroy_registration(struct redis *r, const struct queue_keys *k);

#endif
