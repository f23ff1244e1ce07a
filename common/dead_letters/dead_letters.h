#ifndef COMMON_DEAD_LETTERS_DEAD_LETTERS_H
#define COMMON_DEAD_LETTERS_DEAD_LETTERS_H

/* Dead letters and their records. */
#include "common/dead_letters/class.h"
#include "common/dead_letters/pair.h"
#include "common/dead_letters/removal.h"
#include "common/dead_letters/record_line.h"
#include "common/dead_letters/walk.h"	/* of removal.c */

#endif
