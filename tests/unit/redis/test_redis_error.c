/* The classes of Redis errors, by the texts that Redis 6, 7 and 8 send. */
#include <string.h>

#include "common/base/base.h"
#include "common/redis/redis.h"
#include "tests/unit/unit.h"

static struct redis_reply error_reply(const char *text)
{
	return (struct redis_reply){ .type = REDIS_ERROR, .str = text, .len = strlen(text) };
}

static const struct {
	const char *text;
	enum redis_error_class class;
	bool of_server, needs_reconnect;
} cases[] = {
	{ "OOM command not allowed when used memory > 'maxmemory'.", REDIS_ERROR_TRANSIENT, false, false },
	{ "ERR Error running script (call to f_1): @user_script:3: OOM command not allowed", REDIS_ERROR_TRANSIENT, false, false },
	{ "TRYAGAIN Multiple keys request during rehashing of slot", REDIS_ERROR_TRANSIENT, false, false },
	{ "LOADING Redis is loading the dataset in memory", REDIS_ERROR_TRANSIENT, true, false },
	{ "MISCONF Redis is configured to save RDB snapshots", REDIS_ERROR_TRANSIENT, true, false },
	{ "BUSY Redis is busy running a script.", REDIS_ERROR_TRANSIENT, true, false },
	{ "NOREPLICAS Not enough good replicas to write.", REDIS_ERROR_TRANSIENT, true, false },
	{ "CLUSTERDOWN The cluster is down", REDIS_ERROR_TRANSIENT, true, false },
	{ "READONLY You can't write against a read only replica.", REDIS_ERROR_TRANSIENT, true, true },
	{ "READONLY You can't write against a read only replica. script: 1, on @user_script:1.", REDIS_ERROR_TRANSIENT, true, true },
	{ "ERR Error running script (call to f_1): @user_script:2: -READONLY You can't write", REDIS_ERROR_TRANSIENT, true, true },
	{ "UNBLOCKED force unblock from blocking operation, instance state changed", REDIS_ERROR_TRANSIENT, true, true },
	{ "MASTERDOWN Link with MASTER is down", REDIS_ERROR_TRANSIENT, true, true },
	{ "NOSCRIPT No matching script. Please use EVAL.", REDIS_ERROR_TRANSIENT, true, true },
	{ "NOAUTH Authentication required.", REDIS_ERROR_PERMISSION, true, false },
	{ "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
	    REDIS_ERROR_PERMISSION, true, false },
	{ "ERR Client sent AUTH, but no password is set", REDIS_ERROR_PERMISSION, true, false },
	{ "ERR invalid password", REDIS_ERROR_PERMISSION, true, false },
	{ "WRONGPASS invalid username-password pair or user is disabled.", REDIS_ERROR_PERMISSION, true, false },
	{ "NOPERM this user has no permissions to run the 'xadd' command", REDIS_ERROR_PERMISSION, false, false },
	{ "ERR The user executing the script can't run this command or subcommand script: 1", REDIS_ERROR_PERMISSION, false, false },
	{ "ACL failure in script: User has no permissions to run the 'xadd' command", REDIS_ERROR_PERMISSION, false, false },
	{ "WRONGTYPE Operation against a key holding the wrong kind of value", REDIS_ERROR_WRONG_TYPE, false, false },
	{ "ERR Error running script (call to f_1): @user_script:3: WRONGTYPE Operation", REDIS_ERROR_WRONG_TYPE, false, false },
	{ "CROSSSLOT Keys in request don't hash to the same slot", REDIS_ERROR_CLUSTER, false, false },
	{ "ERR Script attempted to access keys that do not hash to the same slot script: 1, on @user_script:1.", REDIS_ERROR_CLUSTER, false, false },
	{ "ERR Script attempted to access a non local key in a cluster node script: 1, on @user_script:1.", REDIS_ERROR_TRANSIENT, false, false },
	{ "ERR SELECT is not allowed in cluster mode", REDIS_ERROR_CLUSTER, true, false },
	{ "SCHEMA the keys in Redis have layout 3", REDIS_ERROR_SCHEMA, true, false },
	{ "MOVED 15495 127.0.0.1:7002", REDIS_ERROR_TRANSIENT, true, true },
	{ "ASK 15495 127.0.0.1:7002", REDIS_ERROR_TRANSIENT, false, false },
	{ "CLUSTERDOWN Hash slot not served", REDIS_ERROR_TRANSIENT, true, false },
	{ "ERR unknown command 'LMOVE'", REDIS_ERROR_NO_COMMAND, false, false },
	{ "ERR unknown command 'XADD', with args beginning with: 'NOPERM' 'OOM' 'READONLY' ", REDIS_ERROR_NO_COMMAND, false, false },
	{ "ERR unknown command `client`, with args beginning with: `list`, ", REDIS_ERROR_NO_COMMAND, false, false },
	{ "ERR unknown subcommand 'FOO'. Try CLIENT HELP.", REDIS_ERROR_NO_COMMAND, false, false },
	{ "ERR Unknown Redis command called from script script: bb4e0c, on @user_script:2.", REDIS_ERROR_NO_COMMAND, false, false },
	{ "ERR Error running script (call to f_1): @user_script:2: @user_script: 2: Unknown Redis command called from Lua script", REDIS_ERROR_NO_COMMAND,
	  false, false },
	{ "ERR Unknown command called from script script: bb4e0c, on @user_script:2.", REDIS_ERROR_NO_COMMAND, false, false },
	{ "ERR This Redis command is not allowed from script script: 1, on @user_script:1.", REDIS_ERROR_NO_COMMAND, false, false },
	{ "ERR command 'CONFIG' is not allowed", REDIS_ERROR_NO_COMMAND, false, false },
	{ "ERR Command is not available: 'CLIENT'. See the documentation", REDIS_ERROR_NO_COMMAND, false, false },
	{ "BUSYGROUP Consumer Group name already exists", REDIS_ERROR_UNKNOWN, false, false },	/* not BUSY */
	{ "ERR the user's text says aBUSY or READONLY2", REDIS_ERROR_UNKNOWN, false, false },
	{ "", REDIS_ERROR_UNKNOWN, false, false },
};

TEST(each_text_has_its_class)
{
	for (size_t i = 0; i < nitems(cases); i++) {
		struct redis_reply reply = error_reply(cases[i].text);

		if (redis_error_class(&reply) != cases[i].class || redis_error_is_of_server(&reply) != cases[i].of_server ||
		    redis_error_needs_reconnect(&reply) != cases[i].needs_reconnect)
			fail_msg("%s", cases[i].text);
		assert_int_equal(redis_error_is_transient(&reply), cases[i].class == REDIS_ERROR_TRANSIENT);
	}
}

TEST(the_first_word_decides_before_the_others)
{
	assert_int_equal(redis_error_classify("OOM while WRONGTYPE is somewhere in the text"), REDIS_ERROR_TRANSIENT);
}

TEST(a_permission_inside_a_script_outranks_other_codes)
{
	assert_int_equal(redis_error_classify("ERR Error running script: BUSY: NOPERM this user"), REDIS_ERROR_PERMISSION);
}

TEST(other_replies_are_no_errors)
{
	struct redis_reply reply = { .type = REDIS_STRING, .str = "READONLY", .len = 8 };

	assert_int_equal(redis_error_class(&reply), REDIS_ERROR_NONE);
	assert_false(redis_error_is_of_server(&reply) || redis_error_needs_reconnect(&reply) || redis_error_is(&reply, "READONLY"));
}

TEST(only_an_operator_mends_permissions_types_and_slots)
{
	for (enum redis_error_class class = REDIS_ERROR_NONE; class <= REDIS_ERROR_UNKNOWN; class++)
		assert_int_equal(redis_error_needs_operator(class), class == REDIS_ERROR_PERMISSION || class == REDIS_ERROR_NO_COMMAND ||
		    class == REDIS_ERROR_WRONG_TYPE || class == REDIS_ERROR_CLUSTER || class == REDIS_ERROR_SCHEMA ||
		    class == REDIS_ERROR_SECRET);
}

TEST(a_slot_on_its_way_is_known_by_its_errors)
{
	static const char *const moves[] = { "TRYAGAIN Multiple keys request during rehashing of slot", "ASK 15495 127.0.0.1:7002",
		"redis://127.0.0.1:7001 at 127.0.0.1:7001: ASK 15495 127.0.0.1:7002",
		"ERR Script attempted to access a non local key in a cluster node script: 1" };
	static const char *const others[] = { "MOVED 15495 127.0.0.1:7002", "CLUSTERDOWN The cluster is down", "ERR unknown command 'ASKING'", "" };

	for (size_t i = 0; i < nitems(moves); i++)
		assert_true(redis_error_slot_moves(moves[i]));
	for (size_t i = 0; i < nitems(others); i++)
		assert_false(redis_error_slot_moves(others[i]));
}

TEST(an_error_names_the_refused_command)
{
	static const struct { const char *text; enum command_name command; } texts[] = {
		{ "ERR unknown command 'XADD', with args beginning with: 'LPUSH' 'x' ", COMMAND_XADD },
		{ "ERR unknown command `client`, with args beginning with: `list`, ", COMMAND_CLIENT },
		{ "NOPERM this user has no permissions to run the 'xadd' command", COMMAND_XADD },
		{ "NOPERM User don't has no permissions to run the 'config|get' command", COMMAND_CONFIG },
		{ "ERR ACL failure in script: User lim has no permissions to run the 'lpush' command script: 47bd, on @user_script:1.", COMMAND_LPUSH },
		{ "ERR command 'CONFIG' is not allowed", COMMAND_CONFIG },
		{ "ERR Command is not available: 'CLIENT'. See the documentation", COMMAND_CLIENT },
		{ "ERR unknown command 'SOMETHING', with args beginning with: 'x' ", COMMAND_UNNAMED },
		{ "ERR unknown command 'XADD", COMMAND_UNNAMED },
		{ "NOPERM No permissions to access a key", COMMAND_UNNAMED },
		{ "ERR The user executing the script can't run this command or subcommand", COMMAND_UNNAMED },
		{ "WRONGTYPE 'XADD' Operation", COMMAND_UNNAMED },
		{ "", COMMAND_UNNAMED },
	};

	for (size_t i = 0; i < nitems(texts); i++)
		if (command_name_refused(texts[i].text) != texts[i].command)
			fail_msg("%s: %s", texts[i].text, command_name_text(command_name_refused(texts[i].text)));
	assert_string_equal(command_name_text(COMMAND_ZREMRANGEBYRANK), "ZREMRANGEBYRANK");
	assert_string_equal(command_name_text(COMMAND_COUNT), "a command");
}

UNIT_MAIN(NULL, NULL)
