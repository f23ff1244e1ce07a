#ifndef SWEEPER_VACANCIES_H
#define SWEEPER_VACANCIES_H

#include <bsd/sys/tree.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sweeper/registry_page.h"

/* An entry of the registry with nothing behind it, at every look since. All times: CLOCK_MONOTONIC. */
struct vacancy {
	RB_ENTRY(vacancy) entry;
	char *name, *score, *json;	/* json NULL: only the name is there */
	int64_t since_ms, looked_ms;
	int64_t told_ms;		/* by a dry run; 0: never */
	uint64_t turn;			/* in which it was seen last */
};
RB_HEAD(vacancy_tree, vacancy);

#define VACANCIES_MAX 10000	/* more are waited for until some of them are gone */

/* Zeroed: nothing is known. */
struct vacancies {
	struct vacancy_tree tree;
	size_t n;
	struct registry_page page;
	size_t next;		/* entry of it; <= page.n */
	uint64_t turn;
	int64_t begun_ms;	/* this turn; 0: none yet */
};

/*
 * Nothing is behind e now. Returns what is known of it: since when that is so, if e is the same entry and no look is longer
 * ago than gap_ms. NULL: there are too many.
 */
struct vacancy *vacancies_note(struct vacancies *v, const struct registered *e, int64_t gap_ms, int64_t now_ms);
void vacancies_forget(struct vacancies *v, const char *name);	/* something is, or it left */
void vacancies_end_turn(struct vacancies *v);	/* those that were not seen in it are no entries any more */
void vacancies_free(struct vacancies *v);	/* what is known; the page is its reader's */

#endif
