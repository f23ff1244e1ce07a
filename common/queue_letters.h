#ifndef COMMON_QUEUE_LETTERS_H
#define COMMON_QUEUE_LETTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/queue.h"
#include "common/queue_admin.h"

/*
 * The old end of escape and of its log: what bounds remove (docs/design.md, "Dead letters that leave"). As in
 * common/queue.h, every function that takes a struct redis appends one script and returns at once.
 */
#define QUEUE_LETTERS_PAGE_MAX 100
#define QUEUE_RECORD_ID_SIZE 48	/* "1700000000000-0" */

/* The parts of a record's id. -1: it is none */
int queue_record_id_parse(const char *id, uint64_t *ms, uint64_t *serial);
/* As strcmp(3), of two that are ids. */
int queue_record_id_compare(const char *a, const char *b);
void queue_record_id_next(const char *id, char out[QUEUE_RECORD_ID_SIZE]);	/* the least that is greater; of none: 0-1 */

/* -> ARRAY for queue_letters_glanced() */
void queue_letters_glance(struct redis *r, const struct queue_keys *k);
struct queue_letters_glance {
	int64_t entries, records;	/* how many there are */
	int64_t oldest_ms;		/* the oldest record is of then; 0: there is none */
	int64_t server_ms;
	const char *claimed_by;		/* node whose archive has claimed some; "": none. A view into the reply */
};
int queue_letters_glanced(const struct redis_reply *reply, struct queue_letters_glance *out);	/* -1: it is none */

/*
 * -> ARRAY for queue_letters_paged(): at most `entries` entries and `most` records, of each about so many bytes, but one at least. entries: the
 * page of queue_weigh() at the right end of escape
 */
void queue_letters_page(struct redis *r, const struct queue_keys *k, int64_t entries, int64_t most, int64_t bytes);
/* The same as if of the records were only there the n <= most of these ids, which are in their order, and those from `from` on */
void queue_letters_page_of(struct redis *r, const struct queue_keys *k, int64_t entries, int64_t most, int64_t bytes, const char *from,
    const char *const *ids, size_t n);
struct queue_letters_page {
	int64_t entries, records, server_ms;	/* as above */
	struct redis_reply entry_list, record_list;	/* ARRAYs, oldest first; a record is [id, [field, value ...]] */
	const char *newest;			/* the id of the newest record of all; part of the reply */
};
int queue_letters_paged(const struct redis_reply *reply, struct queue_letters_page *out);

/* -> INTEGER how many left of n <= QUEUE_LETTERS_GROUP. depth: so many of the oldest entries are looked at for each */
#define QUEUE_LETTERS_GROUP 16	/* some 3 ms of the server if none of them is there, at a depth of 100 */
struct queue_letter {
	struct queue_bytes message;
	const char *record_id;
	const char *sha1;		/* of the message; to claim it */
};
void queue_letters_remove(struct redis *r, const struct queue_keys *k, int64_t depth, const struct queue_letter *letters, size_t n);

struct queue_claimer {
	const char *lead;	/* the sweeper, as queue_lead() names it */
	const char *node;	/* its node, whose archive it is */
};

/*
 * Claims dead letters for the archive of a node. From then on redrive leaves them, so that none is in the archive and in
 * ingress. fresh: drops all earlier claims first. -> ARRAY of the ids that are claimed. An id is missing if the dead letter
 * is not there any more. If the sweeper `lead` does not have the lead of the queue, the array is empty and nothing changes.
 */
void queue_letters_claim(struct redis *r, const struct queue_keys *k, const struct queue_claimer *who, bool fresh, int64_t depth,
    const struct queue_letter *letters, size_t n);
void queue_letters_release(struct redis *r, const struct queue_keys *k, const char *node);	/* Drops the claims of that node. -> INTEGER */

/* Writes the record of a dead letter that has none. newest: the id of the newest record of all, by a page or by the last answer. m: the whole of
 * an entry. -> STRING the id of the new record; "": the dead letter is not there any more, or a record was written since: look at a new page */
void queue_letters_adopt(struct redis *r, const struct queue_keys *k, int64_t depth, struct message *m, const char *newest,
    const struct record *record);

/*
 * Forwarding. Each -> ARRAY for queue_forward_paged(): the id of the last record that was forwarded, "0-0" if none was, and then the records
 * after it, [id, [field, value ...]]: at most `most`, of about `bytes` bytes, at least one.
 */
void queue_forward_page(struct redis *r, const struct queue_keys *k, int64_t most, int64_t bytes);
void queue_forwarded(struct redis *r, const struct queue_keys *k);	/* no records */
/* The same, and notes `last` as forwarded; not if another than `before` is noted, or if Redis returned to a state without the record `last`. */
void queue_forward_done(struct redis *r, const struct queue_keys *k, const char *before, const char *last);
int queue_forward_paged(const struct redis_reply *reply);	/* -1: it is none */

#define QUEUE_RECORDS_GROUP 100
/* Records without an entry. -> INTEGER how many were there */
void queue_records_remove(struct redis *r, const struct queue_keys *k, const char *const *ids, size_t n);

#endif
