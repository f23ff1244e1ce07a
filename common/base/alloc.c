/* Allocation that cannot fail: a process without memory ends, and its messages are rescued. */
#include <err.h>
#include <malloc.h>
#include <stdarg.h>
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
