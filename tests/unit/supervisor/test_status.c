/* links: tests/unit/supervisor/master_fixture.c */
/* ldflags: -Wl,--wrap=kill,--wrap=fork,--wrap=log_write,--wrap=holds_list */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "tests/unit/supervisor/master_fixture.h"

#include "common/queue/queue.h"
#include "supervisor/status.h"
#include "tests/unit/unit.h"

static json_t *document;

/* What the document has at this path; text of a string, of others as JSON. Good until the next call. */
static const char *at(const char *path)
{
	static char text[256];
	char copy[128], *rest = copy, *key;
	const json_t *o = document;

	snprintf(copy, sizeof(copy), "%s", path);
	while ((key = strsep(&rest, ".")) != NULL)
		o = json_is_array(o) ? json_array_get(o, strtoul(key, NULL, 10)) : json_object_get(o, key);
	if (o == NULL)
		return "(none)";
	if (json_is_string(o))
		snprintf(text, sizeof(text), "%s", json_string_value(o));
	else
		text[json_dumpb(o, text, sizeof(text) - 1, JSON_ENCODE_ANY | JSON_COMPACT)] = '\0';
	return text;
}

static void look(int64_t now_ms)
{
	json_decref(document);
	document = status_document(&m, now_ms);
	assert_non_null(document);
}

static int teardown(void **state)
{
	json_decref(document);
	document = NULL;
	return master_teardown(state);
}

#define assert_at(path, text) assert_string_equal(at(path), (text))

static struct slot *words(int slot)
{
	return &m.board->slots[slot];
}

static bool meanwhile_paused;	/* the sweeper pauses the queue just before each look at its holds */

size_t __real_holds_list(const struct scoreboard *b, const struct board_queue *q, const struct hold_slots *slots, struct judged all[HOLDS]);
size_t __wrap_holds_list(const struct scoreboard *b, const struct board_queue *q, const struct hold_slots *slots, struct judged all[HOLDS]);

size_t __wrap_holds_list(const struct scoreboard *b, const struct board_queue *q, const struct hold_slots *slots, struct judged all[HOLDS])
{
	if (meanwhile_paused)
		atomic_store(&m.board->queues[q - b->queues].sweeper.gate, QUEUE_PAUSED);
	return __real_holds_list(b, q, slots, all);
}

/* As in the report of the node: no figure of the table is added by hand. */
TEST(each_figure_of_the_table_of_status_is_in_it, master_setup, teardown)
{
	struct facts f = facts_unknown();

	master_add_worker(MAIL, 0, 0);
	look(0);
	facts_read(&f, FACT_OF_HOST, json_array_get(json_object_get(document, "queues"), MAIL), 0);
	for (int i = 0; i < FACTS; i++)
		if ((facts_table[i].in & (IN_STATUS | IN_STATUS_END)) != 0 && f.n[i] < 0)
			fail_msg("%s: not in status", facts_table[i].key);
}

TEST(the_first_hold_is_the_state_whatever_others_write_meanwhile, master_setup, teardown)
{
	for (int i = 0; i < 2; i++)
		master_add_worker(MAIL, i, 0);
	atomic_store(&m.board->queues[MAIL].sweeper.gate, QUEUE_OPEN);
	look(0);
	assert_at("queues.0.state", "running");
	assert_at("queues.0.holds", "[]");
	meanwhile_paused = true;
	look(0);
	meanwhile_paused = false;
	assert_at("queues.0.state", "paused");
	assert_at("queues.0.holds.0.state", "paused");
}

TEST(a_master_without_children_shows_null_for_them, master_setup, teardown)
{
	m.since_ms = 1700000000000;
	m.started_ms = 1000;
	look(4500);
	assert_at("sweeper", "null");
	assert_at("keeper", "null");
	assert_at("workers", "[]");
	assert_at("uptime_ms", "3500");
	assert_at("since", "2023-11-14T22:13:20.000Z");
	assert_at("boot", "00000000000000b0");
	assert_at("node", "n");
	assert_at("redis.connected", "false");
	assert_at("redis.address", "null");
	assert_at("redis.sentinel", "null");
	assert_at("unconfirmed_deaths", "0");
	assert_at("queues.0.workers", "{\"wanted\":2,\"alive\":0,\"draining\":0}");
}

TEST(the_state_of_the_master_is_draining_before_it_is_quiet, master_setup, teardown)
{
	look(0);
	assert_at("state", "running");
	queues_set_all_quiet(&m.queues, true, 0);
	look(0);
	assert_at("state", "quiet");
	m.stop.phase = STOP_FINISHING;
	look(0);
	assert_at("state", "draining");
}

TEST(a_worker_has_an_incarnation_only_once_it_registered, master_setup, teardown)
{
	int slot = master_add_worker(MAIL, 0, 0);

	look(0);
	assert_at("workers.0.incarnation", "null");
	slot_next_generation(words(slot));
	look(0);
	assert_at("workers.0.incarnation", "n.00000000000000b0.1.1");
}

TEST(a_worker_shows_what_it_runs_and_since_when, master_setup, teardown)
{
	int slot = master_add_worker(MAIL, 1, 1000);

	look(2500);
	assert_at("workers.0.name", "mail/1");
	assert_at("workers.0.state", "starting");
	assert_at("workers.0.running_ms", "null");
	assert_at("workers.0.heartbeat_age_ms", "1500");
	assert_at("workers.0.pid", "5000000");
	slot_set_state(words(slot), SLOT_RUNNING);
	atomic_store(&words(slot)->started_ms, 2000);
	atomic_store(&words(slot)->serial, 12);
	atomic_store(&words(slot)->redis_down, 1);
	look(2500);
	assert_at("workers.0.state", "running");
	assert_at("workers.0.running_ms", "500");
	assert_at("workers.0.serial", "12");
	assert_at("workers.0.redis", "false");
}

TEST(a_damaged_state_of_a_slot_is_unknown, master_setup, teardown)
{
	atomic_store(&words(master_add_worker(MAIL, 0, 0))->state, 0xff);
	look(0);
	assert_at("workers.0.state", "unknown");
}

TEST(a_worker_drains_when_it_leaves_or_has_its_order, master_setup, teardown)
{
	int first = master_add_worker(MAIL, 0, 0);

	look(0);
	assert_at("workers.0.draining", "false");
	processes_order(&m.processes, first, ORDER_QUIET, 0);
	look(0);
	assert_at("workers.0.draining", "false");
	processes_order(&m.processes, first, ORDER_FINISH, 0);
	look(0);
	assert_at("workers.0.draining", "true");
	master_end_worker(first, false, 0);
	master_add_worker(MAIL, 0, 0);
	queues_recycle(&m.queues, MAIL, 0);
	look(0);
	assert_at("workers.0.draining", "true");
	assert_at("queues.0.workers", "{\"wanted\":2,\"alive\":0,\"draining\":1}");
}

TEST(workers_are_sorted_by_queue_and_number, master_setup, teardown)
{
	static const struct { int queue, index; } forked[] = { { LATER, 0 }, { MAIL, 10 }, { MAIL, 2 }, { MAIL, 2 } };

	for (size_t i = 0; i < sizeof(forked) / sizeof(forked[0]); i++)
		master_add_worker(forked[i].queue, forked[i].index, 0);
	look(0);
	assert_at("workers.0.name", "mail/2");
	assert_at("workers.0.slot", "3");
	assert_at("workers.1.slot", "4");
	assert_at("workers.2.name", "mail/10");
	assert_at("workers.3.name", "later/0");
	assert_at("workers.4", "(none)");
}

TEST(a_queue_that_left_is_listed_while_its_workers_live, master_setup, teardown)
{
	int slot = master_add_worker(MAIL, 0, 0);

	atomic_store(&m.board->queues[MAIL].sweeper.gate, QUEUE_OPEN);
	queues_leave(&m.queues, MAIL, 0, 0);
	look(0);
	assert_at("queues.0.name", "mail");
	assert_at("queues.0.reason", "left the configuration");
	assert_at("queues.1.name", "later");
	master_end_worker(slot, false, 0);
	look(0);
	assert_at("queues.0.name", "later");
	assert_at("queues.1", "(none)");
}

TEST(a_queue_that_returned_is_listed_once_with_all_its_workers, master_setup, teardown)
{
	int slot = master_add_worker(MAIL, 0, 0);

	atomic_store(&words(slot)->counters[COUNT_DONE], 5);
	queues_leave(&m.queues, MAIL, 0, 0);
	queues_enter(&m.queues, m.config.conf->queues[MAIL]);
	look(0);
	assert_at("queues.0.name", "later");
	assert_at("queues.1.name", "mail");
	assert_at("queues.1.counters.done", "5");
	assert_at("queues.1.workers.draining", "1");
	assert_at("queues.2", "(none)");
}

TEST(every_counter_and_bucket_is_shown, master_setup, teardown)
{
	struct slot *s = words(master_add_worker(MAIL, 0, 0));

	for (int i = 0; i < COUNTERS; i++)
		atomic_store(&s->counters[i], 100 + (uint64_t)i);
	slot_observe(s, 0);
	slot_observe(s, INT64_MAX);
	look(0);
	assert_int_equal(json_object_size(json_object_get(json_array_get(json_object_get(document, "queues"), 0), "counters")), COUNTERS);
	assert_at("queues.0.counters.fetched", "100");
	assert_at("queues.0.durations.0", "{\"below_ms\":1,\"count\":1}");
	assert_at("queues.0.durations.22", "{\"below_ms\":4194304,\"count\":0}");
	assert_at("queues.0.durations.23", "{\"below_ms\":null,\"count\":1}");
	assert_at("queues.0.durations.24", "(none)");
}

TEST(messages_set_aside_are_shown_with_size_and_reason, master_setup, teardown)
{
	struct queue_sweeper *w = &m.board->queues[MAIL].sweeper;

	look(0);
	assert_at("queues.0.aside", "null");
	assert_at("queues.0.undecided", "null");
	atomic_store(&w->aside, 2);
	atomic_store(&w->aside_size, -1);
	atomic_store(&w->undecided, 1);
	look(0);
	assert_at("queues.0.aside", "{\"messages\":2,\"size\":-1,\"reason\":\"messages are set aside: Redis refuses to move them\"}");
	assert_at("queues.0.undecided", doubt_text((enum doubt)0));
}

TEST(sweeper_and_keeper_show_their_processes, master_setup, teardown)
{
	int sweeper = master_add_sweeper(0, 1000), keeper = master_add_keeper(0);

	slot_set_state(words(sweeper), SLOT_CONNECTING);
	atomic_store(&words(keeper)->handler_pgid, 4711);
	look(3000);
	assert_at("sweeper", "{\"pid\":5000000,\"state\":\"connecting\",\"heartbeat_age_ms\":2000}");
	assert_at("keeper", "{\"pid\":5000001,\"redis_pid\":4711,\"unsaved\":null}");
	processes_leave(&m.processes, sweeper, 0);
	look(3000);
	assert_at("sweeper", "null");
}

TEST(a_path_that_is_no_utf8_does_not_hide_the_rest, master_setup, teardown)
{
	char *path = m.config.path;

	m.config.path = (char *)"/etc/\xff";
	look(0);
	assert_at("config", "(not UTF-8)");
	m.config.path = path;
}

TEST(usr2_logs_a_line_for_each_queue_and_worker, master_setup, teardown)
{
	int old = master_add_worker(MAIL, 0, 0);

	queues_leave(&m.queues, MAIL, 0, 0);
	queues_enter(&m.queues, m.config.conf->queues[MAIL]);
	atomic_store(&words(old)->counters[COUNT_DONE], 3);
	m.deaths.n = 2;
	status_log(&m, 1000);
	assert_int_equal(master_count_events("status_queue"), 2);
	assert_logged("status_queue", "queue=mail");
	assert_logged("status_queue", "draining=1 restarts=0 done=3");
	assert_int_equal(master_count_events("status_worker"), 1);
	assert_logged("status_worker", "worker=mail/0 child=5000000 state=starting serial=0 running_ms=-1 heartbeat_age_ms=1000");
	assert_logged("status", "state=running queues=2 workers=1 unconfirmed_deaths=2");
	m.deaths.n = 0;
}

UNIT_MAIN(NULL, NULL)
