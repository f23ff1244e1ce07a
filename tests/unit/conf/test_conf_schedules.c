/* links: tests/unit/conf/conf_fixture.c tests/unit/conf/conf_values_other.c */
/* The list of schedules: what is loaded, printed and compared. tests/conf/golden/schedules.conf has what is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/conf/conf_fixture.h"
#include "tests/unit/conf/conf_values_other.h"

#include "common/conf/schema.h"
#include "common/conf/types.h"
#include "tests/unit/unit.h"

#define QUEUES "queues = ( { name = \"db\"; handler = [\"/bin/cat\"]; } );\n"
#define FIRST "{ name = \"nightly\"; queue = \"db\"; cron = \"30 2 * * *\"; timezone = \"Europe/Berlin\"; message = \"a\\\"b\"; }"
#define SECOND "{ name = \"often\"; queue = \"db\"; every = \"5m\"; message = \"x\"; catch_up = \"none\"; }"

static const struct conf_schedule *only(struct conf_fixture *f, const char *text)
{
	conf_read_text(f, text);
	assert_loaded(f);
	assert_int_equal(f->conf->nschedules, 1);
	return f->conf->schedules[0];
}

TEST(values_and_defaults, conf_fixture_setup, conf_fixture_teardown)
{
	const struct conf_schedule *s = only(*state, QUEUES "schedules = ( " FIRST " );");

	assert_string_equal(s->name, "nightly");
	assert_string_equal(s->message, "a\"b");
	assert_int_equal(s->catch_up, CONF_CATCH_UP_ONE);
	assert_int_equal(s->times.every_ms, -1);
	assert_int_equal(cron_times_next(&s->times, INT64_C(1774659600000)), INT64_C(1774661400000));	/* 2026-03-28 01:00Z: in half an hour */
	assert_int_equal(cron_times_next(&s->times, INT64_C(1774661400000)), INT64_C(1774746000000));	/* the gap of the 29th ends at 01:00Z */
	s = only(*state, QUEUES "schedules = ( " SECOND " );");
	assert_string_equal(s->timezone, "UTC");
	assert_int_equal(s->catch_up, CONF_CATCH_UP_NONE);
	assert_int_equal(cron_times_next(&s->times, 1), 300000);
}

TEST(a_printed_list_is_read_again, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;
	struct conf *first;
	char *text;

	conf_read_text(f, QUEUES "schedules = ( " FIRST ", " SECOND " );");
	assert_loaded(f);
	text = conf_printed(f->conf);
	first = f->conf;
	f->conf = NULL;
	conf_read_text(f, text);
	assert_loaded(f);
	assert_int_equal(f->conf->nschedules, 2);
	assert_true(conf_schedules_equal(first, f->conf));
	conf_free(first);
	free(text);
}

TEST(each_key_makes_a_difference_to_the_sweeper_alone, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;
	struct conf *first;

	conf_read_text(f, QUEUES "schedules = ( " FIRST " );");
	assert_loaded(f);
	first = f->conf;
	for (size_t i = 0; i < conf_schema_schedule.n; i++) {
		const struct conf_key *key = &conf_schema_schedule.keys[i];
		struct conf_raw raw = { .kind = key->type == CONF_TYPE_BOOL ? CONF_RAW_BOOL : CONF_RAW_STRING,
			.string = key->type == CONF_TYPE_DURATION ? "7s" :
		    key->type == CONF_TYPE_CHOICE ? key->choices[1] : "other" };

		f->conf = NULL;
		conf_read_text(f, QUEUES "schedules = ( " FIRST " );");
		assert_true(conf_schedules_equal(first, f->conf));
		assert_int_equal(conf_value_read(key, &raw, f->conf->schedules[0]), 0);
		if (conf_schedules_equal(first, f->conf))
			fail_msg("%s", key->path);
		assert_true(conf_globals_equal(first, f->conf) && conf_queue_equal(first->queues[0], f->conf->queues[0]));
		conf_free(f->conf);
	}
	f->conf = NULL;
	conf_read_text(f, QUEUES);
	assert_false(conf_schedules_equal(first, f->conf));
	conf_free(first);
}

TEST(names_of_other_systems_have_advice, conf_fixture_setup, conf_fixture_teardown)
{
	static const struct {
		const char *key, *now;
	} all[] = { { "tz", "timezone" }, { "crontab", "cron" }, { "at", "cron" }, { "interval", "every" } };
	struct conf_fixture *f = *state;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		char text[512], said[128];

		snprintf(text, sizeof(text), QUEUES "schedules = ( { name = \"a\"; queue = \"db\"; every = \"5m\"; message = \"a\"; %s = \"x\"; } );",
		    all[i].key);
		snprintf(said, sizeof(said), "unknown key '%s': use %s", all[i].key, all[i].now);
		conf_read_text(f, text);
		assert_null(f->conf);
		if (strstr(f->report, said) == NULL)
			fail_msg("not told: %s\nbut:\n%s", said, f->report);
	}
}

UNIT_MAIN(NULL, NULL)
