/* links: tests/unit/conf/conf_fixture.c tests/unit/conf/conf_values_other.c */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/conf/conf_fixture.h"
#include "tests/unit/conf/conf_values_other.h"

#include "common/base/buffer.h"
#include "common/conf/schema.h"
#include "common/conf/types.h"
#include "common/base/nitems.h"
#include "common/base/units.h"
#include "tests/unit/unit.h"

/* What holds for every key of the table, tried for every key of the table. */

static const struct conf_schema *const schemas[] = { &conf_schema_global, &conf_schema_queue };

#define for_each_key(schema, key)                                                                  \
	for (const struct conf_schema *const *schema = schemas; schema < schemas + nitems(schemas); schema++) \
		for (const struct conf_key *key = (*schema)->keys; key < (*schema)->keys + (*schema)->n; key++)

static char *file_with(const struct conf_schema *schema, const struct conf_key *key, const char *value)
{
	struct buffer b = {0};

	if (schema == &conf_schema_global) {
		conf_nest(&b, key->path, value);
	} else {
		buffer_format(&b, "queues = ( { ");
		if (strcmp(key->path, "name") != 0)
			buffer_format(&b, "name = \"a\"; ");
		if (strcmp(key->path, "handler") != 0)
			buffer_format(&b, "handler = [\"/bin/cat\"]; ");
		conf_nest(&b, key->path, value);
		buffer_format(&b, "} );");
	}
	buffer_append(&b, "", 1);
	return b.data;
}

static void load_with(struct conf_fixture *f, const struct conf_schema *schema, const struct conf_key *key,
    const char *value)
{
	char *text = file_with(schema, key, value);

	conf_read_text(f, text);
	free(text);
}

/* ---- the table itself ---- */

TEST(every_key_has_a_place_of_its_own, conf_fixture_setup, conf_fixture_teardown)
{
	for_each_key(schema, key)
		for (const struct conf_key *before = (*schema)->keys; before < key; before++) {
			if (before->offset == key->offset || strcmp(before->path, key->path) == 0)
				fail_msg("%s and %s", before->path, key->path);
		}
}

TEST(every_default_is_in_its_range, conf_fixture_setup, conf_fixture_teardown)
{
	union {
		struct conf conf;
		struct conf_queue queue;
	} *memory = calloc(1, sizeof(*memory));

	for_each_key(schema, key) {
		conf_value_unset(key, memory);
		if (key->fallback != NULL)
			conf_value_default(key, memory);	/* asserts */
		conf_value_free(key, memory);
		memset(memory, 0, sizeof(*memory));	/* the next key may be of the other struct */
	}
	free(memory);
}

TEST(what_is_inherited_is_of_one_kind, conf_fixture_setup, conf_fixture_teardown)
{
	for_each_key(schema, key) {
		const struct conf_key *from;

		if (key->inherits == NULL)
			continue;
		from = conf_key_find(&conf_schema_global, key->inherits);
		if (from == NULL || from->type != key->type || from->min != key->min || from->max != key->max)
			fail_msg("%s", key->path);
	}
}

/* Keys that files of users have, and that no change of the table may lose. A new key need not be added. */
TEST(the_vocabulary_is_known, conf_fixture_setup, conf_fixture_teardown)
{
	static const char *const global[] = { "redis.url", "redis.password_file", "redis.embedded", "redis.dir", "supervisor.node",
		"supervisor.lock_file", "supervisor.control_socket", "supervisor.drain_timeout", "supervisor.kill_grace",
		"supervisor.lease", "log.target", "log.format", "log.level", "dead_letter.enabled", "dead_letter.ttl",
		"dead_letter.max_entries", "dead_letter.archive", "dead_letter.discard", "dead_letter.forward_to",
		"dead_letter.payload_max", "purge.enabled", "purge.interval", "purge.dry_run", "purge.max_ingress_age",
		"purge.max_transit_age", "purge.max_done_age", "purge.max_orphaned_age", "purge.max_message_age", "purge.check",
		"health.enabled", "health.interval", "health.thresholds.ingress_max", "health.thresholds.transit_max",
		"health.thresholds.dlq_max_warning", "health.thresholds.dlq_max_critical", "health.thresholds.stuck_age",
		"health.thresholds.stuck_max_warning", "health.thresholds.stuck_max_critical", "metrics.statsd",
		"metrics.textfile", "metrics.interval", "web.listen", "web.token_file", "web.read_only", "web.hosts" };
	static const char *const queue[] = { "name", "ingress", "transit", "escape", "shared", "handler", "mode", "input",
		"window", "reply_fd", "env", "timeout", "kill_grace", "fence", "workers", "batch.max", "batch.time",
		"recycle.jobs", "recycle.rss", "recycle.age", "max_attempts", "backoff.base", "backoff.factor", "backoff.cap",
		"backoff.jitter", "exit_codes", "breaker.failures", "recovery_attempts", "ttl", "done.keep", "done.max_age",
		"done.payload", "dead_letter.enabled", "dead_letter.ttl", "purge.max_ingress_age", "purge.max_message_age",
		"run_as.user", "run_as.group", "run_as.directory", "run_as.umask", "run_as.nice", "run_as.no_new_privs",
		"limits.memory", "limits.open_files", "limits.processes", "limits.cpu", "limits.file_size",
		"limits.oom_score_adj", "stderr_tail" };

	for (size_t i = 0; i < nitems(global); i++)
		if (conf_key_find(&conf_schema_global, global[i]) == NULL)
			fail_msg("%s", global[i]);
	for (size_t i = 0; i < nitems(queue); i++)
		if (conf_key_find(&conf_schema_queue, queue[i]) == NULL)
			fail_msg("%s", queue[i]);
}

/* ---- each key in a file ---- */

TEST(any_other_value_is_taken, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;

	for_each_key(schema, key) {
		char *value = conf_other_value(key);

		load_with(f, *schema, key, value);
		free(value);
		/* a function stands in place of the handler; the throttle and the queues to emit to do not exist */
		if (strcmp(key->path, "redis.password_file") != 0 && strcmp(key->path, "dead_letter.forward_to") != 0 &&
		    strcmp(key->path, "function") != 0 && strcmp(key->path, "throttle") != 0 &&
		    strcmp(key->path, "emit.queues") != 0)
			assert_loaded(f);
	}
}

static void number_text(const struct conf_key *key, int64_t n, char out[64])
{
	char text[UNITS_SIZE];

	if (key->type == CONF_TYPE_DURATION)
		snprintf(out, 64, "\"%s\"", units_format_duration(n, text));
	else if (key->type == CONF_TYPE_SIZE)
		snprintf(out, 64, "\"%s\"", units_format_size(n, text));
	else
		snprintf(out, 64, "%lldL", (long long)n);
}

static bool complains(struct conf_fixture *f, const struct conf_schema *schema, const struct conf_key *key, int64_t n)
{
	char value[64], message[128];

	number_text(key, n, value);
	load_with(f, schema, key, value);
	snprintf(message, sizeof(message), "quredis.conf:1: %s: expected ", key->path);
	return conf_said(f, message);
}

TEST(ranges_hold_at_both_ends, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;

	for_each_key(schema, key) {
		if (key->type != CONF_TYPE_INT && key->type != CONF_TYPE_COUNT && key->type != CONF_TYPE_DURATION &&
		    key->type != CONF_TYPE_SIZE && key->type != CONF_TYPE_FLOAT)
			continue;
		assert_true(key->min < key->max);
		if (complains(f, *schema, key, key->min) || complains(f, *schema, key, key->max))
			fail_msg("%s: %s", key->path, f->report);
		if (!complains(f, *schema, key, key->min - 1) || !complains(f, *schema, key, key->max + 1))
			fail_msg("%s: %s", key->path, f->report);
	}
}

TEST(no_type_takes_another, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;
	static const struct {
		const char *text;
		enum conf_type fits[5];		/* BOOL at the end stands for nothing more */
	} values[] = {
		{ "true", { CONF_TYPE_BOOL } },
		{ "\"\"", { CONF_TYPE_BOOL } },
		{ "1", { CONF_TYPE_INT, CONF_TYPE_COUNT, CONF_TYPE_FLOAT } },
		{ "1.5", { CONF_TYPE_FLOAT } },
		{ "{ }", { CONF_TYPE_CODES } },
		{ "[]", { CONF_TYPE_BOOL } },
		{ "[1]", { CONF_TYPE_BOOL } },
		{ "(\"x\", 1)", { CONF_TYPE_BOOL } },
		{ "\"no such thing\\n\"", { CONF_TYPE_BOOL } },
	};
	char message[128];

	for_each_key(schema, key)
		for (size_t i = 0; i < nitems(values); i++) {
			bool fits = i == 0 && key->type == CONF_TYPE_BOOL;

			for (size_t k = 0; k < nitems(values[i].fits); k++)
				fits |= values[i].fits[k] != CONF_TYPE_BOOL && values[i].fits[k] == key->type;
			if (fits)
				continue;
			load_with(f, *schema, key, values[i].text);
			snprintf(message, sizeof(message), "quredis.conf:1: %s: expected ", key->path);
			assert_refused(f, message);
		}
}

/* ---- comparing ---- */

static struct conf *loaded_again(struct conf_fixture *f)
{
	struct conf *conf;

	conf_read(f, CONF_LENIENT_HANDLERS);
	assert_loaded(f);
	conf = f->conf;
	f->conf = NULL;
	return conf;
}

static const struct conf_raw *raw_other(const struct conf_key *key)
{
	static const char *const strings[] = { "/other", NULL };
	static enum conf_outcome codes[256];
	static struct conf_raw raw;
	static char text[UNITS_SIZE];

	raw = (struct conf_raw){ .kind = CONF_RAW_STRING, .string = "/other", .number = key->max, .strings = strings,
		.codes = codes };
	if (key->type == CONF_TYPE_BOOL) {
		raw.kind = CONF_RAW_BOOL;
		raw.number = conf_default_text(key) == NULL || strcmp(conf_default_text(key), "true") != 0;
	} else if (key->type == CONF_TYPE_INT || key->type == CONF_TYPE_COUNT || key->type == CONF_TYPE_FLOAT) {
		raw.kind = CONF_RAW_INT;
	} else if (key->type == CONF_TYPE_DURATION) {
		raw.string = units_format_duration(key->max, text);
	} else if (key->type == CONF_TYPE_SIZE) {
		raw.string = units_format_size(key->max, text);
	} else if (key->type == CONF_TYPE_STRINGS) {
		raw.kind = CONF_RAW_STRINGS;
	} else if (key->type == CONF_TYPE_CHOICE) {
		raw.string = key->choices[1];
		if (conf_default_text(key) != NULL && strcmp(raw.string, conf_default_text(key)) == 0)
			raw.string = key->choices[0];
	} else if (key->type == CONF_TYPE_RATE) {
		raw.string = "7/1m";
	} else if (key->type == CONF_TYPE_OCTAL) {
		raw.string = "0123";
	} else if (key->type == CONF_TYPE_CODES) {
		raw.kind = CONF_RAW_CODES;
	}
	return &raw;
}

TEST(each_key_makes_a_difference, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;
	struct conf *a, *b;

	conf_write(f, "quredis.conf", "queues = ( { name = \"a\"; handler = [\"/bin/cat\"]; } );");
	a = loaded_again(f);
	for_each_key(schema, key) {
		bool global = *schema == &conf_schema_global;

		b = loaded_again(f);
		assert_true(conf_globals_equal(a, b));
		assert_true(conf_queue_equal(a->queues[0], b->queues[0]));
		assert_int_equal(conf_value_read(key, raw_other(key), global ? (void *)b : (void *)b->queues[0]), 0);
		if (conf_globals_equal(a, b) == global)
			fail_msg("%s", key->path);
		if (conf_queue_equal(a->queues[0], b->queues[0]) != (global || strcmp(key->path, "workers") == 0))
			fail_msg("%s", key->path);
		conf_free(b);
	}
	conf_free(a);
}

TEST(what_was_looked_up_makes_a_difference, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;
	struct conf *a, *b;

	conf_write(f, "quredis.conf", "redis = { url = \"redis://u:p@h\"; };\n"
	    "queues = ( { name = \"a\"; handler = [\"/bin/cat\"]; timeout = \"1s\"; } );");
	a = loaded_again(f);
	b = loaded_again(f);
	b->redis.password[0] = 'q';
	assert_false(conf_globals_equal(a, b));
	b->redis.password[0] = 'p';
	assert_true(conf_globals_equal(a, b));
	b->queues[0]->run_as.uid++;
	assert_false(conf_queue_equal(a->queues[0], b->queues[0]));
	b->queues[0]->run_as.uid--;
	b->queues[0]->run_as.gid++;
	assert_false(conf_queue_equal(a->queues[0], b->queues[0]));
	b->queues[0]->run_as.gid--;
	b->queues[0]->limits.oom_score_adj_set = true;	/* -1, but given */
	assert_false(conf_queue_equal(a->queues[0], b->queues[0]));
	conf_free(a);
	conf_free(b);
}

static bool ends_with(const char *path, const char *end)
{
	size_t len = strlen(path), tail = strlen(end);

	return len >= tail && strcmp(path + len - tail, end) == 0;
}

/* A new key for a secret must not be forgotten: its name shows what it is. */
TEST(a_key_for_a_secret_is_marked, conf_fixture_setup, conf_fixture_teardown)
{
	static const char *const ends[] = { "password_file", "key_file", "token_file", "secret_file" };

	for_each_key(schema, key) {
		bool named = false;

		for (size_t i = 0; i < nitems(ends); i++)
			named = named || ends_with(key->path, ends[i]);
		assert_int_equal(key->secret == CONF_SECRET_FILE, named);
		if (ends_with(key->path, "env"))
			assert_int_equal(key->secret, CONF_SECRET_VALUES);
		if (ends_with(key->path, "url"))
			assert_int_equal(key->secret, CONF_SECRET_PART);
	}
}

UNIT_MAIN(NULL, NULL)
