#ifndef ADMIN_DEAD_LETTER_H
#define ADMIN_DEAD_LETTER_H

#include <stdbool.h>

#include "admin/admin.h"
#include "admin/records.h"
#include "common/record_line.h"

/* One entry of escape's log: fields as they stand there, whatever they are called. */
struct dead_letter {
	char record_id[RECORD_ID_SIZE];
	struct record_field *fields;
	size_t nfields;
	bool owned;		/* fields and bytes are copies: dead_letter_free() */
};

/* All records, newest first. The function's d is valid during the call only; it returns 0 to go on, 1 to stop.
 * Returns 0 at the end, 1 if stopped, -1: Redis. */
int dead_letter_each(struct admin *a, int (*f)(void *arg, const struct dead_letter *d), void *arg);
/* The same of those that are older than the one with this id, whether that is still there or not. */
int dead_letter_each_before(struct admin *a, const char *record_id, int (*f)(void *arg, const struct dead_letter *d), void *arg);
/* The same of the history of what is done. */
int dead_letter_each_done(struct admin *a, int (*f)(void *arg, const struct dead_letter *d), void *arg);
/* As dead_letter_each(), oldest first, to that one (NULL: to the end, wherever that is by then); the function may ask Redis.
 * It returns -1 after an error of its own, which is returned. */
int dead_letter_each_oldest(struct admin *a, const char *until, int (*f)(void *arg, const struct dead_letter *d), void *arg);

/* By record id, or the newest with this message id (said if there are more). -1: none, EX_NOINPUT, or Redis. */
int dead_letter_find(struct admin *a, const char *id, struct dead_letter *d);
void dead_letter_free(struct dead_letter *d);

bool dead_letter_is(const struct dead_letter *d, const char *field, const char *value);

/* As a number where the field is one; none where it is empty. */
struct cell dead_letter_cell(const struct dead_letter *d, const char *field);

/*
 * The producer's message: from the record, or from the list if it was too large for that. A new
 * copy; data is NULL if it is in neither. -1: Redis.
 */
int dead_letter_message(struct admin *a, const struct dead_letter *d, struct queue_bytes *message);

#endif
