#include "supervisor/children/policy.h"
#include "tests/unit/unit.h"

/* Lets all of `wanted` workers of a queue die at once whenever they live; returns how many were spawned until end_ms. */
static size_t crash_loop(struct policy *p, size_t wanted, int64_t end_ms)
{
	size_t spawned = 0;

	for (int64_t now = 0; now < end_ms; now += 10)
		for (size_t n = policy_allowed(p, 0, wanted, now); n > 0; n--) {
			policy_spawned(p, now);
			policy_death(p, now, now + 5, 0);
			spawned++;
		}
	return spawned;
}

TEST(the_delay_doubles_up_to_a_minute)
{
	assert_int_equal(policy_delay_ms(1, 0), 500);
	assert_int_equal(policy_delay_ms(2, 0), 1000);
	assert_int_equal(policy_delay_ms(7, 0), 32000);
	assert_int_equal(policy_delay_ms(8, 0), 60000);
	assert_int_equal(policy_delay_ms(1000000, 0), 60000);
	assert_int_equal(policy_delay_ms(1, 1), 250);
}

TEST(the_first_death_costs_half_a_second_for_each)
{
	struct policy p = {0};

	assert_int_equal(policy_allowed(&p, 0, 4, 0), 4);
	policy_death(&p, -5000, 1000, 0);
	assert_int_equal(policy_allowed(&p, 3, 4, 1499), 0);
	assert_int_equal(policy_allowed(&p, 3, 4, 1500), 1);
	assert_int_equal(p.state, POLICY_NORMAL);
}

TEST(ten_deaths_at_once_are_one_event)
{
	struct policy p = {0};

	for (int i = 0; i < 10; i++)
		policy_death(&p, 0, 100000 + i * 50, 0);
	assert_int_equal(p.events, 1);
	assert_int_equal(p.state, POLICY_NORMAL);
	assert_int_equal(policy_allowed(&p, 0, 10, 100500), 10);
}

TEST(a_replacement_that_dies_is_an_event_of_its_own)
{
	struct policy p = {0};

	policy_death(&p, 0, 1000, 1);
	policy_death(&p, 1250, 1260, 1);
	assert_int_equal(p.events, 2);
	assert_int_equal(policy_allowed(&p, 0, 1, 1260 + 499), 0);
	assert_int_equal(policy_allowed(&p, 0, 1, 1260 + 500), 1);
}

TEST(after_two_in_a_row_workers_come_one_a_second)
{
	struct policy p = {0};

	policy_death(&p, 0, 1000, 0);
	policy_death(&p, 1500, 5000, 0);
	assert_int_equal(policy_allowed(&p, 0, 8, 6000), 1);
	policy_spawned(&p, 6000);
	assert_int_equal(policy_allowed(&p, 1, 8, 6999), 0);
	assert_int_equal(policy_allowed(&p, 1, 8, 7000), 1);
}

TEST(a_message_done_resets_the_delay)
{
	struct policy p = {0};

	policy_death(&p, 0, 1000, 0);
	policy_death(&p, 1500, 5000, 0);
	policy_success(&p);
	policy_death(&p, 6000, 10000, 0);
	assert_int_equal(p.next_spawn_ms, 10500);
}

TEST(thirty_seconds_alive_reset_the_delay)
{
	struct policy p = {0};

	policy_death(&p, 0, 1000, 0);
	policy_death(&p, 1500, 2000, 0);
	policy_spawned(&p, 3000);
	policy_tick(&p, 0, 100000);		/* nobody lives: no success */
	assert_int_equal(p.streak, 2);
	policy_tick(&p, 1, 3000 + 29999);
	assert_int_equal(p.streak, 2);
	policy_tick(&p, 1, 3000 + 30000);
	assert_int_equal(p.streak, 0);
}

TEST(five_events_in_thirty_seconds_are_backoff_despite_success)
{
	struct policy p = {0};

	for (int i = 0; i < 4; i++) {
		policy_death(&p, i * 5000 - 1, i * 5000 + 2000, 0);
		policy_success(&p);
	}
	assert_int_equal(p.state, POLICY_NORMAL);
	policy_death(&p, 19000, 22000, 0);
	assert_int_equal(p.state, POLICY_BACKOFF);
	policy_success(&p);
	assert_int_equal(p.state, POLICY_BACKOFF);
	assert_int_equal(policy_allowed(&p, 0, 1, 22000 + 7999), 0);
	assert_int_equal(policy_allowed(&p, 0, 1, 22000 + 8000), 1);
	policy_tick(&p, 1, 22000 + 29999);
	assert_int_equal(p.state, POLICY_BACKOFF);
	policy_tick(&p, 1, 22000 + 30000);
	assert_int_equal(p.state, POLICY_NORMAL);
}

TEST(five_events_in_more_time_are_not)
{
	struct policy p = {0};

	for (int i = 0; i < 20; i++) {
		policy_death(&p, i * 8000 - 1, i * 8000 + 2000, 0);
		policy_success(&p);
	}
	assert_int_equal(p.state, POLICY_NORMAL);
}

TEST(ten_without_success_are_quarantine_with_a_probe_a_minute)
{
	struct policy p = {0};
	int64_t now = 0;

	for (int i = 0; i < 10; i++, now += 29000)
		policy_death(&p, now - 1000, now, 0);
	now -= 29000;
	assert_int_equal(p.state, POLICY_QUARANTINE);
	assert_int_equal(policy_allowed(&p, 0, 8, now + 59999), 0);
	assert_int_equal(policy_allowed(&p, 0, 8, now + 60000), 1);
	policy_spawned(&p, now + 60000);
	assert_int_equal(policy_allowed(&p, 1, 8, now + 999999), 0);	/* one probe */
	policy_death(&p, now + 60000, now + 60100, 0);
	assert_int_equal(p.state, POLICY_QUARANTINE);
	assert_int_equal(policy_allowed(&p, 0, 8, now + 120099), 0);
	assert_int_equal(policy_allowed(&p, 0, 8, now + 120100), 1);
}

TEST(quarantine_ends_with_a_message_or_a_probe_that_lives)
{
	struct policy p = {0}, q;

	for (int i = 0; i < 10; i++)
		policy_death(&p, i * 2000 - 1, i * 2000, 0);
	assert_int_equal(p.state, POLICY_QUARANTINE);
	q = p;
	policy_success(&p);
	assert_int_equal(p.state, POLICY_NORMAL);
	assert_int_equal(policy_allowed(&p, 1, 8, 18001), 7);
	policy_spawned(&q, 78000);
	policy_tick(&q, 1, 78000 + 29999);
	assert_int_equal(q.state, POLICY_QUARANTINE);
	policy_tick(&q, 1, 78000 + 30000);
	assert_int_equal(q.state, POLICY_NORMAL);
}

TEST(ten_over_a_long_time_are_no_quarantine)
{
	struct policy p = {0};

	for (int64_t i = 0; i < 30; i++) {
		policy_death(&p, i * 34000 - 1, i * 34000, 0);
		assert_int_not_equal(p.state, POLICY_QUARANTINE);
	}
}

TEST(success_in_between_prevents_quarantine)
{
	struct policy p = {0};

	for (int i = 0; i < 50; i++) {
		policy_death(&p, i * 2000 - 1, i * 2000, 0);
		if (i % 9 == 8)
			policy_success(&p);
		assert_int_not_equal(p.state, POLICY_QUARANTINE);
	}
}

TEST(a_crash_loop_costs_less_than_a_spawn_a_second)
{
	struct policy one = {0}, many = {0};

	assert_in_range(crash_loop(&one, 1, 600000), 12, 30);
	assert_in_range(crash_loop(&many, 64, 600000), 12, 600);
}

UNIT_MAIN(NULL, NULL)
