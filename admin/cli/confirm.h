#ifndef ADMIN_CLI_CONFIRM_H
#define ADMIN_CLI_CONFIRM_H

#include <stdbool.h>
#include <stdint.h>

#include "admin/cli/admin.h"

/* True: the operator can answer a question, since standard input and standard error are terminals. */
bool confirm_possible(void);

/* Asks a question that ends with "[y/N]", on a terminal. True: yes */
bool confirm_yes(const char *question);

/*
 * Asks a question that ends with "[y/N]". Returns 0 to go on: the operator answered yes, gave --yes, or has no
 * terminal. -1: the operator answered no; the exit status is 1.
 */
int confirm(struct admin *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Asks "VERB 3 messages of QUEUE LIST REST?"; n 0: it asks nothing. Returns as confirm() does. */
int confirm_messages(struct admin *a, const char *verb, int64_t n, const char *list, const char *rest);

/* For an action that cannot be undone: the operator must type the name. Without a terminal, --yes is required. */
int confirm_by_name(struct admin *a, const char *question, const char *name);

#endif
