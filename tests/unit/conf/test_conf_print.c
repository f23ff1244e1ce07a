/* links: tests/unit/conf/conf_fixture.c tests/unit/conf/conf_values_other.c */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/conf/conf_fixture.h"
#include "tests/unit/conf/conf_values_other.h"

#include "common/conf/schema.h"
#include "common/conf/types.h"
#include "common/base/nitems.h"
#include "tests/unit/unit.h"

/* What -T prints parses again to an equal configuration; and so does the annotated file we ship. */

static char *without_comments(const char *text)
{
	char *out = calloc(1, strlen(text) + 1), *to = out;

	for (const char *end; *text != '\0'; text = end + (*end == '\n')) {
		const char *comment = strstr(text, "\t# ");

		end = text + strcspn(text, "\n");
		if (comment == NULL || comment > end)
			comment = end;
		memcpy(to, text, (size_t)(comment - text));
		to += comment - text;
		*to++ = '\n';
	}
	return out;
}

/* What env sets is not printed; names that it passes on are. */
static bool sets_values(char *const *env)
{
	for (; env != NULL && *env != NULL; env++)
		if (strchr(*env, '=') != NULL)
			return true;
	return false;
}

static void assert_equal_queues(struct conf_queue *a, struct conf_queue *b)
{
	char **env = a->env;

	if (sets_values(env)) {
		assert_null(b->env);
		a->env = NULL;
	}
	assert_true(conf_queue_equal(a, b));
	a->env = env;
}

static void assert_equal(const struct conf *a, const struct conf *b)
{
	assert_true(conf_globals_equal(a, b));
	assert_int_equal(a->nqueues, b->nqueues);
	for (size_t i = 0; i < a->nqueues; i++) {
		assert_equal_queues(a->queues[i], b->queues[i]);
		assert_int_equal(a->queues[i]->workers, b->queues[i]->workers);
	}
}

/* load(print(load(file))) equals load(file), and prints the same but for the origins. */
static void assert_round_trip(struct conf_fixture *f)
{
	struct conf_fixture *again;
	char *first, *second, *a, *b;
	void *state;

	assert_loaded(f);
	first = conf_printed(f->conf);
	assert_int_equal(conf_fixture_setup(&state), 0);
	again = state;
	conf_read_text(again, first);
	if (again->conf == NULL)
		fail_msg("%s\n%s", again->report, first);
	assert_equal(f->conf, again->conf);
	second = conf_printed(again->conf);
	a = without_comments(first);
	b = without_comments(second);
	assert_string_equal(a, b);
	free(first);
	free(second);
	free(a);
	free(b);
	conf_fixture_teardown(&state);
}

TEST(defaults, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;

	conf_read_text(f, "");
	assert_round_trip(f);
	conf_read_text(f, "queues = ( { name = \"a\"; handler = [\"/bin/cat\"]; }, { name = \"b\"; handler = [\"/bin/cat\"]; } );");
	assert_round_trip(f);
}

static bool usable(const struct conf_key *key)
{
	/* the rest does not go together with all others */
	return strcmp(key->path, "dead_letter.forward_to") != 0 && strcmp(key->path, "redis.embedded") != 0 &&
	    strcmp(key->path, "redis.dir") != 0 && strncmp(key->path, "redis.sentinel", strlen("redis.sentinel")) != 0 &&
	    strcmp(key->path, "redis.master") != 0 && strcmp(key->path, "shared") != 0 &&
	    strcmp(key->path, "function") != 0 && strcmp(key->path, "throttle") != 0 &&
	    strcmp(key->path, "emit.queues") != 0;
}

/* Closes groups until `group`, such as "health.thresholds", is a part of `path` or empty, then opens those that path needs. */
static void enter_group(struct buffer *b, char group[64], const char *path)
{
	size_t len = strlen(group);

	while (len > 0 && (strncmp(path, group, len) != 0 || path[len] != '.')) {
		buffer_format(b, "};\n");
		while (len > 0 && group[--len] != '.')
			;
		group[len] = '\0';
	}
	for (const char *name = path + (len > 0 ? len + 1 : 0), *dot; (dot = strchr(name, '.')) != NULL; name = dot + 1) {
		buffer_format(b, "%.*s = {\n", (int)(dot - name), name);
		snprintf(group, 64, "%.*s", (int)(dot - path), path);
	}
}

/* One line of "a.b = value" each would set a group twice: groups are opened once here. */
static void write_keys(struct buffer *b, const struct conf_schema *schema, const char *password_file)
{
	char group[64] = "";

	for (size_t i = 0; i < schema->n; i++) {
		const struct conf_key *key = &schema->keys[i];
		char *value;

		enter_group(b, group, key->path);
		if (!usable(key))
			continue;
		value = conf_other_value(key);
		conf_nest(b, key->path + (group[0] == '\0' ? 0 : strlen(group) + 1), strcmp(key->path, "redis.password_file") == 0 ? password_file : value);
		free(value);
	}
	enter_group(b, group, "");
}

TEST(the_queue_of_dead_letters_does_not_forward_to_itself, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;

	conf_read_text(f, "dead_letter = { forward_to = \"x\"; };\n"
	    "queues = ( { name = \"x\"; handler = [\"/bin/true\"]; }, { name = \"a\"; handler = [\"/bin/true\"]; } );");
	assert_loaded(f);
	assert_null(f->conf->queues[0]->dead_letter.forward_to);
	assert_string_equal(f->conf->queues[1]->dead_letter.forward_to, "x");
	assert_round_trip(f);
}

TEST(one_that_is_shared, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;

	conf_read_text(f, "queues = ( { name = \"a\"; handler = [\"/bin/true\"]; shared = true; }, { name = \"b\"; handler = [\"/bin/true\"]; } );");
	assert_loaded(f);
	assert_true(f->conf->queues[0]->shared);
	assert_false(f->conf->queues[1]->shared);
	assert_round_trip(f);
}

TEST(a_throttle_is_printed_and_read_back, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;

	conf_read_text(f, "throttles = ( { name = \"api\"; rate = \"9/1s\"; burst = 3; max_in_flight = 5; } );\n"
	    "queues = ( { name = \"a\"; handler = [\"/bin/true\"]; throttle = \"api\"; }, { name = \"b\"; handler = [\"/bin/true\"]; } );");
	assert_loaded(f);
	assert_int_equal(f->conf->queues[0]->rate.n, 9);
	assert_int_equal(f->conf->queues[0]->burst, 3);
	assert_int_equal(f->conf->queues[0]->max_in_flight, 5);
	assert_int_equal(f->conf->queues[1]->max_in_flight, -1);
	assert_int_equal(f->conf->queues[1]->rate.n, 0);
	assert_round_trip(f);
}

TEST(everything_set, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;
	struct buffer b = {0};
	char quoted[256];

	snprintf(quoted, sizeof(quoted), "\"%s\"", conf_write(f, "pass", "secret"));
	write_keys(&b, &conf_schema_global, quoted);
	buffer_format(&b, "queues = ( {\n");
	write_keys(&b, &conf_schema_queue, NULL);
	buffer_format(&b, "} );\n");
	buffer_append(&b, "", 1);
	conf_read_text(f, b.data);
	assert_loaded(f);
	assert_string_equal(f->conf->redis.password, "secret");
	for (size_t i = 0; i < conf_schema_queue.n; i++)
		if (usable(&conf_schema_queue.keys[i]) && f->conf->queues[0]->origins[i].kind != CONF_ORIGIN_FILE)
			fail_msg("%s was not set", conf_schema_queue.keys[i].path);
	assert_round_trip(f);
	buffer_free(&b);
}

TEST(any_byte, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;
	struct buffer b = {0};
	char all[256];

	buffer_format(&b, "queues = ( { name = \"a\"; handler = [\"/bin/cat\", \"");
	for (int c = 1; c < 256; c++) {
		all[c - 1] = (char)c;
		buffer_format(&b, "\\x%02x", c);
	}
	all[255] = '\0';
	buffer_format(&b, "\", \"\", \"\\\\x41\", \"ü€ 'q' \\\"\", \"/* # // \", \"\\x07\" \"7\"]; } );");
	buffer_append(&b, "", 1);
	conf_read_text(f, b.data);
	buffer_free(&b);
	assert_loaded(f);
	assert_string_equal(f->conf->queues[0]->handler[1], all);
	assert_string_equal(f->conf->queues[0]->handler[2], "");
	assert_string_equal(f->conf->queues[0]->handler[3], "\\x41");
	assert_string_equal(f->conf->queues[0]->handler[6], "\a7");
	assert_round_trip(f);
}

TEST(numbers, conf_fixture_setup, conf_fixture_teardown)
{
	static const char *const values[] = { "0.1", "0.30000000000000004", "1.0e-300", "0.0", "1.0", "0.123456789012345678", "1" };
	struct conf_fixture *f = *state;
	char text[512];

	for (size_t i = 0; i < nitems(values); i++) {
		snprintf(text, sizeof(text), "health = { thresholds = { ingress_max = 3000000000L; }; };\n"
		    "queues = ( { name = \"a\"; handler = [\"/bin/cat\"]; backoff = { jitter = %s; factor = 3.3333333333333335; };"
		    " } );", values[i]);
		conf_read_text(f, text);
		assert_round_trip(f);
	}
}

TEST(embedded, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;

	conf_read_text(f, "redis = { embedded = true; dir = \"/var/lib/quredis\"; };");
	assert_round_trip(f);
}

/* A value that a queue takes from elsewhere stays the other's to change. */
TEST(inherited, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;

	conf_read_text(f, "supervisor = { kill_grace = \"1s\"; }; dead_letter = { payload_max = \"1K\"; };\n"
	    "purge = { max_ingress_age = \"3d\"; check = [\"/bin/x\"]; };\n"
	    "defaults = { handler = [\"/bin/cat\"]; workers = 3; };\n"
	    "queues = ( { name = \"a\"; }, { name = \"b\"; kill_grace = \"2s\"; dead_letter = { enabled = false; }; } );");
	assert_round_trip(f);
}

TEST(origins_are_told, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;
	char *printed;

	setenv("QUREDIS_LOG_LEVEL", "error", 1);
	conf_write(f, "quredis.conf", "\nredis = { url = \"redis://h\"; };\ndefaults = {\nworkers = 3; };\n");
	conf_write(f, "conf.d/q\nevil = 1;.conf", "queues = ( {\nname = \"a\"; handler = [\"/bin/cat\"]; } );");
	conf_read(f, CONF_LENIENT_HANDLERS);
	assert_loaded(f);
	printed = conf_printed(f->conf);
	assert_non_null(strstr(printed, "quredis.conf:2\n"));
	assert_non_null(strstr(printed, "level = \"error\";\t# environment QUREDIS_LOG_LEVEL\n"));
	assert_non_null(strstr(printed, "quredis.conf:4\n"));
	assert_non_null(strstr(printed, "conf.d/q?evil = 1;.conf:2\n"));
	assert_non_null(strstr(printed, "\t# kill_grace = \"5s\";\t# as supervisor.kill_grace\n"));
	assert_non_null(strstr(printed, "\tlease = \"30s\";\t# default\n"));
	assert_non_null(strstr(printed, "\t# password_file =\t# not set\n"));
	free(printed);
	assert_round_trip(f);
}

/* ---- etc/quredis.conf ---- */

static char *shipped(void)
{
	char *text = NULL;
	size_t len = 0;
	FILE *in = fopen("etc/quredis.conf", "re");

	assert_non_null(in);
	assert_true(getdelim(&text, &len, '\0', in) > 0);
	fclose(in);
	return text;
}

TEST(the_shipped_file_is_right, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;
	char *text = shipped();

	conf_read_text(f, text);
	free(text);
	assert_loaded(f);
	assert_string_equal(f->report, "warning: quredis.conf: no queue is defined: nothing will run. Write one into conf.d/NAME.conf "
	    "beside this file (quredis.conf(5), EXAMPLES), and reload\n");
	assert_round_trip(f);
}

/* "#key" becomes "key": what the file says is the default. */
static char *switched_on(void)
{
	char *text = shipped(), *to = text;
	bool start = true;

	for (const char *p = text; *p != '\0'; p++) {
		if (start && *p == '#' && p[1] != '\0' && strchr("abcdefghijklmnopqrstuvwxyz{}", p[1]) != NULL)
			continue;
		start = *p == '\n' || (start && *p == '\t');
		*to++ = *p;
	}
	*to = '\0';
	return text;
}

static bool is_default(const struct conf_key *key, const void *base)
{
	struct conf_key plain = *key;
	union {
		struct conf conf;
		struct conf_queue queue;
	} *fresh = calloc(1, sizeof(*fresh));
	bool same;

	plain.fallback = conf_default_text(key);
	conf_value_unset(&plain, fresh);
	conf_value_default(&plain, fresh);
	same = conf_value_equal(&plain, fresh, base);
	conf_value_free(&plain, fresh);
	free(fresh);
	return same;
}

static void check_shipped(const struct conf_schema *schema, const void *base, const struct conf_origin *origins,
    const char *text)
{
	char example[64];

	for (size_t i = 0; i < schema->n; i++) {
		const struct conf_key *key = &schema->keys[i];
		const char *last = strrchr(key->path, '.');

		snprintf(example, sizeof(example), "# %s = ", last == NULL ? key->path : last + 1);
		if (conf_default_text(key) != NULL && origins[i].kind != CONF_ORIGIN_FILE)
			fail_msg("%s%s is not in etc/quredis.conf", schema->prefix, key->path);
		if (conf_default_text(key) != NULL && !is_default(key, base))
			fail_msg("%s%s has not its default in etc/quredis.conf", schema->prefix, key->path);
		if (conf_default_text(key) == NULL && origins[i].kind != CONF_ORIGIN_FILE && strstr(text, example) == NULL)
			fail_msg("%s%s has no example in etc/quredis.conf", schema->prefix, key->path);
	}
}

TEST(the_shipped_file_shows_every_key, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;
	char *text = switched_on();

	conf_read_text(f, text);
	assert_loaded(f);
	assert_int_equal(f->conf->nqueues, 1);
	check_shipped(&conf_schema_global, f->conf, f->conf->origins, text);
	check_shipped(&conf_schema_queue, f->conf->queues[0], f->conf->queues[0]->origins, text);
	assert_int_equal(f->conf->nschedules, 1);
	check_shipped(&conf_schema_schedule, f->conf->schedules[0], f->conf->schedules[0]->origins, text);
	assert_int_equal(f->conf->nthrottles, 1);
	check_shipped(&conf_schema_throttle, f->conf->throttles[0], f->conf->throttles[0]->origins, text);
	free(text);
}

TEST(what_env_sets_is_hidden, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;
	char *printed;

	conf_read_text(f, "queues = ( { name = \"a\"; handler = [\"/bin/cat\"]; timeout = \"1s\"; env = [\"TOKEN=hush\", \"PATH\", \"E=\"]; },\n"
	    "{ name = \"b\"; handler = [\"/bin/cat\"]; timeout = \"1s\"; env = [\"PATH\"]; } );");
	assert_loaded(f);
	printed = conf_printed(f->conf);
	assert_null(strstr(printed, "hush"));
	assert_non_null(strstr(printed, "# env = [\"TOKEN=***\", \"PATH\", \"E=***\"];\t# "));
	assert_non_null(strstr(printed, "; the values are left out here\n"));
	assert_non_null(strstr(printed, "\t\tenv = [\"PATH\"];\t# "));
	free(printed);
}

UNIT_MAIN(NULL, NULL)
