#ifndef COMMON_ALLOC_H
#define COMMON_ALLOC_H

#include <stddef.h>

/*
 * Allocation that ends the process (exit 71, EX_OSERR, one line on stderr) instead of returning NULL.
 * A child that ends so is a death like any other: its message is rescued.
 */
void *alloc_zero(size_t count, size_t size);
void *alloc_resize(void *old, size_t count, size_t size);
void *alloc_copy(const void *data, size_t len);		/* with a NUL behind the last byte */
void *alloc_bytes(size_t size);				/* in the shape of malloc(3), for libraries that take one */
char *alloc_string(const char *s);			/* strdup; NULL stays NULL */
_Noreturn void alloc_failed(void);			/* what a library was refused ends us as well */
char *alloc_format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
