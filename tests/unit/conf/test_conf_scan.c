#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/conf/load.h"
#include "common/conf/types.h"
#include "tests/unit/unit.h"

/* A table of our own, with names that the real one does not have today: one word in two sections, with other values. */
static const struct conf_key global_keys[] = { { .path = "log.limit", .type = CONF_TYPE_SIZE }, { .path = "log.age", .type = CONF_TYPE_DURATION } };
static const struct conf_key queue_keys[] = { { .path = "limit", .type = CONF_TYPE_DURATION }, { .path = "recycle.age", .type = CONF_TYPE_DURATION },
	{ .path = "rest", .type = CONF_TYPE_SIZE } };
const struct conf_schema conf_schema_global = { "", global_keys, 2 };
const struct conf_schema conf_schema_queue = { "queue.", queue_keys, 3 };

static char said[256];

char *conf_value_expected(const struct conf_key *key)
{
	return alloc_string(key->type == CONF_TYPE_SIZE ? "a size" : "a duration");
}

void conf_error(struct conf_loading *l, const struct conf_origin *where, const char *format, ...)
{
	va_list ap;

	(void)l;
	(void)where;
	va_start(ap, format);
	vsnprintf(said, sizeof(said), format, ap);
	va_end(ap);
}

static const char *scan(const char *text)
{
	struct conf_source source = { .name = "x", .text = alloc_string(text), .len = strlen(text) };

	assert_int_equal(conf_scan(NULL, &source), -1);
	free(source.text);
	return said;
}

TEST(a_unit_without_quotes_names_what_is_expected)
{
	assert_string_equal(scan("rest = 5K"), "rest: expected a size, not 5K");
	assert_string_equal(scan("age = 60s"), "age: expected a duration, not 60s");
}

TEST(it_names_nothing_if_the_sections_expect_different_values)
{
	assert_string_equal(scan("limit = 5K"), "5K: write a number with a unit in quotes, as \"60s\" or \"64K\"");
}

TEST(a_byte_order_mark_is_named)
{
	assert_string_equal(scan("\xef\xbb\xbfqueues = ();"), "begins with a byte order mark of UTF-8: save it without one");
}

UNIT_MAIN(NULL, NULL)
