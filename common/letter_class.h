#ifndef COMMON_LETTER_CLASS_H
#define COMMON_LETTER_CLASS_H

#include <stddef.h>

#include "common/scoreboard.h"

/* Why a message is a dead letter: the error_class of its record, and what counts those of it. */
struct letter_class {
	const char *name;
	int counter;		/* enum counter; -1: none counts them */
};
#define LETTER_CLASSES 12
extern const struct letter_class letter_classes[LETTER_CLASSES];	/* by name */

int letter_class_counter(const char *name);	/* -1: none, or no class of ours */

#endif
