#ifndef SWEEPER_RESCUE_PAGE_H
#define SWEEPER_RESCUE_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/message.h"

struct sweeper;
struct swept;
struct rescue;

#define RESCUE_PAGE_MAX 100

/* What is under way while a page is returned. */
struct rescue_page {
	struct sweeper *s;
	struct swept *q;
	struct rescue *r;
	const char *owner;	/* NULL: the bare list */
	char *rescue, *lease;	/* keys */
	int64_t tray;		/* how many lay in the tray; -1: not known */
	struct wrapper notes[RESCUE_PAGE_MAX];	/* what lies beside them, in a shared queue */
	bool noted[RESCUE_PAGE_MAX];
	size_t n;
	struct sent {
		char id[MESSAGE_ID_MAX + 1];
		int crashes;
		bool escapes;
	} sent[RESCUE_PAGE_MAX];
};

/* 1: there was something, and it is returned; 0: the list is empty; -1: error. */
int rescue_page_return(struct rescue_page *p);

#endif
