/* links: tests/unit/private_redis.c tests/unit/worker/lone_worker.c */
/* What the master gives a worker: its own slot, the words of its queue, its name and its keys. */
#include <stdio.h>
#include <string.h>

#include "common/base/base.h"
#include "tests/unit/unit.h"
#include "tests/unit/worker/lone_worker.h"

/* Not the first ones, where a wrong index would not show. */
TEST(a_worker_gets_the_slot_and_the_queue_of_its_child, lone_worker_setup, lone_worker_teardown)
{
	struct env *env;

	lone.child.slot = SCOREBOARD_SLOTS - 1;
	lone.child.queue_index = SCOREBOARD_QUEUES - 1;
	env = env_new(&lone.child);
	assert_ptr_equal(env->slot, &lone.board->slots[SCOREBOARD_SLOTS - 1]);
	assert_ptr_equal(env->board, &lone.board->queues[SCOREBOARD_QUEUES - 1]);
	assert_ptr_equal(env->child, &lone.child);
	assert_ptr_equal(env->conf, &lone.queue);
	env_free(env);
}

TEST(a_worker_is_named_by_its_queue_and_its_number_there, lone_worker_setup, lone_worker_teardown)
{
	struct env *env;

	assert_string_equal(lone.env->name, "mail/2");
	lone.child.index = CONF_WORKERS_MAX - 1;
	env = env_new(&lone.child);
	assert_string_equal(env->name, "mail/999");
	env_free(env);
}

/* A name that is cut would stand for two workers. */
TEST(the_longest_name_of_a_queue_is_not_cut, lone_worker_setup, lone_worker_teardown)
{
	char name[QUEUE_NAME_MAX + 1], whole[QUEUE_NAME_MAX + 8];
	struct env *env;

	memset(name, 'q', QUEUE_NAME_MAX);
	name[QUEUE_NAME_MAX] = '\0';
	snprintf(whole, sizeof(whole), "%s/999", name);
	lone.queue.name = name;
	lone.child.index = 999;
	env = env_new(&lone.child);
	assert_string_equal(env->name, whole);
	env_free(env);
}

TEST(the_keys_are_those_of_the_configuration, lone_worker_setup, lone_worker_teardown)
{
	struct env *env;

	assert_string_equal(lone.env->keys.ingress, "i");
	assert_string_equal(lone.env->keys.transit, "t");
	assert_string_equal(lone.env->keys.escape, "e");
	assert_false(lone.env->keys.shared);
	assert_true(lone.env->keys.lines.headers);
	lone.queue.shared = true;
	lone.queue.headers = false;
	env = env_new(&lone.child);
	assert_true(env->keys.shared);
	assert_false(env->keys.lines.headers);
	env_free(env);
}

TEST(a_worker_counts_in_its_own_slot_only, lone_worker_setup, lone_worker_teardown)
{
	env_count(lone.env, COUNT_DONE, 3);
	env_count(lone.env, COUNT_DONE, 1000);
	env_count(lone.env, COUNT_DONE, 0);
	for (int slot = 0; slot < SCOREBOARD_SLOTS; slot++)
		for (int counter = 0; counter < COUNTERS; counter++)
			assert_int_equal(atomic_load(&lone.board->slots[slot].counters[counter]), slot == 1 && counter == COUNT_DONE ? 1003 : 0);
}

UNIT_MAIN(NULL, NULL)
