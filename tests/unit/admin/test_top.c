/* The parts of quredis top that need no terminal: keys of bytes, the order of queues, and what keys do to the view. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "admin/top/top.h"
#include "common/base/nitems.h"
#include "tests/unit/unit.h"

/* ---- keys ---- */

static void add(struct top_keys *k, const char *text)
{
	top_keys_add(k, text, strlen(text));
}

static void check_key(const char *bytes, int wanted)
{
	struct top_keys k = {0};

	/* in one piece, and in two at each place */
	for (size_t cut = 0; cut < strlen(bytes); cut++) {
		top_keys_add(&k, bytes, cut);
		if (cut > 0)
			assert_int_equal(top_keys_next(&k, false), TOP_KEY_NONE);
		add(&k, bytes + cut);
		assert_int_equal(top_keys_next(&k, false), wanted);
		assert_int_equal(top_keys_next(&k, false), TOP_KEY_NONE);
		assert_false(top_keys_is_incomplete(&k));
	}
	top_keys_free(&k);
}

TEST(test_sequences)
{
	static const struct { const char *bytes; int key; } rows[] = {
		{ "a", 'a' }, { "?", '?' }, { "\r", TOP_KEY_ENTER }, { "\n", TOP_KEY_ENTER }, { "\033OM", TOP_KEY_ENTER },
		{ "\033[A", TOP_KEY_UP }, { "\033OA", TOP_KEY_UP }, { "\033[B", TOP_KEY_DOWN }, { "\033[1;5B", TOP_KEY_DOWN },
		{ "\033[5~", TOP_KEY_PAGE_UP }, { "\033[6~", TOP_KEY_PAGE_DOWN }, { "\033[6;2~", TOP_KEY_PAGE_DOWN },
		{ "\033[H", TOP_KEY_HOME }, { "\033[1~", TOP_KEY_HOME }, { "\033[7~", TOP_KEY_HOME },
		{ "\033[F", TOP_KEY_END }, { "\033OF", TOP_KEY_END }, { "\033[4~", TOP_KEY_END }, { "\033[8~", TOP_KEY_END },
		{ "\033[Z", TOP_KEY_NONE }, { "\033[200~", TOP_KEY_NONE }, { "\033[?1;2c", TOP_KEY_NONE }, { "\303\244", TOP_KEY_NONE },
	};

	for (size_t i = 0; i < nitems(rows); i++)
		check_key(rows[i].bytes, rows[i].key);
}

TEST(test_escape_is_a_key_if_nothing_follows)
{
	struct top_keys k = {0};

	add(&k, "\033");
	assert_true(top_keys_is_incomplete(&k));
	assert_int_equal(top_keys_next(&k, false), TOP_KEY_NONE);
	assert_int_equal(top_keys_next(&k, true), TOP_KEY_ESCAPE);
	assert_int_equal(top_keys_next(&k, true), TOP_KEY_NONE);
	add(&k, "\033q");		/* typed fast */
	assert_int_equal(top_keys_next(&k, false), TOP_KEY_ESCAPE);
	assert_int_equal(top_keys_next(&k, false), 'q');
	add(&k, "\033\033");
	assert_int_equal(top_keys_next(&k, false), TOP_KEY_ESCAPE);
	assert_int_equal(top_keys_next(&k, false), TOP_KEY_NONE);
	assert_int_equal(top_keys_next(&k, true), TOP_KEY_ESCAPE);
	add(&k, "\033[");
	assert_int_equal(top_keys_next(&k, true), TOP_KEY_ESCAPE);
	top_keys_free(&k);
}

TEST(test_what_is_no_sequence_ends)
{
	struct top_keys k = {0};

	add(&k, "\033[1\rj");		/* broken off by another key */
	assert_int_equal(top_keys_next(&k, false), TOP_KEY_ENTER);
	assert_int_equal(top_keys_next(&k, false), 'j');
	add(&k, "\033[");
	for (int i = 0; i < 100; i++)
		add(&k, ";;;;;;;;;;");
	while (top_keys_next(&k, false) != TOP_KEY_NONE)
		;
	assert_int_equal(k.bytes.len, 0);
	top_keys_free(&k);
}

/* ---- order ---- */

static struct top_figures make(const char *text)
{
	struct top_rates none = {0};
	struct top_figures f;
	json_t *overview = json_loads(text, 0, NULL);

	assert_non_null(overview);
	top_figures_make(&f, overview, &none);
	return f;
}

static void check_order(struct top_figures *f, enum top_sort sort, bool reversed, const char *wanted)
{
	char got[64] = "";

	top_figures_sort(f, sort, reversed);
	for (size_t i = 0; i < f->n; i++)
		strncat(got, f->queues[i].name, 1);
	assert_string_equal(got, wanted);
}

#define QUEUE(name, ingress, more) "{\"name\":\"" name "\",\"ingress_size\":" ingress more "}"
#define HEALTH(name, status) "{\"queue\":\"" name "\",\"status\":\"" status "\"}"
#define STATE(name, state) "{\"name\":\"" name "\",\"state\":\"" state "\",\"workers\":{\"idle\":2,\"running\":1}}"

static const char sick[] = "{\"time\":0,\"queues\":["
    QUEUE("a", "5", "") "," QUEUE("b", "null", "") "," QUEUE("c", "7", "") "," QUEUE("d", "1", ",\"paused\":true") "," QUEUE("e", "0", "") ","
    QUEUE("f", "9", "") "," QUEUE("g", "3", "") "],"
    "\"health\":{\"queues\":[" HEALTH("a", "healthy") "," HEALTH("c", "degraded") "," HEALTH("e", "unhealthy") "," HEALTH("f", "healthy") ","
    HEALTH("g", "unknown") "]},"
    "\"nodes\":[{\"node\":\"n\",\"queues\":[" STATE("a", "running") "," STATE("f", "breaker") "," STATE("x", "running") "]},"
    "{\"node\":\"m\",\"queues\":[" STATE("a", "running") "," STATE("f", "running") "," STATE("b", "a new state") "]}]}";

TEST(test_the_sickest_are_first)
{
	struct top_figures f = make(sick);

	assert_int_equal(f.n, 7);
	check_order(&f, TOP_BY_HEALTH, false, "ebfgcda");	/* unhealthy; states that health does not know yet; unknown; degraded; paused; well */
	check_order(&f, TOP_BY_HEALTH, true, "adcgfbe");
	check_order(&f, TOP_BY_INGRESS, false, "fcagdeb");	/* not known: last in both directions */
	check_order(&f, TOP_BY_INGRESS, true, "edgacfb");
	check_order(&f, TOP_BY_NAME, false, "abcdefg");
	check_order(&f, TOP_BY_NAME, true, "gfedcba");
	assert_int_equal(facts_workers(&f.queues[1].facts), 6);
	assert_int_equal(f.queues[1].facts.n[FACT_RUNNING], 2);
	assert_string_equal(f.queues[1].state, "breaker");
	top_figures_free(&f);
}

TEST(test_documents_of_other_shapes)
{
	static const char *const texts[] = {
		"{}", "{\"queues\":null,\"stats\":null,\"health\":null,\"nodes\":null}", "{\"queues\":[1,{},{\"name\":7}],\"nodes\":[1,{\"queues\":[[]]}]}",
		"{\"queues\":[{\"name\":\"a\",\"ingress_size\":-4}],\"health\":{\"queues\":[{\"queue\":\"a\",\"status\":3,\"ingress\":[],\"rates\":7}]},"
		"\"nodes\":[{\"queues\":[{\"name\":\"a\",\"state\":[],\"workers\":[1]}],\"running\":[{\"queue\":\"a\",\"running_ms\":5,\"progress\":[]}]}],"
		"\"dead_letters\":{\"queue\":\"a\",\"records\":[1,{\"failed_at\":9}]}}",
	};

	for (size_t i = 0; i < nitems(texts); i++) {
		struct top_figures f = make(texts[i]);
		FILE *out = fopen("/dev/null", "w");
		struct top_view v = { .page = TOP_QUEUE };

		assert_non_null(out);
		top_figures_sort(&f, TOP_BY_HEALTH, false);
		top_page(out, &f, &v, 80, false);
		free(top_page_fitted(out, &f, &v, (struct top_size){ 24, 80 }, true));
		v.page = TOP_LIST;
		for (size_t rows = 1; rows < 20; rows++)
			free(top_page_fitted(out, &f, &v, (struct top_size){ rows, 80 }, true));
		fclose(out);
		top_view_free(&v);
		top_figures_free(&f);
	}
}

/* ---- the view ---- */

TEST(test_keys_move_and_select)
{
	struct top_figures f = make(sick);
	struct top_view v = {0};

	top_figures_sort(&f, TOP_BY_NAME, false);
	assert_int_equal(top_view_place(&v, &f, 3), 0);
	assert_int_equal(top_view_key(&v, 'j', &f), TOP_ANSWER_DRAW);
	assert_int_equal(top_view_place(&v, &f, 3), 1);
	assert_int_equal(v.first, 0);
	top_view_key(&v, TOP_KEY_PAGE_DOWN, &f);
	assert_int_equal(top_view_place(&v, &f, 3), 4);
	assert_int_equal(v.first, 2);
	top_view_key(&v, 'G', &f);
	assert_int_equal(top_view_place(&v, &f, 3), 6);
	top_view_key(&v, TOP_KEY_DOWN, &f);
	assert_int_equal(top_view_place(&v, &f, 3), 6);
	assert_int_equal(v.first, 4);
	assert_int_equal(top_view_place(&v, &f, 100), 6);	/* a larger screen */
	assert_int_equal(v.first, 0);
	assert_int_equal(top_view_place(&v, &f, 1), 6);
	top_figures_sort(&f, TOP_BY_NAME, true);
	assert_int_equal(top_view_place(&v, &f, 3), 0);		/* it follows its queue */
	assert_int_equal(v.first, 0);
	top_view_key(&v, 'z', &f);
	assert_int_equal(top_view_key(&v, 'Q', &f), TOP_ANSWER_QUIT);
	top_view_free(&v);
	top_figures_free(&f);
}

TEST(test_pages_follow_each_other)
{
	struct top_figures f = make(sick), none = {0};
	struct top_view v = {0};

	assert_int_equal(top_view_key(&v, TOP_KEY_ENTER, &none), TOP_ANSWER_NOTHING);	/* no look has ended yet */
	assert_int_equal(top_view_key(&v, 'j', &none), TOP_ANSWER_NOTHING);
	assert_int_equal(top_view_place(&v, &none, 10), 0);
	top_figures_sort(&f, TOP_BY_HEALTH, false);
	assert_null(top_view_queue(&v, &f));
	assert_int_equal(top_view_key(&v, TOP_KEY_ENTER, &f), TOP_ANSWER_LOOK);
	assert_string_equal(top_view_queue(&v, &f), "e");
	assert_int_equal(top_view_scroll(&v, 30, 10), 0);
	top_view_key(&v, 'G', &f);
	assert_int_equal(top_view_scroll(&v, 30, 10), 20);
	assert_int_equal(top_view_scroll(&v, 12, 10), 2);
	top_view_key(&v, '?', &f);
	assert_int_equal(v.page, TOP_HELP);
	assert_int_equal(top_view_key(&v, 'q', &f), TOP_ANSWER_DRAW);
	assert_int_equal(v.page, TOP_QUEUE);
	top_figures_sort(&f, TOP_BY_NAME, false);
	assert_string_equal(top_view_queue(&v, &f), "e");	/* the page stays with its queue */
	top_view_key(&v, TOP_KEY_ESCAPE, &f);
	assert_int_equal(v.page, TOP_LIST);
	assert_int_equal(top_view_key(&v, TOP_KEY_ESCAPE, &f), TOP_ANSWER_NOTHING);
	top_view_free(&v);
	top_figures_free(&f);
}

UNIT_MAIN(NULL, NULL)
