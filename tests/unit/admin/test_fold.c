#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "admin/doctor/fold.h"
#include "common/base/alloc.h"
#include "common/base/nitems.h"
#include "tests/unit/unit.h"

static void check_text(const struct fold_line *lines, size_t n, const char *wanted)
{
	char *text = fold_text(lines, n, false);

	assert_non_null(text);
	assert_string_equal(text, wanted);
	free(text);
}

#define CHECK(wanted, ...) do { \
	const struct fold_line lines[] = { __VA_ARGS__ }; \
	check_text(lines, nitems(lines), wanted); \
} while (0)

static void check_names(const char *const *names, size_t n, const char *wanted)
{
	char *text = fold_names(names, n);

	if (wanted == NULL)
		assert_null(text);
	else
		assert_string_equal(text, wanted);
	free(text);
}

#define NAMES(wanted, ...) check_names((const char *const[]){ __VA_ARGS__ }, nitems(((const char *const[]){ __VA_ARGS__ })), wanted)

TEST(test_equal_lines_stay)
{
	CHECK(" as  it is ", { "a", NULL, " as  it is " });
	CHECK("no supervisor runs here", { "a", NULL, "no supervisor runs here" }, { "b", NULL, "no supervisor runs here" });
	CHECK("two  blanks", { NULL, NULL, "two  blanks" }, { NULL, NULL, "two  blanks" });
}

TEST(test_figures_become_ranges)
{
	CHECK("0 to 57 messages waiting, and 0 delayed", { "a", NULL, "3 messages waiting, and 0 delayed" },
	    { "b", NULL, "57 messages waiting, and 0 delayed" }, { "c", NULL, "0 messages waiting, and 0 delayed" });
	CHECK("paused for 90s to 3h12m, with a message", { "a", NULL, "paused for 90s, with a message" }, { "b", NULL, "paused for 3h12m, with a message" });
	CHECK("too many attempts failed: 33.3 to 100.0 %, the limit is 50 %", { "a", NULL, "too many attempts failed: 66.7 %, the limit is 50 %" },
	    { "b", NULL, "too many attempts failed: 100.0 %, the limit is 50 %" }, { "c", NULL, "too many attempts failed: 33.3 %, the limit is 50 %" });
	CHECK("version 1.2.3 and 1.2.4 runs here", { "a", NULL, "version 1.2.3 runs here" }, { "b", NULL, "version 1.2.4 runs here" });
	CHECK("it waits (7 to 9)", { "a", NULL, "it waits (7 to 9)" }, { "b", NULL, "it waits (7 to 9)" });
	CHECK("there are 9223372036854775807 and 1KB of it here", { "a", NULL, "there are 9223372036854775807 and 1KB of it here" },
	    { "b", NULL, "there are 9223372036854775807 and 1KB of it here" });
}

static bool is_alike(struct fold_line a, struct fold_line b, bool only_names)
{
	char *text = fold_text((struct fold_line[]){ a, b }, 2, only_names);

	free(text);
	return text != NULL;
}

static bool is_same(const char *a, const char *b)
{
	return is_alike((struct fold_line){ "mail", "escape:mail", a }, (struct fold_line){ "news", "escape:news", b }, true);
}

TEST(test_only_names_may_differ)
{
	assert_true(is_same("quredis resume mail", "quredis resume news"));
	assert_true(is_same("redis-cli DEL escape:mail", "redis-cli DEL escape:news"));
	assert_false(is_same("quredis dlq retry mail --class A", "quredis dlq retry news --class B"));
	assert_false(is_same("quredis resume mail", "quredis resume news now"));
	assert_false(is_same("quredis resume fax", "quredis resume news"));
	assert_false(is_same("kill 5", "kill 6"));
	assert_false(is_same("see message", "see messages"));
}

TEST(test_plurals)
{
	CHECK("1 to 2 messages waiting here", { "a", NULL, "1 message waiting here" }, { "b", NULL, "2 messages waiting here" });
	CHECK("2 of the messages wait", { "a", NULL, "2 of the messages wait" }, { "b", NULL, "2 of the message wait" });
	CHECK("1 to 3 messages, 0 to 2 rows", { "a", NULL, "3 messages, 0 rows" }, { "b", NULL, "1 message, 1 row" }, { "c", NULL, "1 message, 2 rows" });
}

TEST(test_names_have_a_placeholder)
{
	CHECK("quredis resume QUEUE", { "mail", NULL, "quredis resume mail" }, { "fax", NULL, "quredis resume fax" });
	CHECK("HDEL transit:QUEUE:workers NAME", { "mail", "a.1", "HDEL transit:mail:workers a.1" }, { "fax", "b.2", "HDEL transit:fax:workers b.2" });
	CHECK("it waits for mailbox and faxes here", { "mail", NULL, "it waits for mailbox and faxes here" },
	    { "fax", NULL, "it waits for mailbox and faxes here" });
	/* a name within a longer one is none */
	CHECK("it waits for mailbox and faxbox here", { "mail", NULL, "it waits for mailbox here" }, { "fax", NULL, "it waits for faxbox here" });
}

TEST(test_other_words_are_listed)
{
	CHECK("function: /a and /b do not exist", { "x", NULL, "function: /a does not exist" }, { "x", NULL, "function: /b does not exist" });
	CHECK("function: /a does not exist", { "x", NULL, "function: /a does not exist" }, { "y", NULL, "function: /a does not exist" });
	CHECK("it is no user: a, b and c", { "x", NULL, "it is no user: a" }, { "x", NULL, "it is no user: b" }, { "x", NULL, "it is no user: c" },
	    { "x", NULL, "it is no user: a" });
	CHECK("it is no user: a, b, c and 2 more", { "x", NULL, "it is no user: a" }, { "x", NULL, "it is no user: b" }, { "x", NULL, "it is no user: c" },
	    { "x", NULL, "it is no user: d" }, { "x", NULL, "it is no user: e" });
	CHECK("it is a hash and string, but it has to be a list and set: rename it", { "x", NULL, "it is a hash, but it has to be a list: rename it" },
	    { "x", NULL, "it is a string, but it has to be a set: rename it" });
	CHECK("it was 5 and 5s ago here", { "x", NULL, "it was 5 ago here" }, { "x", NULL, "it was 5s ago here" });
}

TEST(test_different_lines_are_not_alike)
{
	static const struct { struct fold_line a, b; bool alike; } rows[] = {
		{ { NULL, NULL, "" }, { NULL, NULL, "" }, true },
		{ { NULL, NULL, "" }, { NULL, NULL, "a" }, false },
		{ { NULL, NULL, "a b" }, { NULL, NULL, "a c" }, true },
		{ { NULL, NULL, "a b c" }, { NULL, NULL, "a x y" }, false },
		{ { NULL, NULL, "a b d c" }, { NULL, NULL, "a x d y" }, true },
		{ { NULL, NULL, "a b, c" }, { NULL, NULL, "a x, y" }, false },
		{ { NULL, NULL, "a 5 c" }, { NULL, NULL, "a 6 y" }, true },
		{ { NULL, NULL, "a b" }, { NULL, NULL, "a b c" }, false },
		{ { NULL, NULL, "a b" }, { NULL, NULL, "a b, c" }, false },
		{ { NULL, NULL, "a b " }, { NULL, NULL, "a b" }, false },
		{ { "m", NULL, "x m z" }, { "f", NULL, "y f z" }, true },
	};

	for (size_t i = 0; i < nitems(rows); i++) {
		assert_true(is_alike(rows[i].a, rows[i].b, false) == rows[i].alike);
		assert_true(is_alike(rows[i].b, rows[i].a, false) == rows[i].alike);
	}
}

TEST(test_lists_of_names)
{
	NAMES("a", "a");
	NAMES("a", "a", "a", NULL);
	NAMES("b and a", "b", "a");
	NAMES("f, e, d, c, b and a", "f", "e", "d", "c", "b", "a");
	NAMES("a, b, c, d, e and 2 more", "a", "b", "a", "c", "d", "e", "f", "g");
	NAMES(NULL, NULL, NULL);
}

/* Of so many findings, work that grows with the square of their number would take 20 s and more. */
TEST(test_many_lines_cost_little)
{
	static struct fold_line lines[50000];
	clock_t begun;
	char *text;

	for (size_t i = 0; i < nitems(lines); i++)
		lines[i] = (struct fold_line){ "mail", NULL, alloc_format("it is no user: u%zu, or so", i) };
	begun = clock();
	text = fold_text(lines, nitems(lines), false);
	assert_string_equal(text, "it is no user: u0, u1, u2 and 49997 more, or so");
	assert_true(clock() - begun < 4 * CLOCKS_PER_SEC);
	free(text);
	for (size_t i = 0; i < nitems(lines); i++)
		free((char *)(uintptr_t)lines[i].text);
}

UNIT_MAIN(NULL, NULL)
