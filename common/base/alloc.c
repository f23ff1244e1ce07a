/* Allocation that cannot fail: a process without memory ends, and its messages are rescued. */
#include <err.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <bsd/stdlib.h>

#include "common/base/alloc.h"

void alloc_failed(void)
{
	errx(EX_OSERR, "out of memory");
}

static void *checked(void *p)
{
	if (p == NULL)
		alloc_failed();
	return p;
}

void *alloc_zero(size_t count, size_t size)
{
	return checked(calloc(count == 0 ? 1 : count, size));
}

void *alloc_bytes(size_t size)
{
	return checked(malloc(size == 0 ? 1 : size));
}

void *alloc_resize(void *old, size_t count, size_t size)
{
	return checked(reallocarray(old, count == 0 ? 1 : count, size));
}

void *alloc_copy(const void *data, size_t len)
{
	char *p = checked(malloc(len + 1));

	if (len > 0)
		memcpy(p, data, len);
	p[len] = '\0';
	return p;
}

char *alloc_string(const char *s)
{
	return s == NULL ? NULL : checked(strdup(s));
}

char *alloc_format_args(const char *fmt, va_list ap)
{
	char *s = NULL;

	if (vasprintf(&s, fmt, ap) == -1)
		alloc_failed();
	return s;
}

char *alloc_format(const char *fmt, ...)
{
	char *s;
	va_list ap;

	va_start(ap, fmt);
	s = alloc_format_args(fmt, ap);
	va_end(ap);
	return s;
}

void alloc_set_thresholds(int mapped_min, int heap_free_max)
{
#ifdef __GLIBC__
	mallopt(M_MMAP_THRESHOLD, mapped_min);
	mallopt(M_TRIM_THRESHOLD, heap_free_max);
#else
	(void)mapped_min;
	(void)heap_free_max;
#endif
}

void alloc_release(void)
{
#ifdef __GLIBC__
	malloc_trim(0);
#endif
}

#ifdef __GLIBC__
/* Bytes. glibc keeps some freed blocks of up to CACHED_MAX apart, CACHED of each size, and counts them as used. */
#define HOLE_MIN 24
#define HOLE_MAX (128 * 1024 + HOLE_MIN)
#define CACHED_MAX 1032
#define CACHED 7

static struct filling {
	struct filling *next;
} *fillings;

/* True: the block filled a hole. Another allocator changes no figure of glibc, so it gets CACHED blocks of a size. */
static bool fill_hole(size_t size, int *cached)
{
	struct mallinfo2 before = mallinfo2(), after;
	struct filling *f = alloc_bytes(size);

	after = mallinfo2();
	if (after.keepcost != before.keepcost || after.arena != before.arena) {
		free(f);	/* it came from the end of the heap: no hole of this size is left */
		return false;
	}
	f->next = fillings;
	fillings = f;
	if (after.fordblks != before.fordblks)
		*cached = 0;		/* glibc may have cached others of this size meanwhile */
	return after.fordblks != before.fordblks || (size <= CACHED_MAX && ++*cached <= CACHED);
}

/* Of the sizes that glibc caches, none is left out. */
static size_t smaller(size_t size)
{
	size_t next = size - (size / 8 & ~(size_t)15);

	return size <= CACHED_MAX ? size - 16 : next < CACHED_MAX ? CACHED_MAX : next;
}

void alloc_fill_holes(void)
{
	for (size_t size = HOLE_MAX; size >= HOLE_MIN; size = smaller(size)) {
		int cached = 0;

		while (fill_hole(size, &cached))
			;
	}
}

void alloc_empty_holes(void)
{
	for (struct filling *f = fillings; f != NULL; f = fillings) {
		fillings = f->next;
		free(f);
	}
}
#else
void alloc_fill_holes(void)
{
}

void alloc_empty_holes(void)
{
}
#endif
