#ifndef TESTS_UNIT_UNDER_VALGRIND_H
#define TESTS_UNIT_UNDER_VALGRIND_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* It executes and limits in its own way, and is slow. */
static inline bool under_valgrind(void)
{
	const char *preload = getenv("LD_PRELOAD");

	return preload != NULL && strstr(preload, "vgpreload") != NULL;
}

#endif
