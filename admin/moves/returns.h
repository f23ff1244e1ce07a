#ifndef ADMIN_MOVES_RETURNS_H
#define ADMIN_MOVES_RETURNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "admin/cli/cli.h"
#include "admin/dead_letters/dead_letters.h"

/* A set of names of messages, 8 bytes each: of the sha1 of a message, in 16 hexadecimal digits. Each has a cause: returns_cause(), 0: none. */
struct name_set {
	uint64_t *slots;	/* 0: free */
	uint32_t *causes;
	size_t n, room;
};
#define NAME_DIGITS 16
void returns_name_add(struct name_set *s, const char *digits, uint32_t cause);
bool returns_name_is_in(const struct name_set *s, const char *digits);

/*
 * The messages that an operation has put back into ingress. It counts how many of them are dead letters again, by the records behind its bound. Redis notes
 * the messages, too (`returned`), so that a repeated command knows those of the one before.
 */
struct returns {
	struct name_set sums;
	char next[RECORD_ID_SIZE];	/* id from which the log is read on */
	int64_t failed;			/* records behind the bound that belong to one of them */
	char first[RECORD_ID_SIZE], last[RECORD_ID_SIZE];	/* ids of the oldest and the newest such record */
	const char *cause;		/* all had this one before they were put back; NULL: each has its own */
};

/* Counts records behind `bound`, and learns what Redis has noted. cause: that of all of them, or NULL. -1: error of Redis */
int returns_begin(struct admin *a, struct returns *r, const char *bound, const char *cause);
void returns_add(void *returns, const char *sha1, uint32_t cause);	/* sha1 of a dead letter, as it was in escape */
uint32_t returns_cause(const char *cause);		/* a short name of the text of a cause; never 0 */
/* The cause that one of these messages had before it was put back. 0: an earlier command put it back, and nothing noted its cause. */
uint32_t returns_cause_before(const struct returns *r, const char *digits);
int returns_look(struct admin *a, struct returns *r);
void returns_free(struct returns *r);

/*
 * 1: one of these messages waits, is delayed or in flight; 0: none is; -1: error of Redis. A large message with the same length and ends counts as the same
 * one, whatever its wrapper. names: those of returns_name_of(), one after the other
 */
int returns_are_under_way(struct admin *a, const char *names);
struct list_entry;
void returns_name_of(const struct list_entry *message, char name[NAME_DIGITS + 1]);

#endif
