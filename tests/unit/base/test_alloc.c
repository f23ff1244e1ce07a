#include <sys/types.h>
#include <sys/wait.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/alloc.h"

static void zero_is_zeroed(void **state)
{
	char *p = alloc_zero(100, 10);

	(void)state;
	for (size_t i = 0; i < 1000; i++)
		assert_int_equal(p[i], 0);
	free(p);
	p = alloc_zero(0, 8);
	assert_non_null(p);
	free(p);
}

static void resize_keeps_contents(void **state)
{
	char *p = alloc_resize(NULL, 4, 1);

	(void)state;
	memcpy(p, "abc", 4);
	p = alloc_resize(p, 100000, 10);
	assert_string_equal(p, "abc");
	p = alloc_resize(p, 0, 1);
	assert_non_null(p);
	free(p);
}

static void copy_ends_with_a_nul(void **state)
{
	char *p = alloc_copy("a\0b", 3);

	(void)state;
	assert_memory_equal(p, "a\0b", 4);
	free(p);
	p = alloc_copy(NULL, 0);
	assert_string_equal(p, "");
	free(p);
}

static void string_and_format(void **state)
{
	char *p = alloc_string("x");

	(void)state;
	assert_string_equal(p, "x");
	free(p);
	assert_null(alloc_string(NULL));
	p = alloc_format("%s:%d", "queue", 7);
	assert_string_equal(p, "queue:7");
	free(p);
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
static void ends_without_memory(void **state)
{
	(void)state;
	assert_ends(product);
	assert_ends(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(zero_is_zeroed),
		cmocka_unit_test(resize_keeps_contents),
		cmocka_unit_test(copy_ends_with_a_nul),
		cmocka_unit_test(string_and_format),
		cmocka_unit_test(ends_without_memory),
	};

	return cmocka_run_group_tests_name("alloc", tests, NULL, NULL);
}
