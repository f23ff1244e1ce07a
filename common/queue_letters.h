#ifndef COMMON_QUEUE_LETTERS_H
#define COMMON_QUEUE_LETTERS_H

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
};
int queue_letters_glanced(const struct redis_reply *reply, struct queue_letters_glance *out);	/* -1: it is none */

/* -> ARRAY for queue_letters_paged(): at most `most` entries and as many records, of each about so many bytes, but one at least */
void queue_letters_page(struct redis *r, const struct queue_keys *k, int64_t most, int64_t bytes);
/* The same as if of the records were only there the n <= most of these ids, which are in their order, and those from `from` on */
void queue_letters_page_of(struct redis *r, const struct queue_keys *k, int64_t most, int64_t bytes, const char *from,
    const char *const *ids, size_t n);
struct queue_letters_page {
	int64_t entries, records, server_ms;	/* as above */
	struct redis_reply entry_list, record_list;	/* ARRAYs, oldest first; a record is [id, [field, value ...]] */
};
int queue_letters_paged(const struct redis_reply *reply, struct queue_letters_page *out);

/* -> INTEGER how many left of n <= QUEUE_LETTERS_GROUP. depth: so many of the oldest entries are looked at for each */
#define QUEUE_LETTERS_GROUP 16	/* some 3 ms of the server if none of them is there, at a depth of 100 */
struct queue_letter {
	struct queue_bytes message;
	const char *record_id;
};
void queue_letters_remove(struct redis *r, const struct queue_keys *k, int64_t depth, const struct queue_letter *letters, size_t n);

/* -> INTEGER 1; 0: not there any more. m: the whole of an entry */
void queue_letters_adopt(struct redis *r, const struct queue_keys *k, int64_t depth, struct message *m, const struct record *record);

/* -> ARRAY for queue_forward_paged(): at most `most` records behind the last that was forwarded, of about so many bytes, but one at least */
void queue_forward_page(struct redis *r, const struct queue_keys *k, int64_t most, int64_t bytes);
int queue_forward_paged(const struct redis_reply *reply);	/* 0: an ARRAY of records, [id, [field, value ...]]; -1: it is none */
void queue_forwarded(struct redis *r, const struct queue_keys *k);	/* -> STRING id of that, or NIL */
void queue_forward_done(struct redis *r, const struct queue_keys *k, const char *record_id);	/* -> STATUS */

#define QUEUE_RECORDS_GROUP 100
/* Records without an entry. -> INTEGER how many were there */
void queue_records_remove(struct redis *r, const struct queue_keys *k, const char *const *ids, size_t n);

#endif
