/* What a death charges to each message of its trays, and how many messages one page of a rescue holds. */
#include "sweeper/rescue/rescue.h"
#include "tests/unit/unit.h"

TEST(alone_in_its_tray_it_is_charged)
{
	struct wrapper w = { .redelivered = 2 };

	assert_false(rescue_judge(&w, BLAME_WORKER, false, 1, 1));
	assert_int_equal(w.crashes, 1);
	assert_int_equal(w.redelivered, 3);
	assert_false(w.solo);
	assert_true(rescue_judge(&w, BLAME_WORKER, false, 1, 1));
	assert_int_equal(w.crashes, 2);
}

TEST(among_others_it_is_set_apart)
{
	struct wrapper w = { .crashes = 1 };

	assert_false(rescue_judge(&w, BLAME_WORKER, false, 2, 1));
	assert_int_equal(w.crashes, 1);
	assert_true(w.solo);
	w = (struct wrapper){ .crashes = 1 };
	assert_false(rescue_judge(&w, BLAME_WORKER, false, -1, 1));	/* nobody knows how many there were */
	assert_int_equal(w.crashes, 1);
	assert_true(w.solo);
}

TEST(late_or_without_attempts)
{
	struct wrapper w = { .crashes = 7 };

	assert_false(rescue_judge(&w, BLAME_NOBODY, false, 1, 1));	/* it came late and never ran: not charged, whatever came before */
	assert_int_equal(w.crashes, 7);
	w = (struct wrapper){0};
	assert_true(rescue_judge(&w, BLAME_WORKER, false, 1, 0));
}

/* Nobody knows whose doing an outage was: at first everything is only set apart, then tried, one message at a time. */
TEST(an_outage_charges_only_what_was_on_trial)
{
	struct wrapper w = {0};

	for (int i = 0; i < 5; i++) {
		assert_false(rescue_judge(&w, BLAME_OUTAGE, false, 1, 0));
		assert_int_equal(w.crashes, 0);
		assert_true(w.solo);
		assert_int_equal(w.redelivered, i + 1);
		assert_int_equal(message_needs_trial(&w), i >= 1);
	}
	assert_false(rescue_judge(&w, BLAME_OUTAGE, true, 2, 0));	/* it was not alone after all */
	assert_int_equal(w.crashes, 0);
	assert_false(rescue_judge(&w, BLAME_OUTAGE, true, 1, 1));
	assert_int_equal(w.crashes, 1);
	assert_true(rescue_judge(&w, BLAME_OUTAGE, true, 1, 1));
	assert_int_equal(w.crashes, 2);
}

/* The longest that a message which kills its whole container can go on: with recovery_attempts = 1 it is found by the fourth. */
TEST(a_message_that_kills_everything_is_found)
{
	for (int attempts = 0; attempts < 4; attempts++) {
		struct wrapper w = {0};
		int outages = 1;

		while (!rescue_judge(&w, BLAME_OUTAGE, message_needs_trial(&w), 1, attempts))
			outages++;
		assert_int_equal(outages, MESSAGE_OUTAGES_MAX + attempts + 1);
	}
}

TEST(its_time_stays_known)
{
	struct wrapper w = { .own_ms = 3 };

	rescue_judge(&w, BLAME_WORKER, false, 9, 1);
	assert_int_equal(w.own_ms, 3);
}

TEST(pages_shrink_and_grow)
{
	assert_int_equal(rescue_page(8, 80), 100);
	assert_int_equal(rescue_page(8, 8 << 20), 1);
	assert_int_equal(rescue_page(1, 1 << 30), 1);
	assert_int_equal(rescue_page(0, 0), 100);
	assert_in_range(rescue_page(10, 10 * 65536), 10, 16);
}

UNIT_MAIN(NULL, NULL)
