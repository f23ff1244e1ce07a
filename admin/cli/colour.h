#ifndef ADMIN_CLI_COLOUR_H
#define ADMIN_CLI_COLOUR_H

#include <stdbool.h>

/*
 * The meanings of a text on a terminal for the operator. colour.c has the colour of each meaning, and the meaning of
 * each word of a state. A colour is never the only sign: the text says the same.
 */
enum colour_meaning { MEANING_NONE, MEANING_GOOD, MEANING_WARNING, MEANING_BAD, MEANING_FAINT, MEANING_HEADING,
    MEANINGS };

/* --color=WHEN */
enum colour_choice { COLOUR_AUTO, COLOUR_ALWAYS, COLOUR_NEVER, COLOUR_CHOICES };
extern const char *const colour_choices[COLOUR_CHOICES];		/* "auto", … */

/* Auto: fd is a terminal that can show colours, and $NO_COLOR is not set or empty. An explicit choice overrides all of
 * these. */
bool colour_is_wanted(enum colour_choice choice, int fd);

/* True: $TERM names a terminal that obeys escape sequences. */
bool colour_terminal_obeys(void);

/* The bytes to write before and after a text. Empty if wanted is false, or the meaning has no colour. */
const char *colour_begin(bool wanted, enum colour_meaning meaning);
const char *colour_end(bool wanted, enum colour_meaning meaning);

/* The meaning of the word of a state, of a health or of a severity; MEANING_NONE for any other text, and NULL. */
enum colour_meaning colour_meaning_of(const char *word);

#endif
