#ifndef COMMON_QUEUE_OPERATIONS_H
#define COMMON_QUEUE_OPERATIONS_H

#include "common/queue/admin.h"
#include "common/queue/moves.h"
#include "common/queue/scripts.h"

/*
 * Long work of an operator on the dead letters of a queue. The hash `operations` remembers each piece of it until it is
 * complete, so that a repeated command continues it. The fields of one have its id before them. `holder` names the
 * process that works on it: every step asks for it, so that a process that lost it, or a Redis that went back to an
 * earlier state, takes nothing twice. The key `redriven:ID` notes which messages an operation at a pace has moved back.
 * As in common/queue/moves.h, each function appends one script or command.
 */
#define QUEUE_OPERATION_HOLD_MS 5000			/* then another process may continue it */
#define QUEUE_OPERATION_KEEP_MS INT64_C(604800000)	/* since the last step */
#define QUEUE_OPERATION_ID_SIZE 17

/* The only list of the fields. Each is missing or "" while it has no value. */
#define QUEUE_OPERATION_FIELDS(X) \
	X(WHAT, "what")			/* action and filter */ \
	X(OPTIONS, "options")		/* filter and pace, as JSON, so that quredis doctor can show the command */ \
	X(HOLDER, "holder")		/* host, pid and a random number */ \
	X(HELD, "held")			/* until this time the holder has it */ \
	X(BEGUN, "begun")		/* time, as all times here in ms by the clock of Redis */ \
	X(SINCE, "since")		/* the records that it means: from here to bound */ \
	X(BOUND, "bound") \
	X(NEXT, "next")			/* the record where it goes on */ \
	X(TOTAL, "total")		/* how many it means, if they were counted */ \
	X(DONE, "done")			/* how many it has moved back or deleted */ \
	X(CANARY_FROM, "canary_from")	/* how many were done before the canary */ \
	X(CANARY_NEWEST, "canary_newest")	/* fingerprint of the newest dead letter before the canary */ \
	X(CANARY_FINGERPRINTS, "canary_fingerprints") \
	X(CANARY_DONE, "canary_done")	/* "1" */ \
	X(LAST_AT, "last_at")		/* at a slow rate: time of the last message */ \
	X(BY, "by")			/* user and host of the command that gave it to the sweeper */ \
	/* "run": the leading sweeper executes it; "stop": its holder shall stop; "stopped": it has; else neither */ \
	X(WANTED, "wanted") \
	/* of the sweeper's run: its time, a blank, and JSON. It stays for a day when the operation is complete */ \
	X(RESULT, "result")

enum queue_operation_field {
#define X(field, ...) OPERATION_##field,
	QUEUE_OPERATION_FIELDS(X)
#undef X
	OPERATION_FIELDS
};

/* instead: the dead holder to replace, or "". values: fields of a new operation; NULL: one is continued. -> ARRAY of
 * STRING, as operation_hold.lua says */
void queue_operation_hold(struct redis *r, const struct queue_keys *k, const char *id, const char *holder,
    const char *instead, const char *const values[OPERATION_FIELDS]);
/*
 * Stores the value of a field; NULL: of none. hold_ms 0: gives it up; -1: forgets it, but for the field. done: only if
 * so many are done; -1: any number. -> INTEGER 1; 2: an operator wants it to stop; 0: another process holds it, or
 * Redis went back
 */
void queue_operation_note(struct redis *r, const struct queue_keys *k, const char *id, const char *holder,
    int64_t hold_ms, int64_t done, enum queue_operation_field field, const char *value);
/* forgets its result, which a command has read -> INTEGER */
void queue_operation_forget_result(struct redis *r, const struct queue_keys *k, const char *id);
/* -> INTEGER 1: its holder is asked to stop; 2: no process works on it, and no sweeper will; 0: there is no such
 * operation */
void queue_operation_stop(struct redis *r, const struct queue_keys *k, const char *id);
/*
 * Pushes messages of a file whose import has come to `expected`, and notes `position` under this field of `operations`.
 * -> INTEGER 1; 0: another position is noted, and nothing was pushed
 */
void queue_import(struct redis *r, const struct queue_keys *k, const char *field, const char *expected,
    const char *position, const struct queue_bytes *messages, size_t n);
void queue_operation_read(struct redis *r, const struct queue_keys *k, const char *id);		/* -> ARRAY */
/* The fields in an answer, from element `from` on; they point into it. A missing one is "". false: the answer has other
 * elements */
bool queue_operation_parse(const struct redis_reply *reply, size_t from, const char *values[OPERATION_FIELDS]);
/* -> INTEGER 1: perhaps; 0: there is none */
void queue_operations_exist(struct redis *r, const struct queue_keys *k);
/* Some of the operations, all of them if there are less than a hundred. -> ARRAY of the cursor and an ARRAY: "ID:FIELD"
 * and its text, in turns */
void queue_operations_list(struct redis *r, const struct queue_keys *k, enum queue_operation_field field);
/* The next operation of such an answer: writes its id, and sets *text, which points into the answer. Passes over what
 * is none of quredis. *at is 0 at first. false: there are no more */
bool queue_operations_listed(const struct redis_reply *reply, size_t *at, char id[QUEUE_OPERATION_ID_SIZE],
    const char **text);
/* A fingerprint is the first digits of a SHA-1 that tells a message from others. */
#define QUEUE_FINGERPRINT_DIGITS 16
/* Notes a message that moves back, as dead_letters_take.lua does. -> two INTEGERs */
void queue_redriven_add(struct redis *r, const struct queue_keys *k, const char *id, const char *fingerprint);
/* -> STRING: fingerprints, from this byte on */
void queue_redriven_read(struct redis *r, const struct queue_keys *k, const char *id, size_t from, size_t len);
/* -> INTEGER */
void queue_destroy_redriven(struct redis *r, const struct queue_keys *k, const char *id);

/* A dead letter that an operation takes. */
struct queue_taken {
	int64_t at;			/* index in escape from the right: -1 is the oldest */
	size_t size;
	const char *sha1, *record_id;
	struct buffer line;		/* its new wrapper */
};
/*
 * Takes dead letters, in their order, up to the first that is not at its place. ingress false: deletes them. gone: a
 * text that no message has. noted: remember their fingerprints. next: the record where the operation goes on. -> ARRAY
 * of INTEGER: how many, and how many the operation has done; -1: it is not held
 */
#define QUEUE_TAKEN_MAX 100
void queue_dead_letters_take(struct redis *r, const struct queue_keys *k, const char *id, const char *holder,
    bool ingress, bool noted, const char *gone, const char *next, const struct queue_taken *taken, size_t n);
/* -> INTEGER index from the right; 0: not there; 1: Redis cannot tell */
void queue_dead_letter_place(struct redis *r, const struct queue_keys *k, const void *message, size_t len);

#endif
