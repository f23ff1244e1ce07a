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
	bool fails;
	const char *text;
} errors[] = {
	{ true, "WRONGTYPE Operation against a key holding the wrong kind of value" PUT },
	{ true, "NOPERM this user has no permissions to access one of the keys used as arguments" },
	{ true, "NOPERM No permissions to access a key" },
	{ true, "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments" PUT },
	{ true, "ERR The user executing the script can't run this command or subcommand" PUT },
	{ false, "WRONGTYPE Operation against a key holding the wrong kind of value" },
	{ false, "WRONGTYPE Operation against a key holding the wrong kind of value, command 'LREM' of a script" },
	{ false, "WRONGTYPE Operation against a key holding the wrong kind of value" SCRIPT },
	{ false, "NOPERM this user has no permissions to run the 'evalsha' command" },
	{ false, "NOPERM No permissions to access a key, command 'LREM' of a script" },
	{ false, "ERR The user executing the script can't run this command or subcommand, command 'LREM' of a script" },
	{ false, "ERR The user executing the script can't run this command or subcommand" SCRIPT },
	{ false, "NOAUTH Authentication required." },
	{ false, "WRONGPASS invalid username-password pair or user is disabled." },
	{ false, "OOM command not allowed when used memory > 'maxmemory'." PUT },
	{ false, "READONLY You can't write against a read only replica." PUT },
	{ false, "MISCONF Redis is configured to save RDB snapshots" },
	{ false, "ERR unknown command 'LPUSH'" PUT },
	{ false, "BUSY Redis is busy running a script" },
};

TEST(only_the_error_of_a_target_fails_the_attempt)
{
	for (size_t i = 0; i < nitems(errors); i++) {
		const struct redis_reply reply = { .type = REDIS_ERROR, .str = errors[i].text, .len = strlen(errors[i].text) };

		if (emit_is_refused(&item, &reply) != errors[i].fails)
			fail_msg("%s", errors[i].text);
		assert_false(emit_is_refused(&plain, &reply));
	}
}

TEST(an_answer_of_another_type_is_no_refusal)
{
	assert_false(emit_is_refused(&item, &(struct redis_reply){ .type = REDIS_NIL }));
}

UNIT_MAIN(NULL, NULL)
