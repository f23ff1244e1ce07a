/* Which dead letters leave, and what has no counterpart: pages written by hand, a letter for each message. */
#include <stdio.h>
#include <string.h>

#include "common/dead_letters/pair.h"

#include "common/queue/look.h"
#include "tests/unit/unit.h"

static struct dead_letters page;

/* Oldest first. Records failed at 1, 2, 3 … ms. */
static void make(const char *entries, int64_t entries_total, const char *records, int64_t records_total)
{
	memset(&page, 0, sizeof(page));
	page.entries_total = entries_total;
	page.records_total = records_total;
	for (; entries[page.nentries] != '\0'; page.nentries++) {
		page.entries[page.nentries].sha1[0] = entries[page.nentries];
		page.entries[page.nentries].record = -1;
	}
	for (; records[page.nrecords] != '\0'; page.nrecords++) {
		struct dead_letter_record *r = &page.records[page.nrecords];

		r->sha1[0] = records[page.nrecords] == '?' ? '\0' : records[page.nrecords];
		r->ms = (int64_t)page.nrecords + 1;
		r->entry = -1;
		snprintf(r->id, sizeof(r->id), "%zu-0", page.nrecords + 1);
	}
}

/* L leaves, o the same without a message, N named, n the same without a message, . stays; then u for each unrecorded entry. */
static void assert_judged(const struct dead_letters_bounds *b, const char *fates)
{
	char got[2 * DEAD_LETTERS_PAGE + 2], *p = got;

	dead_letters_judge(&page, b);
	for (size_t i = 0; i < page.nrecords; i++) {
		const struct dead_letter_record *r = &page.records[i];

		*p++ = r->fate == DEAD_LETTER_STAYS ? '.' : r->fate == DEAD_LETTER_NAMED ? (r->orphan ? 'n' : 'N') : r->orphan ? 'o' : 'L';
	}
	*p++ = ' ';
	for (size_t i = 0; i < page.nentries; i++)
		*p++ = page.entries[i].unrecorded ? 'u' : '.';
	*p = '\0';
	assert_string_equal(got, fates);
}

static struct dead_letters_bounds cap(int64_t n)
{
	return (struct dead_letters_bounds){ .oldest_ms = -1, .max_entries = n };
}

static struct dead_letters_bounds older(int64_t ms)
{
	return (struct dead_letters_bounds){ .oldest_ms = ms, .max_entries = -1 };
}

TEST(the_oldest_leave_until_the_cap_is_kept)
{
	struct dead_letters_bounds b = cap(7);

	make("abcd", 10, "abcd", 10);
	assert_judged(&b, "LLL. ....");
	assert_string_equal(page.records[0].reason, "max_entries");
	make("abcd", 7, "abcd", 7);
	assert_judged(&b, ".... ....");
}

TEST(each_leaves_at_its_own_age)
{
	struct dead_letters_bounds b = older(2);

	make("abcd", 4, "abcd", 4);
	assert_judged(&b, "LL.. ....");
	assert_string_equal(page.records[1].reason, "ttl");
	b.max_entries = 1;		/* whichever allows less */
	make("abcd", 4, "abcd", 4);
	assert_judged(&b, "LLL. ....");
}

TEST(equal_ones_go_the_oldest_with_the_oldest)
{
	struct dead_letters_bounds b = cap(3);

	make("aaba", 5, "aaba", 5);
	assert_judged(&b, "LL.. ....");
	assert_int_equal(page.records[0].entry, 0);
	assert_int_equal(page.records[1].entry, 1);
	assert_int_equal(page.records[3].entry, 3);
}

TEST(what_lies_between_pairs_has_no_counterpart)
{
	struct dead_letters_bounds b = cap(8);

	make("axbcd", 10, "a?ybcd", 10);
	assert_judged(&b, "LooL.. .u...");
	b = older(0);
	make("axbcd", 10, "ayybcd", 10);
	assert_judged(&b, "...... .u...");		/* an orphan waits for its time as others do */
}

TEST(behind_the_last_pair_nothing_is_known)
{
	struct dead_letters_bounds b = older(100);

	make("a", 1000, "abc", 1001);		/* one entry is as large as a page */
	assert_judged(&b, "L.. .");
	make("abc", 1001, "a", 1000);
	assert_judged(&b, "L ...");
}

TEST(a_list_or_log_that_is_seen_whole_tells_all)
{
	struct dead_letters_bounds b = older(100);

	make("", 0, "abc", 1000);
	assert_judged(&b, "ooo ");
	make("abc", 1000, "", 0);
	assert_judged(&b, " uuu");
	make("b", 1, "abc", 3);
	assert_judged(&b, "oLo .");
}

TEST(without_a_pair_no_more_than_must_be_too_many)
{
	struct dead_letters_bounds b = older(100);

	make("abcd", 1000, "wxyz", 1002);
	assert_judged(&b, "oo.. ....");
	make("abcd", 1002, "wxyz", 1000);
	assert_judged(&b, ".... uu..");
	make("abcd", 1000, "wxyz", 1000);
	assert_judged(&b, ".... u...");
}

TEST(what_the_archive_names_leaves_whatever_the_bounds_say)
{
	static const struct dead_letter_name named[] = { { "1-0", false, "a" }, { "2-0", false, "b" }, { "9-0", false, "x" } };
	static const struct dead_letter_name orphans[] = { { "1-0", true, "a" } };
	struct dead_letters_bounds b = { .oldest_ms = -1, .max_entries = 8, .named = named, .nnamed = 3 };

	make("abcd", 10, "abcd", 10);
	assert_judged(&b, "NN.. ....");
	b.max_entries = 7;
	make("acd", 10, "abcd", 10);
	assert_judged(&b, "NnLL ...");
	b.max_entries = -1;
	make("x", 10, "abcd", 10);		/* too little is seen */
	assert_judged(&b, ".... u");
	b.max_entries = 8;
	make("axcd", 10, "axcd", 10);		/* 2-0 is another letter's by now */
	assert_judged(&b, "NL.. ....");		/* archived itself, then */
	assert_true(dead_letters_hides_named(&page, named, 3) && !dead_letters_hides_named(&page, named + 1, 1));
	b = (struct dead_letters_bounds){ .oldest_ms = -1, .max_entries = 3, .named = orphans, .nnamed = 1 };
	make("aab", 3, "aaab", 4);	/* an equal message goes with its own record only */
	assert_judged(&b, "n... ...");
	assert_true(page.records[1].entry == 0 && page.records[2].entry == 1);
}

TEST(equal_messages_that_failed_differently_differ)
{
	struct record_field then[] = { { { "sha1", 4 }, { "a", 1 } }, { { "failed_at", 9 }, { "1", 1 } } };
	struct record_field now[] = { { { "sha1", 4 }, { "a", 1 } }, { { "failed_at", 9 }, { "2", 1 } } };
	struct dead_letter_name named = { .id = "1-0" };
	struct dead_letters_bounds b = { .oldest_ms = -1, .max_entries = -1, .named = &named, .nnamed = 1 };

	make("a", 1, "a", 1);
	page.records[0].fields = then;
	page.records[0].nfields = 2;
	dead_letter_digest(&page.records[0], named.digest);
	assert_judged(&b, "N .");
	make("a", 1, "a", 1);
	page.records[0].fields = now;
	page.records[0].nfields = 2;
	assert_judged(&b, ". .");
	named.digest[0] = '\0';			/* a line that says nothing of its message */
	page.records[0].sha1[0] = '\0';
	assert_false(dead_letters_hides_named(&page, &named, 1));
}

TEST(what_is_not_forwarded_yet_stays)
{
	struct dead_letters_bounds b = cap(0);

	b.forwarded = "2-0";
	make("abcd", 4, "abcd", 4);
	assert_judged(&b, "LL.. ....");
	b.forwarded = "0-0";
	make("abcd", 4, "abcd", 4);
	assert_judged(&b, ".... ....");
}

/* o: a record that leaves, . stays */
static void assert_orphans(const char *fates, int64_t oldest_ms, const char *forwarded)
{
	struct dead_letters_bounds b = { .oldest_ms = oldest_ms, .max_entries = -1, .forwarded = forwarded };
	char got[DEAD_LETTERS_PAGE + 1], *p = got;
	size_t n = dead_letters_judge_orphans(&page, &b);

	for (size_t i = 0; i < page.nrecords; i++) {
		assert_true(page.records[i].fate == DEAD_LETTER_STAYS || page.records[i].entry == -1);
		n -= page.records[i].fate == DEAD_LETTER_LEAVES;
		*p++ = page.records[i].fate == DEAD_LETTER_LEAVES ? 'o' : '.';
	}
	*p = '\0';
	assert_int_equal(n, 0);
	assert_string_equal(got, fates);
}

TEST(records_alone_leave_by_age_and_only_where_it_is_proven)
{
	make("abc", 3, "axbyc", 5);
	assert_orphans(".o.o.", 100, NULL);	/* also behind one that stays */
	make("abc", 3, "axbyc", 5);
	assert_orphans(".o...", 3, NULL);
	make("abc", 3, "axbyc", 5);
	assert_orphans(".o...", 100, "3-0");
	make("abc", 1000, "xabcy", 1001);
	assert_orphans("o....", 100, NULL);
	make("abc", 1000, "wxyz", 1002);
	assert_orphans("....", 100, NULL);	/* no pair: figures alone are no proof */
	make("ppp", 201, "xyp", 51);
	assert_orphans("...", 100, NULL);	/* p is another one's: theirs lie deeper */
	make("ab", 2, "a?b", 3);
	assert_orphans("...", 100, NULL);
	make("", 0, "a?", 2);
	assert_orphans("oo", 100, NULL);
}

static void make_large(size_t first_size, size_t second_size, size_t record_size)
{
	make("ab", 2, "?", 1);
	page.entries[0].message.len = first_size;
	page.entries[1].message.len = second_size;
	page.records[0].size = record_size;
}

TEST(a_record_without_sha1_belongs_to_the_only_entry_of_its_size)
{
	const size_t large = QUEUE_LOOK_SUM_MAX + 1;
	struct dead_letters_bounds b = older(100);

	make_large(large + 1, large, large);
	assert_judged(&b, "L u.");
	assert_int_equal(page.records[0].entry, 1);
	make_large(large, large, large);
	assert_judged(&b, "o uu");		/* two entries */
	make_large(QUEUE_LOOK_SUM_MAX, 1, QUEUE_LOOK_SUM_MAX);
	assert_judged(&b, "o uu");		/* short enough for a sha1 */
	make("a", 1, "??", 2);
	page.entries[0].message.len = page.records[0].size = page.records[1].size = large;
	assert_judged(&b, "oo u");		/* two records */
}

TEST(ids_are_compared_as_numbers)
{
	uint64_t ms, serial;

	assert_true(queue_record_id_compare("9-0", "10-0") < 0);
	assert_true(queue_record_id_compare("10-10", "10-9") > 0);
	assert_int_equal(queue_record_id_compare("10-1", "10-1"), 0);
	assert_int_equal(queue_record_id_parse("18446744073709551615-2", &ms, &serial), 0);
	assert_true(ms == UINT64_MAX && serial == 2);
	for (const char *const *bad = (const char *const[]){ "", "1", "-1", "1-", "1-2x", "x1-2", " 1-2",
		"18446744073709551616-1", "1-18446744073709551616", NULL }; *bad != NULL; bad++)
		assert_int_equal(queue_record_id_parse(*bad, &ms, &serial), -1);
}

UNIT_MAIN(NULL, NULL)
