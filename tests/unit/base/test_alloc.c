#include <sys/types.h>
#include <sys/wait.h>

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/base/alloc.h"
#include "tests/unit/unit.h"

TEST(zero_is_zeroed)
{
	char *p = alloc_zero(100, 10);

	for (size_t i = 0; i < 1000; i++)
		assert_int_equal(p[i], 0);
	free(p);
	p = alloc_zero(0, 8);
	assert_non_null(p);
	free(p);
}

TEST(resize_keeps_contents)
{
	char *p = alloc_resize(NULL, 4, 1);

	memcpy(p, "abc", 4);
	p = alloc_resize(p, 100000, 10);
	assert_string_equal(p, "abc");
	p = alloc_resize(p, 0, 1);
	assert_non_null(p);
	free(p);
}

TEST(copy_ends_with_a_nul)
{
	char *p = alloc_copy("a\0b", 3);

	assert_memory_equal(p, "a\0b", 4);
	free(p);
	p = alloc_copy(NULL, 0);
	assert_string_equal(p, "");
	free(p);
}

TEST(string_and_format)
{
	char *p = alloc_string("x");

	assert_string_equal(p, "x");
	free(p);
	assert_null(alloc_string(NULL));
	p = alloc_format("%s:%d", "queue", 7);
	assert_string_equal(p, "queue:7");
	free(p);
}

/* What a child allocates then lies behind all that its parent has. */
TEST(no_block_fits_a_hole_that_was_filled)
{
#ifdef __GLIBC__
	char *freed[300], *kept[300], *wall = NULL;

	if (mallinfo2().arena == 0)
		skip();				/* another allocator, as that of a sanitizer */
	for (size_t i = 0; i < 300; i++) {
		freed[i] = alloc_zero(1, 24 + i * 16);
		kept[i] = alloc_zero(1, 24);
		wall = kept[i] > wall ? kept[i] : wall;
	}
	for (size_t i = 0; i < 300; i++)
		free(freed[i]);
	alloc_fill_holes();
	for (size_t i = 0; i < 300; i++) {
		freed[i] = alloc_bytes(24 + i * 16);
		assert_true(freed[i] > wall);
	}
	alloc_empty_holes();
	for (size_t i = 0; i < 300; i++) {
		free(freed[i]);
		free(kept[i]);
	}
#endif
}

static size_t impossible_count = SIZE_MAX / 4, impossible_size = SIZE_MAX / 2;

static void *product(void)
{
	return alloc_resize(NULL, impossible_count, 16);
}

static void *bytes(void)
{
	return alloc_bytes(impossible_size);
}

static void assert_ends(void *(*allocate)(void))
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	assert_true(pid != -1);
	if (pid == 0) {
		fclose(stderr);
		free(allocate());
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), EX_OSERR);
}

/* A product that overflows is no small allocation: the process ends as it does without memory. */
TEST(ends_without_memory)
{
	assert_ends(product);
	assert_ends(bytes);
}

UNIT_MAIN(NULL, NULL)
