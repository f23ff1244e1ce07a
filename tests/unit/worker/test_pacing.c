/* How many messages a fetch asks for: one for slow handlers, a batch for fast ones, fewer if messages are large. */
#include "tests/unit/unit.h"
#include "worker/pacing.h"

static const struct conf_queue conf = { .batch = { .max = 1000, .time_ms = 100 } };

static struct pacing fresh(void)
{
	struct pacing p = {0};

	pacing_init(&p, &conf);
	return p;
}

static void fill(struct pacing *p)
{
	for (int i = 0; i < 20; i++)
		pacing_full(p, true);
}

TEST(nothing_is_known_at_first)
{
	struct pacing p = fresh();

	fill(&p);
	assert_int_equal(pacing_size(&p), 1);
}

/* The other half of batch.time belongs to the tray that is fetched ahead. */
TEST(a_batch_takes_half_of_batch_time)
{
	struct pacing p = fresh();

	pacing_learn(&p, 1000, 1);
	fill(&p);
	assert_int_equal(pacing_size(&p), 50);
}

TEST(the_size_doubles_while_fetches_come_full)
{
	struct pacing p = fresh();

	pacing_learn(&p, 1, 1);
	assert_int_equal(pacing_size(&p), 1);
	pacing_full(&p, true);
	assert_int_equal(pacing_size(&p), 2);
	pacing_full(&p, true);
	assert_int_equal(pacing_size(&p), 4);
	fill(&p);
	assert_int_equal(pacing_size(&p), 1000);
	pacing_full(&p, false);
	assert_int_equal(pacing_size(&p), 1);
}

TEST(a_slow_handler_gets_one)
{
	struct pacing p = fresh();

	pacing_learn(&p, 60 * 1000 * 1000, 1);
	fill(&p);
	assert_int_equal(pacing_size(&p), 1);
}

/* One very slow message counts as one that took batch.time: fast ones are learnt again soon. */
TEST(one_slow_message_is_forgotten_soon)
{
	struct pacing p = fresh();
	int n;

	fill(&p);
	pacing_learn(&p, INT64_C(3600) * 1000 * 1000, 1);
	for (n = 0; pacing_size(&p) < 100; n++)
		pacing_learn(&p, 100, 1);
	assert_in_range(n, 1, 30);
}

TEST(large_messages_come_in_fewer)
{
	struct pacing p = fresh();

	pacing_learn(&p, 1, 1);
	fill(&p);
	pacing_learn_size(&p, 256 * 1024);
	assert_int_equal(pacing_size(&p), 4);
	for (int i = 0; i < 10; i++)
		pacing_learn_size(&p, 10);
	assert_int_equal(pacing_size(&p), 4);		/* down slowly */
	for (int i = 0; i < 2000; i++)
		pacing_learn_size(&p, 10);
	assert_int_equal(pacing_size(&p), 1000);
	pacing_learn_size(&p, 10 * 1024 * 1024);
	assert_int_equal(pacing_size(&p), 1);
}

UNIT_MAIN(NULL, NULL)
