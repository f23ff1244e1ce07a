/* Arrivals against completions: no sleeping, times are given. */
#include <unistd.h>

#include "sweeper/report/growth.h"
#include "tests/unit/unit.h"

#define MINUTE INT64_C(60000)
#define LIMIT (15 * MINUTE)
#define START INT64_C(1800000000000)

/* A look at so many ms after the start. */
static void look(struct growth *g, int64_t ms, int64_t size, int64_t taken, int64_t finished)
{
	growth_look(g, &(struct growth_figures){ .at_ms = START + ms, .size = size, .taken = taken, .finished = finished });
}

TEST(nothing_is_known_at_first)
{
	struct growth g = {0};

	assert_int_equal(growth_ms(&g, false, LIMIT), -1);
	look(&g, 0, 100, 50, 40);
	assert_int_equal(growth_ms(&g, false, LIMIT), -1);
	look(&g, MINUTE - 1, 900, 50, 40);		/* too soon: the counters are some seconds late */
	assert_int_equal(growth_ms(&g, false, LIMIT), -1);
	assert_true(growth_a_minute(&g, g.came) < 0);
}

TEST(both_rates_are_of_the_same_time)
{
	struct growth g = {0};

	look(&g, 0, 100, 50, 40);
	look(&g, 2 * MINUTE, 160, 90, 70);		/* 60 more, and 40 taken out: 100 came, 30 left */
	assert_int_equal(g.came, 100);
	assert_int_equal(g.left, 30);
	assert_true(growth_a_minute(&g, g.came) > 49.9 && growth_a_minute(&g, g.came) < 50.1);
	assert_true(growth_a_minute(&g, g.left) > 14.9 && growth_a_minute(&g, g.left) < 15.1);
	assert_int_equal(growth_ms(&g, false, LIMIT), 2 * MINUTE);
	look(&g, 2 * MINUTE + 1, 0, 90, 70);		/* too soon: nothing changes */
	assert_int_equal(growth_ms(&g, false, LIMIT), 2 * MINUTE);
	look(&g, 4 * MINUTE, 170, 190, 170);
	assert_int_equal(growth_ms(&g, false, LIMIT), 4 * MINUTE);
}

TEST(it_ends_when_the_backlog_does_not_grow)
{
	struct growth g = {0};

	look(&g, 0, 100, 0, 0);
	look(&g, 5 * MINUTE, 200, 50, 50);
	look(&g, 10 * MINUTE, 200, 100, 100);
	assert_int_equal(growth_ms(&g, false, LIMIT), 0);
	assert_int_equal(growth_ms(&g, true, LIMIT), 0);
	look(&g, 15 * MINUTE, 300, 100, 100);		/* again, from here */
	assert_int_equal(growth_ms(&g, false, LIMIT), 5 * MINUTE);
	look(&g, 17 * MINUTE, 300, 190, 110);		/* more came than left, and workers hold them */
	assert_int_equal(growth_ms(&g, false, LIMIT), 0);
	look(&g, 20 * MINUTE, 310, 100, 200);		/* retries that came back: more left than came */
	assert_int_equal(growth_ms(&g, false, LIMIT), 0);
}

TEST(a_minute_of_work_is_no_backlog)
{
	struct growth g = {0};

	look(&g, 0, 10, 0, 0);
	look(&g, 10 * MINUTE, 100, 1000, 1000);		/* 100 a minute */
	assert_int_equal(growth_ms(&g, false, LIMIT), 0);
	look(&g, 20 * MINUTE, 101, 2000, 2000);
	assert_int_equal(growth_ms(&g, false, LIMIT), 20 * MINUTE);
}

/* A new sweeper has not seen all of it, and must not call the queue well. */
TEST(what_still_grows_stays_bad)
{
	struct growth g = {0};

	look(&g, 0, 100, 0, 0);
	look(&g, LIMIT, 200, 0, 0);
	assert_int_equal(growth_ms(&g, true, LIMIT), -1);
	look(&g, LIMIT + MINUTE, 300, 0, 0);
	assert_int_equal(growth_ms(&g, true, LIMIT), LIMIT + MINUTE);
}

TEST(going_back_begins_anew)
{
	struct growth g = {0};

	for (int i = 0; i < 2; i++) {
		look(&g, 10 * MINUTE, 100, 500, 400);
		look(&g, 20 * MINUTE, 200, 500, 400);
		assert_int_equal(growth_ms(&g, false, LIMIT), 10 * MINUTE);
		if (i == 0)
			look(&g, 30 * MINUTE, 300, 500, 399);	/* the totals */
		else
			look(&g, 5 * MINUTE, 300, 500, 400);	/* the clock */
		assert_int_equal(growth_ms(&g, false, LIMIT), -1);
		look(&g, 40 * MINUTE, 400, 500, 400);
		assert_true(growth_ms(&g, false, LIMIT) > 0);
		g = (struct growth){0};
	}
	look(&g, 0, 1000, 500, 400);
	look(&g, MINUTE, 0, 500, 400);			/* another program deleted ingress */
	assert_int_equal(g.came, 0);
	assert_int_equal(growth_ms(&g, false, LIMIT), 0);
}

int main(void)
{
	alarm(10);
	return unit_run(NULL, NULL);
}
