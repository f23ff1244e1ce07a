#ifndef TESTS_UNIT_DESCRIPTORS_H
#define TESTS_UNIT_DESCRIPTORS_H

#include <stddef.h>

/* How many this process has open; the same each time that nothing leaks. */
size_t descriptors_open(void);

#endif
