/* links: tests/unit/private_redis.c */
/* ldflags: -Wl,--wrap=redis_output_write -Wl,--wrap=opendir -Wl,--wrap=setmntent */

/* An order that comes while a sweeper works in many queues. */
#include "tests/unit/sweeper/sweeper_process.h"
#include "tests/unit/unit.h"

#define MANY 30
#define STEP 30			/* writes between two orders */
#define WRITES_MAX 12		/* the rest of what it did in one queue, and its end */

static struct conf_queue many[MANY], *list_of_many[MANY];

static void use_many(void)
{
	for (int i = 0; i < MANY; i++) {
		char *name = alloc_format("q%d", i);

		many[i] = queues[0];
		many[i].name = name;
		many[i].ingress = alloc_format("ingress:%s", name);
		many[i].transit = alloc_format("transit:%s", name);
		many[i].escape = alloc_format("escape:%s", name);
		list_of_many[i] = &many[i];
	}
	conf.queues = list_of_many;
	conf.nqueues = MANY;
}

static void use_few(void)
{
	conf.queues = queue_list_of;
	conf.nqueues = 1;
	for (int i = 0; i < MANY; i++) {
		free(many[i].name);
		free(many[i].ingress);
		free(many[i].transit);
		free(many[i].escape);
	}
}

static int queues_recovered(void)
{
	int n = 0;

	for (int i = 0; i < MANY; i++)
		n += atomic_load(&board->queues[i].sweeper.recovered) == RECOVERED_ALL;
	return n;
}

/* Whenever the order comes, the sweeper does no more than the rest of what it began in one queue. */
TEST(an_order_is_heard_between_two_queues, setup, teardown)
{
	int orders = 0;

	use_many();
	for (int at = STEP; queues_recovered() < MANY; at += STEP) {
		atomic_store(&board->master.orders[0], ORDER_RUN);
		atomic_store(&looks->writes_after_order, 0);
		for (int i = 0; i < MANY; i++)
			atomic_store(&board->queues[i].sweeper.recovered, RECOVERED_NOTHING);
		REDIS(&server, "FLUSHALL");
		writes_to_order = at;
		start();
		assert_int_equal(wait_end(WAIT_MS), 0);
		orders++;
		assert_in_range(atomic_load(&looks->writes_after_order), 0, WRITES_MAX);
	}
	assert_true(orders >= 4);		/* in each stage of the recovery */
	writes_to_order = 0;
	atomic_store(&board->master.orders[0], ORDER_RUN);
	use_few();
}

UNIT_MAIN(setup_all, teardown_all)
