/* The pool of parsed messages: what it hands out knows nothing of the message that was there before. */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/sealed.h"
#include "tests/unit/unit.h"
#include "worker/parsed.h"

#define WRAPPED "quredis/1 w=00000000000000ab crashes=2 solo=1\nquredis/1 id=job-1 ttl=1s\nx"

static struct parsed_pool pool;
static struct message_keys keys;

static int setup(void **state)
{
	(void)state;
	keys = sealed_learn("i");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	parsed_pool_free(&pool);
	return 0;
}

static struct parsed *new(const char *raw)
{
	return parsed_new(&pool, &keys, raw, strlen(raw));
}

TEST(what_was_dropped_last_is_used_first, setup, teardown)
{
	struct parsed *a = new("a"), *b = new("b"), *c;

	assert_ptr_not_equal(a, b);
	parsed_drop(&pool, a);
	parsed_drop(&pool, b);
	assert_ptr_equal(new("c"), b);
	assert_ptr_equal(new("d"), a);
	c = new("e");
	assert_ptr_not_equal(c, a);
	assert_ptr_not_equal(c, b);
	parsed_drop(&pool, a);
	parsed_drop(&pool, b);
	parsed_drop(&pool, c);
}

/* An id or a wrapper that stayed would settle another message, and charge it. */
TEST(a_reused_struct_knows_nothing_of_the_message_before, setup, teardown)
{
	struct buffer sealed = {0};
	struct parsed *first, *second;

	sealed_append(&sealed, &keys, WRAPPED, strlen(WRAPPED));
	first = parsed_new(&pool, &keys, sealed.data, sealed.len);
	assert_int_equal(first->message.wrapper.crashes, 2);
	assert_string_equal(first->message.id, "job-1");
	parsed_drop(&pool, first);
	second = new("plain");
	assert_ptr_equal(second, first);
	assert_int_equal(second->message.wrapper.crashes, 0);
	assert_false(second->message.wrapper.solo);
	assert_string_equal(second->message.id, "");
	assert_int_equal(second->message.ttl_ms, -1);
	assert_int_equal(message_payload_len(&second->message), 5);
	parsed_drop(&pool, second);
	buffer_free(&sealed);
}

TEST(a_reused_struct_works_out_its_own_sha1, setup, teardown)
{
	struct parsed *p = new("a");
	char before[ENCODE_SHA1_SIZE], after[ENCODE_SHA1_SIZE];

	message_digest(&p->message, before);
	assert_string_equal(p->sha1, before);		/* it is kept */
	parsed_drop(&pool, p);
	p = new("b");
	assert_string_equal(p->sha1, "");
	message_digest(&p->message, after);
	assert_string_equal(after, "e9d71f5ee7c92d6dc9e92ffdad17b8bd49418f98");
	assert_string_not_equal(after, before);
	parsed_drop(&pool, p);
}

TEST(a_forged_wrapper_is_payload, setup, teardown)
{
	static const char raw[] = "quredis/1 w=00000000000000ab crashes=1 mac=00000000000000000000000000000000\nx";
	struct parsed *p = new(raw);

	assert_int_equal(p->message.wrapper_len, 0);
	assert_int_equal(p->message.wrapper.crashes, 0);
	assert_true(p->message.doubtful);
	assert_int_equal(message_payload_len(&p->message), sizeof(raw) - 1);
	parsed_drop(&pool, p);
}

TEST(nothing_can_be_dropped, setup, teardown)
{
	parsed_drop(&pool, NULL);
	assert_null(pool.unused);
}

/* A message in hand keeps its own; valgrind and the sanitizer see that the others are freed. */
TEST(freeing_the_pool_leaves_what_is_in_use, setup, teardown)
{
	struct parsed *used = new("used"), *unused = new("unused");

	parsed_drop(&pool, unused);
	parsed_pool_free(&pool);
	assert_null(pool.unused);
	assert_int_equal(message_payload_len(&used->message), 4);
	parsed_drop(&pool, used);
	assert_ptr_equal(pool.unused, used);
}

UNIT_MAIN(NULL, NULL)
