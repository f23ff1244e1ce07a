/* links: tests/unit/private_redis.c tests/unit/private_queue.c */

/* Which command an error refuses, with the texts of the Redis that runs: Redis 7.0 names none inside a script, but only its line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/queue/queue.h"
#include "tests/unit/private_queue.h"
#include "tests/unit/unit.h"

static char text[512], room[QUEUE_ADVICE_SIZE];

/* The error of a script as a user who may not run one command. */
static void refuse(const char *command, void (*append)(void))
{
	struct redis_reply reply;
	char rule[64];

	snprintf(rule, sizeof(rule), "-%s", command);
	REDIS(&server, "ACL SETUSER limited reset on nopass ~* +@all %s", rule);
	REDIS(&server, "AUTH limited x");
	append();
	reply = private_redis_answer_or_error(&server);
	assert_int_equal(reply.type, REDIS_ERROR);
	snprintf(text, sizeof(text), "%s", reply.str);
	REDIS(&server, "AUTH default x");
}

static void append_forget(void)
{
	queue_forget(&server.r, &keys, PRIVATE_OWNER);
}

static void append_tally(void)
{
	queue_script(&server.r, QUEUE_SCRIPT_tally, 3, (const char *[]){ "none", "stats", "rate" }, 4,
	    (struct script_arg[]){ script_string("1000"), script_string("32"), script_string("f"), script_string("1") });
}

static void append_expiry(void)
{
	queue_script(&server.r, QUEUE_SCRIPT_retry, 4, (const char *[]){ "lease", "tray", "delayed", "apart" }, 8,
	    (struct script_arg[]){ script_string("1000"), script_string("-1"), script_string("1"), script_string("x"), script_string("x"),
		script_string(""), script_string("0"), script_string("0") });
}

TEST(a_script_names_its_command)
{
	refuse("hincrby", append_tally);
	assert_int_equal(queue_refused_command(text), COMMAND_HINCRBY);
	assert_string_equal(queue_refusal_advice(text, room), "quredis needs HINCRBY: grant it to the Redis user with ACL SETUSER");
}

/* PEXPIRE and TIME stand in that line: Redis 8 and Valkey say which it was. */
TEST(a_line_of_several_commands_is_named_itself)
{
	enum command_name found;

	refuse("pexpire", append_expiry);
	found = queue_refused_command(text);
	if (command_name_refused(text) == COMMAND_UNNAMED) {
		assert_int_equal(found, COMMAND_UNNAMED);
		assert_non_null(strstr(queue_refusal_advice(text, room), "a command in line "));
		assert_non_null(strstr(room, " of the script retry"));
	} else {
		assert_int_equal(found, COMMAND_PEXPIRE);
	}
}

TEST(a_missing_command_is_named)
{
	struct script_text line;
	char of_redis_6[256];

	refuse("hincrby", append_tally);
	REDIS(&server, "SCRIPT LOAD %s", "return 1");
	for (const char *at = text; (at = strstr(at, "script: ")) != NULL; at++) {
		snprintf(of_redis_6, sizeof(of_redis_6), "ERR Error running script (call to f_%.40s): @user_script:6: @user_script: 6: "
			 "Unknown Redis command called from Lua script", at + 8);
		if (queue_script_line(at + 8, 6, &line) == NULL)
			continue;
		assert_int_equal(queue_refused_command(of_redis_6), COMMAND_HINCRBY);
		assert_non_null(strstr(queue_refusal_advice(of_redis_6, room), "quredis needs HINCRBY, which this server lacks"));
		assert_null(queue_script_line(at + 8, 1000, &line));
		assert_null(queue_script_line(at + 8, 0, &line));
		return;
	}
	fail_msg("no script in: %s", text);
}

TEST(an_error_of_keys_refuses_no_command)
{
	REDIS(&server, "ACL SETUSER limited reset on nopass ~other +@all");
	REDIS(&server, "AUTH limited x");
	append_forget();
	snprintf(text, sizeof(text), "%s", private_redis_answer_or_error(&server).str);
	REDIS(&server, "AUTH default x");
	assert_int_equal(redis_error_classify(text), REDIS_ERROR_PERMISSION);
	assert_int_equal(queue_refused_command(text), COMMAND_UNNAMED);
	assert_null(queue_refusal_advice(text, room));
	assert_null(queue_refusal_advice("NOAUTH Authentication required.", room));
}

TEST(another_command_fetches)
{
	assert_true(queue_fetch_has_substitute("ERR unknown command 'BRPOPLPUSH', with args beginning with: 'a' "));
	assert_true(queue_fetch_has_substitute("NOPERM this user has no permissions to run the 'brpoplpush' command"));
	assert_false(queue_fetch_has_substitute("ERR unknown command 'BLMOVE', with args beginning with: 'BRPOPLPUSH' "));
	assert_false(queue_fetch_has_substitute("OOM command not allowed when used memory > 'maxmemory'."));
}

static int setup(void **state)
{
	(void)state;
	private_queue_start();
	return 0;
}

UNIT_MAIN(setup, private_queue_stop)
