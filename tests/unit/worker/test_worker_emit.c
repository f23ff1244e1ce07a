/* Which errors of Redis fail an attempt that emitted something, and which keep its message waiting. */
#include <stdio.h>
#include <string.h>

#include "tests/unit/unit.h"
#include "worker/worker.h"

#define PUT ", push to ingress:thumbs"
#define SCRIPT " script: 0123456789012345678901234567890123456789, on @user_script:9."

static struct handler_emissions emitted;
static struct outcome outcome = { .emitted = &emitted };
static const struct item item = { .move = MOVE_DONE, .outcome = &outcome }, plain = { .move = MOVE_DONE };

static const struct {
	enum emit_next next;
	const char *text;
} errors[] = {
	{ EMIT_FAILS, "WRONGTYPE Operation against a key holding the wrong kind of value" PUT },
	{ EMIT_ASKS, "NOPERM this user has no permissions to access one of the keys used as arguments" },
	{ EMIT_ASKS, "NOPERM No permissions to access a key" },
	{ EMIT_FAILS, "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments" PUT },
	{ EMIT_FAILS, "ERR The user executing the script can't run this command or subcommand" PUT },
	{ EMIT_WAITS, "WRONGTYPE Operation against a key holding the wrong kind of value" },
	{ EMIT_WAITS, "WRONGTYPE Operation against a key holding the wrong kind of value, command 'LREM' of a script" },
	{ EMIT_WAITS, "WRONGTYPE Operation against a key holding the wrong kind of value" SCRIPT },
	{ EMIT_WAITS, "NOPERM this user has no permissions to run the 'evalsha' command" },
	{ EMIT_WAITS, "NOPERM No permissions to access a key, command 'LREM' of a script" },
	{ EMIT_WAITS, "ERR The user executing the script can't run this command or subcommand, command 'LREM' of a script" },
	{ EMIT_WAITS, "ERR The user executing the script can't run this command or subcommand" SCRIPT },
	{ EMIT_WAITS, "NOAUTH Authentication required." },
	{ EMIT_WAITS, "WRONGPASS invalid username-password pair or user is disabled." },
	{ EMIT_WAITS, "OOM command not allowed when used memory > 'maxmemory'." PUT },
	{ EMIT_WAITS, "READONLY You can't write against a read only replica." PUT },
	{ EMIT_WAITS, "MISCONF Redis is configured to save RDB snapshots" },
	{ EMIT_WAITS, "ERR unknown command 'LPUSH'" PUT },
	{ EMIT_WAITS, "BUSY Redis is busy running a script" },
};

TEST(only_the_error_of_a_target_fails_the_attempt)
{
	for (size_t i = 0; i < nitems(errors); i++) {
		const struct redis_reply reply = { .type = REDIS_ERROR, .str = errors[i].text, .len = strlen(errors[i].text) };

		outcome.doubt = EMIT_DOUBT_NONE;
		if (emit_after(&item, &reply) != errors[i].next || (outcome.doubt == EMIT_DOUBT_OWN) != (errors[i].next == EMIT_ASKS))
			fail_msg("%s", errors[i].text);
		assert_int_equal(emit_after(&plain, &reply), EMIT_WAITS);
	}
}

TEST(an_answer_of_another_type_is_no_refusal)
{
	assert_int_equal(emit_after(&item, &(struct redis_reply){ .type = REDIS_NIL }), EMIT_WAITS);
}

static enum emit_next after(const char *text)
{
	return emit_after(&item, &(struct redis_reply){ .type = REDIS_ERROR, .str = text, .len = strlen(text) });
}

#define A_KEY "NOPERM No permissions to access a key"

/* A key without its name is that of a target only if the own ones are allowed. */
TEST(the_own_keys_are_excluded_first)
{
	outcome.doubt = EMIT_DOUBT_NONE;
	assert_false(emit_was_asked(&item));
	assert_int_equal(after(A_KEY), EMIT_ASKS);
	assert_int_equal(after(A_KEY), EMIT_WAITS);		/* the own ones are refused */
	assert_int_equal(after(A_KEY), EMIT_ASKS);
	assert_true(emit_was_asked(&item));			/* they are allowed */
	assert_int_equal(after("LOADING Redis is loading the dataset in memory"), EMIT_WAITS);
	assert_int_equal(after(A_KEY), EMIT_ASKS);
	assert_true(emit_was_asked(&item));
	assert_false(emit_was_asked(&item));
	assert_int_equal(after(A_KEY), EMIT_FAILS);
	assert_int_equal(outcome.doubt, EMIT_DOUBT_NONE);
}

UNIT_MAIN(NULL, NULL)
