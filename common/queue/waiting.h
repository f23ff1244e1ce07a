#ifndef COMMON_QUEUE_WAITING_H
#define COMMON_QUEUE_WAITING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/queue/moves.h"
#include "common/queue/scripts.h"

/*
 * Requests about messages that wait in ingress: stamps, reads, expiry (docs/design.md, "Time to live"). As in
 * common/queue/moves.h, every function that takes a struct redis appends one script and returns at once. Indexes count
 * from the pop end: -1 is the oldest.
 */

/*
 * A stamp is the time since which a message waits, by the server's clock, in its wrapper. A walk from index `from`
 * towards the pop end stamps each entry that does not begin like a wrapper. It returns those that do: the caller
 * verifies them, and stamps with the next call those whose wrapper has no time, or is not genuine.
 */
#define QUEUE_NEWEST INT64_MIN
struct queue_walk {
	/* for all entries without a wrapper; a walk skips an entry that has this very line */
	const struct message_stamp *line;
	/* QUEUE_NEWEST: the newest. While other programs push and pop, a walk may meet an entry twice, but skips
	 * none */
	int64_t from;
	int64_t count;		/* at most; fewer if the entries are large */
	int64_t lines;		/* the walk ends after so many entries that begin like a wrapper */
	int64_t longest;	/* in bytes: the script does not rewrite longer messages */
};
struct queue_line {		/* an entry that begins like a wrapper; its strings belong to the reply */
	int64_t at;
	size_t len;		/* of the entry */
	const char *line;	/* its first line */
	size_t line_len;
};
struct queue_stamp_one {	/* an entry to stamp, if it is still in the list */
	struct queue_line seen;
	size_t drop;		/* bytes of its old wrapper */
	struct message_stamp line;
};
/* -> ARRAY for queue_stamped() */
void queue_stamp(struct redis *r, const struct queue_keys *k, const struct queue_walk *walk);
/* -> INTEGER entries stamped */
void queue_stamp_seen(struct redis *r, const struct queue_keys *k, const struct queue_stamp_one *ones, size_t n);
struct queue_stamped {
	int64_t stamped;	/* how many entries were stamped */
	int64_t next;		/* index where the walk ended; 0: at the pop end */
	size_t n;		/* queue_stamped_line(reply, 0..n-1) */
};
int queue_stamped(const struct redis_reply *reply, struct queue_stamped *out);	/* -1: unexpected reply type */
struct queue_line queue_stamped_line(const struct redis_reply *reply, size_t i);

/*
 * -> ARRAY for queue_glanced(): for each entry first..last of a list, newest first, the beginning that may be a line of
 * quredis; "" if it is none. Payloads are cut. If entries are large, fewer are read: those nearest to `last`.
 */
void queue_glance(struct redis *r, const char *list, int64_t first, int64_t last);
/* by due time, 0 is the first; nearest to `first` */
void queue_glance_delayed(struct redis *r, const struct queue_keys *k, int64_t first, int64_t last);
struct queue_glanced {
	size_t n;		/* redis_element(reply, 0..n-1) */
	size_t bytes;		/* of the whole entries */
	bool more;		/* some entries were left out */
	int64_t server_ms;	/* by the clock of Redis, when it read them */
};
int queue_glanced(const struct redis_reply *reply, struct queue_glanced *out);	/* -1: unexpected reply type */

/*
 * Moves a message from delayed to escape, by value. record NULL: writes none. -> INTEGER 1; 2: moved, but the record
 * could not be written; 0: the message was missing
 */
void queue_expire_delayed(struct redis *r, const struct queue_keys *k, struct message *m, const struct record *record);

#endif
