#ifndef TESTS_UNIT_FILE_TEXT_H
#define TESTS_UNIT_FILE_TEXT_H

#include "common/base/buffer.h"

/* The file that was read last, with a NUL behind it that counts. */
extern struct buffer file_bytes;

/* The whole file, good until the next call. One that cannot be opened fails the test. */
const char *file_text(const char *path);
void file_contains(const char *path, const char *want);

#endif
