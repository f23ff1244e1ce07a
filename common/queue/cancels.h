#ifndef COMMON_QUEUE_CANCELS_H
#define COMMON_QUEUE_CANCELS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/queue/moves.h"

/*
 * Orders of operators to cancel messages in flight: the hash `cancels` of a queue. A field is the SHA-1 of a message
 * without our line. An order says where the operator saw the message, so that a worker can tell it from an equal
 * message that came later. It stays until a worker has written the result in its place, or QUEUE_CANCEL_KEEP_MS have
 * passed. As in common/queue/moves.h, each function appends one script or command.
 */
#define QUEUE_CANCELS_MAX 100				/* orders in a queue */
#define QUEUE_CANCEL_KEEP_MS INT64_C(600000)		/* an order without a result */
#define QUEUE_CANCEL_ENDED_MS INT64_C(30000)		/* a result: for the operator who waits for it */
#define QUEUE_CANCEL_BY_SIZE 128

enum queue_cancel_result { CANCEL_WANTED, CANCEL_ESCAPED, CANCEL_HANDED_BACK, CANCEL_NOT_RUNNING, CANCEL_RESULTS };
extern const char *const queue_cancel_results[CANCEL_RESULTS];	/* "ordered", "escaped", "handed_back", "not_running" */

struct queue_cancel {
	enum queue_cancel_result result;
	/* all further ones: of CANCEL_WANTED */
	char owner[INCARNATION_SIZE];		/* of the tray that holds it */
	int attempts;				/* its wrapper, at that time */
	int marks;				/* queue_cancel_marks() */
	int64_t redriven_ms;
	bool retry;				/* hand it back, to run again; false: it escapes */
	char by[QUEUE_CANCEL_BY_SIZE];		/* the operator, "USER@HOST" */
};

/* How often the message may have run before without an attempt: grows whenever another process takes it over. */
int queue_cancel_marks(const struct wrapper *w);
#define QUEUE_CANCEL_TEXT_SIZE (INCARNATION_SIZE + QUEUE_CANCEL_BY_SIZE + 96)
void queue_cancel_format(const struct queue_cancel *c, char out[QUEUE_CANCEL_TEXT_SIZE]);
int queue_cancel_parse(struct queue_cancel *c, const char *text, size_t len);	/* -1: another form */

/*
 * The entry at its place in a tray, whose first `strip` bytes are ours. -> STRING its field; INTEGER 0: it is not
 * there; -2: Redis cannot tell, look again; -3: there are QUEUE_CANCELS_MAX orders
 */
void queue_cancel(struct redis *r, const struct queue_keys *k, const char *tray, const struct queue_entry *e,
    size_t strip, const struct queue_cancel *c);
/* -> ARRAY of STRING: of each order its field, its age in ms, and its text */
void queue_cancels(struct redis *r, const struct queue_keys *k);
/* -> INTEGER: orders, and results that are kept */
void queue_cancels_count(struct redis *r, const struct queue_keys *k);
/* -> STRING: its time and its text; NIL */
void queue_cancel_read(struct redis *r, const struct queue_keys *k, const char *field);
/* Replaces an order, if it still is `before`. A result gets the present time. -> INTEGER 1; 0: it is not */
void queue_cancel_note(struct redis *r, const struct queue_keys *k, const char *field, const char *before,
    const struct queue_cancel *after);

#endif
