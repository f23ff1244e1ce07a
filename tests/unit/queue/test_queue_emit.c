/* links: tests/unit/private_redis.c tests/unit/queue/moves_fixture.c */

/* A real Redis pushes what a message emits with its acknowledgement, or does neither. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/base.h"
#include "common/conf/conf.h"
#include "common/queue/history.h"
#include "tests/unit/queue/moves_fixture.h"
#include "tests/unit/unit.h"

static const char *const targets[] = { "i:thumbs", "quredis:of:i:delayed", "i:mail" };
static const struct queue_put three[] = { { .target = 0, .data = "one", .len = 3 }, { .target = 0, .data = "t\0o", .len = 3 },
	{ .target = 1, .delay_ms = 60000, .data = "later", .len = 5 }, { .target = 2, .data = "", .len = 0 } };
static const struct queue_emitted emitted = { targets, 3, three, nitems(three) };
/* Messages for one list have a script of their own. */
static const struct queue_emitted to_list = { targets, 1, three, 2 };
static const struct queue_emitted *const both[] = { &emitted, &to_list };
#define EACH_FORM(e) size_t form_ = 0; form_ < nitems(both) && (moves_setup(NULL), (e) = both[form_], true); form_++

static struct redis_reply emit_as(const struct queue_owner *o, const struct queue_entry *e, const struct queue_emitted *what)
{
	struct queue_history *none = queue_history_new(0);

	queue_history_emit(&server.r, o, 0, e, what, none, 0, "n");
	queue_history_free(none);
	return private_redis_answer_or_error(&server);
}

static int64_t emit(void)
{
	return emit_as(&owner, &by_value, &emitted).integer;
}

static void put_message(void)
{
	REDIS(&server, "HSET " LEASE " quredis 1");
	REDIS(&server, "PEXPIRE " LEASE " 30000");
	moves_put(TRAY, RAW, RAW_LEN);
}

static void nothing_was_pushed(void)
{
	assert_int_equal(moves_count(TRAY), 1);
	assert_int_equal(moves_count("quredis:of:i:delayed"), 0);
	assert_int_equal(REDIS_INT(&server, "EXISTS i:thumbs i:mail"), 0);
	assert_int_equal(REDIS_INT(&server, "HINCRBY " LEASE " " TRAY " 0"), 0);
}

TEST(all_is_pushed_with_the_acknowledgement, moves_setup)
{
	struct redis_reply reply;

	put_message();
	assert_int_equal(emit(), 1);
	assert_int_equal(moves_count(TRAY), 0);
	reply = REDIS(&server, "LRANGE i:thumbs 0 -1");
	assert_int_equal(reply.n, 2);
	assert_string_equal(redis_element(&reply, 1).str, "one");	/* the one to be fetched first */
	assert_memory_equal(redis_element(&reply, 0).str, "t\0o", 3);
	assert_int_equal(moves_count("i:mail"), 1);
	moves_assert_holds("delayed", "quredis:of:i:delayed", "later", 5);
	assert_string_equal(REDIS(&server, "HGET " LEASE " " TRAY).str, "1");	/* a rollback brings it back to life */
}

TEST(all_for_one_list_is_pushed_with_the_acknowledgement, moves_setup)
{
	struct redis_reply reply;

	put_message();
	REDIS(&server, "LPUSH i:thumbs before");
	assert_int_equal(emit_as(&owner, &by_value, &to_list).integer, 1);
	assert_int_equal(moves_count(TRAY), 0);
	reply = REDIS(&server, "LRANGE i:thumbs 0 -1");
	assert_int_equal(reply.n, 3);
	assert_string_equal(redis_element(&reply, 2).str, "before");
	assert_string_equal(redis_element(&reply, 1).str, "one");
	assert_memory_equal(redis_element(&reply, 0).str, "t\0o", 3);
	assert_string_equal(REDIS(&server, "HGET " LEASE " " TRAY).str, "1");
}

TEST(the_second_execution_pushes_nothing, moves_setup)
{
	const struct queue_emitted *e;

	for (EACH_FORM(e)) {
		put_message();
		assert_int_equal(emit_as(&owner, &by_value, e).integer, 1);
		assert_int_equal(emit_as(&owner, &by_value, e).integer, 0);
		assert_int_equal(moves_count("i:thumbs"), 2);
		assert_int_equal(moves_count("i:mail") + moves_count("quredis:of:i:delayed"), e->nputs - 2);
		assert_string_equal(REDIS(&server, "HGET " LEASE " " TRAY).str, "1");
	}
}

TEST(a_lease_that_has_run_out_does_not_come_back, moves_setup)
{
	const struct queue_emitted *e;

	for (EACH_FORM(e))
		for (int n = 1; n >= 0; n--) {
			if (n == 1)
				moves_put(TRAY, RAW, RAW_LEN);
			assert_int_equal(emit_as(&owner, &by_value, e).integer, n);
			assert_int_equal(REDIS_INT(&server, "EXISTS " LEASE), 0);
		}
}

TEST(a_lease_of_another_type_holds_no_move_up, moves_setup)
{
	const struct queue_emitted *e;

	for (EACH_FORM(e)) {
		moves_put(TRAY, RAW, RAW_LEN);
		REDIS(&server, "SET " LEASE " text");
		assert_int_equal(emit_as(&owner, &by_value, e).integer, 1);
		assert_int_equal(emit_as(&owner, &by_value, e).integer, 0);
		assert_int_equal(moves_count("i:thumbs"), 2);
		assert_string_equal(REDIS(&server, "GET " LEASE).str, "text");
	}
}

TEST(of_equal_messages_one_goes, moves_setup)
{
	const struct queue_emitted *e;

	for (EACH_FORM(e)) {
		put_message();
		moves_put(TRAY, RAW, RAW_LEN);
		assert_int_equal(emit_as(&owner, &by_value, e).integer, 1);
		assert_int_equal(moves_count(TRAY), 1);
		assert_int_equal(moves_count("i:thumbs"), 2);
	}
}

TEST(a_target_of_another_type_undoes_the_others, moves_setup)
{
	put_message();
	REDIS(&server, "SET i:mail text");
	assert_string_equal(REDIS(&server, "GET i:mail").str, "text");
	assert_non_null(strstr(emit_as(&owner, &by_value, &emitted).str, "WRONGTYPE"));
	assert_int_equal(REDIS_INT(&server, "EXISTS i:thumbs"), 0);
	assert_string_equal(REDIS(&server, "GET i:mail").str, "text");
	REDIS(&server, "DEL i:mail");
	nothing_was_pushed();
}

TEST(a_push_leaves_what_was_there, moves_setup)
{
	put_message();
	REDIS(&server, "RPUSH i:thumbs before");
	REDIS(&server, "SET i:mail text");
	assert_int_equal(emit_as(&owner, &by_value, &emitted).type, REDIS_ERROR);
	assert_int_equal(moves_count("i:thumbs"), 1);
	assert_string_equal(REDIS(&server, "LINDEX i:thumbs 0").str, "before");
	assert_int_equal(moves_count(TRAY), 1);
}

/* The worker tells by the text of an error whether Redis refuses a target. */
TEST(an_error_names_the_command_and_a_push_its_key, moves_setup)
{
	static const struct { const char *right, *command; bool names_target; } refused[] = { { "-hincrby", "HINCRBY", false },
		{ "-lrem", "LREM", false }, { "-lpush", "LPUSH", true }, { "-ltrim", "LTRIM", true } };
	const struct queue_emitted *e;

	for (EACH_FORM(e))
		for (size_t i = 0; i < nitems(refused); i++) {
			char named[64];
			struct redis_reply reply;

			put_message();
			snprintf(named, sizeof(named), ", command '%s' of a script%s", refused[i].command,
			    refused[i].names_target ? ", push to i:thumbs" : "");
			REDIS(&server, "ACL SETUSER default %s", refused[i].right);
			reply = emit_as(&owner, &by_value, e);
			assert_int_equal(reply.type, REDIS_ERROR);
			assert_non_null(strstr(reply.str, named));
			assert_int_equal(strstr(reply.str, ", push to ") != NULL, refused[i].names_target);
			REDIS(&server, "ACL SETUSER default +@all");
			nothing_was_pushed();
			REDIS(&server, "DEL " TRAY);
		}
}

TEST(a_list_of_another_type_is_refused, moves_setup)
{
	struct redis_reply reply;

	put_message();
	REDIS(&server, "SET i:thumbs text");
	reply = emit_as(&owner, &by_value, &to_list);
	assert_non_null(strstr(reply.str, "WRONGTYPE"));
	assert_non_null(strstr(reply.str, ", push to i:thumbs"));
	assert_string_equal(REDIS(&server, "GET i:thumbs").str, "text");
	REDIS(&server, "DEL i:thumbs");
	nothing_was_pushed();
}

/* Whatever else is refused: the script does not begin what it could not undo. */
TEST(without_the_right_to_take_a_push_back_nothing_is_pushed, moves_setup)
{
	static const struct { const char *right, *key; const struct queue_emitted *emitted; } rights[] = {
		{ "-ltrim", "i:thumbs", &emitted }, { "-zrem", "quredis:of:i:delayed", &emitted }, { "-ltrim", "i:thumbs", &to_list } };

	put_message();
	for (size_t i = 0; i < nitems(rights); i++)
		for (int removable = 0; removable < 2; removable++) {
			char named[128];
			struct redis_reply reply;

			snprintf(named, sizeof(named), ", push to %s", rights[i].key);
			REDIS(&server, "ACL SETUSER default %s %s", rights[i].right, removable ? "+lrem" : "-lrem");
			reply = emit_as(&owner, &by_value, rights[i].emitted);
			assert_int_equal(reply.type, REDIS_ERROR);
			assert_non_null(strstr(reply.str, named));
			REDIS(&server, "ACL SETUSER default +@all");
			nothing_was_pushed();
		}
	assert_int_equal(emit(), 1);
}

TEST(a_lease_that_has_run_out_does_not_come_back_after_a_refusal, moves_setup)
{
	const struct queue_emitted *e;

	for (EACH_FORM(e)) {
		moves_put(TRAY, RAW, RAW_LEN);
		REDIS(&server, "SET %s text", e == &to_list ? "i:thumbs" : "i:mail");
		assert_int_equal(emit_as(&owner, &by_value, e).type, REDIS_ERROR);
		assert_int_equal(REDIS_INT(&server, "EXISTS " LEASE), 0);
	}
}

TEST(where_memory_is_full_nothing_happens, moves_setup)
{
	const struct queue_emitted *e;

	for (EACH_FORM(e)) {
		put_message();
		REDIS(&server, "CONFIG SET maxmemory 1");
		assert_non_null(strstr(emit_as(&owner, &by_value, e).str, "OOM"));
		REDIS(&server, "CONFIG SET maxmemory 0");
		nothing_was_pushed();
		assert_int_equal(emit_as(&owner, &by_value, e).integer, 1);
	}
}

TEST(a_message_that_is_not_at_its_place_stays, moves_setup)
{
	struct queue_entry e = { .raw = RAW, .len = RAW_LEN, .at = -1, .of = 2 };

	put_message();
	assert_int_equal(emit_as(&owner, &e, &emitted).integer, QUEUE_CANNOT_TELL);
	assert_int_equal(REDIS_INT(&server, "EXISTS i:thumbs"), 0);
	e.of = 1;
	assert_int_equal(emit_as(&owner, &e, &emitted).integer, 1);
	assert_int_equal(moves_count("i:thumbs"), 2);
}

/* As many as emit.max allows, each a push of its own or all of them in one. */
TEST(the_largest_number, moves_setup)
{
	struct queue_put *puts = alloc_zero(CONF_EMIT_MAX, sizeof(*puts));
	const struct queue_emitted many = { .targets = targets, .ntargets = 2, .puts = puts, .nputs = CONF_EMIT_MAX },
	    in_one = { .targets = targets, .ntargets = 1, .puts = puts, .nputs = CONF_EMIT_MAX };
	char (*text)[8] = alloc_zero(CONF_EMIT_MAX, sizeof(*text));

	for (int delayed = 0; delayed < 2; delayed++) {
		put_message();
		for (size_t i = 0; i < CONF_EMIT_MAX; i++)
			puts[i] = (struct queue_put){ .target = (size_t)delayed, .delay_ms = delayed, .data = text[i],
				.len = (size_t)snprintf(text[i], sizeof(*text), "%zu", i) };
		assert_int_equal(emit_as(&owner, &by_value, &many).integer, 1);
		assert_int_equal(moves_count(targets[delayed]), CONF_EMIT_MAX);
		if (!delayed) {
			put_message();
			assert_int_equal(emit_as(&owner, &by_value, &in_one).integer, 1);
			assert_int_equal(moves_count(targets[0]), 2 * CONF_EMIT_MAX);
		}
	}
	put_message();
	REDIS(&server, "DEL i:thumbs quredis:of:i:delayed");
	REDIS(&server, "ACL SETUSER default -lrem");
	assert_int_equal(emit_as(&owner, &by_value, &many).type, REDIS_ERROR);
	REDIS(&server, "ACL SETUSER default +lrem");
	assert_int_equal(moves_count(targets[1]), 0);
	free(puts);
	free(text);
}

TEST(the_history_has_the_message, moves_setup)
{
	struct queue_history *h = queue_history_new(1);

	put_message();
	queue_history_add(h, &message, 1764205200000, 12, 100);
	queue_history_emit(&server.r, &owner, 0, &by_value, &emitted, h, 10, "n");
	queue_history_free(h);
	assert_int_equal(private_redis_answer(&server).integer, 1);
	assert_int_equal(REDIS_INT(&server, "XLEN quredis:of:i:done"), 1);
	assert_int_equal(moves_count("i:thumbs"), 2);
}

int main(void)
{
	return unit_run(moves_setup_all, moves_teardown_all);
}
