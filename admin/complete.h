#ifndef ADMIN_COMPLETE_H
#define ADMIN_COMPLETE_H

#include <stddef.h>

/*
 * What may stand for the last of these words (those behind "quredis", up to the cursor), a line each on standard output:
 * "word TAB what it is". A line ":files" alone: the names of files.
 */
void complete_words(char *const *words, size_t n);

#endif
