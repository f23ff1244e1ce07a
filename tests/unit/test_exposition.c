/* links: common/exposition.c common/buffer.c common/alloc.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/exposition.h"

#define assert_written(b, expected) \
	do { \
		buffer_append((b), "", 1); \
		assert_string_equal((b)->data, (expected)); \
		buffer_free(b); \
	} while (0)

static void a_metric_and_its_samples(void **state)
{
	struct buffer b = {0};

	(void)state;
	exposition_metric(&b, "quredis_a_total", "counter", "How many.");
	exposition_count(&b, "quredis_a_total", NULL, 7);
	exposition_count(&b, "quredis_a_total", (const char *const[]){ "queue", "mail", NULL }, INT64_MAX);
	exposition_count(&b, "quredis_a_total", (const char *const[]){ "queue", "mail", "list", "ingress", NULL }, 0);
	assert_written(&b, "# HELP quredis_a_total How many.\n# TYPE quredis_a_total counter\nquredis_a_total 7\n"
			   "quredis_a_total{queue=\"mail\"} 9223372036854775807\nquredis_a_total{queue=\"mail\",list=\"ingress\"} 0\n");
}

static void values_of_labels_are_escaped(void **state)
{
	struct buffer b = {0};

	(void)state;
	exposition_count(&b, "x", (const char *const[]){ "v", "a\"b\\c\nd{}=,\xc3\xa9", "e", "", NULL }, 1);
	assert_written(&b, "x{v=\"a\\\"b\\\\c\\nd{}=,\xc3\xa9\",e=\"\"} 1\n");
}

static void seconds_have_their_milliseconds(void **state)
{
	struct buffer b = {0};

	(void)state;
	exposition_seconds(&b, "x", NULL, 0);
	exposition_seconds(&b, "x", NULL, 7);
	exposition_seconds(&b, "x", NULL, 1795208678244);
	assert_written(&b, "x 0.000\nx 0.007\nx 1795208678.244\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_metric_and_its_samples),
		cmocka_unit_test(values_of_labels_are_escaped),
		cmocka_unit_test(seconds_have_their_milliseconds),
	};

	alarm(10);
	return cmocka_run_group_tests_name("exposition", tests, NULL, NULL);
}
