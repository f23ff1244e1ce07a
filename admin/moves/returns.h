#ifndef ADMIN_MOVES_RETURNS_H
#define ADMIN_MOVES_RETURNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "admin/cli/cli.h"
#include "admin/dead_letters/dead_letters.h"

/* A set of names of messages, 8 bytes each: of the sha1 of a message, in 16 hexadecimal digits. */
struct name_set {
	uint64_t *slots;	/* 0: free */
	size_t n, room;
};
#define NAME_DIGITS 16
void returns_name_add(struct name_set *s, const char *digits);
bool returns_name_is_in(const struct name_set *s, const char *digits);

/*
 * The messages that an operation has put back into ingress. It counts how many of them are dead letters again, by the records behind its bound. Redis notes
 * the messages, too (`returned`), so that a repeated command knows those of the one before.
 */
struct returns {
	struct name_set sums;
	char next[RECORD_ID_SIZE];	/* id from which the log is read on */
	int64_t failed;			/* records behind the bound that belong to one of them */
	char last[RECORD_ID_SIZE];	/* id of the newest such record */
};

/* Counts records behind `bound`, and learns what Redis has noted. -1: error of Redis */
int returns_begin(struct admin *a, struct returns *r, const char *bound);
void returns_add(void *returns, const char *sha1);	/* sha1 of a dead letter, as it was in escape */
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
