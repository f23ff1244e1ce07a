#ifndef COMMON_QUEUE_WAITING_H
#define COMMON_QUEUE_WAITING_H

#include <stddef.h>
#include <stdint.h>

#include "common/queue.h"

/*
 * What waits in ingress, and for how long: marks, looks, expiry (docs/design.md, "Time to live"). As in
 * common/queue.h, every function that takes a struct redis appends one script and returns at once.
 * Entries are counted from the pop end: -1 is the oldest.
 */

/*
 * The newest waiting message is marked with the server's time. line: of its new wrapper, without newline and
 * mark (queue_mark_line()). seen NULL: if it has no wrapper; else what it begins with, of which `drop` bytes
 * are its old one. -> INTEGER 1; 0: nothing waits, or it changed; STRING: what it begins with, seen is wanted
 */
struct queue_seen {
	const char *data;
	size_t len, drop;
};
#define QUEUE_MARK_LINE_SIZE 256
void queue_mark_line(char out[QUEUE_MARK_LINE_SIZE], const struct wrapper *w);	/* as message_wrap(), its mark left out */
void queue_mark(struct redis *r, const struct queue_keys *k, const char *line, const struct queue_seen *seen);

/* -> ARRAY for queue_glanced(): n entries first..last of a list, newest first, each as far as it may be a line of
 * ours: "" if it is none; payloads are cut. */
void queue_glance(struct redis *r, const char *list, int64_t first, int64_t last);
void queue_glance_delayed(struct redis *r, const struct queue_keys *k, int64_t first, int64_t last);	/* by due time, 0 is the first */
void queue_delayed_page(struct redis *r, const struct queue_keys *k, int64_t first, int64_t last);	/* -> ARRAY of STRING, the same whole */
struct queue_glanced {
	size_t n;		/* redis_element(reply, 0..n-1) */
	size_t bytes;		/* of the whole entries */
	int64_t server_ms;	/* when they were read */
};
int queue_glanced(const struct redis_reply *reply, struct queue_glanced *out);	/* -1: it is none */

/* Why one has waited too long that says nothing of its age: it is to the right of a marked one. */
struct queue_proof {
	const char *line;	/* wrapper of the marked one; not owned */
	size_t len;
	int64_t mark_at, at;	/* where both were; they may have come nearer to the pop end together */
};
/* -> INTEGER 1; 2 done, but the record could not be written; 0 it has moved. record NULL: none is written */
void queue_expire(struct redis *r, const struct queue_keys *k, struct message *m, const struct queue_proof *proof,
    const struct record *record);
/* The same out of delayed, by value. */
void queue_expire_delayed(struct redis *r, const struct queue_keys *k, struct message *m, const struct record *record);

#endif
