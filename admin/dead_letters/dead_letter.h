#ifndef ADMIN_DEAD_LETTERS_DEAD_LETTER_H
#define ADMIN_DEAD_LETTERS_DEAD_LETTER_H

#include <stdbool.h>

#include "admin/cli/cli.h"
#include "admin/dead_letters/records.h"
#include "common/dead_letters/dead_letters.h"

/* A record of escape's log with all its fields, also unknown ones. */
struct dead_letter {
	char record_id[RECORD_ID_SIZE];
	struct record_field *fields;
	size_t nfields;
	bool owned;		/* fields and bytes are copies: dead_letter_free() */
};

#define DEAD_LETTER_SHOWN (16 * 1024)	/* bytes of each value: enough for every field but the message */
#define DEAD_LETTER_WHOLE (1 << 30)

/* Which records a walk reads. Zeroed: all of the log, newest first, with the first DEAD_LETTER_SHOWN bytes of each
 * value. */
struct dead_letter_walk {
	/* the ids where it begins and ends; NULL: the first and the last one in its direction */
	const char *from, *to;
	bool up;			/* oldest first */
	bool done;			/* of the history instead */
	int64_t shown;			/* bytes of each value; 0: DEAD_LETTER_SHOWN */
	const char *const *fields;	/* only these, of "name:N" the first N bytes; NULL: all */
	size_t nfields;
};
/*
 * Calls f for each of these records. d is valid during the call only. f may send requests to Redis. It returns 0 to go
 * on, 1 to stop, -1 after an error of its own. Returns 0 at the end; 1: f stopped; -1: error
 */
int dead_letter_walk(struct admin *a, const struct dead_letter_walk *what,
    int (*f)(void *arg, const struct dead_letter *d), void *arg);
/* the zeroed walk */
int dead_letter_each(struct admin *a, int (*f)(void *arg, const struct dead_letter *d), void *arg);

/*
 * Finds a record by its id, or the newest record with this message id; if there are several, it prints a notice. Reads
 * the first `shown` bytes of each value. -1: no such record (EX_NOINPUT), or an error of Redis.
 */
int dead_letter_find(struct admin *a, const char *id, int64_t shown, struct dead_letter *d);
/* Reads the record with this id. 1: found, d is to be freed; 0: there is none; -1: error of Redis. */
int dead_letter_read(struct admin *a, const char *id, int64_t shown, struct dead_letter *d);
void dead_letter_free(struct dead_letter *d);

/* NULL: the record does not have it */
const struct queue_bytes *dead_letter_field(const struct dead_letter *d, const char *name);
/* the same; "" if the record does not have it */
struct queue_bytes dead_letter_value(const struct dead_letter *d, const char *name);
bool dead_letter_is(const struct dead_letter *d, const char *field, const char *value);

/* Reads what a move must know. */
struct record_brief dead_letter_brief(const struct dead_letter *d);

/* Returns a field as a cell: a number if the field is numeric, CELL_NONE if it is empty. */
struct cell dead_letter_cell(const struct dead_letter *d, const char *field);

/*
 * Finds the producer's message in escape. 1: found; a move can name it by e, which the caller frees by entry_free(); 0:
 * it is not in escape any more; -1: error of Redis. first: as in entry_find().
 */
struct list_entry;
int dead_letter_entry(struct admin *a, const struct dead_letter *d, int64_t first, struct list_entry *e);

/*
 * Copies the producer's message from a record that was read with DEAD_LETTER_WHOLE; or from the list, if the message
 * was too large for its record. The caller frees data; NULL: neither has the message. -1: error of Redis.
 */
int dead_letter_message(struct admin *a, const struct dead_letter *d, struct queue_bytes *message);

#endif
