#ifndef ADMIN_DEAD_LETTERS_FILTER_H
#define ADMIN_DEAD_LETTERS_FILTER_H

#include <stdbool.h>
#include <stddef.h>

#include "admin/dead_letters/dead_letter.h"
#include "admin/dead_letters/groups.h"

/*
 * Which dead letters a command means: the options of OPTION_FILTER. One table (filter.c) has for each of them the
 * option, which is also the parameter of the API, the fields of the record that it reads, its parser and its matcher.
 * since and until become ids of records, so that Redis skips the others.
 */
struct filter {
	struct admin *a;
	const char *class, *text, *worker, *exit_code, *root;	/* views into the options; NULL: any */
	/* the same, with one blank for each run of white space; owned */
	const char *cause;
	const char *since_given, *until_given;
	/* the first and the last id; "-" and "+" without the option */
	char since[RECORD_ID_SIZE], until[RECORD_ID_SIZE];
	struct groups others;		/* classes or causes of records that did not match, to suggest one */
	size_t matched, with_text;	/* with_text: did not match, but have the cause as a text */
};

/* Reads the options. -1: one of them is wrong (EX_USAGE), or an error of Redis. Free in both cases. */
int filter_read(struct admin *a, struct filter *f);
void filter_free(struct filter *f);
bool filter_is_empty(const struct filter *f);

/* d: a record between since and until, with the fields of filter_add_fields(). */
bool filter_matches(struct filter *f, const struct dead_letter *d);
/* Appends the fields that the filter reads to the n ones, without repeating one. Returns how many there are now. */
size_t filter_add_fields(const struct filter *f, const char *fields[QUEUE_LOOK_FIELDS], size_t n);
/* No dead letter matches both f and the filter in other. False: one may */
bool filter_excludes(const struct filter *f, const struct options *other);
/* Prints a notice if nothing matched: how many classes or causes begin with this text, or which one is similar. */
void filter_suggest(struct filter *f);

/* " class=TTLExpired since=02:00", as given, quoted for a shell; a new string. Equal only for equal options. "": no
 * filter */
char *filter_text(const struct filter *f);
/* ", class TTLExpired, since 2026-11-23T02:00:00.000Z" for questions; a new string. since, until: the ids that it acts
 * on, of f or of its operation */
char *filter_words(const struct filter *f, const char *since, const char *until);
bool filter_is_relative(const struct filter *f);	/* its times mean other moments later */

#endif
