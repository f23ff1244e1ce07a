#include <unistd.h>

#include "common/base/base.h"
#include "sweeper/report/health_rule.h"
#include "tests/unit/unit.h"

static const struct health_limit both = { 100, 1000, 1, false };

static enum queue_health_level look(struct health_check *c, int64_t value)
{
	health_rule_look(c, value, &both);
	return c->level;
}

TEST(worse_at_once)
{
	struct health_check c = {0};

	assert_int_equal(look(&c, 0), QUEUE_HEALTHY);
	assert_int_equal(look(&c, 100), QUEUE_HEALTHY);	/* the limit itself is allowed */
	assert_int_equal(look(&c, 101), QUEUE_DEGRADED);
	assert_int_equal(look(&c, 1000), QUEUE_DEGRADED);
	assert_int_equal(look(&c, 1001), QUEUE_UNHEALTHY);
	c = (struct health_check){0};
	assert_int_equal(look(&c, 5000), QUEUE_UNHEALTHY);
}

TEST(better_below_nine_tenths_at_two_looks)
{
	struct health_check c = {0};

	look(&c, 101);
	assert_int_equal(look(&c, 90), QUEUE_DEGRADED);
	assert_int_equal(look(&c, 90), QUEUE_HEALTHY);
	look(&c, 101);
	for (int i = 0; i < 10; i++)
		assert_int_equal(look(&c, 91), QUEUE_DEGRADED);
	assert_int_equal(look(&c, 0), QUEUE_DEGRADED);
	assert_int_equal(look(&c, 91), QUEUE_DEGRADED);	/* in a row */
	assert_int_equal(look(&c, 0), QUEUE_DEGRADED);
	assert_int_equal(look(&c, 0), QUEUE_HEALTHY);
}

TEST(one_look_ends_what_is_proven_to_have_ended)
{
	static const struct health_limit proven = { 0, INT64_MAX, 1, true };
	struct health_check c = {0};

	health_rule_look(&c, 1, &proven);
	assert_int_equal(c.level, QUEUE_DEGRADED);
	health_rule_look(&c, -1, &proven);
	assert_int_equal(c.level, QUEUE_DEGRADED);
	health_rule_look(&c, 0, &proven);
	assert_int_equal(c.level, QUEUE_HEALTHY);
}

/* Up and down about either limit, and about nine tenths of it: one change each. */
TEST(does_not_flap)
{
	static const int64_t about[] = { 101, 99, 90, 101, 95, 90, 91, 90, 102, 90, 100 };
	struct health_check c = {0};

	for (size_t i = 0; i < sizeof(about) / sizeof(about[0]); i++)
		assert_int_equal(look(&c, about[i]), QUEUE_DEGRADED);
	for (int i = 0; i < 20; i++)
		assert_int_equal(look(&c, i % 2 == 0 ? 1001 : 900), QUEUE_UNHEALTHY);
}

TEST(better_by_as_much_as_both_looks_allow)
{
	struct health_check c = {0};

	look(&c, 5000);
	assert_int_equal(look(&c, 10), QUEUE_UNHEALTHY);
	assert_int_equal(look(&c, 500), QUEUE_DEGRADED);
	look(&c, 5000);
	assert_int_equal(look(&c, 500), QUEUE_UNHEALTHY);
	assert_int_equal(look(&c, 10), QUEUE_DEGRADED);
	assert_int_equal(look(&c, 10), QUEUE_HEALTHY);		/* the look before was good for this level, too */
	look(&c, 5000);
	look(&c, 10);
	assert_int_equal(look(&c, 10), QUEUE_HEALTHY);
}

TEST(small_limits)
{
	static const struct health_limit none = { 0, 1, 1, false }, few = { 9, HEALTH_NO_LIMIT, 1, false };
	struct health_check c = {0};

	health_rule_look(&c, 1, &none);
	assert_int_equal(c.level, QUEUE_DEGRADED);
	health_rule_look(&c, 2, &none);
	assert_int_equal(c.level, QUEUE_UNHEALTHY);
	for (int i = 0; i < 2; i++)
		health_rule_look(&c, 1, &none);
	assert_int_equal(c.level, QUEUE_DEGRADED);
	for (int i = 0; i < 2; i++)
		health_rule_look(&c, 0, &none);
	assert_int_equal(c.level, QUEUE_HEALTHY);
	health_rule_look(&c, INT64_MAX - 1, &few);
	assert_int_equal(c.level, QUEUE_DEGRADED);
	for (int i = 0; i < 2; i++)
		health_rule_look(&c, 9, &few);
	assert_int_equal(c.level, QUEUE_HEALTHY);
}

TEST(what_is_not_known_changes_nothing)
{
	struct health_check c = {0};

	look(&c, 5000);
	for (int i = 0; i < 5; i++)
		assert_int_equal(look(&c, -1), QUEUE_UNHEALTHY);
	look(&c, 0);
	look(&c, -1);
	assert_int_equal(look(&c, 0), QUEUE_HEALTHY);
}

/* Rescue sees to them within a lease or two. */
TEST(orphans_at_the_second_look)
{
	static const struct health_limit limit = { 0, HEALTH_NO_LIMIT, 2, false };
	struct health_check c = {0};

	health_rule_look(&c, 3, &limit);
	health_rule_look(&c, 0, &limit);
	health_rule_look(&c, 3, &limit);
	assert_int_equal(c.level, QUEUE_HEALTHY);
	health_rule_look(&c, 1, &limit);
	assert_int_equal(c.level, QUEUE_DEGRADED);
}

/* A rate exceeds a limit of whole percent exactly if its rounded figure does. */
TEST(rates_of_failures)
{
	assert_int_equal(health_rule_failure_rate(736, 1480, 10), 50);
	assert_int_equal(health_rule_failure_rate(3, 10, 10), 30);
	assert_int_equal(health_rule_failure_rate(30001, 100000, 10), 31);
	assert_int_equal(health_rule_failure_rate(10, 10, 10), 100);
	assert_int_equal(health_rule_failure_rate(0, 10, 10), 0);
	assert_int_equal(health_rule_failure_rate(1, 1, 10), 0);		/* one of one is no alarm */
	assert_int_equal(health_rule_failure_rate(9, 9, 10), 0);
	assert_int_equal(health_rule_failure_rate(1, 1, 1), 100);
	assert_int_equal(health_rule_failure_rate(0, 0, 1), 0);
	assert_int_equal(health_rule_failure_rate(-1, -1, 1), -1);
	assert_int_equal(health_rule_failure_rate(INT64_C(60000000000000000), INT64_C(60000000000000000), 1), 100);
}

TEST(what_would_be_worse)
{
	struct health_check c = {0};

	assert_false(health_rule_is_worse(&c, -1, &both));
	assert_false(health_rule_is_worse(&c, 100, &both));
	assert_true(health_rule_is_worse(&c, 101, &both));
	look(&c, 101);
	assert_false(health_rule_is_worse(&c, 1000, &both));
	assert_true(health_rule_is_worse(&c, 1001, &both));
	look(&c, 1001);
	assert_false(health_rule_is_worse(&c, 5000, &both));
	assert_false(health_rule_is_worse(&c, 0, &both));
}

TEST(recovering_until_the_looks_agree)
{
	static const struct health_limit flag = { 0, HEALTH_NO_LIMIT, 1, false };
	struct health_check c = {0}, breaker = {0};

	assert_false(health_rule_is_recovering(&c, 0, &both));
	look(&c, 1001);
	assert_false(health_rule_is_recovering(&c, 1001, &both));
	assert_true(health_rule_is_recovering(&c, 1000, &both));	/* between nine tenths and the limit, too */
	assert_false(health_rule_is_recovering(&c, -1, &both));
	look(&c, 500);
	assert_true(health_rule_is_recovering(&c, 500, &both));
	assert_int_equal(c.falling, 1);
	look(&c, 500);
	assert_false(health_rule_is_recovering(&c, 500, &both));	/* degraded, and above that limit */
	look(&c, 10);
	look(&c, 1001);
	look(&c, 500);
	look(&c, 10);
	assert_int_equal(c.level, QUEUE_DEGRADED);
	assert_true(health_rule_is_recovering(&c, 10, &both));
	assert_int_equal(c.falling, 1);
	health_rule_look(&breaker, 1, &flag);
	health_rule_look(&breaker, 0, &flag);
	assert_true(health_rule_is_recovering(&breaker, 0, &flag));
}

TEST(the_worst_counts)
{
	struct health_check checks[3] = {0};

	assert_int_equal(health_rule_worst(checks, nitems(checks)), QUEUE_HEALTHY);
	checks[2].level = QUEUE_DEGRADED;
	assert_int_equal(health_rule_worst(checks, nitems(checks)), QUEUE_DEGRADED);
	checks[0].level = QUEUE_UNHEALTHY;
	assert_int_equal(health_rule_worst(checks, nitems(checks)), QUEUE_UNHEALTHY);
}

int main(void)
{
	alarm(10);
	return unit_run(NULL, NULL);
}
