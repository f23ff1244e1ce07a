#ifndef COMMON_BASE_ALLOC_H
#define COMMON_BASE_ALLOC_H

#include <stdarg.h>
#include <stddef.h>

/*
 * Allocation that ends the process (exit 71, EX_OSERR, one line on stderr) instead of returning NULL. For a child that
 * is a death like any other: its message is rescued.
 */
void *alloc_zero(size_t count, size_t size);
void *alloc_resize(void *old, size_t count, size_t size);
void *alloc_copy(const void *data, size_t len);		/* adds a NUL after the last byte */
/* has the signature of malloc(3), for libraries that take such a function */
void *alloc_bytes(size_t size);
char *alloc_string(const char *s);			/* strdup; NULL stays NULL */
_Noreturn void alloc_failed(void);			/* ends the process if a library ran out of memory */
char *alloc_format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
char *alloc_format_args(const char *fmt, va_list ap) __attribute__((format(printf, 1, 0)));

/*
 * The limits of free(), in bytes: blocks of at least mapped_min return to the kernel at once, and the end of the heap
 * keeps heap_free_max. alloc_release() returns what the heap has kept. Only glibc has such settings; with another C
 * library nothing happens.
 */
void alloc_set_thresholds(int mapped_min, int heap_free_max);
void alloc_release(void);

/*
 * A child's allocations would take the holes between those of its parent, and each of them copies a page. So a parent
 * that has loaded much fills the holes before it forks, and empties them before it loads again. Only with glibc.
 */
void alloc_fill_holes(void);
void alloc_empty_holes(void);

#endif
