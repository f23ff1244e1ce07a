/* The table of counters in every document and metric. */
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "common/base/base.h"
#include "common/facts/facts.h"
#include "tests/unit/unit.h"

/* Each figure has a number of its own, so that no two can be mistaken for each other. */
static struct queue_figures different(void)
{
	struct queue_figures f;

	for (int i = 0; i < SCOREBOARD_FIGURES; i++)
		f.n[i] = 1000 + (uint64_t)i * 17;
	return f;
}

TEST(each_figure_is_read_as_it_was_written)
{
	struct queue_figures f = different(), read;
	json_t *document = json_object();

	counters_write(document, &f);
	counters_read(&read, document);
	for (int i = 0; i < SCOREBOARD_FIGURES; i++)
		assert_int_equal(read.n[i], i == COUNT_WOULD_PURGE ? COUNTERS_UNKNOWN : f.n[i]);
	json_decref(document);
}

static char *page_of(enum metric m, const struct queue_figures *f)
{
	struct buffer page = {0};

	counters_expose(&page, m, "mail", f);
	buffer_append(&page, "", 1);
	return page.data;
}

TEST(each_counter_is_a_sample_of_the_outcomes)
{
	struct queue_figures f = different();
	char *page = page_of(METRIC_MESSAGES, &f), line[128];

	for (int i = 0; i < COUNTERS; i++) {
		snprintf(line, sizeof(line), "quredis_messages_total{queue=\"mail\",event=\"%s\"} %d\n",
		    counters_table[i].name, 1000 + i * 17);
		assert_int_equal(strstr(page, line) != NULL, i != COUNT_RECONNECTED);
	}
	free(page);
}

TEST(what_was_purged_counts_once)
{
	struct queue_figures f = {0};
	char *page;

	f.n[COUNT_PURGED] = 7;
	f.n[COUNT_PURGED_DELAYED] = 3;
	f.n[COUNT_PURGED_DONE] = 5;
	f.n[COUNT_WOULD_PURGE] = 9;
	page = page_of(METRIC_PURGED, &f);
	assert_string_equal(page, "quredis_purged_total{queue=\"mail\",kind=\"ingress\"} 4\n"
	    "quredis_purged_total{queue=\"mail\",kind=\"delayed\"} 3\n"
	    "quredis_purged_total{queue=\"mail\",kind=\"done\"} 5\n"
	    "quredis_purged_total{queue=\"mail\",kind=\"transit\"} 0\n"
	    "quredis_purged_total{queue=\"mail\",kind=\"orphaned\"} 0\n");
	free(page);
}

/* A document of another program, or of another version: what it does not have is no 0. */
TEST(an_unknown_figure_is_left_out)
{
	static const enum metric all[] = {
		METRIC_MESSAGES, METRIC_PURGED, METRIC_PURGE_DRY_RUN, METRIC_HANDLER_DURATION, METRIC_SWEEP_LAG
	};
	json_t *document = json_pack("{s:{s:s, s:i}, s:s}", "counters", "done", "x", "failed", -1, "durations", "x");
	struct queue_figures f;

	counters_read(&f, document);
	for (size_t i = 0; i < nitems(all); i++) {
		char *page = page_of(all[i], &f);

		assert_string_equal(page, "");
		free(page);
	}
	json_decref(document);
}

UNIT_MAIN(NULL, NULL)
