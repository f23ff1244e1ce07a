/* links: tests/unit/supervisor/master_fixture.c */
/* ldflags: -Wl,--wrap=kill,--wrap=fork,--wrap=log_write */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/supervisor/master_fixture.h"

#include "common/base/nitems.h"
#include "common/queue/queue.h"

static struct queues *qs = &m.queues;
static const char *reason;

static struct board_queue *mail(void)
{
	return &m.board->queues[MAIL];
}

static enum hold judge(void)
{
	struct hold_slots slots;
	struct judged judged;

	queues_publish(qs);
	holds_read_slots(m.board, &slots);
	judged = holds_judge(m.board, mail(), &slots);
	reason = judged.reason;
	return judged.hold;
}

/* A queue with both its workers, whose gate is open. */
static int setup(void **state)
{
	int r = master_setup(state);

	master_add_worker(MAIL, 0, 0);
	master_add_worker(MAIL, 1, 0);
	atomic_store(&mail()->sweeper.gate, QUEUE_OPEN);
	return r;
}

static const struct process *worker(int index)
{
	for (const struct process *p = NULL; (p = processes_next(&m.processes, p, PROCESS_WORKER)) != NULL;)
		if (p->role.queue == MAIL && p->role.index == index)
			return p;
	return NULL;
}

static struct slot *slot_of(int index)
{
	return &m.board->slots[processes_slot(&m.processes, worker(index))];
}

#define assert_hold(hold, text)                                                                  \
	do {                                                                                       \
		assert_int_equal(judge(), (hold));                                                \
		assert_non_null(reason);                                                           \
		assert_string_equal(reason, (text));                                               \
	} while (0)

static void a_queue_that_works_is_running_without_a_reason(void **state)
{
	(void)state;
	assert_int_equal(judge(), HOLD_NONE);
	assert_null(reason);
}

static void crash_policies_come_before_all_errors(void **state)
{
	(void)state;
	atomic_store(&mail()->sweeper.error, QUEUE_ERROR_WRONG_TYPE);
	for (int i = 0; i < 5; i++)
		master_end_worker(master_add_worker(MAIL, 2, 2000 * i), true, 2000 * i);
	assert_hold(HOLD_BACKOFF, "its workers died five times in thirty seconds");
	for (int i = 5; i < 10; i++)
		master_end_worker(master_add_worker(MAIL, 2, 2000 * i), true, 2000 * i);
	assert_int_equal(judge(), HOLD_QUARANTINE);
	atomic_fetch_add(&mail()->workers.done, 1);
	queues_look(qs, 21000);
	assert_hold(HOLD_ERROR, "one of its keys has the wrong type");
}

static void an_error_is_a_state_or_part_of_one(void **state)
{
	static const struct { enum queue_error error; enum hold hold; const char *reason; } rows[] = {
		{ QUEUE_ERROR_NONE, HOLD_NONE, NULL },
		{ QUEUE_ERROR_WRONG_TYPE, HOLD_ERROR, "one of its keys has the wrong type" },
		{ QUEUE_ERROR_NO_PERMISSION, HOLD_ERROR, "Redis refuses password or permission" },
		{ QUEUE_ERROR_NO_COMMAND, HOLD_ERROR, "Redis refuses a command that quredis needs: quredis doctor" },
		{ QUEUE_ERROR_CLUSTER, HOLD_ERROR, "this Redis is a Cluster: set redis.prefix = \"{NAME}\", and use database 0" },
		{ QUEUE_ERROR_SCHEMA, HOLD_ERROR, "another version of quredis wrote the keys in Redis" },
		{ QUEUE_ERROR_SECRET, HOLD_ERROR, "no secret for wrappers" },
		{ QUEUE_ERROR_EVICTION, HOLD_REFUSED, "maxmemory-policy may evict queues" },
		{ QUEUE_ERROR_NO_REDIS, HOLD_NO_REDIS, "no connection to Redis" },
		{ QUEUE_ERROR_TRANSIENT, HOLD_REFUSED, "Redis refuses commands for now" },
		{ QUEUE_ERROR_OTHER, HOLD_ERROR, "Redis answers with an error" },
		{ QUEUE_ERROR_ARCHIVE, HOLD_ERROR, "the archive of its dead letters cannot be read or written" },
		{ QUEUE_ERROR_LEFTOVERS, HOLD_NONE, NULL },
	};

	(void)state;
	assert_int_equal(nitems(rows), QUEUE_ERROR_LEFTOVERS + 1);
	for (size_t i = 0; i < nitems(rows); i++) {
		atomic_store(&mail()->sweeper.error, rows[i].error);
		assert_int_equal(judge(), rows[i].hold);
		if (rows[i].reason == NULL)
			assert_null(reason);
		else
			assert_string_equal(reason, rows[i].reason);
	}
}

static void a_queue_without_redis_is_one_whose_workers_all_lost_it(void **state)
{
	(void)state;
	atomic_store(&slot_of(0)->redis_down, 1);
	assert_int_equal(judge(), HOLD_NONE);
	atomic_store(&slot_of(1)->redis_down, 1);
	assert_hold(HOLD_NO_REDIS, "no connection to Redis");
	atomic_store(&slot_of(1)->error, QUEUE_ERROR_TRANSIENT);
	assert_hold(HOLD_REFUSED, "Redis refuses commands for now");		/* the known error says more than the guess */
	atomic_store(&slot_of(1)->error, QUEUE_ERROR_NO_PERMISSION);
	assert_hold(HOLD_REFUSED, "Redis refuses password or permission");
	atomic_store(&slot_of(1)->error, QUEUE_ERROR_WRONG_TYPE);		/* the opening of a connection finds it, too */
	assert_hold(HOLD_REFUSED, "one of its keys has the wrong type");
}

static void a_worker_that_leaves_does_not_show_whether_redis_answers(void **state)
{
	(void)state;
	atomic_store(&slot_of(0)->redis_down, 1);
	queues_scale(qs, MAIL, 1);
	queues_dismiss_surplus(qs, MAIL, 0);
	assert_int_equal(judge(), HOLD_NO_REDIS);
}

static void a_queue_without_workers_has_not_lost_redis(void **state)
{
	(void)state;
	queues_scale(qs, MAIL, 0);
	queues_dismiss_surplus(qs, MAIL, 0);
	assert_hold(HOLD_NONE, "scaled to no workers, until a reload");
}

static void a_gate_that_is_shut_for_an_error_shows_the_error(void **state)
{
	(void)state;
	atomic_store(&mail()->sweeper.gate, QUEUE_REFUSED);
	assert_hold(HOLD_REFUSED, "Redis answers with an error");
	atomic_store(&mail()->sweeper.error, QUEUE_ERROR_WRONG_TYPE);
	assert_hold(HOLD_REFUSED, "one of its keys has the wrong type");
	atomic_store(&mail()->sweeper.error, QUEUE_ERROR_LEFTOVERS);
	assert_hold(HOLD_REFUSED, "Redis answers with an error");
}

static void the_breaker_comes_before_the_gate(void **state)
{
	(void)state;
	atomic_store(&mail()->sweeper.gate, QUEUE_PAUSED);
	assert_hold(HOLD_PAUSED, "an operator stopped fetching on all hosts");
	atomic_store(&mail()->workers.breaker.step, 1);
	assert_int_equal(judge(), HOLD_BREAKER);
}

static void a_queue_recovers_until_its_gate_opens(void **state)
{
	(void)state;
	atomic_store(&mail()->sweeper.gate, QUEUE_RECOVERING);
	assert_hold(HOLD_RECOVERING, "messages of dead workers are being returned");
	atomic_store(&mail()->sweeper.error, QUEUE_ERROR_LEFTOVERS);
	assert_hold(HOLD_RECOVERING, "processes of a dead supervisor are being killed");
}

static void a_queue_that_left_drains(void **state)
{
	(void)state;
	queues_leave(qs, MAIL, 0, 0);
	assert_hold(HOLD_DRAINING, "left the configuration");
}

static void a_queue_drains_while_the_supervisor_stops_and_misses_no_worker(void **state)
{
	(void)state;
	atomic_store(&m.board->master.stopping, 1);
	assert_hold(HOLD_DRAINING, "the supervisor stops");
	for (int i = 0; i < 2; i++)
		master_end_worker(processes_slot(&m.processes, worker(i)), true, 1000);
	assert_hold(HOLD_DRAINING, "the supervisor stops");
}

static void all_holds_are_listed_the_worst_first(void **state)
{
	struct judged all[HOLDS];
	struct hold_slots slots;

	(void)state;
	queues_set_quiet(qs, MAIL, true, 0);
	atomic_store(&mail()->sweeper.gate, QUEUE_PAUSED);
	atomic_store(&mail()->workers.breaker.step, 1);
	queues_publish(qs);
	holds_read_slots(m.board, &slots);
	assert_int_equal(holds_list(m.board, mail(), &slots, all), 3);
	assert_int_equal(all[0].hold, HOLD_BREAKER);
	assert_int_equal(all[1].hold, HOLD_PAUSED);
	assert_int_equal(all[2].hold, HOLD_QUIET);
	assert_string_equal(all[2].reason, "an operator stopped its fetches");
}

static void a_pause_in_redis_is_shown_before_quiet(void **state)
{
	(void)state;
	queues_set_quiet(qs, MAIL, true, 0);
	assert_hold(HOLD_QUIET, "an operator stopped its fetches");
	queues_set_quiet(qs, MAIL, false, 0);
	queues_set_all_quiet(qs, true, 0);
	assert_hold(HOLD_QUIET, "an operator stopped its fetches");
	atomic_store(&mail()->sweeper.gate, QUEUE_PAUSED);
	assert_hold(HOLD_PAUSED, "an operator stopped fetching on all hosts");
}

static void a_running_queue_warns_of_the_most_important_of_several(void **state)
{
	struct conf_queue none = *m.config.conf->queues[MAIL];

	(void)state;
	none.workers = 0;
	atomic_store(&m.board->sweeper.leftovers, 1);
	assert_hold(HOLD_NONE, "processes of a dead supervisor may still run: its messages may run twice");
	queues_keep(qs, MAIL, &none);
	assert_hold(HOLD_NONE, "no workers are configured");
	atomic_store(&mail()->sweeper.aside, 1);
	assert_hold(HOLD_NONE, "messages are set aside: Redis refuses to move them");
	atomic_store(&mail()->sweeper.undecided, 1);
	assert_hold(HOLD_NONE, doubt_text((enum doubt)0));
}

static void messages_set_aside_have_the_reason_of_redis(void **state)
{
	(void)state;
	assert_null(holds_aside(mail()));
	atomic_store(&mail()->sweeper.aside_error, QUEUE_ERROR_WRONG_TYPE);
	assert_null(holds_aside(mail()));		/* the last of them is gone */
	atomic_store(&mail()->sweeper.aside, 3);
	assert_string_equal(holds_aside(mail()), "messages are set aside: a key they go to has the wrong type");
	atomic_store(&mail()->sweeper.aside_error, QUEUE_ERROR_NO_PERMISSION);
	assert_string_equal(holds_aside(mail()), "messages are set aside: Redis refuses the permission to move them");
	assert_null(holds_aside(&m.board->queues[LATER]));
}

static void a_doubt_names_why_a_worker_cannot_be_proven_dead(void **state)
{
	(void)state;
	assert_null(holds_undecided(mail()));
	atomic_store(&mail()->sweeper.undecided, 2);
	assert_string_equal(holds_undecided(mail()), doubt_text((enum doubt)1));
	assert_string_not_equal(doubt_text((enum doubt)0), doubt_text((enum doubt)1));
	assert_null(holds_undecided(&m.board->queues[LATER]));
}

static bool is_first_of_its_code(int hold)
{
	int first = HOLD_NONE + 1;

	while (first < hold && strcmp(holds_table[first].code, holds_table[hold].code) != 0)
		first++;
	return first == hold;
}

static void each_hold_has_its_words_and_a_name_of_its_own(void **state)
{
	(void)state;
	for (int h = 0; h < HOLDS; h++) {
		assert_non_null(holds_table[h].setter);
		assert_non_null(holds_table[h].end);
		assert_non_null(holds_table[h].text);
		assert_int_equal(holds_by_name(holds_table[h].name), h);
		assert_int_equal(h == HOLD_NONE, holds_table[h].level == HOLD_WELL);
		assert_int_equal(h == HOLD_NONE, holds_table[h].code == NULL);
		assert_int_equal(is_first_of_its_code(h) && h != HOLD_PAUSED, holds_table[h].over != NULL);	/* HEALTH_PAUSED has it */
	}
	assert_int_equal(holds_by_name("of a later version"), HOLDS);
	assert_int_equal(holds_by_name(NULL), HOLDS);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, master_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(each_hold_has_its_words_and_a_name_of_its_own),
		T(a_queue_that_works_is_running_without_a_reason),
		T(crash_policies_come_before_all_errors),
		T(an_error_is_a_state_or_part_of_one),
		T(a_queue_without_redis_is_one_whose_workers_all_lost_it),
		T(a_worker_that_leaves_does_not_show_whether_redis_answers),
		T(a_queue_without_workers_has_not_lost_redis),
		T(a_gate_that_is_shut_for_an_error_shows_the_error),
		T(the_breaker_comes_before_the_gate),
		T(a_queue_recovers_until_its_gate_opens),
		T(a_queue_that_left_drains),
		T(a_queue_drains_while_the_supervisor_stops_and_misses_no_worker),
		T(all_holds_are_listed_the_worst_first),
		T(a_pause_in_redis_is_shown_before_quiet),
		T(a_running_queue_warns_of_the_most_important_of_several),
		T(messages_set_aside_have_the_reason_of_redis),
		T(a_doubt_names_why_a_worker_cannot_be_proven_dead),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
