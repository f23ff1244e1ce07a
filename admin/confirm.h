#ifndef ADMIN_CONFIRM_H
#define ADMIN_CONFIRM_H

#include <stdbool.h>

#include "admin/admin.h"

/* Somebody sits there who can be asked: standard input and error are terminals. */
bool confirm_possible(void);

/*
 * Asks "question [y/N]" on a terminal. Returns 0 to go on: with --yes, on a yes, and where nobody
 * can be asked. -1: no; the exit status is 1.
 */
int confirm(struct admin *a, const char *question);

/* For what cannot be undone at all: the name must be typed; where nobody can be asked, --yes is needed. */
int confirm_by_name(struct admin *a, const char *question, const char *name);

#endif
