/* links: tests/unit/supervisor/master_fixture.c */
/* ldflags: -Wl,--wrap=kill,--wrap=fork,--wrap=log_write */
#include <string.h>

#include "tests/unit/supervisor/master_fixture.h"

#include "common/base/nitems.h"
#include "common/queue/queue.h"
#include "tests/unit/unit.h"

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

TEST(a_queue_that_works_is_running_without_a_reason, setup, master_teardown)
{
	assert_int_equal(judge(), HOLD_NONE);
	assert_null(reason);
}

TEST(crash_policies_come_before_all_errors, setup, master_teardown)
{
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

TEST(an_error_is_a_state_or_part_of_one, setup, master_teardown)
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

TEST(a_queue_without_redis_is_one_whose_workers_all_lost_it, setup, master_teardown)
{
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

TEST(a_worker_that_leaves_does_not_show_whether_redis_answers, setup, master_teardown)
{
	atomic_store(&slot_of(0)->redis_down, 1);
	queues_scale(qs, MAIL, 1);
	queues_dismiss_surplus(qs, MAIL, 0);
	assert_int_equal(judge(), HOLD_NO_REDIS);
}

TEST(a_queue_without_workers_has_not_lost_redis, setup, master_teardown)
{
	queues_scale(qs, MAIL, 0);
	queues_dismiss_surplus(qs, MAIL, 0);
	assert_hold(HOLD_NONE, "scaled to no workers, until a reload");
}

TEST(a_gate_that_is_shut_for_an_error_shows_the_error, setup, master_teardown)
{
	atomic_store(&mail()->sweeper.gate, QUEUE_REFUSED);
	assert_hold(HOLD_REFUSED, "Redis answers with an error");
	atomic_store(&mail()->sweeper.error, QUEUE_ERROR_WRONG_TYPE);
	assert_hold(HOLD_REFUSED, "one of its keys has the wrong type");
	atomic_store(&mail()->sweeper.error, QUEUE_ERROR_LEFTOVERS);
	assert_hold(HOLD_REFUSED, "Redis answers with an error");
}

TEST(a_hold_of_a_handler_comes_before_a_pause, setup, master_teardown)
{
	atomic_store(&mail()->sweeper.gate, QUEUE_PAUSED);
	board_hold(mail(), 500);
	assert_hold(HOLD_HELD, "its handler asked for a hold");
	assert_int_equal(board_set_hold(m.board, mail(), 400, 0, 100), -1);	/* a worker has raised it since */
	assert_int_equal(board_set_hold(m.board, mail(), 500, 0, 100), 0);
	assert_hold(HOLD_PAUSED, "an operator stopped fetching on all hosts");
}

static int64_t redis_says(int64_t seen, int64_t until_ms, int64_t now_ms)
{
	return board_set_hold(m.board, mail(), seen, until_ms, now_ms);
}

/* The handler of a worker asks for a hold. */
static void ask(int index, int64_t until_ms)
{
	atomic_store(&slot_of(index)->unanswered_hold_ms, until_ms);
	board_hold(mail(), until_ms);
}

/* Its worker may be cut off from Redis, while the sweeper reads there that the queue is not held. */
TEST(a_hold_lasts_until_redis_has_answered_about_it, setup, master_teardown)
{
	ask(0, 500);
	assert_int_equal(redis_says(500, 0, 100), 500);
	assert_hold(HOLD_HELD, "its handler asked for a hold");
	ask(1, 400);
	assert_int_equal(redis_says(500, 400, 100), 500);
	assert_int_equal(redis_says(500, 600, 100), 600);
	assert_int_equal(redis_says(600, 0, 100), 500);
	assert_int_equal(redis_says(500, 0, 500), 0);
	ask(0, 700);
	ask(0, 0);		/* Redis has answered */
	ask(1, 0);
	assert_int_equal(redis_says(700, 0, 600), 0);	/* an operator has ended it */
	assert_int_equal(judge(), HOLD_NONE);
}

/* The message of the dead worker runs again. That of the other one does not: Redis may still hear of its hold. */
TEST(a_hold_ends_with_its_worker_and_no_other_does, setup, master_teardown)
{
	ask(0, 900);
	ask(1, 500);
	master_end_worker(processes_slot(&m.processes, worker(0)), true, 0);
	assert_int_equal(redis_says(900, 0, 100), 500);
	assert_hold(HOLD_HELD, "its handler asked for a hold");
}

TEST(a_hold_is_of_one_queue, setup, master_teardown)
{
	struct board_queue *other = &m.board->queues[MAIL + 1];

	ask(0, 900);
	board_hold(other, 300);
	assert_int_equal(board_set_hold(m.board, other, 300, 0, 100), 0);
	assert_int_equal(atomic_load(&other->workers.held_until_ms), 0);
}

TEST(the_breaker_comes_before_the_gate, setup, master_teardown)
{
	atomic_store(&mail()->sweeper.gate, QUEUE_PAUSED);
	assert_hold(HOLD_PAUSED, "an operator stopped fetching on all hosts");
	atomic_store(&mail()->workers.breaker.step, 1);
	assert_int_equal(judge(), HOLD_BREAKER);
}

TEST(a_queue_recovers_until_its_gate_opens, setup, master_teardown)
{
	atomic_store(&mail()->sweeper.gate, QUEUE_RECOVERING);
	assert_hold(HOLD_RECOVERING, "messages of dead workers are being returned");
	atomic_store(&mail()->sweeper.error, QUEUE_ERROR_LEFTOVERS);
	assert_hold(HOLD_RECOVERING, "processes of a dead supervisor are being killed");
}

TEST(a_queue_loads_until_the_handler_of_one_worker_is_ready, setup, master_teardown)
{
	for (int i = 0; i < 2; i++)
		atomic_store(&slot_of(i)->hold, WORKER_LOADS);
	assert_hold(HOLD_LOADING, "its handler loads, and is not ready yet");
	atomic_store(&slot_of(1)->hold, WORKER_FETCHING);
	assert_int_equal(judge(), HOLD_NONE);
	atomic_store(&slot_of(1)->hold, WORKER_LOADS);
	atomic_store(&mail()->workers.breaker.step, 1);
	assert_int_equal(judge(), HOLD_BREAKER);
}

TEST(a_queue_that_left_drains, setup, master_teardown)
{
	queues_leave(qs, MAIL, 0, 0);
	assert_hold(HOLD_DRAINING, "left the configuration");
}

TEST(a_queue_drains_while_the_supervisor_stops_and_misses_no_worker, setup, master_teardown)
{
	atomic_store(&m.board->master.stopping, 1);
	assert_hold(HOLD_DRAINING, "the supervisor stops");
	for (int i = 0; i < 2; i++)
		master_end_worker(processes_slot(&m.processes, worker(i)), true, 1000);
	assert_hold(HOLD_DRAINING, "the supervisor stops");
}

TEST(all_holds_are_listed_the_worst_first, setup, master_teardown)
{
	struct judged all[HOLDS];
	struct hold_slots slots;

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

TEST(a_pause_in_redis_is_shown_before_quiet, setup, master_teardown)
{
	queues_set_quiet(qs, MAIL, true, 0);
	assert_hold(HOLD_QUIET, "an operator stopped its fetches");
	queues_set_quiet(qs, MAIL, false, 0);
	queues_set_all_quiet(qs, true, 0);
	assert_hold(HOLD_QUIET, "an operator stopped its fetches");
	atomic_store(&mail()->sweeper.gate, QUEUE_PAUSED);
	assert_hold(HOLD_PAUSED, "an operator stopped fetching on all hosts");
}

TEST(a_running_queue_warns_of_the_most_important_of_several, setup, master_teardown)
{
	struct conf_queue none = *m.config.conf->queues[MAIL];

	none.workers = 0;
	atomic_store(&m.board->sweeper.leftovers, 1);
	assert_hold(HOLD_NONE, "processes of a dead supervisor may still run: its messages may run twice");
	queues_keep(qs, MAIL, &none);
	assert_hold(HOLD_NONE, "no workers are configured");
	atomic_store(&m.board->master.reload_failed, 1);
	assert_hold(HOLD_NONE, "the last reload failed, and the configuration before it is in use");
	atomic_store(&mail()->sweeper.aside, 1);
	assert_hold(HOLD_NONE, "messages are set aside: Redis refuses to move them");
	atomic_store(&mail()->sweeper.undecided, 1);
	assert_hold(HOLD_NONE, doubt_text((enum doubt)0));
}

TEST(messages_set_aside_have_the_reason_of_redis, setup, master_teardown)
{
	assert_null(holds_aside(mail()));
	atomic_store(&mail()->sweeper.aside_error, QUEUE_ERROR_WRONG_TYPE);
	assert_null(holds_aside(mail()));		/* the last of them is gone */
	atomic_store(&mail()->sweeper.aside, 3);
	assert_string_equal(holds_aside(mail()), "messages are set aside: a key they go to has the wrong type");
	atomic_store(&mail()->sweeper.aside_error, QUEUE_ERROR_NO_PERMISSION);
	assert_string_equal(holds_aside(mail()), "messages are set aside: Redis refuses the permission to move them");
	assert_null(holds_aside(&m.board->queues[LATER]));
}

TEST(a_doubt_names_why_a_worker_cannot_be_proven_dead, setup, master_teardown)
{
	assert_null(holds_undecided(mail()));
	atomic_store(&mail()->sweeper.undecided, 2);
	assert_string_equal(holds_undecided(mail()), doubt_text((enum doubt)1));
	assert_string_not_equal(doubt_text((enum doubt)0), doubt_text((enum doubt)1));
	assert_null(holds_undecided(&m.board->queues[LATER]));
}

TEST(each_hold_has_its_words_and_a_name_of_its_own, setup, master_teardown)
{
	for (int h = 0; h < HOLDS; h++) {
		assert_non_null(holds_table[h].setter);
		assert_non_null(holds_table[h].end);
		assert_non_null(holds_table[h].text);
		assert_int_equal(holds_by_name(holds_table[h].name), h);
		assert_int_equal(h == HOLD_NONE, holds_table[h].level == HOLD_WELL);
		assert_int_equal(h == HOLD_NONE || h == HOLD_THROTTLED, holds_table[h].code == NULL);	/* neither degrades a queue */
		/* a code that another row has takes the text of that row */
		assert_int_equal((int)holds_code((enum hold)h) == HEALTH_HOLDS + h, holds_table[h].over != NULL);
	}
	assert_int_equal(holds_by_name("of a later version"), HOLDS);
	assert_int_equal(holds_by_name(NULL), HOLDS);
}

UNIT_MAIN(NULL, NULL)
