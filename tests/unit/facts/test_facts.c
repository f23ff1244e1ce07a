/* Each row of the table of figures, on each of its faces. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "common/base/base.h"
#include "common/board/board.h"
#include "common/facts/facts.h"
#include "tests/unit/unit.h"

/* Each figure has a number of its own, so that no two can be mistaken for each other. */
static struct facts different(void)
{
	struct facts f;

	for (int i = 0; i < FACTS; i++)
		f.n[i] = facts_table[i].type == FACT_FLAG ? 1 : 100000 + i * 1017;
	return f;
}

static json_t *report_of(enum fact_scope scope, const struct facts *f)
{
	json_t *report = json_object();

	facts_write(report, scope, 0, f);
	return report;
}

TEST(each_figure_is_read_as_it_was_written)
{
	const struct facts f = different();
	struct facts read = facts_unknown();
	json_t *of_queue = report_of(FACT_OF_QUEUE, &f), *of_host = report_of(FACT_OF_HOST, &f);

	facts_read(&read, FACT_OF_QUEUE, of_queue, 0);
	facts_read(&read, FACT_OF_HOST, of_host, 0);
	for (int i = 0; i < FACTS; i++)
		if (read.n[i] != f.n[i])
			fail_msg("%s.%s: read %lld", facts_table[i].object, facts_table[i].key, (long long)read.n[i]);
	json_decref(of_queue);
	json_decref(of_host);
}

TEST(a_table_has_its_figures_only)
{
	const struct facts f = different();
	json_t *report = json_object();
	struct facts read = facts_unknown();

	facts_write(report, FACT_OF_HOST, IN_STATUS | IN_STATUS_END, &f);
	facts_read(&read, FACT_OF_HOST, report, 0);
	for (int i = 0; i < FACTS; i++)
		assert_int_equal(read.n[i] >= 0, facts_table[i].scope == FACT_OF_HOST &&
		    (facts_table[i].in & (IN_STATUS | IN_STATUS_END)) != 0);
	assert_null(json_object_get(report, "memory"));
	json_decref(report);
}

/* top and nodes add up hosts, and statsd keeps one value of a name, whichever host sends it. */
TEST(a_figure_of_a_host_can_be_added_where_hosts_are)
{
	for (int i = 0; i < FACTS; i++)
		if (facts_table[i].scope == FACT_OF_HOST) {
			assert_true((facts_table[i].in & (IN_TOP | IN_NODES | IN_NODES_END)) == 0 ||
			    facts_table[i].type <= FACT_SOME);
			assert_null(facts_table[i].statsd);
		}
}

/* Two rows with one member would overwrite each other. */
TEST(each_figure_has_a_member_of_its_own)
{
	for (int i = 0; i < FACTS; i++) {
		struct facts one = facts_unknown();
		json_t *report, *in;

		one.n[i] = 7;
		report = report_of(facts_table[i].scope, &one);
		in = facts_table[i].object == NULL ? report : json_object_get(report, facts_table[i].object);
		assert_non_null(json_object_get(in, facts_table[i].key));
		for (int other = 0; other < FACTS; other++) {
			struct facts read = facts_unknown();

			facts_read(&read, facts_table[i].scope, report, 0);
			assert_int_equal(read.n[other] >= 0, other == i);
		}
		json_decref(report);
	}
}

static void no_others(void *arg, enum metric m)
{
	(void)arg;
	(void)m;
}

/* The samples of these figures on both pages, without the heads. A new string. */
static char *samples_of(enum metric_page which, const struct facts *f, const char *node)
{
	const struct facts_row row = { .node = node, .queue = "mail", .facts = f };
	struct buffer page = {0}, samples = {0};

	facts_page(&page, which, &row, 1, no_others, NULL);
	buffer_append(&page, "", 1);
	for (const char *line = page.data, *end; (end = strchr(line, '\n')) != NULL; line = end + 1)
		if (line[0] != '#')
			buffer_append(&samples, line, (size_t)(end + 1 - line));
	buffer_append(&samples, "", 1);
	buffer_free(&page);
	return samples.data;
}

TEST(each_figure_has_its_sample)
{
	for (int i = 0; i < FACTS; i++) {
		const struct fact_words *w = &facts_table[i];
		struct facts one = facts_unknown();
		char *file, *console, value[64], label[64];

		one.n[i] = w->type == FACT_FLAG ? 1 : 2345;
		file = samples_of(PAGE_FILE, &one, "there");
		console = samples_of(PAGE_CONSOLE, &one, "there");
		assert_string_equal(file, console);
		if (w->metric == METRIC_NONE) {
			assert_string_equal(file, "");
		} else {
			snprintf(value, sizeof(value), "} %s\n",
			    w->type == FACT_FLAG ? "1" : w->type < FACT_FLAG ? "2345" : "2.345");
			snprintf(label, sizeof(label), "=\"%s\"} ", w->label == NULL ? "mail" : w->label);
			assert_non_null(strstr(file, w->scope == FACT_OF_HOST ? "{node=\"there\",queue=" : "{queue=\"mail\""));
			assert_non_null(strstr(file, label));
			assert_string_equal(strchr(file, '}'), value);		/* one sample */
		}
		free(file);
		free(console);
	}
}

TEST(what_is_unknown_is_on_no_face)
{
	const struct facts f = facts_unknown();
	char *samples = samples_of(PAGE_CONSOLE, &f, NULL);
	json_t *report = report_of(FACT_OF_QUEUE, &f), *of_delayed = json_object_get(report, "delayed");

	assert_true(json_is_object(of_delayed) && json_object_size(of_delayed) == 0);
	assert_null(json_object_get(report, "paused"));
	assert_string_equal(samples, "");
	free(samples);
	json_decref(report);
}

/* Any program can write a report: a member of another type, or out of range, is not known. */
TEST(a_wrong_member_is_not_known)
{
	static const char *const wrong[] = { "null", "\"7\"", "-1", "-0.5", "1e300", "9223372036854775807", "[]", "{}" };

	for (size_t w = 0; w < nitems(wrong); w++)
		for (int i = 0; i < FACTS; i++) {
			const char *object = facts_table[i].object;
			char *text = object == NULL ? alloc_format("{\"%s\":%s}", facts_table[i].key, wrong[w])
			    : alloc_format("{\"%s\":{\"%s\":%s}}", object, facts_table[i].key, wrong[w]);
			json_t *report = json_loads(text, 0, NULL);
			struct facts read = facts_unknown();

			assert_non_null(report);
			facts_read(&read, facts_table[i].scope, report, 0);
			assert_int_equal(read.n[i], -1);
			json_decref(report);
			free(text);
		}
}

TEST(what_became_due_since_the_report_is_not_known)
{
	json_t *report = json_pack("{s:i}", "next_attempt_ms", 5000);
	struct facts f = facts_unknown();

	facts_read(&f, FACT_OF_HOST, report, 2000);
	assert_int_equal(f.n[FACT_NEXT_ATTEMPT], 3000);
	facts_read(&f, FACT_OF_HOST, report, 5000);
	assert_int_equal(f.n[FACT_NEXT_ATTEMPT], 0);
	facts_read(&f, FACT_OF_HOST, report, 5001);
	assert_int_equal(f.n[FACT_NEXT_ATTEMPT], -1);
	facts_read(&f, FACT_OF_HOST, report, -3000);	/* the clock went back */
	assert_int_equal(f.n[FACT_NEXT_ATTEMPT], 5000);
	json_decref(report);
}

TEST(hosts_are_added_up)
{
	struct facts sum = facts_unknown(), host = facts_unknown();

	host.n[FACT_RUNNING] = 3;
	host.n[FACT_BREAKER] = 1;
	facts_add(&sum, &host);
	facts_add(&sum, &host);
	assert_int_equal(sum.n[FACT_RUNNING], 6);
	assert_int_equal(sum.n[FACT_IDLE], -1);
	assert_int_equal(sum.n[FACT_BREAKER], -1);
	host.n[FACT_RUNNING] = INT64_C(1) << 48;
	for (int i = 0; i < 1 << 16; i++)
		facts_add(&sum, &host);
	assert_int_equal(sum.n[FACT_RUNNING], INT64_C(1) << 48);
}

/* The scoreboard has a word of the state, and the report has a figure for each state. */
TEST(the_states_of_workers_are_those_of_the_scoreboard)
{
	assert_int_equal(FACT_STOPPING - FACT_STARTING, SLOT_STOPPING - SLOT_STARTING);
	for (int i = 0; i <= FACT_STOPPING - FACT_STARTING; i++)
		assert_string_equal(facts_table[FACT_STARTING + i].key, slot_state_names[SLOT_STARTING + i]);
}

UNIT_MAIN(NULL, NULL)
