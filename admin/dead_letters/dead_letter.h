#ifndef ADMIN_DEAD_LETTERS_DEAD_LETTER_H
#define ADMIN_DEAD_LETTERS_DEAD_LETTER_H

#include <stdbool.h>

#include "admin/cli/cli.h"
#include "admin/dead_letters/records.h"
#include "common/dead_letters/dead_letters.h"

/* One entry of escape's log: fields as they stand there, whatever they are called. */
struct dead_letter {
	char record_id[RECORD_ID_SIZE];
	struct record_field *fields;
	size_t nfields;
	bool owned;		/* fields and bytes are copies: dead_letter_free() */
};

#define DEAD_LETTER_SHOWN (16 * 1024)	/* of each value: all but the messages */
#define DEAD_LETTER_WHOLE (1 << 30)

/* All records, newest first, of each value the first DEAD_LETTER_SHOWN bytes. The function's d is valid during the call only; it returns 0 to go on, 1 to stop.
 * Returns 0 at the end, 1 if stopped, -1: Redis. */
int dead_letter_each(struct admin *a, int (*f)(void *arg, const struct dead_letter *d), void *arg);
/* The same of those that are older than the one with this id, whether that is still there or not. */
int dead_letter_each_before(struct admin *a, const char *record_id, int (*f)(void *arg, const struct dead_letter *d), void *arg);
/* The same of the history of what is done. */
int dead_letter_each_done(struct admin *a, int (*f)(void *arg, const struct dead_letter *d), void *arg);
/* As dead_letter_each(), with the first `shown` bytes of each value, oldest first, to that one (NULL: to the end, wherever that is by then); the function may ask Redis.
 * It returns -1 after an error of its own, which is returned. */
int dead_letter_each_oldest(struct admin *a, const char *until, int64_t shown, int (*f)(void *arg, const struct dead_letter *d), void *arg);

/* By record id, or the newest with this message id (said if there are more); the first `shown` bytes of each value. -1: none,
 * EX_NOINPUT, or Redis. */
int dead_letter_find(struct admin *a, const char *id, int64_t shown, struct dead_letter *d);
void dead_letter_free(struct dead_letter *d);

bool dead_letter_is(const struct dead_letter *d, const char *field, const char *value);

/* As a number where the field is one; none where it is empty. */
struct cell dead_letter_cell(const struct dead_letter *d, const char *field);

/* The producer's message as a move names it, 1; 0: it is not in escape any more; -1: Redis. To be freed by entry_free(). first: as in entry_find(). */
struct list_entry;
int dead_letter_entry(struct admin *a, const struct dead_letter *d, int64_t first, struct list_entry *e);

/*
 * The producer's message: from a record read as DEAD_LETTER_WHOLE, or from the list if it was too large for that. A new
 * copy; data is NULL if it is in neither. -1: Redis.
 */
int dead_letter_message(struct admin *a, const struct dead_letter *d, struct queue_bytes *message);

#endif
