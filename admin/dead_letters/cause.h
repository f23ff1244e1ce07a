#ifndef ADMIN_DEAD_LETTERS_CAUSE_H
#define ADMIN_DEAD_LETTERS_CAUSE_H

#include <stddef.h>

/*
 * Why messages fail, without what differs from one to the next: the class, how the handler ended, and the first line
 * of the error with its numbers, ids and addresses left out.
 */
#define CAUSE_SIZE 256

/* Each may be "". The text and its NUL; returns out. */
const char *cause_describe(const char *class, const char *exit_code, const char *signal, const char *error, size_t error_len,
    char out[CAUSE_SIZE]);

#endif
