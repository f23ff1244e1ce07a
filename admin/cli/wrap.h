#ifndef ADMIN_CLI_WRAP_H
#define ADMIN_CLI_WRAP_H

#include <stddef.h>
#include <stdio.h>

/* Breaks text into lines at blanks. All widths are columns of a terminal. */

/* The width of the terminal behind a file; SIZE_MAX: it is no terminal. */
size_t wrap_width(FILE *file);
/* The same for text that is a page to read, such as help: it has a width elsewhere, too. */
size_t wrap_page_width(FILE *file);

/* For a cell: the bytes of text that fit on a line, up to a blank. A longer word is broken. At least one byte, unless
 * text is empty. */
size_t wrap_cell(const char *text, size_t width);

/*
 * Writes a text, without a newline at its end. `at` columns of the first line are taken; further lines are indented. A
 * newline in the text begins a line. An operator copies words and commands ("quredis doctor --fix"), so these are never
 * broken: one that is longer has a line of its own, and the terminal breaks it.
 */
void wrap_write(FILE *out, const char *text, size_t at, size_t indent, size_t width);

#endif
