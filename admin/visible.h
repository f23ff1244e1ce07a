#ifndef ADMIN_VISIBLE_H
#define ADMIN_VISIBLE_H

#include <stddef.h>

/*
 * Foreign bytes as one line of text that cannot steer a terminal: what is printable in the user's
 * locale stays, the rest becomes \n, \t, \0, \377 as vis(3) writes it. A new string. At most
 * max_columns columns are made (SIZE_MAX: all); what does not fit ends in "...".
 */
char *visible(const void *data, size_t len, size_t max_columns);

/* The same for a line of ours into which things were put, visible() already or not: a backslash is left alone. */
char *visible_line(const char *line);

/* Columns of a terminal that a string made by visible() takes. */
size_t visible_columns(const char *s);

/* Bytes of the longest beginning of s that takes at most max columns. */
size_t visible_fit(const char *s, size_t max_columns);

/* Shortens s in place to max columns, "..." included. */
void visible_cut(char *s, size_t max_columns);

#endif
