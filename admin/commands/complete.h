#ifndef ADMIN_COMMANDS_COMPLETE_H
#define ADMIN_COMMANDS_COMPLETE_H

#include <stddef.h>

/*
 * Prints the candidates for the last of these words (the words after "quredis", up to the cursor), one a line: "word
 * TAB what it is". The single line ":files" means: names of files.
 */
struct command_table;
void complete_words(const struct command_table *all, char *const *words, size_t n);

#endif
