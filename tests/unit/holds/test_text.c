/* links: tests/unit/supervisor/master_fixture.c */
/* ldflags: -Wl,--wrap=kill,--wrap=fork,--wrap=log_write */
#include <errno.h>
#include <string.h>

#include "tests/unit/supervisor/master_fixture.h"

#include "common/handler/cause.h"
#include "common/handler/handler.h"
#include "common/holds/holds.h"
#include "common/queue/queue.h"
#include "tests/unit/unit.h"

static int places[2];			/* the slots of the workers */
static struct judged judged;		/* by the last call of explained() */

static struct board_queue *mail(void)
{
	return &m.board->queues[MAIL];
}

static struct slot *slot_of(int index)
{
	return &m.board->slots[places[index]];
}

/* A queue with both its workers, whose gate is open. */
static int setup(void **state)
{
	int r = master_setup(state);

	for (int i = 0; i < 2; i++)
		places[i] = master_add_worker(MAIL, i, 0);
	atomic_store(&mail()->sweeper.gate, QUEUE_OPEN);
	return r;
}

static const char *explained(int64_t now_ms)
{
	static char text[HOLD_TEXT_SIZE];
	struct hold_slots slots;

	queues_publish(&m.queues);
	holds_read_slots(m.board, &slots);
	judged = holds_judge(m.board, mail(), &slots);
	return holds_explain(m.board, mail(), &slots, &judged, m.queues.items[MAIL].conf, now_ms, text);
}

static enum hold judge(void)
{
	explained(0);
	return judged.hold;
}

static void because(int slot, const char *why)
{
	slot_text_set(&slot_of(slot)->redis_why, 0, why, strlen(why), SLOT_TEXT_MAX);
}

TEST(a_lost_connection_has_its_error_and_the_next_attempt, setup, master_teardown)
{
	assert_null(explained(1000));
	for (int i = 0; i < 2; i++)
		atomic_store(&slot_of(i)->redis_down, 1);
	assert_string_equal(explained(1000), "no connection to Redis");
	because(0, "Connection timed out");
	atomic_store(&slot_of(0)->redis_retry_ms, 9000);
	because(1, "Connection refused");
	atomic_store(&slot_of(1)->redis_retry_ms, 3500);
	assert_string_equal(explained(1000), "no connection to Redis: Connection refused; next attempt in 2.5s");
	assert_string_equal(explained(0), "no connection to Redis: Connection refused");
	assert_string_equal(explained(3500), "no connection to Redis: Connection refused");
}

TEST(a_queue_whose_seats_are_taken_says_how_many, setup, master_teardown)
{
	atomic_store(&slot_of(0)->seats, (uint64_t)5 << 32 | 5);
	assert_string_equal(explained(1000), "5 of 5 seats are taken");
	assert_int_equal(judged.hold, HOLD_THROTTLED);
	atomic_store(&slot_of(0)->seats, 5);
	assert_non_null(strstr(explained(1000), "Redis was restarted or replaced"));
	atomic_store(&slot_of(0)->seats, 0);
	assert_null(explained(1000));
}

TEST(a_throttled_queue_has_the_time_of_its_next_start, setup, master_teardown)
{
	atomic_store(&slot_of(0)->throttled_ms, 9000);
	atomic_store(&slot_of(1)->throttled_ms, 3500);
	assert_string_equal(explained(1000), "its rate allows no start now; next start in 2.5s");
	assert_int_equal(judged.hold, HOLD_THROTTLED);
	assert_false(judged.shut);
	assert_string_equal(explained(3500), "its rate allows no start now");
	for (int i = 0; i < 2; i++)
		atomic_store(&slot_of(i)->throttled_ms, 0);
	assert_null(explained(1000));
}

/* Redis cut off a worker, and answered another. The answer is not the reason of the loss. */
TEST(the_text_is_that_of_the_worst_error, setup, master_teardown)
{
	for (int i = 0; i < 2; i++)
		atomic_store(&slot_of(i)->redis_down, 1);
	atomic_store(&slot_of(0)->error, QUEUE_ERROR_NO_REDIS);
	because(0, "Broken pipe");
	atomic_store(&slot_of(0)->redis_retry_ms, 9000);
	atomic_store(&slot_of(1)->error, QUEUE_ERROR_TRANSIENT);
	because(1, "ERR max number of clients reached");
	atomic_store(&slot_of(1)->redis_retry_ms, 3500);
	assert_string_equal(explained(0), "no connection to Redis: Broken pipe");
}

TEST(a_server_that_refuses_has_its_answer_and_the_next_attempt, setup, master_teardown)
{
	for (int i = 0; i < 2; i++) {
		atomic_store(&slot_of(i)->redis_down, 1);
		atomic_store(&slot_of(i)->error, QUEUE_ERROR_TRANSIENT);
		atomic_store(&slot_of(i)->redis_retry_ms, 3500);
		because(i, "MISCONF Redis is configured to save RDB snapshots");
	}
	assert_int_equal(judge(), HOLD_REFUSED);
	assert_string_equal(explained(1000), "Redis refuses commands for now: MISCONF Redis is configured to save RDB snapshots; next attempt in 2.5s");
}

static void fails(int slot, const char *words, int64_t at_ms)
{
	slot_note_failure(slot_of(slot), words, strlen(words), at_ms);
}

TEST(an_open_breaker_has_the_last_words_of_the_handler, setup, master_teardown)
{
	struct queue_breaker *b = &mail()->workers.breaker;
	struct handler_result last = { .end = HANDLER_EXITED, .code = 1 };

	atomic_store(&b->step, 1);
	atomic_store(&b->cause, handler_cause_failures(3, &last));
	fails(1, "unable to open database file", 20);
	fails(0, "an earlier one", 10);
	assert_string_equal(explained(0), "3 different messages failed in a row, the last one with exit status 1: unable to open database file");
	fails(1, "", 30);
	assert_string_equal(explained(0), "3 different messages failed in a row, the last one with exit status 1");
	fails(1, "nobody may not enter /opt", 40);		/* of its files */
	atomic_store(&b->cause, handler_cause_unrunnable("chdir", EACCES));
	assert_string_equal(explained(0), "its handler cannot be executed: chdir: Permission denied: nobody may not enter /opt");
}

TEST(a_hold_does_not_hide_another, setup, master_teardown)
{
	static const char wrong_type[] = "one of its keys has the wrong type";
	struct queue_breaker *b = &mail()->workers.breaker;

	atomic_store(&b->step, 1);
	atomic_store(&b->until_ms, 5000);
	atomic_store(&b->cause, handler_cause_unrunnable("setsid", EPERM));
	assert_string_equal(explained(1000), "its handler cannot be executed: setsid: Operation not permitted; next attempt in 4.0s");
	atomic_store(&mail()->sweeper.gate, QUEUE_PAUSED);
	assert_string_equal(explained(1000),
	    "its handler cannot be executed: setsid: Operation not permitted; also paused (by an operator, until quredis resume)");
	m.queues.quiet = true;
	assert_string_equal(explained(0), "its handler cannot be executed: setsid: Operation not permitted; also paused (by an operator, until quredis resume)"
	    "; also quiet (by an operator of this host, until quredis quiet --off)");
	atomic_store(&slot_of(0)->error, QUEUE_ERROR_WRONG_TYPE);
	assert_memory_equal(explained(1000), wrong_type, strlen(wrong_type));
	assert_string_equal(explained(1000) + strlen(wrong_type), "; also breaker (by its workers, until its handler answers)"
	    "; also paused (by an operator, until quredis resume); and 1 more");
}

TEST(what_passes_within_seconds_is_not_named_besides, setup, master_teardown)
{
	atomic_store(&mail()->sweeper.gate, QUEUE_RECOVERING);
	atomic_store(&mail()->workers.breaker.step, 1);
	atomic_store(&mail()->workers.breaker.cause, handler_cause_unrunnable("setsid", EPERM));
	assert_string_equal(explained(1000), "its handler cannot be executed: setsid: Operation not permitted");
}

TEST(an_error_has_the_text_of_redis_or_the_key, setup, master_teardown)
{
	static const char key[] = "quredis:of:ingress:mail:delayed is a string, but quredis needs a zset";

	because(0, "OOM command not allowed");
	atomic_store(&slot_of(0)->error, QUEUE_ERROR_TRANSIENT);
	assert_string_equal(explained(1000), "Redis refuses commands for now: OOM command not allowed");
	slot_text_set(&mail()->sweeper.why, QUEUE_ERROR_WRONG_TYPE, key, strlen(key), SLOT_TEXT_MAX);
	assert_string_equal(explained(1000), "Redis refuses commands for now: OOM command not allowed");	/* the key is of another error */
	atomic_store(&slot_of(0)->error, QUEUE_ERROR_WRONG_TYPE);
	assert_string_equal(explained(1000), "one of its keys has the wrong type: quredis:of:ingress:mail:delayed is a string, but quredis needs a zset");
	slot_text_clear(&mail()->sweeper.why);
	assert_string_equal(explained(1000), "one of its keys has the wrong type");	/* a worker does not know the key */
	atomic_store(&slot_of(0)->error, queue_error_word(QUEUE_ERROR_NO_COMMAND, COMMAND_LPUSH));
	assert_string_equal(explained(1000), "Redis refuses LPUSH, which quredis needs: this server lacks it or has renamed it");
}

TEST(the_text_of_an_error_that_ended_is_not_shown, setup, master_teardown)
{
	static const char old[] = "ERR of yesterday";

	because(0, "ERR of today");
	slot_text_set(&mail()->sweeper.why, QUEUE_ERROR_OTHER, old, strlen(old), SLOT_TEXT_MAX);
	atomic_store(&mail()->sweeper.error, QUEUE_ERROR_OTHER);
	assert_string_equal(explained(1000), "Redis answers with an error: ERR of yesterday");
	atomic_store(&mail()->sweeper.error, QUEUE_ERROR_NONE);
	atomic_store(&slot_of(0)->error, QUEUE_ERROR_OTHER);
	assert_string_equal(explained(1000), "Redis answers with an error: ERR of today");
}

TEST(an_open_breaker_has_its_cause_and_the_next_attempt, setup, master_teardown)
{
	struct queue_breaker *b = &mail()->workers.breaker;

	atomic_store(&b->step, 1);
	atomic_store(&b->until_ms, 3500);
	assert_string_equal(explained(0), "its handler cannot be executed, or failed too often in a row");
	atomic_store(&b->cause, handler_cause_unrunnable("chdir", EACCES));
	assert_string_equal(explained(1000), "its handler cannot be executed: chdir: Permission denied; next attempt in 2.5s");
	assert_string_equal(explained(3500), "its handler cannot be executed: chdir: Permission denied; next attempt with the next message");
	assert_string_equal(explained(0), "its handler cannot be executed: chdir: Permission denied");
	atomic_store(&b->step, 0);
	assert_null(explained(1000));
}

static void cannot_start(int slot, int error, int64_t next_ms)
{
	atomic_store(&slot_of(slot)->next_start_ms, next_ms);
	atomic_store(&slot_of(slot)->not_started, (uint32_t)error);
}

TEST(a_queue_whose_workers_cannot_start_its_handler_says_what_the_host_lacks, setup, master_teardown)
{
	cannot_start(0, EMFILE, 9000);		/* the other one has not tried */
	assert_string_equal(explained(1000), "its handler cannot be started: a worker may open no more files: raise the limit of the supervisor "
	    "(LimitNOFILE=) (Too many open files); next attempt in 8.0s");
	assert_int_equal(judge(), HOLD_NO_PROCESS);
	cannot_start(1, EAGAIN, 3500);
	assert_non_null(strstr(explained(1000), "raise that limit, or lower workers (Resource temporarily unavailable); next attempt in 2.5s"));
	assert_non_null(strstr(explained(3500), "; next attempt with the next message"));
	atomic_store(&mail()->workers.breaker.step, 1);
	atomic_store(&mail()->sweeper.gate, QUEUE_PAUSED);
	assert_int_equal(judge(), HOLD_NO_PROCESS);
	for (int i = 0; i < 2; i++)
		cannot_start(i, ENFILE, 0);
	assert_non_null(strstr(explained(0), "fs.file-max"));
	for (int i = 0; i < 2; i++)
		cannot_start(i, 70000, 0);		/* a damaged word */
	assert_non_null(strstr(explained(0), "no process, descriptor or memory"));
}

TEST(a_queue_runs_while_one_of_its_workers_starts_handlers, setup, master_teardown)
{
	cannot_start(0, ENOMEM, 9000);
	atomic_store(&slot_of(1)->serial, 1);
	assert_int_equal(judge(), HOLD_NONE);
	assert_non_null(strstr(judged.reason, "has no memory for a process"));
	cannot_start(0, 0, 0);
	assert_int_equal(judge(), HOLD_NONE);
	assert_null(judged.reason);
	cannot_start(1, ENOMEM, 9000);			/* it has started messages before */
	assert_int_equal(judge(), HOLD_NO_PROCESS);
}

TEST(a_wanted_queue_without_a_worker_says_how_the_last_one_ended_and_when_the_next_starts, setup, master_teardown)
{
	for (int i = 0; i < 2; i++)
		master_end_worker(places[i], true, 1000);
	assert_string_equal(explained(0), "no worker lives");
	assert_int_equal(judged.hold, HOLD_NO_WORKER);
	m.queues.items[MAIL].policy.next_spawn_ms = 6000;
	queues_note_end(&m.queues, MAIL, 9, true, 1000);
	assert_string_equal(explained(3000), "no worker lives: signal 9 ended the last one 2.0s ago; the next one starts in 3.0s");
	assert_string_equal(explained(0), "no worker lives: signal 9 ended the last one");
	queues_note_end(&m.queues, MAIL, 3, false, 1000);
	assert_string_equal(explained(0), "no worker lives: the last one exited with status 3");
	atomic_store(&mail()->workers.breaker.step, 1);
	assert_int_equal(judge(), HOLD_NO_WORKER);
	queues_scale(&m.queues, MAIL, 0);
	assert_int_equal(judge(), HOLD_BREAKER);
}

TEST(a_handler_that_was_not_ready_has_its_reason_until_one_is, setup, master_teardown)
{
	static const char text[] = "its new handler was not ready, and workers with the old one go on: no module PIL";
	char out[HOLD_TEXT_SIZE];

	assert_null(holds_explain_not_ready(mail(), out));
	queues_set_not_ready(&m.queues, MAIL, "no module PIL", 0);
	assert_string_equal(explained(1000), text);
	assert_int_equal(judged.hold, HOLD_NONE);
	queues_want_handler(&m.queues, MAIL);			/* the next one is not known to work either */
	assert_string_equal(explained(1000), text);
	assert_false(m.queues.items[MAIL].not_ready);
	atomic_store(&mail()->sweeper.aside, 1);		/* another reason hides it there */
	assert_string_not_equal(explained(1000), text);
	assert_string_equal(holds_explain_not_ready(mail(), out), text);
	queues_widen_not_ready(&m.queues, MAIL);
	assert_string_equal(holds_explain_not_ready(mail(), out),
	    "its handler failed, and none has been ready since: no module PIL");
	assert_int_equal(judge(), HOLD_LOADING);		/* also before the first start */
	queues_set_not_ready(&m.queues, MAIL, NULL, 0);
	assert_null(holds_explain_not_ready(mail(), out));
}

UNIT_MAIN(NULL, NULL)
