#ifndef ADMIN_CLI_VISIBLE_H
#define ADMIN_CLI_VISIBLE_H

#include <stddef.h>

/*
 * Untrusted bytes as one line of text that cannot control a terminal. Characters that are printable in the user's
 * locale stay; others become \ , \     , \\0, \\377 as in vis(3). Returns a new string of at most max_columns columns
 * (SIZE_MAX: no limit); a longer one is cut and ends in "...".
 */
char *visible(const void *data, size_t len, size_t max_columns);

/* The same for a line of quredis into which such strings were inserted: backslashes stay as they are. */
char *visible_line(const char *line);

/* The columns that a string made by visible() takes on a terminal. */
size_t visible_columns(const char *s);

/* The length in bytes of the longest beginning of s that takes at most max columns. */
size_t visible_fit(const char *s, size_t max_columns);

/* Shortens s in place to max columns, "..." included. */
void visible_cut(char *s, size_t max_columns);

#endif
