#include <string.h>

#include "common/base/buffer.h"
#include "tests/unit/unit.h"

TEST(starts_empty)
{
	struct buffer b = {0};

	buffer_append(&b, NULL, 0);
	assert_int_equal(b.len, 0);
	buffer_free(&b);
	assert_null(b.data);
	assert_int_equal(b.cap, 0);
}

TEST(keeps_any_bytes)
{
	struct buffer b = {0};
	unsigned char all[256];

	for (size_t i = 0; i < sizeof(all); i++)
		all[i] = (unsigned char)i;
	for (int i = 0; i < 1000; i++)
		buffer_append(&b, all, sizeof(all));
	assert_int_equal(b.len, 256000);
	assert_true(b.len <= b.cap);
	for (size_t i = 0; i < b.len; i += sizeof(all))
		assert_memory_equal(b.data + i, all, sizeof(all));
	buffer_free(&b);
}

TEST(one_large_append)
{
	static char big[3 << 20];
	struct buffer b = {0};

	memset(big, 'x', sizeof(big));
	buffer_append(&b, "<", 1);
	buffer_append(&b, big, sizeof(big));
	buffer_append(&b, ">", 1);
	assert_int_equal(b.len, sizeof(big) + 2);
	assert_memory_equal(b.data + 1, big, sizeof(big));
	assert_int_equal(b.data[b.len - 1], '>');
	buffer_free(&b);
}

TEST(format_appends)
{
	char word[600];
	struct buffer b = {0};

	memset(word, 'w', sizeof(word) - 1);
	word[sizeof(word) - 1] = '\0';
	buffer_append(&b, "a", 1);
	buffer_format(&b, "%s-%d", word, 42);
	assert_int_equal(b.len, 1 + 599 + 3);
	assert_int_equal(b.data[0], 'a');
	assert_memory_equal(b.data + 1, word, 599);
	assert_memory_equal(b.data + 600, "-42", 3);
	buffer_free(&b);
}

TEST(consume_drops_the_front)
{
	struct buffer b = {0};

	buffer_append(&b, "one two", 7);
	buffer_consume(&b, 0);
	assert_int_equal(b.len, 7);
	buffer_consume(&b, 4);
	assert_int_equal(b.len, 3);
	assert_memory_equal(b.data, "two", 3);
	buffer_consume(&b, 3);
	assert_int_equal(b.len, 0);
	buffer_append(&b, "x", 1);
	assert_memory_equal(b.data, "x", 1);
	buffer_free(&b);
}

TEST(clear_keeps_memory)
{
	struct buffer b = {0};
	char *data;

	buffer_append(&b, "abc", 3);
	data = b.data;
	buffer_clear(&b);
	assert_int_equal(b.len, 0);
	assert_ptr_equal(b.data, data);
	buffer_free(&b);
}

UNIT_MAIN(NULL, NULL)
