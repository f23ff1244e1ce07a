#ifndef COMMON_DEAD_LETTERS_REMOVAL_H
#define COMMON_DEAD_LETTERS_REMOVAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/dead_letters/record_line.h"
#include "common/queue/queue.h"

/*
 * Requests about the old ends of escape and of its log, where bounds remove dead letters (docs/design.md, "Dead letters
 * that leave"). As in common/queue/moves.h, every function that takes a struct redis appends one script and returns at
 * once.
 */
#define QUEUE_DEAD_LETTERS_PAGE_MAX 100

/* -> ARRAY for queue_dead_letters_glanced() */
void queue_dead_letters_glance(struct redis *r, const struct queue_keys *k);
struct queue_dead_letters_glance {
	int64_t entries, records;	/* their numbers */
	int64_t oldest_ms;		/* time of the oldest record; 0: no record */
	int64_t server_ms;
	/* node whose archive has claimed dead letters; "": none. A view into the reply */
	const char *claimed_by;
};
/* -1: unexpected reply type */
int queue_dead_letters_glanced(const struct redis_reply *reply, struct queue_dead_letters_glance *out);

/*
 * -> ARRAY for queue_dead_letters_paged(): at most `entries` entries and `most` records, of each about `bytes` bytes,
 * but at least one. entries: the page of queue_weigh() at the right end of escape
 */
void queue_dead_letters_page(struct redis *r, const struct queue_keys *k, int64_t entries, int64_t most, int64_t bytes);
/* The same as if the log had only the n <= most records with these ids, which are in order, and the records from `from`
 * on */
void queue_dead_letters_page_of(struct redis *r, const struct queue_keys *k, int64_t entries, int64_t most,
    int64_t bytes, const char *from, const char *const *ids, size_t n);
struct queue_dead_letters_page {
	int64_t entries, records, server_ms;	/* as above */
	struct redis_reply entry_list, record_list;	/* ARRAYs, oldest first; a record is [id, [field, value ...]] */
	const char *newest;			/* id of the newest record in the log; part of the reply */
};
int queue_dead_letters_paged(const struct redis_reply *reply, struct queue_dead_letters_page *out);

/*
 * Removes n <= QUEUE_DEAD_LETTERS_GROUP dead letters with their records. -> INTEGER how many left. depth: Redis
 * searches each one among so many of the oldest entries
 */
#define QUEUE_DEAD_LETTERS_GROUP 16	/* about 3 ms of the server if none of them is found, at a depth of 100 */
struct queue_dead_letter {
	struct queue_bytes message;
	const char *record_id;
	const char *sha1;		/* of the message; needed to claim it */
};
void queue_dead_letters_remove(struct redis *r, const struct queue_keys *k, int64_t depth,
    const struct queue_dead_letter *letters, size_t n);

struct queue_claimer {
	const char *lead;	/* name of the sweeper, as for queue_lead() */
	const char *node;	/* its node, which owns the archive */
};

/*
 * Claims dead letters for the archive of a node. From then on redrive skips them, so that none is both in the archive
 * and in ingress. fresh: drops all earlier claims first. -> ARRAY of the ids that are claimed. An id is missing if the
 * dead letter is gone. If the sweeper `lead` does not have the lead of the queue, the array is empty and nothing
 * changes.
 */
void queue_dead_letters_claim(struct redis *r, const struct queue_keys *k, const struct queue_claimer *who, bool fresh,
    int64_t depth, const struct queue_dead_letter *letters, size_t n);
/* Drops the claims of that node. -> INTEGER */
void queue_dead_letters_release(struct redis *r, const struct queue_keys *k, const char *node);

/*
 * Writes the record of a dead letter that has none. newest: the id of the newest record in the log, from a page or from
 * the last answer. m: the whole entry. -> STRING the id of the new record; "": the dead letter is gone, or another
 * record was written since: read a new page
 */
void queue_dead_letters_adopt(struct redis *r, const struct queue_keys *k, int64_t depth, struct message *m,
    const char *newest, const struct record *record);

/*
 * Forwarding. Each -> ARRAY for queue_forward_paged(): the id of the last record that was forwarded, "0-0" if none was,
 * and then the records after it, [id, [field, value ...]]: at most `most`, of about `bytes` bytes, at least one.
 */
void queue_forward_page(struct redis *r, const struct queue_keys *k, int64_t most, int64_t bytes);
void queue_forwarded(struct redis *r, const struct queue_keys *k);	/* without records */
/*
 * The same, and stores `last` as forwarded; but not if the stored id is not `before`, or if Redis returned to a state
 * without the record `last`.
 */
void queue_forward_done(struct redis *r, const struct queue_keys *k, const char *before, const char *last);
int queue_forward_paged(const struct redis_reply *reply);	/* -1: unexpected reply type */

#define QUEUE_RECORDS_GROUP 100
/* Removes records without an entry. -> INTEGER records removed */
void queue_records_remove(struct redis *r, const struct queue_keys *k, const char *const *ids, size_t n);

#endif
