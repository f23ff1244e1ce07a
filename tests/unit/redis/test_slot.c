/* The slots of a Redis Cluster. The numbers are those of `redis-cli CLUSTER KEYSLOT` of Redis 7.0. */
#include <string.h>

#include "common/base/nitems.h"
#include "common/redis/redis.h"
#include "tests/unit/unit.h"

TEST(slots_are_those_of_the_server)
{
	static const struct { const char *key; int slot; } known[] = {
		{ "123456789", 0x31c3 }, { "", 0 }, { "a", 15495 }, { "{a}", 15495 }, { "{user1000}.following", 3443 }, { "{user1000}.followers", 3443 },
		{ "foo{}{bar}", 8363 }, { "foo{{bar}}zap", 4015 }, { "foo{bar}{zap}", 5061 }, { "ingress:mail", 9463 }, { "transit:mail", 1024 },
		{ "escape:mail", 5194 }, { "{b}x", 3300 }, { "foo", 12182 },
	};

	for (size_t i = 0; i < nitems(known); i++)
		if (redis_slot(known[i].key) != known[i].slot)
			fail_msg("%s: %d, expected %d", known[i].key, redis_slot(known[i].key), known[i].slot);
}

static void assert_tag(const char *key, const char *expected)
{
	size_t len = 99;
	const char *tag = redis_hash_tag(key, &len);

	if (expected == NULL) {
		assert_null(tag);
		return;
	}
	assert_non_null(tag);
	assert_int_equal(len, strlen(expected));
	assert_memory_equal(tag, expected, len);
}

TEST(a_tag_is_between_the_first_brace_and_the_next_closing_one)
{
	assert_tag("{a}ingress:mail", "a");
	assert_tag("x{ab}y{c}", "ab");
	assert_tag("x}{ab}", "ab");
	assert_tag("{{a}}", "{a");
	assert_tag("{}{a}", NULL);
	assert_tag("{a", NULL);
	assert_tag("a}", NULL);
	assert_tag("", NULL);
}

TEST(only_keys_with_equal_tags_share_a_slot_with_all_that_is_made_of_them)
{
	assert_true(redis_same_slot("{a}", "{a}ingress:mail"));
	assert_true(redis_same_slot("x:{a}", "{a}y"));
	assert_false(redis_same_slot("{a}", "{b}"));
	assert_false(redis_same_slot("{a}", "a"));		/* in the same slot, but "a:log" is not */
	assert_false(redis_same_slot("a", "a"));
	assert_false(redis_same_slot("", ""));
}

UNIT_MAIN(NULL, NULL)
