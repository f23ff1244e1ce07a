#ifndef COMMON_DEAD_LETTERS_CLASS_H
#define COMMON_DEAD_LETTERS_CLASS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/board/board.h"

/* Why a message is a dead letter: the error_class of its record, and the counter of such dead letters. */
struct dead_letter_class {
	const char *name;
	int counter;		/* enum counter; -1: no counter */
};
#define DEAD_LETTER_CLASSES 17
extern const struct dead_letter_class dead_letter_classes[DEAD_LETTER_CLASSES];	/* sorted by name */

bool dead_letters_class_is_own(const char *name);		/* one of these classes: a handler may not name it */
int dead_letter_class_counter(const char *name);	/* -1: no counter, or an unknown class */

#endif
