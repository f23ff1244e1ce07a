#ifndef COMMON_DEAD_LETTERS_CLASS_H
#define COMMON_DEAD_LETTERS_CLASS_H

#include <stddef.h>

#include "common/board/board.h"

/* Why a message is a dead letter: the error_class of its record, and the counter of such dead letters. */
struct letter_class {
	const char *name;
	int counter;		/* enum counter; -1: no counter */
};
#define LETTER_CLASSES 12
extern const struct letter_class letter_classes[LETTER_CLASSES];	/* sorted by name */

int letter_class_counter(const char *name);	/* -1: no counter, or an unknown class */

#endif
