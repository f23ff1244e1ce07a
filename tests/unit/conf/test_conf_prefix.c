/* links: tests/unit/conf/conf_fixture.c */
/* redis.prefix: which names it changes, what it may be, and which keys must share its slot. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/conf/conf_fixture.h"

#include "common/base/nitems.h"
#include "tests/unit/unit.h"

/* One queue, on line 2; more: its keys beside name and handler, from line 3 on. */
static void read_with(struct conf_fixture *f, const char *prefix, const char *more)
{
	char text[1024];

	snprintf(text, sizeof(text), "redis = { prefix = \"%s\"; };\nqueues = ( { name = \"mail\"; handler = [\"/bin/cat\"];\n%s } );", prefix, more);
	conf_read_text(f, text);
}

TEST(it_goes_before_every_default_name, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;

	read_with(f, "{a}", "");
	assert_loaded(f);
	assert_string_equal(f->conf->redis.prefix, "{a}");
	assert_string_equal(f->conf->queues[0]->ingress, "{a}ingress:mail");
	assert_string_equal(f->conf->queues[0]->transit, "{a}transit:mail");
	assert_string_equal(f->conf->queues[0]->escape, "{a}escape:mail");
}

TEST(names_in_a_file_stay_as_they_are, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;

	read_with(f, "a:", "ingress = \"theirs\"; escape = \"{x}dead\";");
	assert_loaded(f);
	assert_string_equal(f->conf->queues[0]->ingress, "theirs");
	assert_string_equal(f->conf->queues[0]->transit, "a:transit:mail");
	assert_string_equal(f->conf->queues[0]->escape, "{x}dead");
}

TEST(the_environment_gives_it_to_commands_without_a_file, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;

	setenv("QUREDIS_REDIS_PREFIX", "{env}", 1);
	read_with(f, "{a}", "");
	unsetenv("QUREDIS_REDIS_PREFIX");
	assert_loaded(f);
	assert_string_equal(f->conf->redis.prefix, "{env}");
	assert_string_equal(f->conf->queues[0]->ingress, "{env}ingress:mail");
}

TEST(a_bad_prefix_is_refused_with_its_line, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;
	static const char *const bad[][2] = {
		{ "a b", "expected 1 to 64" }, { "a*", "expected 1 to 64" }, { "{a", "around one hash tag" }, { "a}", "around one hash tag" },
		{ "{}", "around one hash tag" }, { "{a}{b}", "around one hash tag" }, { "{{a}}", "around one hash tag" }, { "}{a}", "around one hash tag" },
		{ "quredis:x:", "are reserved" },
		{ "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "expected 1 to 64" },
	};

	for (size_t i = 0; i < nitems(bad); i++) {
		read_with(f, bad[i][0], "");
		assert_refused(f, bad[i][1]);
		assert_said(f, "quredis.conf:1: redis.prefix: ");
	}
}

TEST(with_a_hash_tag_all_keys_must_share_its_slot, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;

	read_with(f, "{a}", "ingress = \"{b}x\";\ntransit = \"foo\";\nescape = \"dead:{a}\";");
	assert_refused(f, "quredis.conf:3: queue mail: ingress = \"{b}x\" is in slot 3300 of a Redis Cluster, and redis.prefix = \"{a}\" in "
	    "slot 15495: all keys must be in one slot. Put {a} into the name, or leave ingress out");
	assert_said(f, "quredis.conf:4: queue mail: transit = \"foo\" is in slot 12182 of a Redis Cluster (it has no hash tag, so its keys are in several)");
	assert_int_equal(f->errors, 2);
}

/* "a" itself is in the slot of "{a}", but none of the keys that are made of it. */
TEST(a_name_without_a_tag_is_refused_even_in_the_right_slot, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;

	read_with(f, "{a}", "ingress = \"a\";");
	assert_refused(f, "ingress = \"a\" is in slot 15495 of a Redis Cluster (it has no hash tag");
}

TEST(without_a_hash_tag_slots_do_not_count, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;

	read_with(f, "a:", "ingress = \"{b}x\"; transit = \"{c}x\";");
	assert_loaded(f);
}

TEST(the_names_of_quredis_are_reserved_with_and_without_it, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;

	read_with(f, "a:", "ingress = \"a:quredis:x\";");
	assert_refused(f, "keys that begin with a:quredis: are reserved for quredis");
	read_with(f, "a:", "ingress = \"quredis:x\";");
	assert_refused(f, "keys that begin with quredis: are reserved for quredis");
}

UNIT_MAIN(NULL, NULL)
